"""Piecewise cubics given by values and slopes at the nodes: evaluation, derivatives, integrals, and
the slopes of `PchipInterpolator` (F. Fritsch, J. Butland, 1984) and `Akima1DInterpolator` (H.
Akima, 1970)."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.fallback import as_array


def as_column(v: Any, y: Any) -> Any:
    """The vector v along the first axis of an array like y."""
    if np.ndim(y) == 1:
        return v
    return np.reshape(v, (-1,) + (1,) * (np.ndim(y) - 1))


def _evaluate_cubic(s: Any, c: tuple[Any, ...], nu: int) -> Any:
    if nu == 0:
        return c[0] + s * (c[1] + s * (c[2] + s * c[3]))
    if nu == 1:
        return c[1] + s * (2 * c[2] + 3 * s * c[3])
    if nu == 2:
        return 2 * c[2] + 6 * s * c[3]
    return (6 if nu == 3 else 0) * c[3] + 0 * s


def interval_index(x: Any, points: Any) -> Any:
    """The index of the interval that contains each point; the first or last one for points
    outside."""
    return np.clip(np.searchsorted(x, points, side="right") - 1, 0, np.shape(x)[0] - 2)


def restore_axes(value: Any, points: Any, axis: int) -> Any:
    """Values whose first axis runs over the points, with that axis moved to `axis` and reshaped to
    the points' shape."""
    if np.ndim(points) != 1:
        value = np.reshape(value, np.shape(points) + np.shape(value)[1:])
    count = np.ndim(points)
    order = list(range(count, count + axis)) + list(range(count))
    order += list(range(count + axis, np.ndim(value)))
    return np.transpose(value, order) if order != list(range(np.ndim(value))) else value


