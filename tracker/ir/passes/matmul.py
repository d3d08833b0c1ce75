"""Matrix products: fewer and larger ones, and none where a loop is as good.

    x[0] @ w, x[1] @ w, ...      ->  the rows of x @ w                   batched
    a @ w + b @ w                ->  (a + b) @ w                         factored
    a0 @ b0 + a1 @ b1 + ...      ->  [a0 a1 ...] @ [b0; b1; ...]         concatenated
    a: f64[m,1] @ b: f64[1,n]    ->  a * b + 0.0                         expanded

An unrolled loop over time steps leaves a product per step, and its pullback another: BLAS is
several times faster on one product of all of them. The pullbacks of `b @ b.T`, of a quadratic form
and of the distances between all pairs add two products with one matrix. An outer product (the
pullback of a matrix times a vector) becomes a loop, which fuses with its readers; 0.0 is added
because NumPy's sum of a single -0.0 is 0.0. Products of sliding windows with a vector: see
`_expand_windows`.

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
from tracker.ir.passes.manager import BodyWriter, as_pass, with_body
from tracker.support.structs import field, record, replace

_MIN_PRODUCTS = 5  # fewer are neither batched nor concatenated
_MAX_BATCH = 1 << 21  # elements of a batched product
_MIN_LENGTH, _MAX_WIDTH = 2048, 32  # of a matrix of windows that is not made
_RATE = 2  # multiplications of a product in the time that it takes to copy an element


@as_pass(requires=(EXPANDED, LEGAL_DTYPES))
def rewrite_products(function: Function) -> Function:
    """Batch, factor and concatenate products; write outer products out."""
    if not any(isinstance(op.lower, Contract) for op in function.ops):
        return function
    function = _combine_sums(_batch(function))
    return _expand_windows(_expand_outer_products(function))


# ------------------------------------------------------------------------------------------- views


@record(frozen=True)
class MatrixView:
    """A matrix (or a vector, as a matrix of one row) or one of its rows, maybe transposed."""

    source: Var
    row: int | None = None
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = (1, *self.source.type.shape)[-2:]
        rows = rows if self.row is None else 1
        return (columns, rows) if self.is_transposed else (rows, columns)

    @property
    def transposed(self) -> MatrixView:
        return MatrixView(self.source, self.row, not self.is_transposed)

    def emit(self, new: BodyWriter) -> Var:
        """Write the matrix that is viewed."""
        if self.row is not None or self.source.type.ndim == 1:
            return new.emit("reshape", self.emit_vector(new), shape=self.shape)
        if self.is_transposed:
            return new.emit("transpose", self.source, axes=(1, 0))
        return self.source

    def emit_vector(self, new: BodyWriter, out: Var | None = None) -> Var:
        """Write a single row, or column, as a vector."""
        shape = self.source.type.shape
        if self.row is not None:
            index = (self.row, slice(0, shape[1], 1))
            return new.emit("getitem", self.source, index=index, out=out)
        if len(shape) == 1:
            return self.source
        return new.emit("reshape", self.source, shape=(self.source.type.size,))


class _Views:
    """Of which matrix each value is a view."""

    def __init__(self) -> None:
        self._known: dict[Atom, MatrixView] = {}

    def of(self, atom: Atom) -> MatrixView:
        assert isinstance(atom, Var)
        return self._known.get(atom) or MatrixView(atom)

    def visit(self, eqn: Eqn) -> None:
        source = eqn.operands[0] if eqn.operands else None
        if not isinstance(source, Var) or source.type.ndim not in (1, 2):
            return
        if eqn.op.name == "getitem" and source.type.ndim == 2:
            row = _row_number(eqn.params["index"], source.type.shape)
            if row is not None:
                self._known[eqn.out] = MatrixView(source, row)
        elif eqn.op.name == "transpose" and eqn.params["axes"] == (1, 0):
            self._known[eqn.out] = self.of(source).transposed
        elif eqn.op.name == "reshape":
            view, shape = self.of(source), (1, *eqn.out.type.shape)[-2:]
            if 1 in view.shape and 1 in shape and eqn.out.type.ndim in (1, 2):
                view = MatrixView(view.source, view.row)
                self._known[eqn.out] = view if view.shape == shape else view.transposed


def _row_number(index: tuple[Any, ...], shape: tuple[int, ...]) -> int | None:
    """i, if a canonical index means all of row i."""
    if len(index) != 2 or index[1] != slice(0, shape[1], 1):
        return None
    if isinstance(index[0], slice):
        rows = range(*index[0].indices(shape[0]))
        return rows[0] if len(rows) == 1 else None
    return index[0] if isinstance(index[0], int) else None


# --------------------------------------------------------------------------- rows of one matrix

_Batch = tuple[Var, Var, bool]  # the matrix of the rows, the other factor, whether that is the left


def _batch(function: Function) -> Function:
    """x[0] @ w, x[1] @ w, ... -> the rows of x @ w; likewise w @ x[i], as rows of x @ w.T."""
    views = _Views()
    batches: dict[_Batch, list[tuple[Var, int]]] = {}
    for eqn in function.eqns:
        views.visit(eqn)
        if eqn.op.name != "matmul":
            continue
        for is_left, (a, b) in enumerate((eqn.operands, eqn.operands[::-1])):
            row = views.of(a).row
            contracted = 0 if is_left else -1
            if row is None or a.type.shape[contracted] != a.type.size or b.type.ndim != 2:
                continue
            if isinstance(b, Var) and a.type.dtype == b.type.dtype:
                key = views.of(a).source, b, bool(is_left)
                batches.setdefault(key, []).append((eqn.out, row))
                break
    batches = {key: members for key, members in batches.items() if _can_batch(key, members)}
    if not batches:
        return function
    rows = {out: (key, row) for key, members in batches.items() for out, row in members}
    made: dict[_Batch, Var] = {}
    new = BodyWriter()
    for step in function.body:
        if not isinstance(step, Eqn) or step.out not in rows:
            new.body.append(step)
            continue
        key, row = rows[step.out]
        low, high = _span(batches[key])
        new.where = step.where
        if key not in made:
            matrix, factor, is_left = key
            if is_left:
                factor = new.emit("transpose", factor, axes=(1, 0))
            made[key] = new.emit("matmul", new.slice_rows(matrix, low, high + 1), factor)
        view = MatrixView(made[key], row - low)
        if step.out.type.ndim == 1:
            view.emit_vector(new, step.out)
        else:
            new.emit(
                "reshape",
                view.emit_vector(new),
                shape=step.out.type.shape,
                out=step.out,
            )
    return with_body(function, new.body)


def _span(members: list[tuple[Var, int]]) -> tuple[int, int]:
    rows = [row for _, row in members]
    return min(rows), max(rows)


def _can_batch(key: _Batch, members: list[tuple[Var, int]]) -> bool:
    """Whether there are many products, which need half of the rows, and the result is small."""
    _, factor, is_left = key
    low, high = _span(members)
    span, width = high - low + 1, factor.type.shape[0 if is_left else 1]
    return len(members) >= max(_MIN_PRODUCTS, span / 2) and span * width <= _MAX_BATCH


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


@record(eq=False)
class _Sum:
    products: list[_Product] = field(default_factory=list)
    others: list[Atom] = field(default_factory=list)


def _combine_sums(function: Function) -> Function:
    """Make sums of products one product, where that is cheaper."""
    if not (function.has_op("matmul") and function.has_op("add")):
        return function
    sums = _find_sums(function)
    new = BodyWriter()
    changed = False
    for step in function.body:
        total = sums.get(step.out) if isinstance(step, Eqn) else None
        if isinstance(step, Eqn) and total is not None and len(total.products) > 1:
            new.where = step.where
            if _emit_sum(new, total, step.out):
                changed = True
                continue
        new.body.append(step)
    return with_body(function, new.body) if changed else function


def _find_sums(function: Function) -> dict[Atom, _Sum]:
    """The largest sums that hold products, by their results.

    A product may be transposed, or reshaped, before it is added. A value with other readers is no
    part of a sum.
    """
    uses, views = function.uses, _Views()
    found: dict[Atom, _Sum] = {}
    for number, eqn in enumerate(function.eqns):
        views.visit(eqn)
        name, operands, out = eqn.op.name, eqn.operands, eqn.out
        if name == "matmul":
            if all(o.type.ndim == 2 and o.type.dtype == out.type.dtype for o in operands):
                found[out] = _Sum(
                    [_Product(out, views.of(operands[0]), views.of(operands[1]), number)]
                )
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
                left, right = product.right.transposed, product.left.transposed
                found[out] = _Sum([_Product(out, left, right, number)])
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


def _is_cheaper(products: list[_Product], copied: int, multiplications: int) -> bool:
    """Whether one product is cheaper than several, each of which is written and added.

    copied: elements that are copied for it; multiplications: those that are saved.
    """
    size = math.prod(products[0].shape)
    return copied < 2 * size * len(products) + multiplications / _RATE


def _factor(
    new: BodyWriter, products: list[_Product], is_left: bool, made: list[Var]
) -> list[_Product]:
    """Write the products that have a left, or right, factor in common; the other products."""
    groups: dict[MatrixView, list[_Product]] = {}
    for product in products:
        groups.setdefault(product.left if is_left else product.right, []).append(product)
    alone: list[_Product] = []
    for common, group in groups.items():
        size = math.prod((group[0].right if is_left else group[0].left).shape)
        saved = group[1:]
        multiplications = len(saved) * size * group[0].shape[0 if is_left else 1]
        if not saved or not _is_cheaper(saved, 2 * size * len(saved), multiplications):
            alone += group
            continue
        total = _emit_total(new, [p.right if is_left else p.left for p in group])
        pair = (common.emit(new), total) if is_left else (total, common.emit(new))
        made.append(new.emit("matmul", *pair))
    return alone


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
    if len(products) < _MIN_PRODUCTS or not _is_cheaper(
        products, inner * sum(products[0].shape), 0
    ):
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
        return new.slice_rows(views[0].source, rows[0], rows[-1] + 1)
    joined = new.emit("concatenate", *(view.emit_vector(new) for view in views), axis=0)
    return new.reshape(joined, (len(views), views[0].shape[1]))


def _contiguous_rows(views: list[MatrixView]) -> list[int]:
    """The numbers of rows of one matrix, in any order, if none comes twice and there is no gap."""
    rows = [view.row for view in views if view.row is not None]
    if len({view.source for view in views}) > 1 or not len(set(rows)) == len(rows) == len(views):
        return []
    return rows if max(rows) - min(rows) + 1 == len(rows) else []


# --------------------------------------------------------------------------------- outer products


def _expand_outer_products(function: Function) -> Function:
    new = BodyWriter()
    for step in function.body:
        if not isinstance(step, Eqn) or not _is_outer_product(step):
            new.body.append(step)
            continue
        new.where = step.where
        zero = Const.of(step.out.type.dtype.type(0))
        new.emit("add", new.emit("multiply", *step.operands), zero, out=step.out)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


def _is_outer_product(eqn: Eqn) -> bool:
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype.kind not in "fc":
        return False
    a, b = (operand.type for operand in eqn.operands)
    return min(a.ndim, b.ndim) > 1 and a.shape[-1] == 1 and a.dtype == b.dtype


# ------------------------------------------------------------------------------- sliding windows


def _expand_windows(function: Function) -> Function:
    """Write products of windows with one vector as sums of the matrix's columns, which are slices:

    w: f64[m,k] of windows;  w @ v    ->    w[:, 0] * v[0] + w[:, 1] * v[1] + ...
    v @ w, or w.T @ v                 ->    sum(w[:, 0] * v), sum(w[:, 1] * v), ...
    """
    if not (function.has_op("windows") and function.has_op("matmul")):
        return function
    views: dict[Atom, Eqn] = {}
    new = BodyWriter()
    for step in function.body:
        if isinstance(step, Eqn):
            is_view = isinstance(step.op.lower, View) and len(step.operands) == 1
            if step.op.name == "windows" or (is_view and step.operands[0] in views):
                views[step.out] = step
            if isinstance(step.op.lower, Contract) and _emit_columns(new, step, views):
                continue
        new.body.append(step)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


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
    new.where = eqn.where
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
