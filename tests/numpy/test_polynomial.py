"""`tracker.numpy.polynomial`: NumPy's polynomials with tracked coefficients and points."""

import warnings

import numpy
import pytest

import tracker.numpy as np
from tracker import gradient, jit, pullback
from tracker.testing import gradcheck

C = numpy.array([0.9, -0.55, 0.35, 1.7])
X = numpy.array([0.2, 0.7, -1.1, 1.9, 0.4])
FAMILIES = {
    "polynomial": ("poly", "Polynomial"),
    "chebyshev": ("cheb", "Chebyshev"),
    "legendre": ("leg", "Legendre"),
    "hermite": ("herm", "Hermite"),
    "hermite_e": ("herme", "HermiteE"),
    "laguerre": ("lag", "Laguerre"),
}
FUNCTIONS = {
    "val": lambda f, c, x: f(x, c),
    "der": lambda f, c, x: f(c, 2),
    "int": lambda f, c, x: f(c, 1, k=[x[0]], lbnd=0.3),
    "add": lambda f, c, x: f(c, x),
    "mul": lambda f, c, x: f(c, x[:3]),
    "div": lambda f, c, x: f(x, c[1:]),
    "pow": lambda f, c, x: f(c, 3),
    "fromroots": lambda f, c, x: f(c),
    "roots": lambda f, c, x: f(c),
    "vander": lambda f, c, x: f(x, 3),
    "fit": lambda f, c, x: f(x, x * x + np.sin(3 * x), 2, w=np.exp(x)),
    "val2d": lambda f, c, x: f(x, 2 * x, np.reshape(c, (2, 2))),
    "grid2d": lambda f, c, x: f(x, c, np.reshape(c, (2, 2))),
}
METHODS = {
    "call": lambda cls, c, x: cls(c, domain=[-1.0, 2.0])(x),
    "arithmetic": lambda cls, c, x: (cls(c) * cls(x) - 2.0 * cls(c) + cls(c) ** 2).coef,
    "calculus": lambda cls, c, x: (cls(c).deriv() * cls(x).integ(1, k=x[1])).coef,
    "fit": lambda cls, c, x: cls.fit(x, x * c[0] + np.cos(x), 2).coef,
    "convert": lambda cls, c, x: cls(c).convert(kind=_namespace(cls).Polynomial).coef,
    "convert from a domain": lambda cls, c, x: (
        cls(c, domain=[-1.0, 2.0]).convert(kind=_namespace(cls).Polynomial).coef
    ),
    "cast of plain ones": lambda cls, c, x: (
        _namespace(cls).Polynomial(c) * _namespace(cls).Polynomial.cast(cls([1, 2], [0, 3]))
    )(x),
    "composed": lambda cls, c, x: (
        cls(x[:3], domain=[-1.0, 2.0])(_namespace(cls).Polynomial(c)).coef
    ),
}


def _namespace(cls):
    return numpy.polynomial if cls.__module__.startswith("numpy.") else np.polynomial


def check(ours, theirs, compiled):
    """NumPy's numbers and derivatives of both modes; and the same compiled, which takes longer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numpy.exceptions.RankWarning)
        found, want = pullback(ours, C, X)[0], theirs(C, X)
        for parts in (found, jit(ours)(C, X)) if compiled else (found,):
            numpy.testing.assert_allclose(numpy.hstack(parts), numpy.hstack(want), atol=1e-9)
        assert gradcheck(ours, C, X)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions(family, what):
    call, name = FUNCTIONS[what], FAMILIES[family][0] + what
    ours, theirs = (getattr(getattr(s, family), name) for s in (np.polynomial, numpy.polynomial))
    check(lambda c, x: call(ours, c, x), lambda c, x: call(theirs, c, x), family == "chebyshev")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("what", METHODS)
def test_classes(family, what):
    call, name = METHODS[what], FAMILIES[family][1]
    ours, theirs = (getattr(s, name) for s in (np.polynomial, numpy.polynomial))
    check(lambda c, x: call(ours, c, x), lambda c, x: call(theirs, c, x), family == "chebyshev")


def test_an_object_that_keeps_operators_to_itself_gets_them():
    class Own:
        __array_ufunc__ = None

        def __radd__(self, other):
            return other * 3

    assert gradient(lambda x: x + Own(), 2.0) == (3.0,)
