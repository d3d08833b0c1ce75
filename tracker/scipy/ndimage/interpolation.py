"""Images at other coordinates: shifted, zoomed, rotated, or at arbitrary points.

An image is a spline in each direction: a sum of B-splines (M. Unser, A. Aldroubi, M. Eden, 1993) at
the grid points. The op `spline_coefficients` computes the coefficients along an axis. Results are
differentiable in the image and in the coordinates (at knots of splines of order 1, the slope is
that to the right); splines of order 0 have slope 0.

The op's matrix is the inverse of that of a symmetric filter. It is symmetric for reflection about
the edges and for periodic arrays; for reflection about the outermost points (mirror), it is
symmetric after those are weighted by one half. For reflection SciPy's matrix is exact to a few
digits only for small arrays, so up to 64 points it is transposed explicitly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.ndimage
from scipy.special import _ufuncs

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy.ndimage.filters import as_output, per_axis
from tracker.tape.conversions import guarded_data
from tracker.tape.record import apply

_PREFILTER_PAD = 12  # SciPy's, for modes without an exact form of the coefficients
_DENSE_TRANSPOSE_LIMIT = 64
_REFLECTING = {"reflect": "reflect", "grid-mirror": "reflect", "nearest": "reflect"}
_MODES = ("mirror", "wrap", "grid-wrap", "constant", "grid-constant", *_REFLECTING)


def _transposed_coefficients(g: Any, order: int, mode: str) -> Any:
    n = np.shape(g)[-1]
    if mode == "reflect" and n <= _DENSE_TRANSPOSE_LIMIT:
        return g @ np.transpose(scipy.ndimage.spline_filter1d(np.eye(n), order, -1, float, mode))
    if mode != "mirror" or n < 2:
        return _coefficients(g, order, mode)
    ends = np.ones(n)
    ends[[0, -1]] = 0.5
    return ends * _coefficients(g / ends, order, mode)


def _coefficients(x: Any, order: int, mode: str) -> Any:
    return apply(spline_coefficients, (x,), {"order": order, "mode": mode})


# Along the last axis, in the modes mirror, reflect and grid-wrap.
spline_coefficients = declare(
    "spline_coefficients",
    infer=lambda x, *, order, mode: Type(x.shape, np.dtype(float)),
    evaluate=lambda x, *, order, mode: scipy.ndimage.spline_filter1d(x, order, -1, float, mode),
    jvp=[lambda t, y, x, *, order, mode: _coefficients(t, order, mode)],
    vjp=[lambda g, y, x, *, order, mode: project(_transposed_coefficients(g, order, mode), x)],
    lower=Host("SciPy's spline_filter1d"),
)


@drop_in(scipy.ndimage)
def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The spline coefficients along an axis."""
    x = as_array(input)
    found = _spline_filtered(x, order, mode, [axis])
    return as_output("spline_filter1d", found, output, x)


