"""Functions for SciPy's solvers that read values from objects: splines, distributions, matrices."""

from collections import deque

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from scipy.interpolate import CubicSpline, make_interp_spline
from scipy.optimize import brentq, fsolve, newton

import tracker as tr

KNOTS = np.linspace(0.0, 1.0, 6)
VALUES = np.array([0.1, 0.5, 1.2, 1.5, 1.7, 2.1])


def cubic_spline(c):
    return CubicSpline(KNOTS, c)


def fitted_spline(c):
    return make_interp_spline(KNOTS, c)


class Curve:
    """An object of the user's that holds one of a library's."""

    def __init__(self, c):
        self.spline = CubicSpline(KNOTS, c)

    def __call__(self, z):
        return self.spline(z)


def _by_args(make):
    return lambda c: brentq(lambda z, s: s(z) - 0.4, 0.0, 0.6, args=(make(c),))


def _by_default(make):
    return lambda c: brentq(lambda z, s=make(c): s(z) - 0.4, 0.0, 0.6)  # noqa: B008


def _by_closure(make):
    def root(c):
        s = make(c)
        return brentq(lambda z: s(z) - 0.4, 0.0, 0.6)

    return root


def _within_a_dict(make):
    def root(c):
        held = {"curve": [make(c)]}
        return newton(lambda z: held["curve"][0](z) - 0.4, 0.2)

    return root


def _caught(make):
    """The error of reading a value may be caught on the way."""

    def root(c):
        s = make(c)

        def gap(z):
            try:
                return s(z) - 0.4
            except Exception:
                return z - 0.3

        return brentq(gap, 0.0, 0.6)

    return root


def _sparse_system(c):
    matrix = scipy.sparse.diags_array([c + 2.0, -np.ones(5)], offsets=[0, 1]).tocsr()
    return np.sum(fsolve(lambda u: matrix @ u + u**3 - 1.0, np.zeros(6)))


def _quantile(c):
    law = scipy.stats.gamma(c[2])
    return brentq(lambda z: law.cdf(z) - 0.4, 0.01, 5.0)


def _queued(c):
    recent = deque([c])
    return brentq(lambda z: np.interp(z, KNOTS, recent[0]) - 0.4, 0.0, 0.6)


HOLDERS = {
    **{
        f"{way.__name__[1:]}-{make.__name__}": way(make)
        for way in (_by_args, _by_default, _by_closure, _within_a_dict, _caught)
        for make in (cubic_spline, fitted_spline, Curve)
    },
    "sparse matrix": _sparse_system,
    "distribution": _quantile,
    "deque": _queued,
}


@pytest.mark.parametrize("f", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.filterwarnings("ignore:.*runs in plain Python from now on:RuntimeWarning")
def test_objects_that_hold_values_are_read_anew(f):
    """Not as they were in the first call."""
    fast, steep = tr.jit(f), tr.jit(tr.value_and_grad(f))
    for shift in (0.0, 0.05, 0.1, 0.02):
        c = VALUES + shift
        np.testing.assert_allclose(fast(c), f(c), rtol=1e-9)
        value, slope = steep(c)
        np.testing.assert_allclose(value, f(c), rtol=1e-9)
        np.testing.assert_allclose(slope, tr.gradient(f, c)[0], rtol=1e-7)


def test_a_strict_function_says_which_solver_reads_a_held_value():
    fast = tr.jit(_by_closure(Curve), strict=True)
    with pytest.raises(tr.CompileError, match="gets under jit reads an object that holds a value"):
        fast(VALUES)
