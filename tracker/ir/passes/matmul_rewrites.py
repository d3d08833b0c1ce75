"""Matrix products: fewer and larger ones, and none where a loop is as good.

    x: f64[n,m,k] @ w: f64[k,l]  ->  all rows of x @ w                   flattened
    w: f64[l,k] @ x: f64[n,k,1]  ->  all columns of x, as rows, @ w.T    flattened
    x[0] @ w, x[1] @ w           ->  rows of x @ w                       batched
    a @ w + b @ w                ->  (a + b) @ w                         factored
    a0 @ b0 + a1 @ b1 + ...      ->  [a0 a1 ...] @ [b0; b1; ...]         concatenated
    a: f64[m,1] @ b: f64[1,n]    ->  a * b + 0.0                         expanded
    a: f64[n] @ b: f64[n]        ->  sum(a * b)                          expanded

An unrolled loop over time steps leaves a product per step, and its pullback another: BLAS is
several times faster on one product of all of them. The pullbacks of `b @ b.T`, of a quadratic form
and of the distances between all pairs add two products with one matrix. An outer product (the
pullback of a matrix times a vector) becomes a loop, which fuses with its readers; 0.0 is added
because NumPy's sum of a single -0.0 is 0.0. So does an inner product, which BLAS computes slower
than a loop at any length: 87 and 55 ns for 70 numbers, 15 and 11 us for 65,536. Products of sliding
windows with a vector: see `_expand_windows`.

Invariants: types stay; linear in the equations; results differ only by the order of the sums inside
of products, which BLAS chooses freely, and those of outer products not at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracker.ir.graph import Atom, Const, Eqn, Function, Var
from tracker.ir.lowering import Contract, View
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.linalg_dtypes import LEGAL_DTYPES
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.support.structs import field, record, replace

_MIN_PRODUCTS = 5  # fewer are neither batched nor concatenated
_MAX_BATCH = 1 << 21  # elements of a batched product
_MIN_LENGTH, _MAX_WIDTH = 2048, 32  # of a matrix of windows that is not made
_RATE = 2  # multiplications of a product in the time that it takes to copy an element


@as_pass(requires=(EXPANDED, LEGAL_DTYPES))
def rewrite_products(function: Function) -> Function:
    """Flatten, batch, factor and concatenate products; write outer and inner ones out."""
    if not any(isinstance(op.lower, Contract) for op in function.ops):
        return function
    function = _combine_sums(_batch(_flatten(function)))
    return _expand_windows(_expand_inner_products(_expand_outer_products(function)))


def _flatten(function: Function) -> Function:
    """Products of a batch of matrices, or of columns, with one matrix as a product of all their
    rows. Matrices that are transposed stay: to move them takes longer."""
    transposed = {eqn.out for eqn in function.eqns if eqn.op.name == "transpose"}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if not isinstance(eqn.op.lower, Contract):
            return False
        a, b = eqn.operands
        if (a.type.ndim, b.type.shape[-1:]) == (2, (1,)) and b.type.ndim > 2:
            a, b, (*batch, width, _) = b, new.emit("transpose", a, axes=(1, 0)), b.type.shape
        elif a.type.ndim > 2 and b.type.ndim == 2 and a not in transposed:
            *batch, width = a.type.shape
        else:
            return False
        rows = new.emit("reshape", a, shape=(math.prod(batch), width))
        product = new.emit("matmul", rows, b)
        new.emit("reshape", product, shape=eqn.out.type.shape, out=eqn.out)
        return True

    return rewrite_equations(function, rewrite)


# ------------------------------------------------------------------------------------------- views

_Range = tuple[int, int]


@record(frozen=True)
class MatrixView:
    """A rectangle of a matrix, maybe transposed; a vector is a matrix of one row."""

    source: Var
    rows: _Range
    columns: _Range
    is_transposed: bool = False

    @staticmethod
    def of(source: Var) -> MatrixView:
        rows, columns = (1, *source.type.shape)[-2:]
        return MatrixView(source, (0, rows), (0, columns))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = (high - low for low, high in self.ranges)
        return rows, columns

    @property
    def ranges(self) -> tuple[_Range, _Range]:
        """The rows and the columns, of the source or of its transpose."""
        return (self.columns, self.rows) if self.is_transposed else (self.rows, self.columns)

    @property
    def transposed(self) -> MatrixView:
        return MatrixView(self.source, self.rows, self.columns, not self.is_transposed)

    @property
    def whole(self) -> MatrixView:
        """All of the source, transposed like this view."""
        return replace(MatrixView.of(self.source), is_transposed=self.is_transposed)

    def within(self, rows: _Range, columns: _Range) -> MatrixView:
        """A rectangle of this one."""
        (top, _), (left, _) = self.ranges
        down, right = (top + rows[0], top + rows[1]), (left + columns[0], left + columns[1])
        if self.is_transposed:
            down, right = right, down
        return MatrixView(self.source, down, right, self.is_transposed)

    def emit(self, new: BodyWriter) -> Var:
        """Write the matrix that is viewed."""
        matrix = new.reshape(self.source, MatrixView.of(self.source).shape)
        if (self.rows, self.columns) != ((0, matrix.type.shape[0]), (0, matrix.type.shape[1])):
            index = (slice(*self.rows, 1), slice(*self.columns, 1))
            matrix = new.emit("getitem", matrix, index=index)
        return new.emit("transpose", matrix, axes=(1, 0)) if self.is_transposed else matrix

    def emit_vector(self, new: BodyWriter, shape: tuple[int, ...], out: Var | None = None) -> Var:
        """Write a single row, or column, in a shape."""
        vector, (first, last) = self.source, self.columns
        if self.source.type.ndim > 1:
            row = self.rows[0]
            index: tuple[Any, ...] = (row, slice(first, last, 1))
            if first + 1 == last and self.rows[1] > row + 1:
                index = (slice(*self.rows, 1), first)
            is_last = shape == (max(self.shape),)
            vector = new.emit("getitem", vector, index=index, out=out if is_last else None)
            if is_last:
                return vector
        elif last - first < vector.type.size:
            vector = new.emit("getitem", vector, index=(slice(first, last, 1),))
        return new.emit("reshape", vector, shape=shape, out=out)


class _Views:
    """Of which matrix each value is a view."""

    def __init__(self) -> None:
        self._known: dict[Atom, MatrixView] = {}

    def of(self, atom: Atom) -> MatrixView:
        assert isinstance(atom, Var)
        return self._known.get(atom) or MatrixView.of(atom)

    def visit(self, eqn: Eqn) -> None:
        source = eqn.operands[0] if eqn.operands else None
        if not isinstance(source, Var) or {source.type.ndim, eqn.out.type.ndim} - {1, 2}:
            return
        if eqn.op.name == "getitem":
            ranges = _rectangle(eqn.params["index"], source.type.shape)
            if ranges is not None:
                view = self.of(source).within(*ranges)
                self._known[eqn.out] = _as_matrix(view, eqn.out)
        elif eqn.op.name == "transpose" and eqn.params["axes"] == (1, 0):
            self._known[eqn.out] = self.of(source).transposed
        elif eqn.op.name == "reshape":
            view = self.of(source)
            if 1 in view.shape and 1 in (1, *eqn.out.type.shape)[-2:]:
                self._known[eqn.out] = _as_matrix(view, eqn.out)


def _as_matrix(view: MatrixView, value: Var) -> MatrixView:
    """A view with a value's elements, in its shape."""
    return view if view.shape == (1, *value.type.shape)[-2:] else view.transposed


