"""Functions that join, cut, insert and pad: `block`, `delete`, `insert`, `pad`, `meshgrid` and
others.

Composed of `concatenate`, indexing and writes. Destinations do not depend on the values, so they
are often found by passing an array of positions to NumPy's own function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tracker.ir.op import NONDIFFERENTIABLE
from tracker.ops.along_axis.cumulative import axis_slicer
from tracker.ops.declare.arguments import as_array, as_strong_array
from tracker.ops.declare.casting import cast_for_item, cast_for_store
from tracker.ops.declare.declare import implements, implements_nondiff
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.shape.create import buffer
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.conversions import plain_integers
from tracker.tape.record import aval_of

# Axes ---------------------------------------------------------------------------------------------


run_as_written(np.dstack, np.ix_, np.rollaxis, np.rot90, np.unstack)

# Joining ------------------------------------------------------------------------------------------


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return np.concatenate([as_strong_array(arr), as_strong_array(values)], axis=axis)


@implements(np.block)
def block(arrays: Any) -> Any:
    depth = _depth(arrays)
    ndim = max(depth, _most_axes(arrays))
    return _block(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("List at arrays cannot be empty")
    depths = {_depth(a) for a in arrays}
    if len(depths) != 1:
        raise ValueError("List depths are mismatched.")
    return 1 + depths.pop()


def _most_axes(arrays: Any) -> int:
    return max(map(_most_axes, arrays)) if isinstance(arrays, list) else np.ndim(arrays)


def _block(arrays: Any, depth: int, ndim: int) -> Any:
    if not isinstance(arrays, list):
        a = as_array(arrays)
        return np.reshape(a, (1,) * (ndim - np.ndim(a)) + np.shape(a))
    return np.concatenate([_block(a, depth - 1, ndim) for a in arrays], axis=-depth)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    axes_arrays = []
    for x, axis in zip(xi, order, strict=True):
        axes_arrays.append(np.reshape(as_array(x), (1,) * axis + (-1,) + (1,) * (n - axis - 1)))
    if not sparse:
        axes_arrays = list(np.broadcast_arrays(*axes_arrays))
    return tuple(x.copy() if copy else x for x in axes_arrays)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    return np.diag(np.ravel(as_array(v)), k)


# Functions of a shape
NONDIFFERENTIABLE.update((np.tril_indices_from, np.triu_indices_from))
run_as_written(np.tril_indices_from, np.triu_indices_from)


@implements_nondiff(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    if np.ndim(arr) < 2 or len(set(np.shape(arr))) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return np.diag_indices(np.shape(arr)[0], np.ndim(arr))


# Deleting and inserting ---------------------------------------------------------------------------


def _plain_positions(obj: Any) -> Any:
    """Positions as NumPy takes them; traced integers are guarded."""
    obj = plain_integers(obj)
    if isinstance(obj, (slice, int)):
        return obj
    positions = np.asarray(obj)
    # NumPy's rule: an empty list is an integer index, an empty array has its own dtype
    has_dtype = isinstance(obj, np.ndarray) or positions.size
    return positions if has_dtype else positions.astype(np.intp)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    arr = as_array(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = normalize_axis_index(axis, np.ndim(arr))
    kept = np.delete(np.arange(np.shape(arr)[axis]), _plain_positions(obj))
    y = _take_runs(arr, kept, axis)
    if isinstance(obj, slice) or (np.size(obj) == 1 and np.asarray(obj).dtype.kind in "iu"):
        return in_memory_order(y, "A", arr)
    # NumPy reads the rest by a mask, and keeps the memory layout of such a read
    small = np.empty_like(np.asarray(aval_of(arr)), shape=(2,) * np.ndim(arr))
    key: Any = (*(slice(None),) * axis, [True, True])
    return in_memory_order(y, "K", small[key])


_FEW = 5  # runs, each of which becomes a slice


def _take_runs(a: Any, positions: Any, axis: int) -> Any:
    """The array at given positions along an axis, as slices if these form few arithmetic runs."""
    runs = _runs(positions)
    if not runs:
        return np.take(a, positions, axis)
    at = axis_slicer(axis)
    parts = []
    for first, step, count in runs:
        if step == 0 and count > 1:
            parts.append(_repeat_along(a[at(slice(first, first + 1))], a, axis, count))
        else:
            stop = first + step * count
            parts.append(a[at(slice(first, stop if stop >= 0 else None, step or 1))])
    return np.concatenate(parts, axis)


def _runs(positions: Any) -> list[tuple[int, int, int]]:
    """(first position, step, count) of each arithmetic run; empty if there are many runs."""
    steps = np.diff(positions)
    changes = np.flatnonzero(np.diff(steps))
    found: list[tuple[int, int, int]] = []
    if len(changes) >= 2 * _FEW:
        return found
    start = 0
    while start < len(positions):
        if start + 1 == len(positions):
            end, step = start + 1, 1
        else:
            at = np.searchsorted(changes, start)
            end = int(changes[at]) + 2 if at < len(changes) else len(positions)
            step = int(steps[start])
            if end - start == 2 and abs(step) > 1:  # the second may start a run of step 1
                end, step = start + 1, 1
        found.append((int(positions[start]), step, end - start))
        start = end
    return found if len(found) <= _FEW else []


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    arr = as_array(arr)
    values = cast_for_store(values, arr.dtype)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = normalize_axis_index(axis, np.ndim(arr))
    obj = _plain_positions(obj)
    n = np.shape(arr)[axis]
    has_positions = not isinstance(obj, slice) and np.result_type(obj) != np.bool_
    is_single = has_positions and np.size(obj) == 1
    if is_single:
        if np.ndim(obj) == 0:  # `values` is inserted along the axis
            front = (1,) * (np.ndim(arr) - np.ndim(values)) + np.shape(values)
            values = np.moveaxis(np.reshape(values, front), 0, axis)
        position = int(np.reshape(obj, ()))
        count = np.shape(np.broadcast_to(values, _resized_shape(arr, axis, None, values)))[axis]
        is_new = np.insert(np.full(n, -1), [position] * count, 0) == 0
    else:
        is_new = np.insert(np.full(n, -1), obj, 0) == 0
    cut = axis_slicer(axis)
    positions = np.flatnonzero(is_new)
    if is_single and count:
        first, shape = int(positions[0]), _resized_shape(arr, axis, count, values)
        middle = np.broadcast_to(values, shape)
        parts = [arr[cut(slice(first))], middle, arr[cut(slice(first, None))]]
        return in_memory_order(np.concatenate(parts, axis), "A", arr)
    out = buffer(np.zeros(_resized_shape(arr, axis, len(is_new), values), arr.dtype))
    if has_positions and not is_single:  # values are in the order of the given positions
        positions = positions[
            np.argsort(np.argsort(np.where(obj < 0, obj + n, obj), kind="stable"))
        ]
    out[cut(positions)] = values
    out[cut(np.flatnonzero(~is_new))] = arr
    return in_memory_order(out, "A", arr)


def _resized_shape(arr: Any, axis: int, n: int | None, values: Any) -> tuple[int, ...]:
    """The array's shape with another extent along an axis (None: that of the values)."""
    shape = list(np.shape(arr))
    if n is None:
        from_end = np.ndim(arr) - axis
        n = np.shape(values)[-from_end] if np.ndim(values) >= from_end else 1
    shape[axis] = n
    return tuple(shape)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    a, trim = as_array(filt), trim.lower()
    if trim not in {"fb", "bf", "f", "b"}:
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    if np.ndim(a) == 0:
        return a
    positions = np.nonzero(a)
    axes = normalize_axis_tuple(range(np.ndim(a)) if axis is None else axis, np.ndim(a))
    cuts = [slice(None)] * np.ndim(a)
    for i in axes:
        n = np.shape(a)[i]
        first, last = (
            (int(min(positions[i])), int(max(positions[i])) + 1) if len(positions[i]) else (n, n)
        )
        start = first if "f" in trim else 0
        stop = last if "b" in trim else n
        cuts[i] = slice(start, stop) if len(positions[i]) else slice(0, 0)
    return a[tuple(cuts)]


