"""`tracker.scipy.special`: SciPy's numbers, and derivatives to second order."""

import math

import numpy as np
import pytest
import scipy.special as own
from scipy_cases import VERSION
from tables import refused

import tracker
from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import special
from tracker.testing import gradcheck

A = np.array([[0.3, -1.0, 2.0], [1.0, 1.0, -0.5]])
B = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, 1.0]])
P = np.abs(A)

CASES = {
    "logsumexp": (special.logsumexp, A),
    "logsumexp axis": (lambda a: special.logsumexp(a, axis=1, keepdims=True), A),
    "logsumexp axes": (lambda a: special.logsumexp(a, axis=(0, 1)), A),
    "logsumexp weights": (lambda a: special.logsumexp(a, axis=0, b=np.abs(B)), A),
    "logsumexp in b": (lambda b: special.logsumexp(A, b=b), np.abs(B) + 0.1),
    "logsumexp sign": (lambda a: special.logsumexp(a, 1, B, return_sign=True)[0], A),
    "logsumexp complex": (lambda a: special.logsumexp(a + 1j * A), A),
    "softmax": (lambda a: special.softmax(a, axis=1), A),
    "log_softmax": (lambda a: special.log_softmax(a, axis=0), A),
    "polygamma": (lambda a: special.polygamma(2, a) + special.polygamma([0, 1, 3], a), P),
    "multigammaln": (lambda a: special.multigammaln(a, 3), P + 2),
    "comb": (lambda n: special.comb(n, 1.3) + special.comb(n, 2.0, repetition=True), P + 2.1),
    "factorial": (special.factorial, P),
    "perm": (lambda n: special.perm(n, 1.3), P + 2),
    "diric": (lambda a: special.diric(a, 5), A),
    "softplus": (special.softplus, A),
    "sinc": (special.sinc, A),
    "spherical_jn": (lambda a: special.spherical_jn(2, a) * special.spherical_jn(1, a, True), A),
    "spherical_yn": (lambda a: special.spherical_yn(2, a) + special.spherical_yn(1, a, True), A),
    "spherical_in": (lambda a: special.spherical_in(2, a), A),
    "spherical_kn": (lambda a: special.spherical_kn(2, a), A),
    "jvp, kvp": (lambda a: special.jvp(1, a, 2) + special.kvp(1, a, 1), P),
    "a ufunc": (lambda a: special.erf(a) + special.zeta(a + 2, 1.5), P),
}


@pytest.mark.parametrize("name", CASES)
def test_value_derivatives_and_compiled(name):
    f, x = CASES[name]
    want = f(x)
    np.testing.assert_allclose(data(f(param(x))), want, rtol=1e-13)
    assert gradcheck(f, x, order=2)
    compiled = jit(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), want, rtol=1e-12)


@pytest.mark.parametrize("x, want", [
    ([0.0, -np.inf], [1.0, 0.0]), ([-np.inf, -np.inf], [0.0, 0.0]), ([1000.0, 1000.0], [0.5, 0.5]),
    ([-1000.0, -1000.0, -np.inf], [0.5, 0.5, 0.0]), ([0.0, -50.0], [1.0, math.exp(-50)]),
])  # fmt: skip
def test_logsumexp_at_the_edges(x, want):
    value, (g,) = tracker.withgradient(special.logsumexp, np.array(x), check_finite=False)
    assert value == pytest.approx(own.logsumexp(x), rel=1e-15)
    np.testing.assert_allclose(g, want, rtol=1e-15)
    if np.any(np.isfinite(x)):
        (g,) = gradient(lambda a: np.sum(special.softmax(a)[:1]), np.array(x))
        assert np.all(np.isfinite(g))


def test_logsumexp_of_masked_and_signed():
    (g,) = gradient(lambda a: special.logsumexp(a, b=[1.0, 0.0]), np.array([1.0, np.inf]))
    assert g.tolist() == [1.0, 0.0]
    value, sign = special.logsumexp(param([1.0, 2.0]), b=[1.0, -1.0], return_sign=True)
    want = own.logsumexp([1.0, 2.0], b=[1.0, -1.0], return_sign=True)
    assert (data(value), data(sign)) == pytest.approx(want)
    assert np.isnan(data(special.logsumexp(param([1.0, 2.0]), b=[1.0, -1.0])))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_spherical_bessel_functions_are_smooth_at_zero(n):
    for f in (special.spherical_jn, special.spherical_in):
        assert gradcheck(lambda z, f=f: f(n, z), 0.0, order=2)
    assert gradcheck(lambda x: special.diric(x, n + 2), 2 * np.pi, order=2)


@pytest.mark.parametrize("repetition", [False, True])
def test_binomials_at_the_edges(repetition):
    old = repetition and VERSION < (1, 17)  # it takes fewer than one thing for none
    n, k = np.meshgrid(
        [2.5, 5.0] if old else [-2.0, -1.0, 0.0, 1.0, 2.5, 5.0],
        [-1.0, 0.0, 1.0, 2.0, 5.0, 6.0, 0.5],
    )
    want = own.comb(n, k, repetition=repetition)
    got = data(special.comb(param(n), k, repetition=repetition))
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("name, args, kwargs", [
    ("comb", ([10, 10], [3, 4]), {}), ("comb", (10, 3), {}),
    ("comb", (np.array([10.0], "f"), 3), {}), ("perm", ([10, 10], [3, 4]), {}),
    ("perm", (10, 3.5), {}), ("factorial", ([3, -4],), {}), ("factorial", (-1.1,), {}),
    ("factorial", (-1.1,), {"extend": "complex"}), ("factorial", (np.array([2.5], "f"),), {}),
    ("factorial", ([-1.0, -2.0, 2.5],), {"extend": "complex"}),
    ("factorial", (0.5 + 1j,), {"extend": "complex"}), ("logsumexp", (np.zeros(0),), {}),
    ("logsumexp", (np.zeros((0, 2), "f"), 0), {}),
])  # fmt: skip
def test_as_scipy(name, args, kwargs):
    want = getattr(own, name)(*args, **kwargs)
    got = jit(lambda *args: getattr(special, name)(*args, **kwargs))(*args)
    assert (type(got), np.result_type(got)) == (type(want), np.result_type(want))
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_lists_of_tracked_values():
    assert gradient(lambda x: special.logsumexp([x, 2 * x]), 0.0) == (1.5,)


