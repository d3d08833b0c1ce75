"""Matrix products as functions that call BLAS, or the loops in `small_matmul.py`.

Operands are read in place: a transposed view is BLAS's "transposed", a slice its leading dimension.
Batches are loops over calls. `why_no_product` says which products neither can compute.

Invariants: every address and extent is what `np.matmul` means for the operand types; operands have
the dtype of the result (`ir/passes/linalg_dtypes.py`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Const, Eqn, Var
from tracker.jit.kernels.small_matmul import (
    LETTERS,
    Matrix,
    Product,
    emit_product_loops,
)
from tracker.jit.kernels.tall_matmul import plan_rows, sums_of_threads
from tracker.jit.lapack import routines
from tracker.jit.lapack.library_calls import NOT_TRANSPOSED, ROW_MAJOR, TRANSPOSED, call_blas
from tracker.jit.lapack.routine_writer import MatrixKind, RoutineWriter, internal_routine
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.runtime import blas, thread_pool
from tracker.jit.scalar.values import memory_type
from tracker.jit.schedule.plan_data import UNROLL_LIMIT, Unrolled
from tracker.jit.schedule.steps import LoopFunction, result_buffer
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_MAX_SINGLE_THREADED = 9000  # elements of a matrix; OpenBLAS starts threads at 9216
_LEAST_ROWS = 4  # rows of a part
_MAX_OWN_THREADS = 1 << 20  # elements; from here on BLAS's threads pay
_MIN_THREADED = 1 << 18  # elements; from here on our threads share the rows, each in its own cache
_MAX_PARTIAL_SUMS = 4096  # elements of the partial sums of all threads
_MIN_GRAM_ROWS = 48  # rows; from here on only half of a product with its own transpose is computed


def why_no_product(eqn: Eqn) -> str:
    """Why a product cannot be compiled; empty if it can."""
    if any(o.type.size == 0 for o in eqn.operands):
        return "an empty product"
    if all(o.type.size <= UNROLL_LIMIT for o in eqn.operands) and eqn.out.type.size <= UNROLL_LIMIT:
        return ""
    return why_no_call(eqn)


def why_no_call(eqn: Eqn) -> str:
    """Why neither BLAS nor a loop can compute a product that is not unrolled; empty if one can."""
    if any(isinstance(o, Const) for o in eqn.operands):
        return "a product with a scalar"
    if eqn.out.type.dtype not in LETTERS:
        return ""
    return "" if blas.find() is not None else f"no BLAS: {blas.why_missing()}"


@record(eq=False)
class ProductStep:
    """out = a @ b, by BLAS or in loops."""

    eqn: Eqn

    @property
    def name(self) -> str:
        return "by BLAS"

    def emit(self, driver: Driver) -> None:
        _emit_product(driver, self.eqn)


def plan_product(planner: Planner, eqn: Eqn) -> None:
    """Plan a product: unrolled, in loops over rows, or by BLAS."""
    if plan_rows(planner, eqn):
        return
    operands = [o for o in eqn.operands if isinstance(o, Var)]
    most = max(o.type.size for o in (*operands, eqn.out))
    unrolls = most <= planner.unroll_limits.array
    unrolls = unrolls or (most <= UNROLL_LIMIT and why_no_call(eqn) != "")
    level = 0
    for o in operands:
        planner.store_or_alias(o, operands)
        location = planner.locations[o] if unrolls else planner.blas_operand(o)
        level = max(level, location.ready)
    if unrolls:
        planner.add_unrolled(eqn, level)
        return
    planner.allocate(eqn.out, level + 1)
    planner.plan.products.setdefault(level, []).append(ProductStep(eqn))


def _emit_product(driver: Driver, eqn: Eqn) -> None:
    a, b = eqn.operands
    assert isinstance(a, Var) and isinstance(b, Var)
    target = driver.pointer(result_buffer(driver, eqn))
    batch = np.broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    left = _matrix(driver, a, batch, row=True)
    right = _matrix(driver, b, batch, row=False)
    m, k, n = left.rows, left.columns, right.columns
    product = Product(
        dtype=eqn.out.type.dtype,
        extents=(m, n, k),
        left=left,
        right=right,
        a=driver.location(a),
        b=driver.location(b),
    )
    x, y = (
        driver.e.address(matrix.pointer, product.dtype, str(matrix.start))
        for matrix in (left, right)
    )
    gemv = _gemv(product) if math.prod(batch) == 1 else None
    if gemv is not None and (threads := _thread_count(gemv)) > 1:
        kind, where = routines.matrix_kind(product.letter), gemv.of_operands((x, y, target))
        driver.call_loops(_shared_gemv(driver, kind, gemv, where, threads))
    else:
        _emit_products(driver, product, batch, (x, y, target))


def _matrix(driver: Driver, var: Var, batch: tuple[int, ...], *, row: bool) -> Matrix:
    location = driver.location(var)
    shape, strides = var.type.shape, location.strides
    if isinstance(location, Unrolled):
        pointer, strides, start = driver.spill(var), c_strides(shape), 0
    else:
        assert location.buffer is not None
        pointer, start = driver.pointer(location.buffer), location.start
    if len(shape) == 1:
        if row:
            shape, strides = (1, *shape), (shape[0] * strides[0], strides[0])
        else:
            shape, strides = (*shape, 1), (strides[0], 1)
    (m, n), (down, across) = shape[-2:], strides[-2:]
    transposed = not (across == 1 and (down >= n or m == 1))
    if row and len(var.type.shape) == 1 and across != 1:
        transposed = True  # a strided vector is a transposed column
    lead = max(across if transposed else down, m if transposed else n)
    if transposed and m == 1 and across != 1:
        lead = across
    padded = (0,) * (len(batch) - (len(shape) - 2)) + tuple(
        0 if extent == 1 else stride
        for extent, stride in zip(shape[:-2], strides[:-2], strict=True)
    )
    return Matrix(pointer, start, transposed, lead, m, n, padded)


def _emit_products(
    driver: Driver, product: Product, batch: tuple[int, ...], where: tuple[str, str, str]
) -> None:
    """A function that loops over a batch of products, and its call."""
    m, n, _ = product.extents
    parameters = ["ptr %x", "ptr %y", "ptr noalias %z"]
    steps = [m * n * s for s in c_strides(batch)]
    strides = {"%x": product.left.batch_strides, "%y": product.right.batch_strides, "%z": steps}
    if product.letter:
        kind = routines.matrix_kind(product.letter)
        c: FunctionWriter = RoutineWriter("KERNEL", parameters, kind, result="void", attributes="")
    else:
        c = FunctionWriter("KERNEL", parameters, attributes="")
        c.element_type = memory_type(product.dtype)
    with c.each_of_stack(batch, strides) as (x, y, z):
        if isinstance(c, RoutineWriter) and not (product.is_small and math.prod(batch) > 1):
            _call_blas(driver, c, product, (x, y, z))
        else:
            emit_product_loops(c, product, (x, y, z))
    c.ret()
    c.linkage = ""
    driver.needs.intrinsics |= c.declared
    arguments = [f"ptr {pointer}" for pointer in where]
    driver.call_loops(LoopFunction(c.text().removeprefix("define "), arguments, 1, None))


def _call_blas(
    driver: Driver, c: RoutineWriter, product: Product, where: tuple[str, str, str]
) -> None:
    """Multiply, on one of our threads."""
    m, n, k = product.extents
    left, right, gemv = product.left, product.right, _gemv(product)
    x, y, z = where
    if gemv is not None:
        c.emit(_gemv_call(driver, c.kind, gemv, gemv.rows, gemv.of_operands(where)))
        return
    if _is_gram(product):
        sizes = (n, k, left.leading_dimension, int(left.transposed))
        symbol = c.kind.symbol("gram")
        c.call("i64", symbol, [f"ptr {x}", f"ptr {z}", *(f"i64 {size}" for size in sizes)])
    else:
        flags = [TRANSPOSED if each.transposed else NOT_TRANSPOSED for each in (left, right)]
        operands = x, left.leading_dimension, y, right.leading_dimension
        symbol = c.kind.blas("gemm")
        call_blas(c, "gemm", ROW_MAJOR, *flags, m, n, k, "1.0", *operands, "0.0", z, n)
    driver.symbols.add(symbol)


@record(frozen=True)
class _Gemv:
    """A matrix as it is stored times a vector: the arguments of BLAS's gemv, and whether the matrix
    is the right operand."""

    matrix: Matrix
    rows: int
    columns: int
    transpose: int
    increment: int
    matrix_is_right: bool

    def of_operands(self, where: tuple[str, str, str]) -> tuple[str, str, str]:
        """The matrix, the vector and the result, of both operands and the result."""
        x, y, z = where
        return (y, x, z) if self.matrix_is_right else where


def _gemv(product: Product) -> _Gemv | None:
    """A product with a vector as a gemv; None for other products."""
    (m, n, k), left, right = product.extents, product.left, product.right
    if product.letter not in ("s", "d") or (m != 1 and n != 1):
        return None
    if n == 1:
        step = 1 if right.transposed else right.leading_dimension
        if left.transposed:
            return _Gemv(left, k, m, TRANSPOSED, step, False)
        return _Gemv(left, m, k, NOT_TRANSPOSED, step, False)
    step = left.leading_dimension if left.transposed else 1
    if right.transposed:
        return _Gemv(right, n, k, NOT_TRANSPOSED, step, True)
    return _Gemv(right, k, n, TRANSPOSED, step, True)


def _thread_count(gemv: _Gemv) -> int:
    """How many of our threads share the rows."""
    size, count = gemv.rows * gemv.columns, thread_pool.thread_count()
    if (
        not _MIN_THREADED <= size <= _MAX_OWN_THREADS
        or (count - 1) * gemv.columns > _MAX_PARTIAL_SUMS
    ):
        return 1
    return count


def _gemv_call(
    driver: Driver, kind: MatrixKind, gemv: _Gemv, rows: object, where: tuple[str, str, str]
) -> str:
    """The call of a function that multiplies so few rows at a time that BLAS stays on one thread,
    where that is faster. For middling sizes BLAS would wake threads that are not worth it: on a
    busy machine it waits for them a hundred times as long as the product takes. The size is
    compared at run time, so that another shape has the same text."""
    driver.symbols.add(kind.blas("gemv"))
    by_rows = _gemv_by_rows(kind)
    driver.needs.intrinsics |= {by_rows.text(), *by_rows.declared}
    matrix, vector, target = where
    return (
        f"call void @{by_rows.name}(i32 {gemv.transpose}, i64 {rows}, i64 {gemv.columns}, "
        f"ptr {matrix}, i64 {gemv.matrix.leading_dimension}, "
        f"ptr {vector}, i64 {gemv.increment}, ptr {target})"
    )


_GEMV_PARAMETERS = (
    *("i32 %how", "i64 %rows", "i64 %columns", "ptr %a", "i64 %lead", "ptr %x", "i64 %step"),
    "ptr noalias %z",
)


def _gemv_by_rows(kind: MatrixKind) -> RoutineWriter:
    """A matrix times a vector, of middling size by parts of so few rows that BLAS does not start
    threads."""
    c = internal_routine(f"tk.{kind.letter}gemv", _GEMV_PARAMETERS, kind)
    transposed = c.let(f"icmp eq i32 %how, {TRANSPOSED}")
    size = c.mul("%rows", "%columns")
    extreme = c.let(
        f"or i1 {c.compare('sle', size, _MAX_SINGLE_THREADED)}, "
        f"{c.compare('sgt', size, _MAX_OWN_THREADS)}"
    )
    is_wide = c.compare("sgt", "%columns", _MAX_SINGLE_THREADED // _LEAST_ROWS)
    most, first = c.variable("%rows"), c.variable(0)
    with c.when(c.logical_not(c.let(f"or i1 {extreme}, {is_wide}"))):
        c.set(most, c.let(f"sdiv i64 {_MAX_SINGLE_THREADED}, %columns"))
    with c.repeat() as parts:
        r = c.get(first)
        left = c.sub("%rows", r)
        count = c.select(c.compare("slt", left, c.get(most)), left, c.get(most))
        rows = c.address("%a", c.mul(r, "%lead"))
        x = c.address("%x", c.select(transposed, c.mul(r, "%step"), 0))
        z = c.address("%z", c.select(transposed, 0, r))
        adds = c.let(f"and i1 {transposed}, {c.compare('ne', r, 0)}")
        beta = c.select_element(adds, "1.0", "0.0")
        matrix, vectors = (count, "%columns", "1.0", rows, "%lead"), (x, "%step", beta, z, 1)
        call_blas(c, "gemv", ROW_MAJOR, "%how", *matrix, *vectors)
        c.extend(first, count)
        c.leave_if(c.compare("sge", c.get(first), "%rows"), parts)
    c.ret()
    return c


def _shared_gemv(
    driver: Driver, kind: MatrixKind, gemv: _Gemv, where: tuple[str, str, str], threads: int
) -> LoopFunction:
    """A gemv whose rows are divided among threads; sums over rows are in memory of each thread."""
    matrix, vector, target = where
    sums_rows, n = gemv.transpose == TRANSPOSED, gemv.columns
    parameters, join = ["ptr %a", "ptr %x", "ptr %z"], None
    c = internal_routine("KERNEL", [*parameters, *thread_pool.PART_PARAMETERS], kind)
    rows = c.address("%a", c.mul("%lo", gemv.matrix.leading_dimension))
    x = c.address("%x", c.mul("%lo", gemv.increment)) if sums_rows else "%x"
    z = c.address("%z", c.mul("%tid", n) if sums_rows else "%lo")
    c.emit(_gemv_call(driver, kind, gemv, c.sub("%hi", "%lo"), (rows, x, z)))
    c.ret()
    task = thread_pool.task_text(parameters, gemv.rows, -(-gemv.rows // threads))
    if sums_rows:
        apart = f"%apart{len(driver.spills)}"
        driver.spills.append(f"  {apart} = alloca [{threads * n} x {kind.real_type}], align 64")
        join = sums_of_threads(kind.real_type, n, threads), [f"ptr {apart}", f"ptr {target}"]
        target = apart
    arguments = [f"ptr {pointer}" for pointer in (matrix, vector, target)]
    return LoopFunction(f"{task}\n{c.text()}", arguments, threads, join)


def _is_gram(product: Product) -> bool:
    """Whether it is a large product of a matrix with its own transpose: half of it suffices."""
    left, right = product.left, product.right
    return (
        not routines.missing_symbol("gram", routines.matrix_kind(product.letter))
        and product.extents[0] >= _MIN_GRAM_ROWS
        and product.a.buffer is not None
        and product.a.buffer is product.b.buffer
        and left.start == right.start
        and left.transposed != right.transposed
        and (left.rows, left.columns) == (right.columns, right.rows)
        and (left.leading_dimension, left.batch_strides)
        == (right.leading_dimension, right.batch_strides)
    )
