"""Rows of SciPy's ufuncs, and their derivatives against mpmath over the range."""

import math

import fresh_python
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
from compiled import agree
from op_rows import row, sample
from special_points import ACCURACY, DOMAINS, QUADRATURES, SAMPLES

from tracker import ConversionError, UnsupportedError, data, gradient, hessian, jit, jvp, param
from tracker.ir.graph import Var
from tracker.ir.lowering import Map
from tracker.ir.op import NUMPY, UFUNCS
from tracker.ir.types import Type
from tracker.ops.special import table
from tracker.testing import gradcheck

ROWS = [
    *(
        row(name, domain=intervals, complex=kind == "c")
        for name, (kind, *intervals) in DOMAINS.items()
    ),
    *(row(name, *(sample(*xs) for xs in all_)) for name, all_ in SAMPLES.items()),
    row(
        "lent",
        sample(np.linspace(0.1, 0.9, 5), ufunc=sc.spence, at=0, core=None),
        sample(np.array([0.5]), np.linspace(0.1, 0.9, 5), ufunc=sc.gammainc, at=0, core=None),
        sample(np.linspace(0.1, 0.9, 5), ufunc=sc.airy, at=2, core=None),
    ),
]


def test_every_ufunc_of_scipy_has_an_entry():
    public = [getattr(sc, name) for name in dir(sc)]
    missing = [
        f.__name__ for f in public if isinstance(f, np.ufunc) and f not in UFUNCS and f not in NUMPY
    ]
    assert sorted(missing) == []


def test_nothing_else_imports_scipy():
    code = (
        "import sys, tracker, numpy as np; tracker.gradient(np.tanh, 1.0);"
        "assert 'tracker.ops.special' not in sys.modules and 'scipy' not in sys.modules;"
        "from scipy.special import erf; from tracker.ir.op import OPS; assert 'erf' not in OPS;"
        "print(tracker.gradient(erf, 0.0)[0] == 2 / np.sqrt(np.pi), 'erf' in OPS)"
    )
    out = fresh_python.run(code)
    assert out.stdout.strip() == "True True"


CASES = [
    pytest.param(name, mpf, point, rtol, id=f"{name}{point}")
    for name, (mpf, rtol, *points) in ACCURACY.items()
    for point in points
]


@pytest.mark.parametrize("name, mpf, point, rtol", CASES)
def test_derivatives_over_the_range(name, mpf, point, rtol):
    """Every derivative in a float argument, against 50 digits."""
    point = point if isinstance(point, tuple) else (point,)
    floats = [i for i, x in enumerate(point) if not isinstance(x, int)]
    found = gradient(lambda *xs: table_function(name)(*xs), *point, check_finite=False)
    with mp.workdps(50):
        for i in floats:
            orders = tuple(int(i == j) for j in range(len(point)))
            want = float(mp.diff(mpf, tuple(map(mp.mpf, point)), orders))
            assert found[i] == pytest.approx(want, rel=rtol, abs=1e-300), i


@pytest.mark.parametrize("name, point, at, want", QUADRATURES)
def test_derivative_by_quadrature(name, point, at, want):
    assert gradient(getattr(sc, name), *point)[at] == pytest.approx(want, rel=1e-11)


def test_a_parameter_of_many_elements_compiled():
    """An array of orders: the interpolation points are an additional axis."""
    v = np.linspace(0.3, 4.0, 200).reshape(20, 10)

    def slopes(v, x):
        return gradient(lambda v: np.sum(sc.jv(v, x) * sc.hyp1f1(v, v + 1, 0.3)), v)[0]

    agree(slopes, v, 2.0, tolerance=1e-13)
    for order in (2, 2.0):  # a whole number is an order as any other
        assert gradient(sc.jv, order, 3.0)[0] == pytest.approx(
            float(mp.diff(mp.besselj, (2, 3), (1, 0)))
        )


def table_function(name):
    return getattr(sc, name, None) or table.ufunc_named(name)


def is_ours(op):
    """Whether an array is computed by a scalar body of ours."""
    if not isinstance(op.lower, Map) or op.lower.requires is None:
        return isinstance(op.lower, Map)
    loop = next((t for t in op.numpy[0].types if "d" in t and "D" not in t), None)
    if loop is None:
        return False
    many = [Var(Type((200,), np.dtype(letter))) for letter in loop.partition("->")[0]]
    return op.lower.requires(lambda *_, **__: "SciPy's own loop", *many) is None


COMPILED = [op for op in (row.op for row in ROWS) if op.numpy and is_ours(op)]


@pytest.mark.parametrize("op", COMPILED, ids=lambda op: op.name)
def test_compiled_ufuncs_equal_scipy(op):
    ufunc = op.numpy[0]
    rng = np.random.default_rng(0)
    points = [np.concatenate([rng.normal(size=60), 30 * rng.normal(size=60)])] * ufunc.nin
    points = [rng.permutation(p) for p in points]

    special = np.array([0.0, 1.0, 0.5, 2.0, np.inf, -np.inf, np.nan])
    edges = np.meshgrid(*[special] * ufunc.nin)
    arrays = [np.concatenate([p, e.ravel()]) for p, e in zip(points, edges, strict=True)]
    f = jit(lambda *xs: ufunc(*xs), strict=True)
    with np.errstate(all="ignore"):
        want = ufunc(*arrays)
        for _ in range(2):
            np.testing.assert_allclose(f(*arrays), want, rtol=2e-13, atol=1e-15)