def test_plain_calls_are_scipys():
    assert special.logsumexp([0.0, 1.0]) == own.logsumexp([0.0, 1.0])
    assert special.erf is own.erf
    assert set(special.__all__) >= {"erf", "logsumexp", "roots_legendre"}


@pytest.mark.parametrize("name", ["jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp"])
def test_functions_that_end_in_ufuncs(name):
    f = getattr(own, name)
    np.testing.assert_allclose(data(f(1, param(P), 1)), f(1, P, 1))
    assert gradcheck(lambda x: np.real(f(1, x, 1)), P)


N, ORDERS = np.array([[1], [3], [4]]), np.array([[-1], [0], [4]])


@pytest.mark.parametrize("diff_n", [0, 1, 2])
def test_legendre_functions_and_their_derivatives(diff_n):
    for name, args in (("legendre_p", (N,)), ("sph_legendre_p", (N, ORDERS))):
        ours, theirs = (getattr(s, name) for s in (special, own))
        found = ours(*args, param(P[P > 0]), diff_n=diff_n)
        np.testing.assert_allclose(data(found), theirs(*args, P[P > 0], diff_n=diff_n), atol=1e-12)
        x = np.array([0.2, 0.9, 1.4])  # SciPy's own slopes of negative orders are wrong at 0
        assert gradcheck(lambda x, f=ours, a=args: f(*a, x, diff_n=diff_n), x, order=2)
    assert type(data(special.sph_legendre_p(2, 1, param(0.3)))) is np.ndarray


@pytest.mark.parametrize("theta", [-2.5, -0.4, 3.5, 5.0, 9.0])
def test_legendre_functions_of_angles_on_the_other_side(theta):
    """SciPy's functions are even in the angle; degrees may be small integers."""
    n, m = np.array([1, 3, 12], np.int8), np.array([1, -2, -10], np.int8)
    want = own.sph_legendre_p(n, m, theta, diff_n=2)
    found = special.sph_legendre_p(n, m, param(theta), diff_n=2)
    np.testing.assert_allclose(data(found), want, rtol=1e-9, atol=1e-12)
    assert gradcheck(lambda t: np.real(special.sph_harm_y(n, m, t, 0.4)), theta, order=2)


def test_spherical_harmonics():
    theta, phi = np.array([0.3, 1.2, 2.9]), np.array([-2.0, 0.4, 1.7])
    found = special.sph_harm_y(N, ORDERS, param(theta), phi)
    np.testing.assert_allclose(data(found), own.sph_harm_y(N, ORDERS, theta, phi), atol=1e-14)
    assert gradcheck(lambda t, p: special.sph_harm_y(N, ORDERS, t, p), theta, phi, order=2)
    y = tracker.jit(lambda t: special.sph_harm_y(2, 1, t, 0.4))(0.3)
    assert y == pytest.approx(own.sph_harm_y(2, 1, 0.3, 0.4))


m, FIVE, ANGLE = special, param(5.0), param(0.3)
test_refused = refused(
    {
        ValueError: {
            "extend='complex'": lambda: m.factorial(param(1j)),
            "'zero' or 'complex', not 'one'": lambda: m.factorial(FIVE, extend="one"),
            "d should be a positive integer": lambda: m.multigammaln(FIVE, 2.5),
            "condition a": lambda: m.multigammaln(param(0.5), 3),
        },
        UnsupportedError: {
            "comb with exact=True is a function of whole": lambda: m.comb(FIVE, 2, exact=True),
            r"assoc_legendre_p has no.*lpmv\(m, n, z\)": lambda: m.assoc_legendre_p(2, 1, ANGLE),
            "sph_harm_y with diff_n=1 .*and differentiate": lambda: m.sph_harm_y(
                2, 1, ANGLE, 0.1, diff_n=1
            ),
        },
    }
)


@pytest.mark.parametrize(
    "name",
    [f"eval_{kind}" for kind in ("chebyt", "chebyu", "chebyc", "chebys", "legendre")]
    + [f"eval_sh_{kind}" for kind in ("chebyt", "chebyu", "legendre")],
)
def test_polynomials_of_every_whole_degree(name):
    """Also at the ends of where they are orthogonal, and of negative degrees."""
    polynomial = getattr(own, name)
    degrees = np.arange(-4, 4)[:, None]
    x = np.array([-3.2, -1.0, -0.3, 0.0, 0.4, 1.0, 2.5])
    step = 1e-6
    slopes = (polynomial(degrees, x + step) - polynomial(degrees, x - step)) / (2 * step)
    seed = np.cos(np.arange(56.0)).reshape(8, 7)
    for given, first in ((degrees, 0), (degrees[4:] + 0.0, 4)):  # SciPy's are NaN of -1.0
        found = gradient(lambda x, n=given, s=seed[first:]: np.sum(s * polynomial(n, x)), x)[0]
        wanted = np.sum((seed * slopes)[first:], axis=0)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert gradcheck(lambda x: polynomial(degrees, x), x[[0, 2, 6]], order=2)
