"""Matrix products through BLAS, as calls in the driver.

Owns: `write_product`, and `why_not`, which says what BLAS cannot do. Operands are read as they lie:
a transposed view is BLAS's "transposed", a slice its leading dimension. Batches are loops over the
calls.

Invariant: every address and extent is what `np.matmul` means for the operand types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracker.ir.graph import Const, Eqn, Var
from tracker.jit import blas
from tracker.jit.plan import TINY, c_strides

_ROW_MAJOR, _PLAIN, _FLIPPED = 101, 111, 112
_LETTER = {np.dtype(kind): letter for kind, letter in zip("fdFD", "sdcz", strict=True)}
_TEXT = {"s": "float", "d": "double", "c": "float", "z": "double"}


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
    for number, index in enumerate(np.ndindex(*batch)):
        x = _at(driver, left, index, eqn)
        y = _at(driver, right, index, eqn)
        z = driver.e.address(target, eqn.out.type.dtype, str(number * m * n))
        _call(driver, letter, (m, n, k), left, right, (x, y, z))


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


def _at(driver: Any, matrix: _Matrix, index: tuple[int, ...], eqn: Eqn) -> str:
    flat = matrix.start + sum(i * s for i, s in zip(index, matrix.batch, strict=True))
    address: str = driver.e.address(matrix.pointer, eqn.out.type.dtype, str(flat))
    return address


def _call(
    driver: Any,
    letter: str,
    extents: tuple[int, int, int],
    left: _Matrix,
    right: _Matrix,
    where: tuple[str, str, str],
) -> None:
    m, n, k = extents
    x, y, z = where
    found = blas.find()
    assert found is not None
    integer = f"i{found.int_bits}"
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
    driver.symbols.add(name)
    kinds = ", ".join(argument.split()[0] for argument in arguments.split(", "))
    driver.needs.intrinsics.add(f"declare void @{name}({kinds})")
    driver.lines.append(f"  call void @{name}({arguments})")


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
