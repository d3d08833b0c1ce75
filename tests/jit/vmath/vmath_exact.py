"""Exact results of the functions of `vmath`, by mpmath; at zeros, infinities and NaN by NumPy or
SciPy.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import scipy.special

context = mpmath.mp.clone()
context.prec = 160


def real(f: Callable[..., object]) -> Callable[..., object]:
    """NaN where mpmath leaves the real line."""

    def g(*xs: object) -> object:
        y = f(*xs)
        return context.nan if isinstance(y, context.mpc) else y

    return g


def exact_erfc(x: object) -> object:
    # Past 30 the result is below half the least subnormal of either format.
    return context.erfc(x) if x < 30 else context.mpf(2) ** -1200


def exact_pow(x: object, y: object) -> object:
    size = y * context.log(abs(x), 2)
    if x < 0 and y != context.floor(y):
        return context.nan
    sign = -1 if x < 0 and context.floor(y / 2) * 2 != y else 1
    if abs(size) > 1200:
        return sign * context.mpf(2) ** (1200 if size > 0 else -1200)
    return sign * context.exp(y * context.log(abs(x)))


def sigmoid(x: object, exp: Callable[..., object] = context.exp) -> object:
    return 1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x))


def softplus(x: object) -> object:
    return (x if x > 0 else 0) + context.log1p(context.exp(-abs(x)))


def exact_sinpi(x: object) -> object:
    if x == context.floor(x):
        raise ZeroDivisionError  # a zero, whose sign is of the argument
    return context.sinpi(x)


BERNOULLI = [context.bernoulli(2 * k) for k in range(1, 24)]


def exact_trigamma(x: object) -> object:
    if x < 0:
        return (context.pi / exact_sinpi(x)) ** 2 - exact_trigamma(1 - x)
    near, step = context.mpf(0), 1 / (x * x)
    while x < 12:
        near, x = near + step, x + 1
        step = 1 / (x * x)
    far = context.mpf(0)
    for bernoulli in reversed(BERNOULLI):
        far = (far + bernoulli) * step
    return near + (1 + far) / x + step / 2


def exact_erfcx(x: object) -> object:
    if x < 30:
        return context.exp(x * x) * context.erfc(x) if x > -60 else context.mpf(2) ** 1200
    return context.hyperu(0.5, 0.5, x * x) / context.sqrt(context.pi)


def exact_ndtr(x: object) -> object:
    return exact_erfc(-x / context.sqrt(2)) / 2


def exact_log_ndtr(x: object) -> object:
    if x > 0:
        return context.log1p(-exact_ndtr(-x))
    return context.log(exact_erfcx(-x / context.sqrt(2)) / 2) - x * x / 2


def exact_erfcinv(y: object) -> object:
    """By Newton's method on the logarithm, which is nearly a parabola, from SciPy's number."""
    if y in (0, 2):
        raise ZeroDivisionError
    if not 0 < y < 2:
        return context.nan
    if y > 1:
        return -exact_erfcinv(2 - y)
    z = context.mpf(scipy.special.erfcinv(float(y)) if y > 1e-300 else 26.2)
    for _ in range(2 if y > 1e-300 else 5):
        density = 2 / context.sqrt(context.pi) / exact_erfcx(z)
        z += (context.log(context.erfc(z)) - context.log(y)) / density
    return z


def exact_erfinv(x: object) -> object:
    return context.erfinv(x) if abs(x) < 0.5 else context.sign(x) * exact_erfcinv(1 - abs(x))


def exact_ndtri(p: object) -> object:
    return -context.sqrt(2) * exact_erfcinv(2 * p)


def bessel(order: int, scaled: bool) -> Callable[..., object]:
    def exact(x: object) -> object:
        if abs(x) > 900 and not scaled:
            return context.sign(x) ** order * context.mpf(2) ** 1200
        if abs(x) > 1e4:  # DLMF 10.40.1
            mu, a = 4 * order**2, abs(x)
            term = total = context.mpf(1)
            for k in range(1, 12):
                term *= -(mu - (2 * k - 1) ** 2) / (8 * k * a)
                total += term
            return context.sign(x) ** order * total / context.sqrt(2 * context.pi * a)
        y = context.besseli(order, x)
        return y * context.exp(-abs(x)) if scaled else y

    return exact


def small_second_kind(order: int, x: object) -> object:
    """DLMF 10.31.1 and 10.31.2."""
    z, log = x * x / 4, context.log(x / 2)
    term, total = context.mpf(1), context.mpf(0)
    harmonic = -context.euler
    for k in range(30):
        if order:
            total += (log - (2 * harmonic + context.mpf(1) / (k + 1)) / 2) * term * x / 2
        else:
            total += (harmonic - log) * term
        harmonic += context.mpf(1) / (k + 1)
        term *= z / ((k + 1) * (k + 1 + order))
        if term < 1e-40:
            break
    return total + 1 / x if order else total


CATENARY = [context.cosh(context.mpf(k) / 16) for k in range(75)]


def second_kind(order: int, scaled: bool) -> Callable[..., object]:
    def exact(x: object) -> object:
        if x < 0:
            return context.nan
        if x < 2:
            y = small_second_kind(order, x)
            return y * context.exp(x) if scaled else y
        if x > 40:  # DLMF 10.40.2
            mu, term, total = 4 * order**2, context.mpf(1), context.mpf(1)
            for k in range(1, 40):
                term *= (mu - (2 * k - 1) ** 2) / (8 * k * x)
                total += term
                if abs(term) < 1e-40:
                    break
            y = context.sqrt(context.pi / (2 * x)) * total
        else:  # DLMF 10.32.9, by the trapezoidal rule
            heights = itertools.takewhile(lambda c: x * (c - 1) < 75, CATENARY)
            terms = (context.exp(x * (1 - c)) * (c if order else 1) for c in heights)
            y = (sum(terms) - context.mpf(0.5)) / 16
        return y if scaled else y * context.exp(-min(x, 2000))

    return exact


NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
EXACT: dict[str, Callable[..., object]] = {
    "exp2": lambda x: context.exp(x * context.log(2)),
    "log2": lambda x: context.log(x, 2),
    "sinpi": exact_sinpi,
    "cbrt": lambda x: context.sign(x) * context.cbrt(abs(x)),
    "sigmoid": sigmoid,
    "sech_squared": lambda x: context.cosh(x) ** -2,
    "softplus": softplus,
    "hypot": lambda x, y: context.sqrt(x * x + y * y),
    "erfc": exact_erfc,
    "pow": exact_pow,
    "lgamma": lambda x: context.re(context.loggamma(x)),
    "logaddexp": lambda x, y: max(x, y) + context.log1p(context.exp(-abs(x - y))),
    "trigamma": exact_trigamma,
    "gamma": lambda x: context.gamma(x) if x < 400 else context.mpf(2) ** 1200,
    "erfcx": exact_erfcx,
    "ndtr": exact_ndtr,
    "log_ndtr": exact_log_ndtr,
    "erfinv": exact_erfinv,
    "erfcinv": exact_erfcinv,
    "ndtri": exact_ndtri,
    **{f"i{n}": bessel(n, scaled=False) for n in (0, 1)},
    **{f"i{n}e": bessel(n, scaled=True) for n in (0, 1)},
    **{f"k{n}": second_kind(n, scaled=False) for n in (0, 1)},
    **{f"k{n}e": second_kind(n, scaled=True) for n in (0, 1)},
}
LIMITS: dict[str, Callable[..., object]] = {
    **{name: getattr(scipy.special, name) for name in ("gamma", "erfcx", "ndtr", "log_ndtr")},
    **{name: getattr(scipy.special, name) for name in ("erfcinv", "ndtri")},
    **{name: getattr(scipy.special, name) for name in ("k0", "k1", "k0e", "k1e")},
    "erfinv": lambda x: scipy.special.erfinv(x) if x else x,
    "trigamma": lambda x: scipy.special.zeta(2.0, x) if x > -math.inf else math.nan,
    "sinpi": lambda x: math.copysign(0.0, x) if math.isfinite(x) else math.nan,
    "cospi": lambda x: 1.0 if x == 0 else math.nan,
    # SciPy's own i0 is NaN at infinity, and its i1 and erfinv lose the sign of zero.
    "i0": lambda x: abs(x) if x else 1.0,
    "i1": lambda x: x,
    "i0e": scipy.special.i0e,
    "i1e": lambda x: x if not x else math.copysign(scipy.special.i1e(x), x),
    "sigmoid": scipy.special.expit,
    "sech_squared": lambda x: 0.0 if math.isinf(x) else 1.0 / math.cosh(x),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "lgamma": lambda x: np.inf if np.isinf(x) else scipy.special.gammaln(x),
    "digamma": scipy.special.digamma,
    # NumPy takes the square root for an exponent that is one number, 0.5: other signs and NaN.
    "pow": lambda x, y: np.power(np.array([x]), np.array([y]))[0],
}


def base(name: str) -> str:
    return name.removesuffix("_near")


def exact(name: str, *xs: float) -> object:
    """The real result; at zeros, infinities and NaN what NumPy or SciPy gives."""
    name = base(name)
    ordinary = all(map(math.isfinite, xs)) and (all(xs) or name in ("hypot", "logaddexp"))
    if ordinary:
        function = EXACT.get(name) or getattr(context, name)
        with contextlib.suppress(ValueError, ZeroDivisionError):  # a pole, as in atanh(1)
            return real(function)(*map(context.mpf, xs))
    limit = LIMITS.get(name) or getattr(np, NUMPY_NAMES.get(name, name))
    with np.errstate(all="ignore"):
        return float(limit(*map(np.float64, xs)))


def error(got: float, want: object, type: str, floor: float = 0.0) -> float:
    """The distance in units in the last place of the exact result, or of `floor` if larger."""
    digits, least, top = (53, -1074, 1024) if type == "double" else (24, -149, 128)
    if context.isnan(want) or math.isnan(got):
        return 0.0 if context.isnan(want) and math.isnan(got) else math.inf
    if context.isinf(want):
        return 0.0 if got == want else math.inf
    if want == 0 and not floor:
        same = got == 0 and math.copysign(1, got) == math.copysign(1, want)
        return 0.0 if same else math.inf
    if math.copysign(1, got) != context.sign(want) and not floor:
        return math.inf
    # Infinity stands for the number after the largest.
    infinity = context.mpf(2) ** top
    near = math.copysign(1, got) * infinity if math.isinf(got) else context.mpf(got)
    if abs(want) >= infinity and near == context.sign(want) * infinity:
        return 0.0
    exponent = min(context.frexp(max(abs(want), floor))[1], top)
    return float(abs(near - want) / context.mpf(2) ** max(exponent - digits, least))
