"""Matrix products through BLAS, as calls in the driver.

Owns: `write_product`, and `why_not`, which says what BLAS cannot do. Operands are read as they lie:
a transposed view is BLAS's "transposed", a slice its leading dimension. Batches are loops over the
calls.

Invariant: every address and extent is what `np.matmul` means for the operand types.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracker.ir.graph import Const, Eqn, Var
from tracker.jit import blas
from tracker.jit.dense import routines
from tracker.jit.dense.code import Code
from tracker.jit.layout import TINY, Place, c_strides

_ROW_MAJOR, _PLAIN, _FLIPPED = 101, 111, 112
_LETTER = {np.dtype(kind): letter for kind, letter in zip("fdFD", "sdcz", strict=True)}
_TEXT = {"s": "float", "d": "double", "c": "float", "z": "double"}
_ELEMENT = {"s": "float", "d": "double", "c": "[2 x float]", "z": "[2 x double]"}
_REAL = "sd"
_GRAM = 48  # rows of a product with its own transpose; from here on half of it is computed
_WIDE = 16  # columns of such a product
_INLINE = 512  # multiplications; up to here the products of a stack are loops


def why_not(eqn: Eqn) -> str:
    """Why a product cannot be compiled; empty if it can."""
    dtypes = {o.type.dtype for o in eqn.operands}
    if any(o.type.size == 0 for o in eqn.operands):
        return "an empty product"
    if all(o.type.size <= TINY for o in eqn.operands) and eqn.out.type.size <= TINY:
        return ""
    if len(dtypes) != 1 or dtypes.pop() not in _LETTER:
        return "a product of dtypes that BLAS does not know"
    if any(isinstance(o, Const) for o in eqn.operands):
        return "a product with a scalar"
    return "" if blas.find() is not None else f"no BLAS: {blas.why_missing()}"


@dataclass(slots=True)
class _Matrix:
    """The last two axes of an operand, as BLAS sees them, and its batch strides."""

    pointer: str
    start: int
    flipped: bool
    lead: int
    rows: int
    columns: int
    batch: tuple[int, ...]


def write_product(driver: Any, eqn: Eqn) -> None:
    """Write `out = a @ b`."""
    a, b = eqn.operands
    assert isinstance(a, Var) and isinstance(b, Var)
    letter = _LETTER[eqn.out.type.dtype]
    out = driver.place(eqn.out)
    target = driver.pointer(out.buffer)
    batch = np.broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    left = _matrix(driver, a, batch, row=True)
    right = _matrix(driver, b, batch, row=False)
    m, k, n = left.rows, left.columns, right.columns
    product = _Product(letter, (m, n, k), left, right, driver.place(a), driver.place(b))
    x, y = (_start(driver, matrix, eqn) for matrix in (left, right))
    if math.prod(batch) == 1:
        name, arguments = _blas_call(driver, product, (x, y, target))
        _write_call(driver, name, arguments)
    else:
        _write_stack(driver, product, batch, (x, y, target))


def _matrix(driver: Any, var: Var, batch: tuple[int, ...], *, row: bool) -> _Matrix:
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
    return _Matrix(pointer, start, flipped, lead, m, n, padded)


def _start(driver: Any, matrix: _Matrix, eqn: Eqn) -> str:
    address: str = driver.e.address(matrix.pointer, eqn.out.type.dtype, str(matrix.start))
    return address


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of an m x k and a k x n matrix; `extents` are (m, n, k)."""

    letter: str
    extents: tuple[int, int, int]
    left: _Matrix
    right: _Matrix
    a: Place
    b: Place

    def is_gram(self) -> bool:
        """Whether it is large, and a matrix times its own transpose: half of it is enough."""
        left, right = self.left, self.right
        return (
            self.letter == "d"
            and not routines.missing("gram")
            and self.extents[0] >= _GRAM
            and self.a.buffer is not None
            and self.a.buffer is self.b.buffer
            and left.start == right.start
            and left.flipped != right.flipped
            and (left.rows, left.columns) == (right.columns, right.rows)
            and (left.lead, left.batch) == (right.lead, right.batch)
        )


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
    driver: Any, product: _Product, batch: tuple[int, ...], where: tuple[str, str, str]
) -> None:
    """A function that goes through a stack of products, and its call."""
    m, n, k = product.extents
    text = _ELEMENT[product.letter]
    number = len(driver.bodies)
    c = Code(f"stack{number}", ["ptr %x", "ptr %y", "ptr %z"], linkage="internal ", first=number)
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
        if m * n * k <= _INLINE and n <= _WIDE and product.letter in _REAL:
            _multiply(c, product, (x, y, z))
        else:
            name, arguments = _blas_call(driver, product, (x, y, z))
            driver.symbols.add(name)
            driver.needs.intrinsics.add(_declaration(name, arguments))
            c.lines.append(f"  {_called(name, arguments)}")
    c.give()
    driver.bodies.append(c.text())
    x, y, z = where
    driver.e.write(f"call i64 @{c.name}(ptr {x}, ptr {y}, ptr {z})")


