"""The most common continuous distributions; see `distribution.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.scipy.stats.distribution import ContinuousDistribution
from tracker.scipy.stats.moments import LOG_2PI, log_i0e, normal_logpdf

_POSITIVE = (0.0, math.inf)

norm = ContinuousDistribution(
    "norm",
    logpdf=normal_logpdf,
    cdf=sc.ndtr,
    sf=lambda x: sc.ndtr(-x),
    logcdf=sc.log_ndtr,
    logsf=lambda x: sc.log_ndtr(-x),
    ppf=sc.ndtri,
    isf=lambda q: -sc.ndtri(q),
)
t = ContinuousDistribution(
    "t",
    valid=lambda df: df > 0,
    logpdf=lambda x, df: (
        -0.5 * (df + 1) * np.log1p(np.square(x) / df) - 0.5 * np.log(df) - sc.betaln(0.5, 0.5 * df)
    ),
    cdf=lambda x, df: sc.stdtr(df, x),
    sf=lambda x, df: sc.stdtr(df, -x),
    ppf=lambda q, df: sc.stdtrit(df, q),
    isf=lambda q, df: -sc.stdtrit(df, q),
)
gamma = ContinuousDistribution(
    "gamma",
    _POSITIVE,
    1.0,
    lambda a: a > 0,
    logpdf=lambda x, a: sc.xlogy(a - 1, x) - x - sc.gammaln(a),
    cdf=lambda x, a: sc.gammainc(a, x),
    sf=lambda x, a: sc.gammaincc(a, x),
    ppf=lambda q, a: sc.gammaincinv(a, q),
    isf=lambda q, a: sc.gammainccinv(a, q),
)
erlang = ContinuousDistribution("erlang", _POSITIVE, 1.0, gamma.valid, **gamma.formulas)
chi2 = ContinuousDistribution(
    "chi2",
    _POSITIVE,
    1.0,
    lambda df: df > 0,
    logpdf=lambda x, df: (
        sc.xlogy(df / 2 - 1, x) - x / 2 - sc.gammaln(df / 2) - 0.5 * math.log(2) * df
    ),
    cdf=lambda x, df: sc.chdtr(df, x),
    sf=lambda x, df: sc.chdtrc(df, x),
    ppf=lambda q, df: 2 * sc.gammaincinv(df / 2, q),
    isf=lambda q, df: sc.chdtri(df, q),
)
chi = ContinuousDistribution(
    "chi",
    _POSITIVE,
    1.0,
    lambda df: df > 0,
    logpdf=lambda x, df: (
        math.log(2)
        - 0.5 * math.log(2) * df
        - sc.gammaln(0.5 * df)
        + sc.xlogy(df - 1, x)
        - 0.5 * np.square(x)
    ),
    cdf=lambda x, df: sc.gammainc(0.5 * df, 0.5 * np.square(x)),
    sf=lambda x, df: sc.gammaincc(0.5 * df, 0.5 * np.square(x)),
    ppf=lambda q, df: np.sqrt(2 * sc.gammaincinv(0.5 * df, q)),
)
invgamma = ContinuousDistribution(
    "invgamma",
    _POSITIVE,
    1.0,
    lambda a: a > 0,
    logpdf=lambda x, a: -(a + 1) * np.log(x) - sc.gammaln(a) - 1 / x,
    cdf=lambda x, a: sc.gammaincc(a, 1 / x),
    sf=lambda x, a: sc.gammainc(a, 1 / x),
    ppf=lambda q, a: 1 / sc.gammainccinv(a, q),
)
beta = ContinuousDistribution(
    "beta",
    (0.0, 1.0),
    0.5,
    lambda a, b: (a > 0) & (b > 0),
    logpdf=lambda x, a, b: sc.xlog1py(b - 1, -x) + sc.xlogy(a - 1, x) - sc.betaln(a, b),
    cdf=lambda x, a, b: sc.betainc(a, b, x),
    sf=lambda x, a, b: sc.betaincc(a, b, x),
    ppf=lambda q, a, b: sc.betaincinv(a, b, q),
    isf=lambda q, a, b: sc.betainccinv(a, b, q),
)
f = ContinuousDistribution(
    "f",
    _POSITIVE,
    1.0,
    lambda n, d: (n > 0) & (d > 0),
    logpdf=lambda x, n, d: (
        n / 2 * np.log(n)
        + d / 2 * np.log(d)
        + sc.xlogy(n / 2 - 1, x)
        - (n + d) / 2 * np.log(d + n * x)
        - sc.betaln(n / 2, d / 2)
    ),
    cdf=lambda x, n, d: sc.fdtr(n, d, x),
    sf=lambda x, n, d: sc.fdtrc(n, d, x),
    ppf=lambda q, n, d: sc.fdtri(n, d, q),
)
expon = ContinuousDistribution(
    "expon",
    _POSITIVE,
    1.0,
    logpdf=lambda x: -x,
    cdf=lambda x: -np.expm1(-x),
    sf=lambda x: np.exp(-x),
    logsf=lambda x: -x,
    ppf=lambda q: -np.log1p(-q),
    isf=lambda q: -np.log(q),
)
lognorm = ContinuousDistribution(
    "lognorm",
    _POSITIVE,
    1.0,
    lambda s: s > 0,
    logpdf=lambda x, s: normal_logpdf(np.log(x) / s) - np.log(s * x),
    cdf=lambda x, s: sc.ndtr(np.log(x) / s),
    sf=lambda x, s: sc.ndtr(-np.log(x) / s),
    logcdf=lambda x, s: sc.log_ndtr(np.log(x) / s),
    logsf=lambda x, s: sc.log_ndtr(-np.log(x) / s),
    ppf=lambda q, s: np.exp(s * sc.ndtri(q)),
)
halfnorm = ContinuousDistribution(
    "halfnorm",
    _POSITIVE,
    1.0,
    logpdf=lambda x: normal_logpdf(x) + math.log(2),
    cdf=lambda x: sc.erf(x / math.sqrt(2)),
    sf=lambda x: 2 * sc.ndtr(-x),
    ppf=lambda q: sc.ndtri((1 + q) / 2),
)
laplace = ContinuousDistribution(
    "laplace",
    logpdf=lambda x: -np.abs(x) - math.log(2),
    cdf=lambda x: np.where(x > 0, 1 - 0.5 * np.exp(-np.abs(x)), 0.5 * np.exp(-np.abs(x))),
    sf=lambda x: np.where(x > 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x))),
    ppf=lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
)
cauchy = ContinuousDistribution(
    "cauchy",
    logpdf=lambda x: -math.log(math.pi) - np.log1p(np.square(x)),
    cdf=lambda x: np.arctan2(1, -x) / math.pi,
    sf=lambda x: np.arctan2(1, x) / math.pi,
    ppf=lambda q: np.tan(math.pi * q - math.pi / 2),
)
halfcauchy = ContinuousDistribution(
    "halfcauchy",
    _POSITIVE,
    1.0,
    logpdf=lambda x: math.log(2 / math.pi) - np.log1p(np.square(x)),
    cdf=lambda x: 2 / math.pi * np.arctan(x),
    sf=lambda x: 2 / math.pi * np.arctan2(1, x),
    ppf=lambda q: np.tan(math.pi / 2 * q),
)
uniform = ContinuousDistribution(
    "uniform",
    (0.0, 1.0),
    logpdf=lambda x: 0 * x,
    cdf=lambda x: x,
    sf=lambda x: 1 - x,
    ppf=lambda q: q,
)
logistic = ContinuousDistribution(
    "logistic",
    logpdf=lambda x: sc.log_expit(x) + sc.log_expit(-x),
    cdf=sc.expit,
    sf=lambda x: sc.expit(-x),
    logcdf=sc.log_expit,
    logsf=lambda x: sc.log_expit(-x),
    ppf=sc.logit,
    isf=lambda q: -sc.logit(q),
)
weibull_min = ContinuousDistribution(
    "weibull_min",
    _POSITIVE,
    1.0,
    lambda c: c > 0,
    logpdf=lambda x, c: np.log(c) + sc.xlogy(c - 1, x) - np.power(x, c),
    cdf=lambda x, c: -np.expm1(-np.power(x, c)),
    sf=lambda x, c: np.exp(-np.power(x, c)),
    logsf=lambda x, c: -np.power(x, c),
    ppf=lambda q, c: np.power(-np.log1p(-q), 1.0 / c),
)
pareto = ContinuousDistribution(
    "pareto",
    (1.0, math.inf),
    2.0,
    lambda b: b > 0,
    logpdf=lambda x, b: np.log(b) - (b + 1) * np.log(x),
    cdf=lambda x, b: -np.expm1(-b * np.log(x)),
    sf=lambda x, b: np.power(x, -b),
    logsf=lambda x, b: -b * np.log(x),
    ppf=lambda q, b: np.power(1 - q, -1.0 / b),
)
lomax = ContinuousDistribution(
    "lomax",
    _POSITIVE,
    1.0,
    lambda c: c > 0,
    logpdf=lambda x, c: np.log(c) - (c + 1) * np.log1p(x),
    cdf=lambda x, c: -np.expm1(-c * np.log1p(x)),
    sf=lambda x, c: np.exp(-c * np.log1p(x)),
    logsf=lambda x, c: -c * np.log1p(x),
    ppf=lambda q, c: np.expm1(-np.log1p(-q) / c),
)
gumbel_r = ContinuousDistribution(
    "gumbel_r",
    logpdf=lambda x: -x - np.exp(-x),
    cdf=lambda x: np.exp(-np.exp(-x)),
    sf=lambda x: -np.expm1(-np.exp(-x)),
    logcdf=lambda x: -np.exp(-x),
    ppf=lambda q: -np.log(-np.log(q)),
)
gumbel_l = ContinuousDistribution(
    "gumbel_l",
    logpdf=lambda x: x - np.exp(x),
    cdf=lambda x: -np.expm1(-np.exp(x)),
    sf=lambda x: np.exp(-np.exp(x)),
    logsf=lambda x: -np.exp(x),
    ppf=lambda q: np.log(-np.log1p(-q)),
)
rayleigh = ContinuousDistribution(
    "rayleigh",
    _POSITIVE,
    1.0,
    logpdf=lambda x: np.log(x) - 0.5 * np.square(x),
    cdf=lambda x: -np.expm1(-0.5 * np.square(x)),
    sf=lambda x: np.exp(-0.5 * np.square(x)),
    logsf=lambda x: -0.5 * np.square(x),
    ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
)
maxwell = ContinuousDistribution(
    "maxwell",
    _POSITIVE,
    1.0,
    logpdf=lambda x: 0.5 * math.log(2 / math.pi) + 2 * np.log(x) - 0.5 * np.square(x),
    cdf=lambda x: sc.gammainc(1.5, 0.5 * np.square(x)),
    sf=lambda x: sc.gammaincc(1.5, 0.5 * np.square(x)),
    ppf=lambda q: np.sqrt(2 * sc.gammaincinv(1.5, q)),
)
powerlaw = ContinuousDistribution(
    "powerlaw",
    (0.0, 1.0),
    0.5,
    lambda a: a > 0,
    logpdf=lambda x, a: np.log(a) + sc.xlogy(a - 1, x),
    cdf=lambda x, a: np.power(x, a),
    logcdf=lambda x, a: a * np.log(x),
    sf=lambda x, a: -sc.powm1(x, a),
    ppf=lambda q, a: np.power(q, 1.0 / a),
)
vonmises = ContinuousDistribution(
    "vonmises",
    valid=lambda kappa: kappa >= 0,
    logpdf=lambda x, k: k * sc.cosm1(x) - LOG_2PI - log_i0e(k),
)
skewnorm = ContinuousDistribution(
    "skewnorm",
    logpdf=lambda x, a: math.log(2) + normal_logpdf(x) + sc.log_ndtr(a * x),
    cdf=lambda x, a: _skewnorm_cdf(x, a),
    sf=lambda x, a: _skewnorm_cdf(-x, -a),
    logcdf=lambda x, a: _skewnorm_logcdf(x, a),
    logsf=lambda x, a: _skewnorm_logcdf(-x, -a),
)
truncnorm = ContinuousDistribution(
    "truncnorm",
    lambda a, b: (a, b),
    0.0,
    lambda a, b: a < b,
    logpdf=lambda x, a, b: normal_logpdf(x) - _log_normal_probability(a, b),
    logcdf=lambda x, a, b: _log_normal_probability(a, x) - _log_normal_probability(a, b),
    logsf=lambda x, a, b: _log_normal_probability(x, b) - _log_normal_probability(a, b),
    cdf=lambda x, a, b: np.exp(_log_normal_probability(a, x) - _log_normal_probability(a, b)),
    sf=lambda x, a, b: np.exp(_log_normal_probability(x, b) - _log_normal_probability(a, b)),
)


def _skewnorm_cdf(x: Any, a: Any) -> Any:
    """The distribution function of the skew normal: Phi(x) - 2 T(x, a), except where the two
    cancel."""
    is_tail = _is_far_tail(x, a)
    tail = np.exp(
        _skewnorm_log_tail(np.where(is_tail, -x, 1.0), np.where(is_tail, a, _FAR_TAIL + 1))
    )
    return np.where(is_tail, tail, sc.ndtr(x) - 2 * sc.owens_t(x, a))


def _skewnorm_logcdf(x: Any, a: Any) -> Any:
    is_tail = _is_far_tail(x, a)
    tail = _skewnorm_log_tail(np.where(is_tail, -x, 1.0), np.where(is_tail, a, _FAR_TAIL + 1))
    below = np.where(is_tail, 0.5, _skewnorm_cdf(x, a))
    low = below <= 0.5
    above = np.where(low, 0.5, _skewnorm_cdf(-x, -a))
    with np.errstate(divide="ignore"):
        central = np.where(low, np.log(np.where(low, below, 0.5)), np.log1p(-above))
    return np.where(is_tail, tail, central)


def _is_far_tail(x: Any, a: Any) -> Any:
    return (x < 0) & (a * x < -_FAR_TAIL)


def _skewnorm_log_tail(h: Any, a: Any) -> Any:
    """log of 1/pi times the integral over t > a of exp(-(1 + t**2) h**2 / 2) / (1 + t**2), twice
    the difference of T(h, inf) and T(h, a); by Gauss-Laguerre quadrature over y = (t**2 - a**2)
    h**2 / 2."""
    square = np.square(h)
    wide = np.expand_dims(square, -1)
    t2 = np.expand_dims(np.square(a), -1) + 2 * _LAGUERRE_NODES / wide
    total = np.sum(_LAGUERRE_WEIGHTS / (wide * np.sqrt(t2) * (1 + t2)), axis=-1)
    return np.log(total) - 0.5 * square * (1 + np.square(a)) - math.log(math.pi)


_FAR_TAIL = 2.0  # -a x: beyond, at most a twentieth of Phi(x) is left
_LAGUERRE_NODES, _LAGUERRE_WEIGHTS = np.polynomial.laguerre.laggauss(32)


def _log_normal_probability(a: Any, b: Any) -> Any:
    """log(Phi(b) - Phi(a)) for a < b, from the tail where both are small."""
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    top = sc.log_ndtr(high)
    return top + np.log(-np.expm1(sc.log_ndtr(low) - top))
