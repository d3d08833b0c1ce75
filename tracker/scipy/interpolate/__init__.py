"""`scipy.interpolate` on tracked values, differentiable in the nodes, the values and the points.
Names that are not defined here are SciPy's own.

Cubic splines, `interp1d` and spline surfaces are here; other piecewise cubics in
`cubic_hermite.py`, B-splines in `bspline.py`, grids in `grid.py`, scattered points in
`scattered.py`. At a node, the derivative in the point is that of the interval on its right.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy import linalg
from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule, scipy_fallback
from tracker.scipy._bridge.rebound import Rebinding
from tracker.scipy.interpolate.bspline import BSpline as BSpline
from tracker.scipy.interpolate.bspline import (
    InterpolatedUnivariateSpline as InterpolatedUnivariateSpline,
)
from tracker.scipy.interpolate.bspline import interpolating_bspline
from tracker.scipy.interpolate.bspline import splev as splev
from tracker.scipy.interpolate.bspline import splrep as splrep
from tracker.scipy.interpolate.cubic_hermite import Akima1DInterpolator as Akima1DInterpolator
from tracker.scipy.interpolate.cubic_hermite import CubicHermiteSpline as CubicHermiteSpline
from tracker.scipy.interpolate.cubic_hermite import PchipInterpolator as PchipInterpolator
from tracker.scipy.interpolate.cubic_hermite import (
    PiecewiseCubic,
    as_column,
    interval_index,
    restore_axes,
)
from tracker.scipy.interpolate.cubic_hermite import pchip_interpolate as pchip_interpolate
from tracker.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator
from tracker.scipy.interpolate.grid import interpn as interpn
from tracker.scipy.interpolate.scattered import LinearNDInterpolator as LinearNDInterpolator
from tracker.scipy.interpolate.scattered import NearestNDInterpolator as NearestNDInterpolator
from tracker.scipy.interpolate.scattered import RBFInterpolator as RBFInterpolator
from tracker.scipy.interpolate.scattered import griddata as griddata
from tracker.tape.record import speculate_bool

__getattr__ = scipy_fallback(scipy.interpolate)


class _Hermite:
    """Takes the slopes that SciPy's constructor of a spline computes."""

    def __init__(self, x: Any, y: Any, slopes: Any, axis: int = 0, extrapolate: Any = None) -> None:
        self.slopes = slopes


class _SplineSystem(_Hermite):
    """SciPy's linear system for the slopes of a cubic spline at its nodes."""


_REBINDING = Rebinding({"solve_banded": linalg.solve_banded, "solve": linalg.solve})
for _name in ("__init__", "_validate_bc"):
    _method = inspect.getattr_static(scipy.interpolate.CubicSpline, _name)
    if isinstance(_method, staticmethod):
        setattr(_SplineSystem, _name, staticmethod(_REBINDING.function(_method.__func__)))
    else:
        setattr(_SplineSystem, _name, _REBINDING.function(_method, _SplineSystem))


def _is_periodic(bc_type: Any) -> bool:
    return isinstance(bc_type, str) and bc_type == "periodic"


class CubicSpline(PiecewiseCubic):
    """The cubic spline through the points, twice continuously differentiable.

    As SciPy's: `spline(points, nu=0)` evaluates its nu-th derivative (up to the third).
    """

    _scipy_class = scipy.interpolate.CubicSpline

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        usual = "periodic" if _is_periodic(bc_type) else True
        super().__init__(x, y, axis, usual if extrapolate is None else extrapolate)
        if usual == "periodic":
            ends = self.y[0], self.y[-1]
            fine = np.allclose(*ends, rtol=1e-15, atol=1e-15)
            scipy_raises_unless(fine, self._scipy_class, x, y, axis, bc_type)
        self.slopes = _SplineSystem(self.x * 1.0, self.y * 1.0, 0, bc_type).slopes


