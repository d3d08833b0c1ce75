"""Statistics that describe samples: moments, means, entropies, directions, bins."""

import numpy as np
import pytest
import scipy.stats
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, gradient, jit, param
from tracker.scipy import stats

A = np.random.default_rng(3).uniform(0.2, 2.0, size=(5, 4))
W = np.linspace(0.5, 1.5, 5)
RNG = np.random.default_rng(5)
X, V = RNG.uniform(-1.0, 2.0, 20), RNG.normal(size=20)
EDGES = [-0.7, 0.1, 0.2, 1.9]
CASES = {
    "moment": lambda m, a=A: m.moment(a, 3) + m.moment(a, 2, axis=None, center=0.5),
    "skew": lambda m, a=A: m.skew(a) + m.skew(a, bias=False) + m.skew(a, axis=None),
    "kurtosis": lambda m, a=A: (
        m.kurtosis(a, 1) + m.kurtosis(a, 1, fisher=False) * m.kurtosis(a, 1, bias=False)
    ),
    "sem": lambda m, a=A: m.sem(a) * m.sem(a, axis=None, ddof=0),
    "variation": lambda m, a=A: m.variation(a, axis=1, ddof=1),
    "zscore": lambda m, a=A: m.zscore(a, axis=1, ddof=1) + m.zscore(a, axis=None),
    "zmap": lambda m, a=A, b=A**2: m.zmap(a, b),
    "zscore of lists": lambda m, a=A: m.zscore([[*row] for row in a], axis=None),
    "gmean": lambda m, a=A, w=W: m.gmean(a) + m.gmean(a[:, 0], weights=w) + m.gmean(a, None),
    "hmean": lambda m, a=A, w=W: m.hmean(a, 0) + m.hmean(a[:, 0], weights=w),
    "entropy": lambda m, a=A: m.entropy(a) + m.entropy(a, a**2, base=2.0),
    "entropy of rows": lambda m, a=A: m.entropy(a, axis=1),
    "likelihood of a huge power": lambda m, a=A: m.boxcox_llf(40.0, 200 * a),
    "likelihood of a small power": lambda m, a=A: m.boxcox_llf(-80.0, 200 * a),
    "likelihood of power 0": lambda m, a=A: m.boxcox_llf(0.0, a, axis=1),
    "two rows": lambda m, v=V: m.binned_statistic(X, [v, v**2], bins=EDGES)[0],
    "where": lambda m, x=X: m.binned_statistic(x, V, "count", range=(-3.0, 3.0))[:2],
    "edges": lambda m, x=X: m.binned_statistic(x, V, bins=4)[1],
    "mode": lambda m, x=X: m.mode(x)[0] + m.mode(x, axis=None, keepdims=True)[0],
    "mode of columns": lambda m, x=X: m.mode(np.reshape(x, (5, 4)), axis=1)[0],
    "weights": lambda m, w=V: m.cumfreq(X, 4, weights=w)[0],
    "limits": lambda m, x=X: m.cumfreq(x, 4)[1:3],
    "relative": lambda m, w=V**2: m.relfreq(X, 3, (-0.5, 0.5), weights=w)[0],
}
for _name in ("mean", "sum", "std", "min", "max", "median", "ptp"):
    _statistic = np.ptp if _name == "ptp" else _name
    CASES[f"bins, {_name}"] = lambda m, v=V, *, s=_statistic: m.binned_statistic(X, v, s, bins=6)[0]


@pytest.fixture(autouse=True)
def invalid_values_are_no_errors():
    with np.errstate(invalid="ignore"):
        yield


test_case = against_scipy(stats, scipy.stats, CASES)


@pytest.mark.parametrize("angle", np.linspace(0.1, 3.0, 7))
def test_equal_directions_have_no_spread(angle):
    same = np.full(103, angle)
    spreads = jit(lambda a: (stats.circvar(a), stats.circstd(a)))(same)
    assert all(0 <= spread < 1e-7 for spread in spreads)


@pytest.mark.parametrize("a", [4.0, np.array([1, 2, 2]), np.array([1.0, 2.0, 2.0])])
def test_a_mode_is_a_number(a):
    found, want = jit(stats.mode)(a), scipy.stats.mode(a)
    assert found == want
    assert list(map(type, found)) == list(map(type, want))


def test_elements_that_equal_the_mode_share_its_gradient():
    def f(x):
        return np.sum(stats.mode(x).mode)

    x = np.array([[2.0, 1.0], [3.0, 1.0], [2.0, 0.0], [5.0, np.nan]])
    want = [[0.5, 0.5], [0.0, 0.5], [0.5, 0.0], [0.0, 0.0]]
    np.testing.assert_array_equal(gradient(f, x[:, :1])[0], [row[:1] for row in want])
    omitted = gradient(lambda x: np.sum(stats.mode(x, nan_policy="omit").mode), x)
    np.testing.assert_array_equal(omitted[0], want)
    x[1:3, 1] = np.nan  # NaN is the mode then
    assert np.isnan(jit(f)(x)) and np.isnan(f(x))


def test_empty_bins():
    binned = jit(lambda x, v: stats.binned_statistic(x, v, "mean", EDGES).statistic)
    for x in (X[:4], X[4:8], np.full(4, 0.15)):
        want = scipy.stats.binned_statistic(x, x**2, "mean", EDGES).statistic
        np.testing.assert_allclose(binned(x, x**2), want, rtol=1e-14)


def test_plain_numbers_are_scipys():
    assert stats.skew(A[:, 0]) == scipy.stats.skew(A[:, 0])


P = param(A)
test_refused = refused(
    {
        UnsupportedError: {
            "skew with nan_policy= has no derivative": lambda: stats.skew(P, nan_policy="omit")
        },
        TypeError: {"unexpected keyword argument 'wrong'": lambda: stats.sem(P, wrong=1)},
        ValueError: {
            "invalid statistic 'average'": lambda: stats.binned_statistic(X, param(V), "average")
        },
    }
)