@drop_in(scipy.ndimage)
def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The spline coefficients along all axes."""
    x = as_array(input)
    if order < 2 or order > 5:
        raise RuntimeError("spline order not supported")
    return as_output(
        "spline_filter", _spline_filtered(x, order, mode, range(np.ndim(x))), output, x
    )


def _check_spline(order: int, mode: str) -> None:
    if not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")


def _spline_filtered(x: Any, order: int, mode: str, axes: Any) -> Any:
    _check_spline(order, mode)
    if np.iscomplexobj(x):
        parts = [_spline_filtered(part, order, mode, axes) for part in (np.real(x), np.imag(x))]
        return parts[0] + 1j * parts[1]
    mode = "grid-wrap" if mode == "grid-wrap" else _REFLECTING.get(mode, "mirror")
    x = np.astype(x, float)
    for axis in axes if order > 1 else ():
        x = np.moveaxis(_coefficients(np.moveaxis(x, axis, -1), order, mode), -1, axis)
    return x


class _SplineImage:
    """A spline over the last `count` axes of an array.

    coefficients  the B-spline coefficients, over all axes
    padding       how far these extend beyond the array, on each side of the `count` axes
    """

    def __init__(
        self, x: Any, count: int, order: int, mode: str, cval: Any, prefilter: bool
    ) -> None:
        _check_spline(order, mode)
        self.order, self.mode, self.cval, self.padding = order, mode, cval, 0
        self.sizes, self.count = np.shape(x)[np.ndim(x) - count :], count
        if prefilter and order > 1:
            if mode in ("nearest", "grid-constant"):
                self.padding = _PREFILTER_PAD
                how: Any = {"mode": "edge"} if mode == "nearest" else {"constant_values": cval}
                unpadded = [(0, 0)] * (np.ndim(x) - count)
                x = np.pad(x, [*unpadded, *[(_PREFILTER_PAD, _PREFILTER_PAD)] * count], **how)
            x = _spline_filtered(x, order, mode, range(np.ndim(x) - count, np.ndim(x)))
        self.coefficients = x * 1.0

    def taps(self, at: Any, axis: int) -> tuple[Any, Any, Any]:
        """For coordinates along an axis: the indices of the coefficients that contribute and their
        weights (both with a leading axis over these), and which coordinates are outside."""
        size = self.sizes[axis] + 2 * self.padding
        at = as_array(at) * 1.0
        outside = (at < 0) | (at > self.sizes[axis] - 1) if self.mode == "constant" else None
        at = at + self.padding
        if self.mode == "wrap" and size > 1:
            at = _wrap_coordinates(at, size - 1)
        elif outside is not None:
            at = np.where(outside, 0.0, at)
        half = 0.0 if self.order % 2 else 0.5
        low = np.floor(at + half)
        start = np.astype(low, np.int64) - self.order // 2
        positions = start + np.reshape(np.arange(self.order + 1), (-1,) + (1,) * np.ndim(at))
        weights = np.stack(_bspline_weights(at + half - low, self.order))
        if self.mode == "grid-constant":
            beyond = (positions < 0) | (positions >= size)
            return np.where(beyond, size, positions), weights, None
        return _map_into_range(positions, size, self.mode), weights, outside

    def padded(self) -> Any:
        """The coefficients; in grid-constant mode with a last element that holds the constant."""
        if self.mode != "grid-constant":
            return self.coefficients
        unpadded = [(0, 0)] * (np.ndim(self.coefficients) - self.count)
        widths = [*unpadded, *[(0, 1)] * self.count]
        return np.pad(self.coefficients, widths, constant_values=self.cval)

    def at_points(self, coordinates: list[Any]) -> Any:
        """The values at points, given by one coordinate array for each axis; the arrays
        broadcast."""
        found = [self.taps(at, axis) for axis, at in enumerate(coordinates)]
        index: list[Any] = []
        weights: Any = 1.0
        for k, (taps, factors, _) in enumerate(found):
            shape = [1] * self.count
            shape[k] = -1
            laid = (*shape, *np.shape(taps)[1:])
            index.append(np.reshape(taps, laid))
            weights = weights * np.reshape(factors, laid)
        picked = self.padded()[(..., *index)]
        lead = np.ndim(picked) - np.ndim(weights)
        value = np.sum(picked * weights, axis=tuple(range(lead, lead + self.count)))
        for _, _, outside in found:
            value = value if outside is None else np.where(outside, self.cval, value)
        return value

    def on_grid(self, coordinates: list[Any]) -> Any:
        """The values on the grid of all combinations of coordinates, one vector for each axis."""
        value = self.padded()
        lead = np.ndim(value) - self.count
        masks: list[Any] = []
        for axis, at in enumerate(coordinates):
            taps, weights, outside = self.taps(at, axis)
            value = np.moveaxis(value, lead + axis, -1)
            value = np.sum(
                np.stack([value[..., t] * w for t, w in zip(taps, weights, strict=True)]), 0
            )
            value = np.moveaxis(value, -1, lead + axis)
            masks.append(outside)
        for axis, outside in enumerate(masks):
            if outside is not None:
                shape = [1] * self.count
                shape[axis] = -1
                value = np.where(np.reshape(outside, shape), self.cval, value)
        return value


def _bspline_weights(f: Any, order: int) -> list[Any]:
    """The B-splines at a distance f from the knot below, by de Boor's recursion on integer
    knots."""
    weights = [np.ones_like(f)]
    for d in range(1, order + 1):
        below = [0.0, *weights, 0.0]
        weights = [
            ((f + (d - j)) * below[j] + ((1 + j) - f) * below[j + 1]) / d for j in range(d + 1)
        ]
    return weights


def _wrap_coordinates(at: Any, period: int) -> Any:
    """Coordinates wrapped to [0, period] as SciPy does: both ends are kept."""
    below = at + period * (np.floor(-at / period) + 1)
    return np.where(at < 0, below, np.where(at > period, np.mod(at, period), at))


def _map_into_range(positions: Any, size: int, mode: str) -> Any:
    """The indices inside the array that stand for indices beyond its edges in this mode."""
    if size == 1:
        return positions * 0
    if mode == "grid-wrap":
        return positions % size
    if mode == "nearest":
        return np.clip(positions, 0, size - 1)
    if mode in _REFLECTING:
        positions = positions % (2 * size)
        return np.minimum(positions, 2 * size - 1 - positions)
    positions = positions % (2 * size - 2)
    return np.minimum(positions, 2 * size - 2 - positions)


def _interpolated_output(name: str, x: Any, output: Any, like: Any) -> Any:
    """As `as_output`, for interpolated numbers: SciPy rounds them if the output is integer."""
    kind = np.dtype(like.dtype if output is None or isinstance(output, np.ndarray) else output)
    if x.dtype.kind == "f" and kind.kind in "iu":
        x = np.trunc(x + np.copysign(0.5, x))
        x = np.clip(x, 0, np.iinfo(kind).max) if kind.kind == "u" else x
    return as_output(name, x, output, like)


@drop_in(scipy.ndimage)
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image at points; coordinates are along the first axis."""
    x, at = as_array(input), as_array(coordinates)
    if np.iscomplexobj(at):
        raise TypeError("Complex type not supported")
    if np.ndim(x) < 1 or np.ndim(at) < 2:
        raise RuntimeError("input and output rank must be > 0")
    if np.shape(at)[0] != np.ndim(x):
        raise RuntimeError("invalid shape for coordinate array")
    image = _SplineImage(x, np.ndim(x), order, mode, cval, prefilter)
    return _interpolated_output(
        "map_coordinates", image.at_points([at[i] for i in range(np.ndim(x))]), output, x
    )


