"""`CubicSpline`: its slopes at the nodes solve SciPy's linear system."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy import linalg
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.interpolate.cubic_hermite import PiecewiseCubic
from tracker.scipy.linalg.factorizations import solve_banded


class _Hermite:
    """Takes the slopes that SciPy's constructor of a spline computes."""

    def __init__(self, x: Any, y: Any, slopes: Any, axis: int = 0, extrapolate: Any = None) -> None:
        self.slopes = slopes


class _SplineSystem(_Hermite):
    """SciPy's linear system for the slopes of a cubic spline at its nodes."""


_REBINDING = Rebinding({"solve_banded": solve_banded, "solve": linalg.solve})
for _name in ("__init__", "_validate_bc"):
    _method = inspect.getattr_static(scipy.interpolate.CubicSpline, _name)
    if isinstance(_method, staticmethod):
        setattr(_SplineSystem, _name, staticmethod(_REBINDING.function(_method.__func__)))
    else:
        setattr(_SplineSystem, _name, _REBINDING.function(_method, _SplineSystem))


class CubicSpline(PiecewiseCubic):
    """The cubic spline through the points, twice continuously differentiable.

    As SciPy's: `spline(points, nu=0)` evaluates its nu-th derivative (up to the third).
    """

    _scipy_class = scipy.interpolate.CubicSpline

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        usual = "periodic" if isinstance(bc_type, str) and bc_type == "periodic" else True
        super().__init__(x, y, axis, usual if extrapolate is None else extrapolate)
        if usual == "periodic":
            ends = self.y[0], self.y[-1]
            fine = np.allclose(*ends, rtol=1e-15, atol=1e-15)
            scipy_raises_unless(fine, self._scipy_class, x, y, axis, bc_type)
        self.slopes = _SplineSystem(self.x * 1.0, self.y * 1.0, 0, bc_type).slopes
