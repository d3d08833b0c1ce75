"""Means, variances and entropies of standard distributions, by name, as functions of the shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

LOG_2PI = math.log(2 * math.pi)
_EULER_GAMMA = float(np.euler_gamma)
Formula = Callable[..., Any]


def normal_logpdf(x: Any) -> Any:
    return -0.5 * np.square(x) - 0.5 * LOG_2PI


def log_i0e(k: Any) -> Any:
    """log(I0(k)) - k for k >= 0. i0e has a kink at 0 and no slope there by convention; this slope
    is the one from the right."""
    is_small = k < 1
    small, large = np.where(is_small, k, 0.0), np.where(is_small, 1.0, k)
    return np.where(is_small, np.log(sc.i0(small)) - small, np.log(sc.i0e(large)))


def _piecewise(condition: Any, formula: Formula, otherwise: float, safe: float) -> Formula:
    """A formula where the last shape is above a bound, `otherwise` elsewhere."""

    def call(*shapes: Any) -> Any:
        inside = condition(*shapes)
        *others, last = shapes
        return np.where(inside, formula(*others, np.where(inside, last, safe)), otherwise)

    return call


def _t_variance(df: Any) -> Any:
    inside = df > 2
    safe = np.where(inside, df, 3.0)
    return np.where(inside, safe / (safe - 2), np.where(df > 1, math.inf, math.nan))


def _t_entropy(df: Any) -> Any:
    half, more = df / 2, (df + 1) / 2
    return more * (sc.psi(more) - sc.psi(half)) + 0.5 * np.log(df) + sc.betaln(half, 0.5)


def _gamma_entropy(a: Any) -> Any:
    return a + sc.gammaln(a) + (1 - a) * sc.psi(a)


def _chi_mean(df: Any) -> Any:
    return math.sqrt(2) * np.exp(sc.gammaln((df + 1) / 2) - sc.gammaln(df / 2))


def _skewnorm_mean(a: Any) -> Any:
    return math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a)


def _beta_entropy(a: Any, b: Any) -> Any:
    ends = (a - 1) * sc.psi(a) + (b - 1) * sc.psi(b)
    return sc.betaln(a, b) - ends + (a + b - 2) * sc.psi(a + b)


def _truncnorm_parts(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The mean, the addition to the second moment, and the probability of the interval."""
    probability = sc.ndtr(b) - sc.ndtr(a)
    low, high = (np.where(np.isinf(end), 0.0, end) for end in (a, b))
    densities = [
        np.where(np.isinf(end), 0.0, np.exp(-0.5 * finite * finite))
        / math.sqrt(2 * math.pi)
        / probability
        for end, finite in ((a, low), (b, high))
    ]
    return densities[0] - densities[1], low * densities[0] - high * densities[1], probability


def _truncnorm_variance(a: Any, b: Any) -> Any:
    mean, more, _ = _truncnorm_parts(a, b)
    return 1 + more - mean**2


def _truncnorm_entropy(a: Any, b: Any) -> Any:
    _, more, probability = _truncnorm_parts(a, b)
    return 0.5 * (LOG_2PI + 1) + np.log(probability) + 0.5 * more


def _weibull_variance(c: Any) -> Any:
    return sc.gamma(1 + 2 / c) - sc.gamma(1 + 1 / c) ** 2


def _logser_variance(p: Any) -> Any:
    r = np.log1p(-p)
    return -p / r / (p - 1) ** 2 - (p / (p - 1) / r) ** 2


def _last_shape_above(bound: float) -> Formula:
    return lambda *shapes: shapes[-1] > bound


