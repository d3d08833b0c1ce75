"""Python's `statistics` in user code under a derivative: values and errors, and derivatives."""

import math
import statistics
import sys
import types
from fractions import Fraction

import numpy as np
import pytest

from tracker import ConversionError, gradient, jit, value_and_grad
from tracker.testing import ngradient

X = np.array([0.3, 0.5, 1.2, 0.9])
C = [1e20, 7.0, -1e20]
Y = [1.0, 2.0, 4.0, 3.0]
PROPORTIONAL = {"proportional": True}
PROGRAMS = {
    "mean": lambda x: statistics.mean(x) * statistics.mean([*x, 2]) * statistics.mean(Y),
    "fmean": lambda x: statistics.fmean(x) + statistics.fmean(v * v for v in x),
    "of terms that cancel": lambda x: statistics.mean([*x, *C]) * statistics.fmean([*C, *x]),
    "weighted": lambda x: statistics.fmean(x, weights=x**2) * statistics.fmean(Y, x),
    "geometric_mean": lambda x: statistics.geometric_mean(x),
    "harmonic_mean": lambda x: statistics.harmonic_mean(x) + statistics.harmonic_mean(Y, x),
    "variance": lambda x: statistics.variance(x) + statistics.variance(x, x[0]),
    "pvariance": lambda x: statistics.pvariance(x) + statistics.pvariance(list(x), 0.2),
    "stdev": lambda x: statistics.stdev(x) + statistics.stdev(dict(enumerate(x)).values()),
    "pstdev": lambda x: statistics.pstdev(x, 0.3) * statistics.pstdev(iter(x)),
    "of equal numbers": lambda x: statistics.stdev([x[0], x[0], x[0]]) + x[0] * x[0],
    "covariance": lambda x: statistics.covariance(x, x**2) + statistics.covariance(Y, x),
    "correlation": lambda x: statistics.correlation(x, Y),
    "linear_regression": lambda x: math.prod(statistics.linear_regression(x, Y)),
    "proportional": lambda x: statistics.linear_regression(Y, x, **PROPORTIONAL).slope,
    "median": lambda x: statistics.median(x) + statistics.median_low(x * 2.0),
    "quantiles": lambda x: sum(statistics.quantiles(x, n=3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_derivative(name):
    f = PROGRAMS[name]
    compiled = value_and_grad(jit(f))
    for g, x in ((value_and_grad(f), X), (compiled, X), (compiled, X), (compiled, X[::-1] * 1.1)):
        value, slope = g(x)
        assert value == pytest.approx(f(x), rel=1e-13)
        np.testing.assert_allclose(slope, ngradient(f, x)[0], rtol=1e-6, atol=1e-8)


def test_results_are_python_s_floats():
    assert type(value_and_grad(PROGRAMS["stdev"])(X)[0]) is float
    seen = []

    def f(x):
        seen.append(statistics.linear_regression(x, Y))
        return seen[0].slope

    gradient(f, X)
    assert type(seen[0]) is statistics.LinearRegression


ERRORS = {
    "too few": lambda x: statistics.stdev(x[:1]),
    "no data": lambda x: statistics.mean([]) * x[0],
    "negative": lambda x: statistics.harmonic_mean(x - 1.0),
    "constant": lambda x: statistics.linear_regression(x * 0.0, Y).slope,
    "lengths": lambda x: statistics.covariance(x, Y[:2]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_statistics(name):
    f = ERRORS[name]
    with pytest.raises((statistics.StatisticsError, RuntimeWarning)) as plain:
        f(X)  # from Python 3.13 on, NumPy's numbers may be divided by zero there
    with pytest.raises(plain.type) as differentiated:
        gradient(f, X)
    assert str(differentiated.value) == str(plain.value)


@pytest.mark.parametrize(
    ("f", "wrong"),
    [
        (lambda x: statistics.harmonic_mean(x), -X),
        (lambda x: statistics.correlation(x, Y), 0.0 * X),
        (lambda x: statistics.linear_regression(x, Y).intercept, 0.0 * X),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_errors_of_a_compiled_call(f, wrong):
    compiled = jit(f)
    for x in (X, X, X * 2.0):
        assert compiled(x) == pytest.approx(f(x), rel=1e-13)
    try:
        expected = f(wrong)
    except statistics.StatisticsError:
        with pytest.raises(statistics.StatisticsError):
            compiled(wrong)
    else:
        assert np.isnan(expected) and np.isnan(compiled(wrong))


def test_plain_numbers_get_python_s_own():
    seen = []

    def f(x):
        seen.append((statistics.mean([1, 2]), statistics.stdev([1, 2, 3]), statistics.mode("aab")))
        return x[0]

    gradient(f, X)
    assert seen == [(1.5, 1.0, "a")] and isinstance(seen[0][0], float)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.prod(x[0].as_integer_ratio()),
        lambda x: Fraction(x[0]) * 1.0,
        lambda x: statistics.NormalDist(x[0], 1.0).cdf(0.3),
        lambda x: statistics.NormalDist(0.0, 1.0).cdf(x[0]),
    ],
)
def test_exact_arithmetic_drops_no_gradient(f):
    with pytest.raises(ConversionError, match="lose its gradient"):
        gradient(f, X)


def test_a_module_of_the_user_s_with_this_name(monkeypatch):
    module = types.ModuleType("statistics")
    module.__file__ = "/home/user/statistics.py"
    exec("import math\ndef spread(x): return math.sqrt(x[0] * x[1])", vars(module))
    monkeypatch.setitem(sys.modules, "statistics", module)

    def f(x):
        return module.spread(x)

    np.testing.assert_allclose(gradient(f, X)[0], ngradient(f, X)[0], rtol=1e-6)
