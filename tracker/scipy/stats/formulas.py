"""Formulas of standard distributions that are used instead of SciPy's.

SciPy's are compiled there and have no derivative, or lose digits in a tail, or their derivatives
do. Of each distribution: functions of (x, *shapes) by SciPy's names without the underscore
(`logpdf`, `cdf`, ...; of (q, *shapes): `ppf`, `isf`; of the shapes: `mean`, `var`, `entropy`); None
where SciPy has a formula that cannot be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import _ufuncs as sc  # also where SCIPY_ARRAY_API=1 wraps ufuncs

LOG_2PI = math.log(2 * math.pi)
Formula = Callable[..., Any]


def _normal_logpdf(x: Any) -> Any:
    return -0.5 * np.square(x) - 0.5 * LOG_2PI


# The skew normal's tails --------------------------------------------------------------------------

_FAR_TAIL = 2.0  # -a x: beyond, at most a twentieth of Phi(x) is left
_LAGUERRE_NODES, _LAGUERRE_WEIGHTS = np.polynomial.laguerre.laggauss(32)


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


# The truncated normal -----------------------------------------------------------------------------


def _log_normal_probability(a: Any, b: Any) -> Any:
    """log(Phi(b) - Phi(a)) for a < b, from the tail where both are small."""
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    top = sc.log_ndtr(high)
    return top + np.log(-np.expm1(sc.log_ndtr(low) - top))


def _truncnorm_parts(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The mean, the addition to the second moment, and the probability of the interval."""
    probability = sc.ndtr(b) - sc.ndtr(a)
    low, high = (np.where(np.isinf(end), 0.0, end) for end in (a, b))
    densities = [
        np.where(np.isinf(end), 0.0, np.exp(_normal_logpdf(finite))) / probability
        for end, finite in ((a, low), (b, high))
    ]
    return densities[0] - densities[1], low * densities[0] - high * densities[1], probability


def _truncnorm_variance(a: Any, b: Any) -> Any:
    mean, more, _ = _truncnorm_parts(a, b)
    return 1 + more - mean**2


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


# Others -------------------------------------------------------------------------------------------


def _abs_power(x: Any, b: Any) -> Any:
    """|x|**b; for b >= 2 as a power of the square, whose rules have the second derivative at 0."""
    return np.where(b >= 2, np.power(np.square(x), b / 2), np.power(np.abs(x), b))


def _log_i0e(k: Any) -> Any:
    """log(I0(k)) - k for k >= 0. i0e has a kink at 0 and no slope there by convention; this slope
    is the one from the right."""
    is_small = k < 1
    small, large = np.where(is_small, k, 0.0), np.where(is_small, 1.0, k)
    return np.where(is_small, np.log(sc.i0(small)) - small, np.log(sc.i0e(large)))


def _binom_tail(beta: Formula, beyond: float) -> Formula:
    """cdf or sf, by one of the incomplete beta functions."""

    def tail(k: Any, n: Any, p: Any) -> Any:
        last = k >= n
        return np.where(last, beyond, beta(k + 1.0, np.where(last, 1.0, n - k), p))

    return tail


def _skellam_cdf(k: Any, a: Any, b: Any) -> Any:
    lower = sc.chndtr(2 * b, -2 * np.minimum(k, -1.0), 2 * a)
    return np.where(k < 0, lower, 1 - sc.chndtr(2 * a, 2 * (np.maximum(k, 0.0) + 1), 2 * b))


def _invgauss_tail(sign: float) -> Formula:
    """cdf or sf."""

    def tail(x: Any, m: Any) -> Any:
        root = np.sqrt(x)
        reflected = np.exp(2 / m + sc.log_ndtr(-(x / m + 1) / root))
        return sc.ndtr(sign * (x / m - 1) / root) + sign * reflected

    return tail


