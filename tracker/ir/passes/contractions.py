"""Sums of products of arrays that broadcast, as matrix products.

    sum (x: [n,k,1]) * (w: [k,m]) over k     ->    x.reshape(n, k) @ w

Axes that both factors have and the sum keeps are those of a stack of products.

NumPy code without `einsum` writes contractions this way, and so do convolutions whose loops are
batched. Views of axes of one element, transposes, added zeros, and further sums may stand between
the product and the last sum.

Invariants: types stay, and products read what they compute in; linear in the equations, as no value
is looked through twice; results differ by the order of sums, and float32 is added up in float32,
which BLAS does, too.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Var
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.support.structs import record

_MIN_WORK = 1 << 12  # multiplications; for fewer a loop is as good
_DTYPES = "fdFD"  # of BLAS
_MIN_SIDE = 4  # elements of each factor's own axes, and of those that are summed


@as_pass()
def contract_products(function: Function) -> Function:
    """Make sums of products matrix products, where these are large enough."""
    if not (function.has_op("multiply") and function.has_op("sum")):
        return function
    uses = function.uses
    defined = {eqn.out: eqn for eqn in function.eqns}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        found = _find_contraction(eqn, defined, uses) if eqn.op.name == "sum" else None
        return found is not None and found.emit(new, eqn.out)

    return rewrite_equations(function, rewrite)


@record(frozen=True)
class _Contraction:
    """sum of x * y over the axes of the product that are not `kept` (in the order of the result;
    None: an axis of one element)."""

    x: Atom
    y: Atom
    shape: tuple[int, ...]
    kept: tuple[int | None, ...]

    def emit(self, new: BodyWriter, out: Var) -> bool:
        """Write a matrix product; False if the sum is none, or a small one."""
        factors = []
        for factor in (self.x, self.y):
            missing = len(self.shape) - factor.type.ndim
            extents = (1,) * missing + factor.type.shape
            factors.append({axis for axis, n in enumerate(extents) if n > 1})
        shared = factors[0] & factors[1]
        kept = [axis for axis in self.kept if axis is not None and self.shape[axis] > 1]
        left, right = ([axis for axis in kept if axis in f - shared] for f in factors)
        batch = [axis for axis in kept if axis in shared]
        summed = [axis for axis in sorted(shared) if axis not in kept]
        if (factors[0] | factors[1]) - {*kept} - shared:
            return False
        m, k, n = (self._size(axes) for axes in (left, summed, right))
        if min(m, k, n) < _MIN_SIDE or m * k * n < _MIN_WORK:
            return False
        dtype = out.type.dtype
        x = self._matrices(new, _cast(new, self.x, dtype), batch, left, summed)
        y = self._matrices(new, _cast(new, self.y, dtype), batch, summed, right)
        product = new.emit("matmul", x, y)
        axes = [*batch, *left, *right]
        product = new.reshape(product, tuple(self.shape[axis] for axis in axes))
        order = tuple(axes.index(axis) for axis in kept)
        if order != tuple(range(len(order))):
            product = new.emit("transpose", product, axes=order)
        new.emit("reshape", product, shape=out.type.shape, out=out)
        return True

    def _size(self, axes: list[int]) -> int:
        return math.prod([self.shape[axis] for axis in axes])

    def _matrices(
        self, new: BodyWriter, factor: Var, batch: list[int], rows: list[int], columns: list[int]
    ) -> Var:
        """A factor as a matrix, or a stack of them. Where its columns come before its rows, it is a
        transposed matrix, which BLAS reads where it is."""
        missing = len(self.shape) - factor.type.ndim
        found = sorted([*batch, *rows, *columns])
        is_transposed = found == [*batch, *columns, *rows] != [*batch, *rows, *columns]
        if is_transposed:
            rows, columns = columns, rows
        order = tuple([found.index(axis) for axis in (*batch, *rows, *columns)])
        made = new.reshape(factor, tuple([factor.type.shape[axis - missing] for axis in found]))
        if order != tuple(range(len(order))):
            made = new.emit("transpose", made, axes=order)
        stack = tuple([self.shape[axis] for axis in batch])
        made = new.reshape(made, (*stack, self._size(rows), self._size(columns)))
        if is_transposed:
            axes = (*range(len(stack)), len(stack) + 1, len(stack))
            made = new.emit("transpose", made, axes=axes)
        return made


def _cast(new: BodyWriter, factor: Atom, dtype: np.dtype[Any]) -> Var:
    assert isinstance(factor, Var)
    return factor if factor.type.dtype == dtype else new.emit("astype", factor, dtype=dtype)


def _find_contraction(
    eqn: Eqn, defined: dict[Var, Eqn], uses: Counter[Atom]
) -> _Contraction | None:
    """The product that a sum adds up, seen through what stands between."""
    kept: tuple[int | None, ...] = tuple(range(eqn.out.type.ndim))
    dtype = eqn.out.type.dtype
    while eqn.operands:  # a table has none
        source = eqn.operands[0]
        step = _positions_before(eqn, {at for at in kept if at is not None})
        if step is None or source.type.dtype != dtype or dtype.char not in _DTYPES:
            return None
        kept = tuple(None if at is None else step[at] for at in kept)
        source = _without_added_zero(source, defined, uses)
        if not isinstance(source, Var) or source not in defined or uses[source] != 1:
            return None
        eqn = defined[source]
        if eqn.op.name == "multiply":
            x, y = eqn.operands
            if not isinstance(x, Var) or not isinstance(y, Var):
                return None
            if not all(_is_cast(o.type.dtype, dtype) for o in (x, y)):
                return None
            return _Contraction(x, y, source.type.shape, kept)
    return None


def _is_cast(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a factor of this dtype is real, and cast to that of the product, or has it."""
    return given == dtype or (given.kind in "biuf" and dtype.kind == "f")


