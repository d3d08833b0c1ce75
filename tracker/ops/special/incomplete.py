"""Incomplete gamma and beta integrals: their densities, their derivatives in the parameters, and
the ufuncs that are these integrals or their inverses.

`gamma_order` and `beta_order` have no closed form; they are quadratures. With t = x exp(v), or
logit(t) = logit(x) + v, the logarithm of the integrand is concave in v, and `log t` minus its mean
has one sign on the side of x that is integrated over, so that nothing cancels. The range ends where
the integrand has fallen by exp(-42). It is split around t = 1 (1/2), outside of which the integrand
is an exponential, and Gauss's rule integrates each piece. The rule is plain NumPy: higher
derivatives are those of the rule.

Derivatives of an inverse, where F(.., y, ..) = p, are -F' / F_y (`inverse_derivatives`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.table import define_ufunc, ufunc_named

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_CUTS = (-36.0, -5.0, 5.0, 36.0)  # most of the mass is within 5; beyond, it decays as exp(-|v|)
_FALL = 42.0  # exp(-42) is negligible


def _integral(f: Callable[[Any], Any], end: Any, middle: Any) -> Any:
    """The integral of f over (0, end), in pieces that meet around `middle`."""
    cuts = (np.clip(middle + c, 0.0, end) for c in _CUTS)
    edges = [0 * end, *cuts, end]
    total: Any = 0.0
    for low, high in itertools.pairwise(edges):
        half = 0.5 * (high - low)
        at = np.expand_dims(low + half, -1) + np.expand_dims(half, -1) * _NODES
        total = total + half * np.sum(_WEIGHTS * f(at), axis=-1)
    return total


def _where_inside(x: Any, inside: Any, safe: float) -> Any:
    return np.where(inside, x, safe)


# Gamma


def _log_kernel(a: Any, x: Any) -> Any:
    """log(x**a exp(-x) / Gamma(a)), without cancellation for large a (Stirling)."""
    large = a > 20
    b = np.where(large, a, 20.0)
    excess = np.where(large, (x - b) / b, 0.0)
    near = np.abs(excess) < 0.5
    ratio = np.where(near, 1.0, x / b)
    log = np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(ratio)) - excess
    w = 1 / np.square(b)
    tail = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188))))) / b
    far = b * log + 0.5 * np.log(b / (2 * math.pi)) - tail
    c = np.where(large, 1.0, a)
    return np.where(large, far, sc.xlogy(c, x) - x - sc.gammaln(c))


def gamma_density(a: Any, x: Any) -> Any:
    """The derivative of gammainc(a, x) in x."""
    inside = (x > 0) & (x < math.inf)
    y = _where_inside(x, inside, 1.0)
    edge = np.where(a == 1, 1.0, np.where(a < 1, math.inf, 0.0))
    return np.where(inside, np.exp(_log_kernel(a, y)) / y, np.where(x == 0, edge, 0.0))


def gamma_order(a: Any, x: Any) -> Any:
    """The derivative of gammainc(a, x) in a."""
    inside = (x > 0) & (x < math.inf)
    x = _where_inside(x, inside, 1.0)
    mean, log = sc.psi(a), np.log(x)
    lower = log < mean
    # Below: the distance of t under x; above: to the mode a, then beyond.
    slope = np.where(lower, a - x, 0.0)
    left = 2 * _FALL / (slope + np.sqrt(np.square(slope) + 4 / 3 * _FALL * x))
    left = np.where(left <= 1, left, 1 + _FALL / np.where(lower, a - x / math.e, 1.0))
    top = np.maximum(x, a)
    slope = top - a
    right = 2 * _FALL / (slope + np.sqrt(np.square(slope) + 2 * _FALL * top))
    for _ in range(2):
        right = np.minimum(right, np.log1p((_FALL + a * right) / top))
    end = np.where(lower, left, np.log(top / x) + right)
    down = np.where(lower, -1.0, 1.0)
    a_, x_, log_, mean_, down_ = (np.expand_dims(u, -1) for u in (a, x, log, mean, down))

    def integrand(w: Any) -> Any:
        v = down_ * w
        return np.exp(a_ * v - x_ * np.expm1(v)) * (log_ + v - mean_)

    value = _integral(integrand, end, -log * down)
    return np.where(inside, -down * np.exp(_log_kernel(a, x)) * value, 0.0)


# Beta


def beta_density(a: Any, b: Any, x: Any, rest: Any = None) -> Any:
    """The derivative of betainc(a, b, x) in x; `rest` is 1 - x, if known more accurately."""
    rest = 1 - x if rest is None else rest
    inside = (x > 0) & (rest > 0)
    y, z = _where_inside(x, inside, 0.5), _where_inside(rest, inside, 0.5)
    log = (a - 1) * np.log(y) + (b - 1) * np.log(z) - sc.betaln(a, b)
    edge = np.where(x == 0, a, b)
    edge = np.where(edge == 1, np.exp(-sc.betaln(a, b)), np.where(edge < 1, math.inf, 0.0))
    return np.where(inside, np.exp(log), np.where((x == 0) | (rest == 0), edge, 0.0))


def beta_order(a: Any, b: Any, x: Any, rest: Any = None) -> Any:
    """The derivative of betainc(a, b, x) in a; `rest` is 1 - x, if known more accurately."""
    rest = 1 - x if rest is None else rest
    inside = (x > 0) & (rest > 0)
    x, rest = _where_inside(x, inside, 0.5), _where_inside(rest, inside, 0.5)
    log, mean = np.log(x), sc.psi(a) - sc.psi(a + b)
    lower = log < mean
    # From the side that is integrated over: p decreases from x or from the mode a / (a + b).
    p, q = np.where(lower, x, rest), np.where(lower, rest, x)
    m, n = np.where(lower, a, b), np.where(lower, b, a)
    mode = m / (m + n)
    past = p > mode
    start, other = np.where(past, mode, p), np.where(past, 1 - mode, q)
    away = np.where(past, np.log(p / q) - np.log(m / n), 0.0)
    slope = np.maximum(m * other - n * start, 0.0)
    bend = (m + n) * start * other / math.e
    end = 2 * _FALL / (slope + np.sqrt(np.square(slope) + 2 * _FALL * bend))
    further = start / math.e / (other + start / math.e)
    end = away + np.where(end <= 1, end, 1 + _FALL / (m - (m + n) * further))
    p_, m_, n_, low_ = (np.expand_dims(u, -1) for u in (p, m, n, lower))
    offset = np.expand_dims(log - mean, -1)

    def integrand(w: Any) -> Any:
        d = np.log1p(p_ * np.expm1(-w))  # log t = log p - w - d, log(1 - t) = log q - d
        return np.exp(-m_ * (w + d) - n_ * d) * (offset - d - np.where(low_, w, 0.0))

    value = _integral(integrand, end, np.log(p / q))
    kernel = np.exp(a * log + b * np.log(rest) - sc.betaln(a, b))
    return np.where(inside, np.where(lower, 1.0, -1.0) * kernel * value, 0.0)


def beta_order_b(a: Any, b: Any, x: Any, rest: Any = None) -> Any:
    """The derivative of betainc(a, b, x) in b."""
    return -beta_order(b, a, 1 - x if rest is None else rest, x)


# The ufuncs


def cdf_derivatives(parts: Callable[..., Sequence[Any]], count: int, sign: int = 1) -> list[Any]:
    """Derivatives of F in each argument. `parts(*args)` returns functions without arguments, so
    that only what is used is computed."""

    def at(i: int) -> Any:
        return lambda y, *xs: sign * parts(*xs)[i]()

    return [at(i) for i in range(count)]


def inverse_derivatives(
    parts: Callable[..., Sequence[Any]], solved: int, count: int, sign: int = 1
) -> list[Any]:
    """Derivatives of y where F(.., y, ..) = p: y is F's argument `solved`, where the
    inverse has p."""

    def at(i: int) -> Any:
        def partial(y: Any, *xs: Any) -> Any:
            of_f = parts(*xs[:solved], y, *xs[solved + 1 :])
            slope = of_f[solved]()
            return sign / slope if i == solved else -of_f[i]() / slope

        return partial

    return [at(i) for i in range(count)]


def define_distribution(
    parts: Callable[..., Sequence[Any]], cdf: str, complement: str = "", /, **inverses: int
) -> None:
    """Declare a distribution function F with these derivatives, 1 - F, and the inverses of F, each
    with the argument of F that it solves for."""
    ufunc = ufunc_named(cdf)
    assert ufunc is not None
    count = ufunc.nin
    define_ufunc(cdf, *cdf_derivatives(parts, count))
    if complement:
        define_ufunc(complement, *cdf_derivatives(parts, count, -1))
    for name, solved in inverses.items():
        define_ufunc(name, *inverse_derivatives(parts, solved, count))


def gamma_parts(a: Any, x: Any) -> Sequence[Any]:
    return lambda: gamma_order(a, x), lambda: gamma_density(a, x)


def beta_parts(a: Any, b: Any, x: Any) -> Sequence[Any]:
    return lambda: beta_order(a, b, x), lambda: beta_order_b(a, b, x), lambda: beta_density(a, b, x)


define_distribution(gamma_parts, "gammainc", "gammaincc", gammaincinv=1)
define_ufunc("gammainccinv", *inverse_derivatives(gamma_parts, 1, 2, -1))
define_distribution(beta_parts, "betainc", "betaincc", btdtria=0, btdtrib=1, betaincinv=2)
define_ufunc("betainccinv", *inverse_derivatives(beta_parts, 2, 3, -1))
