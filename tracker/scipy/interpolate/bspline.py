"""B-splines: evaluation by de Boor's recursion, interpolation by the collocation matrix of the
basis (C. de Boor, "A Practical Guide to Splines")."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.existing_objects import drop_in_of_result
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy.interpolate.cubic_hermite import as_column, restore_axes
from tracker.scipy.interpolate.point_value import is_one_op, value_at


class BSpline:
    """The sum of the basis functions of degree k on the knots t, weighted by the coefficients c.

    For plain knots and coefficients, SciPy's object evaluates plain points and has the other
    methods.
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        tracked = is_tracked(t, c)
        self._plain_spline = (
            None if tracked else scipy.interpolate.BSpline(t, c, k, extrapolate, axis)
        )
        self.t, c, self.k = as_array(t) * 1.0, as_array(c) * 1.0, int(k)
        self.axis, self.extrapolate = axis % np.ndim(c), extrapolate
        self.c = np.moveaxis(c, self.axis, 0)
        if tracked:
            fine = np.all(np.diff(self.t) >= 0) & are_finite(self.t)
            scipy_raises_unless(fine, scipy.interpolate.BSpline, t, c, k, extrapolate, axis)

    def __getattr__(self, name: str) -> Any:
        plain = self.__dict__.get("_plain_spline")
        if plain is None or name.startswith("_"):
            raise AttributeError(name)
        return getattr(plain, name)

    @property
    def tck(self) -> tuple[Any, Any, int]:
        return self.t, self.c, self.k

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if self._plain_spline is not None and not is_tracked(x):
            return self._plain_spline(x, nu, extrapolate)
        if self._plain_spline is not None and is_one_op(self.c):
            plain = self._plain_spline
            return value_at(x, lambda at, n: plain(at, n, extrapolate), nu)
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        points = as_array(x)
        flat = np.reshape(points, (-1,)) * 1.0
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        t, k, n = self.t, self.k, np.shape(self.t)[0] - self.k - 1
        if extrapolate == "periodic":
            flat = t[k] + (flat - t[k]) % (t[n] - t[k])
        at = np.clip(np.searchsorted(t, flat, side="right") - 1, k, n - 1)
        d = [self.c[at - k + j] for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                low, high = t[at - k + j], t[at + 1 + j - r]
                part = as_column((flat - low) / (high - low), self.c)
                d[j] = (1 - part) * d[j - 1] + part * d[j]
        value = d[k]
        if not extrapolate:
            inside = (flat >= t[k]) & (flat <= t[n])
            value = np.where(as_column(inside, self.c), value, np.nan)
        return restore_axes(value, points, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """The nu-th derivative, a spline of lower degree."""
        if not nu:
            return self
        t, k = self.t, self.k
        c = self.c[: np.shape(t)[0] - k - 1]
        if k == 0:
            return BSpline(t, np.moveaxis(0 * c, 0, self.axis), 0, self.extrapolate, self.axis)
        spans = t[k + 1 : -1] - t[1 : -k - 1]
        wide = spans > 0
        c = k * (c[1:] - c[:-1]) / as_column(np.where(wide, spans, 1.0), c)
        c = np.where(as_column(wide, c), c, 0.0)
        lower = BSpline(t[1:-1], np.moveaxis(c, 0, self.axis), k - 1, self.extrapolate, self.axis)
        return lower.derivative(nu - 1)


def interpolating_bspline(x: Any, y: Any, k: int, t: Any, axis: int, theirs: Any) -> BSpline:
    """The spline of degree k through the points, on SciPy's knots if none are given. `theirs` is
    SciPy's function, called where a check fails."""
    x, y = as_array(x) * 1.0, as_array(y) * 1.0
    axis %= np.ndim(y)
    values = np.moveaxis(y, axis, 0)
    n = np.shape(x)[0]
    fine = is_increasing(x) & are_finite(y) if np.shape(values)[:1] == (n,) and n > k else False
    options = {} if t is None else {"t": t}
    scipy_raises_unless(fine, theirs, x, y, k=k, **options)
    t = _interpolation_knots(x, k) if t is None else as_array(t)
    basis = BSpline(t, np.eye(n), k)(x)
    flat = np.linalg.solve(basis, np.reshape(values, (n, -1)))
    return BSpline(t, np.moveaxis(np.reshape(flat, np.shape(values)), 0, axis), k, axis=axis)


def _interpolation_knots(x: Any, k: int) -> Any:
    """Knots at the nodes except next to the ends; halfway between nodes for even degrees."""
    if k == 0:
        return np.concatenate([x, x[-1:]])
    inner = x if k % 2 else 0.5 * (x[1:] + x[:-1])
    drop = (k + 1) // 2 if k % 2 else k // 2
    inner = inner[drop : np.shape(inner)[0] - drop]
    ends = np.ones(k + 1)
    return np.concatenate([x[0] * ends, inner, x[-1] * ends])


def splrep(x: Any, y: Any, *args: Any, k: int = 3, s: Any = None, **options: Any) -> Any:
    """The knots, coefficients and degree of the interpolating spline."""
    if not is_tracked(x, y):
        return scipy.interpolate.splrep(x, y, *args, k=k, s=s, **options)
    if args or s or any(value is not None for value in options.values()):
        raise no_derivative_rule("splrep that smooths", "Use s=0, without weights")
    t, c, k = interpolating_bspline(x, y, k, None, 0, scipy.interpolate.splrep).tck
    return t, np.concatenate([c, np.zeros(k + 1)]), k


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """The spline or one of its derivatives at points; `ext` says what it is outside."""
    if not is_tracked(x, tck):
        return scipy.interpolate.splev(x, tck, der, ext)
    t, c, k = tck
    t, x = as_array(t), as_array(x)
    low, high = t[k], t[-k - 1]
    at = np.clip(x, low, high) if ext == 3 else x
    y = BSpline(t, c, k)(at, der)
    if ext == 2 and bool(np.any((x < low) | (x > high))):
        raise ValueError("Found x value not in the domain")
    return np.where((x < low) | (x > high), 0.0, y) if ext == 1 else y


def InterpolatedUnivariateSpline(x: Any, y: Any, *args: Any, k: int = 3, **options: Any) -> Any:
    """The interpolating spline, a function of points."""
    if not is_tracked(x, y):
        plain = scipy.interpolate.InterpolatedUnivariateSpline(x, y, *args, k=k, **options)
        return drop_in_of_result(plain)
    if args or options:
        raise no_derivative_rule(
            "InterpolatedUnivariateSpline with more than x, y and k", "Leave the rest out"
        )
    theirs = scipy.interpolate.InterpolatedUnivariateSpline
    return interpolating_bspline(x, y, k, None, 0, theirs)
