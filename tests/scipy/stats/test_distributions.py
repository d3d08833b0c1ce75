"""The univariate distributions of `tracker.scipy.stats`: SciPy's numbers, and derivatives in the
argument, the shapes, loc and scale."""

import numpy as np
import pytest
import scipy.stats as own
from scipy_cases import VERSION
from tables import refused

import tracker
from tracker import UnsupportedError, data, gradient, hessian, jit, param, pullback
from tracker.scipy import stats
from tracker.testing import gradcheck


def table(text):
    """Shapes by name, from lines of names and shapes; those with a point are floats."""
    rows = [row.split() for row in text.replace("\n", ",").split(",") if row.strip()]
    return {name: tuple(float(s) if "." in s else int(s) for s in shapes) for name, *shapes in rows}


# Common distributions agree with SciPy's to the last digits, rarer ones to fewer.
COMMON = table("""
    norm, t 3.3, gamma 2.2, erlang 2, chi2 3.1, chi 3.1, invgamma 2.3, beta 1.4 2.3, f 3.0 5.0
    expon, lognorm 0.7, halfnorm, laplace, cauchy, halfcauchy, uniform, logistic, weibull_min 1.7
    pareto 2.1, lomax 2.1, gumbel_r, gumbel_l, rayleigh, maxwell, powerlaw 1.8, vonmises 1.3
    skewnorm 0.8, truncnorm -0.7 1.9
""")
RARE = table("""
    alpha 1.3, anglit, arcsine, betaprime 2.2 3.1, bradford 1.2, burr 2.0 1.3, burr12 2.0 1.3
    cosine, crystalball 1.3 2.4, dgamma 1.3, dweibull 1.4, exponnorm 1.2, exponpow 1.7
    exponweib 1.4 1.8, fatiguelife 0.8, fisk 2.3, foldcauchy 1.2, foldnorm 1.2, genextreme 0.3
    gengamma 1.4 1.6, genlogistic 1.4, gennorm 1.4, genpareto 0.2, gibrat, gompertz 0.8
    halfgennorm 1.3, halflogistic, hypsecant, invgauss 0.9, invweibull 2.2, johnsonsb 0.3 1.2
    johnsonsu 0.3 1.2, kappa3 1.4, laplace_asymmetric 1.3, levy, loggamma 1.4, loglaplace 2.3
    loguniform 0.5 3.0, mielke 2.1 1.7, moyal, nakagami 1.3, norminvgauss 1.5 0.4, rdist 2.6
    reciprocal 0.5 3.0, rice 0.8, semicircular, skewcauchy 0.3, triang 0.4, truncexpon 2.0, wald
    weibull_max 1.6, wrapcauchy 0.4
""")
COUNTS = table("""
    poisson 2.3, bernoulli 0.3, binom 7 0.3, nbinom 4.2 0.4, geom 0.3, betabinom 7 1.2 2.3
    logser 0.4
""")
RARE_COUNTS = table("""
    betanbinom 4 1.2 2.3, boltzmann 0.6 5, dlaplace 0.7, hypergeom 9 4 5, planck 0.6, randint -1 5
    skellam 1.3 2.1, yulesimon 1.7, zipf 2.3
""")
CONTINUOUS, DISCRETE = {**COMMON, **RARE}, {**COUNTS, **RARE_COUNTS}
NO_CDF = "vonmises norminvgauss betabinom logser betanbinom hypergeom zipf".split()  # noqa: SIM905
X = np.array([-1.2, 0.55, 1.35, 2.6])
WIDE = np.array([-3.0, -1.2, -0.3, 0.15, 0.55, 0.9, 1.35, 2.6, 7.0])
Q, WIDE_Q = np.array([0.1, 0.4, 0.93]), np.array([0.0, 0.1, 0.4, 0.93, 1.0])
K, WIDE_K = np.array([-1, 0.0, 1, 3, 2.5, 7, 9]), np.array([-2.0, -1, 0, 1, 3, 4, 7, 9])


def methods(name):
    density = ("logpdf", "pdf") if name in CONTINUOUS else ("logpmf", "pmf")
    density = () if name == "skellam" else density
    return density if name in NO_CDF else (*density, "cdf", "sf", "logcdf", "logsf")


def quantiles(name):
    return () if name in NO_CDF else ("ppf", "isf")


COMMON_METHODS = [(n, m) for n in COMMON for m in (*methods(n), *quantiles(n))]
COUNT_METHODS = [(n, m) for n in COUNTS for m in methods(n)]