def test_black_scholes_runs_natively():
    def f(S, K, T, r, s):
        sT = s * np.sqrt(T)
        d1 = (np.log(S / K) + (r + 0.5 * s**2) * T) / sT
        d2 = d1 - sT
        N1, N2 = (0.5 * (1.0 + sc.erf(d * 0.7071067811865476)) for d in (d1, d2))
        return np.sum(S * N1 - K * np.exp(-r * T) * N2)

    rng = np.random.default_rng(0)
    args = [
        rng.uniform(low, high, 50)
        for low, high in [(80, 120), (80, 120), (0.1, 2), (0.0, 0.05), (0.1, 0.5)]
    ]
    agree(lambda *xs: gradient(f, *xs), *args, tolerance=1e-13, strict=True)


# Singular points (docs/explanation/conventions.md)


@pytest.mark.parametrize("f, x, want", [
    (lambda x: sc.xlogy(x, 0.0), 0.0, -math.inf),
    (lambda y: sc.xlogy(0.0, y), 0.0, 0.0),
    (lambda y: sc.xlog1py(0.0, y), -1.0, 0.0),
    (lambda x: sc.rgamma(x), -2.0, 2.0),
    (lambda x: sc.rgamma(x), 0.0, 1.0),
    (lambda y: sc.rel_entr(0.0, y), 0.0, 0.0),
    (lambda y: sc.kl_div(0.0, y), 3.0, 1.0),
    (lambda x: sc.gammasgn(x), 0.5, 0.0),
    (lambda x: sc.huber(1.0, x), 1.0, 1.0),
    (lambda d: sc.pseudo_huber(d, 2.0), 0.0, 2.0),
    (lambda x: sc.exprel(x), 0.0, 0.5),
    (lambda p: sc.boxcox(3.0, p), 0.0, 0.5 * math.log(3.0) ** 2),
    (lambda n: sc.binom(n, 5.0), 3.0, -0.05),
    (lambda x: sc.i0e(x), 0.0, 0.0),
    (lambda x: sc.gammainc(2.0, x), 0.0, 0.0),
    (lambda x: sc.gammainc(1.0, x), 0.0, 1.0),
    (lambda x: sc.gammainc(0.5, x), 0.0, math.inf),
    (lambda x: sc.gammainc(2.0, x), math.inf, 0.0),
    (lambda x: sc.betainc(2.0, 3.0, x), 1.0, 0.0),
    (lambda n: sc.stdtr(n, 0.0), 3.0, 0.0),
])  # fmt: skip
def test_singular_point(f, x, want):
    assert gradient(f, x, check_finite=False)[0] == pytest.approx(want, rel=1e-14)


def test_a_pole_gives_nan_as_the_function_does():
    assert math.isnan(gradient(sc.gamma, -1.0, check_finite=False)[0])


def test_masked_pole_contributes_nothing():
    (g,) = gradient(lambda x: np.sum(np.where(x > 0, sc.gammaln(x), 0.0)), np.array([0.0, 2.0]))
    assert g.tolist() == [0.0, sc.psi(2.0)]


# What ufuncs take and give


def test_keywords_and_methods():
    x = np.array([0.5, 1.5])
    t = param(x)
    target = np.zeros_like(t)
    assert sc.erf(t, out=target) is target
    np.testing.assert_allclose(data(target), sc.erf(x))
    np.testing.assert_allclose(data(sc.xlogy.outer(t, x)), sc.xlogy.outer(x, x))
    np.testing.assert_allclose(data(sc.xlogy.reduce(t)), sc.xlogy.reduce(x))


def test_complex_arguments():
    z = 0.7 + 0.4j
    for f in (sc.gamma, sc.loggamma, sc.psi, sc.erf, sc.wofz, sc.dawsn, sc.log_ndtr):
        _, slope = jvp(f, (z,), (1.0 + 0j,))
        h = 1e-5
        want = (8 * (f(z + h) - f(z - h)) - (f(z + 2 * h) - f(z - 2 * h))) / (12 * h)
        assert slope == pytest.approx(want, rel=1e-9), f
    assert hessian(lambda x: np.real(sc.loggamma(x + 1j)), 0.8) == pytest.approx(
        sum(((0.8 + k + 1j) ** -2).real for k in range(200000)), rel=1e-4
    )


SLOPES = {
    "smirnov": (lambda d: sc.smirnov(5, d), 0.3),
    "smirnovi": (lambda p: sc.smirnovi(5, p), 0.3),
    "mathieu_a": (lambda q: sc.mathieu_a(2, q), 1.5),
    "mathieu_b": (lambda q: sc.mathieu_b(3, q), 1.5),
    **{
        f"{family}_{kind}_cv": (
            lambda x, f=f"{family}_{kind}_cv", cv=cv: getattr(sc, f)(0, 1, 2, cv, x)[0],
            at,
        )
        for family, cv in (("pro", sc.pro_cv(0, 1, 2)), ("obl", sc.obl_cv(0, 1, 2)))
        for kind, at in (("ang1", 0.4), ("rad1", 1.4), ("rad2", 1.4))
    },
}


