"""Piecewise cubics given by values and slopes at the nodes, and the slopes of `PchipInterpolator`
(F. Fritsch, J. Butland, 1984) and `Akima1DInterpolator` (H. Akima, 1970)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.interpolate.piecewise import PPoly
from tracker.scipy.interpolate.point_value import as_column

_Slopes = Callable[[Any, Any], Any]  # at nodes, of values along the first axis


class CubicHermiteSpline(PPoly):
    """The piecewise cubic with given values and slopes at the nodes."""

    _theirs = scipy.interpolate.CubicHermiteSpline
    _is_real_only = False

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        def slopes(x: Any, y: Any) -> Any:
            return np.moveaxis(as_array(dydx), self.axis, 0)

        def check(x: Any, y: Any, axis: int) -> Any:
            return self._theirs(x, y, y, axis)

        self._interpolate(x, y, slopes, axis, True if extrapolate is None else extrapolate, check)

    def _interpolate(
        self, x: Any, y: Any, slopes: _Slopes, axis: int, extrapolate: Any, check: Any = None
    ) -> None:
        """Set the cubics through values. `check` is SciPy's class, called where a check fails."""
        x, y = as_array(x), as_array(y)
        self.axis, self.extrapolate = axis % np.ndim(y), extrapolate
        values = np.moveaxis(y, self.axis, 0)
        can = np.shape(x) == np.shape(values)[:1] and np.size(x) > 1
        can = can and not (self._is_real_only and np.iscomplexobj(y))
        fine = is_increasing(x) & are_finite(values) if can else False
        scipy_raises_unless(fine, check or self._theirs, x, y, axis=axis)
        self.x, values = x * 1.0, values * 1.0
        d = slopes(self.x, values)
        h = as_column(np.diff(self.x), values)
        rise = np.diff(values, axis=0) / h
        bend = (d[:-1] + d[1:] - 2 * rise) / h
        self.c = np.stack([bend / h, (rise - d[:-1]) / h - bend, d[:-1], values[:-1]])


class PchipInterpolator(CubicHermiteSpline):
    """Monotone where the values are: slopes are harmonic means of the neighbouring secants."""

    _theirs = scipy.interpolate.PchipInterpolator
    _is_real_only = True

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        usual = True if extrapolate is None else extrapolate
        self._interpolate(x, y, _monotone_slopes, axis, usual)


def _monotone_slopes(x: Any, y: Any) -> Any:
    h = as_column(x[1:] - x[:-1], y)
    rise = (y[1:] - y[:-1]) / h
    if np.shape(x)[0] == 2:
        return np.concatenate([rise, rise])
    left, right = rise[:-1], rise[1:]
    flat = (np.sign(left) != np.sign(right)) | (left == 0) | (right == 0)
    near, far = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    left, right = (np.where(flat, 1.0, side) for side in (left, right))
    inner = np.where(flat, 0.0, (near + far) / (near / left + far / right))
    first = _end_slope(h[0], h[1], rise[0], rise[1])
    last = _end_slope(h[-1], h[-2], rise[-1], rise[-2])
    return np.concatenate([first[None], inner, last[None]])


def _end_slope(h: Any, other: Any, rise: Any, next_rise: Any) -> Any:
    """The three-point slope at an end, limited to keep the shape."""
    d = ((2 * h + other) * rise - h * next_rise) / (h + other)
    turns = (np.sign(rise) != np.sign(next_rise)) & (np.abs(d) > 3 * np.abs(rise))
    return np.where(np.sign(d) != np.sign(rise), 0.0, np.where(turns, 3 * rise, d))


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    """A call of `PchipInterpolator`; several derivatives give a list."""
    found = PchipInterpolator(xi, yi, axis)
    return found(x, der) if np.ndim(der) == 0 else [found(x, n) for n in der]


class Akima1DInterpolator(CubicHermiteSpline):
    """Slopes are means of neighbouring secants, weighted by how little the secants beyond them
    change."""

    _theirs = scipy.interpolate.Akima1DInterpolator
    _is_real_only = True

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        is_modified = method == "makima"
        slopes: _Slopes = lambda x, y: _weighted_slopes(x, y, is_modified)  # noqa: E731
        self._interpolate(x, y, slopes, axis, bool(extrapolate))


def _weighted_slopes(x: Any, y: Any, is_modified: bool) -> Any:
    rise = (y[1:] - y[:-1]) / as_column(x[1:] - x[:-1], y)
    if np.shape(x)[0] == 2:
        return np.concatenate([rise, rise])
    before, after = 2 * rise[:1] - rise[1:2], 2 * rise[-1:] - rise[-2:-1]
    m = np.concatenate([2 * before - rise[:1], before, rise, after, 2 * after - rise[-1:]], axis=0)
    change = np.abs(m[1:] - m[:-1])
    if is_modified:
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    low, high = change[2:], change[:-2]
    total = low + high
    some = total > 1e-9 * np.max(total, initial=-np.inf)
    weighted = (low * m[1:-2] + high * m[2:-1]) / np.where(some, total, 1.0)
    return np.where(some, weighted, 0.5 * (m[3:] + m[:-3]))
