"""Filters that select a neighbour (maximum, minimum, by rank), and grey morphology, which is built
from them. Equal maxima share the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.ndimage.correlate import (
    as_output,
    normalize_axes,
    pad_edges,
    per_axis,
    window_reach,
)


def _neighbours(x: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: list[int]) -> Any:
    """The elements under the footprint, along a last axis, in C order."""
    if np.iscomplexobj(x):
        raise TypeError("Complex type not supported")
    if not footprint.any():
        raise ValueError("All-zero footprint is not supported.")
    if footprint.ndim != len(axes):
        raise RuntimeError(f"footprint.ndim ({footprint.ndim}) must match len(axes) ({len(axes)})")
    widths, modes = [(0, 0)] * np.ndim(x), ["nearest"] * np.ndim(x)
    options = footprint.shape, per_axis(origin, len(axes)), per_axis(mode, len(axes))
    for axis, size, start, axis_mode in zip(axes, *options, strict=True):
        widths[axis], modes[axis] = window_reach(size, start, "invalid origin"), axis_mode
    wide = pad_edges(x, widths, modes, cval)
    windows = np.lib.stride_tricks.sliding_window_view(wide, footprint.shape, axis=tuple(axes))
    flat = np.reshape(windows, (*np.shape(x), footprint.size))
    return flat if footprint.all() else flat[..., np.flatnonzero(footprint)]


def _footprint(size: Any, footprint: Any, count: int) -> Any:
    if footprint is not None:
        return np.asarray(footprint, dtype=bool)
    if size is None:
        raise RuntimeError("no footprint provided")
    return np.ones([int(n) for n in per_axis(size, count)], dtype=bool)


def _under_footprint(
    input: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: Any
) -> tuple[Any, Any]:
    """The input as an array, and its neighbours along a last axis."""
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    under = _footprint(size, footprint, len(axes))
    return x, _neighbours(x, under, mode, cval, origin, axes)


def _extreme_filter(name: str, pick: Callable[..., Any]) -> Callable[..., Any]:
    @drop_in(scipy.ndimage, name)
    def extreme(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        x, found = _under_footprint(input, size, footprint, mode, cval, origin, axes)
        return as_output(name, pick(found, -1), output, x)

    return extreme


maximum_filter = _extreme_filter("maximum_filter", np.max)
minimum_filter = _extreme_filter("minimum_filter", np.min)


def _extreme_filter1d(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    @drop_in(scipy.ndimage, name)
    def extreme(
        input: Any,
        size: int,
        axis: int = -1,
        output: Any = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Any:
        return filter(as_array(input), size, None, output, mode, cval, origin, axes=axis)

    return extreme


maximum_filter1d = _extreme_filter1d("maximum_filter1d", maximum_filter)
minimum_filter1d = _extreme_filter1d("minimum_filter1d", minimum_filter)


@drop_in(scipy.ndimage)
def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The neighbour of this rank; negative ranks count from the largest."""
    x, found = _under_footprint(input, size, footprint, mode, cval, origin, axes)
    return as_output("rank_filter", _of_rank(found, int(rank)), output, x)


@drop_in(scipy.ndimage)
def median_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    x, found = _under_footprint(input, size, footprint, mode, cval, origin, axes)
    return as_output("median_filter", _of_rank(found, np.shape(found)[-1] // 2), output, x)


@drop_in(scipy.ndimage)
def percentile_filter(
    input: Any,
    percentile: float,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError("invalid percentile")
    x, found = _under_footprint(input, size, footprint, mode, cval, origin, axes)
    count = np.shape(found)[-1]
    rank = count - 1 if share == 100 else int(float(count) * share / 100.0)
    return as_output("percentile_filter", _of_rank(found, rank), output, x)


def _of_rank(found: Any, rank: int) -> Any:
    count = np.shape(found)[-1]
    if not -count <= rank < count:
        raise RuntimeError("rank not within filter footprint size")
    return np.sort(found, axis=-1)[..., rank]


# Grey morphology ----------------------------------------------------------------------------------


def _grey_morphology(name: str, dilates: bool) -> Callable[..., Any]:
    @drop_in(scipy.ndimage, name)
    def morphology(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        structure: Any = None,
        output: Any = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        x = as_array(input)
        axes = normalize_axes(axes, np.ndim(x))
        if size is None and footprint is None and structure is None:
            raise ValueError("size, footprint, or structure must be specified")
        heights = None if structure is None else as_array(structure) * 1.0
        if footprint is None and heights is not None:
            footprint = np.ones(np.shape(heights), dtype=bool)
        under, origins = _footprint(size, footprint, len(axes)), per_axis(origin, len(axes))
        if dilates:  # reflects the footprint
            under = np.flip(under)
            heights = None if heights is None else np.flip(heights)
            sizes = under.shape
            origins = [-o - (n % 2 == 0) for o, n in zip(origins, sizes, strict=True)]
        found = _neighbours(x, under, mode, cval, origins, axes)
        if heights is not None:
            heights = np.ravel(heights)[np.flatnonzero(under)]
            found = found + heights if dilates else found - heights
        return as_output(name, (np.max if dilates else np.min)(found, axis=-1), output, x)

    return morphology


grey_dilation = _grey_morphology("grey_dilation", True)
grey_erosion = _grey_morphology("grey_erosion", False)


def _composed_morphology(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """An operation composed of erosions and dilations with the same arguments."""

    @drop_in(scipy.ndimage, name)
    def morphology(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        structure: Any = None,
        output: Any = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        shape = (size, footprint, structure, output, mode, cval, origin)

        def eroded(x: Any) -> Any:
            return grey_erosion(x, *shape, axes=axes)

        def dilated(x: Any) -> Any:
            return grey_dilation(x, *shape, axes=axes)

        return formula(as_array(input), eroded, dilated)

    return morphology


grey_opening = _composed_morphology("grey_opening", lambda x, eroded, dilated: dilated(eroded(x)))
grey_closing = _composed_morphology("grey_closing", lambda x, eroded, dilated: eroded(dilated(x)))
morphological_gradient = _composed_morphology(
    "morphological_gradient", lambda x, eroded, dilated: dilated(x) - eroded(x)
)
white_tophat = _composed_morphology(
    "white_tophat", lambda x, eroded, dilated: x - dilated(eroded(x))
)
black_tophat = _composed_morphology(
    "black_tophat", lambda x, eroded, dilated: eroded(dilated(x)) - x
)
