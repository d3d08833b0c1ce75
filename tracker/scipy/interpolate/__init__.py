"""`scipy.interpolate` on tracked values, differentiable in the nodes, the values and the points.
Names that are not defined here are SciPy's own.

Piecewise polynomials are in `piecewise.py`, those through values in `cubic_hermite.py` and
`cubic_spline.py`; B-splines in `bspline.py`, FITPACK's in `fitpack.py`, surfaces in `surfaces.py`;
`interp1d` in `one_dimensional.py`, grids in `grid.py`, scattered points in `scattered.py`. At a
node, the derivative in the point is that of the interval on its right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scipy.interpolate

from tracker.scipy._bridge.classes import constructors
from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import no_derivative_rule, scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.interpolate.bspline import BSpline as BSpline
from tracker.scipy.interpolate.bspline import interpolating_bspline
from tracker.scipy.interpolate.bspline import make_lsq_spline as make_lsq_spline
from tracker.scipy.interpolate.cubic_hermite import Akima1DInterpolator as Akima1DInterpolator
from tracker.scipy.interpolate.cubic_hermite import CubicHermiteSpline as CubicHermiteSpline
from tracker.scipy.interpolate.cubic_hermite import PchipInterpolator as PchipInterpolator
from tracker.scipy.interpolate.cubic_hermite import pchip_interpolate as pchip_interpolate
from tracker.scipy.interpolate.cubic_spline import CubicSpline as CubicSpline
from tracker.scipy.interpolate.fitpack import (
    InterpolatedUnivariateSpline as InterpolatedUnivariateSpline,
)
from tracker.scipy.interpolate.fitpack import LSQUnivariateSpline as LSQUnivariateSpline
from tracker.scipy.interpolate.fitpack import UnivariateSpline as UnivariateSpline
from tracker.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator
from tracker.scipy.interpolate.grid import interpn as interpn
from tracker.scipy.interpolate.one_dimensional import interp1d as interp1d
from tracker.scipy.interpolate.piecewise import PPoly as PPoly
from tracker.scipy.interpolate.scattered import LinearNDInterpolator as LinearNDInterpolator
from tracker.scipy.interpolate.scattered import NearestNDInterpolator as NearestNDInterpolator
from tracker.scipy.interpolate.scattered import RBFInterpolator as RBFInterpolator
from tracker.scipy.interpolate.scattered import griddata as griddata
from tracker.scipy.interpolate.surfaces import BivariateSpline as BivariateSpline
from tracker.scipy.interpolate.surfaces import RectBivariateSpline as RectBivariateSpline

if TYPE_CHECKING:
    from scipy.interpolate import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.interpolate)


@drop_in(scipy.interpolate)
def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0
) -> Any:
    """The interpolating spline of degree k."""
    if bc_type in (None, "not-a-knot"):
        return interpolating_bspline(x, y, k, t, axis, scipy.interpolate.make_interp_spline)
    if k == 3 and t is None:
        return CubicSpline(x, y, axis, bc_type)
    raise no_derivative_rule(
        f"make_interp_spline with k={k} and bc_type={bc_type!r}",
        "Leave bc_type= out, or use k=3 without t=",
    )


Rebinding().drop_in(scipy.interpolate, "lagrange")
globals().update(DROP_INS[scipy.interpolate])
globals().update(constructors(scipy.interpolate, globals()))
