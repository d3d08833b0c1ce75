"""Elliptic integrals and functions.

Derivatives of K, E, F are Carlson's R_D, without cancellation (DLMF 19.25). Those of Carlson's
integrals are integrals of the same kind, by the trapezoidal rule in log t, which converges
exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.table import define_ufunc, define_ufunc_results

_STEP = 0.5
_T = np.exp(np.arange(-160.0, 120.0, _STEP))


def _carlson(scale: float, powers: Sequence[float], *xs: Any, more: int = 0) -> Any:
    """scale times the integral over t > 0 of t**more times the product of (t + x_i)**(-power_i)."""
    total: Any = _STEP * scale * _T ** (1 + more)
    for power, x in zip(powers, xs, strict=True):
        total = total * np.power(_T + np.expand_dims(x, -1), -power)
    return np.sum(total, axis=-1)


def _carlson_derivative(scale: float, powers: Sequence[float], at: int, more: int = 0) -> Any:
    """The derivative, in argument `at`, of the integral with these powers."""
    raised = [p + (i == at) for i, p in enumerate(powers)]
    factor = -scale * powers[at]
    return lambda y, *xs: _nan_if_negative(xs, _carlson(factor, raised, *xs, more=more))


def _nan_if_negative(xs: Sequence[Any], value: Any) -> Any:
    """NaN where an argument is negative: a principal value, which has another derivative."""
    inside: Any = True
    for x in xs:
        inside = inside & ((np.real(x) >= 0) | (np.imag(x) != 0))
    return np.where(inside, value, math.nan)


_HALF = (0.5, 0.5, 0.5)


def _rf_derivative(at: int) -> Any:
    """R_F in argument `at`: R_D with that argument last."""

    def partial(y: Any, *xs: Any) -> Any:
        others = [x for i, x in enumerate(xs) if i != at]
        return -sc.elliprd(*others, xs[at]) / 6

    return partial


define_ufunc("elliprf", *map(_rf_derivative, range(3)))
define_ufunc("elliprc", *(_carlson_derivative(0.5, (0.5, 1.0), at) for at in range(2)))
define_ufunc("elliprd", *(_carlson_derivative(1.5, (0.5, 0.5, 1.5), at) for at in range(3)))
define_ufunc("elliprj", *(_carlson_derivative(1.5, (0.5, 0.5, 0.5, 1.0), at) for at in range(4)))
# R_G's derivative in x is 1/8 of the integral with one more power of t and of 1 / (t + x).
define_ufunc("elliprg", *(_carlson_derivative(-0.25, _HALF, at, more=1) for at in range(3)))

# Legendre's


def _reduce_amplitude(phi: Any) -> tuple[Any, Any, Any]:
    """phi as k half turns and a rest: k, sine and cosine of the rest."""
    k = np.rint(phi / math.pi)
    rest = phi - k * math.pi
    return k, np.sin(rest), np.cos(rest)


def _k_slope(m: Any) -> Any:
    return sc.elliprd(0 * m, 1 + 0 * m, 1 - m) / 6


def _e_slope(m: Any) -> Any:
    return -sc.elliprd(0 * m, 1 - m, 1 + 0 * m) / 6


def _f_modulus(phi: Any, m: Any) -> Any:
    k, s, c = _reduce_amplitude(phi)
    d = 1 - m * np.square(s)
    complete = np.where(k == 0, 0.0, 2 * k * _k_slope(np.where(k == 0, 0.0, m)))
    return complete + s**3 / 6 * sc.elliprd(np.square(c), 1 + 0 * d, d)


def _e_modulus(phi: Any, m: Any) -> Any:
    k, s, c = _reduce_amplitude(phi)
    d = 1 - m * np.square(s)
    complete = np.where(k == 0, 0.0, 2 * k * _e_slope(np.where(k == 0, 0.0, m)))
    return complete - s**3 / 6 * sc.elliprd(np.square(c), d, 1 + 0 * d)


def _delta(phi: Any, m: Any) -> Any:
    return np.sqrt(1 - m * np.square(np.sin(phi)))


define_ufunc("ellipk", lambda y, m: _k_slope(m))
define_ufunc("ellipkm1", lambda y, p: -sc.elliprd(0 * p, 1 + 0 * p, p) / 6)
define_ufunc("ellipe", lambda y, m: _e_slope(m))
define_ufunc("ellipkinc", lambda y, p, m: 1 / _delta(p, m), lambda y, p, m: _f_modulus(p, m))
define_ufunc("ellipeinc", lambda y, p, m: _delta(p, m), lambda y, p, m: _e_modulus(p, m))

# Jacobi's


def _jacobi_functions(u: Any, m: Any) -> tuple[Any, ...]:
    """sn, cn, dn and the derivative of the amplitude in m."""
    sn, cn, dn, amplitude = sc.ellipj(u, m)
    return sn, cn, dn, -dn * _f_modulus(amplitude, m)


def _sn(u: Any, m: Any) -> Any:
    _, cn, _, dphi = _jacobi_functions(u, m)
    return cn * dphi


def _cn(u: Any, m: Any) -> Any:
    sn, _, _, dphi = _jacobi_functions(u, m)
    return -sn * dphi


def _dn(u: Any, m: Any) -> Any:
    sn, cn, dn, dphi = _jacobi_functions(u, m)
    return -(np.square(sn) / 2 + m * sn * cn * dphi) / dn


define_ufunc_results(
    "ellipj",
    ("ellipj_sn", "ellipj_cn", "ellipj_dn", "ellipj_ph"),
    [lambda y, u, m: sc.ellipj(u, m)[1] * sc.ellipj(u, m)[2], lambda y, u, m: _sn(u, m)],
    [lambda y, u, m: -sc.ellipj(u, m)[0] * sc.ellipj(u, m)[2], lambda y, u, m: _cn(u, m)],
    [lambda y, u, m: -m * sc.ellipj(u, m)[0] * sc.ellipj(u, m)[1], lambda y, u, m: _dn(u, m)],
    [lambda y, u, m: sc.ellipj(u, m)[2], lambda y, u, m: _jacobi_functions(u, m)[3]],
)


def _agm_part(y: Any, a: Any, b: Any) -> Any:
    """agm(a, b) = pi / 2 / R_F(0, a**2, b**2), in a; for two negative numbers, minus that."""
    slope = sc.elliprd(0 * a, np.square(b), np.square(a)) * np.abs(a) / 3
    return np.square(y) * slope * 2 / math.pi


define_ufunc("agm", lambda y, a, b: _agm_part(y, a, b), lambda y, a, b: _agm_part(y, b, a))