# Padding ------------------------------------------------------------------------------------------


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    a = as_array(array)
    if not isinstance(pad_width, dict) and as_array(pad_width).dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    widths = _pairs(pad_width, np.ndim(a))
    if callable(mode):
        return _pad_by_function(a, widths, mode, kwargs)
    if mode not in _PADS:
        raise ValueError(f"mode '{mode}' is not supported")
    keyword, pad_axis = _PADS[mode]
    unknown = set(kwargs) - {keyword}
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    _check_pad(np.shape(a), widths, mode, kwargs.get("stat_length"))
    for axis, (before, after) in enumerate(widths):
        if before or after:
            a = pad_axis(a, axis, before, after, **kwargs)
    return np.copy(a) if a is array else in_memory_order(a, "A", array)


def _check_pad(
    shape: tuple[int, ...], widths: list[tuple[int, int]], mode: str, lengths: Any
) -> None:
    if mode in ("maximum", "minimum") and lengths is not None and 0 in np.ravel(lengths):
        raise ValueError("stat_length of 0 yields no value for padding")
    if mode in ("constant", "empty"):
        return
    for axis, (n, width) in enumerate(zip(shape, widths, strict=True)):
        if n == 0 and width != (0, 0):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )


def _pairs(x: Any, ndim: int, is_integer: bool = True) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, from a number, a pair, a list of either, or a dict."""
    if isinstance(x, dict):
        pairs: list[Any] = [(0, 0)] * ndim
        for axis, given in x.items():
            pairs[axis] = tuple(given) if np.ndim(given) else (given, given)
        return pairs
    x = as_array(x)
    if is_integer and np.min(x) < 0:
        raise ValueError("index can't contain negative values")
    both = np.broadcast_to(x, (ndim, 2))
    return [(int(b), int(a)) if is_integer else (b, a) for b, a in both]


def _join_ends(a: Any, axis: int, before: Any, after: Any) -> Any:
    """The array with something (or None) on either side."""
    parts = [part for part in (before, a, after) if part is not None]
    return np.concatenate([np.astype(as_array(part), a.dtype) for part in parts], axis)


def _repeat_along(value: Any, a: Any, axis: int, n: int) -> Any:
    """A value broadcast to n elements along the axis; None if n is 0."""
    shape = list(np.shape(a))
    shape[axis] = n
    return np.broadcast_to(value, tuple(shape)) if n else None


def _pad_constant(a: Any, axis: int, before: int, after: int, *, constant_values: Any = 0) -> Any:
    pair = _pairs(constant_values, np.ndim(a), is_integer=False)[axis]
    low, high = (cast_for_item(end, a.dtype) for end in pair)
    return _join_ends(
        a, axis, _repeat_along(low, a, axis, before), _repeat_along(high, a, axis, after)
    )


def _pad_positions(mode: str) -> Callable[..., Any]:
    def pad_axis(a: Any, axis: int, before: int, after: int) -> Any:
        positions = np.pad(np.arange(np.shape(a)[axis]), (before, after), mode)  # type: ignore[call-overload]
        return _take_runs(a, positions, axis)

    return pad_axis


def _pad_mirrored(mode: str) -> Callable[..., Any]:
    """Even: a gather. Odd: 2 * edge - element, repeatedly as the padding grows."""

    def pad_axis(a: Any, axis: int, before: int, after: int, *, reflect_type: str = "even") -> Any:
        n = np.shape(a)[axis]
        period = n - 1 if mode == "reflect" else n
        if reflect_type == "even" or period == 0:
            return _pad_positions(mode)(a, axis, before, after)
        at = axis_slicer(axis)
        first, last = a[at(slice(1))], a[at(slice(-1, None))]
        reflections, rest = np.divmod(np.arange(-before, n + after), period)
        is_inside = (reflections == 0) | (np.arange(-before, n + after) == n - 1)
        column = (-1,) + (1,) * (np.ndim(a) - axis - 1)
        kind = a.dtype.type if a.dtype.kind in "fc" else float
        times = reflections.reshape(column).astype(kind)
        direct, mirrored = np.take(a, np.minimum(rest, n - 1), axis), np.take(a, n - 1 - rest, axis)
        padded = np.where(
            reflections.reshape(column) % 2 == 0,
            direct + times * (last - first),
            first + last + times * (last - first) - mirrored,
        )
        clipped = np.take(a, np.clip(np.arange(-before, n + after), 0, n - 1), axis)
        return np.astype(np.where(is_inside.reshape(column), clipped, padded), a.dtype)

    return pad_axis


def _pad_ramp(a: Any, axis: int, before: int, after: int, *, end_values: Any = 0) -> Any:
    low, high = _pairs(end_values, np.ndim(a), is_integer=False)[axis]
    at = axis_slicer(axis)

    def ramp(end: Any, edge: Any, n: int) -> Any:
        last = np.squeeze(edge, axis)
        return np.linspace(end, last, n, False, dtype=a.dtype, axis=axis) if n else None

    left = ramp(low, a[at(slice(1))], before)
    right = ramp(high, a[at(slice(-1, None))], after)
    return _join_ends(a, axis, left, None if right is None else np.flip(right, axis))


def _pad_statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    def pad_axis(a: Any, axis: int, before: int, after: int, *, stat_length: Any = None) -> Any:
        n = np.shape(a)[axis]
        lengths = (n, n) if stat_length is None else _pairs(stat_length, np.ndim(a))[axis]
        left, right = (min(length, n) for length in lengths)
        at = axis_slicer(axis)
        chunks = a[at(slice(left))], a[at(slice(n - right, None))]
        low, high = (function(chunk, axis=axis, keepdims=True) for chunk in chunks)
        if a.dtype.kind in "iu":  # NumPy rounds means
            low, high = np.round(low), np.round(high)
        return _join_ends(
            a, axis, _repeat_along(low, a, axis, before), _repeat_along(high, a, axis, after)
        )

    return pad_axis


# The keyword and the function of each mode.
_PADS: dict[str, tuple[str | None, Callable[..., Any]]] = {
    "constant": ("constant_values", _pad_constant),
    "empty": (None, _pad_constant),
    "edge": (None, _pad_positions("edge")),
    "wrap": (None, _pad_positions("wrap")),
    "reflect": ("reflect_type", _pad_mirrored("reflect")),
    "symmetric": ("reflect_type", _pad_mirrored("symmetric")),
    "linear_ramp": ("end_values", _pad_ramp),
    "maximum": ("stat_length", _pad_statistic(np.max)),
    "minimum": ("stat_length", _pad_statistic(np.min)),
    "mean": ("stat_length", _pad_statistic(np.mean)),
    "median": ("stat_length", _pad_statistic(np.median)),
}


def _pad_by_function(
    a: Any, widths: list[tuple[int, int]], function: Any, kwargs: dict[str, Any]
) -> Any:
    """The user's function fills the padding of each line in place, axis by axis."""
    for axis, (before, after) in enumerate(widths):
        a = _pad_constant(a, axis, before, after)
    a = np.copy(a)
    for axis, width in enumerate(widths):
        lines = np.moveaxis(a, axis, -1)
        for position in np.ndindex(np.shape(lines)[:-1]):
            function(lines[position], width, axis, kwargs)
    return a
