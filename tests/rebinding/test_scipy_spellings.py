"""Code that knows SciPy by any name runs unchanged under a derivative and a trace; then SciPy is
where it was."""

import importlib.util
import types

import fresh_python
import numpy
import pytest

import tracker
from tracker.testing import ngradient

SPELLINGS = {
    "function": """
        from scipy.special import softmax, logsumexp, expit
        def f(x):
            return softmax(x)[0] + logsumexp([x[0], x[1]]) + expit(x[1])
    """,
    "submodule": """
        from scipy import special, linalg
        import scipy.optimize as opt
        def f(x):
            a = special.gammaln(x[0]) + special.xlogy(x[1], x[0])
            return a + linalg.norm(x) + opt.rosen(x)
    """,
    "package": """
        import scipy.stats
        import scipy.spatial.distance
        def f(x):
            d = scipy.spatial.distance.cdist([[x[0], 1.0]], [[0.0, x[1]]])
            return scipy.stats.norm.logpdf(x[0], x[1], 2.0) + d[0, 0]
    """,
    "distribution": """
        from scipy.stats import norm, gamma as g, multivariate_normal
        def f(x):
            y = norm.cdf(x[0]) + g.logpdf(x[1], 2.5) + norm(x[0], 2.0).logpdf(x[1])
            return y + multivariate_normal.logpdf(x, [0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]])
    """,
    "frozen distribution": """
        from scipy import stats
        prior = stats.norm(0.5, scale=2.0)
        counts = stats.poisson(3.0)
        del stats
        def f(x):
            return prior.logpdf(x[0]) * prior.std() + prior.sf(x[1]) + counts.pmf(2) * x[0]
    """,
    "attribute": """
        from scipy.stats import norm
        from scipy.special import log_softmax
        class Model:
            link = staticmethod(log_softmax)
            def __init__(self):
                self.prior = norm
            def __call__(self, x):
                return self.link(x)[1] + self.prior.logpdf(x).sum()
        f = Model()
    """,
    "import inside": """
        def f(x):
            import scipy.linalg
            from scipy.special import softmax
            from scipy import stats
            b = softmax(x)
            return scipy.linalg.solve([[2.0, 1.0], [0.0, x[0]]], b)[1] + stats.norm.pdf(x[1])
    """,
    "multimethod": """
        from scipy.fft import dct, rfft as spectrum
        inverse = {"rfft": __import__("scipy.fft").fft.irfft}
        def f(x):
            power = abs(spectrum(x, 4)) ** 2
            return dct(x, norm="ortho")[1] + power @ [1.0, 2.0, 3.0] + inverse["rfft"](x)[0] ** 2
    """,
    "ufunc": """
        from scipy.special import erf, ndtr
        def f(x):
            return erf(x)[1] + ndtr(x)[0]
    """,
    "default and closure": """
        from scipy.special import softmax
        def make():
            from scipy.special import logsumexp
            def f(x, link=softmax):
                return logsumexp(x) * link(x)[0]
            return f
        f = make()
    """,
}
X = numpy.array([1.2, 0.7])


def load(name):
    module = types.ModuleType("scipy_program")
    text = "\n".join(line[8:] for line in SPELLINGS[name].split("\n"))
    exec(compile(text, "<scipy_program>", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    module = load(name)
    f, before = module.f, dict(vars(module))
    value, slope = tracker.value_and_grad(f)(X)
    assert value == pytest.approx(f(X), rel=1e-13)
    numpy.testing.assert_allclose(slope, ngradient(f, X)[0], rtol=1e-5, atol=1e-8)
    assert vars(module) == before
    compiled = tracker.value_and_grad(tracker.jit(f))
    for factor in (1.0, 1.0, 1.1):
        got, along = compiled(X * factor)
        assert got == pytest.approx(f(X * factor), rel=1e-12)
        numpy.testing.assert_allclose(along, tracker.gradient(f, X * factor)[0], rtol=1e-9)
    assert vars(module) == before
    assert not hasattr(f, "prior") or type(f.prior).__module__.startswith("scipy")


def test_code_without_scipy_imports_none_of_it():
    code = (
        "import sys, math, numpy as np, tracker\n"
        "def f(x): return np.zeros(2).sum() + math.sin(x)\n"
        "tracker.gradient(f, 1.0)\n"
        "print([m for m in sys.modules if m.startswith(('scipy', 'tracker.scipy', 'numpy.f2py'))])"
    )
    done = fresh_python.run(code)
    assert done.stdout.strip() == "[]"


def test_functions_without_a_derivative_say_so():
    module = types.ModuleType("scipy_program")
    exec(
        "from scipy.special import ellip_harm\ndef f(x): return ellip_harm(5, 8, 1, 1, x)",
        vars(module),
    )
    with pytest.raises(tracker.TrackerError, match="ellip_harm"):
        tracker.gradient(module.f, 1.0)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
def test_numba_compiles_with_numpy_as_it_is():
    """Also for the first time while a derivative runs."""
    module = types.ModuleType("numba_program")
    text = """
import math
import numba
import numpy as np
@numba.njit
def total(n):
    return np.zeros(n).sum() + np.sqrt(np.ones(n)).sum() + math.sqrt(4.0)
def f(x):
    y = np.zeros(1)
    y[0] = x * total(3)
    return y[0]
"""
    exec(compile(text, "<numba_program>", "exec"), vars(module))
    assert tracker.gradient(module.f, 2.0) == (5.0,)
    assert module.np is numpy
    assert module.f(2.0) == 10.0
