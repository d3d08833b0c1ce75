"""Weighted sums of neighbours: correlation, Gaussian, derivative and mean filters. The edge modes
(`pad_edges`) and argument helpers here serve the other filters, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule

# NumPy's name of each of SciPy's edge modes.
_PAD_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}


def pad_edges(x: Any, widths: list[tuple[int, int]], modes: list[str], cval: Any) -> Any:
    """The array padded on both sides of each axis, with a mode for each axis."""
    for axis, (width, mode) in enumerate(zip(widths, modes, strict=True)):
        if mode not in _PAD_MODES:
            raise RuntimeError("boundary mode not supported")
        if width == (0, 0):
            continue
        reach = [(0, 0)] * np.ndim(x)
        reach[axis] = width
        options = {"constant_values": cval} if "constant" in mode else {}
        x = np.pad(x, reach, _PAD_MODES[mode], **options)  # type: ignore[call-overload]
    return x


def as_output(name: str, x: Any, output: Any, like: Any) -> Any:
    """The result in the dtype that `output` names, or else in the input's."""
    if isinstance(output, np.ndarray):
        raise no_derivative_rule(f"scipy.ndimage.{name} with output=array", "Take what it returns")
    kind = np.dtype(like.dtype if output is None else output)
    return np.astype(x, np.result_type(kind, np.complex64) if np.iscomplexobj(x) else kind)


def per_axis(value: Any, count: int) -> list[Any]:
    """A list with one entry for each axis."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return values


def normalize_axes(axes: Any, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    return [int(axis) % ndim for axis in np.atleast_1d(axes)]


def window_reach(size: int, origin: int, text: str) -> tuple[int, int]:
    """The number of elements before and after the centre of a window."""
    before, after = size // 2 + origin, size - 1 - size // 2 - origin
    if before < 0 or after < 0:
        raise ValueError(text)
    return before, after


# Correlation --------------------------------------------------------------------------------------


@drop_in(scipy.ndimage)
def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The weighted sum of neighbours along an axis."""
    x, weights = as_array(input), as_array(weights) * 1.0
    if np.ndim(weights) != 1 or np.size(weights) < 1:
        raise RuntimeError("no filter weights given")
    text = "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1)"
    reach = window_reach(np.size(weights), origin, text + " // 2")
    x = np.moveaxis(x, axis, -1)
    weights = np.conjugate(weights) if np.iscomplexobj(weights) else weights
    unpadded = [(0, 0)] * (np.ndim(x) - 1)
    wide = pad_edges(x, [*unpadded, reach], [mode] * np.ndim(x), cval)
    windows = np.lib.stride_tricks.sliding_window_view(wide, np.size(weights), axis=-1)
    return as_output(
        "correlate1d", np.moveaxis(windows @ weights, -1, axis), output, as_array(input)
    )


@drop_in(scipy.ndimage)
def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Correlation with reversed weights."""
    weights = np.flip(as_array(weights))
    weights = np.conjugate(weights) if np.iscomplexobj(weights) else weights
    origin = -origin - (np.size(weights) % 2 == 0)
    return correlate1d(input, weights, axis, output, mode, cval, origin)


@drop_in(scipy.ndimage)
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The weighted sum of neighbours."""
    x, weights = as_array(input), as_array(weights) * 1.0
    axes = normalize_axes(axes, np.ndim(x))
    if np.ndim(weights) != len(axes):
        raise RuntimeError(f"weights.ndim ({np.ndim(weights)}) must match len(axes) ({len(axes)})")
    weights = np.conjugate(weights) if np.iscomplexobj(weights) else weights
    widths = [(0, 0)] * np.ndim(x)
    text = "Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= "
    for axis, size, start in zip(axes, np.shape(weights), per_axis(origin, len(axes)), strict=True):
        widths[axis] = window_reach(size, start, text + "(weights.shape[k]-1) // 2")
    wide = pad_edges(x, widths, [mode] * np.ndim(x), cval)
    windows = np.lib.stride_tricks.sliding_window_view(wide, np.shape(weights), axis=tuple(axes))
    return as_output("correlate", np.tensordot(windows, weights, np.ndim(weights)), output, x)


@drop_in(scipy.ndimage)
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Correlation with reversed weights."""
    weights = np.flip(as_array(weights))
    weights = np.conjugate(weights) if np.iscomplexobj(weights) else weights
    sizes = np.shape(weights)
    origins = [-o - (n % 2 == 0) for o, n in zip(per_axis(origin, len(sizes)), sizes, strict=True)]
    return correlate(input, weights, output, mode, cval, origins, axes=axes)


# Along one axis after the other -------------------------------------------------------------------


@drop_in(scipy.ndimage)
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The mean of `size` neighbours."""
    if size < 1:
        raise RuntimeError("incorrect filter size")
    window_reach(size, origin, "invalid origin")
    return correlate1d(input, np.full(size, 1.0 / size), axis, output, mode, cval, origin)