def _without_added_zero(atom: Atom, defined: dict[Var, Eqn], uses: Counter[Atom]) -> Atom:
    """x of `x + 0.0`, or the atom itself: where sums start makes no difference to a product."""
    eqn = defined.get(atom) if isinstance(atom, Var) and uses[atom] == 1 else None
    if eqn is not None and eqn.op.name == "add":
        for zeros, x in (eqn.operands, eqn.operands[::-1]):
            made = defined.get(zeros) if isinstance(zeros, Var) else None
            if made is not None and made.op.name == "broadcast_to":
                (zeros,) = made.operands
            if isinstance(zeros, Const) and zeros.value == 0 and x.type == atom.type:
                return x
    return atom


def _positions_before(eqn: Eqn, kept: set[int]) -> list[int | None] | None:
    """For each axis of a result that of the operand which it is (None: one of one element); None if
    the equation is no sum, or no view of this kind."""
    shape, params = eqn.operands[0].type.shape, eqn.params
    if eqn.op.name == "sum":
        axes = params["axis"]
        if params["keepdims"]:
            return [None if axis in axes else axis for axis in range(len(shape))]
        return [axis for axis in range(len(shape)) if axis not in axes]
    if eqn.op.name == "transpose":
        return list(params["axes"])
    if eqn.op.name == "reshape":
        axes = [axis for axis, n in enumerate(shape) if n > 1]
        if [shape[axis] for axis in axes] != [n for n in eqn.out.type.shape if n > 1]:
            return None
        remaining = iter(axes)
        return [next(remaining) if n > 1 else None for n in eqn.out.type.shape]
    if eqn.op.name == "getitem":
        for axis, (part, n) in enumerate(zip(params["index"], shape, strict=False)):
            is_reversed = part == slice(n - 1, None, -1) and axis not in kept
            if part != slice(0, n, 1) and not is_reversed:
                return None
        return [*range(len(shape))] if len(params["index"]) == len(shape) else None
    return None
