"""`take`, `flip`, `roll`, `repeat`, `tile`, `nonzero`, `split` and others, composed of indexing and
shape ops."""

from __future__ import annotations

import math
import operator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tracker.ir.op import NUMPY
from tracker.ops.declare.arguments import array_and_axis, as_array, as_strong_array, refuse_keywords
from tracker.ops.declare.casting import cast_error, store_out
from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.indexing.gather_scatter import positions
from tracker.ops.indexing.getitem import guarded_mask_count
from tracker.ops.shape.shape import contiguous
from tracker.ops.shape.windows import windows
from tracker.tape.conversions import guarded_data, plain_integers
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracked import Tracked


def index_along_axis(arr: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """The index that picks, in each line along an axis, the elements named for this line."""
    axis = normalize_axis_index(axis, np.ndim(arr))
    _check_integers(indices)
    if np.ndim(indices) != np.ndim(arr):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    index: list[Any] = []
    for i, n in enumerate(np.shape(arr)):
        shape = (1,) * i + (-1,) + (1,) * (np.ndim(arr) - i - 1)
        index.append(indices if i == axis else np.arange(n).reshape(shape))
    return tuple(index)


def flat_index(indices: Any) -> Any:
    """The indices of `take_along_axis` without an axis."""
    if np.ndim(indices) != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")
    _check_integers(indices)
    return indices


def _check_integers(indices: Any) -> None:
    if np.result_type(aval_of(indices)).kind not in "iu":
        raise IndexError("`indices` must be an integer array")


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    if axis is not None:
        return arr[index_along_axis(arr, indices, axis)]
    return np.ravel(arr)[flat_index(indices)]


# Taking -------------------------------------------------------------------------------------------


def _check_mode(mode: str | None) -> None:
    if mode not in ("clip", "raise", "wrap", None):  # None means "raise"
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


@implements(np.take, method="take")
def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    a, axis = array_and_axis(a, axis)
    _check_mode(mode)
    n = np.shape(a)[axis]
    positions = _take_indices(indices)
    if mode == "wrap":
        positions = positions % n
    elif mode == "clip":
        positions = np.clip(positions, 0, n - 1)
    return store_out(out, contiguous(a[(slice(None),) * axis + (positions,)]), "unsafe")


def _take_indices(indices: Any) -> Any:
    """The indices of `np.take`: anything but an array is truncated to integers."""
    if not isinstance(indices, (np.ndarray, Tracked)):
        return np.asarray(indices, np.intp)
    kind = indices.dtype
    if kind == np.bool_:  # numbers here, not a mask
        return np.astype(indices, np.intp)
    if not np.can_cast(kind, np.intp, "same_kind"):
        raise cast_error(kind, np.dtype(np.intp), "same_kind", is_array=np.ndim(indices))
    return indices


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Read-only; `writeable=True` is refused."""
    refuse_keywords("np.lib.stride_tricks.sliding_window_view", writeable=writeable or None)
    shape = tuple(window_shape) if np.ndim(window_shape) else (window_shape,)
    sizes = tuple(map(operator.index, shape))
    axes = normalize_axis_tuple(
        range(np.ndim(x)) if axis is None else axis, np.ndim(x), allow_duplicate=True
    )
    if len(sizes) != len(axes):
        raise ValueError("Must provide matching length window_shape and axis")
    if len(set(axes)) < len(axes):
        for size, at in zip(sizes, axes, strict=True):
            x = sliding_window_view(x, size, at)
        return x
    if any(not 0 <= size <= np.shape(x)[at] for size, at in zip(sizes, axes, strict=True)):
        raise ValueError("window shape cannot be larger than input array shape")
    count, ndim = len(axes), np.ndim(x)
    last = tuple(range(ndim - count, ndim))
    ones = (1,) * count
    found = apply(
        windows, (np.moveaxis(x, axes, last),), {"kernel": sizes, "stride": ones, "dilation": ones}
    )
    window_axes = tuple(range(ndim, ndim + count))  # in the result of `windows`, these come last
    return np.moveaxis(found, (*last, *window_axes), (*window_axes, *axes))


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    m = as_strong_array(m)
    axes = normalize_axis_tuple(range(np.ndim(m)) if axis is None else axis, np.ndim(m))
    return m[tuple(slice(None, None, -1 if i in axes else 1) for i in range(np.ndim(m)))]


run_as_written(np.fliplr, np.flipud)


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    if any(extent < 0 for extent in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    positions = np.arange(int(np.prod(shape))) % max(np.size(a), 1)
    return np.reshape(
        np.ravel(a)[positions] if np.size(a) else np.zeros_like(a, shape=shape), shape
    )


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return np.reshape(roll(np.ravel(a), shift, 0), np.shape(a))
    shifts, axes = np.broadcast_arrays(shift, normalize_axis_tuple(axis, np.ndim(a), "axis", True))
    for by, at in zip(map(int, shifts.tolist()), axes.tolist(), strict=True):
        n = np.shape(a)[at]
        if n and by % n:
            front = (slice(None),) * at
            parts = [a[(*front, slice(n - by % n, None))], a[(*front, slice(n - by % n))]]
            a = np.concatenate(parts, axis=at)
    return np.copy(a)


@implements(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    a, axis = array_and_axis(a, axis)
    if type(aval_of(repeats)) is float:  # NumPy accepts Python's floats only
        repeats = int(repeats)
    counts, shape = np.asarray(data_of(plain_integers(repeats))), np.shape(a)
    if counts.size == 1 and counts.dtype.kind in "iu" and (count := int(counts.ravel()[0])) >= 0:
        whole_axis = (*shape[: axis + 1], 1, *shape[axis + 1 :])
        repeated = np.broadcast_to(
            np.reshape(a, whole_axis), _with_extent(whole_axis, axis + 1, count)
        )
        return np.copy(np.reshape(repeated, _with_extent(shape, axis, shape[axis] * count)))
    return take(a, np.repeat(np.arange(shape[axis]), counts), axis)


def _with_extent(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    counts = tuple(reps) if np.ndim(reps) else (reps,)
    shape = (1,) * (len(counts) - np.ndim(A)) + np.shape(A)
    counts = (1,) * (len(shape) - len(counts)) + counts
    column = tuple(m for n in shape for m in (1, n))
    repeated = tuple(m for n, k in zip(shape, counts, strict=True) for m in (k, n))
    full_shape = tuple(n * k for n, k in zip(shape, counts, strict=True))
    y = np.reshape(np.broadcast_to(np.reshape(A, column), repeated), full_shape)
    return np.copy(y) if full_shape == shape else contiguous(y)


@implements(np.nonzero, method="nonzero")
def nonzero(a: Any) -> Any:
    """Plain integer arrays. Traced ones under a trace, which guards the number of results."""
    mask = np.not_equal(a, 0)
    if not isinstance(mask, Tracked) or not np.ndim(a):
        return np.nonzero(np.asarray(mask))
    flat = apply(positions, (mask,), {"count": guarded_mask_count(mask)})
    shape = np.shape(a)
    if len(shape) == 1:
        return (flat,)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(flat // step % max(n, 1) for step, n in zip(steps, shape, strict=True))


NUMPY[np.flatnonzero] = lambda a: np.nonzero(np.ravel(a))[0]


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    positions = np.stack(np.nonzero(np.atleast_1d(a)), axis=-1)
    return positions if np.ndim(a) else positions[:, :0]


# Splitting ----------------------------------------------------------------------------------------


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    ary = as_array(ary)
    extent = np.shape(ary)[axis]  # NumPy raises IndexError here, not AxisError
    axis = normalize_axis_index(axis, np.ndim(ary))
    indices_or_sections = guarded_data(plain_integers(indices_or_sections))
    if not np.ndim(indices_or_sections):
        indices_or_sections = int(indices_or_sections)
    sections = np.array_split(np.arange(extent), indices_or_sections)
    front = (slice(None),) * axis
    ends = np.cumsum([len(p) for p in sections]).tolist()
    if np.ndim(indices_or_sections):  # like slices, these may overlap or be out of range
        cuts = [0, *indices_or_sections, extent]
        return [ary[(*front, slice(a, b))] for a, b in pairwise(cuts)]
    return [ary[(*front, slice(e - len(p), e))] for e, p in zip(ends, sections, strict=True)]


run_as_written(np.dsplit, np.hsplit, np.split, np.vsplit)
