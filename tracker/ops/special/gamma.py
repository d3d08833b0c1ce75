"""The gamma function and related functions: gamma, psi, zeta, beta, binom, poch.

At a pole of Gamma, 1 / Gamma is zero and smooth; products with it stay exact there, to any order.
Derivatives of zeta in its first argument use the Euler-Maclaurin sum (DLMF 25.11.5).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.table import define_ufunc, math_call


def _is_pole(x: Any) -> Any:
    return (np.real(x) <= 0) & (x == np.rint(np.real(x)))


def rgamma_slope(x: Any) -> Any:
    """The derivative of 1 / Gamma; for x < 1/2 by reflection (DLMF 5.5.3), which is smooth at the
    poles of Gamma."""
    left = np.real(x) < 0.5
    mirrored = np.where(left, 1 - x, 1.0)
    half_turns, right = np.where(left, x, 0.0), np.where(left, 1.0, x)
    sine, cosine = sc._ufuncs._sinpi(half_turns), sc._ufuncs._cospi(half_turns)
    reflected = sc.gamma(mirrored) * (cosine - sc.psi(mirrored) * sine / math.pi)
    return np.where(left, reflected, -sc.psi(right) * sc.rgamma(right))


def trigamma(x: Any) -> Any:
    """The derivative of psi. SciPy's zeta takes reals; complex numbers use recurrence and
    series."""
    if not np.iscomplexobj(x):
        return sc.zeta(2.0, x)
    left = np.real(x) < 0.5
    z = np.where(left, 1 - x, x)
    total = 0.0 * z
    for k in range(12):
        total = total + 1 / np.square(z + k)
    w = 1 / np.square(z + 12)
    series: Any = 0.0
    for bernoulli in reversed(_BERNOULLI[:8]):
        series = bernoulli + w * series
    total = total + 1 / (z + 12) + 0.5 * w + series * w / (z + 12)
    sine = np.sin(math.pi * np.where(left, x, 0.5))
    return np.where(left, np.square(math.pi / sine) - total, total)


_BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798),
    *(-174611 / 330, 854513 / 138, -236364091 / 2730),
)

define_ufunc("gamma", lambda y, x: y * sc.psi(x), lower=math_call("gamma"))


def _gammaln_body(e: Any, x: Any) -> Any:
    """C's lgamma, with SciPy's value at minus infinity."""
    low = e.constant(-math.inf, x)
    return e.select(e.compare("==", x, low), low, e.math("lgamma", x))


define_ufunc("gammaln", lambda y, x: sc.psi(x), lower=_gammaln_body)


def _rgamma_body(e: Any, x: Any) -> Any:
    zero = e.constant(0, x)
    is_integer = e.compare("==", x, e.intrinsic("rint", x))
    is_pole = e.logical_and(is_integer, e.compare("<=", x, zero))
    return e.select(is_pole, zero, e.div(e.constant(1, x), e.math("gamma", x)))


# NaN for negative reals, where Gamma may be negative.
define_ufunc(
    "loggamma",
    lambda y, x: sc.psi(x),
    lower=lambda e, x: e.select(
        e.compare("<", x, e.constant(0, x)), e.constant(math.nan, x), e.math("lgamma", x)
    ),
)
define_ufunc("rgamma", lambda y, x: rgamma_slope(x), lower=_rgamma_body)
define_ufunc("gammasgn", 0)
define_ufunc("psi", lambda y, x: trigamma(x), lower=math_call("digamma"))


def _digamma_difference(a: Any, b: Any) -> Any:
    """psi(a) - psi(a + b), accurate also for a so much larger than b that both are nearly equal."""
    far = (a > 20) & (np.abs(b) < a / 10)
    big = np.where(far, a, 20.0)
    small = np.where(far, b, 0.0)
    c = big + small
    # psi(x) = log(x) - 1 / (2 x) - sum B_2k / (2 k x**2k), term by term
    total = -np.log1p(small / big) - small / (2 * big * c)
    u, v = 1 / np.square(big), 1 / np.square(c)
    u_minus_v = small * (big + c) * u * v  # u - v
    power, quotient = u * 0 + 1, u * 0
    for k, bernoulli in enumerate(_BERNOULLI[:8], 1):
        quotient = quotient * v + power  # (u**k - v**k) / (u - v)
        power = power * u
        total = total - bernoulli / (2 * k) * u_minus_v * quotient
    near_a, near_b = np.where(far, 1.0, a), np.where(far, 1.0, b)
    return np.where(far, total, sc.psi(near_a) - sc.psi(near_a + near_b))


define_ufunc(
    "beta",
    lambda y, a, b: y * _digamma_difference(a, b),
    lambda y, a, b: y * _digamma_difference(b, a),
)
define_ufunc(
    "betaln", lambda y, a, b: _digamma_difference(a, b), lambda y, a, b: _digamma_difference(b, a)
)


def _binom_n(y: Any, n: Any, k: Any) -> Any:
    """Where n - k + 1 is a pole, binom is zero and its slope is not: binom is Beta(n + 1, k - n)
    sin(pi (n - k + 1)) / pi there, which never overflows."""
    pole = _is_pole(n - k + 1)
    m, j = np.where(pole, 2.0, n), np.where(pole, 1.0, k)
    top, rest = np.where(pole, n + 1, 1.0), np.where(pole, k - n, 1.0)
    half_turns = np.where(pole, n - k + 1, 0.0)
    sine, cosine = sc._ufuncs._sinpi(half_turns) / math.pi, sc._ufuncs._cospi(half_turns)
    zero = sc.beta(top, rest) * (cosine + sine * (sc.psi(top) - sc.psi(rest)))
    return np.where(pole, zero, y * (sc.psi(m + 1) - sc.psi(m - j + 1)))


def _binom_k(y: Any, n: Any, k: Any) -> Any:
    """The same; where k + 1 is a pole, binom is Beta(n + 1, -k) sin(pi (k + 1)) / pi."""
    above, below = _is_pole(n - k + 1), _is_pole(k + 1)
    pole = above | below
    m, j = np.where(pole, 2.0, n), np.where(pole, 1.0, k)
    top, rest = np.where(pole, n + 1, 1.0), np.where(above, k - n, np.where(below, -k, 1.0))
    half_turns = np.where(above, n - k + 1, np.where(below, k + 1, 0.0))
    sine, cosine = sc._ufuncs._sinpi(half_turns) / math.pi, sc._ufuncs._cospi(half_turns)
    zero = (
        np.where(above, -1.0, 1.0)
        * sc.beta(top, rest)
        * (cosine - sine * _digamma_difference(rest, top))
    )
    return np.where(pole, zero, y * (sc.psi(m - j + 1) - sc.psi(j + 1)))


define_ufunc("binom", _binom_n, _binom_k)


def _poch_x(y: Any, x: Any, m: Any) -> Any:
    """Where Gamma(x) alone has a pole, Gamma(x + m) / Gamma(x) is zero and its slope is not."""
    pole = _is_pole(x) & ~_is_pole(x + m)
    gap, top = np.where(pole, x, 1.0), np.where(pole, x + m, 1.0)
    zero = sc.gamma(top) * (sc.psi(top) * sc.rgamma(gap) + rgamma_slope(gap))
    return np.where(
        pole, zero, -y * _digamma_difference(np.where(pole, 1.0, x), np.where(pole, 1.0, m))
    )


define_ufunc("poch", _poch_x, lambda y, x, m: y * sc.psi(x + m))


# Zeta

_TERMS = 12


def _zeta_order(s: Any, q: Any) -> Any:
    """The derivative of Hurwitz's zeta(s, q) in s, for q > 0."""
    total: Any = 0.0
    for k in range(_TERMS):
        total = total - np.log(q + k) * np.power(q + k, -s)
    a = q + _TERMS
    log, power = np.log(a), np.power(a, -s)
    total = total - power * a * (log / (s - 1) + 1 / np.square(s - 1)) - 0.5 * log * power
    # s (s + 1) ... (s + 2 k - 2) B_2k / (2 k)! a**(-s - 2 k + 1), and its derivative in s
    rising, slope = s, 1.0 + 0 * s
    scale = power / a
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        weight = bernoulli / math.factorial(2 * k) * scale
        total = total + weight * (slope - log * rising)
        for step in (2 * k - 1, 2 * k):
            slope = slope * (s + step) + rising
            rising = rising * (s + step)
        scale = scale / np.square(a)
    return total


def _riemann_slope(s: Any) -> Any:
    """The derivative of Riemann's zeta; by its functional equation for s < 0 (DLMF 25.4.1)."""
    left = np.real(s) < 0
    z = np.where(left, 1 - s, s)
    one = 0 * z + 1
    right = _zeta_order(z, one)
    t = np.where(left, s, -0.5)
    scale = 2 * np.power(2 * math.pi, t - 1) * sc.gamma(1 - t)
    value = sc.zeta(np.where(left, z, 1.5))
    sine, cosine = np.sin(math.pi / 2 * t), np.cos(math.pi / 2 * t)
    mirrored = scale * (
        value * (sine * (math.log(2 * math.pi) - sc.psi(1 - t)) + math.pi / 2 * cosine)
        - sine * right
    )
    return np.where(left, mirrored, right)


define_ufunc(
    "_zeta",
    lambda y, s, q: _zeta_order(s, q),
    lambda y, s, q: -s * sc.zeta(s + 1, q),
    lower=lambda e, s, q: e.math("trigamma", q),
    where=lambda s, q: getattr(s, "value", None) == 2,
)
define_ufunc("_riemann_zeta", lambda y, s: _riemann_slope(s))
define_ufunc("zetac", lambda y, s: _riemann_slope(s))