class interp1d:
    """Interpolation of kind "linear", "slinear" or "cubic"; other kinds for plain values only."""

    def __new__(cls, x: Any, y: Any, kind: Any = "linear", *args: Any, **options: Any) -> Any:
        if kind not in ("linear", "slinear", "cubic"):
            if is_tracked(x, y):
                raise no_derivative_rule(
                    f"interp1d with kind={kind!r}", "Use kind='linear' or kind='cubic'"
                )
            return scipy.interpolate.interp1d(x, y, kind, *args, **options)
        return super().__new__(cls)

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        self._evaluate_by_scipy = lambda at, x, y, fill: scipy.interpolate.interp1d(
            x, y, kind, axis, copy, bounds_error, fill, assume_sorted
        )(at)
        self._scipy_args = x, y, fill_value
        self.x, y = as_array(x), as_array(y)
        self.axis = axis % np.ndim(y)
        self.y = np.moveaxis(y, self.axis, 0)
        scipy_raises_unless(
            np.shape(self.x) == np.shape(self.y)[:1], self._evaluate_by_scipy, x, *self._scipy_args
        )
        if not assume_sorted:
            order = np.argsort(self.x, kind="mergesort")
            self.x, self.y = self.x[order], self.y[order]
        self.fill = fill_value
        self.extrapolate = isinstance(fill_value, str) and fill_value == "extrapolate"
        self.bounds_error = not self.extrapolate if bounds_error is None else bounds_error
        if kind == "cubic":
            scipy_raises_unless(
                is_increasing(self.x) & are_finite(self.y),
                self._evaluate_by_scipy,
                x,
                *self._scipy_args,
            )
        self.spline = CubicSpline(self.x, self.y) if kind == "cubic" else None

    def __call__(self, x: Any) -> Any:
        points = as_array(x)
        flat = np.reshape(points, (-1,))
        below, above = flat < self.x[0], flat > self.x[-1]
        if self.bounds_error and not self.extrapolate:
            scipy_raises_unless(
                ~np.any(below | above), self._evaluate_by_scipy, x, *self._scipy_args
            )
        if self.spline is not None:
            value = self.spline(flat)
        else:
            i = interval_index(self.x, flat)
            part = as_column((flat - self.x[i]) / (self.x[i + 1] - self.x[i]), self.y)
            value = self.y[i] + part * (self.y[i + 1] - self.y[i])
        if not self.extrapolate:
            low, high = self.fill if isinstance(self.fill, tuple) else (self.fill, self.fill)
            value = np.where(as_column(below, self.y), low, value)
            value = np.where(as_column(above, self.y), high, value)
        return restore_axes(value, points, self.axis)


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, **options: Any
) -> Any:
    """The interpolating spline of degree k."""
    if not is_tracked(x, y, t):
        plain = scipy.interpolate.make_interp_spline(x, y, k, t, bc_type, axis, **options)
        return BSpline(plain.t, np.moveaxis(plain.c, 0, axis), k, plain.extrapolate, axis)
    if bc_type in (None, "not-a-knot"):
        return interpolating_bspline(x, y, k, t, axis, scipy.interpolate.make_interp_spline)
    if k == 3 and t is None:
        return CubicSpline(x, y, axis, bc_type)
    raise no_derivative_rule(
        f"make_interp_spline with k={k} and bc_type={bc_type!r}",
        "Leave bc_type= out, or use k=3 without t=",
    )


class RectBivariateSpline:
    """As SciPy's with s=0 and odd degrees: a spline in each direction. Outside of the grid it has
    the value at the edge."""

    def __init__(
        self, x: Any, y: Any, z: Any, bbox: Any = (None,) * 4, kx: int = 3, ky: int = 3, s: Any = 0
    ) -> None:
        self._nodes, self._degrees = (as_array(x), as_array(y)), (kx, ky)
        self._values = as_array(z)
        shape = tuple(np.size(nodes) for nodes in self._nodes)
        if np.shape(self._values) != shape:
            raise ValueError(f"z has the shape {np.shape(self._values)}, x and y have {shape}")
        fine = is_increasing(self._nodes[0]) & is_increasing(self._nodes[1])
        fine = fine & (shape[0] > kx) & (shape[1] > ky)
        scipy_raises_unless(fine, scipy.interpolate.RectBivariateSpline, x, y, z, bbox, kx, ky, s)
        if s or kx % 2 == 0 or ky % 2 == 0 or any(end is not None for end in bbox):
            text = "RectBivariateSpline that smooths, of even degree, or with bbox="
            raise no_derivative_rule(f"scipy.interpolate.{text}", "Use s=0 and odd degrees")

    def _basis_weights(self, axis: int, at: Any, order: int) -> Any:
        """The weights of the values along an axis for points, as a last axis."""
        nodes, degree = self._nodes[axis], self._degrees[axis]
        at = as_array(at) * 1.0
        inside = np.minimum(np.maximum(at, nodes[0]), nodes[-1])
        return make_interp_spline(nodes, np.eye(np.size(nodes)), degree)(inside, order)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        if not grid:
            return self.ev(x, y, dx, dy)
        for name, points in (("x", x), ("y", y)):
            if not speculate_bool(np.all(np.diff(np.atleast_1d(as_array(points))) >= 0), True):
                raise ValueError(f"{name} must be strictly increasing when `grid` is True")
        across = (
            np.atleast_2d(self._basis_weights(0, np.atleast_1d(as_array(x)), dx)) @ self._values
        )
        return across @ np.transpose(self._basis_weights(1, np.atleast_1d(as_array(y)), dy))

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """The values at pairs of coordinates."""
        xi, yi = np.broadcast_arrays(as_array(xi), as_array(yi))
        across = self._basis_weights(0, xi, dx) @ self._values
        return np.sum(across * self._basis_weights(1, yi, dy), axis=-1)
