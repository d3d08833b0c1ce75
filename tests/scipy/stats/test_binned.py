"""The most frequent value, statistics of bins, frequencies: SciPy's values, and derivatives."""

import numpy as np
import pytest
import scipy.stats
from scipy_cases import check_case

import tracker.scipy.stats
from tracker import gradient, jit

RNG = np.random.default_rng(5)
X, V = RNG.uniform(-1.0, 2.0, 20), RNG.normal(size=20)
EDGES = [-0.7, 0.1, 0.2, 1.9]
CASES = {
    name: (lambda m, v, s=statistic: m.binned_statistic(X, v, s, bins=6)[0], V)
    for name, statistic in {
        **{name: name for name in ("mean", "sum", "std", "min", "max", "median")},
        "a function": np.ptp,
    }.items()
} | {
    "two rows": (lambda m, v: m.binned_statistic(X, [v, v**2], bins=EDGES)[0], V),
    "where": (lambda m, x: m.binned_statistic(x, V, "count", range=(-3.0, 3.0))[:2], X),
    "edges": (lambda m, x: m.binned_statistic(x, V, bins=4)[1], X),
    "mode": (lambda m, x: m.mode(x)[0] + m.mode(x, axis=None, keepdims=True)[0], X),
    "mode of columns": (lambda m, x: m.mode(np.reshape(x, (5, 4)), axis=1)[0], X),
    "weights": (lambda m, w: m.cumfreq(X, 4, weights=w)[0], V),
    "limits": (lambda m, x: m.cumfreq(x, 4)[1:3], X),
    "relative": (lambda m, w: m.relfreq(X, 3, (-0.5, 0.5), weights=w)[0], V**2),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    with np.errstate(invalid="ignore"):
        f, *args = CASES[name]
        check_case(tracker.scipy.stats, scipy.stats, f, *args)


def test_a_mode_that_is_there_several_times():
    def f(x):
        return np.sum(tracker.scipy.stats.mode(x).mode)

    x = np.array([[2.0, 1.0], [3.0, 1.0], [2.0, 0.0], [5.0, np.nan]])
    want = [[0.5, 0.5], [0.0, 0.5], [0.5, 0.0], [0.0, 0.0]]
    np.testing.assert_array_equal(gradient(f, x[:, :1])[0], [row[:1] for row in want])
    omitted = gradient(lambda x: np.sum(tracker.scipy.stats.mode(x, nan_policy="omit").mode), x)
    np.testing.assert_array_equal(omitted[0], want)
    x[1:3, 1] = np.nan  # NaN is the mode then
    assert np.isnan(jit(f)(x)) and np.isnan(f(x))


def test_empty_bins_and_what_is_no_statistic():
    binned = jit(lambda x, v: tracker.scipy.stats.binned_statistic(x, v, "mean", EDGES).statistic)
    for x in (X[:4], X[4:8], np.full(4, 0.15)):
        want = scipy.stats.binned_statistic(x, x**2, "mean", EDGES).statistic
        np.testing.assert_allclose(binned(x, x**2), want, rtol=1e-14)
    with pytest.raises(ValueError, match="invalid statistic 'average'"):
        gradient(lambda v: tracker.scipy.stats.binned_statistic(X, v, "average")[0][0], V)