@pytest.mark.parametrize("name, method", COMMON_METHODS)
def test_common(name, method):
    ours, theirs = (getattr(getattr(m, name), method) for m in (stats, own))
    x = Q if method in ("ppf", "isf") else X
    args = (*map(float, COMMON[name]), 0.2, 1.3)
    want = theirs(x, *args)
    np.testing.assert_allclose(data(ours(param(x), *args)), want, rtol=2e-12, atol=1e-15)
    assert gradcheck(ours, x[np.isfinite(want)], *args, rtol=2e-5)


@pytest.mark.parametrize("name, method", COUNT_METHODS)
def test_counts(name, method):
    ours, theirs = (getattr(getattr(m, name), method) for m in (stats, own))
    *held, last = COUNTS[name]
    for loc in (0, 0.3, -1.6, 2.0):
        want = theirs(K, *held, last, loc)
        found = data(ours(K, *held, param(last), loc=loc))
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)
    inside = K[np.isfinite(theirs(K, *held, last))]
    whole = [s for s in COUNTS[name] if isinstance(s, int)]
    free = COUNTS[name][len(whole) :]
    assert gradcheck(lambda *free: ours(inside, *whole, *free), *free, rtol=2e-5)


@pytest.mark.parametrize("name", RARE)
def test_rare(name):
    ours, theirs, args = getattr(stats, name), getattr(own, name), (*RARE[name], 0.2, 1.3)
    for method in (*methods(name), *quantiles(name)):
        x = WIDE_Q if method in quantiles(name) else WIDE
        found = data(getattr(ours, method)(param(x), *args))
        np.testing.assert_allclose(found, getattr(theirs, method)(x, *args), rtol=1e-9, atol=1e-13)
    low, high = theirs.support(*args)
    inside = WIDE[(low + 0.1 < WIDE) & (high - 0.1 > WIDE) & (np.abs(WIDE - 0.2) > 0.2)]
    inside = inside[theirs.pdf(inside, *args) > 1e-9]

    def everything(x, q, *args):
        parts = [getattr(ours, method)(x, *args) for method in methods(name) if method != "pdf"]
        return parts + [getattr(ours, method)(q, *args) for method in quantiles(name)]

    assert gradcheck(everything, inside, np.array([0.17, 0.88]), *args, rtol=2e-5)


@pytest.mark.parametrize("name", RARE_COUNTS)
def test_rare_counts(name):
    ours, theirs, shapes = getattr(stats, name), getattr(own, name), RARE_COUNTS[name]
    for method in methods(name):
        found = data(getattr(ours, method)(param(WIDE_K), *shapes))
        np.testing.assert_allclose(found, getattr(theirs, method)(WIDE_K, *shapes), 1e-9, 1e-13)
    inside = WIDE_K[(theirs.pmf(WIDE_K, *shapes) > 0) & (theirs.sf(WIDE_K, *shapes) > 0)]
    at = [i for i, s in enumerate(shapes) if isinstance(s, float)]

    def with_shapes(free):
        free = iter(free)
        return [next(free) if i in at else s for i, s in enumerate(shapes)]

    def everything(*free):
        return [getattr(ours, method)(inside, *with_shapes(free)) for method in methods(name)]

    free = [shapes[i] for i in at]
    if free:
        assert gradcheck(everything, *free, rtol=2e-5)
        ranks = ours.ppf(WIDE_Q[1:4], *with_shapes(map(param, free)))
        np.testing.assert_array_equal(ranks, theirs.ppf(WIDE_Q[1:4], *shapes))


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_that_are_arguments_of_compiled_code(name):
    ours, theirs, shapes = getattr(stats, name), getattr(own, name), DISCRETE[name]
    compiled = jit(lambda k, *shapes: [getattr(ours, m)(k, *shapes) for m in methods(name)])
    for k, more in ((2, 0), (3, 1)):
        now = [s + more if isinstance(s, int) else s for s in shapes]
        want = [getattr(theirs, method)(k, *now) for method in methods(name)]
        np.testing.assert_allclose(compiled(k, *now), want, 1e-9, 1e-13)
    assert compiled.cache_info().eager == 0


MOMENTS = {
    **{name: RARE[name] for name in RARE},
    **{name: shapes for name, shapes in RARE_COUNTS.items() if isinstance(shapes[0], float)},
    **table("""
        norm, expon, laplace, uniform, logistic, gumbel_r, gumbel_l, rayleigh, maxwell, halfnorm
        halfcauchy, gamma 1.7, chi 1.7, chi2 1.7, lognorm 1.7, weibull_min 1.7, powerlaw 1.7
        invgamma 3.7, pareto 3.7, lomax 3.7, t 3.7, weibull_max 3.7, poisson 3.7, beta 1.4 2.3
        f 3.0 7.0, skewnorm 0.8, truncnorm -0.7 1.9, bernoulli 0.3, geom 0.3, logser 0.4
        nbinom 4.2 0.4, vonmises 1.3, erlang 3.0
    """),
}


