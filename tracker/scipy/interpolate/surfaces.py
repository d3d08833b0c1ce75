"""Spline surfaces: a spline in each direction. Outside of the knots they have the value at the
edge."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import is_increasing, scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.fallback import as_array, made_by_scipy, no_derivative_rule
from tracker.scipy.interpolate.bspline import BSpline, interpolating_bspline
from tracker.tape.tracing.value_guards import speculate_bool


class BivariateSpline(DropIn):
    """A surface with given knots and coefficients."""

    _theirs = scipy.interpolate.BivariateSpline
    _instead: ClassVar = {"partial_derivative": "Evaluate it: surface(x, y, dx=1, grid=False)"}
    _knots: Any
    degrees: Any
    _coefficients: Any

    @classmethod
    def _of(cls, knots: Any, degrees: Any, coefficients: Any) -> BivariateSpline:
        made: BivariateSpline = object.__new__(BivariateSpline)
        made._knots, made.degrees, made._coefficients = knots, degrees, coefficients
        return made

    @property
    def tck(self) -> tuple[Any, Any, Any]:
        return (*self._knots, self.get_coeffs())

    def get_knots(self) -> tuple[Any, Any]:
        """The knots in both directions."""
        first, second = self._knots
        return first, second

    def get_coeffs(self) -> Any:
        return np.reshape(self._coefficients, (-1,))

    def _basis(self, axis: int, at: Any, order: int) -> Any:
        """The values of the basis functions along an axis at points, as a last axis."""
        t, k = self._knots[axis], self.degrees[axis]
        inside = np.clip(as_array(at) * 1.0, t[k], t[-k - 1])
        return BSpline(t, np.eye(np.shape(t)[0] - k - 1), k)(inside, order)

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """The values at pairs of coordinates."""
        xi, yi = np.broadcast_arrays(as_array(xi), as_array(yi))
        across = self._basis(0, xi, dx) @ self._coefficients
        return np.sum(across * self._basis(1, yi, dy), axis=-1)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        if not grid:
            return self.ev(x, y, dx, dy)
        x, y = (np.atleast_1d(as_array(points)) for points in (x, y))
        for name, points in (("x", x), ("y", y)):
            if not speculate_bool(np.all(np.diff(points) >= 0), True):
                raise ValueError(f"{name} must be strictly increasing when `grid` is True")
        across = self._basis(0, x, dx) @ self._coefficients
        return across @ np.transpose(self._basis(1, y, dy))

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
        """The integral over a rectangle; the surface counts as 0 outside of its knots."""
        weights = []
        for t, k, ends in zip(self._knots, self.degrees, ((xa, xb), (ya, yb)), strict=True):
            basis = BSpline(t, np.eye(np.shape(t)[0] - k - 1), k)
            weights.append(basis.integrate(*ends, extrapolate=False))
        return weights[0] @ self._coefficients @ weights[1]


class RectBivariateSpline(BivariateSpline):
    """The surface through the values z on a grid."""

    _theirs = scipy.interpolate.RectBivariateSpline

    def __init__(
        self, x: Any, y: Any, z: Any, bbox: Any = (None,) * 4, kx: int = 3, ky: int = 3, s: Any = 0
    ) -> None:
        nodes, self.degrees = (as_array(x) * 1.0, as_array(y) * 1.0), (kx, ky)
        values, shape = as_array(z) * 1.0, tuple(map(np.size, nodes))
        if np.shape(values) != shape:
            raise ValueError(f"z has the shape {np.shape(values)}, x and y have {shape}")
        fine = is_increasing(nodes[0]) & is_increasing(nodes[1])
        fine = fine & (shape[0] > kx) & (shape[1] > ky)
        scipy_raises_unless(fine, scipy.interpolate.RectBivariateSpline, x, y, z, bbox, kx, ky, s)
        if s or kx % 2 == 0 or ky % 2 == 0 or any(end is not None for end in bbox):
            text = "RectBivariateSpline that smooths, of even degree, or with bbox="
            raise no_derivative_rule(f"scipy.interpolate.{text}", "Use s=0 and odd degrees")
        theirs = scipy.interpolate.make_interp_spline
        first = interpolating_bspline(nodes[0], values, kx, None, 0, theirs)
        second = interpolating_bspline(nodes[1], np.transpose(first.c), ky, None, 0, theirs)
        self._knots, self._coefficients = (first.t, second.t), np.transpose(second.c)

    def get_residual(self) -> float:
        """The sum of squared distances from the values."""
        return 0.0


@made_by_scipy(scipy.interpolate.BivariateSpline)
def _surface_of_fitpack(theirs: Any) -> BivariateSpline:
    first, second, c = theirs.tck
    sizes = (len(t) - k - 1 for t, k in zip((first, second), theirs.degrees, strict=True))
    return BivariateSpline._of((first, second), theirs.degrees, np.reshape(c, tuple(sizes)))
