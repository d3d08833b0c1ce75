"""Matrix products, as calls in the driver: of BLAS, or of the loops in `small_matmul.py`.

Owns: `write_product`, and `why_no_product`, which says what neither can do. Operands are read as
they lie: a transposed view is BLAS's "transposed", a slice its leading dimension. Batches are loops
over the calls.

Invariants: every address and extent is what `np.matmul` means for the operand types; operands have
the dtype of the result (see `ir/passes/linalg_dtypes.py`).
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import numpy as np

from tracker.ir.graph import Const, Eqn, Var
from tracker.jit.kernels.small_matmul import LETTERS, Matrix, Product, in_loops, operations
from tracker.jit.kernels.tall_matmul import write_rows
from tracker.jit.lapack import routines
from tracker.jit.lapack.blas_calls import PLAIN, ROWS, TURNED
from tracker.jit.lapack.code import Code, Kind
from tracker.jit.runtime import blas, thread_pool
from tracker.jit.scalar.values import memory_type
from tracker.jit.schedule.plan_data import TINY
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record

_TEXT = {"s": "float", "d": "double", "c": "float", "z": "double"}
_ALONE = 9000  # elements of a matrix; OpenBLAS multiplies a vector with 9216 on several threads
_LEAST_ROWS = 4  # of such a part
_WORTH_THREADS = 1 << 20  # elements; from here on BLAS's threads gain more than they may cost
_SHARED = 1 << 18  # elements; from here on ours share the rows, each in the cache of its own
_APART = 4096  # numbers of the sums that threads make for themselves
_GRAM = 48  # rows of a product with its own transpose; from here on half of it is computed


def why_no_product(eqn: Eqn) -> str:
    """Why a product cannot be compiled; empty if it can."""
    if any(o.type.size == 0 for o in eqn.operands):
        return "an empty product"
    if all(o.type.size <= TINY for o in eqn.operands) and eqn.out.type.size <= TINY:
        return ""
    return why_no_call(eqn)


def why_no_call(eqn: Eqn) -> str:
    """Why neither BLAS nor a loop can do a product, if that is not unrolled; empty if one can."""
    if any(isinstance(o, Const) for o in eqn.operands):
        return "a product with a scalar"
    if eqn.out.type.dtype not in LETTERS:
        return ""
    return "" if blas.find() is not None else f"no BLAS: {blas.why_missing()}"


def write_product(driver: Any, eqn: Eqn) -> None:
    """Write `out = a @ b`."""
    rows = driver.plan.rows.get(eqn.out)
    if rows is not None:
        driver.run_rows(write_rows(driver, rows))
        return
    driver.elsewhere += operations(eqn)
    a, b = eqn.operands
    assert isinstance(a, Var) and isinstance(b, Var)
    out = driver.place(eqn.out)
    target = driver.pointer(out.buffer)
    batch = np.broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    left = _matrix(driver, a, batch, row=True)
    right = _matrix(driver, b, batch, row=False)
    m, k, n = left.rows, left.columns, right.columns
    product = Product(eqn.out.type.dtype, (m, n, k), left, right, driver.place(a), driver.place(b))
    x, y = (_start(driver, matrix, eqn) for matrix in (left, right))
    if _is_cut(product, batch):
        _write_cut(driver, product, (x, y, target))
    elif math.prod(batch) == 1 and product.letter:
        name, arguments = _blas_call(driver, product, (x, y, target))
        _write_call(driver, name, arguments)
    else:
        _write_stack(driver, product, batch, (x, y, target))


def _matrix(driver: Any, var: Var, batch: tuple[int, ...], *, row: bool) -> Matrix:
    place = driver.place(var)
    shape, strides = var.type.shape, place.strides
    if place.kind == "tiny":
        pointer, strides, start = driver.spill(var), c_strides(shape), 0
    else:
        pointer, start = driver.pointer(place.buffer), place.start
    if len(shape) == 1:
        if row:
            shape, strides = (1, *shape), (shape[0] * strides[0], strides[0])
        else:
            shape, strides = (*shape, 1), (strides[0], 1)
    (m, n), (down, across) = shape[-2:], strides[-2:]
    flipped = not (across == 1 and (down >= n or m == 1))
    if row and len(var.type.shape) == 1 and across != 1:
        flipped = True  # a strided vector is a column read flipped
    lead = max(across if flipped else down, m if flipped else n)
    if flipped and m == 1 and across != 1:
        lead = across
    padded = (0,) * (len(batch) - (len(shape) - 2)) + tuple(
        0 if extent == 1 else stride
        for extent, stride in zip(shape[:-2], strides[:-2], strict=True)
    )
    return Matrix(pointer, start, flipped, lead, m, n, padded)


def _start(driver: Any, matrix: Matrix, eqn: Eqn) -> str:
    address: str = driver.e.address(matrix.pointer, eqn.out.type.dtype, str(matrix.start))
    return address


def _write_call(driver: Any, name: str, arguments: str) -> None:
    driver.symbols.add(name)
    driver.needs.intrinsics.add(_declaration(name, arguments))
    driver.lines.append(f"  {_called(name, arguments)}")


def _declaration(name: str, arguments: str) -> str:
    kinds = ", ".join(argument.split()[0] for argument in arguments.split(", "))
    return f"declare {_result(name)} @{name}({kinds})"


def _called(name: str, arguments: str) -> str:
    return f"call {_result(name)} @{name}({arguments})"


def _result(name: str) -> str:
    return "void" if name.startswith("cblas") else "i64"


def _write_stack(
    driver: Any, product: Product, batch: tuple[int, ...], where: tuple[str, str, str]
) -> None:
    """A function that goes through a stack of products, and its call."""
    m, n, _ = product.extents
    text = memory_type(product.dtype)
    number = len(driver.bodies)
    c = Code(
        f"stack{number}", ["ptr %x", "ptr %y", "ptr noalias %z"], linkage="internal ", first=number
    )
    steps = [m * n * s for s in c_strides(batch)]
    with ExitStack() as loops:
        index = [loops.enter_context(c.plain_loop(0, extent)) for extent in batch]
        moved = []
        for name, strides in zip(
            "xyz", (product.left.batch, product.right.batch, steps), strict=True
        ):
            flat = "0"
            for i, stride in zip(index, strides, strict=True):
                flat = c.add(flat, c.mul(i, stride)) if stride else flat
            moved.append(c.let(f"getelementptr {text}, ptr %{name}, i64 {flat}"))
        x, y, z = moved
        if product.is_small or not product.letter:
            in_loops(c, product, (x, y, z))
        else:
            name, arguments = _blas_call(driver, product, (x, y, z))
            driver.symbols.add(name)
            driver.needs.intrinsics.add(_declaration(name, arguments))
            c.lines.append(f"  {_called(name, arguments)}")
    c.give()
    driver.bodies.append(c.text())
    x, y, z = where
    driver.e.write(f"call i64 @{c.name}(ptr {x}, ptr {y}, ptr {z})")


@record(frozen=True)
class _Gemv:
    """A matrix, as it is stored, times a vector: what BLAS's gemv is told, and whether it is the
    right operand that is the matrix."""

    matrix: Matrix
    rows: int
    columns: int
    how: int
    step: int
    swapped: bool


def _gemv(product: Product) -> _Gemv | None:
    """A product with a vector; None for others."""
    (m, n, k), left, right = product.extents, product.left, product.right
    if product.letter not in ("s", "d") or (m != 1 and n != 1):
        return None
    if n == 1:
        step = 1 if right.flipped else right.lead
        if left.flipped:
            return _Gemv(left, k, m, TURNED, step, False)
        return _Gemv(left, m, k, PLAIN, step, False)
    step = left.lead if left.flipped else 1
    if right.flipped:
        return _Gemv(right, n, k, PLAIN, step, True)
    return _Gemv(right, k, n, TURNED, step, True)


def _is_cut(product: Product, batch: tuple[int, ...]) -> bool:
    """Whether it is a matrix times a vector. For those of middling size BLAS would wake threads
    that are not worth it: on a busy machine it waits for them a hundred times as long as the
    product takes. Which these are is asked when it runs: another shape has the same text."""
    return _gemv(product) is not None and math.prod(batch) == 1


def _shares(gemv: _Gemv) -> int:
    """How many threads share the rows."""
    size, count = gemv.rows * gemv.columns, thread_pool.threads()
    if not _SHARED <= size <= _WORTH_THREADS or (count - 1) * gemv.columns > _APART:
        return 1
    return count


def _write_cut(driver: Any, product: Product, where: tuple[str, str, str]) -> None:
    """Multiply so many rows at a time that BLAS does them alone, where that is better."""
    gemv, library, letter = _gemv(product), blas.find(), product.letter
    assert gemv is not None and library is not None
    integer = f"i{library.int_bits}"
    driver.symbols.add(f"cblas_{letter}gemv")
    narrow = "trunc i64 {} to i32" if integer == "i32" else "add i64 {}, 0"
    lines = [
        f"  %int.{name} = {narrow.format(f'%{name}')}"
        for name in ("count", "columns", "lead", "step")
    ]
    numbers = {"letter": letter, "t": _TEXT[letter], "int": integer, "lines": "\n".join(lines)}
    bounds = {"ALONE": _ALONE, "WORTH": _WORTH_THREADS, "WIDE": _ALONE // _LEAST_ROWS}
    text = _filled(_CUT, **numbers, **bounds, ROWS=ROWS, TURNED=TURNED)
    t = _TEXT[letter]
    name = f"tk.{letter}gemv"
    if (shares := _shares(gemv)) > 1:
        shared = _filled(
            _SHARED_CUT,
            letter=letter,
            t=t,
            THREADS=shares,
            TURNED=TURNED,
            COUNT=len(_FRAME),
            STORED="\n".join(thread_pool.stored(_FRAME, "%frame")),
            LOADED="\n".join(thread_pool.loaded(_FRAME)),
        )
        driver.symbols.add(thread_pool.NAME)
        driver.needs.intrinsics |= {shared, thread_pool.DECLARED}
        name += ".shared"
    given = (
        f"i32, i32, {integer}, {integer}, {t}, ptr, {integer}, ptr, {integer}, {t}, ptr, {integer}"
    )
    driver.needs.intrinsics |= {text, _declaration(f"cblas_{letter}gemv", given)}
    x, y, z = where
    matrix, vector = (y, x) if gemv.swapped else (x, y)
    driver.lines.append(
        f"  call void @{name}(i32 {gemv.how}, i64 {gemv.rows}, i64 {gemv.columns}, "
        f"ptr {matrix}, i64 {gemv.matrix.lead}, ptr {vector}, i64 {gemv.step}, ptr {z})"
    )


def _filled(text: str, **values: Any) -> str:
    """A text with values in the place of their names, which stand between dollar signs."""
    for name, value in values.items():
        text = text.replace(f"${name}$", str(value))
    return text


_CUT = """
define internal void @tk.$letter$gemv(
  i32 %how, i64 %rows, i64 %columns, ptr %a, i64 %lead, ptr %x, i64 %step, ptr noalias %z
) noinline {
start:
  %turned = icmp eq i32 %how, $TURNED$
  %all = mul i64 %rows, %columns
  %few = icmp sle i64 %all, $ALONE$
  %many = icmp sgt i64 %all, $WORTH$
  %wide = icmp sgt i64 %columns, $WIDE$
  %extreme = or i1 %few, %many
  %whole = or i1 %extreme, %wide
  br i1 %whole, label %part, label %cut
cut:
  %so.many = sdiv i64 $ALONE$, %columns
  br label %part
part:
  %r = phi i64 [ 0, %start ], [ 0, %cut ], [ %next, %part ]
  %most = phi i64 [ %rows, %start ], [ %so.many, %cut ], [ %most, %part ]
  %left = sub i64 %rows, %r
  %last = icmp slt i64 %left, %most
  %count = select i1 %last, i64 %left, i64 %most
  %at = mul i64 %r, %lead
  %rows.part = getelementptr $t$, ptr %a, i64 %at
  %far = mul i64 %r, %step
  %x.at = select i1 %turned, i64 %far, i64 0
  %x.part = getelementptr $t$, ptr %x, i64 %x.at
  %z.at = select i1 %turned, i64 0, i64 %r
  %z.part = getelementptr $t$, ptr %z, i64 %z.at
  %later = icmp ne i64 %r, 0
  %adds = and i1 %turned, %later
  %beta = select i1 %adds, $t$ 1.0, $t$ 0.0
$lines$
  call void @cblas_$letter$gemv(i32 $ROWS$, i32 %how, $int$ %int.count, $int$ %int.columns, $t$ 1.0,
    ptr %rows.part, $int$ %int.lead, ptr %x.part, $int$ %int.step, $t$ %beta, ptr %z.part, $int$ 1)
  %next = add i64 %r, %count
  %more = icmp slt i64 %next, %rows
  br i1 %more, label %part, label %done
done:
  ret void
}
"""


# The rows of a matrix in as many parts as there are threads. What each sums of columns is in memory
# of its own (%apart), but for the first's.
_FRAME = (
    *("i32 %how", "i64 %rows", "i64 %columns", "ptr %a", "i64 %lead", "ptr %x", "i64 %step"),
    *("ptr %z", "ptr %apart"),
)
_SHARED_CUT = """
define internal void @tk.$letter$gemv.shared(
  i32 %how, i64 %rows, i64 %columns, ptr %a, i64 %lead, ptr %x, i64 %step, ptr noalias %z
) noinline {
start:
  %frame = alloca [$COUNT$ x i64], align 16
  %apart.count = mul i64 %columns, $THREADS$
  %apart = alloca $t$, i64 %apart.count, align 64
$STORED$
  call void @tk.parallel(ptr @tk.$letter$gemv.task, ptr %frame, i64 $THREADS$)
  %turned = icmp eq i32 %how, $TURNED$
  br i1 %turned, label %join, label %done
join:
  %i = phi i64 [ 0, %start ], [ %i.next, %joined ]
  %z.i = getelementptr $t$, ptr %z, i64 %i
  %first = load $t$, ptr %z.i
  br label %add
add:
  %tid = phi i64 [ 1, %join ], [ %tid.next, %add ]
  %sum = phi $t$ [ %first, %join ], [ %sum.next, %add ]
  %row = mul i64 %tid, %columns
  %at = add i64 %row, %i
  %part.i = getelementptr $t$, ptr %apart, i64 %at
  %part = load $t$, ptr %part.i
  %sum.next = fadd $t$ %sum, %part
  %tid.next = add i64 %tid, 1
  %more.parts = icmp slt i64 %tid.next, $THREADS$
  br i1 %more.parts, label %add, label %joined
joined:
  store $t$ %sum.next, ptr %z.i
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %columns
  br i1 %more, label %join, label %done
done:
  ret void
}

