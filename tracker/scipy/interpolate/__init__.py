"""`scipy.interpolate` on tracked values, differentiable in the nodes, the values and the points.
Names that are not defined here are SciPy's own.

Spline surfaces are here; cubic splines in `cubic_spline.py`, other piecewise cubics in
`cubic_hermite.py`, B-splines in `bspline.py`, `interp1d` in `one_dimensional.py`, grids in
`grid.py`, scattered points in `scattered.py`; `existing_objects.py` has drop-ins for what plain
code has made. At a node, the derivative in the point is that of the interval on its right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import is_increasing, scipy_raises_unless
from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.existing_objects import constructors
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule, scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.interpolate import existing_objects as existing_objects
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
from tracker.scipy.interpolate.cubic_hermite import pchip_interpolate as pchip_interpolate
from tracker.scipy.interpolate.cubic_spline import CubicSpline as CubicSpline
from tracker.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator
from tracker.scipy.interpolate.grid import interpn as interpn
from tracker.scipy.interpolate.one_dimensional import interp1d as interp1d
from tracker.scipy.interpolate.scattered import LinearNDInterpolator as LinearNDInterpolator
from tracker.scipy.interpolate.scattered import NearestNDInterpolator as NearestNDInterpolator
from tracker.scipy.interpolate.scattered import RBFInterpolator as RBFInterpolator
from tracker.scipy.interpolate.scattered import griddata as griddata
from tracker.tape.value_guards import speculate_bool

if TYPE_CHECKING:
    from scipy.interpolate import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.interpolate)


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


Rebinding().drop_in(scipy.interpolate, "lagrange")
globals().update(DROP_INS[scipy.interpolate])
globals().update(constructors(scipy.interpolate, globals()))
