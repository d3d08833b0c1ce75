"""Distributions on the positive numbers; see `distribution.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.scipy.stats.distribution import ContinuousDistribution
from tracker.scipy.stats.moments import LOG_2PI, log_i0e, normal_logpdf

_POSITIVE = (0.0, math.inf)


def _all_positive(*shapes: Any) -> Any:
    valid: Any = True
    for shape in shapes:
        valid = valid & (shape > 0)
    return valid


def _positive_distribution(
    name: str, valid: Any = _all_positive, **formulas: Any
) -> ContinuousDistribution:
    return ContinuousDistribution(name, _POSITIVE, 1.0, valid, **formulas)


alpha = _positive_distribution(
    "alpha",
    logpdf=lambda x, a: -2 * np.log(x) + normal_logpdf(a - 1 / x) - sc.log_ndtr(a),
    cdf=lambda x, a: sc.ndtr(a - 1 / x) / sc.ndtr(a),
    ppf=lambda q, a: 1 / (a - sc.ndtri(q * sc.ndtr(a))),
)
betaprime = _positive_distribution(
    "betaprime",
    logpdf=lambda x, a, b: sc.xlogy(a - 1, x) - sc.xlog1py(a + b, x) - sc.betaln(a, b),
    cdf=lambda x, a, b: sc.betainc(a, b, x / (1 + x)),
    sf=lambda x, a, b: sc.betaincc(a, b, x / (1 + x)),
    ppf=lambda q, a, b: sc.betaincinv(a, b, q) / sc.betainccinv(b, a, q),
)
burr = _positive_distribution(
    "burr",
    logpdf=lambda x, c, d: (
        np.log(c) + np.log(d) - (c + 1) * np.log(x) - (d + 1) * np.log1p(np.power(x, -c))
    ),
    logcdf=lambda x, c, d: -d * np.log1p(np.power(x, -c)),
    cdf=lambda x, c, d: np.power(1 + np.power(x, -c), -d),
    sf=lambda x, c, d: -np.expm1(-d * np.log1p(np.power(x, -c))),
    ppf=lambda q, c, d: np.power(sc.powm1(q, -1 / d), -1 / c),
)
burr12 = _positive_distribution(
    "burr12",
    logpdf=lambda x, c, d: (
        np.log(c) + np.log(d) + sc.xlogy(c - 1, x) - (d + 1) * np.log1p(np.power(x, c))
    ),
    logsf=lambda x, c, d: -d * np.log1p(np.power(x, c)),
    cdf=lambda x, c, d: -np.expm1(-d * np.log1p(np.power(x, c))),
    sf=lambda x, c, d: np.exp(-d * np.log1p(np.power(x, c))),
    ppf=lambda q, c, d: np.power(np.expm1(-np.log1p(-q) / d), 1 / c),
)
exponpow = _positive_distribution(
    "exponpow",
    logpdf=lambda x, b: (
        1 + np.log(b) + sc.xlogy(b - 1, x) + np.power(x, b) - np.exp(np.power(x, b))
    ),
    cdf=lambda x, b: -np.expm1(-np.expm1(np.power(x, b))),
    sf=lambda x, b: np.exp(-np.expm1(np.power(x, b))),
    ppf=lambda q, b: np.power(np.log1p(-np.log1p(-q)), 1 / b),
)
exponweib = _positive_distribution(
    "exponweib",
    logpdf=lambda x, a, c: (
        np.log(a)
        + np.log(c)
        + sc.xlogy(a - 1, -np.expm1(-np.power(x, c)))
        - np.power(x, c)
        + sc.xlogy(c - 1, x)
    ),
    cdf=lambda x, a, c: np.power(-np.expm1(-np.power(x, c)), a),
    sf=lambda x, a, c: -np.expm1(a * np.log(-np.expm1(-np.power(x, c)))),
    ppf=lambda q, a, c: np.power(-np.log1p(-np.power(q, 1 / a)), 1 / c),
)
fatiguelife = _positive_distribution(
    "fatiguelife",
    logpdf=lambda x, c: (
        np.log(x + 1)
        - (x - 1) ** 2 / (2 * x * c**2)
        - np.log(2 * c)
        - 0.5 * (LOG_2PI + 3 * np.log(x))
    ),
    cdf=lambda x, c: sc.ndtr((np.sqrt(x) - 1 / np.sqrt(x)) / c),
    sf=lambda x, c: sc.ndtr((1 / np.sqrt(x) - np.sqrt(x)) / c),
    ppf=lambda q, c: 0.25 * (c * sc.ndtri(q) + np.sqrt((c * sc.ndtri(q)) ** 2 + 4)) ** 2,
)
fisk = _positive_distribution(
    "fisk",
    logpdf=lambda x, c: np.log(c) - (c + 1) * np.log(x) - 2 * np.log1p(np.power(x, -c)),
    logcdf=lambda x, c: -np.log1p(np.power(x, -c)),
    logsf=lambda x, c: -np.log1p(np.power(x, c)),
    cdf=lambda x, c: sc.expit(c * np.log(x)),
    sf=lambda x, c: sc.expit(-c * np.log(x)),
    ppf=lambda q, c: np.exp(sc.logit(q) / c),
)
foldcauchy = _positive_distribution(
    "foldcauchy",
    valid=lambda c: c >= 0,
    logpdf=lambda x, c: np.log((1 / (1 + (x - c) ** 2) + 1 / (1 + (x + c) ** 2)) / math.pi),
    cdf=lambda x, c: (np.arctan(x - c) + np.arctan(x + c)) / math.pi,
    sf=lambda x, c: (np.arctan2(1, x - c) + np.arctan2(1, x + c)) / math.pi,
)
foldnorm = _positive_distribution(
    "foldnorm",
    valid=lambda c: c >= 0,
    logpdf=lambda x, c: np.logaddexp(normal_logpdf(x - c), normal_logpdf(x + c)),
    cdf=lambda x, c: sc.ndtr(x - c) - sc.ndtr(-x - c),
    sf=lambda x, c: sc.ndtr(c - x) + sc.ndtr(-x - c),
)
gengamma = _positive_distribution(
    "gengamma",
    valid=lambda a, c: (a > 0) & (c != 0),
    logpdf=lambda x, a, c: (
        np.log(np.abs(c)) + sc.xlogy(c * a - 1, x) - np.power(x, c) - sc.gammaln(a)
    ),
    cdf=lambda x, a, c: np.where(
        c > 0, sc.gammainc(a, np.power(x, c)), sc.gammaincc(a, np.power(x, c))
    ),
    sf=lambda x, a, c: np.where(
        c > 0, sc.gammaincc(a, np.power(x, c)), sc.gammainc(a, np.power(x, c))
    ),
    ppf=lambda q, a, c: np.power(
        np.where(c > 0, sc.gammaincinv(a, q), sc.gammainccinv(a, q)), 1 / c
    ),
)
gibrat = _positive_distribution(
    "gibrat",
    logpdf=lambda x: normal_logpdf(np.log(x)) - np.log(x),
    cdf=lambda x: sc.ndtr(np.log(x)),
    sf=lambda x: sc.ndtr(-np.log(x)),
    ppf=lambda q: np.exp(sc.ndtri(q)),
)
gompertz = _positive_distribution(
    "gompertz",
    logpdf=lambda x, c: np.log(c) + x - c * np.expm1(x),
    logsf=lambda x, c: -c * np.expm1(x),
    cdf=lambda x, c: -np.expm1(-c * np.expm1(x)),
    sf=lambda x, c: np.exp(-c * np.expm1(x)),
    ppf=lambda q, c: np.log1p(-np.log1p(-q) / c),
)
halfgennorm = _positive_distribution(
    "halfgennorm",
    logpdf=lambda x, b: np.log(b) - sc.gammaln(1 / b) - np.power(x, b),
    cdf=lambda x, b: sc.gammainc(1 / b, np.power(x, b)),
    sf=lambda x, b: sc.gammaincc(1 / b, np.power(x, b)),
    ppf=lambda q, b: np.power(sc.gammaincinv(1 / b, q), 1 / b),
)
halflogistic = _positive_distribution(
    "halflogistic",
    logpdf=lambda x: math.log(2) - x - 2 * np.log1p(np.exp(-x)),
    cdf=lambda x: np.tanh(x / 2),
    sf=lambda x: 2 * sc.expit(-x),
    ppf=lambda q: 2 * np.arctanh(q),
)
invgauss = _positive_distribution(
    "invgauss",
    logpdf=lambda x, m: -0.5 * LOG_2PI - 1.5 * np.log(x) - (x / m - 1) ** 2 / (2 * x),
    cdf=lambda x, m: (
        sc.ndtr((x / m - 1) / np.sqrt(x)) + np.exp(2 / m + sc.log_ndtr(-(x / m + 1) / np.sqrt(x)))
    ),
    sf=lambda x, m: (
        sc.ndtr((1 - x / m) / np.sqrt(x)) - np.exp(2 / m + sc.log_ndtr(-(x / m + 1) / np.sqrt(x)))
    ),
)
wald = _positive_distribution(
    "wald",
    **{
        name: (lambda x, formula=formula: formula(x, 1.0))
        for name, formula in invgauss.formulas.items()
    },
)
invweibull = _positive_distribution(
    "invweibull",
    logpdf=lambda x, c: np.log(c) - (c + 1) * np.log(x) - np.power(x, -c),
    logcdf=lambda x, c: -np.power(x, -c),
    cdf=lambda x, c: np.exp(-np.power(x, -c)),
    sf=lambda x, c: -np.expm1(-np.power(x, -c)),
    ppf=lambda q, c: np.power(-np.log(q), -1 / c),
)
kappa3 = _positive_distribution(
    "kappa3",
    logpdf=lambda x, a: np.log(a) - (1 / a + 1) * np.log(a + np.power(x, a)),
    cdf=lambda x, a: x * np.power(a + np.power(x, a), -1 / a),
    sf=lambda x, a: -np.expm1(-np.log1p(a * np.power(x, -a)) / a),
    ppf=lambda q, a: np.power(a / sc.powm1(q, -a), 1 / a),
)
levy = _positive_distribution(
    "levy",
    logpdf=lambda x: -0.5 * LOG_2PI - 1.5 * np.log(x) - 0.5 / x,
    cdf=lambda x: sc.erfc(np.sqrt(0.5 / x)),
    sf=lambda x: sc.erf(np.sqrt(0.5 / x)),
    ppf=lambda q: 1 / np.square(sc.ndtri(q / 2)),
)
loglaplace = _positive_distribution(
    "loglaplace",
    logpdf=lambda x, c: np.log(c / 2) + (np.where(x < 1, c, -c) - 1) * np.log(x),
    cdf=lambda x, c: np.where(x < 1, 0.5 * np.power(x, c), 1 - 0.5 * np.power(x, -c)),
    sf=lambda x, c: np.where(x < 1, 1 - 0.5 * np.power(x, c), 0.5 * np.power(x, -c)),
    ppf=lambda q, c: np.where(q < 0.5, np.power(2 * q, 1 / c), np.power(2 * (1 - q), -1 / c)),
)
mielke = _positive_distribution(
    "mielke",
    logpdf=lambda x, k, s: np.log(k) + (k - 1) * np.log(x) - (1 + k / s) * np.log1p(np.power(x, s)),
    cdf=lambda x, k, s: np.power(x, k) / np.power(1 + np.power(x, s), k / s),
    ppf=lambda q, k, s: np.power(np.power(q, s / k) / (1 - np.power(q, s / k)), 1 / s),
)
nakagami = _positive_distribution(
    "nakagami",
    logpdf=lambda x, nu: (
        math.log(2)
        + sc.xlogy(nu, nu)
        - sc.gammaln(nu)
        + sc.xlogy(2 * nu - 1, x)
        - nu * np.square(x)
    ),
    cdf=lambda x, nu: sc.gammainc(nu, nu * np.square(x)),
    sf=lambda x, nu: sc.gammaincc(nu, nu * np.square(x)),
    ppf=lambda q, nu: np.sqrt(sc.gammaincinv(nu, q) / nu),
)
rice = _positive_distribution(
    "rice",
    valid=lambda b: b >= 0,
    logpdf=lambda x, b: np.log(x) - (x - b) ** 2 / 2 + log_i0e(x * b),
    cdf=lambda x, b: sc.chndtr(np.square(x), 2, np.square(b)),
    ppf=lambda q, b: np.sqrt(sc.chndtrix(q, 2, np.square(b))),
)