def _multiply(c: Code, product: _Product, where: tuple[str, str, str]) -> None:
    """A small product: a row of the result at a time, as a vector."""
    m, n, k = product.extents
    text = _TEXT[product.letter]
    row = f"<{n} x {text}>"
    x, y, z = where
    align = f"align {4 if text == 'float' else 8}"

    def at(pointer: str, matrix: _Matrix, i: object, j: object) -> str:
        if matrix.flipped:
            i, j = j, i
        flat = c.add(c.mul(i, matrix.lead), j)
        return c.let(f"getelementptr {text}, ptr {pointer}, i64 {flat}")

    def right_row(p: str) -> str:
        if not product.right.flipped:
            return c.let(f"load {row}, ptr {at(y, product.right, p, 0)}, {align}")
        made = "poison"
        for j in range(n):
            number = c.let(f"load {text}, ptr {at(y, product.right, p, j)}")
            made = c.let(f"insertelement {row} {made}, {text} {number}, i64 {j}")
        return made

    with c.plain_loop(0, m) as i:
        total = c.cell("zeroinitializer", row)
        with c.plain_loop(0, k) as p:
            number = c.let(f"load {text}, ptr {at(x, product.left, i, p)}")
            first = c.let(f"insertelement {row} poison, {text} {number}, i64 0")
            mask = f"<{n} x i32> zeroinitializer"
            spread = c.let(f"shufflevector {row} {first}, {row} poison, {mask}")
            term = c.let(f"fmul contract {row} {spread}, {right_row(p)}")
            c.set(total, c.let(f"fadd contract {row} {c.get(total, row)}, {term}"), row)
        target = c.let(f"getelementptr {text}, ptr {z}, i64 {c.mul(i, n)}")
        c.lines.append(f"  store {row} {c.get(total, row)}, ptr {target}, {align}")


def _blas_call(driver: Any, product: _Product, where: tuple[str, str, str]) -> tuple[str, str]:
    """The name of the function, and its arguments."""
    m, n, k = product.extents
    left, right = product.left, product.right
    x, y, z = where
    found = blas.find()
    assert found is not None
    integer = f"i{found.int_bits}"
    letter = product.letter
    if product.is_gram():
        sizes = (n, k, left.lead, int(left.flipped))
        return "tk.gram", f"ptr {x}, ptr {z}, " + ", ".join(f"i64 {size}" for size in sizes)
    one, zero = _factors(driver, letter)
    if n == 1 and letter in "sd":  # matrix @ vector
        step = right.lead if not right.flipped else 1
        trans, rows, columns = (_FLIPPED, k, m) if left.flipped else (_PLAIN, m, k)
        name = f"cblas_{letter}gemv"
        arguments = (
            f"i32 {_ROW_MAJOR}, i32 {trans}, {integer} {rows}, {integer} {columns}, {one}, "
            f"ptr {x}, {integer} {left.lead}, ptr {y}, {integer} {step}, {zero}, "
            f"ptr {z}, {integer} 1"
        )
    else:
        name = f"cblas_{letter}gemm"
        flips = [_FLIPPED if matrix.flipped else _PLAIN for matrix in (left, right)]
        arguments = (
            f"i32 {_ROW_MAJOR}, i32 {flips[0]}, i32 {flips[1]}, {integer} {m}, {integer} {n}, "
            f"{integer} {k}, {one}, ptr {x}, {integer} {left.lead}, ptr {y}, "
            f"{integer} {right.lead}, {zero}, ptr {z}, {integer} {n}"
        )
    return name, arguments


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
