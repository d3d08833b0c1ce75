"""B-splines: evaluation by de Boor's recursion, interpolation and least squares by the collocation
matrix of the basis (C. de Boor, "A Practical Guide to Splines")."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, made_by_scipy
from tracker.scipy.interpolate.point_value import (
    as_column,
    definite_integral,
    is_one_op,
    restore_axes,
    value_at,
)


class BSpline(DropIn):
    """The sum of the basis functions of degree k on the knots t, weighted by the coefficients c."""

    _theirs = scipy.interpolate.BSpline
    _instead: ClassVar = {
        "design_matrix": "Use BSpline(t, np.eye(len(t) - k - 1), k)(x), which is dense",
        "from_power_basis": "Use make_interp_spline(x, y)",
    }

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self.t, c, self.k = as_array(t) * 1.0, as_array(c) * 1.0, int(k)
        self.axis, self.extrapolate = axis % np.ndim(c), extrapolate
        self.c = np.moveaxis(c, self.axis, 0)
        fine = np.all(np.diff(self.t) >= 0) & are_finite(self.t)
        scipy_raises_unless(fine, scipy.interpolate.BSpline, t, c, k, extrapolate, axis)

    @classmethod
    def construct_fast(
        cls, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0
    ) -> BSpline:
        """The spline with these coefficients, whose axis comes first, without checks."""
        made = object.__new__(cls)
        made.t, made.c, made.k = as_array(t), as_array(c), k
        made.extrapolate, made.axis = extrapolate, axis
        return made

    def _as_scipy(self) -> Any:
        return self._theirs.construct_fast(self.t, self.c, self.k, self.extrapolate, self.axis)

    @property
    def tck(self) -> tuple[Any, Any, int]:
        return self.t, self.c, self.k

    @property
    def _domain(self) -> tuple[Any, Any]:
        return self.t[self.k], self.t[-self.k - 1]

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if is_one_op(self.c, self.t):
            theirs = self._as_scipy()
            return value_at(x, lambda at, n: theirs(at, n, extrapolate), nu)
        points = as_array(x)
        flat, (low, high) = np.reshape(points, (-1,)) * 1.0, self._domain
        if extrapolate == "periodic":
            flat = low + (flat - low) % (high - low)
        t, c, k = self.tck
        for _ in range(min(nu, k)):
            t, c, k = _lower_degree(t, c, k)
        value = _de_boor(t, c if nu <= self.k else 0.0 * c, k, flat)
        if not extrapolate:
            inside = (flat >= low) & (flat <= high)
            value = np.where(as_column(inside, c), value, np.nan)
        return restore_axes(value, points, self.axis)

    def _with(self, tck: tuple[Any, Any, int], extrapolate: Any) -> BSpline:
        t, c, k = tck
        return self.construct_fast(t, c, k, extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """The nu-th derivative, a spline of lower degree."""
        return self._with(derivative_tck(self.tck, nu), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """The nu-th antiderivative, 0 at the first knot."""
        is_periodic = self.extrapolate == "periodic"
        return self._with(derivative_tck(self.tck, -nu), not is_periodic and self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b; the spline is 0 outside of its knots if it is not
        extrapolated."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        low, high = self._domain
        if not extrapolate:
            a, b = np.clip(a, low, high), np.clip(b, low, high)
        whole = self._with(derivative_tck(self.tck, -1), True)
        return definite_integral(whole, a, b, (low, high) if extrapolate == "periodic" else None)


@made_by_scipy(scipy.interpolate.BSpline)
def spline_of_scipy(theirs: Any) -> BSpline:
    """SciPy's spline; an object of ours that takes tracked points."""
    return BSpline.construct_fast(theirs.t, theirs.c, theirs.k, theirs.extrapolate, theirs.axis)


def _de_boor(t: Any, c: Any, k: int, points: Any) -> Any:
    """The values at points, along the first axis."""
    at = np.clip(np.searchsorted(t, points, side="right") - 1, k, np.shape(t)[0] - k - 2)
    d = [c[at - k + j] for j in range(k + 1)]
    for r in range(1, k + 1):
        for j in range(k, r - 1, -1):
            low, high = t[at - k + j], t[at + 1 + j - r]
            part = as_column((points - low) / (high - low), c)
            d[j] = (1 - part) * d[j - 1] + part * d[j]
    return d[k]


def _lower_degree(t: Any, c: Any, k: int) -> tuple[Any, Any, int]:
    """The derivative of a spline. A knot that is repeated as often as the degree has no slope."""
    c = c[: np.shape(t)[0] - k - 1]
    spans = t[k + 1 : -1] - t[1 : -k - 1]
    wide = spans > 0
    slopes = k * np.diff(c, axis=0) / as_column(np.where(wide, spans, 1.0), c)
    c = np.where(as_column(wide, c), slopes, 0.0)
    return t[1:-1], np.concatenate([c, np.zeros((k, *np.shape(c)[1:]))]), k - 1


