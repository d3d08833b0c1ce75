"""Statistics that compare samples, and kernel densities, of `tracker.scipy.stats`."""

import numpy as np
import scipy.stats
from scipy_cases import VERSION, against_scipy, since
from tables import refused

from tracker import UnsupportedError, data, gradient, param
from tracker.scipy import stats

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=9), RNG.normal(size=9)
A, B = RNG.normal(size=(5, 3)), RNG.normal(size=(7, 3)) + 0.5
POSITIVE = RNG.uniform(0.2, 2.0, size=(5, 4))
W, FEW = np.linspace(0.5, 1.5, 9), RNG.normal(size=6)
COV = np.array([[1.3, 0.2], [0.2, 0.7]])
WIDE_COV = COV + np.eye(2)


def symmetric(a):
    return (a + np.swapaxes(a, 0, 1)) / 2


CASES = {
    "pearsonr": lambda m, x=X, y=Y: (
        *m.pearsonr(x, y),
        *m.pearsonr(x, y, alternative="less"),
        *m.pearsonr(x, y, alternative="greater")),
    "pearsonr of rows": lambda m, a=A, b=B: m.pearsonr(a, b[:5], axis=1)[0],
    "linregress": lambda m, x=X, y=Y: (*m.linregress(x, y), m.linregress(x, y).intercept_stderr),
    "t-tests": lambda m, a=A, b=B: (
        *m.ttest_ind(a, b),
        *m.ttest_ind(a, b, equal_var=False, alternative="less"),
        *m.ttest_rel(a, b[:5], axis=1, alternative="greater"),
        *m.ttest_1samp(a, 0.3, axis=None)),
    "t-test of lists, beside plain samples": lambda m, a=A, b=X: (
        m.ttest_ind([*a], B)[0] * m.ttest_ind([[1, 2, 3], [2, 5, 1]], a, equal_var=False)[1],
        m.ttest_ind([*b], [0.1, 0.2, 0.4], axis=None)[0]),
    "lists of tracked values": lambda m, x=X: (
        m.levene([*x], (1.0, 2.5, 3.0))[0] + m.kstat([*x], 3) + m.circmean([*x], axis=None),
        m.sem([[*x], [*x**2]], axis=None) * m.moment([*x], 3, axis=None)),
    "f_oneway": lambda m, a=A, b=B: tuple(m.f_oneway(a, b, a**2)),
    "chisquare": lambda m, a=POSITIVE: (
        *m.chisquare(a),
        *m.chisquare(a, np.mean(a) * a / np.mean(a) + 0 * a, ddof=1)),
    "distances": lambda m, x=FEW, y=Y, w=W: (
        m.wasserstein_distance(x, y) * m.wasserstein_distance(x, y, None, w),
        m.energy_distance(x, y) + m.energy_distance(y, x, u_weights=w)),
    "distances of a plain sample": lambda m, x=FEW: (
        m.wasserstein_distance(x, Y), m.wasserstein_distance(Y, x), m.energy_distance(Y, x)),
    "spread of samples": lambda m, x=X, y=Y: (
        m.levene(x, y)[0] + m.bartlett(x, y)[0], m.kstat(x, 3) * m.expectile(x, 0.3),
        m.differential_entropy(x), m.yeojohnson(x, 0.7)),
    "gzscore": lambda m, a=POSITIVE: m.gzscore(a),
    "means": lambda m, a=POSITIVE: (
        m.gstd(a) + m.pmean(a, 2.5) * m.pmean(a[:, 0], 3, weights=W[:5]), m.pmean(a, 0.0, axis=1),
        m.trim_mean(a, 0.3) + m.iqr(a, axis=0) * m.iqr(a, rng=(10, 60), scale="normal"),
        m.median_abs_deviation(a) * m.median_abs_deviation(a, None, np.mean, "normal")),
    "angles": lambda m, a=POSITIVE: (
        m.circmean(a) * m.circmean(a, 3.0, -1.0, axis=0),
        m.circstd(a, axis=1) * m.circvar(a) + m.circstd(a, 4.0, normalize=True)),
    "boxcox": lambda m, a=POSITIVE, p=0.6: (
        m.boxcox(a[:, 0], 0.7), m.boxcox_llf(p, a) * m.boxcox_llf(0.3, a[:, 0])),
    "gaussian_kde": lambda m, x=X, at=FEW[:3], w=W: (
        m.gaussian_kde(x)(at) * m.gaussian_kde(x, weights=w).logpdf(at),
        m.gaussian_kde(x, "silverman").integrate_box_1d(-0.3, 0.7),
        m.gaussian_kde(x, 0.4).pdf(at) + m.gaussian_kde(x, lambda k: k.scotts_factor() / 2)(at)),
    "gaussian_kde of vectors": lambda m, x=B[:, :2], at=A[:2]: (
        m.gaussian_kde(x.T)(at), m.gaussian_kde(x.T)(at[:, 0])),
    "multivariate_t": lambda m, x=A[:, :2], loc=FEW[:2], shape=COV: (
        m.multivariate_t.logpdf(x, loc, symmetric(shape), 3.3),
        m.multivariate_t.pdf(x[0], loc, symmetric(shape), 2) + m.multivariate_t.logpdf(x[0, 0])),
    "wishart": lambda m, x=COV, s=WIDE_COV: (
        m.wishart.logpdf(symmetric(x), 3.5, symmetric(s)),
        m.invwishart.logpdf(symmetric(x), 3, symmetric(s)) * m.wishart.pdf(x @ x.T, 4, s @ s.T)),
    **since((1, 17), {  # SciPy 1.16's code has no derivative, and says so
        "f_oneway, Welch": lambda m, a=A, b=B: tuple(m.f_oneway(a, b, equal_var=False))}),
}  # fmt: skip
test_case = against_scipy(stats, scipy.stats, CASES, slack=2e-6)


