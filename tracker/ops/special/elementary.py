"""SciPy's elementary functions: logistic, entropies, Box-Cox, losses, degrees, powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.elementwise.activation import logistic_density
from tracker.ops.special.table import define_ufunc, math_call
from tracker.tape.record import apply

_LN2, _LN10, _DEG = math.log(2.0), math.log(10.0), math.pi / 180

# Functions that NumPy has as well
define_ufunc("cbrt", lambda y, x: 1 / (3 * np.square(y)), lower=math_call("cbrt"))
define_ufunc("exp2", lambda y, x: y * _LN2, lower=math_call("exp2"))
define_ufunc(
    "exp10", lambda y, x: y * _LN10, lower=lambda e, x: e.math("pow", e.constant(10.0, x), x)
)
define_ufunc("expm1", lambda y, x: np.exp(x), lower=math_call("expm1"))
define_ufunc("log1p", lambda y, x: 1 / (1 + x), lower=math_call("log1p"))
define_ufunc("round", 0, lower=lambda e, x: e.intrinsic("rint", x))

# Degrees
define_ufunc("sindg", lambda y, x: _DEG * sc.cosdg(x))
define_ufunc("cosdg", lambda y, x: -_DEG * sc.sindg(x))
define_ufunc("tandg", lambda y, x: _DEG * (1 + np.square(y)))
define_ufunc("cotdg", lambda y, x: -_DEG * (1 + np.square(y)))
define_ufunc("radian", _DEG, _DEG / 60, _DEG / 3600)
define_ufunc("_sinpi", lambda y, x: math.pi * _cospi(x), lower=math_call("sinpi"))
define_ufunc("_cospi", lambda y, x: -math.pi * _sinpi(x), lower=math_call("cospi"))


def _sinpi(x: Any) -> Any:
    return sc._ufuncs._sinpi(x)


def _cospi(x: Any) -> Any:
    return sc._ufuncs._cospi(x)


def _cosm1_body(e: Any, x: Any) -> Any:
    half = e.math("sin", e.mul(x, e.constant(0.5, x)))
    return e.mul(e.constant(-2.0, x), e.mul(half, half))


define_ufunc("cosm1", lambda y, x: -np.sin(x), lower=_cosm1_body)

# Logistic


def _logit_body(e: Any, x: Any) -> Any:
    """Near 1/2, by the difference from 1/2, which is exact."""
    one = e.constant(1.0, x)
    near = e.math("atanh", e.sub(e.mul(e.constant(2.0, x), x), one))
    near = e.mul(e.constant(2.0, x), near)
    elsewhere = e.sub(e.math("log", x), e.math("log1p", e.neg(x)))
    is_far = e.compare(">", e.abs(e.sub(x, e.constant(0.5, x))), e.constant(0.25, x))
    return e.select(is_far, elsewhere, near)


define_ufunc("expit", lambda y, x: apply(logistic_density, (x,)), lower=math_call("sigmoid"))
define_ufunc("logit", lambda y, x: 1 / (x * (1 - x)), lower=_logit_body)
define_ufunc(
    "log_expit", lambda y, x: sc.expit(-x), lower=lambda e, x: e.neg(e.math("softplus", e.neg(x)))
)

# Products with a logarithm: zero at x == 0 for every y


def _ratio(x: Any, y: Any) -> Any:
    """x / y, and 0 for 0 / 0. Other zeros are divided: they have a derivative."""
    return np.where((x == 0) & (y == 0), 0.0, x / y)


def _times_log(name: str) -> Any:
    def body(e: Any, x: Any, y: Any) -> Any:
        is_zero = e.logical_and(e.compare("==", x, e.constant(0, x)), e.compare("==", y, y))
        return e.select(is_zero, e.constant(0, x), e.mul(x, e.math(name, y)))

    return body


define_ufunc(
    "xlogy", lambda r, x, y: np.log(y), lambda r, x, y: _ratio(x, y), lower=_times_log("log")
)
define_ufunc(
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


define_ufunc("entr", lambda y, x: -1 - np.log(x), lower=_entr_body)


def _log_ratio(e: Any, x: Any, y: Any) -> Any:
    """log(x / y) of positive numbers, without cancellation, overflow or underflow."""
    ratio = e.div(x, y)
    near = e.logical_and(
        e.compare(">", ratio, e.constant(0.5, x)), e.compare("<", ratio, e.constant(2.0, x))
    )
    low, high = (1e-300, 1e300) if x.dtype.itemsize == 8 else (1e-36, 1e36)
    is_normal = e.logical_and(
        e.compare(">", ratio, e.constant(low, x)), e.compare("<", ratio, e.constant(high, x))
    )
    difference = e.sub(e.math("log", x), e.math("log", y))
    close = e.math("log1p", e.div(e.sub(x, y), y))
    return e.select(near, close, e.select(is_normal, e.math("log", ratio), difference))


def _entropy(e: Any, x: Any, y: Any, inside: Any, at_zero: Any) -> Any:
    """A relative entropy where both are positive, `at_zero` where x is zero, infinity elsewhere."""
    zero = e.constant(0, x)
    y_positive = e.compare(">", y, zero)
    x_zero = e.logical_and(e.compare("==", x, zero), e.compare(">=", y, zero))
    outside = e.select(x_zero, at_zero, _infinite(e, 1, x))
    outside = e.select(e.logical_or(e.isnan(x), e.isnan(y)), e.add(x, y), outside)
    return e.select(e.logical_and(e.compare(">", x, zero), y_positive), inside, outside)


def _kl_div_body(e: Any, x: Any, y: Any) -> Any:
    inside = e.add(e.sub(e.mul(x, _log_ratio(e, x, y)), x), y)
    return _entropy(e, x, y, inside, y)


# log(x) - log(y) neither overflows nor underflows, unlike x / y.
define_ufunc(
    "rel_entr",
    lambda r, x, y: np.log(x) - np.log(y) + 1,
    lambda r, x, y: -_ratio(x, y),
    lower=lambda e, x, y: _entropy(e, x, y, e.mul(x, _log_ratio(e, x, y)), e.constant(0, x)),
)
define_ufunc(
    "kl_div",
    lambda r, x, y: np.log(x) - np.log(y),
    lambda r, x, y: 1 - _ratio(x, y),
    lower=_kl_div_body,
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


define_ufunc(
    "huber",
    lambda y, d, r: np.where(np.abs(r) <= d, 0.0, np.abs(r) - d),
    lambda y, d, r: np.where(np.abs(r) <= d, r, d * np.sign(r)),
    lower=_huber_body,
)


def _pseudo_huber_body(e: Any, delta: Any, r: Any) -> Any:
    """delta r u / (1 + sqrt(1 + u**2)) for u = r / delta."""
    zero, one = e.constant(0, r), e.constant(1, r)
    none = e.logical_or(e.compare("==", delta, zero), e.compare("==", r, zero))
    u = e.div(r, e.select(none, one, delta))
    share = e.div(u, e.add(one, e.math("hypot", one, u)))
    infinite = _infinite(e, 1, r)
    far = e.logical_and(e.isinf(r), e.compare("<", e.abs(delta), infinite))
    value = e.select(far, infinite, e.mul(e.mul(delta, r), share))
    value = e.select(none, zero, value)
    return e.select(e.compare("<", delta, zero), infinite, value)


define_ufunc("pseudo_huber", _pseudo_huber_delta, _pseudo_huber_residual, lower=_pseudo_huber_body)

# Powers


def _exprel_slope(y: Any, x: Any) -> Any:
    """(exp(x) - y) / x; near zero, sum x**k / (k! (k + 2))."""
    near = np.abs(x) < 1
    small, large = np.where(near, x, 0.0), np.where(near, 1.0, x)
    series: Any = 0.0
    for k in range(17, -1, -1):
        series = 1 / (k + 2) + small / (k + 1) * series
    return np.where(near, series, (np.exp(large) - np.where(near, 1.0, y)) / large)


def _growth(e: Any, t: Any, p: Any) -> Any:
    """(exp(t) - 1) / p, which may be finite where exp(t) is not."""
    limit = e.constant(700.0 if t.dtype.itemsize == 8 else 85.0, t)
    half = e.math("exp", e.mul(t, e.constant(0.5, t)))
    steep = e.sub(e.mul(e.div(half, p), half), e.div(e.constant(1, t), p))
    return e.select(e.compare(">", t, limit), steep, e.div(e.math("expm1", t), p))


def _exprel_body(e: Any, x: Any) -> Any:
    one = e.constant(1, x)
    none = e.compare("==", x, e.constant(0, x))
    infinite = _infinite(e, 1, x)
    far = e.compare("==", x, infinite)
    safe = e.select(e.logical_or(none, far), one, x)
    return e.select(none, one, e.select(far, infinite, _growth(e, safe, safe)))


def _boxcox_body(name: str) -> Any:
    def body(e: Any, x: Any, p: Any) -> Any:
        size = e.math(name, x)
        none = e.compare("<", e.abs(p), e.constant(1e-19, p))
        safe = e.select(none, e.constant(1, p), p)
        return e.select(none, size, _growth(e, e.mul(safe, size), safe))

    return body


def _inv_boxcox_body(name: str) -> Any:
    def body(e: Any, x: Any, p: Any) -> Any:
        none = e.compare("==", p, e.constant(0, p))
        safe = e.select(none, e.constant(1, p), p)
        size = e.div(e.math("log1p", e.mul(safe, x)), safe)
        return e.math(name, e.select(none, x, size))

    return body


define_ufunc("exprel", _exprel_slope, lower=_exprel_body)
define_ufunc(
    "powm1",
    lambda r, x, y: y * np.power(x, y - 1),
    lambda r, x, y: np.where(x > 0, np.power(x, y) * np.log(np.where(x > 0, x, 1.0)), 0.0),
)


def power_slope(log: Any, p: Any) -> Any:
    """The derivative in p of (exp(p log) - 1) / p."""
    return np.square(log) * _exprel_slope(sc.exprel(p * log), p * log)


define_ufunc(
    "boxcox",
    lambda y, x, p: np.power(x, p - 1),
    lambda y, x, p: power_slope(np.log(x), p),
    lower=_boxcox_body("log"),
)
define_ufunc(
    "boxcox1p",
    lambda y, x, p: np.power(1 + x, p - 1),
    lambda y, x, p: power_slope(np.log1p(x), p),
    lower=_boxcox_body("log1p"),
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


define_ufunc(
    "inv_boxcox",
    lambda y, x, p: y / (1 + p * x),
    lambda y, x, p: _root_order(y, x, p),
    lower=_inv_boxcox_body("exp"),
)
define_ufunc(
    "inv_boxcox1p",
    lambda y, x, p: (1 + y) / (1 + p * x),
    lambda y, x, p: _root_order(1 + y, x, p),
    lower=_inv_boxcox_body("expm1"),
)
