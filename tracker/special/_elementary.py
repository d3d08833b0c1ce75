"""Elementary functions in NumPy: half turns, degrees, reciprocals, exact logarithms.

Angles in degrees and half turns are reduced before they are multiplied by pi, so that sinpi(1) is
0. A function whose plain formula has a poor derivative declares its own (`_with_partials`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.autodiff.custom_rules import scalar_rule, track

__all__ = [
    "abs2",
    "acosd",
    "acot",
    "acotd",
    "acoth",
    "acsc",
    "acscd",
    "acsch",
    "asec",
    "asecd",
    "asech",
    "asind",
    "atand",
    "cosd",
    "cospi",
    "cot",
    "cotd",
    "coth",
    "csc",
    "cscd",
    "csch",
    "exp10",
    "log1mexp",
    "log1pexp",
    "log1pmx",
    "log1psq",
    "log2mexp",
    "log_base",
    "logexpm1",
    "logmxp1",
    "logsubexp",
    "mod2pi",
    "rem2pi",
    "sec",
    "secd",
    "sech",
    "sincospi",
    "sind",
    "sinpi",
    "tand",
    "tanpi",
    "xlogx",
]


def _with_partials(
    *partials: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: an elementwise function with its derivatives, functions of its arguments."""

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        scalar_rule(f, *partials)

        @functools.wraps(f)
        def call(*args: Any) -> Any:
            return track(f, *args)

        return call

    return decorate


def abs2(x: Any) -> Any:
    """abs(x)**2."""
    if np.iscomplexobj(x):
        return np.square(np.real(x)) + np.square(np.imag(x))
    return np.square(x)


def exp10(x: Any) -> Any:
    """10**x."""
    return np.power(10.0, x)


def log_base(b: Any, x: Any) -> Any:
    """The logarithm of x to the base b."""
    return np.log(x) / np.log(b)


# Angles -------------------------------------------------------------------------------------------


def _sin_cos(x: Any, quarter: float, unit: float) -> tuple[Any, Any]:
    """Sine and cosine of x, where `quarter` is a quarter turn and `unit` converts to radians."""
    if np.iscomplexobj(x):
        sine, cosine = _sin_cos(np.real(x), quarter, unit)
        cosh, i_sinh = np.cosh(np.imag(x) * unit), 1j * np.sinh(np.imag(x) * unit)
        return sine * cosh + cosine * i_sinh, cosine * cosh - sine * i_sinh
    n = np.rint(x / quarter)
    rest = (x - n * quarter) * unit
    sine, cosine = np.sin(rest), np.cos(rest)
    is_odd, is_negated = n % 2 == 1, n % 4 >= 2
    first, second = np.where(is_odd, cosine, sine), np.where(is_odd, -sine, cosine)
    return np.where(is_negated, -first, first), np.where(is_negated, -second, second)


