"""Batching rules: an op on one row becomes an op on all rows.

A rule takes (op, xs, marks, params, n) and gives (result, whether it is batched); marks[i] says
whether the first axis of operand i runs over the n rows. An op without a rule is applied row by
row, under a trace in a recorded loop: rules exist for speed only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.control.body import trace_body
from tracker.control.loop import record_loop
from tracker.ir.lowering import Contract, Map, Reduce
from tracker.ir.op import OPS, Op
from tracker.ops.declare.bundle import unbundle
from tracker.ops.indexing import canonical, getitem
from tracker.ops.indexing.gather_scatter import HOLE
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracing.tracer import current_tracer

OpParams = dict[str, Any]
Values = Sequence[Any]
Marks = Sequence[bool]
BatchedValue = tuple[Any, Any]
_MAX_COLUMNS = 8  # of a batch of matrices whose products with one matrix become one product
_MIN_COLUMN, _MIN_MATRIX = 1 << 4, 1 << 8  # elements of the one matrix; smaller products are loops
BatchingRule = Callable[[Op, Values, Marks, OpParams, int], BatchedValue]


def batch_op(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """An op applied to all rows, by its rule."""
    rule = _RULES.get(op)
    if rule is None:
        kind = op.lower
        if isinstance(kind, Map) or op.partials is not None:
            rule = _elementwise
        elif isinstance(kind, Reduce):
            rule = _reduce
        elif isinstance(kind, Contract):
            rule = _matmul
        else:
            rule = apply_row_by_row
    return rule(op, xs, marks, params, n)


def broadcast_rows(x: Any, mark: bool, n: int) -> Any:
    """An operand with a first axis of n rows."""
    return x if mark else np.broadcast_to(x, (n, *np.shape(x)))


def row_shape(x: Any, mark: bool) -> tuple[int, ...]:
    return np.shape(x)[1:] if mark else np.shape(x)


def pad_rank(x: Any, rank: int) -> Any:
    """A batched operand with its rows padded to a rank by leading axes of extent 1."""
    n, *rest = np.shape(x)
    missing = rank - len(rest)
    return np.reshape(x, (n, *(1,) * missing, *rest)) if missing else x


# Every row in turn --------------------------------------------------------------------------------


def apply_row_by_row(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    moving = [x for x, mark in zip(xs, marks, strict=True) if mark]

    def one(*rows: Any) -> Any:
        given = iter(rows)
        return apply(
            op, tuple(next(given) if m else x for x, m in zip(xs, marks, strict=True)), params
        )

    if current_tracer() is not None:
        return _traced_rows(one, moving, n)
    rows = [one(*(x[i] for x in moving)) for i in range(n)]
    if type(aval_of(rows[0])) is not tuple:
        return np.stack(rows), True
    columns = zip(*map(unbundle, rows), strict=True)
    return [(np.stack(column), True) for column in columns], True


def _traced_rows(one: Callable[..., Any], moving: Sequence[Any], n: int) -> BatchedValue:
    is_bundle = False

    def body(*rows: Any) -> list[Any]:
        nonlocal is_bundle
        y = one(*rows)
        is_bundle = type(aval_of(y)) is tuple
        return unbundle(y) if is_bundle else [y]

    traced = trace_body("row", body, [data_of(x)[0] for x in moving])
    made = record_loop(traced, n, [], moving, n, False)
    return ([(y, True) for y in made], True) if is_bundle else (made[0], True)


# Rules --------------------------------------------------------------------------------------------


def _elementwise(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    rank = max(len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True))
    given = [pad_rank(x, rank) if m else x for x, m in zip(xs, marks, strict=True)]
    return apply(op, tuple(given), params), True


def _reduce(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    axes = tuple(axis + 1 for axis in params["axis"])
    return apply(op, tuple(xs), {**params, "axis": axes}), True


def _matmul(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    (a, b), (left, right) = xs, marks
    ranks = [len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True)]
    if left and not right and ranks[0] <= 2 and ranks[1] <= 2 and ranks[0] + ranks[1] > 2:
        return _rows_times_matrix(a, b, n, ranks), True
    if right and not left and ranks[0] == 2 and _is_narrow(b, ranks[1], np.size(a)):
        return _matrix_times_columns(a, b, ranks[1]), True
    if left and ranks[0] == 1:  # a batch of vectors is a batch of rows
        a = np.reshape(a, (n, 1, -1))
    if right and ranks[1] == 1:
        b = np.reshape(b, (n, -1, 1))
    most = max(2, *ranks)
    a, b = (pad_rank(x, most) if m else x for x, m in ((a, left), (b, right)))
    y = np.matmul(a, b)
    wanted = [*np.shape(y)]
    if right and ranks[1] == 1:
        wanted.pop(-1)
    if left and ranks[0] == 1:
        wanted.pop(-2 if not (right and ranks[1] == 1) and ranks[1] > 1 else -1)
    return np.reshape(y, tuple(wanted)), True


def _rows_times_matrix(a: Any, b: Any, n: int, ranks: Sequence[int]) -> Any:
    """All rows times one matrix or vector, as one product."""
    *lead, inner = np.shape(a)
    flat = np.matmul(np.reshape(a, (-1, inner)), b)
    return np.reshape(flat, (*lead, *np.shape(b)[1:]))


def _is_narrow(b: Any, rank: int, matrix_size: int) -> bool:
    """Whether it is a vector, or columns so few that a product with a large matrix reads that for
    each row anew."""
    if rank == 1:
        return matrix_size >= _MIN_COLUMN
    return rank == 2 and np.shape(b)[2] <= _MAX_COLUMNS and matrix_size >= _MIN_MATRIX


def _matrix_times_columns(a: Any, b: Any, rank: int) -> Any:
    """One matrix times all columns, as one product."""
    rows = b if rank == 1 else np.swapaxes(b, 1, 2)
    flat = np.matmul(np.reshape(rows, (-1, np.shape(a)[1])), np.transpose(a))
    found = np.reshape(flat, (*np.shape(rows)[:-1], np.shape(a)[0]))
    return found if rank == 1 else np.swapaxes(found, 1, 2)


def _matrix_stack(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """An op that NumPy applies to stacks of matrices."""
    rank = max(len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True))
    given = [pad_rank(broadcast_rows(x, m, n), rank) for x, m in zip(xs, marks, strict=True)]
    y = apply(op, tuple(given), params)
    if type(aval_of(y)) is tuple:
        return [(part, True) for part in unbundle(y)], True
    return y, True


def _along_axis(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """An op along an axis of its operands, or over all elements if the axis is None."""
    given = [broadcast_rows(x, m, n) for x, m in zip(xs, marks, strict=True)]
    axis = params["axis"]
    if axis is not None:
        return apply(op, tuple(given), {**params, "axis": axis + 1}), True
    if params.get("keepdims"):
        return apply_row_by_row(op, xs, marks, params, n)
    flat = [np.reshape(x, (n, -1)) for x in given]
    return apply(op, tuple(flat), {**params, "axis": 1}), True


def _order_statistics(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """The elements of (R, N) rows at (Q, R) ranks: the batch makes n times as many rows."""
    rows, *others = (broadcast_rows(x, m, n) for x, m in zip(xs, marks, strict=True))
    _, many, count = np.shape(rows)

    def beside(x: Any) -> Any:
        return np.reshape(np.moveaxis(x, 0, 1), (np.shape(x)[1], n * many))

    same = not marks[-1] and np.shape(xs[-1])[1] == 1
    given = [beside(np.broadcast_to(x, (n, np.shape(x)[1], many))) for x in others]
    if same:  # the same ranks in all rows
        given[-1] = xs[-1]
    found = apply(op, (np.reshape(rows, (n * many, count)), *given), params)
    return np.moveaxis(np.reshape(found, (-1, n, many)), 1, 0), True


def _prepend_extent(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    return apply(op, tuple(xs), {**params, "shape": (n, *params["shape"])}), True


def _broadcast_to(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    x = pad_rank(xs[0], len(params["shape"]))
    return np.broadcast_to(x, (n, *params["shape"])), True


def _transpose(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    axes = (0, *(axis + 1 for axis in params["axes"]))
    return apply(op, tuple(xs), {"axes": axes}), True


def _basic_index(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """Basic indexing of each row."""
    given = [broadcast_rows(x, m, n) for x, m in zip(xs, marks, strict=True)]
    if op is getitem.put:  # the value is broadcast to the indexed part
        part_shape = canonical.indexed_shape(params["index"], row_shape(xs[0], marks[0]))
        given[1] = pad_rank(given[1], len(part_shape))
    more = {"index": (slice(0, n, 1), *params["index"])}
    if "shape" in params:
        more["shape"] = (n, *params["shape"])
    return apply(op, tuple(given), more), True


def _gather(op: Op, xs: Values, marks: Marks, params: OpParams, n: int) -> BatchedValue:
    """Elements of one table at batched indices, or the same indices in every row."""
    x, *indices = xs
    key = params["index"]
    holes = [at for at, part in enumerate(key) if part is HOLE or part == HOLE]
    together = holes == list(range(holes[0], holes[0] + len(holes)))
    masks = any(np.result_type(aval_of(a)) == np.bool_ for a in indices)
    if masks or not together or (marks[0] and any(marks[1:])):
        return apply_row_by_row(op, xs, marks, params, n)
    if marks[0]:
        return apply(op, (x, *indices), {"index": (slice(0, n, 1), *key)}), True
    if any(part is None or part is Ellipsis for part in key[: holes[0]]):
        return apply_row_by_row(op, xs, marks, params, n)
    rank = max(len(row_shape(a, m)) for a, m in zip(indices, marks[1:], strict=True))
    given = [pad_rank(a, rank) if m else a for a, m in zip(indices, marks[1:], strict=True)]
    y = apply(op, (x, *given), params)
    lead = sum(isinstance(part, slice) for part in key[: holes[0]])
    return np.moveaxis(y, lead, 0), True


_RULES: dict[Op, BatchingRule] = {
    OPS[name]: rule
    for rule, names in (
        (_matrix_stack, ("bases", "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv")),
        (
            _matrix_stack,
            ("nullity", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals"),
        ),
        (_along_axis, ("argmax", "argmin", "argsort", "count_nonzero", "cumprod")),
        (_along_axis, ("cumsum", "recurrence", "sort")),
        (_along_axis, ("concatenate", "stack")),
        (_order_statistics, ("ranked", "rank_sources")),
        (_elementwise, ("conjugate", "real", "imag")),
        (_reduce, ("softmax", "logsoftmax", "logsumexp")),
        (lambda op, xs, *_: (xs[0], True), ("item",)),
        (lambda op, xs, *_: (apply(op, tuple(xs)), True), ("identity", "copy")),
        (_prepend_extent, ("zeros_like", "ones_like", "reshape")),
        (_broadcast_to, ("broadcast_to",)),
        (_transpose, ("transpose",)),
        (_basic_index, ("getitem", "embed", "put")),
        (_gather, ("gather",)),
    )
    for name in names
}
