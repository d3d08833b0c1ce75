"""Matrix products as loops: small ones, for which a BLAS call costs more than the product, and
those of integers and booleans, which BLAS does not have.

`Product` describes a product as BLAS would see it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.scalar.values import memory_type
from tracker.jit.schedule.plan_data import Location
from tracker.support.structs import record

LETTERS = {np.dtype(kind): letter for kind, letter in zip("fdFD", "sdcz", strict=True)}
_MAX_SMALL = 512  # multiplications; up to here real products are loops
_MAX_COLUMNS = 16  # columns of such a product


@record()
class Matrix:
    """The last two axes of an operand, as BLAS sees them, and the strides of its batch axes."""

    pointer: str
    start: int
    transposed: bool
    leading_dimension: int
    rows: int
    columns: int
    batch_strides: tuple[int, ...]

    def place(self, c: FunctionWriter, i: object, j: object) -> str:
        """The distance of an element from the first."""
        if self.transposed:
            i, j = j, i
        return c.add(c.mul(i, self.leading_dimension), j)


@record(frozen=True)
class Product:
    """A product of an m x k and a k x n matrix; `extents` is (m, n, k)."""

    dtype: np.dtype[Any]
    extents: tuple[int, int, int]
    left: Matrix
    right: Matrix
    a: Location
    b: Location

    @property
    def letter(self) -> str:
        """BLAS's letter for the dtype; empty for dtypes that BLAS does not have."""
        return LETTERS.get(self.dtype, "")

    @property
    def is_small(self) -> bool:
        m, n, k = self.extents
        return m * n * k <= _MAX_SMALL and n <= _MAX_COLUMNS and self.letter in ("s", "d")


def emit_product_loops(c: FunctionWriter, product: Product, where: tuple[str, str, str]) -> None:
    """Emit a product without BLAS."""
    write = _vector_rows if product.is_small else _integer_loops
    write(c, product, where)


def _vector_rows(c: FunctionWriter, product: Product, where: tuple[str, str, str]) -> None:
    """A small product: one row of the result at a time, as a vector."""
    m, n, k = product.extents
    text = memory_type(product.dtype)
    row = f"<{n} x {text}>"
    x, y, z = where
    align = f"align {product.dtype.itemsize}"
    left, right = product.left, product.right

    def right_row(p: str) -> str:
        if not right.transposed:
            return c.let(f"load {row}, ptr {c.address(y, right.place(c, p, 0), text)}, {align}")
        return c.vector_of(text, [c.load(y, right.place(c, p, j), text) for j in range(n)])

    with c.loop(0, m) as i:
        total = c.variable("zeroinitializer", row)
        with c.loop(0, k) as p:
            number = c.load(x, left.place(c, i, p), text)
            spread = c.splat(n, text, number)
            c.set(total, c.multiply_add(spread, right_row(p), c.get(total), row))
        target = c.address(z, c.mul(i, n), text)
        c.emit(f"store {row} {c.get(total)}, ptr {target}, {align}")


def _integer_loops(c: FunctionWriter, product: Product, where: tuple[str, str, str]) -> None:
    """A product of integers, which wrap around, or of booleans ("any" of "and")."""
    m, n, k = product.extents
    text = memory_type(product.dtype)
    times, plus = ("and", "or") if product.dtype.kind == "b" else ("mul", "add")
    left, right = product.left, product.right
    x, y, z = where

    def term(total: str, a: str, b: str) -> str:
        return c.let(f"{plus} {text} {total}, {c.let(f'{times} {text} {a}, {b}')}")

    with c.loop(0, m) as i:
        if n == 1 or right.transposed:  # element by element
            with c.loop(0, n) as j:
                total = c.variable(0, text)
                with c.loop(0, k) as p:
                    a = c.load(x, left.place(c, i, p), text)
                    b = c.load(y, right.place(c, p, j), text)
                    c.set(total, term(c.get(total), a, b))
                c.store(c.get(total), z, c.add(c.mul(i, n), j), text)
        else:  # row by row
            with c.loop(0, n) as j:
                c.store(0, z, c.add(c.mul(i, n), j), text)
            with c.loop(0, k) as p:
                a = c.load(x, left.place(c, i, p), text)
                with c.loop(0, n) as j:
                    b = c.load(y, right.place(c, p, j), text)
                    target = c.address(z, c.add(c.mul(i, n), j), text)
                    c.store(term(c.load(target, kind=text), a, b), target, kind=text)