def _rectangle(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[_Range, _Range] | None:
    """Which rows and columns a canonical index reads, if it is a rectangle."""
    ranges: list[_Range] = [(0, 1)] * (2 - len(shape))
    for part in index:
        if isinstance(part, int):
            ranges.append((part, part + 1))
        elif isinstance(part, slice) and part.step == 1:
            ranges.append((part.start, part.stop))
        else:
            return None
    return (ranges[0], ranges[1]) if len(ranges) == 2 else None


# --------------------------------------------------------------------------- rows of one matrix


@record(frozen=True)
class _Batch:
    """Products of rows of one matrix, of which `rows` has all, with another matrix."""

    rows: MatrixView
    matrix: MatrixView


def _batch(function: Function) -> Function:
    """x[0] @ w, x[1] @ w, ... -> the rows of x @ w; likewise w @ x[i], as rows of x @ w.T."""
    views = _Views()
    batches: dict[_Batch, dict[Var, int]] = {}  # the row that each product is of
    for eqn in function.eqns:
        views.visit(eqn)
        if eqn.op.name != "matmul" or len({o.type.dtype for o in eqn.operands}) > 1:
            continue
        found = _as_row_product(views, eqn)
        if found is not None:
            batches.setdefault(found[0], {})[eqn.out] = found[1]
    batches = {batch: rows for batch, rows in batches.items() if _can_batch(batch, rows)}
    batch_of = {out: batch for batch, rows in batches.items() for out in rows}
    made: dict[_Batch, Var] = {}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        batch = batch_of.get(eqn.out)
        if batch is None:
            return False
        numbers = batches[batch].values()
        low, high = min(numbers), max(numbers) + 1
        if batch not in made:
            rows = batch.rows.within((low, high), (0, batch.rows.shape[1])).emit(new)
            made[batch] = new.emit("matmul", rows, batch.matrix.emit(new))
        row = batches[batch][eqn.out] - low
        view = MatrixView(made[batch], (row, row + 1), (0, batch.matrix.shape[1]))
        view.emit_vector(new, eqn.out.type.shape, eqn.out)
        return True

    return rewrite_equations(function, rewrite) if batches else function


def _as_row_product(views: _Views, eqn: Eqn) -> tuple[_Batch, int] | None:
    """A product as the product of a row, by number, with another matrix, maybe transposed."""
    a, b = eqn.operands
    if not {a.type.ndim, b.type.ndim} <= {1, 2}:
        return None
    left, right = views.of(a), views.of(b)
    if b.type.ndim == 1:
        right = right.transposed  # a column
    for row, matrix, other in ((left, right, b), (right.transposed, left.transposed, a)):
        if row.shape[0] != 1 or other.type.ndim != 2 or row.source.type.ndim != 2:
            continue
        (number, _), inner = row.ranges
        if row.whole.shape[0] > 1:
            return _Batch(row.whole.within((0, row.whole.shape[0]), inner), matrix), number
    return None


def _can_batch(batch: _Batch, rows: Mapping[Var, int]) -> bool:
    """Whether there are many products, which need half of the result, and this is small."""
    count, width = max(rows.values()) - min(rows.values()) + 1, batch.matrix.shape[1]
    is_small = count <= 2 * len(rows) and count * width <= _MAX_BATCH
    return len(rows) >= _MIN_PRODUCTS and is_small


# ------------------------------------------------------------------------------ sums of products


@record(frozen=True, eq=False)
class _Product:
    """A product, maybe reshaped; `number` counts equations."""

    out: Var
    left: MatrixView
    right: MatrixView
    number: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]

    @property
    def transposed(self) -> _Product:
        return replace(self, left=self.right.transposed, right=self.left.transposed)

    @property
    def cost(self) -> float:
        """Elements that are written and added, and the time of the multiplications."""
        size = math.prod(self.shape)
        return 2 * size + size * self.left.shape[1] / _RATE


