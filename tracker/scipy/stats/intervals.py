"""Distributions on intervals; see `distribution.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.scipy.stats.distribution import ContinuousDistribution
from tracker.scipy.stats.moments import LOG_2PI

_QUARTER_PI = math.pi / 4

anglit = ContinuousDistribution(
    "anglit",
    (-_QUARTER_PI, _QUARTER_PI),
    0.0,
    logpdf=lambda x: np.log(np.cos(2 * x)),
    cdf=lambda x: np.square(np.sin(x + _QUARTER_PI)),
    sf=lambda x: np.square(np.cos(x + _QUARTER_PI)),
    ppf=lambda q: np.arcsin(np.sqrt(q)) - _QUARTER_PI,
)
arcsine = ContinuousDistribution(
    "arcsine",
    (0.0, 1.0),
    logpdf=lambda x: -math.log(math.pi) - 0.5 * np.log(x * (1 - x)),
    cdf=lambda x: 2 / math.pi * np.arcsin(np.sqrt(x)),
    ppf=lambda q: np.square(np.sin(math.pi / 2 * q)),
)
bradford = ContinuousDistribution(
    "bradford",
    (0.0, 1.0),
    0.5,
    lambda c: c > 0,
    logpdf=lambda x, c: np.log(c) - np.log1p(c * x) - np.log(np.log1p(c)),
    cdf=lambda x, c: np.log1p(c * x) / np.log1p(c),
    ppf=lambda q, c: np.expm1(q * np.log1p(c)) / c,
)
cosine = ContinuousDistribution(
    "cosine",
    (-math.pi, math.pi),
    0.0,
    logpdf=lambda x: np.log1p(np.cos(x)) - LOG_2PI,
    cdf=lambda x: 0.5 + (x + np.sin(x)) / (2 * math.pi),
)
johnsonsb = ContinuousDistribution(
    "johnsonsb",
    (0.0, 1.0),
    0.5,
    lambda a, b: (b > 0) & (a == a),
    logpdf=lambda x, a, b: (
        np.log(b) - np.log(x * (1 - x)) - 0.5 * np.square(a + b * sc.logit(x)) - 0.5 * LOG_2PI
    ),
    cdf=lambda x, a, b: sc.ndtr(a + b * sc.logit(x)),
    sf=lambda x, a, b: sc.ndtr(-a - b * sc.logit(x)),
    ppf=lambda q, a, b: sc.expit((sc.ndtri(q) - a) / b),
)
loguniform = ContinuousDistribution(
    "loguniform",
    lambda a, b: (a, b),
    1.0,
    lambda a, b: (a > 0) & (b > a),
    logpdf=lambda x, a, b: -np.log(x) - np.log(np.log(b) - np.log(a)),
    cdf=lambda x, a, b: (np.log(x) - np.log(a)) / (np.log(b) - np.log(a)),
    ppf=lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a))),
)
reciprocal = ContinuousDistribution(
    "reciprocal", loguniform.support, 1.0, loguniform.valid, **loguniform.formulas
)
rdist = ContinuousDistribution(
    "rdist",
    (-1.0, 1.0),
    0.0,
    lambda c: c > 0,
    logpdf=lambda x, c: (
        (c / 2 - 1) * (np.log1p(x) + np.log1p(-x) - 2 * math.log(2))
        - math.log(2)
        - sc.betaln(c / 2, c / 2)
    ),
    cdf=lambda x, c: sc.betainc(c / 2, c / 2, (x + 1) / 2),
    sf=lambda x, c: sc.betaincc(c / 2, c / 2, (x + 1) / 2),
    ppf=lambda q, c: 2 * sc.betaincinv(c / 2, c / 2, q) - 1,
)
semicircular = ContinuousDistribution(
    "semicircular",
    (-1.0, 1.0),
    0.0,
    logpdf=lambda x: math.log(2 / math.pi) + 0.5 * np.log1p(-x * x),
    cdf=lambda x: 0.5 + (x * np.sqrt(1 - x * x) + np.arcsin(x)) / math.pi,
    ppf=lambda q: 2 * sc.betaincinv(1.5, 1.5, q) - 1,
)


def _triangle_density(x: Any, c: Any) -> Any:
    """The density, for a mode inside the interval or at an end."""
    rising = x < c
    up, down = np.where(rising, c, 1.0), np.where(rising, 1.0, 1 - c)
    return np.where(rising, x / up, np.where(c == 1, x, (1 - x) / np.where(c == 1, 1.0, down)))


def _triangle_cdf(x: Any, c: Any) -> Any:
    rising = (x < c) | (c == 1)
    up, down = np.where(rising, c, 1.0), np.where(rising, 1.0, 1 - c)
    return np.where(rising, x * x / up, 1 - np.square(1 - x) / down)


triang = ContinuousDistribution(
    "triang",
    (0.0, 1.0),
    0.5,
    lambda c: (c >= 0) & (c <= 1),
    logpdf=lambda x, c: math.log(2) + np.log(_triangle_density(x, c)),
    cdf=_triangle_cdf,
    ppf=lambda q, c: np.where(q < c, np.sqrt(c * q), 1 - np.sqrt((1 - c) * (1 - q))),
)
truncexpon = ContinuousDistribution(
    "truncexpon",
    lambda b: (0.0, b),
    0.0,
    lambda b: b > 0,
    logpdf=lambda x, b: -x - np.log(-np.expm1(-b)),
    cdf=lambda x, b: np.expm1(-x) / np.expm1(-b),
    sf=lambda x, b: (np.exp(-b) - np.exp(-x)) / np.expm1(-b),
    ppf=lambda q, b: -np.log1p(q * np.expm1(-b)),
)
wrapcauchy = ContinuousDistribution(
    "wrapcauchy",
    (0.0, 2 * math.pi),
    1.0,
    lambda c: (c > 0) & (c < 1),
    logpdf=lambda x, c: np.log1p(-c * c) - LOG_2PI - np.log(1 + c * c - 2 * c * np.cos(x)),
    cdf=lambda x, c: (
        np.where(x < math.pi, 0.0, 1.0) + np.arctan((1 + c) / (1 - c) * np.tan(x / 2)) / math.pi
    ),
    ppf=lambda q, c: (
        np.where(q <= 0.5, 0.0, 2 * math.pi)
        + 2 * np.arctan((1 - c) / (1 + c) * np.tan(math.pi * q))
    ),
)
