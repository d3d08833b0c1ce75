"""Cotangents that arrive in pieces, added up where they belong.

Owns: `add_sparse` (two cotangents of one value become one), `densify`, `split_overwritten` (what a
write leaves for the array it wrote into). The pass that uses them is in `reverse.py`.

Reading an array element by element sends back a `SparseCotangent` per element. The first two make
an array; from then on each piece is added in place, so that n reads cost n, and not n times the
array. Where the pass is recorded, equations say `total + embed(piece)` all the same, but the array
of zeros around the piece is never made: its data stands for its shape and dtype only.

Invariant: an array is changed in place only if this pass made it and nobody else has seen it; and
if its numbers are there (a trace may have put them off: then there is no array to be spared).
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
    """A cotangent as an array."""
    if type(c) is not SparseCotangent:
        return c
    return apply(embed, (c.g,), {"index": c.index, "shape": c.shape})


def add_sparse(old: Any, is_owned: bool, c: Any) -> tuple[Any, bool]:
    """The sum of two cotangents, at least one of them a piece, and whether its array is the
    pass's own; `is_owned` says so of `old`."""
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
    """Whether a piece can be added to the array itself."""
    array = aval_of(total)
    return (
        type(array) is np.ndarray
        and not has_lazy_data(total)
        and array.dtype == np.result_type(aval_of(c.g))
        and isinstance(total, Tracked) == isinstance(c.g, Tracked)
    )


def split_overwritten(g: Any, v: Any, index: Any) -> list[Any]:
    """What the cotangent of x[index] = v, an array of the pass's own, leaves for x and v: the
    piece goes to v, and what remains of the array to x."""
    array = data_of(g)
    taken = array[index]
    taken = taken.copy() if type(taken) is np.ndarray else taken
    if not isinstance(g, Tracked):
        array[index] = 0
        return [array, project(taken, v)]
    piece = record_result(getitem, (g,), {"index": index}, taken)
    hole = np.zeros_like(piece)
    array[index] = 0
    return [record_result(put, (g, hole), {"index": index}, array), project(piece, v)]


def can_split_overwritten(op: Any, g: Any) -> bool:
    """Whether `split_overwritten` is for this op and cotangent."""
    return op is put and type(aval_of(g)) is np.ndarray and not has_lazy_data(g)
