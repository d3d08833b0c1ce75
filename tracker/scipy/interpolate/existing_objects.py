"""Drop-ins for interpolants that plain code has made: SciPy's object has the coefficients, and its
points may be tracked."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.existing_objects import made_by_scipy
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy.interpolate.bspline import BSpline, splev
from tracker.scipy.interpolate.cubic_hermite import as_column, interval_index, restore_axes
from tracker.scipy.interpolate.grid import RegularGridInterpolator
from tracker.scipy.interpolate.one_dimensional import interp1d
from tracker.scipy.interpolate.point_value import is_one_op, value_at
from tracker.scipy.interpolate.scattered import (
    LinearNDInterpolator,
    NearestNDInterpolator,
    RBFInterpolator,
)


def _with_state(cls: type, **state: Any) -> Any:
    """An object of ours with these attributes."""
    made: Any = object.__new__(cls)
    vars(made).update(state)
    return made


@made_by_scipy(scipy.interpolate.PPoly)
class _PiecewisePolynomial:
    """A piecewise polynomial of any degree, as `CubicSpline` and its relatives are."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        theirs, points = self._theirs, as_array(x)
        nodes, order = theirs.x, operator.index(nu)
        if order < 0:
            return _PiecewisePolynomial(theirs.antiderivative(-order))(x, 0, extrapolate)
        extrapolate = theirs.extrapolate if extrapolate is None else extrapolate
        if is_one_op(theirs.c[0]):
            return value_at(points, lambda at, n: theirs(at, n, extrapolate), order)
        flat = points if np.ndim(points) == 1 else np.reshape(points, (-1,))
        if extrapolate == "periodic":
            flat = nodes[0] + (flat - nodes[0]) % (nodes[-1] - nodes[0])
        i = interval_index(nodes, flat)
        s = as_column(flat - nodes[i], theirs.c[0])
        degree = len(theirs.c) - 1
        value: Any = 0.0
        for power in range(degree, order - 1, -1):
            factor = math.perm(power, order)
            term = theirs.c[degree - power][i]
            term = term if factor == 1 else factor * term
            value = term if power == degree else value * s + term
        if not extrapolate:
            inside = (flat >= nodes[0]) & (flat <= nodes[-1])
            value = np.where(as_column(inside, theirs.c[0]), value, np.nan)
        elif order > degree:
            value = np.zeros(np.shape(s)) + np.zeros(np.shape(theirs.c)[2:])
        return restore_axes(value, points, theirs.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        extrapolate = self._theirs.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise no_derivative_rule("the integral of a periodic spline", "Use extrapolate=True")
        whole = _PiecewisePolynomial(self._theirs.antiderivative())
        return whole(b, 0, extrapolate) - whole(a, 0, extrapolate)


@made_by_scipy(scipy.interpolate.BSpline)
def _b_spline(theirs: Any) -> Any:
    known = {name: getattr(theirs, name) for name in ("t", "c", "k", "extrapolate", "axis")}
    return _with_state(BSpline, _plain_spline=theirs, **known)


@made_by_scipy(scipy.interpolate.UnivariateSpline)
class _UnivariateSpline:
    """A spline of FITPACK's, also a smoothing one."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        names = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}
        ext = self._theirs.ext if ext is None else names.get(ext, ext)
        t, c, k = self._theirs._eval_args
        if ext != 3 and is_one_op(c):
            return value_at(
                x, lambda at, n: self._theirs(at, n, ext) if n <= k else np.zeros(at.shape), nu
            )
        return splev(as_array(x), (t, c, k), nu, ext)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b; the spline counts as 0 outside of its knots."""
        knots = self._theirs.get_knots()
        whole = _UnivariateSpline(self._theirs.antiderivative())
        ends = (np.clip(as_array(end), knots[0], knots[-1]) for end in (b, a))
        return operator.sub(*map(whole, ends))


@made_by_scipy(scipy.interpolate.interp1d)
class _Interpolant:
    """`interp1d` of any kind."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(self, x: Any) -> Any:
        if is_one_op(self._theirs.y):
            return value_at(x, self._derivative)
        return self._formula()(x)

    def _derivative(self, at: Any, order: int) -> Any:
        theirs = self._theirs
        if order == 0:
            return theirs(at)
        if hasattr(theirs, "_spline"):
            slope = np.reshape(theirs._spline(at, order), at.shape)
        elif theirs._kind == "linear" and order == 1:
            slope = (np.diff(theirs.y) / np.diff(theirs.x))[interval_index(theirs.x, at)]
        else:
            slope = np.zeros(at.shape)
        inside = theirs._extrapolate | ((at >= theirs.x[0]) & (at <= theirs.x[-1]))
        return np.where(inside, slope, 0.0)

    def _formula(self) -> Any:
        """An object of ours in the same state."""
        theirs = self._theirs
        axis = theirs.axis % np.ndim(theirs.y)
        y = np.moveaxis(theirs.y, axis, 0)
        spline = getattr(theirs, "_spline", None)
        evaluate: Any = spline and _b_spline(spline)
        return _with_state(
            interp1d,
            **{name: getattr(theirs, name) for name in ("x", "bounds_error")},
            y=y,
            axis=axis,
            kind=theirs._kind,
            extrapolate=theirs._extrapolate,
            spline=spline and (lambda x: np.reshape(evaluate(x), (-1, *np.shape(y)[1:]))),
            fill=tuple(getattr(theirs, f"_fill_value_{end}", None) for end in ("below", "above")),
            _evaluate_by_scipy=theirs.__call__,
            _scipy_args=(),
        )


@made_by_scipy(scipy.interpolate.BivariateSpline)
class _Surface:
    """A spline in two directions. Outside of the knots it has the value at the edge."""

    def __init__(self, theirs: Any) -> None:
        *self._knots, c = theirs.tck
        self._degrees = theirs.degrees
        sizes = (len(t) - k - 1 for t, k in zip(self._knots, self._degrees, strict=True))
        self._coefficients = np.reshape(c, tuple(sizes))

    def _basis(self, axis: int, at: Any, order: int) -> Any:
        t, k = self._knots[axis], self._degrees[axis]
        inside = np.clip(as_array(at) * 1.0, t[k], t[-k - 1])
        return BSpline(t, np.eye(len(t) - k - 1), k)(inside, order)

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """The values at pairs of coordinates."""
        xi, yi = np.broadcast_arrays(as_array(xi), as_array(yi))
        across = self._basis(0, xi, dx) @ self._coefficients
        return np.sum(across * self._basis(1, yi, dy), axis=-1)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        if not grid:
            return self.ev(x, y, dx, dy)
        across = self._basis(0, np.atleast_1d(as_array(x)), dx) @ self._coefficients
        return across @ np.transpose(self._basis(1, np.atleast_1d(as_array(y)), dy))


@made_by_scipy(scipy.interpolate.RegularGridInterpolator)
def _grid(theirs: Any) -> Any:
    more = theirs.bounds_error, theirs.fill_value
    return RegularGridInterpolator(theirs.grid, theirs.values, theirs.method, *more)


@made_by_scipy(scipy.interpolate.LinearNDInterpolator)
def _linear(theirs: Any) -> Any:
    if theirs.scale is not None:
        raise no_derivative_rule("LinearNDInterpolator with rescale=", "Scale the points")
    values = np.reshape(theirs.values, (len(theirs.points), *theirs.values_shape))
    known = {"points": theirs.points, "values": values, "tri": theirs.tri}
    return _with_state(LinearNDInterpolator, fill_value=theirs.fill_value, **known)


@made_by_scipy(scipy.interpolate.NearestNDInterpolator)
def _nearest(theirs: Any) -> Any:
    if theirs.scale is not None:
        raise no_derivative_rule("NearestNDInterpolator with rescale=", "Scale the points")
    return _with_state(NearestNDInterpolator, values=theirs.values, tree=theirs.tree)


@made_by_scipy(scipy.interpolate.RBFInterpolator)
def _radial(theirs: Any) -> Any:
    if theirs.neighbors is not None:
        raise no_derivative_rule("RBFInterpolator with neighbors=", "Leave it out")
    own = {f"_{name}": getattr(theirs, name) for name in ("epsilon", "powers")}
    own |= {name: getattr(theirs, name) for name in ("y", "kernel", "_shift", "_scale")}
    own |= {"_coefficients": theirs._coeffs, "_shape": theirs.d_shape}
    return _with_state(RBFInterpolator, **own)
