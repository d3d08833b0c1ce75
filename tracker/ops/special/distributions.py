"""Distribution functions and their inverses: chdtr, gdtr, fdtr, stdtr, bdtr, pdtr, Kolmogorov, ...

Each family says once what the derivatives of its distribution function are (`..._parts`); the
complement and the inverses follow (`slopes`, `inverse`). Counts are rounded down by SciPy: there is
no derivative in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.elementary import power_slope
from tracker.ops.special.incomplete import (
    beta_density,
    beta_order,
    beta_order_b,
    gamma_density,
    gamma_order,
    inverse,
    slopes,
)
from tracker.ops.special.table import function, ufunc_named

# Gamma, chi square


def _gdtr(a: Any, b: Any, x: Any) -> Sequence[Any]:
    return (
        lambda: x * gamma_density(b, a * x),
        lambda: gamma_order(b, a * x),
        lambda: a * gamma_density(b, a * x),
    )


def _chdtr(v: Any, x: Any) -> Sequence[Any]:
    return lambda: 0.5 * gamma_order(v / 2, x / 2), lambda: 0.5 * gamma_density(v / 2, x / 2)


function("gdtr", *slopes(_gdtr, 3))
function("gdtrc", *slopes(_gdtr, 3, -1))
function("gdtria", *inverse(_gdtr, 0, 3))
function("gdtrib", *inverse(_gdtr, 1, 3))
function("gdtrix", *inverse(_gdtr, 2, 3))
function("chdtr", *slopes(_chdtr, 2))
function("chdtrc", *slopes(_chdtr, 2, -1))
function("chdtri", *inverse(_chdtr, 1, 2, -1))
function("chdtriv", *inverse(_chdtr, 0, 2))

# F, Student's t


def _fdtr(n: Any, d: Any, x: Any) -> Sequence[Any]:
    total = d + n * x
    w, rest = n * x / total, d / total

    def density() -> Any:
        return beta_density(n / 2, d / 2, w, rest) * w * rest

    return (
        lambda: 0.5 * beta_order(n / 2, d / 2, w, rest) + density() / n,
        lambda: 0.5 * beta_order_b(n / 2, d / 2, w, rest) - density() / d,
        lambda: beta_density(n / 2, d / 2, w, rest) * rest * n / total,
    )


function("fdtr", *slopes(_fdtr, 3))
function("fdtrc", *slopes(_fdtr, 3, -1))
function("fdtri", *inverse(_fdtr, 2, 3))
function("fdtridfd", *inverse(_fdtr, 1, 3))


def _t_density(n: Any, t: Any) -> Any:
    log = -0.5 * (n + 1) * np.log1p(np.square(t) / n) - sc.betaln(0.5, 0.5 * n)
    return np.exp(log) / np.sqrt(n)


def _t_freedom(n: Any, t: Any) -> Any:
    """As I_w(n / 2, 1 / 2) / 2 with w = n / (n + t**2) for t < 0, and its mirror for t > 0. At 0,
    the first term of its series in t, which is odd."""
    away = t != 0
    square = np.square(np.where(away, t, 1.0))
    total = n + square
    w, rest = n / total, square / total
    inside = 0.5 * beta_order(0.5 * n, 0.5 + 0 * n, w, rest)
    inside = inside + beta_density(0.5 * n, 0.5 + 0 * n, w, rest) * rest / total
    middle = np.where(away, 0.0, t) * _t_density(n, 0 * t)
    middle = middle * 0.5 * (sc.psi(0.5 * n + 0.5) - sc.psi(0.5 * n) - 1 / n)
    return np.where(away, -0.5 * np.sign(t) * inside, middle)


def _stdtr(n: Any, t: Any) -> Sequence[Any]:
    return lambda: _t_freedom(n, t), lambda: _t_density(n, t)


function("stdtr", *slopes(_stdtr, 2))
function("stdtrit", *inverse(_stdtr, 1, 2))
function("stdtridf", *inverse(_stdtr, 0, 2))

# Counts

_COUNT, _TRIALS = "k, a count", "n, a count"


def _binomial(k: Any, n: Any, p: Any) -> Sequence[Any]:
    """F = I_{1-p}(n - k, k + 1), for any real k and n."""
    a, b, x = n - k, k + 1, 1 - p
    return (
        lambda: beta_order_b(a, b, x, p) - beta_order(a, b, x, p),
        lambda: beta_order(a, b, x, p),
        lambda: -beta_density(a, b, x, p),
    )


def _negative_binomial(k: Any, n: Any, p: Any) -> Sequence[Any]:
    """F = I_p(n, k + 1)."""
    return (
        lambda: beta_order_b(n, k + 1, p),
        lambda: beta_order(n, k + 1, p),
        lambda: beta_density(n, k + 1, p),
    )


def _poisson(k: Any, m: Any) -> Sequence[Any]:
    """F = Q(k + 1, m)."""
    return lambda: -gamma_order(k + 1, m), lambda: -gamma_density(k + 1, m)


def _whole(parts: Any) -> Any:
    """Counts rounded down, as SciPy does."""
    return lambda *xs: parts(*map(np.floor, xs[:-1]), xs[-1])


_last_b, _last_n, _last_p = _whole(_binomial), _whole(_negative_binomial), _whole(_poisson)


def _above_zero(slope: Any) -> Any:
    """Where no count has so small a probability, SciPy gives the count 0."""
    return lambda y, *xs: np.where(y > 0, slope(np.where(y > 0, y, 1.0), *xs), 0.0)


function("bdtr", _COUNT, _TRIALS, slopes(_last_b, 3)[2])
function("bdtrc", _COUNT, _TRIALS, slopes(_last_b, 3, -1)[2])
function("bdtri", _COUNT, _TRIALS, inverse(_last_b, 2, 3)[2])
function("bdtrik", *inverse(_binomial, 0, 3))
function("bdtrin", *inverse(_binomial, 1, 3))
function("nbdtr", _COUNT, _TRIALS, slopes(_last_n, 3)[2])
function("nbdtrc", _COUNT, _TRIALS, slopes(_last_n, 3, -1)[2])
function("nbdtri", _COUNT, _TRIALS, inverse(_last_n, 2, 3)[2])
function("nbdtrik", *inverse(_negative_binomial, 0, 3))
function("nbdtrin", *inverse(_negative_binomial, 1, 3))
function("pdtr", _COUNT, slopes(_last_p, 2)[1])
function("pdtrc", _COUNT, slopes(_last_p, 2, -1)[1])
function("pdtri", _COUNT, inverse(_last_p, 1, 2)[1])
function("pdtrik", *(_above_zero(slope) for slope in inverse(_poisson, 0, 2)))

# Not central: mixtures with Poisson weights


def _chi_density(x: Any, k: Any, c: Any) -> Any:
    """Of the noncentral chi square distribution: a Bessel function; central where c is 0."""
    central = c == 0
    d = np.where(central, 1.0, c)
    root, own = np.sqrt(x), np.sqrt(d)
    body = 0.5 * np.exp(-0.5 * np.square(root - own)) * np.power(x / d, k / 4 - 0.5)
    plain = 0.5 * gamma_density(k / 2, x / 2)
    return np.where(central, plain, body * sc.ive(k / 2 - 1, root * own))


def _ratio(top: int, bottom: int, sign: int) -> Any:
    """Of densities with two more degrees of freedom (numbers 2) or not (0)."""

    def of(x: Any, k: Any, c: Any) -> Any:
        return sign * _chi_density(x, k + top, c) / _chi_density(x, k + bottom, c)

    return of


_FREEDOM = "df, the degrees of freedom"
_more, _less = _ratio(2, 0, 1), _ratio(0, 2, 1)
function(
    "chndtr",
    lambda y, x, k, c: _chi_density(x, k, c),
    _FREEDOM,
    lambda y, x, k, c: -_chi_density(x, k + 2, c),
)
function(
    "chndtrix",
    lambda x, p, k, c: 1 / _chi_density(x, k, c),
    _FREEDOM,
    lambda x, p, k, c: _more(x, k, c),
)
function(
    "chndtrinc",
    lambda c, x, k, p: _less(x, k, c),
    _FREEDOM,
    lambda c, x, k, p: -1 / _chi_density(x, k + 2, c),
)
function(
    "chndtridf", "x, of the inverse in df", "p, of the inverse in df", "nc, of the inverse in df"
)


def _f_noncentral(n: Any, d: Any, c: Any, f: Any) -> tuple[Any, Any]:
    """The derivatives of ncfdtr in nc and f."""
    a, b = n / 2, d / 2
    total = d + n * f
    w, rest = n * f / total, d / total
    body = np.exp(-c / 2 + a * np.log(w) + b * np.log(rest) - sc.betaln(a, b))
    by_c = -0.5 * body / a * sc.hyp1f1(a + b, a + 1, c * w / 2)
    return by_c, body * sc.hyp1f1(a + b, a, c * w / 2) / f


_OTHER = "dfn, a degree of freedom", "dfd, a degree of freedom"
function(
    "ncfdtr",
    *_OTHER,
    lambda y, n, d, c, f: _f_noncentral(n, d, c, f)[0],
    lambda y, n, d, c, f: _f_noncentral(n, d, c, f)[1],
)
function(
    "ncfdtri",
    *_OTHER,
    lambda f, n, d, c, p: -_f_noncentral(n, d, c, f)[0] / _f_noncentral(n, d, c, f)[1],
    lambda f, n, d, c, p: 1 / _f_noncentral(n, d, c, f)[1],
)
function(
    "ncfdtrinc",
    *_OTHER,
    lambda c, n, d, p, f: 1 / _f_noncentral(n, d, c, f)[0],
    lambda c, n, d, p, f: -_f_noncentral(n, d, c, f)[1] / _f_noncentral(n, d, c, f)[0],
)
function("ncfdtridfd", *(f"{v}, of the inverse in dfd" for v in ("dfn", "p", "nc", "f")))
function("ncfdtridfn", *(f"{v}, of the inverse in dfn" for v in ("p", "dfd", "nc", "f")))


def _moment(m: Any, n: Any, c: Any, t: Any) -> Any:
    """E[s**(m - n) phi(t s / sqrt(n) - c)], where s has the chi distribution of n."""
    wide = 1 + np.square(t) / n
    u = c * t / np.sqrt(n * wide)
    w = np.square(u) / 2
    even = sc.hyp1f1(m / 2, 0.5, w)
    odd = math.sqrt(2) * u * np.exp(sc.gammaln((m + 1) / 2) - sc.gammaln(m / 2))
    both = even + odd * sc.hyp1f1((m + 1) / 2, 1.5, w)
    log = sc.gammaln(m / 2) - sc.gammaln(n / 2) + 0.5 * (m - n) * math.log(2)
    log = log - 0.5 * np.square(c) - 0.5 * m * np.log(wide)
    return np.exp(log) * both / math.sqrt(2 * math.pi)


def _t_noncentral(n: Any, c: Any, t: Any) -> tuple[Any, Any]:
    """The derivatives of nctdtr in nc and t."""
    return -_moment(n, n, c, t), _moment(n + 1, n, c, t) / np.sqrt(n)


function(
    "nctdtr",
    _FREEDOM,
    lambda y, n, c, t: _t_noncentral(n, c, t)[0],
    lambda y, n, c, t: _t_noncentral(n, c, t)[1],
)
function(
    "nctdtrit",
    _FREEDOM,
    lambda t, n, c, p: -_t_noncentral(n, c, t)[0] / _t_noncentral(n, c, t)[1],
    lambda t, n, c, p: 1 / _t_noncentral(n, c, t)[1],
)
function(
    "nctdtrinc",
    _FREEDOM,
    lambda c, n, p, t: 1 / _t_noncentral(n, c, t)[0],
    lambda c, n, p, t: -_t_noncentral(n, c, t)[1] / _t_noncentral(n, c, t)[0],
)
function("nctdtridf", *(f"{v}, of the inverse in df" for v in ("p", "nc", "t")))

# Kolmogorov and Smirnov, Tukey


def _kolmogorov_slope(y: Any) -> Any:
    """Of 2 sum (-1)**(k-1) exp(-2 k**2 y**2); for small y of its theta transform."""
    inside = y > 0
    large = y > 0.8
    z = np.where(inside & ~large, y, 0.5)
    x = np.where(large, y, 1.0)
    sum_: Any = 0.0
    other: Any = 0.0
    for k in range(1, 7):
        sum_ = sum_ + (-1) ** k * 8 * k * k * x * np.exp(-2 * k * k * np.square(x))
        w = (2 * k - 1) ** 2 * math.pi**2 / 8 / np.square(z)
        other = other - math.sqrt(2 * math.pi) * np.exp(-w) * (2 * w - 1) / np.square(z)
    return np.where(large, sum_, np.where(inside, other, 0.0))


function("kolmogorov", lambda p, y: _kolmogorov_slope(y))
function("kolmogi", lambda y, p: 1 / _kolmogorov_slope(y))
function("_smirnovp", "n, a count", "d, a second time")
function("smirnov", "n, a count", lambda p, n, d: _smirnovp(n, d))
function("smirnovi", "n, a count", lambda d, n, p: 1 / _smirnovp(n, d))


def _smirnovp(n: Any, d: Any) -> Any:
    return ufunc_named("_smirnovp")(n, d)  # type: ignore[misc]


def _tukey_density(x: Any, lam: Any) -> Any:
    """With lam > 0, there is nothing outside of -1 / lam to 1 / lam."""
    p = sc.tklmbda(x, lam)
    inside = (p > 0) & (p < 1)
    p = np.where(inside, p, 0.5)
    return np.where(inside, 1 / (np.power(p, lam - 1) + np.power(1 - p, lam - 1)), 0.0)


def _tukey_shape(x: Any, lam: Any) -> Any:
    """x = (p**lam - (1-p)**lam) / lam at fixed x."""
    p = sc.tklmbda(x, lam)
    p = np.where((p > 0) & (p < 1), p, 0.5)
    by_shape = power_slope(np.log(p), lam) - power_slope(np.log(1 - p), lam)
    return -by_shape * _tukey_density(x, lam)


function(
    "tklmbda", lambda y, x, lam: _tukey_density(x, lam), lambda y, x, lam: _tukey_shape(x, lam)
)