class PiecewiseCubic:
    """A cubic in each interval; `slopes` are the derivatives at the nodes, along the first axis of
    `y`. `_scipy_class` makes SciPy's object; `_is_real_only` says that it accepts no complex
    values."""

    slopes: Any
    _scipy_class: Any
    _is_real_only = False

    def __init__(self, x: Any, y: Any, axis: int, extrapolate: Any) -> None:
        self.x, y = as_array(x), as_array(y)
        self.axis = axis % np.ndim(y)
        self.y = np.moveaxis(y, self.axis, 0)
        self.extrapolate = extrapolate
        can = np.shape(self.x) == np.shape(self.y)[:1] and np.size(self.x) > 1
        can = can and not (self._is_real_only and np.iscomplexobj(y))
        fine = is_increasing(self.x) & are_finite(self.y) if can else False
        scipy_raises_unless(fine, self._scipy_class, x, y, axis=axis)

    def _coefficients(self, i: Any) -> tuple[Any, ...]:
        """The coefficients of intervals i, by powers of the distance from their left node."""
        h = as_column(self.x[i + 1] - self.x[i], self.y)
        rise = (self.y[i + 1] - self.y[i]) / h
        d, e = self.slopes[i], self.slopes[i + 1]
        return self.y[i], d, (3 * rise - 2 * d - e) / h, (d + e - 2 * rise) / h**2

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        points = as_array(x)
        flat = np.reshape(points, (-1,))
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            flat = self.x[0] + (flat - self.x[0]) % (self.x[-1] - self.x[0])
        i = interval_index(self.x, flat)
        value = _evaluate_cubic(
            as_column(flat - self.x[i], self.y), self._coefficients(i), operator.index(nu)
        )
        if not extrapolate:
            inside = (flat >= self.x[0]) & (flat <= self.x[-1])
            value = np.where(as_column(inside, self.y), value, np.nan)
        return restore_axes(value, points, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        """The nu-th derivative, a function of points."""
        return functools.partial(self, nu=nu)

    def integrate(self, a: Any, b: Any) -> Any:
        """The integral from a to b; the outer cubics extend beyond the nodes."""
        n = np.shape(self.x)[0] - 1
        c = self._coefficients(np.arange(n))
        ends = []
        for end in (a, b):
            # The part of each interval before the end; the outer ones extend to infinity.
            inner, far = self.x[1:-1], np.full(1, np.inf)
            low, high = np.concatenate([-far, inner]), np.concatenate([inner, far])
            length = np.clip(end, low, high) - self.x[:-1]
            s = as_column(length, self.y)
            ends.append(np.sum(s * (c[0] + s * (c[1] / 2 + s * (c[2] / 3 + s * c[3] / 4))), axis=0))
        return ends[1] - ends[0]


class CubicHermiteSpline(PiecewiseCubic):
    """The piecewise cubic with given values and slopes."""

    _scipy_class = staticmethod(
        lambda x, y, axis: scipy.interpolate.CubicHermiteSpline(x, y, y, axis)
    )

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        super().__init__(x, y, axis, True if extrapolate is None else extrapolate)
        self.slopes = np.moveaxis(as_array(dydx), self.axis, 0)


class PchipInterpolator(PiecewiseCubic):
    """Monotone where the values are: slopes are harmonic means of the neighbouring secants."""

    _scipy_class = scipy.interpolate.PchipInterpolator
    _is_real_only = True

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        super().__init__(x, y, axis, True if extrapolate is None else extrapolate)
        h = as_column(self.x[1:] - self.x[:-1], self.y)
        rise = (self.y[1:] - self.y[:-1]) / h
        if np.shape(self.x)[0] == 2:
            self.slopes = np.concatenate([rise, rise])
            return
        left, right = rise[:-1], rise[1:]
        flat = (np.sign(left) != np.sign(right)) | (left == 0) | (right == 0)
        near, far = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
        left, right = (np.where(flat, 1.0, side) for side in (left, right))
        inner = np.where(flat, 0.0, (near + far) / (near / left + far / right))
        first = _end_slope(h[0], h[1], rise[0], rise[1])
        last = _end_slope(h[-1], h[-2], rise[-1], rise[-2])
        self.slopes = np.concatenate([first[None], inner, last[None]])


def _end_slope(h: Any, other: Any, rise: Any, next_rise: Any) -> Any:
    """The three-point slope at an end, limited to keep the shape."""
    d = ((2 * h + other) * rise - h * next_rise) / (h + other)
    turns = (np.sign(rise) != np.sign(next_rise)) & (np.abs(d) > 3 * np.abs(rise))
    return np.where(np.sign(d) != np.sign(rise), 0.0, np.where(turns, 3 * rise, d))


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    """A call of `PchipInterpolator`; several derivatives give a list."""
    found = PchipInterpolator(xi, yi, axis)
    return found(x, der) if np.ndim(der) == 0 else [found(x, n) for n in der]


class Akima1DInterpolator(PiecewiseCubic):
    """Slopes are means of neighbouring secants, weighted by how little the secants beyond them
    change."""

    _scipy_class = scipy.interpolate.Akima1DInterpolator
    _is_real_only = True

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        super().__init__(x, y, axis, bool(extrapolate))
        rise = (self.y[1:] - self.y[:-1]) / as_column(self.x[1:] - self.x[:-1], self.y)
        if np.shape(self.x)[0] == 2:
            self.slopes = np.concatenate([rise, rise])
            return
        before, after = 2 * rise[:1] - rise[1:2], 2 * rise[-1:] - rise[-2:-1]
        m = np.concatenate(
            [2 * before - rise[:1], before, rise, after, 2 * after - rise[-1:]], axis=0
        )
        change = np.abs(m[1:] - m[:-1])
        if method == "makima":
            change = change + 0.5 * np.abs(m[1:] + m[:-1])
        low, high = change[2:], change[:-2]
        total = low + high
        some = total > 1e-9 * np.max(total, initial=-np.inf)
        weighted = (low * m[1:-2] + high * m[2:-1]) / np.where(some, total, 1.0)
        self.slopes = np.where(some, weighted, 0.5 * (m[3:] + m[:-3]))
