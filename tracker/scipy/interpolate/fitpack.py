"""FITPACK's splines: `splrep` and its relatives, and `UnivariateSpline`. Those that choose their
knots by the values are refused: interpolation and least squares on given knots remain."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, made_by_scipy, no_derivative_rule
from tracker.scipy.interpolate.bspline import (
    BSpline,
    derivative_tck,
    interpolating_bspline,
    least_squares_bspline,
    with_end_knots,
)
from tracker.scipy.interpolate.piecewise import PPoly
from tracker.scipy.interpolate.point_value import is_one_op, value_at

TCK = tuple[Any, Any, int]
_OUTSIDE = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}  # values of ext=
_GIVE_KNOTS = "Use s=0, or give the knots: splrep(x, y, w, t=...), LSQUnivariateSpline(x, y, t, w)"


@drop_in(scipy.interpolate)
def splrep(
    x: Any,
    y: Any,
    w: Any = None,
    xb: Any = None,
    xe: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: bool = False,
    per: bool = False,
    quiet: bool = True,
) -> TCK:
    """The knots, coefficients and degree of a spline through points, or closest to them on the
    knots t."""
    if per or full_output:
        text = "scipy.interpolate.splrep with per= or full_output="
        raise no_derivative_rule(text, "Use make_interp_spline(x, y, bc_type='periodic')")
    if t is not None:
        return _padded(_least_squares(x, y, t, w, k, (xb, xe), scipy.interpolate.splrep))
    if s or (s is None and w is not None) or task:
        raise no_derivative_rule("scipy.interpolate.splrep that smooths", _GIVE_KNOTS)
    theirs = scipy.interpolate.splrep
    return _padded(interpolating_bspline(x, y, k, None, 0, theirs, (xb, xe)))


def _padded(spline: BSpline) -> TCK:
    """As FITPACK has it: with as many coefficients as knots."""
    return spline.t, np.concatenate([spline.c, np.zeros(spline.k + 1)]), spline.k


def _least_squares(
    x: Any, y: Any, t: Any, w: Any, k: int, ends: tuple[Any, Any], theirs: Any
) -> BSpline:
    """The spline on knots between the ends. `theirs` is SciPy's, called where a check fails."""
    x, inner = as_array(x) * 1.0, as_array(t) * 1.0
    knots = with_end_knots(inner, x, k, *ends)
    n = np.shape(knots)[0] - k - 1
    fine: Any = np.ndim(x) == 1 and np.shape(x) == np.shape(as_array(y)) and n <= np.size(x)
    if fine:
        fine = np.all(np.diff(x) >= 0) & np.all(np.diff(knots[k : n + 1]) > 0)
        fine = fine & (x[0] >= knots[k]) & (x[-1] <= knots[n])
    scipy_raises_unless(fine, theirs, x, y, w=w, k=k, t=t)
    return least_squares_bspline(x, y, knots, k, w)


@drop_in(scipy.interpolate)
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """The spline or one of its derivatives at points; `ext` says what it is outside."""
    if isinstance(tck, BSpline):
        return tck(x, der, extrapolate=ext == 0)
    t, c, k = tck
    t, x = as_array(t), as_array(x)
    low, high = t[k], t[-k - 1]
    at = np.clip(x, low, high) if ext == 3 else x
    y = BSpline(t, c, k)(at, der)
    if ext == 2 and bool(np.any((x < low) | (x > high))):
        raise ValueError("Found x value not in the domain")
    return np.where((x < low) | (x > high), 0.0, y) if ext == 1 else y


@drop_in(scipy.interpolate)
def splint(a: Any, b: Any, tck: Any, full_output: bool = False) -> Any:
    """The integral from a to b of a spline, which is 0 outside of its knots."""
    if full_output:
        raise no_derivative_rule("scipy.interpolate.splint with full_output=", "Leave it out")
    spline = tck if isinstance(tck, BSpline) else BSpline(*tck)
    return spline.integrate(a, b, extrapolate=False)


@drop_in(scipy.interpolate)
def splder(tck: Any, n: int = 1) -> Any:
    """The n-th derivative of a spline, in the form of the spline."""
    return tck.derivative(n) if isinstance(tck, BSpline) else derivative_tck(tck, n)


@drop_in(scipy.interpolate)
def splantider(tck: Any, n: int = 1) -> Any:
    """The n-th antiderivative of a spline, in the form of the spline."""
    return tck.antiderivative(n) if isinstance(tck, BSpline) else derivative_tck(tck, -n)


