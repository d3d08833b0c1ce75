"""Exponential integrals, hypergeometric functions, orthogonal polynomials, Lambert's W."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.parameter_derivatives import above, between_poles, by_interpolation
from tracker.ops.special.table import (
    ROUNDED_BY_SCIPY,
    define_ufunc,
    define_ufunc_results,
    ufunc_named,
)

Function = Callable[..., Any]

define_ufunc("exp1", lambda y, x: -np.exp(-x) / x)
define_ufunc("expi", lambda y, x: np.exp(x) / x)


def _expn_slope(y: Any, n: Any, x: Any) -> Any:
    below = sc.expn(np.maximum(n - 1, 0), x)
    return -np.where(n < 1, (np.exp(-x) + y) / x, below)  # E_-1, by recurrence


define_ufunc("expn", f"n, the order, {ROUNDED_BY_SCIPY}", _expn_slope)


def _sinhc(x: Any) -> Any:
    """sinh(x) / x, smooth at 0; sin(ix) / ix for complex numbers, which SciPy's exprel does not
    take."""
    if np.iscomplexobj(x):
        return np.sinc(1j * x / math.pi)
    return 0.5 * (sc.exprel(x) + sc.exprel(-x))


define_ufunc_results(
    "shichi", ("shi", "chi"), [lambda y, x: _sinhc(x)], [lambda y, x: np.cosh(x) / x]
)
define_ufunc_results(
    "sici", ("si", "ci"), [lambda y, x: np.sinc(x / math.pi)], [lambda y, x: np.cos(x) / x]
)


def _spence_slope(y: Any, z: Any) -> Any:
    """log(z) / (1 - z), by its series around 1."""
    w = z - 1
    near = np.abs(w) < 0.1
    small, safe = np.where(near, w, 0.0), np.where(near, 2.0, z)
    series: Any = 0.0
    for k in range(18, 0, -1):
        series = 1 / k - small * series
    return np.where(near, -series, np.log(safe) / (1 - safe))


define_ufunc("spence", _spence_slope)

# Hypergeometric

_U = "of which SciPy's values are not exact enough"  # few digits, or NaN, at many points


define_ufunc(
    "hyp0f1", by_interpolation(sc.hyp0f1, 0, between_poles), lambda y, v, z: sc.hyp0f1(v + 1, z) / v
)
define_ufunc(
    "hyp1f1",
    by_interpolation(sc.hyp1f1, 0),
    by_interpolation(sc.hyp1f1, 1, between_poles),
    lambda y, a, b, x: a / b * sc.hyp1f1(a + 1, b + 1, x),
)
define_ufunc(
    "hyperu",
    f"a, a parameter, {_U}",
    f"b, a parameter, {_U}",
    lambda y, a, b, x: -a * sc.hyperu(a + 1, b + 1, x),
)
define_ufunc(
    "hyp2f1",
    by_interpolation(sc.hyp2f1, 0),
    by_interpolation(sc.hyp2f1, 1),
    by_interpolation(sc.hyp2f1, 2, between_poles),
    lambda y, a, b, c, z: a * b / c * sc.hyp2f1(a + 1, b + 1, c + 1, z),
)
for _wright, _wright_slope in (
    (sc.wright_bessel, lambda y, a, b, x: sc.wright_bessel(a, a + b, x)),
    (sc.log_wright_bessel, lambda y, a, b, x: np.exp(sc.log_wright_bessel(a, a + b, x) - y)),
):
    define_ufunc(
        _wright.__name__,
        by_interpolation(_wright, 0, above(0)),
        by_interpolation(_wright, 1, above(0)),
        _wright_slope,
    )
define_ufunc(
    "lpmv",
    f"m, the order, {ROUNDED_BY_SCIPY}",
    by_interpolation(sc.lpmv, 1),
    lambda y, m, v, x: ((v + m) * sc.lpmv(m, v - 1, x) - v * x * y) / (1 - np.square(x)),
)

# Lambert's W, Wright's omega

define_ufunc(
    "_lambertw",
    lambda w, z, k, tol: np.exp(-w) / (1 + w),
    "k, the branch, a whole number",
    "tol, a tolerance",
)
define_ufunc("wrightomega", lambda w, z: w / (1 + w))

# Orthogonal polynomials; the degree may be real, except Hermite's

_N = f"n, the degree, {ROUNDED_BY_SCIPY}"


_ABOVE_MINUS_ONE = above(-1)  # where most weight functions can be integrated


def _define_polynomial(name: str, slope: Function, reach: Function = _ABOVE_MINUS_ONE) -> None:
    """Declare an orthogonal polynomial from its derivative in x. Those in the degree, the first
    argument, and in parameters of the weight function, within this reach, are by interpolation."""
    f = ufunc_named(f"eval_{name}")
    assert f is not None
    parameters = [by_interpolation(f, at, reach) for at in range(1, f.nin - 1)]
    define_ufunc(f.__name__, by_interpolation(f, 0), *parameters, lambda y, *xs: slope(*xs))


def _shifted(f: Function) -> Function:
    return lambda n, *rest: 2 * f(n, *rest[:-1], 2 * rest[-1] - 1)


def _of_degree(n: Any, slope: Callable[[Any], Any]) -> Any:
    """`slope` of the degree, but 0 for degree 0: polynomials of degree -1 are NaN at some
    points."""
    is_constant = n == 0
    return np.where(is_constant, 0.0, slope(np.where(is_constant, 1, n)))[()]


def _jacobi(n: Any, a: Any, b: Any, x: Any) -> Any:
    return _of_degree(n, lambda n: 0.5 * (n + a + b + 1) * sc.eval_jacobi(n - 1, a + 1, b + 1, x))


def _gegenbauer(n: Any, a: Any, x: Any) -> Any:
    return _of_degree(n, lambda n: 2 * a * sc.eval_gegenbauer(n - 1, a + 1, x))


def _laguerre(n: Any, a: Any, x: Any) -> Any:
    return -sc.eval_genlaguerre(n - 1, a + 1, x)


def _legendre(n: Any, x: Any) -> Any:
    return _jacobi(np.maximum(n, -1 - n), 0.0, 0.0, x)  # degree -1 - n is the same polynomial


def _chebyshev_t(n: Any, x: Any) -> Any:
    return _of_degree(np.abs(n), lambda n: n * sc.eval_chebyu(n - 1, x))


def _chebyshev_u(n: Any, x: Any) -> Any:
    mirrored = n < -1  # degree -2 - n is the negative
    slope = _gegenbauer(np.where(mirrored, -2 - n, n), 1.0, x)
    return np.where(n == -1, 0.0, np.where(mirrored, -slope, slope))[()]


def _sh_jacobi(n: Any, p: Any, q: Any, x: Any) -> Any:
    """G_n^(p, q)(x) = P_n^(p - q, q - 1)(2 x - 1) / binom(2 n + p - 1, n)."""
    slope = 2 * _jacobi(n, p - q, q - 1, 2 * x - 1)
    return slope / sc.binom(2 * n + p - 1, n)


def _sh_reach(own: Any, n: Any, p: Any, q: Any, x: Any) -> Any:
    return 0.5 * np.minimum(1.0, np.minimum(p - q + 1, q))


_define_polynomial("legendre", _legendre)
_define_polynomial("chebyt", _chebyshev_t)
_define_polynomial("chebyu", _chebyshev_u)
_define_polynomial("chebyc", lambda n, x: _chebyshev_t(n, x / 2))
_define_polynomial("chebys", lambda n, x: 0.5 * _chebyshev_u(n, x / 2))
_define_polynomial("sh_legendre", _shifted(_legendre))
_define_polynomial("sh_chebyt", _shifted(_chebyshev_t))
_define_polynomial("sh_chebyu", _shifted(_chebyshev_u))
_define_polynomial("laguerre", lambda n, x: _laguerre(n, 0.0, x))
_define_polynomial("genlaguerre", _laguerre)
_define_polynomial("gegenbauer", _gegenbauer, above(-0.5))
_define_polynomial("jacobi", _jacobi)
_define_polynomial("sh_jacobi", _sh_jacobi, _sh_reach)
define_ufunc("eval_hermite", _N, lambda y, n, x: 2 * n * sc.eval_hermite(np.maximum(n - 1, 0), x))
define_ufunc(
    "eval_hermitenorm", _N, lambda y, n, x: n * sc.eval_hermitenorm(np.maximum(n - 1, 0), x)
)
