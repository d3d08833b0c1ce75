"""Distributions on all numbers, or on supports that depend on a shape; see `distribution.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.scipy.stats.distribution import ContinuousDistribution
from tracker.scipy.stats.moments import LOG_2PI, normal_logpdf

crystalball = ContinuousDistribution(
    "crystalball",
    valid=lambda b, m: (m > 1) & (b > 0),
    logpdf=lambda x, b, m: (
        np.where(x > -b, -0.5 * np.square(x), _crystalball_log_tail(x, b, m, m))
        - np.log(_crystalball_norm(b, m))
    ),
    cdf=lambda x, b, m: (
        np.where(
            x > -b,
            m / b * np.exp(-0.5 * b * b) / (m - 1)
            + math.sqrt(2 * math.pi) * (sc.ndtr(x) - sc.ndtr(-b)),
            np.exp(_crystalball_log_tail(x, b, m, m - 1)) / (m - 1),
        )
        / _crystalball_norm(b, m)
    ),
)


def _crystalball_log_tail(x: Any, b: Any, m: Any, power: Any) -> Any:
    return m * np.log(m / b) - 0.5 * b * b - power * np.log(m / b - b - np.where(x > -b, -b, x))


def _crystalball_norm(b: Any, m: Any) -> Any:
    return m / b / (m - 1) * np.exp(-0.5 * b * b) + math.sqrt(2 * math.pi) * sc.ndtr(b)


dgamma = ContinuousDistribution(
    "dgamma",
    valid=lambda a: a > 0,
    logpdf=lambda x, a: sc.xlogy(a - 1, np.abs(x)) - np.abs(x) - math.log(2) - sc.gammaln(a),
    cdf=lambda x, a: np.where(
        x > 0, 0.5 + 0.5 * sc.gammainc(a, np.abs(x)), 0.5 * sc.gammaincc(a, np.abs(x))
    ),
    sf=lambda x, a: np.where(
        x > 0, 0.5 * sc.gammaincc(a, np.abs(x)), 0.5 + 0.5 * sc.gammainc(a, np.abs(x))
    ),
    ppf=lambda q, a: np.where(
        q > 0.5, sc.gammaincinv(a, np.abs(2 * q - 1)), -sc.gammainccinv(a, np.minimum(2 * q, 1))
    ),
)
dweibull = ContinuousDistribution(
    "dweibull",
    valid=lambda c: c > 0,
    logpdf=lambda x, c: (
        np.log(c) - math.log(2) + sc.xlogy(c - 1, np.abs(x)) - np.power(np.abs(x), c)
    ),
    cdf=lambda x, c: np.where(
        x > 0, 1 - 0.5 * np.exp(-np.power(np.abs(x), c)), 0.5 * np.exp(-np.power(np.abs(x), c))
    ),
    ppf=lambda q, c: (
        np.where(q > 0.5, 1.0, -1.0) * np.power(-np.log(2 * np.minimum(q, 1 - q)), 1 / c)
    ),
)
exponnorm = ContinuousDistribution(
    "exponnorm",
    valid=lambda k: k > 0,
    logpdf=lambda x, k: (0.5 / k - x) / k + sc.log_ndtr(x - 1 / k) - np.log(k),
    cdf=lambda x, k: sc.ndtr(x) - np.exp((0.5 / k - x) / k + sc.log_ndtr(x - 1 / k)),
    sf=lambda x, k: sc.ndtr(-x) + np.exp((0.5 / k - x) / k + sc.log_ndtr(x - 1 / k)),
)
genlogistic = ContinuousDistribution(
    "genlogistic",
    valid=lambda c: c > 0,
    logpdf=lambda x, c: np.log(c) - x + (c + 1) * sc.log_expit(x),
    logcdf=lambda x, c: c * sc.log_expit(x),
    cdf=lambda x, c: np.exp(c * sc.log_expit(x)),
    sf=lambda x, c: -np.expm1(c * sc.log_expit(x)),
    ppf=lambda q, c: -np.log(sc.powm1(q, -1 / c)),
)


def _abs_power(x: Any, b: Any) -> Any:
    """|x|**b; for b >= 2 as a power of the square, whose rules have the second derivative at 0."""
    return np.where(b >= 2, np.power(np.square(x), b / 2), np.power(np.abs(x), b))


gennorm = ContinuousDistribution(
    "gennorm",
    valid=lambda b: b > 0,
    logpdf=lambda x, b: np.log(0.5 * b) - sc.gammaln(1 / b) - _abs_power(x, b),
    cdf=lambda x, b: 0.5 + 0.5 * np.sign(x) * sc.gammainc(1 / b, np.power(np.abs(x), b)),
    sf=lambda x, b: np.where(
        x > 0,
        0.5 * sc.gammaincc(1 / b, np.power(np.abs(x), b)),
        0.5 + 0.5 * sc.gammainc(1 / b, np.power(np.abs(x), b)),
    ),
    ppf=lambda q, b: (
        np.sign(q - 0.5) * np.power(sc.gammainccinv(1 / b, 2 * np.minimum(q, 1 - q)), 1 / b)
    ),
)
hypsecant = ContinuousDistribution(
    "hypsecant",
    logpdf=lambda x: math.log(2 / math.pi) + 0.5 * (sc.log_expit(2 * x) + sc.log_expit(-2 * x)),
    cdf=lambda x: 2 / math.pi * np.arctan(np.exp(x)),
    sf=lambda x: 2 / math.pi * np.arctan(np.exp(-x)),
    ppf=lambda q: np.log(np.tan(math.pi * q / 2)),
)
johnsonsu = ContinuousDistribution(
    "johnsonsu",
    valid=lambda a, b: (b > 0) & (a == a),
    logpdf=lambda x, a, b: (
        np.log(b) - 0.5 * np.log1p(np.square(x)) + normal_logpdf(a + b * np.arcsinh(x))
    ),
    cdf=lambda x, a, b: sc.ndtr(a + b * np.arcsinh(x)),
    sf=lambda x, a, b: sc.ndtr(-a - b * np.arcsinh(x)),
    ppf=lambda q, a, b: np.sinh((sc.ndtri(q) - a) / b),
)
laplace_asymmetric = ContinuousDistribution(
    "laplace_asymmetric",
    valid=lambda k: k > 0,
    logpdf=lambda x, k: x * np.where(x >= 0, -k, 1 / k) - np.log(k + 1 / k),
    cdf=lambda x, k: np.where(
        x >= 0,
        1 - np.exp(-np.abs(x) * k) / (1 + k * k),
        np.exp(-np.abs(x) / k) * k * k / (1 + k * k),
    ),
    sf=lambda x, k: np.where(
        x >= 0,
        np.exp(-np.abs(x) * k) / (1 + k * k),
        1 - np.exp(-np.abs(x) / k) * k * k / (1 + k * k),
    ),
    ppf=lambda q, k: np.where(
        q >= k * k / (1 + k * k),
        -np.log((1 - q) * (1 + k * k)) / k,
        np.log(q * (1 + k * k) / (k * k)) * k,
    ),
)
loggamma = ContinuousDistribution(
    "loggamma",
    valid=lambda c: c > 0,
    logpdf=lambda x, c: c * x - np.exp(x) - sc.gammaln(c),
    cdf=lambda x, c: sc.gammainc(c, np.exp(x)),
    sf=lambda x, c: sc.gammaincc(c, np.exp(x)),
    ppf=lambda q, c: np.log(sc.gammaincinv(c, q)),
)
moyal = ContinuousDistribution(
    "moyal",
    logpdf=lambda x: -0.5 * (x + np.exp(-x)) - 0.5 * LOG_2PI,
    cdf=lambda x: sc.erfc(np.exp(-0.5 * x) / math.sqrt(2)),
    sf=lambda x: sc.erf(np.exp(-0.5 * x) / math.sqrt(2)),
    ppf=lambda q: -np.log(2 * np.square(sc.erfcinv(q))),
)
norminvgauss = ContinuousDistribution(
    "norminvgauss",
    valid=lambda a, b: (a > 0) & (np.abs(b) < a),
    logpdf=lambda x, a, b: (
        np.log(a / math.pi)
        + np.log(sc.k1e(a * np.hypot(1, x)))
        + b * x
        - a * np.hypot(1, x)
        + np.sqrt(a * a - b * b)
        - np.log(np.hypot(1, x))
    ),
)
skewcauchy = ContinuousDistribution(
    "skewcauchy",
    valid=lambda a: np.abs(a) < 1,
    logpdf=lambda x, a: -np.log(math.pi * (np.square(x / (a * np.sign(x) + 1)) + 1)),
    cdf=lambda x, a: (
        (1 - a) / 2 + (1 + a * np.sign(x)) / math.pi * np.arctan(x / (1 + a * np.sign(x)))
    ),
    ppf=lambda q, a: np.where(
        q < (1 - a) / 2,
        np.tan(math.pi / (1 - a) * (q - (1 - a) / 2)) * (1 - a),
        np.tan(math.pi / (1 + a) * (q - (1 - a) / 2)) * (1 + a),
    ),
)
weibull_max = ContinuousDistribution(
    "weibull_max",
    (-math.inf, 0.0),
    -1.0,
    lambda c: c > 0,
    logpdf=lambda x, c: np.log(c) + sc.xlogy(c - 1, -x) - np.power(-x, c),
    logcdf=lambda x, c: -np.power(-x, c),
    cdf=lambda x, c: np.exp(-np.power(-x, c)),
    sf=lambda x, c: -np.expm1(-np.power(-x, c)),
    ppf=lambda q, c: -np.power(-np.log(q), 1 / c),
)


# Supports that a shape moves ----------------------------------------------------------------------


def _reduced_variate(x: Any, c: Any) -> Any:
    """-log(1 - c x) / c, which is x at c = 0; near there by a series, which is smooth in c."""
    infinite = np.isinf(x)
    u = -c * np.where(infinite, 0.0, x)
    near = np.abs(u) < 0.1
    small, large = np.where(near, u, 0.0), np.where(near, 1.0, u)
    series: Any = 0.0
    for k in range(18, 0, -1):
        series = 1 / k - small * series
    return x * np.where(near, series, np.log1p(large) / large)


def _from_reduced_variate(y: Any, c: Any) -> Any:
    return y * sc.exprel(-c * y)


def _upper_bound(c: Any) -> Any:
    return np.where(c > 0, 1 / np.where(c > 0, c, 1.0), math.inf)


def _lower_bound(c: Any) -> Any:
    return np.where(c < 0, 1 / np.where(c < 0, c, -1.0), -math.inf)


genextreme = ContinuousDistribution(
    "genextreme",
    lambda c: (_lower_bound(c), _upper_bound(c)),
    0.0,
    lambda c: c == c,
    logpdf=lambda x, c: -np.exp(-_reduced_variate(x, c)) - (1 - c) * _reduced_variate(x, c),
    logcdf=lambda x, c: -np.exp(-_reduced_variate(x, c)),
    cdf=lambda x, c: np.exp(-np.exp(-_reduced_variate(x, c))),
    sf=lambda x, c: -np.expm1(-np.exp(-_reduced_variate(x, c))),
    ppf=lambda q, c: _from_reduced_variate(-np.log(-np.log(q)), c),
)
genpareto = ContinuousDistribution(
    "genpareto",
    lambda c: (0.0, _upper_bound(-c)),
    0.0,
    lambda c: c == c,
    logpdf=lambda x, c: -(1 + c) * _reduced_variate(x, -c),
    logsf=lambda x, c: -_reduced_variate(x, -c),
    cdf=lambda x, c: -np.expm1(-_reduced_variate(x, -c)),
    sf=lambda x, c: np.exp(-_reduced_variate(x, -c)),
    ppf=lambda q, c: _from_reduced_variate(-np.log1p(-q), -c),
)