@drop_in(scipy.interpolate)
def spalde(x: Any, tck: Any) -> Any:
    """The spline and all its derivatives at a point, or a list of them for several points."""
    spline = tck if isinstance(tck, BSpline) else BSpline(*tck)
    orders = np.stack([spline(x, n) for n in range(spline.k + 1)], axis=-1)
    return list(orders) if np.ndim(orders) > 1 else orders


@drop_in(scipy.interpolate)
def sproot(tck: Any, mest: int = 10) -> Any:
    """The zeros of a cubic spline between its end knots."""
    spline = tck if isinstance(tck, BSpline) else BSpline(*tck)
    if spline.k != 3:
        raise ValueError("sproot works only for cubic (k=3) splines")
    inner = spline.t[3:-3]
    c = PPoly.from_spline(spline).c[:, 3:-3]
    return PPoly.construct_fast(c, inner).roots(extrapolate=False)


class UnivariateSpline(DropIn):
    """A spline through points; with `LSQUnivariateSpline`, the one closest to them on given
    knots."""

    _theirs = scipy.interpolate.UnivariateSpline
    _instead: ClassVar = {"set_smoothing_factor": _GIVE_KNOTS}

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        s: Any = None,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        if s is None or s:
            raise no_derivative_rule("scipy.interpolate.UnivariateSpline that smooths", _GIVE_KNOTS)
        spline = interpolating_bspline(x, y, k, None, 0, self._theirs, tuple(bbox))
        self._set(_padded(spline), ext, 0.0)

    def _set(self, tck: TCK, ext: Any, residual: Any = None) -> None:
        self._eval_args, self._residual = tck, residual
        self.ext = _OUTSIDE.get(ext, ext)

    @classmethod
    def _from_tck(cls, tck: TCK, ext: Any = 0) -> UnivariateSpline:
        made: UnivariateSpline = object.__new__(UnivariateSpline)
        made._set(tck, ext)
        return made

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        ext = self.ext if ext is None else _OUTSIDE.get(ext, ext)
        t, c, k = self._eval_args
        if ext != 3 and is_one_op(c, t):
            theirs = scipy.interpolate.UnivariateSpline._from_tck(self._eval_args, ext)
            return value_at(x, lambda at, n: theirs(at, n) if n <= k else np.zeros(at.shape), nu)
        return splev(x, self._eval_args, nu, ext)

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """The n-th derivative; outside, it is 0 where the spline is constant."""
        return self._from_tck(splder(self._eval_args, n), 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """The n-th antiderivative."""
        return self._from_tck(splantider(self._eval_args, n), self.ext)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b; the spline counts as 0 outside of its knots."""
        return splint(a, b, self._eval_args)

    def derivatives(self, x: Any) -> Any:
        """The spline and all its derivatives at a point."""
        return spalde(x, self._eval_args)

    def roots(self) -> Any:
        """The zeros of a cubic spline."""
        if self._eval_args[2] != 3:
            raise NotImplementedError("finding roots unsupported for non-cubic splines")
        return sproot(self._eval_args)

    def get_knots(self) -> Any:
        """The knots, the ends once."""
        t, _, k = self._eval_args
        return t[k : np.shape(t)[0] - k]

    def get_coeffs(self) -> Any:
        t, c, k = self._eval_args
        return c[: np.shape(t)[0] - k - 1]

    def get_residual(self) -> Any:
        """The weighted sum of squared distances from the points."""
        return self._residual


class InterpolatedUnivariateSpline(UnivariateSpline):
    """The spline through the points."""

    _theirs = scipy.interpolate.InterpolatedUnivariateSpline

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(x, y, w, bbox, k, 0, ext, check_finite)


class LSQUnivariateSpline(UnivariateSpline):
    """The spline on the knots t, between the ends, with the least weighted sum of squares."""

    _theirs = scipy.interpolate.LSQUnivariateSpline

    def __init__(
        self,
        x: Any,
        y: Any,
        t: Any,
        w: Any = None,
        bbox: Any = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        spline = _least_squares(x, y, t, w, k, tuple(bbox), self._theirs)
        away = as_array(y) - spline(as_array(x))
        away = away if w is None else away * as_array(w)
        self._set(_padded(spline), ext, np.sum(np.square(away)))


@made_by_scipy(scipy.interpolate.UnivariateSpline)
def _spline_of_fitpack(theirs: Any) -> UnivariateSpline:
    return UnivariateSpline._from_tck(theirs._eval_args, theirs.ext)
