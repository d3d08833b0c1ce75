"""Distributions on whole numbers; see `distribution.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.scipy.stats.distribution import DiscreteDistribution

_POSITIVE = (0.0, math.inf)
_REAL_LINE = (-math.inf, math.inf)

poisson = DiscreteDistribution(
    "poisson",
    _POSITIVE,
    valid=lambda mu: mu >= 0,
    logpmf=lambda k, mu: sc.xlogy(k, mu) - sc.gammaln(k + 1) - mu,
    cdf=lambda k, mu: sc.gammaincc(k + 1.0, mu),
    sf=lambda k, mu: sc.gammainc(k + 1.0, mu),
)
bernoulli = DiscreteDistribution(
    "bernoulli",
    (0.0, 1.0),
    valid=lambda p: (p >= 0) & (p <= 1),
    logpmf=lambda k, p: sc.xlogy(k, p) + sc.xlog1py(1 - k, -p),
    cdf=lambda k, p: np.where(k >= 1, 1.0, 1 - p),
    sf=lambda k, p: np.where(k >= 1, 0.0, p),
)
binom = DiscreteDistribution(
    "binom",
    lambda n, p: (0.0, n),
    valid=lambda n, p: (n >= 0) & (p >= 0) & (p <= 1),
    logpmf=lambda k, n, p: (
        sc.gammaln(n + 1)
        - sc.gammaln(k + 1)
        - sc.gammaln(n - k + 1)
        + sc.xlogy(k, p)
        + sc.xlog1py(n - k, -p)
    ),
    cdf=lambda k, n, p: np.where(
        k >= n, 1.0, sc.betaincc(k + 1.0, np.where(k >= n, 1.0, n - k), p)
    ),
    sf=lambda k, n, p: np.where(k >= n, 0.0, sc.betainc(k + 1.0, np.where(k >= n, 1.0, n - k), p)),
)
nbinom = DiscreteDistribution(
    "nbinom",
    _POSITIVE,
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: (
        sc.gammaln(n + k) - sc.gammaln(k + 1) - sc.gammaln(n) + n * np.log(p) + sc.xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: sc.betainc(n, k + 1.0, p),
    sf=lambda k, n, p: sc.betaincc(n, k + 1.0, p),
)
geom = DiscreteDistribution(
    "geom",
    (1.0, math.inf),
    valid=lambda p: (p > 0) & (p <= 1),
    logpmf=lambda k, p: sc.xlog1py(k - 1, -p) + np.log(p),
    cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
    sf=lambda k, p: np.exp(np.log1p(-p) * k),
    logsf=lambda k, p: np.log1p(-p) * k,
)
betabinom = DiscreteDistribution(
    "betabinom",
    lambda n, a, b: (0.0, n),
    valid=lambda n, a, b: (n >= 0) & (a > 0) & (b > 0),
    logpmf=lambda k, n, a, b: (
        -np.log(n + 1) - sc.betaln(n - k + 1, k + 1) + sc.betaln(k + a, n - k + b) - sc.betaln(a, b)
    ),
)
logser = DiscreteDistribution(
    "logser",
    (1.0, math.inf),
    valid=lambda p: (p > 0) & (p < 1),
    logpmf=lambda k, p: k * np.log(p) - np.log(k) - np.log(-np.log1p(-p)),
)
betanbinom = DiscreteDistribution(
    "betanbinom",
    _POSITIVE,
    valid=lambda n, a, b: (n >= 0) & (a > 0) & (b > 0),
    logpmf=lambda k, n, a, b: (
        -np.log(n + k) - sc.betaln(n, k + 1) + sc.betaln(a + n, b + k) - sc.betaln(a, b)
    ),
)
boltzmann = DiscreteDistribution(
    "boltzmann",
    lambda lam, n: (0.0, n - 1),
    valid=lambda lam, n: (lam > 0) & (n > 0),
    logpmf=lambda k, lam, n: np.log(np.expm1(-lam) / np.expm1(-lam * n)) - lam * k,
    cdf=lambda k, lam, n: np.expm1(-lam * (k + 1)) / np.expm1(-lam * n),
)


def _dlaplace_lower_cdf(k: Any, a: Any) -> Any:
    """P(X <= k) for k < 0 of a two-sided geometric variable."""
    return np.exp(a * (np.minimum(k, -1.0) + 1)) / (np.exp(a) + 1)


dlaplace = DiscreteDistribution(
    "dlaplace",
    _REAL_LINE,
    valid=lambda a: a > 0,
    logpmf=lambda k, a: np.log(np.tanh(a / 2)) - a * np.abs(k),
    cdf=lambda k, a: np.where(
        k >= 0, 1 - _dlaplace_lower_cdf(-k - 1, a), _dlaplace_lower_cdf(k, a)
    ),
    sf=lambda k, a: np.where(k >= 0, _dlaplace_lower_cdf(-k - 1, a), 1 - _dlaplace_lower_cdf(k, a)),
)
hypergeom = DiscreteDistribution(
    "hypergeom",
    lambda M, n, N: (np.maximum(N - (M - n), 0), np.minimum(n, N)),
    valid=lambda M, n, N: (M > 0) & (n >= 0) & (N >= 0) & (n <= M) & (N <= M),
    logpmf=lambda k, M, n, N: (
        sc.betaln(n + 1, 1)
        + sc.betaln(M - n + 1, 1)
        + sc.betaln(M - N + 1, N + 1)
        - sc.betaln(k + 1, n - k + 1)
        - sc.betaln(N - k + 1, M - n - N + k + 1)
        - sc.betaln(M + 1, 1)
    ),
)
planck = DiscreteDistribution(
    "planck",
    _POSITIVE,
    valid=lambda lam: lam > 0,
    logpmf=lambda k, lam: np.log(-np.expm1(-lam)) - lam * k,
    logsf=lambda k, lam: -lam * (k + 1),
    cdf=lambda k, lam: -np.expm1(-lam * (k + 1)),
    sf=lambda k, lam: np.exp(-lam * (k + 1)),
)
randint = DiscreteDistribution(
    "randint",
    lambda low, high: (low, high - 1),
    valid=lambda low, high: high > low,
    logpmf=lambda k, low, high: -np.log(high - low + 0 * k),
    cdf=lambda k, low, high: (k - low + 1.0) / (high - low),
)
skellam = DiscreteDistribution(
    "skellam",
    _REAL_LINE,
    valid=lambda a, b: (a > 0) & (b > 0),
    cdf=lambda k, a, b: np.where(
        k < 0,
        sc.chndtr(2 * b, -2 * np.minimum(k, -1.0), 2 * a),
        1 - sc.chndtr(2 * a, 2 * (np.maximum(k, 0.0) + 1), 2 * b),
    ),
)
yulesimon = DiscreteDistribution(
    "yulesimon",
    (1.0, math.inf),
    valid=lambda a: a > 0,
    logpmf=lambda k, a: np.log(a) + sc.betaln(k, a + 1),
    logsf=lambda k, a: np.log(k) + sc.betaln(k, a + 1),
    cdf=lambda k, a: 1 - k * sc.beta(k, a + 1),
    sf=lambda k, a: k * sc.beta(k, a + 1),
)
zipf = DiscreteDistribution(
    "zipf",
    (1.0, math.inf),
    valid=lambda a: a > 1,
    logpmf=lambda k, a: -a * np.log(k) - np.log(sc.zeta(a, 1.0)),
)
