"""`tracker.special`: values and derivatives against mpmath, where plain formulas fail."""

import math

import fresh_python
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

import tracker
from tracker import data, gradient, jit, param, special
from tracker.testing import gradcheck

POINTS = {
    "sinpi": (lambda x: mp.sinpi(x), [-2.0, 0.3, 1.0, 7.25, 1e6 + 0.5]),
    "cospi": (lambda x: mp.cospi(x), [-2.0, 0.3, 1.0, 7.75, 1e6 + 0.5]),
    "sind": (lambda x: mp.sin(x * mp.pi / 180), [30.0, 90.0, 180.0, -361.0]),
    "cosd": (lambda x: mp.cos(x * mp.pi / 180), [60.0, 90.0, 180.0, 3600.5]),
    "tand": (lambda x: mp.tan(x * mp.pi / 180), [45.0, 180.0, -30.0]),
    "sech": (mp.sech, [0.0, 0.4, -30.0, 700.0]),
    "csch": (mp.csch, [1e-5, 0.4, -30.0, 700.0]),
    "coth": (mp.coth, [1e-5, 0.4, -3.0]),
    "acot": (mp.acot, [0.4, -3.0, 1e10]),
    "asech": (mp.asech, [0.4, 0.9]),
    "xlogx": (lambda x: x * mp.log(x), [0.3, 20.0]),
    "log1psq": (lambda x: mp.log1p(x * x), [0.0, 1e-8, 3.0, 1e12, 1e200]),
    "log1pexp": (lambda x: mp.log1p(mp.exp(x)), [-700.0, -1.0, 3.0, 800.0]),
    "log1mexp": (lambda x: mp.log1p(-mp.exp(x)), [-1e-10, -0.6, -0.8, -50.0]),
    "log2mexp": (lambda x: mp.log(2 - mp.exp(x)), [-40.0, -1e-10, 0.5]),
    "logexpm1": (lambda x: mp.log(mp.expm1(x)), [1e-10, 0.6, 40.0, 800.0]),
    "log1pmx": (lambda x: mp.log1p(x) - x, [1e-10, -1e-5, 0.3, 0.49, 0.51, 9.0, -0.7]),
    "logmxp1": (lambda x: mp.log(x) - x + 1, [1.0001, 0.8, 9.0]),
    "trigamma": (lambda x: mp.psi(1, x), [0.1, 1.0, 30.0]),
    "logerfc": (lambda x: mp.log(mp.erfc(x)), [-3.0, 0.5, 20.0, 1e4]),
    "logerfcx": (lambda x: x * x + mp.log(mp.erfc(x)), [-20.0, -1.0, 0.5, 20.0]),
}
CASES = [(name, x) for name, (_, xs) in POINTS.items() for x in xs]


@pytest.mark.parametrize("name, x", CASES)
def test_value_and_derivative(name, x):
    exact = POINTS[name][0]
    f = getattr(special, name)
    value, (slope,) = tracker.withgradient(f, x)
    with mp.workdps(60):
        assert value == pytest.approx(float(exact(mp.mpf(x))), rel=2e-14, abs=1e-15)
        want = float(mp.diff(exact, x))
        assert slope == pytest.approx(want, rel=2e-12, abs=1e-14)
    both = jit(lambda x: gradient(f, x))
    for _ in range(2):
        assert both(x)[0] == pytest.approx(slope, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("name", POINTS)
def test_second_derivative(name):
    f = getattr(special, name)
    x = {"asech": 0.6, "log1mexp": -0.5, "log2mexp": -0.5, "sind": 33.0}.get(name, 0.6)
    assert gradcheck(f, np.array([x, x * 1.1]), order=2)


def test_even_functions_have_a_second_derivative_at_zero():
    assert tracker.hessian(special.sech, 0.0) == pytest.approx(-1.0)
    assert gradient(special.acot, 0.0) == (-1.0,)
    assert gradient(special.xlogx, 0.0, check_finite=False) == (-math.inf,)


def test_inverse_of_digamma():
    for y in (-50.0, -2.3, -1.0, 0.5, 20.0):
        x = special.invdigamma(y)
        assert sc.digamma(x) == pytest.approx(y, rel=1e-12)
        assert gradient(special.invdigamma, y)[0] == pytest.approx(1 / special.trigamma(x))


def test_differences_that_keep_their_digits():
    for x, y in [(0.2, 0.9), (6.0, 6.5), (-7.0, -6.5), (-1.0, 3.0)]:
        with mp.workdps(50):
            want = float(mp.erf(y) - mp.erf(x))
        assert special.erf_between(x, y) == pytest.approx(want, rel=1e-13)
        want = (
            -2 / math.sqrt(math.pi) * math.exp(-x * x),
            2 / math.sqrt(math.pi) * math.exp(-y * y),
        )
        assert gradient(special.erf_between, x, y) == pytest.approx(want)
    for x, y in [(1.0, 1.0 + 1e-9), (500.0, -500.0), (-800.0, -801.0)]:
        with mp.workdps(50):
            want = float(mp.log(abs(mp.exp(mp.mpf(x)) - mp.exp(mp.mpf(y)))))
        assert special.logsubexp(x, y) == pytest.approx(want, rel=1e-13)
        a, b = gradient(special.logsubexp, x, y)
        assert a + b == pytest.approx(1.0, rel=1e-6)


def test_pairs_and_parts():
    assert data(special.sincospi(param(0.5))[0]) == 1.0
    value, sign = special.logabsgamma(param(-0.5))
    assert (data(value), data(sign)) == (sc.gammaln(-0.5), -1.0)
    assert special.abs2(3 + 4j) == 25.0
    assert special.besselh(1, 1, 2.0) == sc.hankel1(1, 2.0)


def test_scipy_is_needed_only_for_what_is_made_of_it():
    code = (
        "import sys; sys.modules['scipy'] = None; import tracker;"
        "print(tracker.special.sinpi(0.5), hasattr(tracker.special, 'nothing'))\n"
        "for name in ('special.airyai', 'scipy.stats'):\n"
        "    try: exec(f'tracker.{name}')\n"
        "    except ImportError as e: print(e)"
    )
    out = fresh_python.run(code)
    fix = "pip install 'tracker-grad[scipy]'"
    text = f"tracker.scipy needs SciPy, which is not installed. Type: {fix}"
    assert out.stdout.splitlines() == ["1.0 False", text, text]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", ["sinpi", "cospi"])
def test_turns_of_complex_numbers(name, dtype):
    f, exact = getattr(special, name), getattr(mp, name)
    z = np.array([0.3 + 0.2j, 1.0 - 0.5j, -2.5 + 1j, 1e5 + 0.25j], dtype)
    want = np.array([complex(exact(mp.mpc(x))) for x in z.astype(np.complex128)])
    for made in (f(z), jit(f)(z), data(f(param(z)))):
        assert made.dtype == dtype
        np.testing.assert_allclose(made, want, rtol=1e-14 if dtype == np.complex128 else 1e-6)
    if dtype == np.complex128:
        assert gradcheck(lambda z: np.sum(np.real(f(z)) * np.imag(f(z))), z[:3])