# What SciPy integrates or sums numerically.
NO_MEAN = "exponpow exponweib genextreme genpareto gompertz johnsonsb kappa3 wrapcauchy"
NO_MEAN += " halfgennorm" if VERSION < (1, 18) else ""
NO_ENTROPY = """
    alpha betaprime burr burr12 crystalball exponnorm exponpow exponweib fatiguelife foldcauchy
    foldnorm gompertz invgauss johnsonsb johnsonsu kappa3 mielke moyal norminvgauss rdist rice
    skewcauchy boltzmann skellam yulesimon zipf poisson skewnorm logser nbinom
"""
NUMERICAL_MOMENTS = {
    "mean": NO_MEAN.split(),
    "var": [n for n in NO_MEAN.split() if n != "kappa3"] + ["vonmises"],
    "entropy": NO_ENTROPY.split(),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name):
    ours, theirs = getattr(stats, name), getattr(own, name)
    args = (*MOMENTS[name], 0.2) if ours.is_discrete else (*MOMENTS[name], 0.2, 1.3)
    known = []
    for m, numerical in NUMERICAL_MOMENTS.items():
        if name not in numerical:
            known.append(m)
            continue
        with pytest.raises(UnsupportedError, match=f"{name}.{m} has no derivative rule"):
            getattr(ours, m)(*map(param, args))
    known += ["std"] if "var" in known else []
    for method in known:
        found = data(getattr(ours, method)(*map(param, args)))
        with np.errstate(all="ignore"):
            want = getattr(theirs, method)(*args)
        np.testing.assert_allclose(found, want, rtol=1e-8)
    with np.errstate(all="ignore"):
        finite = [method for method in known if np.isfinite(getattr(theirs, method)(*args))]
    if finite:
        assert gradcheck(lambda *xs: [getattr(ours, m)(*xs) for m in finite], *args, rtol=2e-5)


def test_outside_of_the_support_the_gradient_is_zero():
    x = np.array([-1.0, 0.0, 0.5, 2.0])
    value, grad = tracker.withgradient(lambda x: np.sum(stats.beta.pdf(x, 2.0, 3.0)), x)
    np.testing.assert_allclose(value, np.sum(own.beta.pdf(x, 2.0, 3.0)))
    assert grad[0][0] == 0
    assert grad[0][3] == 0
    assert gradient(lambda m: np.sum(stats.expon.pdf(x, m)), 1.5)[0] == pytest.approx(
        own.expon.pdf(2.0, 1.5)
    )


def test_quantiles_at_and_beyond_the_ends():
    q = np.array([0.0, 1.0, -0.1, 1.1, np.nan])
    for name in ("norm", "gamma", "uniform"):
        shapes = COMMON[name]
        np.testing.assert_array_equal(
            data(getattr(stats, name).ppf(param(q), *shapes, 1.0, 2.0)),
            getattr(own, name).ppf(q, *shapes, 1.0, 2.0),
        )


def test_bad_parameters_give_nan():
    for scale in (-1.0, 0.0):
        with np.errstate(all="ignore"):
            assert np.isnan(data(stats.norm.logpdf(param(0.3), 0.0, scale)))
    assert np.isnan(data(stats.gamma.pdf(param(0.3), -1.0)))


def test_keywords_and_plain_calls():
    want = own.gamma.logpdf(1.5, 2.0, loc=0.1, scale=3.0)
    assert data(stats.gamma.logpdf(param(1.5), a=2.0, scale=3.0, loc=0.1)) == pytest.approx(want)
    frozen = stats.gamma(2.0, 0.1, scale=param(3.0))
    assert data(frozen.logpdf(1.5)) == pytest.approx(want)
    ours, theirs = (m.norm.rvs(size=2, random_state=0) for m in (stats, own))
    assert ours.tolist() == theirs.tolist()
    assert stats.rv_continuous is own.rv_continuous
    assert stats.argus.pdf(0.3, 1.0) == own.argus.pdf(0.3, 1.0)
    matrices = np.eye(2), 3, np.eye(2)
    assert stats.wishart.logpdf(*matrices) == own.wishart.logpdf(*matrices)


