"""`tracker.scipy.stats`: statistics that compare samples, kernel densities, multivariate densities;
SciPy's values, derivatives against differences, and compiled."""

import numpy as np
import pytest
import scipy.stats
from scipy_cases import check_case

import tracker.scipy.stats
from tracker import UnsupportedError, data, param
from tracker.scipy import stats

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=9), RNG.normal(size=9)
A, B = RNG.normal(size=(5, 3)), RNG.normal(size=(7, 3)) + 0.5
POSITIVE = RNG.uniform(0.2, 2.0, size=(5, 4))
W, FEW = np.linspace(0.5, 1.5, 9), RNG.normal(size=6)
COV = np.array([[1.3, 0.2], [0.2, 0.7]])
SIDES = ("two-sided", "less", "greater")


def symmetric(a):
    return (a + np.swapaxes(a, 0, 1)) / 2


CASES = {
    "pearsonr": (
        lambda m, x, y: tuple(
            part for side in SIDES for part in tuple(m.pearsonr(x, y, alternative=side))
        ),
        X,
        Y,
    ),
    "pearsonr of rows": (lambda m, a, b: m.pearsonr(a, b[:5], axis=1)[0], A, B),
    "linregress": (
        lambda m, x, y: (*m.linregress(x, y), m.linregress(x, y).intercept_stderr),
        X,
        Y,
    ),
    "t-tests": (
        lambda m, a, b: (
            *m.ttest_ind(a, b),
            *m.ttest_ind(a, b, equal_var=False, alternative="less"),
            *m.ttest_rel(a, b[:5], axis=1, alternative="greater"),
            *m.ttest_1samp(a, 0.3, axis=None),
        ),
        A,
        B,
    ),
    "f_oneway": (lambda m, a, b: tuple(m.f_oneway(a, b, a**2)), A, B),
    "chisquare": (
        lambda m, a: (
            *m.chisquare(a),
            *m.chisquare(a, np.mean(a) * a / np.mean(a) + 0 * a, ddof=1),
        ),
        POSITIVE,
    ),
    "distances": (
        lambda m, x, y, w: (
            m.wasserstein_distance(x, y) * m.wasserstein_distance(x, y, None, w),
            m.energy_distance(x, y) + m.energy_distance(y, x, u_weights=w),
        ),
        FEW,
        Y,
        W,
    ),
    "means": (
        lambda m, a: (
            m.gstd(a) + m.pmean(a, 2.5) * m.pmean(a[:, 0], 3, weights=W[:5]),
            m.pmean(a, 0.0, axis=1),
            m.trim_mean(a, 0.3) + m.iqr(a, axis=0) * m.iqr(a, rng=(10, 60), scale="normal"),
            m.median_abs_deviation(a) * m.median_abs_deviation(a, None, np.mean, "normal"),
        ),
        POSITIVE,
    ),
    "angles": (
        lambda m, a: (
            m.circmean(a) * m.circmean(a, 3.0, -1.0, axis=0),
            m.circstd(a, axis=1) * m.circvar(a) + m.circstd(a, 4.0, normalize=True),
        ),
        POSITIVE,
    ),
    "boxcox": (
        lambda m, a, p: (m.boxcox(a[:, 0], 0.7), m.boxcox_llf(p, a) * m.boxcox_llf(0.3, a[:, 0])),
        POSITIVE,
        0.6,
    ),
    "gaussian_kde": (
        lambda m, x, at, w: (
            m.gaussian_kde(x)(at) * m.gaussian_kde(x, weights=w).logpdf(at),
            m.gaussian_kde(x, "silverman").integrate_box_1d(-0.3, 0.7),
            m.gaussian_kde(x, 0.4).pdf(at) + m.gaussian_kde(x, lambda k: k.scotts_factor() / 2)(at),
        ),
        X,
        FEW[:3],
        W,
    ),
    "gaussian_kde of vectors": (
        lambda m, x, at: (m.gaussian_kde(x.T)(at), m.gaussian_kde(x.T)(at[:, 0])),
        B[:, :2],
        A[:2],
    ),
    "multivariate_t": (
        lambda m, x, loc, shape: (
            m.multivariate_t.logpdf(x, loc, symmetric(shape), 3.3),
            m.multivariate_t.pdf(x[0], loc, symmetric(shape), 2) + m.multivariate_t.logpdf(x[0, 0]),
        ),
        A[:, :2],
        FEW[:2],
        COV,
    ),
    "wishart": (
        lambda m, x, s: (
            m.wishart.logpdf(symmetric(x), 3.5, symmetric(s)),
            m.invwishart.logpdf(symmetric(x), 3, symmetric(s)) * m.wishart.pdf(x @ x.T, 4, s @ s.T),
        ),
        COV,
        COV + np.eye(2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check_case(tracker.scipy.stats, scipy.stats, *CASES[name], slack=2e-6)


def test_degrees_of_freedom():
    assert stats.ttest_1samp(param(X), 0.0).df == scipy.stats.ttest_1samp(X, 0.0).df
    welch = stats.ttest_ind(param(A), B, equal_var=False).df
    np.testing.assert_allclose(data(welch), scipy.stats.ttest_ind(A, B, equal_var=False).df)
    density = stats.multivariate_t.logpdf(A[:, :2], np.zeros(2), np.eye(2), param(3.3))
    want = scipy.stats.multivariate_t.logpdf(A[:, :2], np.zeros(2), np.eye(2), 3.3)
    np.testing.assert_allclose(data(density), want)


def test_plain_samples():
    kde, theirs = stats.gaussian_kde(X), scipy.stats.gaussian_kde(X)
    np.testing.assert_allclose(kde(Y), theirs(Y))
    np.testing.assert_allclose(kde.inv_cov, theirs.inv_cov)
    assert kde.resample(4).shape == (1, 4)
    assert stats.pearsonr(X, Y).confidence_interval().low < 1
    np.testing.assert_array_equal(stats.rankdata(param(X)), scipy.stats.rankdata(X))


def test_refusals():
    for wrong, error, match in (
        (lambda: stats.spearmanr(param(X), Y), UnsupportedError, r"spearmanr has .*on ranks"),
        (lambda: stats.pearsonr(param(X), Y, method=1), UnsupportedError, "pearsonr with method="),
        (lambda: stats.pearsonr(param(X), Y, wrong=1), TypeError, "unexpected keyword"),
        (lambda: stats.pearsonr(param(X), Y[:3]), ValueError, "same length"),
        (lambda: stats.pearsonr(param(X), Y, alternative="x"), ValueError, "alternative"),
        (lambda: stats.ttest_1samp(param(X), 0, alternative="x"), ValueError, "alternative"),
        (lambda: stats.linregress(param(X), Y[:3]), ValueError, "same number"),
        (lambda: stats.linregress(param(0 * X), Y), ValueError, "all x values are identical"),
        (lambda: stats.f_oneway(param(X), Y, equal_var=False), UnsupportedError, "equal_var"),
        (lambda: stats.trim_mean(param(X), 0.6), ValueError, "Proportion too big"),
        (lambda: stats.iqr(param(X), scale="x"), ValueError, "not a valid scale"),
        (lambda: stats.median_abs_deviation(param(X), scale="x"), ValueError, "not a valid scale"),
        (lambda: stats.boxcox(param(X**2)), UnsupportedError, "Give lmbda="),
        (lambda: stats.pmean(param(X**2), np.ones(2)), ValueError, "Power mean"),
        (lambda: stats.gaussian_kde(param(X)).resample(), UnsupportedError, "kde.resample"),
        (lambda: stats.gaussian_kde(param(X), "x"), ValueError, "bw_method"),
        (lambda: stats.gaussian_kde(param(X[:1])), ValueError, "multiple elements"),
        (lambda: stats.gaussian_kde(param(X), weights=W[:2]), ValueError, "of length n"),
        (lambda: stats.gaussian_kde(param(X))(A), ValueError, "points have dimension 5"),
        (lambda: stats.gaussian_kde(param(A.T)).integrate_box_1d(0, 1), ValueError, "1D pdfs"),
        (
            lambda: stats.wishart.logpdf(param(np.ones((2, 2, 3))), 3, COV),
            UnsupportedError,
            "Give one matrix",
        ),
    ):
        with pytest.raises(error, match=match):
            wrong()