@record(eq=False)
class _Sum:
    products: list[_Product] = field(default_factory=list)
    others: list[Atom] = field(default_factory=list)


def _combine_sums(function: Function) -> Function:
    """Make sums of products one product, where that is cheaper."""
    if not (function.has_op("matmul") and function.has_op("add")):
        return function
    sums = _find_sums(function)

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        total = sums.get(eqn.out)
        return total is not None and len(total.products) > 1 and _emit_sum(new, total, eqn.out)

    return rewrite_equations(function, rewrite)


def _find_sums(function: Function) -> dict[Atom, _Sum]:
    """The largest sums that hold products, by their results.

    A product may be transposed or reshaped before it is added. A value with other readers is no
    part of a sum.
    """
    uses, views = function.uses, _Views()
    found: dict[Atom, _Sum] = {}
    for number, eqn in enumerate(function.eqns):
        views.visit(eqn)
        name, operands, out = eqn.op.name, eqn.operands, eqn.out
        if name == "matmul":
            if all(o.type.ndim == 2 and o.type.dtype == out.type.dtype for o in operands):
                left, right = views.of(operands[0]), views.of(operands[1])
                found[out] = _Sum([_Product(out, left, right, number)])
        elif name == "add":
            parts = [
                found.pop(o) if o in found and uses[o] == 1 and o.type == out.type else None
                for o in operands
            ]
            if any(parts):
                found[out] = _merge(operands, parts)
        elif name in ("transpose", "reshape") and uses[operands[0]] == 1:
            inner = found.get(operands[0], _Sum())
            if len(inner.products) != 1 or inner.others:
                continue
            (product,) = inner.products
            if name == "reshape":
                found[out] = _Sum([replace(product, out=out)])
            elif product.shape == operands[0].type.shape:
                found[out] = _Sum([replace(product.transposed, out=out, number=number)])
    return found


