"""Accumulation of sparse cotangents.

Each read `x[i]` sends a `SparseCotangent` back to `x`. The first two are added to a new array, all
further ones in place: n reads cost n additions instead of n arrays. A recorded pass writes the
equation `total + embed(part)` without making the padded array: its data is a broadcast zero.

Invariant: an array is written in place only if this pass made it, nothing else refers to it, and
its data is computed (data that a trace computes lazily needs no array yet).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ops.declare.rule_helpers import project
from tracker.ops.elementwise.binary import add
from tracker.ops.indexing.gather_scatter import SparseCotangent
from tracker.ops.indexing.getitem import embed, getitem, put
from tracker.tape.record import apply, aval_of, data_of, has_lazy_data, record_result
from tracker.tape.tracked import Tracked


def densify(c: Any) -> Any:
    """A cotangent as an array, if it is sparse."""
    if type(c) is not SparseCotangent:
        return c
    return apply(embed, (c.g,), {"index": c.index, "shape": c.shape})


def add_sparse(old: Any, is_owned: bool, c: Any) -> tuple[Any, bool]:
    """The sum of two cotangents, at least one of them sparse, and whether the pass owns its array;
    `is_owned`: whether it owns that of `old`."""
    if type(old) is SparseCotangent:
        if type(c) is not SparseCotangent:
            old, c, is_owned = c, old, False
        else:
            old, is_owned = densify(old), True
    if not is_owned or not _can_add_inplace(old, c):
        return old + densify(c), True
    array = data_of(old)
    array[c.index] += data_of(c.g)
    if not isinstance(old, Tracked):
        return old, True
    around = np.broadcast_to(np.zeros((), array.dtype), c.shape)
    part = record_result(embed, (c.g,), {"index": c.index, "shape": c.shape}, around)
    return record_result(add, (old, part), {}, array), True


def _can_add_inplace(total: Any, c: SparseCotangent) -> bool:
    """Whether a sparse cotangent can be added to the array of `total`."""
    array = aval_of(total)
    return (
        type(array) is np.ndarray
        and not has_lazy_data(total)
        and array.dtype == np.result_type(aval_of(c.g))
        and isinstance(total, Tracked) == isinstance(c.g, Tracked)
    )


def split_overwritten(g: Any, v: Any, index: Any) -> list[Any]:
    """Contributions of `x[index] = v` to x and v, for an owned cotangent array g: v gets g[index],
    and x gets g itself with zeros there."""
    array = data_of(g)
    part = array[index]
    part = part.copy() if type(part) is np.ndarray else part
    if not isinstance(g, Tracked):
        array[index] = 0
        return [array, project(part, v)]
    recorded = record_result(getitem, (g,), {"index": index}, part)
    zeros = np.zeros_like(recorded)
    array[index] = 0
    return [record_result(put, (g, zeros), {"index": index}, array), project(recorded, v)]


def can_split_overwritten(op: Any, g: Any) -> bool:
    """Whether `split_overwritten` applies to an op and its cotangent."""
    return op is put and type(aval_of(g)) is np.ndarray and not has_lazy_data(g)