@pytest.mark.parametrize("name", SLOPES)
def test_first_derivative_against_differences(name):
    """Functions whose second derivative is not known, or whose operands are all floats."""
    f, x = SLOPES[name]
    assert gradcheck(f, x, rtol=1e-5)


def test_integrals_of_airy_functions():
    """SciPy's integrals have 8 digits; their derivatives are Airy functions with all digits."""
    want = [mp.airyai(0.7), mp.airybi(0.7), mp.airyai(-0.7), mp.airybi(-0.7)]
    for i in range(4):
        (found,) = gradient(lambda x, i=i: sc.itairy(x)[i], 0.7)
        assert found == pytest.approx(float(want[i]), rel=1e-14)


@pytest.mark.parametrize("inverse, forward, at, args", [
    ("ncfdtrinc", "ncfdtr", 2, (3.0, 5.0, 0.3, 1.1)), ("nctdtrinc", "nctdtr", 1, (3.0, 0.3, 1.1)),
    ("chndtrinc", "chndtr", 2, (1.5, 3.0, 0.2)), ("ncfdtridfd", "ncfdtr", 1, (3.0, 0.3, 0.7, 1.1)),
    ("ncfdtridfn", "ncfdtr", 0, (0.5, 5.0, 0.7, 1.1)), ("nctdtridf", "nctdtr", 0, (0.57, 0.7, 1.1)),
    ("chndtridf", "chndtr", 1, (1.5, 0.2, 0.7)),
])  # fmt: skip
def test_inverses_that_scipy_finds_by_search(inverse, forward, at, args):
    """Where F(.., y, ..) = p: dy/dp is one over dF/dy."""
    y = getattr(sc, inverse)(*args)
    own = jvp(lambda p: getattr(sc, inverse)(*args[:at], p, *args[at + 1 :]), (args[at],), (1.0,))
    back = jvp(lambda v: getattr(sc, forward)(*args[:at], v, *args[at + 1 :]), (y,), (1.0,))
    assert own[1] * back[1] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name, args", [("pdtr", (2.0, 1.4)), ("hyperu", (1.0, 2.0, 0.3))])
def test_an_argument_without_a_derivative_refuses_by_name(name, args):
    f = getattr(sc, name)
    with pytest.raises(UnsupportedError, match=rf"{name} has no derivative in its argument"):
        gradient(f, *args)
    with pytest.raises(UnsupportedError, match=r"Keep . plain, with tracker.data\(.\)"):
        jvp(f, args, (1.0,) * len(args))
    (g,) = gradient(lambda x: f(*args[:-1], x), args[-1])
    assert gradient(f, *map(int, args[:-1]), args[-1])[:-1] == (None,) * (len(args) - 1)
    assert jit(f)(*args) == f(*args)
    assert math.isfinite(g)


def test_lambert_w():
    for z, k in ((0.7, 0), (0.0, 0), (-0.2, -1), (0.3 + 1j, 1)):
        _, slope = jvp(lambda z, k=k: sc.lambertw(z, k), (z,), (1.0,))
        want = mp.diff(lambda v, k=k: mp.lambertw(v, k), z)
        assert slope == pytest.approx(complex(want), rel=1e-12)


def test_scaled_functions_refuse_complex_arguments():
    with pytest.raises(UnsupportedError, match="jve has no derivative rule for complex arguments"):
        gradient(lambda z: np.abs(sc.jve(0, z)), 1 + 1j)


def test_a_function_that_converts_is_refused_in_the_users_line():
    with pytest.raises(ConversionError, match=r"tracker\.scipy.*test_special_ufuncs\.py:\d+"):
        sc.logsumexp(param([1.0, 2.0]))


@pytest.mark.parametrize("name, args", [
    ("xlogy", (0.0, 0.5)), ("xlog1py", (0.0, 2.0)), ("rgamma", (-2.0,)), ("rgamma", (0.0,)),
    ("rgamma", (0.3,)), ("binom", (-0.5, -2.0)), ("binom", (2.0, 3.0)), ("binom", (0.5, 1.5)),
    ("poch", (-2.0, 0.5)), ("stdtr", (3.0, 0.0)), ("stdtrit", (2.0, 0.5)), ("agm", (-2.0, -0.7)),
    ("tklmbda", (-2.0, 3.0)), ("pdtrik", (0.5, 0.5)),
])  # fmt: skip
def test_second_derivatives_where_a_factor_is_zero(name, args):
    assert gradcheck(getattr(sc, name), *args, order=2)


def test_mixed_derivatives_of_entropies_at_zero():
    for f in (sc.rel_entr, sc.kl_div):  # infinite in x; -x / y in y, up to a constant
        slope = gradient(lambda x, f=f: gradient(f, x, 0.5)[1], 0.0)[0]
        assert slope == -2.0