def _merge(operands: Sequence[Atom], parts: Sequence[_Sum | None]) -> _Sum:
    """The sum of two; the smaller goes into the larger, so that long chains take linear time."""
    total, *rest = sorted((p for p in parts if p is not None), key=lambda p: -len(p.products))
    for part in rest:
        total.products += part.products
        total.others += part.others
    total.others += [o for o, part in zip(operands, parts, strict=True) if part is None]
    return total


def _emit_sum(new: BodyWriter, total: _Sum, out: Var) -> bool:
    """Write a sum with fewer products, if some of them can be combined."""
    shapes: dict[tuple[int, int], list[_Product]] = {}
    for product in sorted(total.products, key=lambda p: -p.number):  # a pullback's go backwards
        shapes.setdefault(product.shape, []).append(product)
    made: list[Var] = []
    rest: list[Atom] = []
    for products in shapes.values():
        products = _factor(new, products, True, made)
        products = _factor(new, products, False, made)
        rest += [product.out for product in _concatenate(new, products, made)]
    if not made:
        return False
    result, *others = [new.reshape(product, out.type.shape) for product in made]
    for term in (*others, *rest, *total.others):
        result = new.emit("add", term, result)
    last = new.body[-1]
    assert isinstance(last, Eqn) and last.out is result
    new.body[-1] = replace(last, out=out)
    return True


def _factor(
    new: BodyWriter, products: list[_Product], is_left: bool, made: list[Var]
) -> list[_Product]:
    """Write the products that have a left, or right, factor in common; the other products."""
    groups: dict[MatrixView, list[_Product]] = {}
    for product in products:
        product = product if is_left else product.transposed
        groups.setdefault(product.left, []).append(product)
    alone: list[_Product] = []
    for common, group in groups.items():
        if len(group) == 1 or not _emit_factored(new, common, group, is_left, made):
            alone += group if is_left else [product.transposed for product in group]
    return alone