def test_degrees_of_freedom():
    assert stats.ttest_1samp(param(X), 0.0).df == scipy.stats.ttest_1samp(X, 0.0).df
    welch, want = (
        m.ttest_ind(a, B, equal_var=False).df for m, a in ((stats, param(A)), (scipy.stats, A))
    )
    np.testing.assert_allclose(data(welch), want)
    args = A[:, :2], np.zeros(2), np.eye(2)
    density = stats.multivariate_t.logpdf(*args, param(3.3))
    np.testing.assert_allclose(data(density), scipy.stats.multivariate_t.logpdf(*args, 3.3))


def test_plain_samples():
    kde, theirs = stats.gaussian_kde(X), scipy.stats.gaussian_kde(X)
    np.testing.assert_allclose(kde(Y), theirs(Y))
    np.testing.assert_allclose(kde.inv_cov, theirs.inv_cov)
    assert kde.resample(4).shape == (1, 4)
    assert stats.pearsonr(X, Y).confidence_interval().low < 1
    np.testing.assert_array_equal(stats.rankdata(param(X)), scipy.stats.rankdata(X))


m, P, S = stats, param(X), param(X**2)
test_refused = refused(
    {
        UnsupportedError: {
            "spearmanr has .*on ranks": lambda: m.spearmanr(P, Y),
            "pearsonr with method=": lambda: m.pearsonr(P, Y, method=1),
            "Give lmbda=": lambda: m.boxcox(S),
            "kde.resample": lambda: m.gaussian_kde(P).resample(),
            "Give one matrix": lambda: m.wishart.logpdf(param(np.ones((2, 2, 3))), 3, COV),
        },
        TypeError: {"unexpected keyword": lambda: m.pearsonr(P, Y, wrong=1)},
        ValueError: {
            "`x` and `y` must": lambda: m.pearsonr(P, Y[:3]),
            "`alternative` must be": lambda: m.pearsonr(P, Y, alternative="x"),
            "`alternative` must be 'less'": lambda: m.ttest_1samp(P, 0, alternative="x"),
            "shapes are incompatible|must match exactly": lambda: m.linregress(P, Y[:3]),
            **(
                {"all x values are identical": lambda: m.linregress(param(0 * X), Y)}
                if VERSION < (1, 18)
                else {}
            ),
            "Proportion too big": lambda: m.trim_mean(P, 0.6),
            "not a valid scale for `iqr`": lambda: m.iqr(P, scale="x"),
            "not a valid scale value": lambda: m.median_abs_deviation(P, scale="x"),
            "Power mean": lambda: m.pmean(S, np.ones(2)),
            "bw_method": lambda: m.gaussian_kde(P, "x"),
            "multiple elements": lambda: m.gaussian_kde(P[:1]),
            "of length n": lambda: m.gaussian_kde(P, weights=W[:2]),
            "points have dimension 5": lambda: m.gaussian_kde(P)(A),
            "1D pdfs": lambda: m.gaussian_kde(param(A.T)).integrate_box_1d(0, 1),
        },
    }
)


def test_a_fit_to_plain_data_is_scipy_s():
    def f(x):
        found = stats.fit(stats.gamma, np.abs(X), {"a": (0.5, 9), "scale": (0.1, 3)})
        return x * found.params.a

    want = scipy.stats.fit(scipy.stats.gamma, np.abs(X), {"a": (0.5, 9), "scale": (0.1, 3)})
    np.testing.assert_allclose(gradient(f, 2.0), want.params.a, rtol=0.02)  # it draws numbers
    assert stats.gamma.shapes == "a"
