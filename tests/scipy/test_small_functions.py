"""Functions of SciPy's smaller rooms: units, differences, polynomials through points."""

import types

import numpy as np
import scipy.constants
import scipy.interpolate
import scipy.optimize
from scipy_cases import against_scipy

from tracker import gradient, jit
from tracker.scipy import constants, interpolate, optimize

X = np.array([0.3, 1.2, -0.7])
THEIRS = types.SimpleNamespace(
    lagrange=scipy.interpolate.lagrange, celsius=scipy.constants.convert_temperature
)
OURS = types.SimpleNamespace(lagrange=interpolate.lagrange, celsius=constants.convert_temperature)
test_small_functions = against_scipy(
    OURS,
    THEIRS,
    {
        "units": lambda m, x=X: m.celsius(x, "F", "K"),
        "polynomial": lambda m, y=X: m.lagrange(np.arange(3.0), y)(0.4),
    },
)


def _rates(x, k):
    return np.array([np.sin(k * x[0] * x[1]), x[2] ** 2])


def test_differences():
    """The derivative of forward differences, of numbers and of vectors."""
    np.testing.assert_array_equal(
        optimize.approx_fprime(X, _rates, 1e-6, 2.0),
        scipy.optimize.approx_fprime(X, _rates, 1e-6, 2.0),
    )

    def f(x, k):
        slopes = scipy.optimize.approx_fprime(x, lambda v: np.sum(k * v**3))
        return np.sum(scipy.optimize.approx_fprime(x, _rates, 1e-6, k)) + np.sum(slopes)

    argument = 2.0 * X[0] * X[1]
    cosine, sine = np.cos(argument), np.sin(argument)
    by_x = [
        2 * cosine - 4 * X[1] * np.sum(X[:2]) * sine,
        2 * cosine - 4 * X[0] * np.sum(X[:2]) * sine,
    ]
    want = np.array([*by_x, 2.0]) + 12.0 * X
    for g in (gradient, jit(lambda f, *args: gradient(f, *args), static=(0,))):
        slope, rate = g(f, X, 2.0)
        np.testing.assert_allclose(slope, want, rtol=1e-4)
        by_k = np.sum(X[:2]) * (cosine - argument * sine) + np.sum(3 * X**2)
        np.testing.assert_allclose(rate, by_k, rtol=1e-4)