def _emit_factored(
    new: BodyWriter, common: MatrixView, group: list[_Product], is_left: bool, made: list[Var]
) -> bool:
    """Write common @ b[0] + common @ b[1] + ... as one product, if that is cheaper."""
    added = 2 * sum(math.prod(product.right.shape) for product in group[1:])
    if added + group[0].cost >= sum(product.cost for product in group):
        return False
    if is_left:
        total = _emit_total(new, [product.right for product in group])
        made.append(new.emit("matmul", common.emit(new), total))
    else:
        total = _emit_total(new, [product.right.transposed for product in group])
        made.append(new.emit("matmul", total, common.transposed.emit(new)))
    return True


def _emit_total(new: BodyWriter, views: list[MatrixView]) -> Var:
    """The sum of matrices; of transposed ones, the transpose of their sum."""
    is_transposed = all(view.is_transposed for view in views)
    first, *others = [(v.transposed if is_transposed else v).emit(new) for v in views]
    for other in others:
        first = new.emit("add", first, other)
    return new.emit("transpose", first, axes=(1, 0)) if is_transposed else first


def _concatenate(new: BodyWriter, products: list[_Product], made: list[Var]) -> list[_Product]:
    """Write many products as one, of their factors side by side; or leave them all."""
    inner = sum(product.left.shape[1] for product in products)
    if len(products) < _MIN_PRODUCTS or inner * sum(products[0].shape) >= 2 * len(
        products
    ) * math.prod(products[0].shape):
        return products
    for factors in ([p.left for p in products], [p.right for p in products]):
        rows = _contiguous_rows(factors)
        if rows:
            products = [products[rows.index(row)] for row in sorted(rows)]
            break
    left = _emit_stack(new, [product.left.transposed for product in products])
    right = _emit_stack(new, [product.right for product in products])
    made.append(new.emit("matmul", new.emit("transpose", left, axes=(1, 0)), right))
    return []


def _emit_stack(new: BodyWriter, views: list[MatrixView]) -> Var:
    """Matrices below each other: a slice of the matrix whose rows they are, in order, or a copy."""
    if any(view.shape[0] != 1 for view in views):
        return new.emit("concatenate", *(view.emit(new) for view in views), axis=0)
    rows = _contiguous_rows(views)
    if rows and rows == sorted(rows):
        first = views[0]
        return first.whole.within((rows[0], rows[-1] + 1), first.ranges[1]).emit(new)
    width = views[0].shape[1]
    joined = new.emit("concatenate", *(view.emit_vector(new, (width,)) for view in views), axis=0)
    return new.reshape(joined, (len(views), width))


def _contiguous_rows(views: list[MatrixView]) -> list[int]:
    """The numbers of rows of one matrix, in any order, if none comes twice and there is no gap."""
    if any(view.shape[0] != 1 for view in views):
        return []
    if len({(view.source, view.is_transposed, view.ranges[1]) for view in views}) > 1:
        return []
    rows = [view.ranges[0][0] for view in views]
    is_gapless = max(rows) - min(rows) + 1 == len(rows) == len(set(rows))
    return rows if is_gapless and views[0].whole.shape[0] > 1 else []


# ----------------------------------------------------------------------- outer and inner products


def _expand_outer_products(function: Function) -> Function:
    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if not _is_outer_product(eqn):
            return False
        zero = Const.of(eqn.out.type.dtype.type(0))
        new.emit("add", new.emit("multiply", *eqn.operands), zero, out=eqn.out)
        return True

    return rewrite_equations(function, rewrite)


def _is_outer_product(eqn: Eqn) -> bool:
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype.kind not in "fc":
        return False
    a, b = (operand.type for operand in eqn.operands)
    return min(a.ndim, b.ndim) > 1 and a.shape[-1] == 1 and a.dtype == b.dtype


def _expand_inner_products(function: Function) -> Function:
    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if not _is_inner_product(eqn):
            return False
        a, b = (new.reshape(o, (o.type.size,)) for o in eqn.operands if isinstance(o, Var))
        total = new.emit("sum", new.emit("multiply", a, b), axis=(0,), keepdims=False)
        new.emit("reshape", total, shape=eqn.out.type.shape, out=eqn.out)
        return True

    return rewrite_equations(function, rewrite)


