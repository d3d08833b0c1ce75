"""Reads and writes by index, as pure functions.

Ops come in adjoint pairs: `getitem` and `embed` for basic indices (ints, slices, new axes,
ellipsis), `gather` and `scatter_add` for integer and boolean arrays. `put` and `scatter` return a
copy with elements replaced. An index is a static parameter: a tuple of slices, ints and None, with
`HOLE` in place of each array operand (`canonical.py`). `subscripts.py` chooses the op.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.lowering import Expand, SliceWrites, View
from tracker.ir.op import LINEAR, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.declare import declare, nondiff_op
from tracker.ops.declare.rule_helpers import project
from tracker.ops.elementwise.comparison import equal
from tracker.ops.indexing.canonical import indexed_shape
from tracker.ops.indexing.gather_scatter import (
    Index,
    SparseCotangent,
    basic_index,
    fill_holes,
    gathered_shape,
    indexed_extents,
    is_hole,
    mask_count,
    normalize_index,
    replace_at,
    scattered,
    scattered_sum,
    sum_at,
    taken,
)
from tracker.ops.shape.create import astype, iota
from tracker.ops.shape.shape import broadcast_to, reshape, reshape_if_needed
from tracker.support.array_copies import copy_with_layout
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracing.tracer import current_tracer

_INT = np.dtype(np.intp)


# Basic indices ------------------------------------------------------------------------------------


def _getitem_source(e: Any, at: Any, x: Type, *, index: Index) -> Any:
    position = iter(at)
    source = []
    for part in index:
        if part is None:
            next(position)
        elif isinstance(part, slice):
            source.append(next(position) * part.step + part.start)
        else:
            source.append(part)
    return 0, tuple(source), None


def _embed_source(e: Any, at: Any, g: Type, *, index: Index, shape: tuple[int, ...]) -> Any:
    """The index in `g` of element `at` of the embedded array, and the condition that there
    is one."""
    source = []
    conditions = []
    axis = 0
    for part in index:
        if part is None:
            source.append(0)
            continue
        if isinstance(part, slice):
            n = len(range(*part.indices(shape[axis])))
            inner, inside = e.within(at[axis], part.start, part.step, n)
            source.append(inner)
        else:
            _, inside = e.within(at[axis], part, 1, 1)
        conditions.append(inside)
        axis += 1
    return 0, tuple(source), e.every(conditions)


def _embed(g: Any, *, index: Index, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, np.result_type(g))
    out[index] = g
    return out


getitem: Op = declare(
    "getitem",
    infer=lambda x, *, index: Type(indexed_shape(index, x.shape), x.dtype),
    evaluate=lambda x, *, index: x[index],
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, index: SparseCotangent(g, index, np.shape(x))],
    lower=View(_getitem_source, order="V"),
)
embed: Op = declare(
    "embed",
    infer=lambda g, *, index, shape: Type(shape, g.dtype),
    evaluate=_embed,
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, index, shape: apply(getitem, (g,), {"index": index})],
    lower=View(_embed_source, lambda g, *, index, shape: SliceWrites(None, ((0, index),)), "C"),
)


def _put(x: Any, v: Any, *, index: Index) -> Any:
    broadcast = type(x) is not np.ndarray or 0 in x.strides
    out = np.array(x) if broadcast else copy_with_layout(x)
    out[index] = v
    return out


def _zero_at(t: Any, *_: Any, index: Index) -> Any:
    """A tangent or cotangent of the base: 0 where elements were replaced."""
    zeros = np.zeros_like(apply(getitem, (t,), {"index": index}))
    return apply(put, (t, zeros), {"index": index})


def _broadcast_value(v: Any, index: Index, x: Any) -> Any:
    """A value to be written, in the shape and dtype of its destination."""
    return np.astype(
        np.broadcast_to(as_array(v), indexed_shape(index, np.shape(x))), np.result_type(x)
    )


put: Op = declare(
    "put",
    infer=lambda x, v, *, index: x,
    evaluate=_put,
    jvp=[
        _zero_at,
        lambda t, y, x, v, *, index: apply(
            embed, (_broadcast_value(t, index, y),), {"index": index, "shape": np.shape(x)}
        ),
    ],
    vjp=[
        _zero_at,
        lambda g, y, x, v, *, index: project(apply(getitem, (g,), {"index": index}), v),
    ],
    linear=True,
    lower=View(
        lambda e, at, x, v, *, index: e.either(
            _embed_source(e, at, v, index=index, shape=x.shape), v, at
        ),
        lambda x, v, *, index: SliceWrites(0, ((1, index),)),
        "K",
    ),
)

as_view: Op = declare(  # a NumPy scalar as a 0-d array: `x[0, ...]` is one in NumPy
    "as_view",
    infer=lambda x: Type(x.shape, x.dtype),
    evaluate=np.asarray,
    jvp=LINEAR,
    vjp=[lambda g, y, x: g],
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)


# Array indices ------------------------------------------------------------------------------------


def _gather_infer(x: Type, *arrays: Type, index: Index, counts: tuple[int, ...] = ()) -> Type:
    samples = tuple(
        np.zeros(a.shape, a.dtype)
        if a.dtype == np.bool_
        else np.broadcast_to(a.dtype.type(0), a.shape)
        for a in arrays
    )
    for mask, count in zip([m for m in samples if m.dtype == np.bool_], counts, strict=True):
        mask.flat[:count] = True
    return Type(np.broadcast_to(np.int8(0), x.shape)[fill_holes(index, samples)].shape, x.dtype)


def _gather_build(b: Any, x: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    found = normalize_index(b, x.type.shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    shape, normal, index_arrays = found
    x = reshape_if_needed(b, x, shape)
    if not index_arrays:
        return b(getitem, x, index=basic_index(normal))
    return b(taken, x, *index_arrays, index=normal)


def _scatter_add_build(
    b: Any, g: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    found = normalize_index(b, shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    merged_shape, normal, index_arrays = found
    if not index_arrays:
        return b(embed, g, index=basic_index(normal), shape=shape)
    return reshape_if_needed(
        b, b(scattered_sum, g, *index_arrays, index=normal, shape=merged_shape), shape
    )


def _gathered_order(x: Type, *arrays: Type, index: Index, **_: Any) -> str:
    """The memory order of what is gathered: numbers give a view, and arrays that index the first
    axis an array in C order; others are not looked at."""
    if all(a.ndim == 0 and a.dtype.kind in "iu" for a in arrays):
        return "V"
    return "K" if is_hole(index[0]) else ""


gather: Op = declare(
    "gather",
    infer=_gather_infer,
    evaluate=lambda x, *arrays, index, counts=(): x[fill_holes(index, arrays)],
    jvp=[lambda t, y, x, *arrays, **params: apply(gather, (t, *arrays), params), None],
    vjp=[
        lambda g, y, x, *arrays, **params: apply(
            scatter_add, (g, *arrays), {**params, "shape": np.shape(x)}
        ),
        None,
    ],
    linear=True,
    lower=Expand(
        _gather_build,
        order=_gathered_order,
        checked_positions=lambda x, *arrays, index, **_: indexed_extents(x.shape, index, arrays, 1),
    ),
)
scatter_add: Op = declare(
    "scatter_add",
    infer=lambda g, *arrays, index, shape, counts=(): Type(shape, g.dtype),
    evaluate=sum_at,
    jvp=[lambda t, y, g, *arrays, **params: apply(scatter_add, (t, *arrays), params), None],
    vjp=[lambda g, y, x, *arrays, index, **_: apply_gather(g, arrays, index), None],
    linear=True,
    lower=Expand(
        _scatter_add_build,
        order="C",
        checked_positions=lambda g, *arrays, index, shape, **_: indexed_extents(
            shape, index, arrays, 1
        ),
    ),
)


def guarded_mask_count(mask: Any) -> int:
    """How many elements a tracked mask selects: a trace guards it, and decides later whether it
    must."""
    count = int(apply(mask_count, (mask,)))
    if (tracer := current_tracer()) is not None:
        tracer.guards.mask_counts.add(count)
    return count


def apply_gather(x: Any, arrays: tuple[Any, ...], index: Index) -> Any:
    return apply(gather, (x, *arrays), index_params(index, arrays))


def index_params(index: Index, arrays: tuple[Any, ...]) -> dict[str, Any]:
    """The params of an op with array indices. The number of true elements of each mask is one of
    them, so that the result type follows from the params."""
    masks = [a for a in arrays if aval_of(a).dtype.kind == "b"]
    if not masks:
        return {"index": index}
    return {"index": index, "counts": tuple(int(np.count_nonzero(data_of(a))) for a in masks)}


def _scatter_build(b: Any, x: Any, v: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    found = normalize_index(b, x.type.shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    shape, normal, index_arrays = found
    target_shape = gathered_shape(shape, normal, [a.type for a in index_arrays])
    if v.type.ndim > len(target_shape):
        v = b(reshape, v, shape=v.type.shape[v.type.ndim - len(target_shape) :])
    if not index_arrays:
        return b(put, x, v, index=basic_index(normal))
    return reshape_if_needed(
        b,
        b(scattered, reshape_if_needed(b, x, shape), v, *index_arrays, index=normal),
        x.type.shape,
    )


def _winners(shape: tuple[int, ...], arrays: tuple[Any, ...], index: Index) -> Any:
    """Which written elements survive where one position is written more than once: the last."""
    position = fill_holes(index, tuple(data_of(a) for a in arrays))
    count = np.broadcast_to(np.int8(0), shape)[position].size
    ordinal = np.arange(count, dtype=_ordinal_dtype(count))
    ordinal = ordinal.reshape(np.broadcast_to(np.int8(0), shape)[position].shape)
    last = np.zeros(shape, ordinal.dtype)
    last[position] = ordinal
    return last[position] == ordinal


def _ordinal_dtype(count: int) -> np.dtype[Any]:
    """The dtype of the ordinals of `count` elements; 32 bits if possible, as the target may be
    large."""
    return np.dtype(np.int32 if count < 2**31 else np.int64)


def _winners_build(
    b: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    found = normalize_index(b, shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    merged_shape, normal, index_arrays = found
    batch_shape = gathered_shape(merged_shape, normal, [a.type for a in index_arrays])
    count = math.prod(batch_shape)
    dtype = _ordinal_dtype(count)
    ordinal = reshape_if_needed(
        b, b(astype, b(iota, shape=(count,), axis=0), dtype=dtype), batch_shape
    )
    zeros = b(broadcast_to, dtype.type(0), shape=merged_shape)
    last = b(scattered, zeros, ordinal, *index_arrays, index=normal)
    return b(equal, b(taken, last, *index_arrays, index=normal), ordinal)


def _scatter_vjp_base(g: Any, y: Any, x: Any, v: Any, *arrays: Any, index: Index, **_: Any) -> Any:
    zero = np.zeros_like(apply_gather(g, arrays, index))
    return apply(scatter, (g, zero, *arrays), index_params(index, arrays))


def _scatter_vjp_value(g: Any, y: Any, x: Any, v: Any, *arrays: Any, index: Index, **_: Any) -> Any:
    cotangent = apply_gather(g, arrays, index)
    avals = [aval_of(a) for a in arrays]
    if all(np.result_type(x) == np.bool_ for x in avals) or all(np.size(x) == 1 for x in avals):
        return project(cotangent, v)  # masks and single positions have no repetition
    survives = apply(winners, arrays, {**index_params(index, arrays), "shape": np.shape(x)})
    return project(np.where(survives, cotangent, np.zeros_like(cotangent)), v)


winners: Op = nondiff_op(
    "winners",
    infer=lambda *arrays, shape, **places: _gather_infer(
        Type(shape, np.dtype(bool)), *arrays, **places
    ),
    evaluate=lambda *arrays, index, shape, counts=(): _winners(shape, arrays, index),
    lower=Expand(_winners_build),
)


scatter: Op = declare(
    "scatter",
    infer=lambda x, v, *arrays, index, counts=(): x,
    evaluate=replace_at,
    jvp=[
        lambda t, y, x, v, *arrays, **params: apply(
            scatter, (t, np.zeros_like(v), *arrays), params
        ),
        lambda t, y, x, v, *arrays, **params: apply(
            scatter, (np.zeros_like(y), t, *arrays), params
        ),
        None,
    ],
    vjp=[_scatter_vjp_base, _scatter_vjp_value, None],
    linear=True,
    lower=Expand(
        _scatter_build,
        order="K",
        checked_positions=lambda x, v, *arrays, index, **_: indexed_extents(
            x.shape, index, arrays, 2
        ),
    ),
)
