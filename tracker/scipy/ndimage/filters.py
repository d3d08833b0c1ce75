"""Filters and grey morphology: SciPy's functions, with the loops over neighbours in NumPy. The
helpers for arguments and edges serve `interpolation.py`, too.

SciPy filters boxes along one axis after the other; in each pass, equal maxima share the derivative.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import scipy.ndimage

from tracker.ops.shape.create import buffer
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy._bridge.scipy_source import NUMPY, Rebinding
from tracker.tape.tracked import Tracked

_PAD_MODES = ("edge", "wrap", "symmetric", "reflect", "constant", "wrap", "constant")


def as_output(name: str, x: Any, output: Any, like: Any) -> Any:
    """The result in the dtype that `output` names, or else in the input's."""
    if isinstance(output, np.ndarray):
        raise no_derivative_rule(f"scipy.ndimage.{name} with output=array", "Take what it returns")
    kind = np.dtype(like.dtype if output is None else output)
    return np.astype(x, np.result_type(kind, np.complex64) if np.iscomplexobj(x) else kind)


def per_axis(value: Any, count: int) -> list[Any]:
    """A list with one entry for each axis."""
    if isinstance(value, str) or not np.ndim(value := as_array(value)):
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return values


def _make_output(output: Any, input: Any, shape: Any = None, complex_output: bool = False) -> Any:
    """The array that a filter fills."""
    if isinstance(output, Tracked):
        return output
    if isinstance(output, np.ndarray):
        raise no_derivative_rule("a filter of scipy.ndimage with output=array", "Use its result")
    kind = np.dtype(input.dtype if output is None else output)
    kind = np.result_type(kind, np.complex64) if complex_output else kind
    made = NUMPY.zeros(input.shape if shape is None else shape, kind)
    return made if isinstance(made, Tracked) else buffer(made)


def _of_complex(
    filter: Any, input: Any, weights: Any, output: Any, cval: Any, **options: Any
) -> Any:
    """A filter of real arrays applied to real and imaginary parts."""

    def parts(x: Any) -> Any:
        if np.iscomplexobj(x):
            return ((1, np.real(x)), (1j, np.imag(x)))
        return ((1, x),)

    edges = {1: np.real(cval), 1j: np.imag(cval)}
    found = sum(
        a * b * filter(x, w, output=None, cval=edges[a], **options)
        for a, x in parts(input)
        for b, w in parts(weights)
    )
    return np.astype(found, output.dtype)


def _windows(x: Any, sizes: Any, axes: Any, mode: int, cval: Any, origins: Any) -> Any:
    """The neighbours of each element, along additional last axes."""
    widths = [(0, 0)] * np.ndim(x)
    for axis, size, origin in zip(axes, sizes, origins, strict=True):
        widths[axis] = size // 2 + origin, size - 1 - size // 2 - origin
    options: dict[str, Any] = {"constant_values": cval} if mode in (4, 6) else {}
    for axis in range(np.ndim(x)):
        if widths[axis] != (0, 0):
            reach = [(0, 0)] * axis + [widths[axis]] + [(0, 0)] * (np.ndim(x) - axis - 1)
            how: Any = _PAD_MODES[mode]
            x = np.pad(x, reach, how, **options)
    return np.lib.stride_tricks.sliding_window_view(x, tuple(sizes), axis=tuple(axes))


# SciPy's compiled filters -------------------------------------------------------------------------


def _correlate1d(
    x: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int
) -> None:
    output[...] = _windows(x, [np.size(weights)], [axis], mode, cval, [origin]) @ weights


def _correlate(x: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    found = _windows(x, np.shape(weights), range(np.ndim(x)), mode, cval, origins)
    output[...] = np.tensordot(found, weights, np.ndim(weights))


def _uniform_filter1d(
    x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int
) -> None:
    _correlate1d(x, np.full(size, 1.0 / size), axis, output, mode, cval, origin)


def _extreme_filter1d(
    x: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int, minimum: Any
) -> None:
    found = _windows(x, [size], [axis], mode, cval, [origin])
    output[...] = (np.min if minimum else np.max)(found, axis=-1)


def _under_footprint(x: Any, footprint: Any, mode: int, cval: Any, origins: Any) -> Any:
    """The neighbours under the footprint, along a last axis, in C order."""
    found = _windows(x, footprint.shape, range(np.ndim(x)), mode, cval, origins)
    flat = np.reshape(found, (*np.shape(x), -1))
    return flat if footprint.all() else flat[..., np.flatnonzero(footprint)]


def _extreme_filter(
    x: Any,
    footprint: Any,
    structure: Any,
    output: Any,
    mode: int,
    cval: Any,
    origins: Any,
    minimum: Any,
) -> None:
    found = _under_footprint(x, footprint, mode, cval, origins)
    if structure is not None:
        heights = np.ravel(structure)[np.flatnonzero(footprint)]
        found = found - heights if minimum else found + heights
    output[...] = (np.min if minimum else np.max)(found, axis=-1)


def _rank_filter(
    x: Any, rank: Any, footprint: Any, output: Any, mode: int, cval: Any, origins: Any
) -> None:
    if np.ndim(footprint) == 0:  # the size of a window in one dimension
        footprint, origins = np.ones(footprint, bool), [origins]
    found = _under_footprint(x, footprint, mode, cval, origins)
    output[...] = np.sort(found, axis=-1)[..., int(rank)]


_COMPILED = types.SimpleNamespace(
    correlate1d=_correlate1d,
    correlate=_correlate,
    uniform_filter1d=_uniform_filter1d,
    min_or_max_filter1d=_extreme_filter1d,
    min_or_max_filter=_extreme_filter,
    rank_filter=_rank_filter,
)
Rebinding(
    {
        "_nd_image": _COMPILED,
        "_rank_filter_1d": _COMPILED,
        "_get_output": _make_output,
        "_complex_via_real_components": _of_complex,
        "float": lambda x: x if isinstance(x, Tracked) else float(x),
    }
).drop_in(
    scipy.ndimage,
    """
    black_tophat convolve convolve1d correlate correlate1d gaussian_filter gaussian_filter1d
    gaussian_gradient_magnitude gaussian_laplace grey_closing grey_dilation grey_erosion
    grey_opening laplace maximum_filter maximum_filter1d median_filter minimum_filter
    minimum_filter1d morphological_gradient percentile_filter prewitt rank_filter sobel
    uniform_filter uniform_filter1d white_tophat
    """,
)