def _is_inner_product(eqn: Eqn) -> bool:
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.size != 1:
        return False
    a, b = (operand.type for operand in eqn.operands)
    return a.size == b.size > 1 and a.dtype == b.dtype and a.dtype.kind == "f"


# ------------------------------------------------------------------------------- sliding windows


def _expand_windows(function: Function) -> Function:
    """Write products of windows with one vector as sums of the matrix's columns, which are slices:

    w: f64[m,k] of windows;  w @ v    ->    w[:, 0] * v[0] + w[:, 1] * v[1] + ...
    v @ w, or w.T @ v                 ->    sum(w[:, 0] * v), sum(w[:, 1] * v), ...
    """
    if not (function.has_op("windows") and function.has_op("matmul")):
        return function
    views: dict[Atom, Eqn] = {}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        is_view = isinstance(eqn.op.lower, View) and len(eqn.operands) == 1
        if eqn.op.name == "windows" or (is_view and eqn.operands[0] in views):
            views[eqn.out] = eqn
        return isinstance(eqn.op.lower, Contract) and _emit_columns(new, eqn, views)

    return rewrite_equations(function, rewrite)


def _emit_columns(new: BodyWriter, eqn: Eqn, views: Mapping[Atom, Eqn]) -> bool:
    """Write a product of a long matrix of windows and a vector; False if it is another product."""
    a, b = eqn.operands
    shapes, dtype = (a.type.shape, b.type.shape), eqn.out.type.dtype
    if dtype.kind not in "fc" or a.type.dtype != b.type.dtype or max(map(len, shapes)) != 2:
        return False
    if shapes[1][1:] in ((), (1,)):
        matrix, vector, contracted = a, b, 1
    elif shapes[0][:-1] in ((), (1,)):
        matrix, vector, contracted = b, a, 0
    else:
        return False
    width, length = sorted(matrix.type.shape)
    if matrix not in views or not 1 < width <= _MAX_WIDTH or length < _MIN_LENGTH:
        return False
    long_axis = matrix.type.shape.index(length)
    source, rows = _unfolded(matrix, long_axis, views)
    shape = source.type.shape
    indices = itertools.product(
        *[(slice(0, n, 1),) if axis in rows else range(n) for axis, n in enumerate(shape)]
    )
    columns = [new.emit("getitem", source, index=index) for index in indices]
    if contracted == long_axis:
        vector = new.emit("reshape", vector, shape=columns[0].type.shape)
        axes = tuple(range(len(rows)))
        sums = [
            new.emit("sum", new.emit("multiply", column, vector), axis=axes, keepdims=False)
            for column in columns
        ]
        total: Atom = new.emit("stack", *sums, axis=0)
    else:
        vector = new.emit("reshape", vector, shape=(width,))
        total = Const.of(dtype.type(0))
        for at, column in enumerate(columns):
            number = new.emit("getitem", vector, index=(at,))
            total = new.emit("add", total, new.emit("multiply", column, number))
    new.emit("reshape", total, shape=eqn.out.type.shape, out=eqn.out)
    return True


def _unfolded(matrix: Atom, axis: int, views: Mapping[Atom, Eqn]) -> tuple[Atom, range]:
    """The array that a matrix is a reshape of, maybe transposed, and which axes are long."""
    eqn, source, at = views[matrix], matrix, axis
    if eqn.op.name == "transpose":
        (source,), at = eqn.operands, 1 - axis
    reshape = views.get(source)
    if reshape is not None and reshape.op.name == "reshape":
        (whole,) = reshape.operands
        shape = whole.type.shape
        for cut in range(1, len(shape)):
            rows = range(cut) if at == 0 else range(cut, len(shape))
            if math.prod([shape[i] for i in rows]) == source.type.shape[at]:
                return whole, rows
    return matrix, range(axis, axis + 1)
