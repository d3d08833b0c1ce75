"""Interpolation of scattered points: linear on triangles, nearest neighbour, radial basis
functions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.spatial
from scipy.special import _ufuncs

from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.classes import DropIn, with_state
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, made_by_scipy, no_derivative_rule, to_plain


def _plain_points(points: Any, name: str) -> Any:
    """The plain points of a triangulation, one a row."""
    text = "Give plain points: RBFInterpolator has a derivative in them"
    points = to_plain(points, f"scipy.interpolate.{name} in its points", text)
    if isinstance(points, tuple):
        points = np.stack(np.broadcast_arrays(*points), axis=-1)
    return np.asarray(points, dtype=float)


def _query_points(args: tuple[Any, ...]) -> Any:
    """The points to evaluate at, with their coordinates along the last axis."""
    if len(args) == 1 and not isinstance(args[0], tuple):
        return as_array(args[0]) * 1.0
    parts = args[0] if len(args) == 1 else args
    return np.stack(np.broadcast_arrays(*[as_array(part) * 1.0 for part in parts]), axis=-1)


_INSTEAD = dict.fromkeys(
    ("fill_value", "is_complex", "scale", "tri", "values_shape"),
    "Keep it when you make the interpolator",
)


class LinearNDInterpolator(DropIn):
    """Linear interpolation on the simplices of SciPy's triangulation; differentiable in the values
    and in the points of evaluation."""

    _theirs, _instead = scipy.interpolate.LinearNDInterpolator, _INSTEAD

    def __init__(
        self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False
    ) -> None:
        self.points = _plain_points(points, "LinearNDInterpolator")
        if rescale:
            raise no_derivative_rule(
                "scipy.interpolate.LinearNDInterpolator with rescale=", "Scale them"
            )
        self._values, self.fill_value = as_array(values) * 1.0, fill_value
        self.tri = scipy.spatial.Delaunay(self.points)

    @property
    def values(self) -> Any:
        return np.reshape(self._values, (np.shape(self._values)[0], -1))

    def __call__(self, *args: Any) -> Any:
        at, d = _query_points(args), np.shape(self.points)[1]
        if np.shape(at)[-1:] != (d,):
            at = np.expand_dims(at, -1)
        found = call_scipy(self.tri.find_simplex, at)
        inside, simplex = found >= 0, np.maximum(found, 0)
        maps, corners = self.tri.transform[simplex], self.tri.simplices[simplex]
        share = np.sum(maps[..., :d, :] * np.expand_dims(at - maps[..., d, :], -2), axis=-1)
        shares = np.concatenate([share, 1 - np.sum(share, axis=-1, keepdims=True)], axis=-1)
        more = np.ndim(self._values) - 1
        shares = np.reshape(shares, (*np.shape(shares), *(1,) * more))
        found = np.sum(self._values[corners] * shares, axis=np.ndim(simplex))
        inside = np.reshape(inside, (*np.shape(inside), *(1,) * more))
        return np.where(inside, found, self.fill_value)


class NearestNDInterpolator(DropIn):
    """The value at the nearest point; differentiable in the values."""

    _theirs, _instead = scipy.interpolate.NearestNDInterpolator, _INSTEAD

    def __init__(self, x: Any, y: Any, rescale: bool = False, tree_options: Any = None) -> None:
        if rescale:
            raise no_derivative_rule(
                "scipy.interpolate.NearestNDInterpolator with rescale=", "Scale them"
            )
        self.points, self.values = _plain_points(x, "NearestNDInterpolator"), as_array(y)
        self.tree = scipy.spatial.cKDTree(self.points, **(tree_options or {}))

    def __call__(self, *args: Any, **options: Any) -> Any:
        at = _query_points(args)
        return self.values[call_scipy(self.tree.query, at, **options)[1]]


@drop_in(scipy.interpolate)
def griddata(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    fill_value: Any = np.nan,
    rescale: bool = False,
) -> Any:
    """The interpolated values of scattered points."""
    flat = _plain_points(points, "griddata")
    if np.ndim(flat) < 2 or np.shape(flat)[1] == 1:
        raise no_derivative_rule("scipy.interpolate.griddata of one dimension", "Use interp1d")
    if method == "linear":
        return LinearNDInterpolator(flat, values, fill_value, rescale)(xi)
    if method == "nearest":
        return NearestNDInterpolator(flat, values, rescale)(xi)
    raise no_derivative_rule(f"scipy.interpolate.griddata with method={method!r}", "Use 'linear'")


# Radial basis functions ---------------------------------------------------------------------------

# Functions of squared distances, which are smooth where points coincide; and the least degree of
# the polynomial that is added.
KERNELS: dict[str, tuple[Any, int]] = {
    "linear": (lambda s: -_safe_sqrt(s), 0),
    "thin_plate_spline": (lambda s: 0.5 * _ufuncs.xlogy(s, s), 1),
    "cubic": (lambda s: s * _safe_sqrt(s), 1),
    "quintic": (lambda s: -(s**2) * _safe_sqrt(s), 2),
    "multiquadric": (lambda s: -np.sqrt(s + 1), 0),
    "inverse_multiquadric": (lambda s: 1 / np.sqrt(s + 1), -1),
    "inverse_quadratic": (lambda s: 1 / (s + 1), -1),
    "gaussian": (lambda s: np.exp(-s), -1),
}


def _safe_sqrt(square: Any) -> Any:
    zero = square == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, square)))


class RBFInterpolator(DropIn):
    """As `scipy.interpolate.RBFInterpolator` with all neighbours; differentiable in all
    arguments."""

    _theirs = scipy.interpolate.RBFInterpolator

    def __init__(
        self,
        y: Any,
        d: Any,
        neighbors: Any = None,
        smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: Any = None,
        degree: Any = None,
    ) -> None:
        if neighbors is not None:
            raise no_derivative_rule(
                "scipy.interpolate.RBFInterpolator with neighbors=", "Leave it out"
            )
        self.y, values = as_array(y) * 1.0, as_array(d)
        if np.ndim(self.y) != 2:
            raise ValueError("`y` must be a 2-dimensional array.")
        n, size = np.shape(self.y)
        if np.shape(values)[0] != n:
            raise ValueError(f"Expected the first axis of `d` to have length {n}.")
        if kernel not in KERNELS:
            raise ValueError(f"`kernel` must be one of {sorted(KERNELS)}.")
        self.kernel, least = kernel, KERNELS[kernel][1]
        if epsilon is None:
            if kernel in ("multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian"):
                raise ValueError(f"`epsilon` must be specified for the kernel {kernel!r}.")
            epsilon = 1.0
        self._epsilon, degree = epsilon, max(least, 0) if degree is None else int(degree)
        powers = [p for p in itertools.product(range(degree + 1), repeat=size) if sum(p) <= degree]
        self._powers = np.reshape(np.array(powers, dtype=int), (-1, size))
        self._shape = np.shape(values)[1:]
        low, high = np.min(self.y, axis=0), np.max(self.y, axis=0)
        self._shift, scale = (high + low) / 2, (high - low) / 2
        self._scale = np.where(scale == 0, 1.0, scale)
        columns = np.reshape(values, (n, -1)) * 1.0
        count = np.shape(self._powers)[0]
        smooth = np.broadcast_to(as_array(smoothing) * 1.0, (n,))
        polynomial = self._polynomial_terms(self.y)
        top = np.concatenate([self._radial_terms(self.y) + np.diag(smooth), polynomial], axis=1)
        below = np.concatenate([np.transpose(polynomial), np.zeros((count, count))], axis=1)
        right = np.concatenate([columns, np.zeros((count, np.shape(columns)[1]))])
        self._coefficients = np.linalg.solve(np.concatenate([top, below]), right)

    def _radial_terms(self, x: Any) -> Any:
        differences = (np.expand_dims(x, 1) - np.expand_dims(self.y, 0)) * self._epsilon
        of_square, _ = KERNELS[self.kernel]
        return of_square(np.sum(np.square(differences), axis=-1))

    def _polynomial_terms(self, x: Any) -> Any:
        scaled = np.expand_dims((x - self._shift) / self._scale, 1)
        return np.prod(scaled**self._powers, axis=-1)

    def __call__(self, x: Any) -> Any:
        x = as_array(x) * 1.0
        if np.ndim(x) != 2 or np.shape(x)[1] != np.shape(self.y)[1]:
            raise ValueError(f"`x` must have the shape (n, {np.shape(self.y)[1]}): {np.shape(x)}")
        both = np.concatenate([self._radial_terms(x), self._polynomial_terms(x)], axis=1)
        return np.reshape(both @ self._coefficients, (np.shape(x)[0], *self._shape))


@made_by_scipy(scipy.interpolate.LinearNDInterpolator)
def _linear(theirs: Any) -> Any:
    if theirs.scale is not None:
        raise no_derivative_rule("LinearNDInterpolator with rescale=", "Scale the points")
    values = np.reshape(theirs.values, (len(theirs.points), *theirs.values_shape))
    known = {"points": theirs.points, "_values": values, "tri": theirs.tri}
    return with_state(LinearNDInterpolator, fill_value=theirs.fill_value, **known)


@made_by_scipy(scipy.interpolate.NearestNDInterpolator)
def _nearest(theirs: Any) -> Any:
    if theirs.scale is not None:
        raise no_derivative_rule("NearestNDInterpolator with rescale=", "Scale the points")
    return with_state(NearestNDInterpolator, values=theirs.values, tree=theirs.tree)


@made_by_scipy(scipy.interpolate.RBFInterpolator)
def _radial(theirs: Any) -> Any:
    if theirs.neighbors is not None:
        raise no_derivative_rule("RBFInterpolator with neighbors=", "Leave it out")
    own = {f"_{name}": getattr(theirs, name) for name in ("epsilon", "powers")}
    own |= {name: getattr(theirs, name) for name in ("y", "kernel", "_shift", "_scale")}
    own |= {"_coefficients": theirs._coeffs, "_shape": theirs.d_shape}
    return with_state(RBFInterpolator, **own)
