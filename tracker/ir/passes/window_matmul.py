"""Products of a matrix of windows with a vector: sums of its columns, which are slices.

Owns: the pass `sum_columns`. A moving average, a filter, a convolution by `sliding_window_view`:

    w: f64[m,k] of windows;  w @ v    ->    w[:, 0] * v[0] + w[:, 1] * v[1] + ...
    v @ w, or w.T @ v                 ->    sum(w[:, 0] * v), sum(w[:, 1] * v), ...

BLAS reads a matrix from memory, and the windows would take k times as much as what they are of. As
loops over slices the products are fused with what comes before and after. Products with several
vectors are done so by `jit/kernels/tall_matmul.py`.

Invariants: types stay; linear in the equations; results differ by the order of the sums inside of
products, which BLAS chooses freely anyway.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tracker.ir.graph import Atom, Const, Eqn, Function, Var
from tracker.ir.lowering import Contract, View
from tracker.ir.passes.manager import BodyWriter, as_pass, with_body
from tracker.support.structs import record

_LONG = 2048  # rows; from here on a matrix is long
_MOST = 32  # columns


@as_pass
def sum_columns(function: Function) -> Function:
    """Write products of windows with vectors as products of slices."""
    if not (function.has_op("windows") and function.has_op("matmul")):
        return function
    made: dict[Atom, Eqn] = {eqn.out: eqn for eqn in function.eqns}
    windows = _of_windows(function)
    new = BodyWriter()
    for step in function.body:
        product = _product(step, made, windows) if isinstance(step, Eqn) else None
        if product is None:
            new.body.append(step)
        else:
            assert isinstance(step, Eqn)
            new.where = step.where
            product.write(new, step.out)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


@record(frozen=True)
class _WindowProduct:
    """Windows times a vector. `rows` are the axes of the windows that make up the rows of a long
    matrix, the others its columns. `sums`: the rows are added up, not the columns."""

    windows: Atom
    rows: range
    vector: Atom
    sums: bool

    def write(self, new: BodyWriter, out: Var) -> None:
        """Write it to a body."""
        write = self._sums if self.sums else self._sum
        write(new, list(self._columns(new)), out)

    def _sum(self, new: BodyWriter, columns: list[Var], out: Var) -> None:
        total: Atom = Const.of(out.type.dtype.type(0))
        vector = new.emit("reshape", self.vector, shape=(len(columns),))
        for at, column in enumerate(columns):
            number = new.emit("getitem", vector, index=(at,))
            total = new.emit("add", total, new.emit("multiply", column, number))
        new.emit("reshape", total, shape=out.type.shape, out=out)

    def _sums(self, new: BodyWriter, columns: list[Var], out: Var) -> None:
        room = tuple(self.windows.type.shape[i] for i in self.rows)
        vector = new.emit("reshape", self.vector, shape=room)
        axes = tuple(range(len(room)))
        terms = [new.emit("multiply", column, vector) for column in columns]
        sums = [new.emit("sum", term, axis=axes, keepdims=False) for term in terms]
        new.emit("reshape", new.emit("stack", *sums, axis=0), shape=out.type.shape, out=out)

    def _columns(self, new: BodyWriter) -> Iterator[Var]:
        index: list[Any] = [
            (slice(0, n, 1),) if i in self.rows else range(n)
            for i, n in enumerate(self.windows.type.shape)
        ]
        for at in itertools.product(*index):
            yield new.emit("getitem", self.windows, index=at)


def _product(eqn: Eqn, made: Mapping[Atom, Eqn], windows: set[Atom]) -> _WindowProduct | None:
    """What a product of windows with a vector is; None for others."""
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype.kind not in "fc":
        return None
    a, b = eqn.operands
    if not (isinstance(a, Var) and isinstance(b, Var)) or a.type.dtype != b.type.dtype:
        return None
    if max(a.type.ndim, b.type.ndim) != 2:
        return None
    if b.type.shape[1:] in ((), (1,)):
        matrix, vector, summed = a, b, 1
    elif a.type.shape[:-1] in ((), (1,)):
        matrix, vector, summed = b, a, 0
    else:
        return None
    short, long = sorted(matrix.type.shape) if matrix.type.ndim == 2 else (0, 0)
    if not (1 < short <= _MOST and long >= _LONG and matrix in windows):
        return None
    axis = matrix.type.shape.index(long)
    return _WindowProduct(*_unfolded(matrix, axis, made), vector, summed == axis)


def _of_windows(function: Function) -> set[Atom]:
    """The values that are views of windows."""
    found: set[Atom] = set()
    for eqn in function.eqns:
        is_view = isinstance(eqn.op.lower, View) and len(eqn.operands) == 1
        if eqn.op.name == "windows" or (is_view and eqn.operands[0] in found):
            found.add(eqn.out)
    return found


def _unfolded(matrix: Atom, axis: int, made: Mapping[Atom, Eqn]) -> tuple[Atom, range]:
    """What a matrix is a reshape of, maybe turned, and which of its axes are the long one."""
    eqn, source, at = made.get(matrix), matrix, axis
    if eqn is not None and eqn.op.name == "transpose" and eqn.params["axes"] == (1, 0):
        (source,), at = eqn.operands, 1 - axis
        eqn = made.get(source)
    if eqn is not None and eqn.op.name == "reshape":
        (whole,) = eqn.operands
        count, shape = source.type.shape[at], whole.type.shape
        for cut in range(1, len(shape)):
            rows = range(cut) if at == 0 else range(cut, len(shape))
            if math.prod(shape[i] for i in rows) == count:
                return whole, rows
    return matrix, range(axis, axis + 1)
