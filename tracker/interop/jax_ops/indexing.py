"""Reads and writes by index.

JAX clamps a position that is out of range, and drops a write to it: every integer that is not a
constant is checked here. Of several writes to one position JAX keeps any, NumPy the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tracker.interop.jax_ops.table import rule
from tracker.ir.types import Type
from tracker.ops.indexing.gather_scatter import Index, indexed_extents, is_hole


def _positions(
    step: Any, shape: tuple[int, ...], arrays: Sequence[Any], index: Index, counts: Sequence[int]
) -> tuple[Any, ...]:
    """The index with its arrays, masks as the positions of their true elements."""
    types = [Type(np.shape(a), np.dtype(a.dtype)) for a in arrays]
    for at, extent in indexed_extents(shape, index, types, 0):
        inside = (arrays[at] >= -extent) & (arrays[at] < extent)
        step.check(inside.all(), f"an index is out of range of an axis of {extent}")
    rest, count = iter(arrays), iter(counts)
    found: list[Any] = []
    for part in index:
        array = next(rest) if is_hole(part) else None
        if array is not None and array.dtype == bool:
            found += _true_positions(step, array, next(count))
        else:
            found.append(part if array is None else array)
    return tuple(found)


def _true_positions(step: Any, mask: Any, count: int) -> Sequence[Any]:
    step.check(mask.sum() == count, f"a mask does not have {count} true elements")
    return np.nonzero(mask) if type(mask) is np.ndarray else jnp.nonzero(mask, size=count)


def _fitted(v: Any, rank: int) -> Any:
    """A value without the leading axes of one element that NumPy ignores in assignments."""
    return v if jnp.ndim(v) <= rank else jnp.reshape(v, jnp.shape(v)[jnp.ndim(v) - rank :])


@rule("getitem")
def _getitem(step: Any, x: Any, index: Index) -> Any:
    return x[tuple(index)]


@rule("embed")
def _embed(step: Any, g: Any, index: Index, shape: tuple[int, ...]) -> Any:
    return jnp.zeros(shape, step.dtype).at[tuple(index)].set(g)


@rule("put")
def _put(step: Any, x: Any, v: Any, index: Index) -> Any:
    x = jnp.asarray(x)
    rank = np.broadcast_to(np.int8(0), x.shape)[tuple(index)].ndim
    return x.at[tuple(index)].set(_fitted(jnp.asarray(v, x.dtype), rank))


@rule("gather", "taken")
def _gather(step: Any, x: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    return jnp.asarray(x)[_positions(step, x.shape, arrays, index, counts)]


@rule("scatter_add", "scattered_sum")
def _scatter_add(
    step: Any, g: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    at = _positions(step, shape, arrays, index, counts)
    return jnp.zeros(shape, step.dtype).at[at].add(g)


@rule("scattered_added")
def _scattered_added(step: Any, x: Any, v: Any, *arrays: Any, index: Index) -> Any:
    return jnp.asarray(x).at[_positions(step, x.shape, arrays, index, ())].add(v)


@rule("scatter", "scattered")
def _scatter(step: Any, x: Any, v: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    x = jnp.asarray(x)
    at = _positions(step, x.shape, arrays, index, counts)
    shape = _indexed_shape(x.shape, at)
    v = _fitted(jnp.asarray(v, x.dtype), len(shape))
    if _are_distinct(x.shape, arrays, at):
        return x.at[at].set(v)
    last = _last_writes(x.shape, at)
    written = jnp.take(jnp.broadcast_to(v, shape).ravel(), jnp.maximum(last, 0))
    return jnp.where(last >= 0, written, x)


@rule("winners")
def _winners(
    step: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    at = _positions(step, shape, arrays, index, counts)
    return _last_writes(shape, at)[at] == _ordinals(_indexed_shape(shape, at))


def _indexed_shape(shape: tuple[int, ...], at: tuple[Any, ...]) -> tuple[int, ...]:
    of = tuple(np.zeros(np.shape(i), np.int8) if hasattr(i, "dtype") else i for i in at)
    found: tuple[int, ...] = np.broadcast_to(np.int8(0), tuple(max(n, 1) for n in shape))[of].shape
    return found


def _are_distinct(shape: tuple[int, ...], arrays: Sequence[Any], at: tuple[Any, ...]) -> bool:
    """Whether no position is known to occur twice: masks have each once."""
    if all(a.dtype == bool or np.size(a) == 1 for a in arrays):
        return True
    if not all(type(a) is np.ndarray for a in arrays):
        return False
    found = np.arange(math.prod(shape)).reshape(shape)[at]
    return bool(np.unique(found).size == found.size)


def _ordinals(shape: tuple[int, ...]) -> Any:
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def _last_writes(shape: tuple[int, ...], at: tuple[Any, ...]) -> Any:
    """The number of the last element that is written to each position; -1 for none."""
    return jnp.full(shape, -1, np.int32).at[at].max(_ordinals(_indexed_shape(shape, at)))


@rule("compacted", "positions")
def _flat_positions(step: Any, mask: Any, count: int) -> Any:
    return _true_positions(step, mask.ravel(), count)[0]


@rule("mask_count")
def _mask_count(step: Any, mask: Any) -> Any:
    return jnp.count_nonzero(mask)


@rule("inside")
def _inside(step: Any, x: Any, extent: int) -> Any:
    return (x >= -extent) & (x < extent)
