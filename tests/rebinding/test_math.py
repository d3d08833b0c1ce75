"""`math` and `cmath` in user code under a derivative: their values and errors, and derivatives."""

import cmath
import math

import pytest

import tracker
from tracker import gradient, jit, value_and_grad
from tracker.testing import ngradient

# Of one number; where it is differentiated.
FUNCTIONS = {
    **dict.fromkeys(("acos", "asin", "atanh", "erf", "erfc", "sin", "cos", "tan", "tanh"), 0.3),
    **dict.fromkeys(
        ("acosh", "asinh", "atan", "cosh", "sinh", "exp", "expm1", "log", "log10"), 1.7
    ),
    **dict.fromkeys(
        ("log1p", "log2", "sqrt", "fabs", "degrees", "radians", "gamma", "lgamma"), 2.3
    ),
    **dict.fromkeys([name for name in ("cbrt", "exp2") if hasattr(math, name)], 0.9),
}
PROGRAMS = {
    "hypot": lambda x: math.hypot(x, 2.0, x * x),
    "hypot of one": lambda x: math.hypot(-x),
    "dist": lambda x: math.dist((x, 1.0), [2.0 * x * x, 3.0]),
    "atan2": lambda x: math.atan2(x, 2.0) + math.atan2(2.0, x),
    "pow": lambda x: math.pow(x, 3) + math.pow(2, x),
    "fmod": lambda x: math.fmod(7.5, x) + math.fmod(x, 0.7),
    "remainder": lambda x: math.remainder(x, 0.7) + math.remainder(7.6, x),
    "remainder that is small": lambda x: 1e9 * math.remainder(x, -0.4329),
    "remainder of a half": lambda x: x * math.remainder(0 * x + 2.5, 1) + math.remainder(1.5, 1),
    "copysign": lambda x: math.copysign(x, -1.0),
    "ldexp": lambda x: math.ldexp(x, 3),
    "ldexp by a large power": lambda x: math.ldexp(x * 1e-300, 1030) * 1e-10,
    "ldexp by a small power": lambda x: math.ldexp(x * 1e300, -1080) * 1e25,
    "log of a base": lambda x: math.log(x, 3.0) + math.log(3.0, x + 1.0),
    "fsum": lambda x: math.fsum([x, 1.0, x * x]) + math.fsum(x * k for k in range(3)),
    "fsum of terms that cancel": lambda x: math.fsum([1e20, x, 1e3, -1e20, x * x]),
    "fsum of many": lambda x: math.fsum([x] * 10),
    "prod": lambda x: math.prod([x, 2.0, x]),
    "modf": lambda x: math.modf(x)[0] * x + math.modf(x)[1],
    "modf of infinity": lambda x: x * math.modf(x * 0.0 + math.inf)[0] + x,
    "rounded": lambda x: x * math.floor(x) + x * math.ceil(x) + x * math.trunc(x),
    "asked": lambda x: x * x if math.isfinite(x) and not math.isnan(x) else x,
    "isclose": lambda x: x * x if math.isclose(x, x + 1e-12) and not math.isclose(x, 2.0) else x,
    "constants": lambda x: x * math.pi + math.e * math.tau + math.factorial(3),
    "sumprod": lambda x: math.sumprod([x, 2.0], [x, x]) if hasattr(math, "sumprod") else x,
}


def of_one(name):
    function = getattr(math, name)
    return lambda x: function(x) * 1.0


COMPLEX = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10"),
    *("sin", "sinh", "sqrt", "tan", "tanh"),
)


def of_complex(name):
    function = getattr(cmath, name)

    def f(x):
        y = function(x + 0.5j) * function(-x)
        return y.real + 2.0 * y.imag

    return f


PROGRAMS |= {name: of_one(name) for name in FUNCTIONS}
PROGRAMS |= {f"cmath.{name}": of_complex(name) for name in COMPLEX}
PROGRAMS |= {
    "polar": lambda x: cmath.polar(x + 1j)[0] * cmath.polar(x * 1j)[1] + cmath.phase(x - 1j),
    "rect": lambda x: cmath.rect(x, 2.0 * x).imag + abs(cmath.log(x, 3.0)) * cmath.pi,
    "cmath asks": lambda x: x * x if cmath.isfinite(x) and cmath.isclose(x, x + 0j) else x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_derivative(name):
    f, x = PROGRAMS[name], FUNCTIONS.get(name, 1.3)
    value, slope = value_and_grad(f)(x)
    assert type(value) is type(f(x))
    assert value == pytest.approx(f(x), rel=1e-15)
    assert slope == pytest.approx(ngradient(f, x)[0], rel=1e-6)


def test_compiled():
    def f(x):
        total = math.sqrt(x) + math.log(x, 2.0) * math.exp(-x) + math.dist([x], [3.0])
        total = total + cmath.sqrt(-x).imag * cmath.polar(x)[0]
        return total if math.isclose(x, x) else 0.0

    compiled = value_and_grad(jit(f))
    for x in (1.5, 1.5, 2.5):
        value, slope = compiled(x)
        assert value == pytest.approx(f(x), rel=1e-15)
        assert slope == pytest.approx(gradient(f, x)[0], rel=1e-13)
    assert type(compiled(1.5)[0]) is float


OUTSIDE = {
    "sqrt": (lambda x: math.sqrt(x), -1.0, ValueError),
    "log": (lambda x: math.log(x), 0.0, ValueError),
    "log of base 0": (lambda x: math.log(0.5, x), 0.0, ValueError),
    "acos": (lambda x: math.acos(x), 1.5, ValueError),
    "exp": (lambda x: math.exp(x), 1000.0, OverflowError),
    "sin": (lambda x: math.sin(x), math.inf, ValueError),
    "pow": (lambda x: math.pow(x, 0.5), -2.0, ValueError),
    "cmath.log": (lambda x: cmath.log(x).real, 0.0, ValueError),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_errors_are_those_of_math(name):
    f, x, kind = OUTSIDE[name]
    with pytest.raises(kind) as plain:
        f(x)
    with pytest.raises(kind) as differentiated:
        gradient(f, x)
    compiled = jit(f)
    assert compiled(0.7) == pytest.approx(f(0.7), rel=1e-15)
    with pytest.raises(kind) as traced:
        compiled(x)
    assert str(differentiated.value) == str(traced.value) == str(plain.value)


def test_errors_of_a_compiled_call():
    f = jit(lambda x: math.sqrt(x) + math.exp(x))
    for x in (1.0, 1.0, 2.0):
        assert f(x) == math.sqrt(x) + math.exp(x)
    with pytest.raises(ValueError, match="math domain error"):
        f(-1.0)
    with pytest.raises(OverflowError):
        f(1000.0)
    assert f(math.inf) == math.inf
    assert f(3.0) == math.sqrt(3.0) + math.exp(3.0)


def test_plain_numbers_and_arrays_get_python_s_own():
    seen = []

    def f(x):
        seen.append((math.sqrt(2.0), math.gcd(4, 6), math.hypot(3, 4), math.fsum(iter([0.1] * 10))))
        with pytest.raises(TypeError):
            math.sqrt("a")
        with pytest.raises(TypeError):
            math.sqrt()
        return x * x

    gradient(f, 1.0)
    assert seen == [(math.sqrt(2.0), 2, 5.0, 1.0)]


def test_names_imported_from_math():
    space = {"__name__": "user"}
    exec("from math import sqrt, pi\ndef f(x): return sqrt(x) * pi", space)
    assert tracker.gradient(space["f"], 4.0)[0] == pytest.approx(math.pi / 4)
    assert space["sqrt"] is math.sqrt
