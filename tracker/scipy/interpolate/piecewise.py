"""`PPoly`: polynomials in each interval between breakpoints, by powers of the distance from the
interval's left end. The splines of `cubic_hermite.py` and `cubic_spline.py` are such polynomials.
"""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar

import numpy as np
import scipy.interpolate

from tracker.implicit.solution import implicit_solution
from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.fallback import as_array, made_by_scipy, no_derivative_rule
from tracker.scipy.interpolate.bspline import BSpline
from tracker.scipy.interpolate.point_value import (
    as_column,
    definite_integral,
    interval_index,
    is_one_op,
    restore_axes,
    value_at,
)
from tracker.tape.tracing.value_guards import speculate_bool


class PPoly(DropIn):
    """A piecewise polynomial: `c[m, i]` is the coefficient of `(t - x[i])**(k - m)`."""

    _theirs = scipy.interpolate.PPoly
    _instead: ClassVar = {"extend": "Join them: PPoly(np.concatenate([c, more], axis=1), x)"}

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        c, self.x = as_array(c) * 1.0, as_array(x) * 1.0
        fits = np.ndim(c) >= 2 and 0 <= axis < np.ndim(c) - 1 and np.ndim(self.x) == 1
        fits = fits and np.shape(c)[axis] > 0 and np.size(self.x) == np.shape(c)[axis + 1] + 1 > 1
        ordered = bool(fits) and speculate_bool(np.all(np.diff(self.x) >= 0), True)
        if not ordered:
            scipy_raises_unless(False, self._theirs, c, x, extrapolate, axis)
            raise no_derivative_rule("PPoly with decreasing x", "Give x, and c, in reverse")
        self.c = np.moveaxis(c, (axis, axis + 1), (0, 1))
        self.extrapolate, self.axis = True if extrapolate is None else extrapolate, axis

    @classmethod
    def construct_fast(cls, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> Any:
        """The polynomial with these coefficients, whose axes come first, without checks."""
        made = object.__new__(cls)
        made.c, made.x, made.axis = as_array(c), as_array(x), axis
        made.extrapolate = True if extrapolate is None else extrapolate
        return made

    @classmethod
    def from_spline(cls, tck: Any, extrapolate: Any = None) -> Any:
        """The polynomials of a B-spline, or of what `splrep` gives."""
        spline = tck if isinstance(tck, BSpline) else BSpline(*tck)
        extrapolate = spline.extrapolate if extrapolate is None else extrapolate
        orders = range(spline.k, -1, -1)
        c = np.stack([spline(spline.t[:-1], n, True) / math.factorial(n) for n in orders])
        return cls.construct_fast(c, spline.t, extrapolate)

    def _as_scipy(self) -> Any:
        return self._theirs.construct_fast(self.c, self.x, self.extrapolate, self.axis)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        points, order = as_array(x), operator.index(nu)
        if order < 0:
            raise ValueError("Order of derivative cannot be negative")
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if is_one_op(self.c[0], self.x):
            theirs = self._as_scipy()
            return value_at(points, lambda at, n: theirs(at, n, extrapolate), order)
        c, nodes = self.c, self.x
        flat = points if np.ndim(points) == 1 else np.reshape(points, (-1,))
        if extrapolate == "periodic":
            flat = nodes[0] + (flat - nodes[0]) % (nodes[-1] - nodes[0])
        i = interval_index(nodes, flat)
        s, degree = as_column(flat - nodes[i], c[0]), np.shape(c)[0] - 1
        value: Any = 0.0
        for power in range(degree, order - 1, -1):
            factor, term = math.perm(power, order), c[degree - power][i]
            term = term if factor == 1 else factor * term
            value = term if power == degree else value * s + term
        if order > degree:
            value = 0.0 * c[0][i]
        if not extrapolate:
            inside = (flat >= nodes[0]) & (flat <= nodes[-1])
            value = np.where(as_column(inside, c[0]), value, np.nan)
        return restore_axes(value, points, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        """The nu-th derivative, a polynomial of lower degree."""
        if nu <= 0:
            return self.antiderivative(-nu) if nu else self
        degree = np.shape(self.c)[0] - 1
        factors = np.array([math.perm(n, nu) for n in range(degree, nu - 1, -1)], float)
        c = self.c[:-nu] * as_column(factors, self.c) if nu <= degree else 0.0 * self.c[:1]
        return self.construct_fast(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> Any:
        """The nu-th antiderivative, which is continuous and 0 at the first breakpoint."""
        c, lengths = self.c, np.diff(self.x)
        for _ in range(nu):
            c = c / as_column(np.arange(np.shape(c)[0], 0.0, -1), c)
            share: Any = 0.0
            for n in range(np.shape(c)[0]):
                share = (share + c[n]) * as_column(lengths, c[0])
            start = np.concatenate([0.0 * share[:1], np.cumsum(share[:-1], axis=0)])
            c = np.concatenate([c, start[None]])
        if nu <= 0:
            return self.derivative(-nu)
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return self.construct_fast(c, self.x, extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        is_periodic = extrapolate == "periodic"
        whole = self.antiderivative()
        period = (self.x[0], self.x[-1]) if is_periodic else None
        return definite_integral(lambda t: whole(t, 0, extrapolate is not False), a, b, period)

    def solve(self, y: Any = 0.0, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The real solutions t of p(t) = y."""
        if np.ndim(self.c) != 2:
            text = "Solve them one by one: PPoly(p.c[..., i], p.x).solve()"
            raise no_derivative_rule("PPoly.solve of several polynomials", text)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        found, jumps = call_scipy(_roots, self.c, self.x, y, discontinuity, extrapolate)
        if speculate_bool(jumps > 0, False):
            text = "Pass discontinuity=False"
            raise no_derivative_rule("PPoly.solve where the polynomials jump", text)
        if np.size(found) == 0:
            return found
        if not speculate_bool(np.all(np.isfinite(found)), True):
            text = "PPoly.solve where p equals y in a whole interval"
            raise no_derivative_rule(text, "Use tracker.data where no gradient is wanted")
        return implicit_solution(lambda t: self(t, 0, True) - y, found, "PPoly.solve")

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The real solutions t of p(t) = 0."""
        return self.solve(0.0, discontinuity, extrapolate)


def _roots(c: Any, x: Any, y: Any, discontinuity: bool, extrapolate: Any) -> tuple[Any, int]:
    """SciPy's solutions, and how many of them are jumps across y."""
    theirs = scipy.interpolate.PPoly(c, x)
    smooth = theirs.solve(y, False, extrapolate)
    found = theirs.solve(y, True, extrapolate) if discontinuity else smooth
    return found, len(found) - len(smooth)


@made_by_scipy(scipy.interpolate.PPoly)
def polynomials_of_scipy(theirs: Any) -> Any:
    """SciPy's polynomials; an object of ours that takes tracked points."""
    if theirs.x[0] > theirs.x[-1]:
        raise no_derivative_rule("PPoly with decreasing x", "Give x, and c, in reverse")
    return PPoly.construct_fast(theirs.c, theirs.x, theirs.extrapolate, theirs.axis)