def test_second_derivatives_and_compiled():
    x = np.array([0.3, 1.7, 2.2])

    def loss(m, s):
        return np.sum(stats.norm.logpdf(x, m, s)) + np.sum(stats.t.logpdf(x, s + 2, m, s))

    assert gradcheck(loss, 0.4, 1.3, order=2)
    compiled = jit(lambda *a: gradient(loss, *a))
    for _ in range(2):
        assert compiled(0.4, 1.3) == pytest.approx(gradient(loss, 0.4, 1.3), rel=1e-12)


@pytest.mark.parametrize("name", ["mean", "var", "std", "entropy"])
def test_moments_have_the_shape_of_all_parameters(name):
    places = np.array([0.0, 1.0, np.nan])
    want = getattr(own.gamma, name)(1.7, places)
    found = getattr(stats.gamma, name)(param(1.7), places)
    assert found.shape == want.shape
    np.testing.assert_allclose(data(found), want, rtol=1e-12)


def test_moments_that_are_not_finite():
    for name, shape in (("t", 1.5), ("t", 0.7), ("pareto", 0.9), ("invgamma", 1.5), ("lomax", 2)):
        for method in ("mean", "var"):
            found = getattr(getattr(stats, name), method)(param(float(shape)))
            assert data(found) == pytest.approx(
                getattr(getattr(own, name), method)(float(shape)), nan_ok=True
            )
    np.testing.assert_allclose(
        data(stats.truncnorm.mean(param(0.3), np.inf)), own.truncnorm.mean(0.3, np.inf)
    )
    assert np.isnan(data(stats.gamma.mean(param(-1.0))))


def test_medians_intervals_and_stats():
    g, args = stats.gamma, (2.2, 0.1, 1.4)
    np.testing.assert_allclose(data(g.median(*map(param, args))), own.gamma.median(*args))
    ends = g.interval(0.9, *map(param, args))
    np.testing.assert_allclose([data(e) for e in ends], own.gamma.interval(0.9, *args))
    np.testing.assert_allclose([data(m) for m in g.stats(param(2.2))], own.gamma.stats(2.2))
    assert data(g.stats(param(2.2), moments="v")) == own.gamma.stats(2.2, moments="v")
    assert stats.poisson.median(param(2.3)) == own.poisson.median(2.3)
    assert stats.poisson.interval(0.9, param(2.3)) == own.poisson.interval(0.9, 2.3)


def test_quantiles_that_scipy_solves_for():
    f = stats.truncnorm.ppf
    assert gradcheck(f, np.array([0.2, 0.7]), -0.7, 1.9, order=2)
    fast = jit(lambda a: gradient(lambda a: f(0.3, a, 1.9), a)[0])
    for a in (-0.7, -0.7, -1.1):
        assert fast(a) == pytest.approx(gradient(lambda a: f(0.3, a, 1.9), a)[0])


def test_random_numbers():
    draw = stats.norm.rvs(param(0.2), param(1.3), size=4, random_state=1)
    np.testing.assert_array_equal(data(draw), own.norm.rvs(0.2, 1.3, size=4, random_state=1))
    slope = gradient(lambda s: stats.gamma.rvs(2.2, scale=s, size=(), random_state=1), 1.3)[0]
    assert slope == pytest.approx(own.gamma.rvs(2.2, random_state=1))
    with pytest.warns(RuntimeWarning, match=r"norm\.rvs compiled"):
        jit(lambda s: stats.norm.rvs(scale=s, random_state=1))(1.3)


def test_frozen():
    plain, tracked = stats.norm(0.2, 1.3), stats.norm(param(0.2), 1.3)
    np.testing.assert_array_equal(plain.rvs(3, random_state=0), own.norm(0.2, 1.3).rvs(3, 0))
    np.testing.assert_array_equal(data(tracked.rvs(3, 0)), own.norm(0.2, 1.3).rvs(3, 0))
    assert plain.stats("m") == 0.2
    assert data(tracked.mean()) == plain.mean()
    assert plain.expect(lambda x: x) == pytest.approx(0.2)
    assert plain.support() == (-np.inf, np.inf)