@drop_in(scipy.ndimage)
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    options = (per_axis(option, len(axes)) for option in (size, mode, origin))
    for axis, length, axis_mode, start in zip(axes, *options, strict=True):
        if length > 1:
            x = uniform_filter1d(x, int(length), axis, output, axis_mode, cval, start)
    return as_output("uniform_filter", x, output, as_array(input))


@drop_in(scipy.ndimage)
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
) -> Any:
    """Differentiable in sigma, too; the radius of the filter is a constant."""
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if int(reach) != reach or reach < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    weights = np.flip(_gaussian_kernel(sigma, order, int(reach)))
    return correlate1d(input, weights, axis, output, mode, cval, 0)


def _gaussian_kernel(sigma: Any, order: int, reach: int) -> Any:
    """A Gaussian of sum 1, or its derivative: a polynomial times the Gaussian."""
    if order < 0:
        raise ValueError("order must be non-negative")
    x = np.arange(-reach, reach + 1)
    bell = np.exp(-0.5 / (sigma * sigma) * x**2)
    bell = bell / np.sum(bell)
    polynomial: list[Any] = [1.0]
    for _ in range(order):  # (q p)' = (q' - q x / sigma^2) p
        raised = [0.0, *(-c / (sigma * sigma) for c in polynomial)]
        slopes = [*(k * c for k, c in enumerate(polynomial) if k), 0.0, 0.0]
        polynomial = [a + b for a, b in zip(raised, slopes, strict=True)]
    return sum(c * x**k for k, c in enumerate(polynomial)) * bell


@drop_in(scipy.ndimage)
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    options = (per_axis(option, len(axes)) for option in (sigma, order, mode, radius))
    for axis, width, degree, axis_mode, reach in zip(axes, *options, strict=True):
        if width > 1e-15:
            x = gaussian_filter1d(
                x, width, axis, degree, output, axis_mode, cval, truncate, radius=reach
            )
    return as_output("gaussian_filter", x, output, as_array(input))


def _derivative_filter(name: str, along: list[float]) -> Callable[..., Any]:
    """A central difference along an axis, smoothed along the others."""

    @drop_in(scipy.ndimage, name)
    def differences(
        input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
    ) -> Any:
        x = as_array(input)
        modes, axis = per_axis(mode, np.ndim(x)), axis % np.ndim(x)
        y = correlate1d(x, [-1, 0, 1], axis, output, modes[axis], cval)
        for other in range(np.ndim(x)):
            if other != axis:
                y = correlate1d(y, along, other, output, modes[other], cval)
        return y

    return differences


prewitt = _derivative_filter("prewitt", [1, 1, 1])
sobel = _derivative_filter("sobel", [1, 2, 1])


@drop_in(scipy.ndimage)
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    return sum(
        correlate1d(x, [1, -2, 1], axis, output, axis_mode, cval)
        for axis, axis_mode in zip(axes, per_axis(mode, len(axes)), strict=True)
    )


def _derivative_orders(ndim: int, axes: list[int], order: int) -> list[list[int]]:
    """For each of the axes, the orders of the derivatives along all axes."""
    orders = [[0] * ndim for _ in axes]
    for row, axis in zip(orders, axes, strict=True):
        row[axis] = order
    return orders


def _sigmas_of_all_axes(sigma: Any, axes: list[int], ndim: int) -> list[Any]:
    """The widths of all axes: 0 for axes that are not filtered."""
    widths: list[Any] = [0.0] * ndim
    for axis, width in zip(axes, per_axis(sigma, len(axes)), strict=True):
        widths[axis] = width
    return widths


@drop_in(scipy.ndimage)
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **keywords: Any,
) -> Any:
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    widths, modes = _sigmas_of_all_axes(sigma, axes, np.ndim(x)), per_axis(mode, len(axes))
    return sum(
        gaussian_filter(x, widths, order, output, axis_mode, cval, **keywords)
        for order, axis_mode in zip(_derivative_orders(np.ndim(x), axes, 2), modes, strict=True)
    )


@drop_in(scipy.ndimage)
def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **keywords: Any,
) -> Any:
    x = as_array(input)
    axes = normalize_axes(axes, np.ndim(x))
    modes = per_axis(mode, len(axes))
    squares = [
        np.square(gaussian_filter(x, sigma, order, output, axis_mode, cval, **keywords))
        for order, axis_mode in zip(_derivative_orders(np.ndim(x), axes, 1), modes, strict=True)
    ]
    return np.sqrt(sum(squares))
