"""Many small matrix products made one large one.

Owns: the passes `batch_products` and `join_products`. A loop over time steps leaves a product per
step, and its pullback another: BLAS is several times faster on one product of all of them.

    x[0] @ w, x[1] @ w, ...           ->  p = x @ w, of which each is a row
    a0 @ b0 + a1 @ b1 + ...           ->  [a0 a1 ...] @ [b0; b1; ...]

Like `simplify.py` it names ops, for it relates several. Invariants: types stay; both passes are
linear in the equations; results differ by the order of the sums inside of products, which BLAS
chooses freely anyway.

Sums of two matrix products with a factor in common: one product.

Owns: the pass `factor_products`. The pullback of `b @ b.T`, of a quadratic form, of a distance
between all pairs, adds two products of the same matrix:

    g @ b + (b.T @ g).T    ->    (g + g.T) @ b

Data: a product is known by its two `_Factor`s, each a matrix that is taken as it is or transposed;
the transpose of a product is one too, and so is a product in another shape (of a tensor). Like
`matmul_batching.py` it names ops, for it relates several.
Invariants: types stay; linear in the equations; results differ by the order of sums, which BLAS
chooses freely anyway.

Products over one term: a column times a row is no matter for BLAS.

Owns: the pass `outer_products`. The pullback of a matrix times a vector is such a product:

    a: f64[m,1] @ b: f64[1,n]    ->    a * b + 0.0

As a loop it is fused with what reads it, which need not read a matrix from memory. The sum is what
NumPy's product is, too: 0.0 where the factors' product is -0.0. It comes after
`matmul_batching.py`, which makes one product of the outer products that are added up.

Invariants: types stay; the same numbers, signed zeros included; linear in the equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.lowering import Contract
from tracker.ir.passes.manager import BodyWriter, as_pass, with_body
from tracker.support.structs import field, record

_WIDE = 4  # columns (or rows) of the result, from which adding factors costs less than a product


class _Factor(NamedTuple):
    matrix: Atom
    flipped: bool

    @property
    def dtype(self) -> Any:
        return self.matrix.type.dtype

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.type.shape
        return (columns, rows) if self.flipped else (rows, columns)

    def transposed(self) -> _Factor:
        return _Factor(self.matrix, not self.flipped)


class _FactoredProduct(NamedTuple):
    left: _Factor
    right: _Factor

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]


@as_pass
def factor_products(function: Function) -> Function:
    """a @ x + b @ x -> (a + b) @ x, and x @ a + x @ b -> x @ (a + b)."""
    if not (function.has_op("matmul") and function.has_op("add")):
        return function
    products = _Products(function)
    new = BodyWriter()
    found = False
    for step in function.body:
        pair = products.visit(step) if isinstance(step, Eqn) else None
        if pair is None:
            new.body.append(step)
            continue
        assert isinstance(step, Eqn)
        new.where = step.where
        factors, shape = _factored(new, *pair), step.out.type.shape
        if shape == pair[0].shape:
            new.emit("matmul", *factors, out=step.out)
        else:
            new.emit("reshape", new.emit("matmul", *factors), shape=shape, out=step.out)
        found = True
    return with_body(function, new.body) if found else function


class _Products:
    """The products among the values of a function that were visited, as factors."""

    def __init__(self, function: Function) -> None:
        self._uses = function.uses
        self._flipped: dict[Atom, _Factor] = {}
        self._known: dict[Atom, _FactoredProduct] = {}

    def visit(self, eqn: Eqn) -> tuple[_FactoredProduct, _FactoredProduct] | None:
        """Note what an equation says of products; the two that it adds, if one can be made of
        them."""
        name, operands = eqn.op.name, eqn.operands
        if name == "matmul" and all(o.type.ndim == 2 for o in operands):
            self._known[eqn.out] = _FactoredProduct(*map(self._factor, operands))
        elif name == "transpose" and eqn.params["axes"] == (1, 0):
            self._flipped[eqn.out] = self._factor(operands[0]).transposed()
            product = self._only_here(operands[0])
            if product is not None and product.shape == operands[0].type.shape:
                left, right = product
                self._known[eqn.out] = _FactoredProduct(right.transposed(), left.transposed())
        elif name == "reshape":
            product = self._only_here(operands[0])
            if product is not None:
                self._known[eqn.out] = product
        elif name == "add":
            a, b = map(self._only_here, operands)
            alike = operands[0].type.shape == operands[1].type.shape
            if alike and a is not None and b is not None and _pays(a, b):
                return a, b
        return None

    def _factor(self, matrix: Atom) -> _Factor:
        return self._flipped.get(matrix, _Factor(matrix, False))

    def _only_here(self, atom: Atom) -> _FactoredProduct | None:
        """The product that an atom is, if nobody else reads it."""
        return self._known.get(atom) if self._uses[atom] == 1 else None


def _pays(a: _FactoredProduct, b: _FactoredProduct) -> bool:
    """Whether there is a factor in common, and adding the others is less than another product."""
    if a.shape != b.shape:
        return False
    if a.left == b.left:
        return a.right.dtype == b.right.dtype and a.shape[0] >= _WIDE
    return a.right == b.right and a.left.dtype == b.left.dtype and a.shape[1] >= _WIDE


def _factored(new: BodyWriter, a: _FactoredProduct, b: _FactoredProduct) -> tuple[Atom, Atom]:
    if a.left == b.left:
        return _written(new, a.left), _sum(new, a.right, b.right)
    return _sum(new, a.left, b.left), _written(new, a.right)


def _sum(new: BodyWriter, a: _Factor, b: _Factor) -> Atom:
    if a.flipped and b.flipped:
        return _written(new, _Factor(new.emit("add", a.matrix, b.matrix), True))
    return new.emit("add", _written(new, a), _written(new, b))


def _written(new: BodyWriter, factor: _Factor) -> Atom:
    return new.emit("transpose", factor.matrix, axes=(1, 0)) if factor.flipped else factor.matrix


_MANY = 5  # products; fewer are left alone
_MOST = 1 << 21  # elements of a result in which the rows of many products are kept


class _ProductWriter(BodyWriter):
    """The new body."""

    def transposed(self, matrix: Var) -> Var:
        return self.emit("transpose", matrix, axes=(1, 0))


@record(frozen=True)
class _MatrixRow:
    """Row number `at` of a matrix."""

    matrix: Var
    at: int


class _Rows:
    """Which values are rows of a matrix, as vectors or as matrices of one row or column."""

    def __init__(self) -> None:
        self._rows: dict[Atom, _MatrixRow] = {}
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
                self._rows[eqn.out] = _MatrixRow(source, row)

    def of(self, atom: Atom) -> _MatrixRow | None:
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
    if not function.has_op("matmul"):
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
    wanted = {key for key, batch in batches.items() if _is_worth_joining(batch, key[1])}
    if not wanted:
        return function
    new = _ProductWriter()
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
            batch.made = new.emit(
                "matmul", new.slice_rows(key[0], batch.low, batch.high + 1), factor
            )
        _take_row(new, batch.made, at - batch.low, step.out)
    return with_body(function, new.body)


def _is_factor(a: Atom, b: Atom, flipped: bool) -> bool:
    """Whether a, a row, and b, a matrix, are multiplied as vector and matrix."""
    if b.type.ndim != 2 or a.type.dtype != b.type.dtype or not isinstance(b, Var):
        return False
    axis = 0 if flipped else a.type.ndim - 1  # the one that the product sums over
    return a.type.shape[axis] == a.type.size


def _is_worth_joining(batch: _Batch, factor: Var) -> bool:
    span = batch.high - batch.low + 1
    width = factor.type.shape[0 if batch.flipped else 1]
    return batch.count >= _MANY and batch.count * 2 >= span and span * width <= _MOST


def _take_row(new: _ProductWriter, matrix: Var, at: int, out: Var) -> None:
    index = (at, slice(0, matrix.type.shape[1], 1))
    if out.type.ndim == 1:
        new.emit("getitem", matrix, out=out, index=index)
    else:
        new.emit("reshape", new.emit("getitem", matrix, index=index), out=out, shape=out.type.shape)


# -------------------------------------------------------------------------- sums of products


@record()
class _Sum:
    """A sum: products, each with its place in the body, and other terms."""

    products: list[tuple[int, Eqn]] = field(default_factory=list)
    others: list[Atom] = field(default_factory=list)


@as_pass
def join_products(function: Function) -> Function:
    """a0 @ b0 + a1 @ b1 + ... -> one product of the a's side by side and the b's stacked."""
    if not (function.has_op("matmul") and function.has_op("add")):
        return function
    rows = _Rows()
    sums = _sums(function, rows)
    found = {out: s for out, s in sums.items() if len(s.products) >= _MANY and _is_worth(s)}
    if not found:
        return function
    new = _ProductWriter()
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


def _write_sum(new: _ProductWriter, total: _Sum, rows: _Rows, out: Var) -> None:
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
    product = new.emit("matmul", a, b, out=None if total.others else out)
    for number, other in enumerate(total.others):
        last = number == len(total.others) - 1
        product = new.emit("add", other, product, out=out if last else None)


def _is_run(rows: Sequence[_MatrixRow | None]) -> bool:
    """Whether these are different rows of one matrix, without a gap."""
    places = {row.at for row in rows if row is not None}
    matrices = {row.matrix for row in rows if row is not None}
    return len(matrices) == 1 and len(places) == len(rows) == max(places) - min(places) + 1


def _stacked(new: _ProductWriter, factors: Sequence[Atom], rows: _Rows, *, flipped: bool) -> Var:
    """The factors (flipped: their transposes) below each other; a piece of a matrix, where they
    are its rows, in order."""
    known = [rows.of(factor) for factor in factors]
    lines = all(f.type.shape[1 if flipped else 0] == 1 for f in factors)
    if lines and all(row is not None for row in known) and _is_run(known):
        first, last = known[0], known[-1]
        assert first is not None and last is not None
        if last.at - first.at == len(factors) - 1:
            return new.slice_rows(first.matrix, first.at, last.at + 1)
    parts = []
    for factor in factors:
        assert isinstance(factor, Var)
        part = factor
        if lines:
            part = rows.vector(factor)
            size = part.type.size
            part = part if part.type.ndim == 1 else new.emit("reshape", part, shape=(size,))
        elif flipped:
            part = new.transposed(factor)
        parts.append(part)
    joined = new.emit("concatenate", *parts, axis=0)
    if not lines:
        return joined
    return new.emit("reshape", joined, shape=(len(parts), joined.type.size // len(parts)))


@as_pass
def outer_products(function: Function) -> Function:
    """Write products over one term as products of elements."""
    if not any(isinstance(op.lower, Contract) for op in function.ops):
        return function
    new = BodyWriter()
    for step in function.body:
        if not isinstance(step, Eqn) or not _is_outer(step):
            new.body.append(step)
            continue
        new.where = step.where
        nothing = Const.of(step.out.type.dtype.type(0))
        new.emit("add", new.emit("multiply", *step.operands), nothing, out=step.out)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


def _is_outer(eqn: Eqn) -> bool:
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype.kind not in "fc":
        return False
    a, b = (operand.type for operand in eqn.operands)
    return min(a.ndim, b.ndim) > 1 and a.shape[-1] == 1 and a.dtype == b.dtype