def _raise_degree(t: Any, c: Any, k: int) -> tuple[Any, Any, int]:
    """The antiderivative of a spline."""
    c = c[: np.shape(t)[0] - k - 1]
    parts = c * as_column(t[k + 1 :] - t[: -k - 1], c) / (k + 1)
    total = np.cumsum(parts, axis=0)
    c = np.concatenate([0.0 * total[:1], total, *[total[-1:]] * (k + 2)])
    return np.concatenate([t[:1], t, t[-1:]]), c, k + 1


def derivative_tck(tck: tuple[Any, Any, int], order: int) -> tuple[Any, Any, int]:
    """The knots, coefficients and degree of a derivative; of an antiderivative for negative
    orders."""
    t, c, k = tck
    t, c = as_array(t), as_array(c)
    if order > 0:
        smooth = order <= k and np.all(t[k + 1 : -1] > t[1 : -k - 1])
        scipy_raises_unless(smooth, scipy.interpolate.splder, (t, c, k), order)
    change = _lower_degree if order > 0 else _raise_degree
    for _ in range(abs(order)):
        t, c, k = change(t, c, k)
    return t, c, k


def _collocation(t: Any, k: int, x: Any) -> Any:
    """The values of the basis functions at points, a row for each point."""
    return BSpline(t, np.eye(np.shape(t)[0] - k - 1), k)(x)


def interpolating_bspline(
    x: Any, y: Any, k: int, t: Any, axis: int, theirs: Any, ends: tuple[Any, Any] = (None, None)
) -> BSpline:
    """The spline of degree k through the points, on SciPy's knots if none are given. `theirs` is
    SciPy's function, called where a check fails."""
    x, y = as_array(x) * 1.0, as_array(y) * 1.0
    axis %= np.ndim(y)
    values = np.moveaxis(y, axis, 0)
    n = np.shape(x)[0]
    fine = is_increasing(x) & are_finite(y) if np.shape(values)[:1] == (n,) and n > k else False
    options = {} if t is None else {"t": t}
    scipy_raises_unless(fine, theirs, x, y, k=k, **options)
    t = interpolation_knots(x, k, *ends) if t is None else as_array(t)
    flat = np.linalg.solve(_collocation(t, k, x), np.reshape(values, (n, -1)))
    return BSpline.construct_fast(t, np.reshape(flat, np.shape(values)), k, True, axis)


def interpolation_knots(x: Any, k: int, first: Any = None, last: Any = None) -> Any:
    """Knots at the nodes except next to the ends; halfway between nodes for even degrees."""
    if k == 0:
        return np.concatenate([x, x[-1:]])
    inner = x if k % 2 else 0.5 * (x[1:] + x[:-1])
    drop = (k + 1) // 2 if k % 2 else k // 2
    return with_end_knots(inner[drop : np.shape(inner)[0] - drop], x, k, first, last)


def with_end_knots(inner: Any, x: Any, k: int, first: Any = None, last: Any = None) -> Any:
    """Knots between the ends, which are those of the nodes if they are not given."""
    ends = np.ones(k + 1)
    first, last = x[0] if first is None else first, x[-1] if last is None else last
    return np.concatenate([first * ends, as_array(inner), last * ends])


def least_squares_bspline(x: Any, y: Any, t: Any, k: int, w: Any, axis: int = 0) -> BSpline:
    """The spline on given knots with the least sum of squares of w (y - s(x))."""
    x, t, y = as_array(x) * 1.0, as_array(t) * 1.0, as_array(y) * 1.0
    values = np.moveaxis(y, axis, 0)
    flat = np.reshape(values, (np.shape(x)[0], -1))
    weights = np.ones(np.shape(x)) if w is None else as_array(w)
    column = np.expand_dims(weights, 1)
    q, r = np.linalg.qr(column * _collocation(t, k, x))
    c = np.linalg.solve(r, np.swapaxes(q, 0, 1) @ (column * flat))
    c = np.reshape(c, (-1, *np.shape(values)[1:]))
    return BSpline.construct_fast(t, c, k, True, axis % np.ndim(y))


@drop_in(scipy.interpolate)
def make_lsq_spline(
    x: Any,
    y: Any,
    t: Any,
    k: int = 3,
    w: Any = None,
    axis: int = 0,
    *,
    method: str = "qr",
) -> BSpline:
    """The spline of degree k on the knots t that fits the points best."""
    shape = np.shape(as_array(x))
    fine = (
        len(shape) == 1 and np.shape(as_array(y))[axis] == shape[0] and method in ("qr", "norm-eq")
    )
    fine = fine and np.ndim(as_array(t)) == 1 and (w is None or np.shape(as_array(w)) == shape)
    if fine:
        nodes, knots = as_array(x), as_array(t)
        inside = (nodes >= knots[k]) & (nodes <= knots[-k - 1])
        fine = np.all(np.diff(nodes) >= 0) & np.all(inside) & np.all(np.diff(knots) >= 0)
        fine = fine & are_finite(nodes, as_array(y), knots)
    options = {"w": w, "axis": axis, "method": method}
    scipy_raises_unless(fine, scipy.interpolate.make_lsq_spline, x, y, t, k, **options)
    return least_squares_bspline(x, y, t, k, w, axis)