def sincospi(x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x)."""
    return _sin_cos(x, 0.5, math.pi)


def sinpi(x: Any) -> Any:
    """sin(pi x), exactly 0 at whole numbers."""
    return sincospi(x)[0]


def cospi(x: Any) -> Any:
    """cos(pi x)."""
    return sincospi(x)[1]


def tanpi(x: Any) -> Any:
    """tan(pi x)."""
    sine, cosine = sincospi(x)
    return sine / cosine


_DEGREE = math.pi / 180


def sind(x: Any) -> Any:
    """The sine of x degrees."""
    return _sin_cos(x, 90.0, _DEGREE)[0]


def cosd(x: Any) -> Any:
    """The cosine of x degrees."""
    return _sin_cos(x, 90.0, _DEGREE)[1]


def tand(x: Any) -> Any:
    """The tangent of x degrees."""
    sine, cosine = _sin_cos(x, 90.0, _DEGREE)
    return sine / cosine


def secd(x: Any) -> Any:
    """The secant of x degrees."""
    return 1 / cosd(x)


def cscd(x: Any) -> Any:
    """The cosecant of x degrees."""
    return 1 / sind(x)


def cotd(x: Any) -> Any:
    """The cotangent of x degrees."""
    sine, cosine = _sin_cos(x, 90.0, _DEGREE)
    return cosine / sine


def sec(x: Any) -> Any:
    """1 / cos(x)."""
    return 1 / np.cos(x)


def csc(x: Any) -> Any:
    """1 / sin(x)."""
    return 1 / np.sin(x)


def cot(x: Any) -> Any:
    """1 / tan(x)."""
    return np.cos(x) / np.sin(x)


def asec(x: Any) -> Any:
    """The inverse of sec."""
    return np.arccos(1 / x)


def acsc(x: Any) -> Any:
    """The inverse of csc."""
    return np.arcsin(1 / x)


@_with_partials(lambda x: -1 / (1 + np.square(x)))
def acot(x: Any) -> Any:
    """arctan(1 / x)."""
    zero = x == 0
    return np.where(zero, math.pi / 2, np.arctan(1 / np.where(zero, 1.0, x)))


def asind(x: Any) -> Any:
    """The arcsine in degrees."""
    return np.degrees(np.arcsin(x))


def acosd(x: Any) -> Any:
    """The arccosine in degrees."""
    return np.degrees(np.arccos(x))


def atand(x: Any) -> Any:
    """The arctangent in degrees."""
    return np.degrees(np.arctan(x))


def asecd(x: Any) -> Any:
    """The inverse of secd."""
    return np.degrees(asec(x))


def acscd(x: Any) -> Any:
    """The inverse of cscd."""
    return np.degrees(acsc(x))


def acotd(x: Any) -> Any:
    """The inverse of cotd."""
    return np.degrees(acot(x))


def mod2pi(x: Any) -> Any:
    """x modulo 2 pi, in [0, 2 pi)."""
    return np.mod(x, 2 * math.pi)


def rem2pi(x: Any) -> Any:
    """x less the nearest multiple of 2 pi."""
    return x - 2 * math.pi * np.rint(x / (2 * math.pi))


# Hyperbolic ---------------------------------------------------------------------------------------


@_with_partials(lambda x: -sech(x) * np.tanh(x))
def sech(x: Any) -> Any:
    """1 / cosh(x), which does not overflow."""
    e = np.exp(-np.abs(x))
    return 2 * e / (1 + e * e)


@_with_partials(lambda x: -csch(x) * coth(x))
def csch(x: Any) -> Any:
    """1 / sinh(x), which does not overflow."""
    size = np.abs(x)
    return np.sign(x) * -2 * np.exp(-size) / np.expm1(-2 * size)


@_with_partials(lambda x: -np.square(csch(x)))
def coth(x: Any) -> Any:
    """1 / tanh(x)."""
    return 1 / np.tanh(x)


def asech(x: Any) -> Any:
    """The inverse of sech."""
    return np.arccosh(1 / x)


def acsch(x: Any) -> Any:
    """The inverse of csch."""
    return np.arcsinh(1 / x)


def acoth(x: Any) -> Any:
    """The inverse of coth."""
    return np.arctanh(1 / x)


# Logarithms and exponentials ----------------------------------------------------------------------


@_with_partials(lambda x: 1 + np.log(x))
def xlogx(x: Any) -> Any:
    """x log(x), 0 at 0."""
    return np.where(x == 0, 0.0, x * np.log(np.where(x == 0, 1.0, x)))


@_with_partials(lambda x: 2 * (x / np.hypot(1, x)) / np.hypot(1, x))
def log1psq(x: Any) -> Any:
    """log(1 + x**2), which does not overflow."""
    far = np.abs(x) > 1e10
    near = np.log1p(np.square(np.where(far, 0.0, x)))
    return np.where(far, 2 * np.log(np.where(far, np.abs(x), 1.0)), near)


def log1pexp(x: Any) -> Any:
    """log(1 + exp(x)): softplus."""
    return np.logaddexp(0.0, x)


@_with_partials(lambda x: -1 / np.expm1(-x))
def log1mexp(x: Any) -> Any:
    """log(1 - exp(x)), for x < 0."""
    near = x > -math.log(2)
    low, high = np.where(near, -1.0, x), np.where(near, x, -1.0)
    return np.where(near, np.log(-np.expm1(high)), np.log1p(-np.exp(low)))


@_with_partials(lambda x: -np.exp(x) / (1 - np.expm1(x)))
def log2mexp(x: Any) -> Any:
    """log(2 - exp(x)), for x < log(2)."""
    return np.log1p(-np.expm1(x))


@_with_partials(lambda x: -1 / np.expm1(-x))
def logexpm1(x: Any) -> Any:
    """log(exp(x) - 1), for x > 0: the inverse of log1pexp."""
    return x + np.log(-np.expm1(-x))


@_with_partials(lambda x: -x / (1 + x))
def log1pmx(x: Any) -> Any:
    """log(1 + x) - x, near 0 by the series in x / (2 + x)."""
    near = np.abs(x) < 0.5
    u = np.where(near, x, 0.0)
    u = u / (2 + u)
    w = np.square(u)
    series: Any = 0.0
    for k in range(15, 0, -1):
        series = 1 / (2 * k + 1) + w * series
    far = np.where(near, 0.0, x)
    return np.where(near, 2 * w * (u * series - 1 / (1 - u)), np.log1p(far) - far)


@_with_partials(lambda x: (1 - x) / x)
def logmxp1(x: Any) -> Any:
    """log(x) - x + 1."""
    return log1pmx(x - 1)


@_with_partials(lambda x, y: -1 / np.expm1(y - x), lambda x, y: -1 / np.expm1(x - y))
def logsubexp(x: Any, y: Any) -> Any:
    """log(abs(exp(x) - exp(y)))."""
    return np.maximum(x, y) + log1mexp(-np.abs(x - y))
