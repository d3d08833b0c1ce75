"""Many small matrix products made one large one.

Owns: the passes `batch_products` and `join_products`. A loop over time steps leaves a product per
step, and its pullback another: BLAS is several times faster on one product of all of them.

    x[0] @ w, x[1] @ w, ...           ->  p = x @ w, of which each is a row
    a0 @ b0 + a1 @ b1 + ...           ->  [a0 a1 ...] @ [b0; b1; ...]

Like `simplify.py` it names ops, for it relates several. Invariants: types stay; both passes are
linear in the equations; results differ by the order of the sums inside of products, which BLAS
chooses freely anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.passes import Writer, as_pass, with_body
from tracker.records import field, record

_MANY = 5  # products; fewer are left alone
_MOST = 1 << 21  # elements of a result in which the rows of many products are kept


class _Builder(Writer):
    """The new body."""

    def transposed(self, matrix: Var) -> Var:
        return self.make("transpose", matrix, axes=(1, 0))


@record(frozen=True)
class _Row:
    """Row number `at` of a matrix."""

    matrix: Var
    at: int


class _Rows:
    """Which values are rows of a matrix, as vectors or as matrices of one row or column."""

    def __init__(self) -> None:
        self._rows: dict[Atom, _Row] = {}
        self._sources: dict[Atom, Var] = {}

    def visit(self, eqn: Eqn) -> None:
        shape = eqn.out.type.shape
        if not shape or eqn.out.type.size != max(shape):
            return
        source = eqn.operands[0] if eqn.operands else None
        if not isinstance(source, Var):
            return
        if eqn.op.name in ("reshape", "transpose") and source.type.size == eqn.out.type.size:
            self._sources[eqn.out] = self.vector(source)
            if source in self._rows:
                self._rows[eqn.out] = self._rows[source]
        elif eqn.op.name == "getitem" and source.type.ndim == 2:
            row = _row_index(eqn.params["index"], source.type.shape)
            if row is not None:
                self._rows[eqn.out] = _Row(source, row)

    def of(self, atom: Atom) -> _Row | None:
        return self._rows.get(atom)

    def vector(self, var: Var) -> Var:
        """What a vector is a reshaped or transposed view of."""
        return self._sources.get(var, var)


def _row_index(index: tuple[Any, ...], shape: tuple[int, ...]) -> int | None:
    """i, if a canonical index means row i as a whole."""
    if len(index) != 2 or index[1] != slice(0, shape[1], 1):
        return None
    if isinstance(index[0], slice):
        start, stop, step = index[0].indices(shape[0])
        return start if len(range(start, stop, step)) == 1 else None
    return index[0] if isinstance(index[0], int) else None


# ------------------------------------------------------------------------- one factor in common


@record()
class _Batch:
    """Products of rows of one matrix with one other; `made` holds them, once it is there."""

    flipped: bool
    low: int
    high: int
    count: int = 0
    made: Var | None = None


@as_pass
def batch_products(function: Function) -> Function:
    """x[0] @ w, x[1] @ w, ... -> the rows of x @ w; and likewise w @ x[i]."""
    if not function.has("matmul"):
        return function
    rows = _Rows()
    batches: dict[tuple[Var, Var, bool], _Batch] = {}
    members: dict[Eqn, tuple[tuple[Var, Var, bool], int]] = {}
    for eqn in function.eqns:
        rows.visit(eqn)
        if eqn.op.name != "matmul":
            continue
        for flipped, (a, b) in enumerate((eqn.operands, eqn.operands[::-1])):
            row = rows.of(a)
            if row is None or not _is_factor(a, b, bool(flipped)):
                continue
            assert isinstance(b, Var)
            key = (row.matrix, b, bool(flipped))
            batch = batches.setdefault(key, _Batch(bool(flipped), row.at, row.at))
            batch.low, batch.high = min(batch.low, row.at), max(batch.high, row.at)
            batch.count += 1
            members[eqn] = key, row.at
            break
    wanted = {key for key, batch in batches.items() if _pays(batch, key[1])}
    if not wanted:
        return function
    new = _Builder()
    for step in function.body:
        member = members.get(step) if isinstance(step, Eqn) else None
        if member is None or member[0] not in wanted:
            new.body.append(step)
            continue
        assert isinstance(step, Eqn)
        key, at = member
        new.where = step.where
        batch = batches[key]
        if batch.made is None:
            factor = new.transposed(key[1]) if batch.flipped else key[1]
            batch.made = new.make("matmul", new.rows_of(key[0], batch.low, batch.high + 1), factor)
        _take_row(new, batch.made, at - batch.low, step.out)
    return with_body(function, new.body)


def _is_factor(a: Atom, b: Atom, flipped: bool) -> bool:
    """Whether a, a row, and b, a matrix, are multiplied as vector and matrix."""
    if b.type.ndim != 2 or a.type.dtype != b.type.dtype or not isinstance(b, Var):
        return False
    axis = 0 if flipped else a.type.ndim - 1  # the one that the product sums over
    return a.type.shape[axis] == a.type.size


def _pays(batch: _Batch, factor: Var) -> bool:
    span = batch.high - batch.low + 1
    width = factor.type.shape[0 if batch.flipped else 1]
    return batch.count >= _MANY and batch.count * 2 >= span and span * width <= _MOST


def _take_row(new: _Builder, matrix: Var, at: int, out: Var) -> None:
    index = (at, slice(0, matrix.type.shape[1], 1))
    if out.type.ndim == 1:
        new.make("getitem", matrix, out=out, index=index)
    else:
        new.make("reshape", new.make("getitem", matrix, index=index), out=out, shape=out.type.shape)


# -------------------------------------------------------------------------- sums of products


@record()
class _Sum:
    """A sum: products, each with its place in the body, and other terms."""

    products: list[tuple[int, Eqn]] = field(default_factory=list)
    others: list[Atom] = field(default_factory=list)


@as_pass
def join_products(function: Function) -> Function:
    """a0 @ b0 + a1 @ b1 + ... -> one product of the a's side by side and the b's stacked."""
    if not (function.has("matmul") and function.has("add")):
        return function
    rows = _Rows()
    sums = _sums(function, rows)
    found = {out: s for out, s in sums.items() if len(s.products) >= _MANY and _is_worth(s)}
    if not found:
        return function
    new = _Builder()
    for step in function.body:
        total = found.get(step.out) if isinstance(step, Eqn) else None
        if total is None:
            new.body.append(step)
            continue
        assert isinstance(step, Eqn)
        new.where = step.where
        _write_sum(new, total, rows, step.out)
    return with_body(function, new.body)


def _sums(function: Function, rows: _Rows) -> dict[Atom, _Sum]:
    """The sums that hold products, by their results."""
    uses = function.uses
    found: dict[Atom, _Sum] = {}
    for number, eqn in enumerate(function.body):
        if isinstance(eqn, Guard):
            continue
        rows.visit(eqn)
        if eqn.op.name == "matmul" and all(o.type.ndim == 2 for o in eqn.operands):
            found[eqn.out] = _Sum([(number, eqn)])
        elif eqn.op.name == "add":
            parts = [
                found.pop(o) if o in found and uses[o] == 1 and o.type == eqn.out.type else None
                for o in eqn.operands
            ]
            if any(parts):
                found[eqn.out] = _together(eqn.operands, parts)
    return found


def _together(operands: Sequence[Atom], parts: Sequence[_Sum | None]) -> _Sum:
    """The sum of two; the smaller goes into the larger, so that long chains take linear time."""
    sums = sorted((p for p in parts if p is not None), key=lambda p: -len(p.products))
    total = sums[0]
    for part in sums[1:]:
        total.products += part.products
        total.others += part.others
    total.others += [o for o, part in zip(operands, parts, strict=True) if part is None]
    return total


def _is_worth(total: _Sum) -> bool:
    """Whether copying the factors side by side costs less than adding up the products."""
    first = total.products[0][1].out.type
    m, n = first.shape
    inner = sum(eqn.operands[0].type.shape[1] for _, eqn in total.products)
    return inner * (m + n) < 2 * m * n * len(total.products)


def _write_sum(new: _Builder, total: _Sum, rows: _Rows, out: Var) -> None:
    products = [eqn for _, eqn in sorted(total.products, key=lambda p: -p[0])]
    left, right = ([eqn.operands[side] for eqn in products] for side in (0, 1))
    for side in (left, right):
        known = [rows.of(o) for o in side]
        if all(row is not None for row in known) and _is_run(known):
            order = sorted(range(len(side)), key=lambda i: known[i].at)  # type: ignore[union-attr]
            left, right = [left[i] for i in order], [right[i] for i in order]
            break
    a = new.transposed(_stacked(new, left, rows, flipped=True))
    b = _stacked(new, right, rows, flipped=False)
    product = new.make("matmul", a, b, out=None if total.others else out)
    for number, other in enumerate(total.others):
        last = number == len(total.others) - 1
        product = new.make("add", other, product, out=out if last else None)


def _is_run(rows: Sequence[_Row | None]) -> bool:
    """Whether these are different rows of one matrix, without a gap."""
    places = {row.at for row in rows if row is not None}
    matrices = {row.matrix for row in rows if row is not None}
    return len(matrices) == 1 and len(places) == len(rows) == max(places) - min(places) + 1


def _stacked(new: _Builder, factors: Sequence[Atom], rows: _Rows, *, flipped: bool) -> Var:
    """The factors (flipped: their transposes) below each other; a piece of a matrix, where they
    are its rows, in order."""
    known = [rows.of(factor) for factor in factors]
    lines = all(f.type.shape[1 if flipped else 0] == 1 for f in factors)
    if lines and all(row is not None for row in known) and _is_run(known):
        first, last = known[0], known[-1]
        assert first is not None and last is not None
        if last.at - first.at == len(factors) - 1:
            return new.rows_of(first.matrix, first.at, last.at + 1)
    parts = []
    for factor in factors:
        assert isinstance(factor, Var)
        part = factor
        if lines:
            part = rows.vector(factor)
            size = part.type.size
            part = part if part.type.ndim == 1 else new.make("reshape", part, shape=(size,))
        elif flipped:
            part = new.transposed(factor)
        parts.append(part)
    joined = new.make("concatenate", *parts, axis=0)
    if not lines:
        return joined
    return new.make("reshape", joined, shape=(len(parts), joined.type.size // len(parts)))