ONE, TWO = param(1.0), param(2.0)
test_refused = refused(
    {
        TypeError: {
            "gamma needs the argument a": lambda: stats.gamma.pdf(ONE),
            "norm takes the arguments loc, scale": lambda: stats.norm.pdf(ONE, shape=2),
        },
        UnsupportedError: {
            r"scipy\.stats\.vonmises\.cdf has no deriv": lambda: stats.vonmises.cdf(ONE, 2.0),
            r"norm\.fit has no derivative rule here\. Minimise -np\.sum\(logpdf": lambda: (
                stats.norm.fit(param(np.ones(3)))
            ),
            r"scipy\.stats\.wilcoxon has no derivative": lambda: stats.wilcoxon(param(np.ones(3))),
            r"gamma\.stats\(moments='mvsk'\)": lambda: stats.gamma.stats(TWO, moments="mvsk"),
            r"scipy\.stats\.exponpow\.mean has no deriv": lambda: stats.exponpow.mean(TWO),
            r"gamma\.rvs of tracked a .*take ppf\(q\)": lambda: stats.gamma.rvs(TWO),
            r"norm\(\.\.\.\)\.expect has no .* Integrate func\(x\) \* pdf": lambda: stats.norm(
                ONE
            ).expect(lambda x: x),
            r"scipy\.stats\.argus\.pdf has no": lambda: stats.argus.pdf(ONE, 1.0),
            "_fisher.pmf has no": lambda: stats.nchypergeom_fisher.pmf(TWO, 9, 4, 5, 1.0),
            r"matrix_normal\.logpdf has no": lambda: stats.matrix_normal.logpdf(param(np.eye(2))),
            r"zipf\.cdf has no": lambda: stats.zipf.cdf(TWO, 3.0),
        },
    }
)
NUMBERS = {
    "np.float64": np.float64,
    "float": float,
    "single precision": np.float32,
    "no axes": np.array,
    "single, one": lambda v: np.array([v], np.float32),
}


DENSITIES = "pdf", "logpdf", "cdf", "sf", "logcdf", "ppf", "isf"
TYPED = {
    "norm": ((0.4,), DENSITIES),
    "gamma": ((0.4, 2.0), DENSITIES),
    "cauchy": ((0.4,), DENSITIES),
    "bernoulli": ((1.0, 0.3), ("pmf", "logpmf", "cdf", "sf")),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", TYPED)
def test_types_of_results(name, kind):
    """In double precision, and a number where there are no axes."""
    args, names = TYPED[name]
    args = list(map(NUMBERS[kind], args))
    for method in names:
        f, want = getattr(getattr(stats, name), method), getattr(getattr(own, name), method)(*args)
        for found in (pullback(f, *args)[0], jit(f)(*args)):
            assert (type(found), found.dtype) == (type(want), want.dtype), method
            np.testing.assert_allclose(found, want, rtol=1e-6, err_msg=method)


def _skew_tail(h, a):
    """The skew normal's distribution at -h, for positive a, by a sum over the scaled density."""
    s = np.linspace(0.0, 40.0, 400_001) / (h + a * max(1.0, a * h))
    logs = own.norm.logpdf(h + s) + own.norm.logcdf(-a * (h + s))
    return np.log(2 * np.trapezoid(np.exp(logs - logs[0]), s)) + logs[0]


@pytest.mark.parametrize("a", [0.5, 2.0, 10.0, 300.0])
def test_the_tails_of_a_skew_normal(a):
    h = np.array([0.3, 1.01, 2.0, 4.5, 7.0, 20.0])
    with np.errstate(divide="ignore"):
        want = np.array([_skew_tail(x, a) for x in h])
        below = lambda x: stats.skewnorm.logcdf(x, a)  # noqa: E731
        above = lambda x: stats.skewnorm.logsf(x, -a)  # noqa: E731
        for f in (below, lambda x: above(-x)):
            for g in (lambda x, f=f: pullback(f, x)[0], jit(f)):
                np.testing.assert_allclose(g(-h), want, rtol=1e-8)
        log_density = own.skewnorm.logpdf(-h, a)
        (slopes,) = gradient(lambda x: np.sum(below(x)), -h)
        np.testing.assert_allclose(slopes, np.exp(log_density - want), rtol=1e-7)
        cdf, back = pullback(lambda x: stats.skewnorm.cdf(x, a), -h)
        np.testing.assert_allclose(cdf, np.exp(want), rtol=1e-6)
        np.testing.assert_allclose(back(np.ones(6))[0], np.exp(log_density), rtol=1e-6)
        far = pullback(lambda x: stats.skewnorm.logsf(x, a), 8 + h)[0]
        np.testing.assert_allclose(far, own.skewnorm.logsf(8 + h, a), rtol=1e-12)


def test_the_curvature_of_a_generalised_normal_in_its_middle():
    for shape, want in ((2.0, -2.0), (3.0, 0.0), (2.5, 0.0)):
        for f in (stats.gennorm.logpdf, jit(stats.gennorm.logpdf)):
            assert hessian(lambda x, f=f, b=shape: f(x, b), 0.0) == want
            assert gradient(f, 0.0, shape)[0] == 0.0