define internal void @tk.$letter$gemv.task(ptr %frame, i64 %tid) noinline {
$LOADED$
  %lo.all = mul i64 %rows, %tid
  %lo = sdiv i64 %lo.all, $THREADS$
  %hi.all = add i64 %lo.all, %rows
  %hi = sdiv i64 %hi.all, $THREADS$
  %count = sub i64 %hi, %lo
  %at = mul i64 %lo, %lead
  %a.part = getelementptr $t$, ptr %a, i64 %at
  %turned = icmp eq i32 %how, $TURNED$
  %far = mul i64 %lo, %step
  %x.at = select i1 %turned, i64 %far, i64 0
  %x.part = getelementptr $t$, ptr %x, i64 %x.at
  %z.part = getelementptr $t$, ptr %z, i64 %lo
  %apart.at = mul i64 %tid, %columns
  %apart.part = getelementptr $t$, ptr %apart, i64 %apart.at
  %is.first = icmp eq i64 %tid, 0
  %sums = select i1 %is.first, ptr %z, ptr %apart.part
  %to = select i1 %turned, ptr %sums, ptr %z.part
  call void @tk.$letter$gemv(i32 %how, i64 %count, i64 %columns, ptr %a.part, i64 %lead,
    ptr %x.part, i64 %step, ptr %to)
  ret void
}
"""


def _is_gram(product: Product) -> bool:
    """Whether it is large, and a matrix times its own transpose: half of it is enough."""
    left, right = product.left, product.right
    return (
        not routines.missing("gram", _kind(product.letter))
        and product.extents[0] >= _GRAM
        and product.a.buffer is not None
        and product.a.buffer is product.b.buffer
        and left.start == right.start
        and left.flipped != right.flipped
        and (left.rows, left.columns) == (right.columns, right.rows)
        and (left.lead, left.batch) == (right.lead, right.batch)
    )


def _blas_call(driver: Any, product: Product, where: tuple[str, str, str]) -> tuple[str, str]:
    """The name of the function, and its arguments."""
    m, n, k = product.extents
    left, right = product.left, product.right
    x, y, z = where
    found = blas.find()
    assert found is not None
    integer = f"i{found.int_bits}"
    letter = product.letter
    if _is_gram(product):
        sizes = (n, k, left.lead, int(left.flipped))
        return _kind(letter).symbol("gram"), f"ptr {x}, ptr {z}, " + ", ".join(
            f"i64 {size}" for size in sizes
        )
    one, zero = _factors(driver, letter)
    gemv = _gemv(product)
    if gemv is not None:
        matrix, vector = (y, x) if gemv.swapped else (x, y)
        name = f"cblas_{letter}gemv"
        arguments = (
            f"i32 {ROWS}, i32 {gemv.how}, {integer} {gemv.rows}, {integer} {gemv.columns}, {one}, "
            f"ptr {matrix}, {integer} {gemv.matrix.lead}, ptr {vector}, {integer} {gemv.step}, "
            f"{zero}, ptr {z}, {integer} 1"
        )
    else:
        name = f"cblas_{letter}gemm"
        flips = [TURNED if matrix.flipped else PLAIN for matrix in (left, right)]
        arguments = (
            f"i32 {ROWS}, i32 {flips[0]}, i32 {flips[1]}, {integer} {m}, {integer} {n}, "
            f"{integer} {k}, {one}, ptr {x}, {integer} {left.lead}, ptr {y}, "
            f"{integer} {right.lead}, {zero}, ptr {z}, {integer} {n}"
        )
    return name, arguments


def _kind(letter: str) -> Kind:
    found = blas.find()
    assert found is not None
    return Kind(letter, f"i{found.int_bits}")


def _factors(driver: Any, letter: str) -> tuple[str, str]:
    """One and zero, as BLAS takes them: complex ones by address."""
    text = _TEXT[letter]
    if letter in "sd":
        return f"{text} 1.0", f"{text} 0.0"
    for name, value in (("one", "1.0"), ("zero", "0.0")):
        driver.needs.intrinsics.add(
            f"@tk.{name}.{letter} = private constant [2 x {text}] [{text} {value}, {text} 0.0]"
        )
    return f"ptr @tk.one.{letter}", f"ptr @tk.zero.{letter}"
