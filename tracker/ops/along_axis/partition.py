"""Order statistics: the elements at given ranks of rows, without sorting the rest.

`ranked`, of which medians and quantiles are made, gives the elements, `rank_sources` their
positions. Compiled, the sort keys (`sort.py`) at a few ranks are selected in linear time
(`keys_at`), and located by counting (`sources_of`). Of several equal elements each rank has its own
source, the one that a stable sort would put there; NaNs come last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Expand, LocateSelected, Select
from tracker.ir.types import Type
from tracker.ops.along_axis.sort import key_value, lexicographic_order, ordered, sort_key, value_key
from tracker.ops.declare.declare import declare, nondiff_op
from tracker.ops.indexing.gather_scatter import HOLE, taken
from tracker.ops.indexing.subscripts import add_into_zeros
from tracker.ops.shape.create import iota
from tracker.ops.shape.shape import broadcast_to, transpose
from tracker.tape.record import apply

_INTP = np.dtype(np.intp)
_BLOCK = 1 << 16  # elements per block of rows, to bound temporary memory
_MOST = 16  # ranks; for more, whole rows are sorted

# Keys ---------------------------------------------------------------------------------------------


def _sources_of(keys: Any, ranks: Any, chosen: Any) -> Any:
    order = np.argsort(keys, axis=-1, kind="stable")
    return np.take_along_axis(order, np.broadcast_to(ranks, chosen.shape), axis=-1)


def _keys_at(keys: Any, ranks: Any) -> Any:
    ranks = np.broadcast_to(ranks, (len(keys), ranks.shape[1]))
    return np.take_along_axis(np.sort(keys, axis=-1), ranks, axis=-1)


keys_at = nondiff_op(
    "keys_at",
    infer=lambda keys, ranks: Type((keys.shape[0], ranks.shape[1]), keys.dtype),
    evaluate=_keys_at,
    operands=2,
    lower=Select(),
)
sources_of = nondiff_op(
    "sources_of",
    infer=lambda keys, ranks, chosen: Type(chosen.shape, _INTP),
    evaluate=_sources_of,
    operands=3,
    lower=LocateSelected(),
)

# Numbers ------------------------------------------------------------------------------------------


def _ranked(rows: Any, ranks: Any) -> Any:
    distinct = np.unique(ranks)
    if ranks.shape[1] == 1 and len(distinct) <= _MOST:
        return np.ascontiguousarray(np.partition(rows, distinct, axis=1).T[ranks[:, 0]])
    ranks = np.broadcast_to(ranks, (len(ranks), len(rows)))
    return np.take_along_axis(np.sort(rows, axis=1).T, ranks, axis=0)


def _ranked_build(b: Any, rows: Any, ranks: Any) -> Any:
    if rows.type.dtype.kind == "c":
        return _take_per_row(b, rows, _sources_build(b, rows, None, ranks))
    rank_rows = b(transpose, ranks, axes=(1, 0))
    if ranks.type.shape[0] <= _MOST:
        keys = b(transpose, b(keys_at, b(value_key, rows), rank_rows), axes=(1, 0))
    else:
        keys = _take_per_row(b, b(ordered, b(value_key, rows)), ranks)
    return b(key_value, keys, dtype=rows.type.dtype)


def _take_per_row(b: Any, rows: Any, positions: Any) -> Any:
    """rows[r, positions[q, r]] at (q, r)."""
    row_numbers = b(iota, shape=(rows.type.shape[0],), axis=0)
    return b(taken, rows, row_numbers, positions, index=(HOLE, HOLE))


def _sources_in(rows: Any, value: Any, rank: Any) -> Any:
    """For one rank, the position in each row of the element of that rank."""
    value_is_nan, is_nan = np.isnan(value), np.isnan(rows)
    equal = (rows == value) | (value_is_nan & is_nan)
    equals_before = rank - np.count_nonzero((rows < value) | (value_is_nan & ~is_nan), axis=1)
    number = np.cumsum(equal, axis=1) - 1
    return np.argmax(equal & (number == equals_before[:, None]), axis=1)


def _rank_sources(rows: Any, ranked: Any, ranks: Any) -> Any:
    if rows.dtype.kind == "c":
        order = np.argsort(rows, axis=1, kind="stable").T
        return np.take_along_axis(order, np.broadcast_to(ranks, ranked.shape), axis=0)
    found = np.empty(ranked.shape, _INTP)
    rows_per_block = max(_BLOCK // max(rows.shape[1], 1), 1)
    for first in range(0, len(rows), rows_per_block):  # bounds temporary memory
        part = slice(first, first + rows_per_block)
        for q, rank in enumerate(np.broadcast_to(ranks, ranked.shape)):
            found[q, part] = _sources_in(rows[part], ranked[q, part, None], rank[part])
    return found


def _sources_build(b: Any, rows: Any, ranked: Any, ranks: Any) -> Any:
    shape = (ranks.type.shape[0], rows.type.shape[0])
    if rows.type.dtype.kind == "c" or shape[0] > _MOST:
        order = lexicographic_order(b, [rows])
        return _take_per_row(b, order, b(broadcast_to, ranks, shape=shape))
    chosen = b(transpose, b(sort_key, ranked), axes=(1, 0))
    found = b(sources_of, b(sort_key, rows), b(transpose, ranks, axes=(1, 0)), chosen)
    return b(transpose, found, axes=(1, 0))


rank_sources = nondiff_op(
    "rank_sources",
    infer=lambda rows, ranked, ranks: Type(ranked.shape, _INTP),
    evaluate=_rank_sources,
    operands=3,
    lower=Expand(_sources_build),
)


def _source_index(y: Any, rows: Any, ranks: Any) -> tuple[Any, Any]:
    """The index into `rows` of the selected elements."""
    return np.arange(np.shape(rows)[0]), apply(rank_sources, (rows, y, ranks))


ranked = declare(  # of rows (R, N) at ranks (Q, R) or (Q, 1): (Q, R)
    "ranked",
    infer=lambda rows, ranks: Type((ranks.shape[0], rows.shape[0]), rows.dtype),
    evaluate=_ranked,
    jvp=[lambda t, y, rows, ranks: t[_source_index(y, rows, ranks)], None],
    vjp=[
        lambda g, y, rows, ranks: add_into_zeros(np.shape(rows), _source_index(y, rows, ranks), g),
        None,
    ],
    lower=Expand(_ranked_build),
)