@drop_in(scipy.ndimage)
def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image, shifted along each axis."""
    x = as_array(input)
    image = _SplineImage(x, np.ndim(x), order, mode, cval, prefilter)
    steps = per_axis(shift, np.ndim(x))
    positions = [np.arange(n) - step for n, step in zip(np.shape(x), steps, strict=True)]
    return _interpolated_output("shift", image.on_grid(positions), output, x)


@drop_in(scipy.ndimage)
def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """The image, resampled to more or fewer elements."""
    x = as_array(input)
    factors = [float(guarded_data(z)) for z in per_axis(zoom, np.ndim(x))]
    if all(z == 1 for z in factors) and prefilter:
        return as_output("zoom", 1 * x, output, x)
    image = _SplineImage(x, np.ndim(x), order, mode, cval, prefilter)
    positions = []
    for n, factor in zip(np.shape(x), factors, strict=True):
        count = round(n * factor)
        if grid_mode:
            positions.append((np.arange(count) + 0.5) * (n / count) - 0.5)
        else:
            positions.append(np.arange(count) * ((n - 1) / (count - 1) if count != 1 else 1.0))
    return _interpolated_output("zoom", image.on_grid(positions), output, x)


@drop_in(scipy.ndimage)
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The value at o is that of the input at `matrix @ o + offset`."""
    x, matrix = as_array(input), as_array(matrix) * 1.0
    n = np.ndim(x)
    shape = tuple(np.shape(x) if output_shape is None else output_shape)
    if np.ndim(matrix) == 2 and np.shape(matrix) in ((n, n + 1), (n + 1, n + 1)):
        bottom, wanted = matrix[n:], [0] * n + [1]
        if np.size(bottom) and not bool(np.all(bottom == np.array(wanted))):
            raise ValueError(
                f"Expected homogeneous transformation matrix with shape {np.shape(matrix)} for "
                f"image shape {np.shape(x)}, but bottom row was not equal to {wanted}"
            )
        offset, matrix = matrix[:n, n], matrix[:n, :n]
    if np.shape(matrix)[0] != n:
        raise RuntimeError("affine matrix has wrong number of rows")
    if np.ndim(matrix) == 2 and np.shape(matrix)[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    image = _SplineImage(x, n, order, mode, cval, prefilter)
    start = per_axis(offset, n)
    if np.ndim(matrix) == 1:
        positions = [
            (np.arange(s) + b / a) * a for s, a, b in zip(shape, matrix, start, strict=True)
        ]
        return _interpolated_output("affine_transform", image.on_grid(positions), output, x)
    grid = np.indices(shape)
    at = [sum(matrix[i, j] * grid[j] for j in range(len(shape))) + start[i] for i in range(n)]
    return _interpolated_output("affine_transform", image.at_points(at), output, x)


@drop_in(scipy.ndimage)
def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image, rotated by an angle in degrees in the plane of two axes."""
    x = as_array(input)
    if np.ndim(x) < 2:
        raise ValueError("input array should be at least 2D")
    first, second = sorted(int(axis) % np.ndim(x) for axis in axes)
    if first == second:
        raise no_derivative_rule("scipy.ndimage.rotate in a plane of one axis", "Give two axes")
    planes = np.moveaxis(x, (first, second), (-2, -1))
    sizes = np.array(np.shape(planes)[-2:])
    c, s = _ufuncs.cosdg(angle), _ufuncs.sindg(angle)
    shape = sizes
    if reshape:
        turn = np.stack([np.stack([c, s]), np.stack([-s, c])])
        corners = turn @ np.array([[0, 0, sizes[0], sizes[0]], [0, sizes[1], 0, sizes[1]]])
        shape = np.array([int(extent + 0.5) for extent in np.ptp(corners, axis=1)])
    middle, (i, j) = (shape - 1) / 2, np.indices(tuple(shape))
    centre = (sizes - 1) / 2
    above = centre[0] - (c * middle[0] + s * middle[1])
    beside = centre[1] - (c * middle[1] - s * middle[0])
    image = _SplineImage(planes, 2, order, mode, cval, prefilter)
    rotated = image.at_points([c * i + s * j + above, c * j - s * i + beside])
    return _interpolated_output(
        "rotate", np.moveaxis(rotated, (-2, -1), (first, second)), output, x
    )
