"""SciPy's elementary functions: logistic, entropies, Box-Cox, losses, degrees, powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.table import call, function

_LN2, _LN10, _DEG = math.log(2.0), math.log(10.0), math.pi / 180

# What NumPy has as well
function("cbrt", lambda y, x: 1 / (3 * np.square(y)), lower=call("cbrt"))
function("exp2", lambda y, x: y * _LN2, lower=call("exp2"))
function("exp10", lambda y, x: y * _LN10)
function("expm1", lambda y, x: np.exp(x), lower=call("expm1"))
function("log1p", lambda y, x: 1 / (1 + x), lower=call("log1p"))
function("round", 0)

# Degrees
function("sindg", lambda y, x: _DEG * sc.cosdg(x))
function("cosdg", lambda y, x: -_DEG * sc.sindg(x))
function("tandg", lambda y, x: _DEG * (1 + np.square(y)))
function("cotdg", lambda y, x: -_DEG * (1 + np.square(y)))
function("radian", _DEG, _DEG / 60, _DEG / 3600)
function("_sinpi", lambda y, x: math.pi * _cospi(x))
function("_cospi", lambda y, x: -math.pi * _sinpi(x))


def _sinpi(x: Any) -> Any:
    return sc._ufuncs._sinpi(x)


def _cospi(x: Any) -> Any:
    return sc._ufuncs._cospi(x)


def _cosm1_body(e: Any, x: Any) -> Any:
    half = e.math("sin", e.mul(x, e.constant(0.5, x)))
    return e.mul(e.constant(-2.0, x), e.mul(half, half))


function("cosm1", lambda y, x: -np.sin(x), lower=_cosm1_body)

# Logistic


def _logit_body(e: Any, x: Any) -> Any:
    """Near a half, by the difference from it, which is exact."""
    one = e.constant(1.0, x)
    middle = e.math("atanh", e.sub(e.mul(e.constant(2.0, x), x), one))
    middle = e.mul(e.constant(2.0, x), middle)
    outer = e.sub(e.math("log", x), e.math("log1p", e.neg(x)))
    far = e.compare(">", e.abs(e.sub(x, e.constant(0.5, x))), e.constant(0.25, x))
    return e.select(far, outer, middle)


function("expit", lambda y, x: y * sc.expit(-x), lower=call("sigmoid"))
function("logit", lambda y, x: 1 / (x * (1 - x)), lower=_logit_body)
function(
    "log_expit",
    lambda y, x: sc.expit(-x),
    lower=lambda e, x: e.neg(e.math("softplus", e.neg(x))),
)

# Products with a logarithm: zero at x == 0, whatever the logarithm is


def _ratio(x: Any, y: Any) -> Any:
    """x / y, and 0 for 0 / 0. Other zeros are divided: they have a derivative."""
    return np.where((x == 0) & (y == 0), 0.0, x / y)


def _times_log(name: str) -> Any:
    def body(e: Any, x: Any, y: Any) -> Any:
        dead = e.logical_and(e.compare("==", x, e.constant(0, x)), e.compare("==", y, y))
        return e.select(dead, e.constant(0, x), e.mul(x, e.math(name, y)))

    return body


function(
    "xlogy",
    lambda r, x, y: np.log(y),
    lambda r, x, y: _ratio(x, y),
    lower=_times_log("log"),
)
function(
    "xlog1py",
    lambda r, x, y: np.log1p(y),
    lambda r, x, y: _ratio(x, 1 + y),
    lower=_times_log("log1p"),
)


def _infinite(e: Any, sign: int, x: Any) -> Any:
    return e.constant(sign * math.inf, x)


def _entr_body(e: Any, x: Any) -> Any:
    zero = e.constant(0, x)
    inside = e.neg(e.mul(x, e.math("log", x)))
    outside = e.select(e.compare("==", x, zero), zero, _infinite(e, -1, x))
    outside = e.select(e.isnan(x), x, outside)
    return e.select(e.compare(">", x, zero), inside, outside)


function("entr", lambda y, x: -1 - np.log(x), lower=_entr_body)
# SciPy takes care that x / y neither overflows nor vanishes: log(x) - log(y) does neither.
function(
    "rel_entr",
    lambda r, x, y: np.log(x) - np.log(y) + 1,
    lambda r, x, y: -_ratio(x, y),
)
function(
    "kl_div",
    lambda r, x, y: np.log(x) - np.log(y),
    lambda r, x, y: 1 - _ratio(x, y),
)

# Losses


def _huber_body(e: Any, delta: Any, r: Any) -> Any:
    size, half = e.abs(r), e.constant(0.5, r)
    inner = e.mul(half, e.mul(r, r))
    outer = e.mul(delta, e.sub(size, e.mul(half, delta)))
    value = e.select(e.compare("<=", size, delta), inner, outer)
    return e.select(e.compare("<", delta, e.constant(0, r)), _infinite(e, 1, r), value)


def _pseudo_huber_delta(y: Any, d: Any, r: Any) -> Any:
    """delta (s - 1)**2 / s with s = sqrt(1 + u**2), u = r / delta, and s - 1 = u**2 / (s + 1)."""
    zero = d == 0
    u = r / np.where(zero, 1.0, d)
    s = np.hypot(1, u)
    return np.where(zero, np.abs(r), d * np.square(u / (s + 1) * u) / s)


def _pseudo_huber_residual(y: Any, d: Any, r: Any) -> Any:
    return np.where(d == 0, 0.0, r / np.hypot(1, r / np.where(d == 0, 1.0, d)))


function(
    "huber",
    lambda y, d, r: np.where(np.abs(r) <= d, 0.0, np.abs(r) - d),
    lambda y, d, r: np.where(np.abs(r) <= d, r, d * np.sign(r)),
    lower=_huber_body,
)
function("pseudo_huber", _pseudo_huber_delta, _pseudo_huber_residual)

# Powers


def _exprel_slope(y: Any, x: Any) -> Any:
    """(exp(x) - y) / x; near zero, sum x**k / (k! (k + 2))."""
    near = np.abs(x) < 1
    small, large = np.where(near, x, 0.0), np.where(near, 1.0, x)
    series: Any = 0.0
    for k in range(17, -1, -1):
        series = 1 / (k + 2) + small / (k + 1) * series
    return np.where(near, series, (np.exp(large) - np.where(near, 1.0, y)) / large)


function("exprel", _exprel_slope)
function(
    "powm1",
    lambda r, x, y: y * np.power(x, y - 1),
    lambda r, x, y: np.where(x > 0, np.power(x, y) * np.log(np.where(x > 0, x, 1.0)), 0.0),
)


def power_slope(log: Any, p: Any) -> Any:
    """The derivative in p of (exp(p log) - 1) / p."""
    return np.square(log) * _exprel_slope(sc.exprel(p * log), p * log)


function(
    "boxcox",
    lambda y, x, p: np.power(x, p - 1),
    lambda y, x, p: power_slope(np.log(x), p),
)
function(
    "boxcox1p",
    lambda y, x, p: np.power(1 + x, p - 1),
    lambda y, x, p: power_slope(np.log1p(x), p),
)


def _root_order(base: Any, x: Any, p: Any) -> Any:
    """The derivative in p of (1 + p x)**(1 / p), which is `base`."""
    w = p * x
    near = np.abs(w) < 0.1
    small, large = np.where(near, w, 0.0), np.where(near, 1.0, w)
    series: Any = 0.0
    for k in range(18, 0, -1):
        series = -k / (k + 1) - small * series
    plain = (large / (1 + large) - np.log1p(large)) / np.square(large)
    return base * np.square(x) * np.where(near, series, plain)


function(
    "inv_boxcox",
    lambda y, x, p: y / (1 + p * x),
    lambda y, x, p: _root_order(y, x, p),
)
function(
    "inv_boxcox1p",
    lambda y, x, p: (1 + y) / (1 + p * x),
    lambda y, x, p: _root_order(1 + y, x, p),
)