_PARETO_VARIANCE = _piecewise(
    _last_shape_above(2), lambda b: b / ((b - 2) * (b - 1) ** 2), math.inf, 3.0
)
# The mean, variance and entropy of each; None where SciPy has no closed form.
MOMENTS: dict[str, tuple[Any, Any, Any]] = {
    "norm": (0.0, 1.0, 0.5 * (LOG_2PI + 1)),
    "t": (
        _piecewise(_last_shape_above(1), lambda df: 0 * df, math.inf, 2.0),
        _t_variance,
        _t_entropy,
    ),
    "gamma": (lambda a: a, lambda a: a, _gamma_entropy),
    "erlang": (lambda a: a, lambda a: a, _gamma_entropy),
    "chi2": (lambda df: df, lambda df: 2 * df, lambda df: math.log(2) + _gamma_entropy(df / 2)),
    "chi": (
        _chi_mean,
        lambda df: df - _chi_mean(df) ** 2,
        lambda df: sc.gammaln(df / 2) + 0.5 * (df - math.log(2) - (df - 1) * sc.psi(df / 2)),
    ),
    "invgamma": (
        _piecewise(_last_shape_above(1), lambda a: 1 / (a - 1), math.inf, 2.0),
        _piecewise(_last_shape_above(2), lambda a: 1 / ((a - 1) ** 2 * (a - 2)), math.inf, 3.0),
        lambda a: a - (a + 1) * sc.psi(a) + sc.gammaln(a),
    ),
    "beta": (
        lambda a, b: a / (a + b),
        lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
        _beta_entropy,
    ),
    "f": (
        _piecewise(_last_shape_above(2), lambda n, d: d / (d - 2), math.inf, 5.0),
        _piecewise(
            _last_shape_above(4),
            lambda n, d: 2 * d**2 * (n + d - 2) / (n * (d - 2) ** 2 * (d - 4)),
            math.inf,
            5.0,
        ),
        None,
    ),
    "expon": (1.0, 1.0, 1.0),
    "lognorm": (
        lambda s: np.exp(s * s / 2),
        lambda s: np.exp(s * s) * np.expm1(s * s),
        lambda s: 0.5 * (1 + LOG_2PI) + np.log(s),
    ),
    "halfnorm": (math.sqrt(2 / math.pi), 1 - 2 / math.pi, 0.5 * math.log(math.pi / 2) + 0.5),
    "laplace": (0.0, 2.0, math.log(2) + 1),
    "cauchy": (math.nan, math.nan, math.log(4 * math.pi)),
    "halfcauchy": (math.inf, math.inf, LOG_2PI),
    "uniform": (0.5, 1 / 12, 0.0),
    "logistic": (0.0, math.pi**2 / 3, 2.0),
    "weibull_min": (
        lambda c: sc.gamma(1 + 1 / c),
        _weibull_variance,
        lambda c: -_EULER_GAMMA / c - np.log(c) + _EULER_GAMMA + 1,
    ),
    "weibull_max": (
        lambda c: -sc.gamma(1 + 1 / c),
        _weibull_variance,
        lambda c: -_EULER_GAMMA / c - np.log(c) + _EULER_GAMMA + 1,
    ),
    "pareto": (
        _piecewise(_last_shape_above(1), lambda b: b / (b - 1), math.inf, 2.0),
        _PARETO_VARIANCE,
        lambda b: 1 + 1 / b - np.log(b),
    ),
    "lomax": (
        _piecewise(_last_shape_above(1), lambda b: 1 / (b - 1), math.inf, 2.0),
        _PARETO_VARIANCE,
        lambda b: 1 + 1 / b - np.log(b),
    ),
    "gumbel_r": (_EULER_GAMMA, math.pi**2 / 6, _EULER_GAMMA + 1),
    "gumbel_l": (-_EULER_GAMMA, math.pi**2 / 6, _EULER_GAMMA + 1),
    "rayleigh": (
        math.sqrt(math.pi / 2),
        (4 - math.pi) / 2,
        _EULER_GAMMA / 2 + 1 - 0.5 * math.log(2),
    ),
    "maxwell": (2 * math.sqrt(2 / math.pi), 3 - 8 / math.pi, _EULER_GAMMA + 0.5 * LOG_2PI - 0.5),
    "powerlaw": (
        lambda a: a / (a + 1),
        lambda a: a / ((a + 2) * (a + 1) ** 2),
        lambda a: 1 - 1 / a - np.log(a),
    ),
    "vonmises": (
        lambda k: 0 * k,
        None,
        lambda k: -k * sc.i1e(k) / sc.i0e(k) + LOG_2PI + log_i0e(k) + k,
    ),
    "skewnorm": (_skewnorm_mean, lambda a: 1 - _skewnorm_mean(a) ** 2, None),
    "truncnorm": (lambda a, b: _truncnorm_parts(a, b)[0], _truncnorm_variance, _truncnorm_entropy),
    "arcsine": (0.5, 1 / 8, -0.24156447527049044468),
    "betaprime": (
        _piecewise(_last_shape_above(1), lambda a, b: a / (b - 1), math.inf, 3.0),
        _piecewise(
            _last_shape_above(2),
            lambda a, b: a * (a + b - 1) / ((b - 2) * (b - 1) ** 2),
            math.inf,
            3.0,
        ),
        None,
    ),
    "fatiguelife": (lambda c: 1 + c * c / 2, lambda c: c * c * (1 + 1.25 * c * c), None),
    "exponnorm": (lambda k: k, lambda k: 1 + k * k, None),
    "gennorm": (
        lambda b: 0 * b,
        lambda b: np.exp(sc.gammaln(3 / b) - sc.gammaln(1 / b)),
        lambda b: 1 / b - np.log(0.5 * b) + sc.gammaln(1 / b),
    ),
    "gibrat": (math.exp(0.5), math.e * (math.e - 1), 0.5 * math.log(2 * math.pi) + 0.5),
    "halflogistic": (math.log(4), math.pi**2 / 3 - math.log(4) ** 2, 2 - math.log(2)),
    "hypsecant": (0.0, math.pi**2 / 4, LOG_2PI),
    "invgauss": (lambda m: m, lambda m: m**3, None),
    "laplace_asymmetric": (
        lambda k: 1 / k - k,
        lambda k: 1 / k**2 + k**2,
        lambda k: 1 + np.log(k + 1 / k),
    ),
    "levy": (math.inf, math.inf, (1 + 3 * _EULER_GAMMA + math.log(16 * math.pi)) / 2),
    "loggamma": (
        lambda c: sc.psi(c),
        lambda c: sc.zeta(2.0, c),
        lambda c: sc.gammaln(c) - c * sc.psi(c) + c,
    ),
    "moyal": (_EULER_GAMMA + math.log(2), math.pi**2 / 2, None),
    "semicircular": (0.0, 0.25, 0.64472988584940017414),
    "triang": (
        lambda c: (c + 1) / 3,
        lambda c: (1 - c + c * c) / 18,
        lambda c: 0.5 - math.log(2) + 0 * c,
    ),
    "wald": (1.0, 1.0, None),
    "poisson": (lambda mu: mu, lambda mu: mu, None),
    "bernoulli": (lambda p: p, lambda p: p * (1 - p), lambda p: sc.entr(p) + sc.entr(1 - p)),
    "binom": (lambda n, p: n * p, lambda n, p: n * p * (1 - p), None),
    "nbinom": (lambda n, p: n * (1 - p) / p, lambda n, p: n * (1 - p) / p**2, None),
    "geom": (lambda p: 1 / p, lambda p: (1 - p) / p**2, None),
    "betabinom": (
        lambda n, a, b: n * a / (a + b),
        lambda n, a, b: n * (a + b + n) * a * b / (a + b) ** 2 / (a + b + 1),
        None,
    ),
    "logser": (lambda p: p / (p - 1) / np.log1p(-p), _logser_variance, None),
    "dlaplace": (
        lambda a: 0 * a,
        lambda a: 2 * np.exp(a) / np.expm1(a) ** 2,
        lambda a: a / np.sinh(a) - np.log(np.tanh(a / 2)),
    ),
    "planck": (
        lambda lam: 1 / np.expm1(lam),
        lambda lam: np.exp(-lam) / np.expm1(-lam) ** 2,
        lambda lam: lam / np.expm1(lam) - np.log(-np.expm1(-lam)),
    ),
    "randint": (
        lambda low, high: (high + low - 1) / 2,
        lambda low, high: ((high - low) ** 2 - 1) / 12,
        lambda low, high: np.log(high - low),
    ),
    "skellam": (lambda a, b: a - b, lambda a, b: a + b, None),
}
