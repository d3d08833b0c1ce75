"""How an op on one row becomes an op on all rows at once.

Owns: `batched`, which finds the rule of an op. A rule takes (op, xs, marks, params, n) and gives
(result, is it batched); marks[i] says whether operand i has the rows as its first axis, n of them.

An op without a rule is applied row by row: in a Python loop, or, under a trace, in a loop that
stays one. So every op can be mapped, and the rules are there for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.control.body import nest
from tracker.control.loop import run_loop
from tracker.ir.lowering import Contract, Map, Reduce
from tracker.ir.op import OPS, Op
from tracker.ops.declare.bundle import parts_of
from tracker.ops.indexing import canonical, getitem
from tracker.ops.indexing.gather_scatter import HOLE
from tracker.tape.observers import current_stage
from tracker.tape.record import apply, data_of, form_of

Params = dict[str, Any]
Answer = tuple[Any, Any]
Rule = Callable[[Op, Sequence[Any], Sequence[bool], Params, int], Answer]


def batched(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """Apply an op to all rows."""
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
            rule = row_by_row
    return rule(op, xs, marks, params, n)


def front(x: Any, mark: bool, n: int) -> Any:
    """An operand with a first axis of n rows."""
    return x if mark else np.broadcast_to(x, (n, *np.shape(x)))


def row_shape(x: Any, mark: bool) -> tuple[int, ...]:
    return np.shape(x)[1:] if mark else np.shape(x)


def padded(x: Any, rank: int) -> Any:
    """A batched operand with axes of extent 1 after the first, so that its rows have this rank."""
    n, *rest = np.shape(x)
    missing = rank - len(rest)
    return np.reshape(x, (n, *(1,) * missing, *rest)) if missing else x


# Every row in turn --------------------------------------------------------------------------------


def row_by_row(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    moving = [x for x, mark in zip(xs, marks, strict=True) if mark]

    def one(*rows: Any) -> Any:
        given = iter(rows)
        return apply(
            op, tuple(next(given) if m else x for x, m in zip(xs, marks, strict=True)), params
        )

    if current_stage() is not None:
        return _traced_rows(one, moving, n)
    rows = [one(*(x[i] for x in moving)) for i in range(n)]
    if type(form_of(rows[0])) is not tuple:
        return np.stack(rows), True
    columns = zip(*map(parts_of, rows), strict=True)
    return [(np.stack(column), True) for column in columns], True


def _traced_rows(one: Callable[..., Any], moving: Sequence[Any], n: int) -> Answer:
    several = False

    def body(*rows: Any) -> list[Any]:
        nonlocal several
        y = one(*rows)
        several = type(form_of(y)) is tuple
        return parts_of(y) if several else [y]

    nested = nest("row", body, [data_of(x)[0] for x in moving])
    made = run_loop(nested.function, n, nested.hoisted, [], moving, n, False, ())
    return ([(y, True) for y in made], True) if several else (made[0], True)


# Rules --------------------------------------------------------------------------------------------


def _elementwise(
    op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int
) -> Answer:
    rank = max(len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True))
    given = [padded(x, rank) if m else x for x, m in zip(xs, marks, strict=True)]
    return apply(op, tuple(given), params), True


def _reduce(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    axes = tuple(axis + 1 for axis in params["axis"])
    return apply(op, tuple(xs), {**params, "axis": axes}), True


def _matmul(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    (a, b), (left, right) = xs, marks
    ranks = [len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True)]
    if left and not right and ranks[0] <= 2 and ranks[1] <= 2 and ranks[0] + ranks[1] > 2:
        return _rows_times_matrix(a, b, n, ranks), True
    if left and ranks[0] == 1:  # a batch of vectors is a batch of rows
        a = np.reshape(a, (n, 1, -1))
    if right and ranks[1] == 1:
        b = np.reshape(b, (n, -1, 1))
    most = max(2, *ranks)
    a, b = (padded(x, most) if m else x for x, m in ((a, left), (b, right)))
    y = np.matmul(a, b)
    wanted = [*np.shape(y)]
    if right and ranks[1] == 1:
        wanted.pop(-1)
    if left and ranks[0] == 1:
        wanted.pop(-2 if not (right and ranks[1] == 1) and ranks[1] > 1 else -1)
    return np.reshape(y, tuple(wanted)), True


def _rows_times_matrix(a: Any, b: Any, n: int, ranks: Sequence[int]) -> Any:
    """All rows of a batch times one matrix or vector are one product."""
    *lead, inner = np.shape(a)
    flat = np.matmul(np.reshape(a, (-1, inner)), b)
    return np.reshape(flat, (*lead, *np.shape(b)[1:]))


def _stacked(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """An op that NumPy applies to stacks of matrices."""
    rank = max(len(row_shape(x, m)) for x, m in zip(xs, marks, strict=True))
    given = [padded(front(x, m, n), rank) for x, m in zip(xs, marks, strict=True)]
    y = apply(op, tuple(given), params)
    if type(form_of(y)) is tuple:
        return [(part, True) for part in parts_of(y)], True
    return y, True


def _along(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """An op along an axis of its operands; of None, over all elements."""
    given = [front(x, m, n) for x, m in zip(xs, marks, strict=True)]
    axis = params["axis"]
    if axis is not None:
        return apply(op, tuple(given), {**params, "axis": axis + 1}), True
    if params.get("keepdims"):
        return row_by_row(op, xs, marks, params, n)
    flat = [np.reshape(x, (n, -1)) for x in given]
    return apply(op, tuple(flat), {**params, "axis": 1}), True


def _ranked(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """What stands at (Q, R) places of (R, N) rows: of n times as many rows."""
    rows, *others = (front(x, m, n) for x, m in zip(xs, marks, strict=True))
    _, many, count = np.shape(rows)

    def beside(x: Any) -> Any:
        return np.reshape(np.moveaxis(x, 0, 1), (np.shape(x)[1], n * many))

    same = not marks[-1] and np.shape(xs[-1])[1] == 1
    given = [beside(np.broadcast_to(x, (n, np.shape(x)[1], many))) for x in others]
    if same:  # the same places of all rows
        given[-1] = xs[-1]
    found = apply(op, (np.reshape(rows, (n * many, count)), *given), params)
    return np.moveaxis(np.reshape(found, (-1, n, many)), 1, 0), True


def _same(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    return xs[0], True


def _applied(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    return apply(op, tuple(xs), params), True


def _shaped(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    return apply(op, tuple(xs), {**params, "shape": (n, *params["shape"])}), True


def _broadcast(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    x = padded(xs[0], len(params["shape"]))
    return np.broadcast_to(x, (n, *params["shape"])), True


def _transpose(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    axes = (0, *(axis + 1 for axis in params["axes"]))
    return apply(op, tuple(xs), {"axes": axes}), True


def _basic(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """Basic indices: every row."""
    given = [front(x, m, n) for x, m in zip(xs, marks, strict=True)]
    if op is getitem.put:  # the value broadcasts into its place
        place = canonical.lengths(params["index"], row_shape(xs[0], marks[0]))
        given[1] = padded(given[1], len(place))
    more = {"index": (slice(0, n, 1), *params["index"])}
    if "shape" in params:
        more["shape"] = (n, *params["shape"])
    return apply(op, tuple(given), more), True


def _gather(op: Op, xs: Sequence[Any], marks: Sequence[bool], params: Params, n: int) -> Answer:
    """Rows of one table by batched positions, or the same positions in every row."""
    x, *places = xs
    key = params["index"]
    holes = [at for at, part in enumerate(key) if part is HOLE or part == HOLE]
    together = holes == list(range(holes[0], holes[0] + len(holes)))
    masks = any(np.result_type(form_of(a)) == np.bool_ for a in places)
    if masks or not together or (marks[0] and any(marks[1:])):
        return row_by_row(op, xs, marks, params, n)
    if marks[0]:
        return apply(op, (x, *places), {"index": (slice(0, n, 1), *key)}), True
    if any(part is None or part is Ellipsis for part in key[: holes[0]]):
        return row_by_row(op, xs, marks, params, n)
    rank = max(len(row_shape(a, m)) for a, m in zip(places, marks[1:], strict=True))
    given = [padded(a, rank) if m else a for a, m in zip(places, marks[1:], strict=True)]
    y = apply(op, (x, *given), params)
    lead = sum(isinstance(part, slice) for part in key[: holes[0]])
    return np.moveaxis(y, lead, 0), True


_RULES: dict[Op, Rule] = {
    OPS[name]: rule
    for rule, names in (
        (_stacked, ("bases", "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv")),
        (_stacked, ("nullity", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals")),
        (_along, ("argmax", "argmin", "argsort", "count_nonzero", "cumprod")),
        (_along, ("cumsum", "recurrence", "sort")),
        (_along, ("concatenate", "stack")),
        (_ranked, ("ranked", "rank_sources")),
        (_elementwise, ("conjugate", "real", "imag")),
        (_reduce, ("softmax", "logsoftmax", "logsumexp")),
        (_same, ("item",)),
        (_applied, ("identity", "copy")),
        (_shaped, ("zeros_like", "ones_like", "reshape")),
        (_broadcast, ("broadcast_to",)),
        (_transpose, ("transpose",)),
        (_basic, ("getitem", "embed", "put")),
        (_gather, ("gather",)),
    )
    for name in names
}
