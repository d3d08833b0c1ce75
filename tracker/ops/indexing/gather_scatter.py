"""What `gather` and `scatter` are compiled to: the ops `taken`, `scattered`, `scattered_sum` and
`scattered_added`, whose index arrays are integers known to be in range.

`normalize_index` brings any index to this normal form in an expansion; `compacted` turns a mask
into positions. A normal index has one entry for each axis (a slice with an explicit start and step,
a non-negative int, or `HOLE` for an array), None for a new axis, and at most one ellipsis, which
stands for no axis but separates the arrays on its two sides. The index arrays broadcast together to
the *batch* axes of the result, which replace the first array (or int), or come first if the arrays
are separated: NumPy's rule. The ops of users' subscripts are in `getitem.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Const
from tracker.ir.lowering import Compact, Expand, Map, Scatter, View
from tracker.ir.types import Type
from tracker.ops.declare.declare import nondiff_op
from tracker.ops.elementwise.comparison import equal
from tracker.ops.reduce.predicates import all_, count_nonzero, reduce_all_axes
from tracker.ops.shape.shape import reshape_if_needed

HOLE = "_"  # in an index: the next operand array goes here
Index = tuple[Any, ...]
_INT64 = np.dtype(np.int64)


class SparseCotangent:
    """A cotangent that is zero outside of a basic index: `g` at `index` of an array of zeros.

    The vjp of a read. Many reads of one array are accumulated without allocating their zeros.
    """

    __slots__ = ("g", "index", "shape")

    def __init__(self, g: Any, index: Index, shape: tuple[int, ...]) -> None:
        self.g = g
        self.index = index
        self.shape = shape


def is_hole(part: Any) -> bool:
    return type(part) is str and part == HOLE


def fill_holes(index: Index, arrays: tuple[Any, ...]) -> Index:
    """An index with its arrays, as NumPy takes it."""
    if len(index) == 1 == len(arrays):
        return arrays
    rest = iter(arrays)
    return tuple(next(rest) if is_hole(part) else part for part in index)


# The batch axes -----------------------------------------------------------------------------------


def _batch_axis(index: Index) -> int:
    """The number of result axes before the batch axes."""
    positions = [i for i, part in enumerate(index) if is_hole(part) or type(part) is int]
    if positions[-1] - positions[0] + 1 != len(positions):
        return 0
    return sum(part is not Ellipsis for part in index[: positions[0]])


def gathered_shape(shape: tuple[int, ...], index: Index, arrays: Sequence[Type]) -> tuple[int, ...]:
    """The shape of x[index] for a normal index."""
    batch = np.broadcast_shapes(*(a.shape for a in arrays))
    rest: list[int] = []
    axis = 0
    for part in index:
        if part is Ellipsis:
            continue
        if part is None:
            rest.append(1)
            continue
        if isinstance(part, slice):
            rest.append(len(range(*part.indices(shape[axis]))))
        axis += 1
    front = _batch_axis(index)
    return (*rest[:front], *batch, *rest[front:])


def _source_index(
    e: Any, at: Any, shape: tuple[int, ...], index: Index, arrays: Sequence[Type], first: int
) -> tuple[Any, ...]:
    """The index in an array of this shape that position `at` of x[index] reads; the index arrays
    are the operands from number `first` on."""
    batch, front = len(np.broadcast_shapes(*(a.shape for a in arrays))), _batch_axis(index)
    inner, rest = at[front : front + batch], iter((*at[:front], *at[front + batch :]))
    source: list[Any] = []
    hole = 0
    for part in index:
        if part is Ellipsis:
            continue
        if part is None:
            next(rest)
        elif isinstance(part, slice):
            source.append(next(rest) * part.step + part.start)
        elif is_hole(part):
            extents = arrays[hole].shape
            position = tuple(
                0 if n == 1 else i
                for i, n in zip(inner[batch - len(extents) :], extents, strict=True)
            )
            source.append(e.held(first + hole, position, shape[len(source)]))
            hole += 1
        else:
            source.append(part)
    return tuple(source)


def indexed_extents(
    shape: tuple[int, ...], index: Index, arrays: Sequence[Type], first: int
) -> list[tuple[int, int]]:
    """For every index array of x[index], its operand number (from `first` on) and the extent of the
    axis that it indexes. Masks are left out: their shapes fit."""
    axis_counts = [a.ndim if a.dtype == np.bool_ else 1 for a in arrays]
    used = sum(part is not None and part is not Ellipsis for part in index)
    used += sum(axis_counts) - len(axis_counts)
    found: list[tuple[int, int]] = []
    axis = hole = 0
    for part in index:
        if is_hole(part):
            if arrays[hole].dtype != np.bool_:
                found.append((first + hole, shape[axis]))
            axis += axis_counts[hole]
            hole += 1
        elif part is not None:
            axis += len(shape) - used if part is Ellipsis else 1
    return found


# The ops ------------------------------------------------------------------------------------------
#
# Only expansions create them, and expansions are not differentiated.

taken = nondiff_op(
    "taken",
    infer=lambda x, *arrays, index: Type(gathered_shape(x.shape, index, arrays), x.dtype),
    evaluate=lambda x, *arrays, index: np.asarray(x)[fill_holes(index, arrays)],
    operands=2,
    lower=View(
        lambda e, at, x, *arrays, index: (0, _source_index(e, at, x.shape, index, arrays, 1), None)
    ),
)


def sum_at(
    g: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: tuple[int, ...] = ()
) -> Any:
    """Zeros with g added at an index; `counts` of its masks are part of the result type only."""
    out = np.zeros(shape, np.result_type(g))
    np.add.at(out, fill_holes(index, arrays), g)
    return out


scattered_sum = nondiff_op(
    "scattered_sum",
    infer=lambda g, *arrays, index, shape: Type(shape, g.dtype),
    evaluate=sum_at,
    operands=2,
    lower=Scatter(
        lambda g, *arrays, index, shape: g.shape,
        lambda e, at, g, *arrays, index, shape: _source_index(e, at, shape, index, arrays, 1),
        base=None,
        value=0,
        adds=True,
    ),
)


def _scattered_added(x: Any, v: Any, *arrays: Any, index: Index) -> Any:
    out = np.array(x)
    np.add.at(out, fill_holes(index, arrays), v)
    return out


scattered_added = nondiff_op(
    "scattered_added",
    infer=lambda x, v, *arrays, index: x,
    evaluate=_scattered_added,
    operands=3,
    lower=Scatter(
        lambda x, v, *arrays, index: v.shape,
        lambda e, at, x, v, *arrays, index: _source_index(e, at, x.shape, index, arrays, 2),
        base=0,
        value=1,
        adds=True,
    ),
)


def replace_at(x: Any, v: Any, *arrays: Any, index: Index, counts: tuple[int, ...] = ()) -> Any:
    """A copy of x with v written at an index."""
    out = np.array(x)
    out[fill_holes(index, arrays)] = v
    return out


scattered = nondiff_op(
    "scattered",
    infer=lambda x, v, *arrays, index: x,
    evaluate=replace_at,
    operands=3,
    lower=Scatter(
        lambda x, v, *arrays, index: gathered_shape(x.shape, index, arrays),
        lambda e, at, x, v, *arrays, index: _source_index(e, at, x.shape, index, arrays, 2),
        base=0,
        value=1,
    ),
)


# How many elements a mask selects. An op of its own: `ir/passes/mask_counts.py` looks for guards of
# selections, and must not take those of the user's code for them.
mask_count = nondiff_op(
    "mask_count",
    infer=lambda mask: Type((), np.dtype(np.intp)),
    evaluate=lambda mask: np.intp(np.count_nonzero(mask)),
    lower=Expand(lambda b, mask: b(count_nonzero, mask, axis=None)),
)


compacted = nondiff_op(
    "compacted",
    infer=lambda mask, *, count: Type((count,), np.dtype(np.intp)),
    evaluate=lambda mask, *, count: np.flatnonzero(mask)[:count],
    lower=Compact(),
)


# Flat positions of the `count` true elements of a mask of any shape, for `np.nonzero`.
positions = nondiff_op(
    "positions",
    infer=lambda mask, *, count: Type((count,), np.dtype(np.intp)),
    evaluate=lambda mask, *, count: np.flatnonzero(mask),
    lower=Expand(lambda b, mask, *, count: _mask_positions(b, mask, count)),
)
inside = nondiff_op(  # whether a position, possibly negative, is in range of an axis
    "inside",
    infer=lambda x, *, extent: Type(x.shape, np.dtype(bool)),
    evaluate=lambda x, *, extent: (x >= -extent) & (x < extent),
    lower=Map(
        lambda e, x, *, extent: e.logical_and(
            e.compare(">=", x, e.constant(-extent, x)), e.compare("<", x, e.constant(extent, x))
        ),
        lambda x: (_INT64,),
        "i",
    ),
)


# Normal form --------------------------------------------------------------------------------------


def normalize_index(
    b: Any, shape: tuple[int, ...], arrays: Sequence[Any], index: Index, counts: tuple[int, ...]
) -> tuple[tuple[int, ...], Index, list[Any]] | str:
    """In an expansion: the shape to which the indexed array is reshaped (the axes of a mask become
    one), the normal index, and its arrays; or why there is none. Requires what NumPy would raise
    for. A literal number is an int of the index."""
    masks = [a for a in arrays if a.type.dtype == np.bool_]
    if any(a.type.ndim == 0 for a in masks) or len(masks) != len(counts):
        return "a mask of no axes"
    rest, count = iter(arrays), iter(counts)
    used = sum(a.type.ndim - 1 for a in masks)
    used += sum(1 for part in index if part is not None and part is not Ellipsis)
    full_slices = (slice(None),) * (len(shape) - used)
    ellipsis_at = next((i for i, part in enumerate(index) if part is Ellipsis), len(index))
    new_shape: list[int] = []
    entries: list[Any] = []
    index_arrays: list[Any] = []
    axis = 0
    for part in (*index[: ellipsis_at + 1], *full_slices, *index[ellipsis_at + 1 :]):
        if part is None or part is Ellipsis:
            entries.append(part)
            continue
        if not is_hole(part):
            new_shape.append(shape[axis])
            entries.append(canonical_entry(part, shape[axis], axis))
            axis += 1
            continue
        array = next(rest)
        position = _literal_position(array, shape[axis])
        if position is not None:
            new_shape.append(shape[axis])
            entries.append(position)
            axis += 1
            continue
        entries.append(HOLE)
        if array.type.dtype == np.bool_:
            axes = array.type.ndim
            # NumPy allows an empty mask to be shorter than the axes it indexes
            new_shape.append(math.prod(shape[axis : axis + axes]))
            index_arrays.append(_mask_positions(b, array, next(count)))
        else:
            axes = 1
            new_shape.append(shape[axis])
            if array.type.size:
                b.require(reduce_all_axes(b, all_, b(inside, array, extent=shape[axis])))
            index_arrays.append(array)
        axis += axes
    return tuple(new_shape), tuple(entries), index_arrays


def _literal_position(array: Any, extent: int) -> int | None:
    """The position along an axis that a literal gives, if there is one."""
    if not isinstance(array, Const) or array.type.dtype.kind not in "iu":
        return None
    position = int(array.value)
    return position % extent if -extent <= position < extent else None


def _mask_positions(b: Any, mask: Any, count: int) -> Any:
    """The positions of a mask's true elements, of which there must be `count`."""
    b.require(b(equal, b(mask_count, mask), np.intp(count)))
    flat = reshape_if_needed(b, mask, (mask.type.size,))
    return b(compacted, flat, count=count)


def basic_index(index: Index) -> Index:
    """A normal index without arrays, in the canonical form of a basic one."""
    return tuple([part for part in index if part is not Ellipsis])


def canonical_entry(part: Any, extent: int, axis: int) -> Any:
    """One entry of a basic index in canonical form; raises IndexError as NumPy does."""
    if isinstance(part, slice):
        start, stop, step = part.indices(extent)
        if not range(start, stop, step):
            return slice(0, 0, 1)
        if step > 0:
            return slice(start, stop, step)
        return slice(start, None if stop < 0 else stop, step)
    position = part + extent if part < 0 else part
    if not 0 <= position < extent:
        raise IndexError(f"index {part} is out of bounds for axis {axis} with size {extent}")
    return position
