"""`CubicSpline`: its slopes at the nodes solve SciPy's linear system."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy import linalg
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.interpolate.cubic_hermite import CubicHermiteSpline
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


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through the points, twice continuously differentiable."""

    _theirs = scipy.interpolate.CubicSpline

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        is_periodic = isinstance(bc_type, str) and bc_type == "periodic"

        def slopes(x: Any, y: Any) -> Any:
            if is_periodic:
                fine = np.allclose(y[0], y[-1], rtol=1e-15, atol=1e-15)
                scipy_raises_unless(fine, self._theirs, x, y, 0, bc_type)
            return _SplineSystem(x, y, 0, bc_type).slopes

        usual = "periodic" if is_periodic else True
        self._interpolate(x, y, slopes, axis, usual if extrapolate is None else extrapolate)
