"""Distribution functions and their inverses: chdtr, gdtr, fdtr, stdtr, bdtr, pdtr, Kolmogorov, ...

Each family states the derivatives of its distribution function once; `define_distribution` derives
those of the complement and of the inverses. SciPy rounds counts down:
they have no derivative. Derivatives in the degrees of freedom are by interpolation for noncentral
distributions, by quadrature for Student's t.
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
    cdf_derivatives,
    define_distribution,
    gamma_density,
    gamma_order,
    inverse_derivatives,
)
from tracker.ops.special.parameter_derivatives import above, slope_by_interpolation
from tracker.ops.special.table import ROUNDED_BY_SCIPY, define_ufunc, ufunc_named

# Gamma, chi square


def _gdtr(a: Any, b: Any, x: Any) -> Sequence[Any]:
    return (
        lambda: x * gamma_density(b, a * x),
        lambda: gamma_order(b, a * x),
        lambda: a * gamma_density(b, a * x),
    )


def _chdtr(v: Any, x: Any) -> Sequence[Any]:
    return lambda: 0.5 * gamma_order(v / 2, x / 2), lambda: 0.5 * gamma_density(v / 2, x / 2)


define_distribution(_gdtr, "gdtr", "gdtrc", gdtria=0, gdtrib=1, gdtrix=2)
define_distribution(_chdtr, "chdtr", "chdtrc", chdtriv=0)
define_ufunc("chdtri", *inverse_derivatives(_chdtr, 1, 2, -1))

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


define_distribution(_fdtr, "fdtr", "fdtrc", fdtridfd=1, fdtri=2)


def _t_density(n: Any, t: Any) -> Any:
    log = -0.5 * (n + 1) * np.log1p(np.square(t) / n) - sc.betaln(0.5, 0.5 * n)
    return np.exp(log) / np.sqrt(n)


def _t_freedom(n: Any, t: Any) -> Any:
    """For t < 0 by I_w(n / 2, 1 / 2) / 2 with w = n / (n + t**2), for t > 0 by symmetry; at 0, the
    first term of its series in t, which is odd."""
    nonzero = t != 0
    square = np.square(np.where(nonzero, t, 1.0))
    total = n + square
    w, rest = n / total, square / total
    inside = 0.5 * beta_order(0.5 * n, 0.5 + 0 * n, w, rest)
    inside = inside + beta_density(0.5 * n, 0.5 + 0 * n, w, rest) * rest / total
    at_zero = np.where(nonzero, 0.0, t) * _t_density(n, 0 * t)
    at_zero = at_zero * 0.5 * (sc.psi(0.5 * n + 0.5) - sc.psi(0.5 * n) - 1 / n)
    return np.where(nonzero, -0.5 * np.sign(t) * inside, at_zero)


def _stdtr(n: Any, t: Any) -> Sequence[Any]:
    return lambda: _t_freedom(n, t), lambda: _t_density(n, t)


define_distribution(_stdtr, "stdtr", stdtridf=0, stdtrit=1)

# Counts

_COUNT, _TRIALS = f"k, {ROUNDED_BY_SCIPY}", f"n, {ROUNDED_BY_SCIPY}"


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


def _floor_counts(parts: Any) -> Any:
    """Round counts down, as SciPy does."""
    return lambda *xs: parts(*map(np.floor, xs[:-1]), xs[-1])


_binomial_counts, _negative_binomial_counts, _poisson_counts = map(
    _floor_counts, (_binomial, _negative_binomial, _poisson)
)


def _above_zero(slope: Any) -> Any:
    """0 where SciPy returns the count 0 because no count has so small a probability."""
    return lambda y, *xs: np.where(y > 0, slope(np.where(y > 0, y, 1.0), *xs), 0.0)


define_ufunc("bdtr", _COUNT, _TRIALS, cdf_derivatives(_binomial_counts, 3)[2])
define_ufunc("bdtrc", _COUNT, _TRIALS, cdf_derivatives(_binomial_counts, 3, -1)[2])
define_ufunc("bdtri", _COUNT, _TRIALS, inverse_derivatives(_binomial_counts, 2, 3)[2])
define_ufunc("bdtrik", *inverse_derivatives(_binomial, 0, 3))
define_ufunc("bdtrin", *inverse_derivatives(_binomial, 1, 3))
define_ufunc("nbdtr", _COUNT, _TRIALS, cdf_derivatives(_negative_binomial_counts, 3)[2])
define_ufunc("nbdtrc", _COUNT, _TRIALS, cdf_derivatives(_negative_binomial_counts, 3, -1)[2])
define_ufunc("nbdtri", _COUNT, _TRIALS, inverse_derivatives(_negative_binomial_counts, 2, 3)[2])
define_ufunc("nbdtrik", *inverse_derivatives(_negative_binomial, 0, 3))
define_ufunc("nbdtrin", *inverse_derivatives(_negative_binomial, 1, 3))
define_ufunc("pdtr", _COUNT, cdf_derivatives(_poisson_counts, 2)[1])
define_ufunc("pdtrc", _COUNT, cdf_derivatives(_poisson_counts, 2, -1)[1])
define_ufunc("pdtri", _COUNT, inverse_derivatives(_poisson_counts, 1, 2)[1])
define_ufunc("pdtrik", *(_above_zero(slope) for slope in inverse_derivatives(_poisson, 0, 2)))

# Noncentral distributions: mixtures with Poisson weights


def _chi_density(x: Any, k: Any, c: Any) -> Any:
    """The density of the noncentral chi square distribution, by a Bessel function; central where c
    is 0."""
    central = c == 0
    d = np.where(central, 1.0, c)
    root, root_c = np.sqrt(x), np.sqrt(d)
    body = 0.5 * np.exp(-0.5 * np.square(root - root_c)) * np.power(x / d, k / 4 - 0.5)
    plain = 0.5 * gamma_density(k / 2, x / 2)
    return np.where(central, plain, body * sc.ive(k / 2 - 1, root * root_c))


_chi_freedom = slope_by_interpolation(sc.chndtr, 1, above(0))


def _chndtr(x: Any, k: Any, c: Any) -> Sequence[Any]:
    return (
        lambda: _chi_density(x, k, c),
        lambda: _chi_freedom(x, k, c),
        lambda: -_chi_density(x, k + 2, c),
    )


define_distribution(_chndtr, "chndtr", chndtrix=0, chndtridf=1, chndtrinc=2)


def _f_noncentral(n: Any, d: Any, c: Any, f: Any) -> tuple[Any, Any]:
    """The derivatives of ncfdtr in nc and f."""
    a, b = n / 2, d / 2
    total = d + n * f
    w, rest = n * f / total, d / total
    body = np.exp(-c / 2 + a * np.log(w) + b * np.log(rest) - sc.betaln(a, b))
    by_c = -0.5 * body / a * sc.hyp1f1(a + b, a + 1, c * w / 2)
    return by_c, body * sc.hyp1f1(a + b, a, c * w / 2) / f


_f_freedom = [slope_by_interpolation(sc.ncfdtr, at, above(0)) for at in (0, 1)]


def _ncfdtr(n: Any, d: Any, c: Any, f: Any) -> Sequence[Any]:
    return (
        lambda: _f_freedom[0](n, d, c, f),
        lambda: _f_freedom[1](n, d, c, f),
        lambda: _f_noncentral(n, d, c, f)[0],
        lambda: _f_noncentral(n, d, c, f)[1],
    )


define_distribution(_ncfdtr, "ncfdtr", ncfdtridfn=0, ncfdtridfd=1, ncfdtrinc=2, ncfdtri=3)


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


_GAUSS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(32)
_PANELS = np.array([-400.0, -60.0, -15.0, -5.0, -1.5, 1.5, 5.0, 15.0, 60.0, 400.0])


def _t_shape(n: Any, c: Any, t: Any) -> Any:
    """The derivative of nctdtr in n.

    nctdtr is E[Phi(t s - c)], where n s**2 has the chi square distribution of n. Its derivative is
    the integral of Phi(t s - c) - Phi(t - c) against the derivative of that density, which has no
    mass. The integral is taken over u = log s, in panels around the points where both factors
    change.
    """
    n, c, t = (np.expand_dims(x, (-1, -2)) for x in (n, c, t))
    low, high = -80 / n - 13 / np.sqrt(n), 0.5 * np.log1p(160 / n + 26 / np.sqrt(n))
    size = np.abs(t)
    u_of_step = np.log(np.maximum(c * np.sign(t), 1.0) / np.maximum(size, 1e-300))
    density_edges = np.clip(_PANELS[:, None] * 0.5 / np.sqrt(n), low, high)
    step_edges = np.clip(u_of_step + _PANELS[:, None] / (1 + np.abs(c)), low, high)
    edges = np.sort(
        np.concatenate(np.broadcast_arrays(low, density_edges, step_edges, high), axis=-2), axis=-2
    )
    half = 0.5 * np.diff(edges, axis=-2)
    u = edges[..., :-1, :] + half + half * _GAUSS
    s, away = np.exp(u), np.expm1(u)
    score = 0.5 * (np.log(n / 2) - sc.psi(n / 2) - away * (s + 1) + 2 * u)
    log = n * (u - 0.5 * away * (s + 1)) + n / 2 * (np.log(n / 2) - 1) - sc.gammaln(n / 2)
    right = t > c
    sign = np.where(right, -1.0, 1.0)
    difference = sign * (sc.ndtr(sign * (t * s - c)) - sc.ndtr(sign * (t - c)))
    return np.sum(half * _GAUSS_WEIGHTS * 2 * np.exp(log) * score * difference, axis=(-1, -2))


def _nctdtr(n: Any, c: Any, t: Any) -> Sequence[Any]:
    return (
        lambda: _t_shape(n, c, t),
        lambda: -_moment(n, n, c, t),
        lambda: _moment(n + 1, n, c, t) / np.sqrt(n),
    )


define_distribution(_nctdtr, "nctdtr", nctdtridf=0, nctdtrinc=1, nctdtrit=2)

# Kolmogorov and Smirnov, Tukey


def _kolmogorov_slope(y: Any) -> Any:
    """The derivative of 2 sum (-1)**(k-1) exp(-2 k**2 y**2); for small y of its theta transform."""
    is_positive = y > 0
    is_large = y > 0.8
    z = np.where(is_positive & np.logical_not(is_large), y, 0.5)
    x = np.where(is_large, y, 1.0)
    series: Any = 0.0
    transformed: Any = 0.0
    for k in range(1, 7):
        series = series + (-1) ** k * 8 * k * k * x * np.exp(-2 * k * k * np.square(x))
        w = (2 * k - 1) ** 2 * math.pi**2 / 8 / np.square(z)
        transformed = transformed - math.sqrt(2 * math.pi) * np.exp(-w) * (2 * w - 1) / np.square(z)
    return np.where(is_large, series, np.where(is_positive, transformed, 0.0))


define_ufunc("kolmogorov", lambda p, y: _kolmogorov_slope(y))
define_ufunc("kolmogi", lambda y, p: 1 / _kolmogorov_slope(y))
define_ufunc("_smirnovp", _TRIALS, "d, a second time")
define_ufunc("smirnov", _TRIALS, lambda p, n, d: _smirnovp(n, d))
define_ufunc("smirnovi", _TRIALS, lambda d, n, p: 1 / _smirnovp(n, d))


def _smirnovp(n: Any, d: Any) -> Any:
    return ufunc_named("_smirnovp")(n, d)  # type: ignore[misc]


def _tukey_density(x: Any, lam: Any) -> Any:
    """The support is -1 / lam to 1 / lam for lam > 0."""
    p = sc.tklmbda(x, lam)
    inside = (p > 0) & (p < 1)
    p = np.where(inside, p, 0.5)
    return np.where(inside, 1 / (np.power(p, lam - 1) + np.power(1 - p, lam - 1)), 0.0)


def _tukey_shape(x: Any, lam: Any) -> Any:
    """The derivative in lam of x = (p**lam - (1-p)**lam) / lam, at fixed x."""
    p = sc.tklmbda(x, lam)
    p = np.where((p > 0) & (p < 1), p, 0.5)
    by_shape = power_slope(np.log(p), lam) - power_slope(np.log(1 - p), lam)
    return -by_shape * _tukey_density(x, lam)


define_ufunc(
    "tklmbda", lambda y, x, lam: _tukey_density(x, lam), lambda y, x, lam: _tukey_shape(x, lam)
)
