"""Smooth functions that are computed piecewise: their derivatives where the pieces meet."""

from functools import partial

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as own
from numpy.polynomial import Chebyshev

from tracker import gradient, jit, jvp
from tracker.scipy import stats

# Functions of our module or SciPy's, and where the pieces meet.
CASES = {
    "logistic.logpdf": (lambda m, x: m.logistic.logpdf(x), 0.0),
    "logistic.pdf": (lambda m, x: m.logistic.pdf(x), 0.0),
    "logistic.logcdf": (lambda m, x: m.logistic.logcdf(x), 0.0),
    "hypsecant.logpdf": (lambda m, x: m.hypsecant.logpdf(x), 0.0),
    "genextreme.logpdf, shape": (lambda m, c: m.genextreme.logpdf(0.4, c), 0.0),
    "genextreme.cdf, shape": (lambda m, c: m.genextreme.cdf(0.4, c), 0.0),
    "genextreme.ppf, shape": (lambda m, c: m.genextreme.ppf(0.4, c), 0.0),
    "genextreme.logpdf": (lambda m, x: m.genextreme.logpdf(x, 0.2), 0.5),  # a series ends
    "genpareto.logpdf, shape": (lambda m, c: m.genpareto.logpdf(0.4, c), 0.0),
    "genpareto.logsf, shape": (lambda m, c: m.genpareto.logsf(0.4, c), 0.0),
    "genpareto.ppf, shape": (lambda m, c: m.genpareto.ppf(0.4, c), 0.0),
    "rice.logpdf, shape": (lambda m, b: m.rice.logpdf(0.7, b), 0.0),
    "vonmises.logpdf, shape": (lambda m, k: m.vonmises.logpdf(0.7, k), 0.0),
    "vonmises.logpdf, a shape of 1": (lambda m, k: m.vonmises.logpdf(0.7, k), 1.0),
    "shi": (lambda m, x: sc.shichi(x)[0], 0.0),
}
# What SciPy's functions, which end at the edge, equal beyond it.
BEYOND = {
    "rice.logpdf, shape": lambda b: np.log(0.7) - 0.5 * (0.49 + b * b) + np.log(sc.i0(0.7 * b)),
    "vonmises.logpdf, shape": lambda k: k * np.cos(0.7) - np.log(2 * np.pi * sc.i0(k)),
}


def forward(f, n):
    for _ in range(n):
        f = (lambda g: lambda x: jvp(g, (x,), (1.0,))[1])(f)
    return f


def backward(f, n):
    for _ in range(n):
        f = (lambda g: lambda x: gradient(g, x)[0])(f)
    return f


@pytest.mark.parametrize("name", CASES)
def test_derivatives_up_to_the_third(name):
    program, at = CASES[name]
    f, plain = partial(program, stats), BEYOND.get(name, partial(program, own))
    nodes = at + 0.08 * np.cos(np.pi * (np.arange(13) + 0.5) / 13)
    values = [float(plain(x)) for x in nodes]
    fit = Chebyshev.fit(nodes, values, 12, domain=[at - 0.08, at + 0.08])
    for order, tolerance in ((1, 1e-8), (2, 1e-6), (3, 1e-4)):
        want = pytest.approx(fit.deriv(order)(at), rel=tolerance, abs=tolerance)
        assert forward(f, order)(at) == want
        assert backward(f, order)(at) == want
        fast = jit(backward(f, order))
        for _ in range(3):
            assert fast(at) == want


def test_the_slope_where_the_tail_of_crystalball_begins():
    x, b, m = gradient(stats.crystalball.logpdf, -1.2, 1.2, 2.5)
    near = gradient(stats.crystalball.logpdf, -1.2 + 1e-9, 1.2, 2.5)
    assert (x, b, m) == pytest.approx(near)
    assert x == pytest.approx(1.2)


@pytest.mark.parametrize("c", [-0.3, -1e-9, 0.0, 1e-9, 0.02, 0.3])
def test_values_of_the_extreme_distributions(c):
    x = np.array([-40.0, -2.0, -0.1, 0.0, 0.3, 2.0, 50.0, np.inf])
    q = np.array([0.0, 1e-9, 0.3, 0.99, 1.0])
    for name in ("genextreme", "genpareto"):
        ours, theirs = getattr(stats, name), getattr(own, name)
        for kind in ("cdf", "sf", "logcdf", "logsf", "pdf"):
            with np.errstate(all="ignore"):
                want = getattr(theirs, kind)(x, c)
                found = np.array([float(primal(getattr(ours, kind), z, c)) for z in x])
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-14, err_msg=f"{name}.{kind}")
        found = [float(primal(ours.ppf, z, c)) for z in q]
        np.testing.assert_allclose(found, theirs.ppf(q, c), rtol=1e-12)


def primal(f, z, c):
    """The value that is differentiated."""
    return jvp(lambda c: f(z, c), (c,), (1.0,))[0]
