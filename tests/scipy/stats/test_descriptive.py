"""Statistics of samples: SciPy's values, derivatives against differences, and compiled."""

import numpy as np
import pytest
import scipy.stats
from scipy_cases import check_case

import tracker.scipy.stats
from tracker import UnsupportedError, jit, param
from tracker.scipy import stats as m

A = np.random.default_rng(3).uniform(0.2, 2.0, size=(5, 4))
W = np.linspace(0.5, 1.5, 5)
CASES = {
    "moment": (lambda m, a: m.moment(a, 3) + m.moment(a, 2, axis=None, center=0.5), A),
    "skew": (lambda m, a: m.skew(a) + m.skew(a, bias=False) + m.skew(a, axis=None), A),
    "kurtosis": (
        lambda m, a: (
            m.kurtosis(a, 1) + m.kurtosis(a, 1, fisher=False) * m.kurtosis(a, 1, bias=False)
        ),
        A,
    ),
    "sem": (lambda m, a: m.sem(a) * m.sem(a, axis=None, ddof=0), A),
    "variation": (lambda m, a: m.variation(a, axis=1, ddof=1), A),
    "zscore": (lambda m, a: m.zscore(a, axis=1, ddof=1) + m.zscore(a, axis=None), A),
    "zmap": (lambda m, a, b: m.zmap(a, b), A, A**2),
    "gmean": (lambda m, a, w: m.gmean(a) + m.gmean(a[:, 0], weights=w) + m.gmean(a, None), A, W),
    "hmean": (lambda m, a, w: m.hmean(a, 0) + m.hmean(a[:, 0], weights=w), A, W),
    "entropy": (lambda m, a: m.entropy(a) + m.entropy(a, a**2, base=2.0), A),
    "entropy of rows": (lambda m, a: m.entropy(a, axis=1), A),
    "likelihood of a huge power": (lambda m, a: m.boxcox_llf(40.0, 200 * a), A),
    "likelihood of a small power": (lambda m, a: m.boxcox_llf(-80.0, 200 * a), A),
    "likelihood of power 0": (lambda m, a: m.boxcox_llf(0.0, a, axis=1), A),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check_case(tracker.scipy.stats, scipy.stats, *CASES[name])


@pytest.mark.parametrize("angle", np.linspace(0.1, 3.0, 7))
def test_directions_that_are_one_do_not_spread(angle):
    same = np.full(103, angle)
    spreads = jit(lambda a: (m.circvar(a), m.circstd(a)))(same)
    assert all(0 <= spread < 1e-7 for spread in spreads)


@pytest.mark.parametrize("a", [4.0, np.array([1, 2, 2]), np.array([1.0, 2.0, 2.0])])
def test_a_mode_is_a_number(a):
    found, want = jit(m.mode)(a), scipy.stats.mode(a)
    assert found == want
    assert list(map(type, found)) == list(map(type, want))


def test_refusals():
    with pytest.raises(UnsupportedError, match="skew with nan_policy= has no derivative"):
        tracker.scipy.stats.skew(param(A), nan_policy="omit")
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        tracker.scipy.stats.sem(param(A), wrong=1)
    assert tracker.scipy.stats.skew(A[:, 0]) == scipy.stats.skew(A[:, 0])