_INVGAUSS = {"cdf": _invgauss_tail(1.0), "sf": _invgauss_tail(-1.0)}
_NUMERICAL = dict.fromkeys(("ppf", "isf"))
_WALD = {name: lambda x, f=f: f(x, 1.0) for name, f in _INVGAUSS.items()}
FORMULAS: dict[str, dict[str, Formula | None]] = {
    # Used often, and with less overhead than SciPy's:
    "norm": {"logpdf": _normal_logpdf, "cdf": sc.ndtr},
    "beta": {
        "logpdf": lambda x, a, b: sc.xlog1py(b - 1, -x) + sc.xlogy(a - 1, x) - sc.betaln(a, b),
        "ppf": lambda q, a, b: sc.betaincinv(a, b, q),
        "isf": lambda q, a, b: sc.betainccinv(a, b, q),
    },
    "lognorm": {"logpdf": lambda x, s: _normal_logpdf(np.log(x) / s) - np.log(s * x)},
    "poisson": {"logpmf": lambda k, mu: sc.xlogy(k, mu) - sc.gammaln(k + 1) - mu},
    "t": {
        "logpdf": lambda x, df: (
            -0.5 * (df + 1) * np.log1p(np.square(x) / df)
            - 0.5 * np.log(df)
            - sc.betaln(0.5, 0.5 * df)
        )
    },
    "uniform": {"logpdf": lambda x: 0 * x},
    # Compiled in SciPy, or less exact:
    "bernoulli": {
        "logpmf": lambda k, p: sc.xlogy(k, p) + sc.xlog1py(1 - k, -p),
        "cdf": lambda k, p: np.where(k >= 1, 1.0, 1 - p),
        "sf": lambda k, p: np.where(k >= 1, 0.0, p),
    },
    "betaprime": {"ppf": lambda q, a, b: sc.betaincinv(a, b, q) / sc.betainccinv(b, a, q)},
    "binom": {"cdf": _binom_tail(sc.betaincc, 1.0), "sf": _binom_tail(sc.betainc, 0.0)},
    "burr12": {"logcdf": None},
    "cauchy": {
        "logpdf": lambda x: -math.log(math.pi) - np.log1p(np.square(x)),
        "ppf": lambda q: np.tan(math.pi * q - math.pi / 2),
        "isf": None,
    },
    "cosine": {
        "cdf": lambda x: 0.5 + (x + np.sin(x)) / (2 * math.pi),
        **dict.fromkeys(("sf", "ppf", "isf")),
    },
    "foldnorm": {"logpdf": lambda x, c: np.logaddexp(_normal_logpdf(x - c), _normal_logpdf(x + c))},
    "genextreme": {
        "logpdf": lambda x, c: -np.exp(-_reduced_variate(x, c)) - (1 - c) * _reduced_variate(x, c),
        "logcdf": lambda x, c: -np.exp(-_reduced_variate(x, c)),
        "cdf": lambda x, c: np.exp(-np.exp(-_reduced_variate(x, c))),
        "sf": lambda x, c: -np.expm1(-np.exp(-_reduced_variate(x, c))),
        "ppf": lambda q, c: _from_reduced_variate(-np.log(-np.log(q)), c),
        "isf": lambda q, c: _from_reduced_variate(-np.log(-np.log1p(-q)), c),
        **dict.fromkeys(("stats", "munp")),
    },
    "genlogistic": {"logpdf": lambda x, c: np.log(c) - x + (c + 1) * sc.log_expit(x)},
    "gennorm": {
        "logpdf": lambda x, b: np.log(0.5 * b) - sc.gammaln(1 / b) - _abs_power(x, b),
        "mean": lambda b: 0 * b,
        "var": lambda b: np.exp(sc.gammaln(3 / b) - sc.gammaln(1 / b)),
    },
    "genpareto": {
        "logpdf": lambda x, c: -(1 + c) * _reduced_variate(x, -c),
        "logsf": lambda x, c: -_reduced_variate(x, -c),
        "cdf": lambda x, c: -np.expm1(-_reduced_variate(x, -c)),
        "sf": lambda x, c: np.exp(-_reduced_variate(x, -c)),
        "ppf": lambda q, c: _from_reduced_variate(-np.log1p(-q), -c),
        "isf": lambda q, c: _from_reduced_variate(-np.log(q), -c),
        **dict.fromkeys(("stats", "munp")),
    },
    "gompertz": {"logsf": lambda x, c: -c * np.expm1(x)},
    "hypsecant": {
        "logpdf": lambda x: math.log(2 / math.pi) + (sc.log_expit(2 * x) + sc.log_expit(-2 * x)) / 2
    },
    "invgauss": {**_INVGAUSS, **_NUMERICAL, "logcdf": None},
    "invweibull": {
        "logpdf": lambda x, c: np.log(c) - (c + 1) * np.log(x) - np.power(x, -c),
        "logcdf": lambda x, c: -np.power(x, -c),
    },
    "kappa3": {"sf": lambda x, a: -np.expm1(-np.log1p(a * np.power(x, -a)) / a)},
    "levy": {
        "logpdf": lambda x: -0.5 * LOG_2PI - 1.5 * np.log(x) - 0.5 / x,
        "entropy": lambda: (1 + 3 * float(np.euler_gamma) + math.log(16 * math.pi)) / 2,
    },
    "logistic": {"logpdf": lambda x: sc.log_expit(x) + sc.log_expit(-x)},
    "moyal": {"logpdf": lambda x: -0.5 * (x + np.exp(-x)) - 0.5 * LOG_2PI},
    "nbinom": {
        "logcdf": None,
        "cdf": lambda k, n, p: sc.betainc(n, k + 1.0, p),
        "sf": lambda k, n, p: sc.betaincc(n, k + 1.0, p),
        "mean": lambda n, p: n * (1 - p) / p,
        "var": lambda n, p: n * (1 - p) / p**2,
    },
    "norminvgauss": {
        "logpdf": lambda x, a, b: (
            np.log(a / math.pi)
            + np.log(sc.k1e(a * np.hypot(1, x)))
            + b * x
            - a * np.hypot(1, x)
            + np.sqrt(a * a - b * b)
            - np.log(np.hypot(1, x))
        ),
        "sf": None,
    },
    "rdist": {"ppf": lambda q, c: 2 * sc.betaincinv(c / 2, c / 2, q) - 1},
    "rice": {"logpdf": lambda x, b: np.log(x) - (x - b) ** 2 / 2 + _log_i0e(x * b)},
    "semicircular": {"ppf": lambda q: 2 * sc.betaincinv(1.5, 1.5, q) - 1},
    "skellam": {"cdf": _skellam_cdf},
    "skewnorm": {
        "cdf": _skewnorm_cdf,
        "sf": lambda x, a: _skewnorm_cdf(-x, -a),
        "logcdf": _skewnorm_logcdf,
        "logsf": lambda x, a: _skewnorm_logcdf(-x, -a),
        **_NUMERICAL,
    },
    "truncnorm": {
        "logpdf": lambda x, a, b: _normal_logpdf(x) - _log_normal_probability(a, b),
        "logcdf": lambda x, a, b: _log_normal_probability(a, x) - _log_normal_probability(a, b),
        "logsf": lambda x, a, b: _log_normal_probability(x, b) - _log_normal_probability(a, b),
        "cdf": lambda x, a, b: np.exp(
            _log_normal_probability(a, x) - _log_normal_probability(a, b)
        ),
        "sf": lambda x, a, b: np.exp(_log_normal_probability(x, b) - _log_normal_probability(a, b)),
        "mean": lambda a, b: _truncnorm_parts(a, b)[0],
        "var": _truncnorm_variance,
        **_NUMERICAL,
    },
    "vonmises": {
        "logpdf": lambda x, k: k * sc.cosm1(x) - LOG_2PI - _log_i0e(k),
        "mean": lambda k: 0 * k,
        "cdf": None,
        "sf": None,
        "ppf": None,
        "isf": None,
    },
    "wald": {**_WALD, **_NUMERICAL, "logcdf": None},
}
# Distributions whose formulas are differentiated: of SciPy's others, some jump in a shape.
NAMES = frozenset(
    """
    alpha anglit arcsine bernoulli beta betabinom betanbinom betaprime binom boltzmann bradford burr
    burr12 cauchy chi chi2 cosine crystalball dgamma dlaplace dweibull erlang expon exponnorm
    exponpow exponweib f fatiguelife fisk foldcauchy foldnorm gamma gengamma genextreme genlogistic
    gennorm genpareto geom gibrat gompertz gumbel_l gumbel_r halfcauchy halfgennorm halflogistic
    halfnorm hypergeom hypsecant invgamma invgauss invweibull johnsonsb johnsonsu kappa3 laplace
    laplace_asymmetric levy loggamma logistic loglaplace lognorm logser loguniform lomax maxwell
    mielke moyal nakagami nbinom norm norminvgauss pareto planck poisson powerlaw randint rayleigh
    rdist reciprocal rice semicircular skellam skewcauchy skewnorm t triang truncexpon truncnorm
    uniform vonmises wald weibull_max weibull_min wrapcauchy yulesimon zipf
    """.split()  # noqa: SIM905
)
