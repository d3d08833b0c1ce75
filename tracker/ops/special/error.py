"""The error function and related functions: erf, erfcx, dawsn, wofz, ndtr, owens_t, Fresnel, Voigt.

For large arguments, slopes of erfcx, dawsn and wofz are differences of nearly equal numbers; there
the asymptotic series (DLMF 7.12.1) is differentiated instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.declare.declare import map_lowering, smooth_op
from tracker.ops.declare.dtypes import infer_ufunc
from tracker.ops.special.table import define_ufunc, define_ufunc_results, math_call
from tracker.tape.record import apply, aval_of

ROOT_PI = math.sqrt(math.pi)
ROOT_2 = math.sqrt(2.0)
ROOT_2PI = math.sqrt(2 * math.pi)
_FAR = 10.0  # beyond this, `_asymptotic_slope` is accurate


def _asymptotic_slope(x: Any, sign: int) -> Any:
    """-x**2 times the derivative of (1/x) sum (2k-1)!! (sign / 2 x**2)**k, for large x."""
    w = sign / (2 * np.square(x))
    total: Any = 1.0
    for k in range(14, 0, -1):
        total = 1 + (2 * k + 1) * w * total
    return total


def _far_and_near(x: Any, far: Any) -> tuple[Any, Any, Any]:
    """The condition, and x where it holds and where it does not, with safe values elsewhere."""
    return far, np.where(far, x, 2 * _FAR), np.where(far, 0.0, x)


def _erfcx_slope(y: Any, x: Any) -> Any:
    far, out, near = _far_and_near(x, np.real(x) > _FAR)
    plain = 2 * near * np.where(far, 0.0, y) - 2 / ROOT_PI
    return np.where(far, -_asymptotic_slope(out, -1) / (ROOT_PI * np.square(out)), plain)


def _dawsn_slope(y: Any, x: Any) -> Any:
    if np.iscomplexobj(x):
        return 1 - 2 * x * y
    far, out, near = _far_and_near(x, np.abs(x) > _FAR)
    plain = 1 - 2 * near * np.where(far, 0.0, y)
    return np.where(far, -_asymptotic_slope(out, 1) / (2 * np.square(out)), plain)


def wofz_slope(w: Any, z: Any) -> Any:
    """The derivative of the Faddeeva function w at z."""
    far, out, near = _far_and_near(z, (np.abs(z) > _FAR) & (np.imag(z) >= 0))
    plain = -2 * near * np.where(far, 0.0, w) + 2j / ROOT_PI
    return np.where(far, -1j * _asymptotic_slope(out, 1) / (ROOT_PI * np.square(out)), plain)


def normal_density(x: Any) -> Any:
    return np.exp(-0.5 * np.square(x)) / ROOT_2PI


def _mills_slope(m: Any, x: Any) -> Any:
    """-m (x + m) for x > 0; elsewhere x and m cancel, but erfcx does not overflow."""
    right = np.real(x) > 0
    z = np.where(right, 0.0, x) / -ROOT_2
    scaled = sc.erfcx(z)
    left = _erfcx_slope(scaled, z) / np.square(scaled) / ROOT_PI
    return np.where(right, -m * (x + m), left)


_mills = smooth_op(
    "mills",
    infer=infer_ufunc(sc.erfcx, None),
    evaluate=lambda x: ROOT_2 / ROOT_PI / sc.erfcx(-x / ROOT_2),
    partials=[_mills_slope],
    lower=map_lowering(
        sc.erfcx,
        lambda e, x: e.div(
            e.constant(ROOT_2 / ROOT_PI, x), e.math("erfcx", e.div(x, e.constant(-ROOT_2, x)))
        ),
        "f",
    ),
)


def mills(x: Any) -> Any:
    """The normal density over its distribution function, phi(x) / Phi(x)."""
    if np.iscomplexobj(aval_of(x)):
        return ROOT_2 / ROOT_PI / sc.erfcx(-x / ROOT_2)
    return apply(_mills, (x,))


define_ufunc("erf", lambda y, x: 2 / ROOT_PI * np.exp(-np.square(x)), lower=math_call("erf"))
define_ufunc("erfc", lambda y, x: -2 / ROOT_PI * np.exp(-np.square(x)), lower=math_call("erfc"))
define_ufunc("erfcx", _erfcx_slope, lower=math_call("erfcx"))
define_ufunc("erfi", lambda y, x: 2 / ROOT_PI * np.exp(np.square(x)))
define_ufunc("erfinv", lambda y, x: ROOT_PI / 2 * np.exp(np.square(y)), lower=math_call("erfinv"))
define_ufunc(
    "erfcinv", lambda y, x: -ROOT_PI / 2 * np.exp(np.square(y)), lower=math_call("erfcinv")
)
define_ufunc("dawsn", _dawsn_slope)
define_ufunc("wofz", wofz_slope)


define_ufunc("ndtr", lambda y, x: normal_density(x), lower=math_call("ndtr"))
define_ufunc("ndtri", lambda y, x: ROOT_2PI * np.exp(0.5 * np.square(y)), lower=math_call("ndtri"))
define_ufunc("log_ndtr", lambda y, x: mills(x), lower=math_call("log_ndtr"))
define_ufunc("ndtri_exp", lambda y, x: 1 / mills(y))
define_ufunc(
    "owens_t",
    lambda y, h, a: -0.5 * normal_density(h) * sc.erf(a * h / ROOT_2),
    lambda y, h, a: (
        np.exp(-0.5 * np.square(h) * (1 + np.square(a))) / (2 * math.pi * (1 + np.square(a)))
    ),
)

# Means and deviations of a normal distribution: p = Phi((x - mean) / deviation)
define_ufunc(
    "nrdtrimn",
    lambda y, p, sd, x: -sd / normal_density((x - y) / sd),
    lambda y, p, sd, x: (y - x) / sd,
    1,
)
define_ufunc(
    "nrdtrisd",
    lambda y, mn, p, x: -1 / sc.ndtri(p),
    lambda y, mn, p, x: -y / (sc.ndtri(p) * normal_density(sc.ndtri(p))),
    lambda y, mn, p, x: 1 / sc.ndtri(p),
)


def _voigt(at: int) -> Any:
    """Derivatives of Re w(z) / (sigma sqrt(2 pi)), z = (x + i gamma) / (sigma sqrt(2))."""

    def partial(y: Any, x: Any, sigma: Any, gamma: Any) -> Any:
        z = (x + 1j * gamma) / (sigma * ROOT_2)
        slope = wofz_slope(sc.wofz(z), z)
        if at == 1:
            return -(y + np.real(slope * z) / (sigma * ROOT_2PI)) / sigma
        part = np.real(slope) if at == 0 else -np.imag(slope)
        return part / (2 * ROOT_PI * np.square(sigma))

    return partial


define_ufunc("voigt_profile", *map(_voigt, range(3)))

define_ufunc_results(
    "fresnel",
    ("fresnel_s", "fresnel_c"),
    [lambda y, x: np.sin(math.pi / 2 * np.square(x))],
    [lambda y, x: np.cos(math.pi / 2 * np.square(x))],
)


def _modified(sign: int) -> Any:
    """Derivatives of F(x), the integral of exp(sign i t**2) from x on, and of K(x), its scaled
    version."""
    phase = complex(math.cos(math.pi / 4), -sign * math.sin(math.pi / 4)) / ROOT_PI
    return (
        [lambda y, x: -np.exp(sign * 1j * np.square(x))],
        [lambda y, x: -2j * sign * x * y - phase],
    )


define_ufunc_results("modfresnelp", ("modfresnelp_f", "modfresnelp_k"), *_modified(1))
define_ufunc_results("modfresnelm", ("modfresnelm_f", "modfresnelm_k"), *_modified(-1))
