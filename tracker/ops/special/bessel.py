"""Bessel functions J, Y, I, K, Hankel functions, scaled and spherical ones, Struve's, and their
integrals.

The derivative in the order is an integral for K of real arguments (DLMF 10.32.9), and by
interpolation for the others (`parameter_derivatives.py`). For large arguments, slopes of the
scaled I and K are differences of nearly equal numbers; there the asymptotic series (DLMF 10.40) is
differentiated instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ir.op import Rule
from tracker.ops.special.parameter_derivatives import above, by_interpolation
from tracker.ops.special.table import (
    ROUNDED_BY_SCIPY,
    Derivative,
    define_ufunc,
    define_ufunc_results,
    math_call,
    reals_only,
    ufunc_named,
)
from tracker.tape.record import aval_of

_COUNT = f"n, the order, {ROUNDED_BY_SCIPY}"
Function = Callable[..., Any]


def _between(f: Function, below: int, above: int) -> Function:
    """Half of (below f(v - 1) + above f(v + 1))."""
    return lambda v, z: 0.5 * (below * f(v - 1, z) + above * f(v + 1, z))


# Scaled functions, large arguments

_FAR = 100.0


def _scaled(slope: Function, sign: int, constant: float) -> Function:
    """The derivative of constant x**(-1/2) sum sign**k a_k(v) / x**k, for x > 0, from the series
    for large x and from `slope` elsewhere."""

    def partial(v: Any, x: Any) -> Any:
        if np.iscomplexobj(x):
            return slope(v, x)
        order = 4 * np.square(v)
        far = (x > _FAR) & (x > order)
        big, near = np.where(far, x, 4 * _FAR + 2 * order), np.where(far, 1.0, x)
        coefficients: list[Any] = [1.0]  # scalars, unless the order is an array
        for k in range(1, 14):
            coefficients.append(coefficients[-1] * sign * (order - (2 * k - 1) ** 2) / (8 * k))
        inverse, total = 1 / big, 0.0 * big
        for k in range(13, -1, -1):
            total = total * inverse - (k + 0.5) * coefficients[k]
        return np.where(far, constant * total * inverse / np.sqrt(big), slope(v, near))

    return partial


def _ive_slope(v: Any, x: Any) -> Any:
    return 0.5 * (sc.ive(v - 1, x) + sc.ive(v + 1, x)) - np.sign(x) * sc.ive(v, x)


def _kve_slope(v: Any, x: Any) -> Any:
    return sc.kve(v, x) - 0.5 * (sc.kve(v - 1, x) + sc.kve(v + 1, x))


_ive = _scaled(_ive_slope, -1, 1 / math.sqrt(2 * math.pi))
_kve = _scaled(_kve_slope, 1, math.sqrt(math.pi / 2))


def _order_two(x: Any, zeroth: Function, first: Function, scale: Any = 1.0, sign: int = 1) -> Any:
    """I of order two (sign -1: J), scaled like the others, of which the slopes of orders zero and
    one are made. Near zero by its series (DLMF 10.25.2), elsewhere by recurrence."""
    near = np.abs(x) < 1
    small, large = np.where(near, x, 0.0), np.where(near, 1.0, x)
    z = np.square(small) / 4
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = z * (sign / (k * (k + 2))) * (1 + series)
    by_recurrence = sign * (zeroth(large) - 2 * first(large) / large)
    return np.where(near, z / 2 * (1 + series) * scale, by_recurrence)


def _scaled_by_parity(parity: int, v: float, slope: Function) -> Function:
    """The derivative of i0e or i1e, which are even or odd (`parity`); that of i0e is 0 at its kink
    at 0."""
    scaled = _scaled(lambda v, x: slope(x), -1, 1 / math.sqrt(2 * math.pi))
    return lambda y, x: (np.sign(x) if parity > 0 else 1) * scaled(v, np.abs(x))


def _i1e_slope(x: Any) -> Any:
    return 0.5 * (sc.i0e(x) + _order_two(x, sc.i0e, sc.i1e, np.exp(-x))) - sc.i1e(x)


# The order of K

_POINTS = np.linspace(0.0, 1.0, 161)
_TRAPEZOID = np.where((_POINTS == 0) | (_POINTS == 1), 0.5, 1.0) / 160


def _kve_order(v: Any, x: Any) -> Any:
    """The derivative of exp(x) K_v(x) in v: the integral of t sinh(v t) exp(-x (cosh(t) - 1)).

    The integral is truncated where the integrand has fallen by exp(-42) from its peak at asinh(v /
    x).
    """
    size = np.hypot(v, x)
    peak = np.arcsinh(np.abs(v) / x)
    low = np.maximum(peak - np.sqrt(168 / size) - 84 / size, 0.0)
    high = peak + np.arccosh(1 + 42 / size)
    v, x, low, span = (np.expand_dims(u, -1) for u in (v, x, low, high - low))
    t = low + span * _POINTS
    decay = x * 2 * np.square(np.sinh(t / 2))
    both = 0.5 * t * (np.exp(v * t - decay) - np.exp(-v * t - decay))
    return np.sum(both * _TRAPEZOID * span, axis=-1)


define_ufunc("j0", lambda y, x: -sc.j1(x))
define_ufunc("j1", lambda y, x: 0.5 * (sc.j0(x) - _order_two(x, sc.j0, sc.j1, sign=-1)))
define_ufunc("y0", lambda y, x: -sc.y1(x))
define_ufunc("y1", lambda y, x: sc.y0(x) - y / x)


def _nan_at_infinity(name: str) -> Callable[..., Any]:
    """The function of the math library, with SciPy's NaN at infinities."""
    return lambda e, x: e.select(e.isinf(x), e.constant(math.nan, x), e.math(name, x))


define_ufunc("i0", lambda y, x: sc.i1(x), lower=_nan_at_infinity("i0"))
define_ufunc(
    "i1", lambda y, x: 0.5 * (sc.i0(x) + _order_two(x, sc.i0, sc.i1)), lower=_nan_at_infinity("i1")
)
define_ufunc("k0", lambda y, x: -sc.k1(x), lower=math_call("k0"))
define_ufunc("k1", lambda y, x: -sc.k0(x) - y / x, lower=math_call("k1"))
define_ufunc(
    "i0e", _scaled_by_parity(1, 0.0, lambda x: sc.i1e(x) - sc.i0e(x)), lower=math_call("i0e")
)
define_ufunc("i1e", _scaled_by_parity(-1, 1.0, _i1e_slope), lower=math_call("i1e"))
define_ufunc("k0e", lambda y, x: _kve(0.0, x), lower=math_call("k0e"))
define_ufunc("k1e", lambda y, x: _kve(1.0, x), lower=math_call("k1e"))


def _order_derivative(name: str) -> Derivative:
    return by_interpolation(getattr(sc, name), 0)


def _define_by_order(name: str, before: int, after: int, order: Derivative | None = None) -> None:
    slope = _between(getattr(sc, name), before, after)
    define_ufunc(name, order or _order_derivative(name), lambda y, v, z: slope(v, z))


_define_by_order("jv", 1, -1)
_define_by_order("yv", 1, -1)
_define_by_order("iv", 1, 1)
_define_by_order("hankel1", 1, -1)
_define_by_order("hankel2", 1, -1)
_define_by_order("yn", 1, -1, _COUNT)
define_ufunc("kn", _COUNT, lambda y, n, z: -0.5 * (sc.kn(np.abs(n - 1), z) + sc.kn(n + 1, z)))


def _order_of_k(name: str, of_real: Rule) -> Rule:
    of_complex = by_interpolation(getattr(sc, name), 0).rule

    def partial(y: Any, v: Any, z: Any) -> Any:
        return (of_complex if np.iscomplexobj(aval_of(z)) else of_real)(y, v, z)

    return partial


define_ufunc(
    "kv",
    _order_of_k("kv", lambda y, v, x: _kve_order(v, x) * np.exp(-x)),
    lambda y, v, z: -0.5 * (sc.kv(v - 1, z) + sc.kv(v + 1, z)),
)
define_ufunc(
    "kve", _order_of_k("kve", lambda y, v, x: _kve_order(v, x)), lambda y, v, z: _kve(v, z)
)
define_ufunc(
    "jve",
    _order_derivative("jve"),
    reals_only("jve", lambda y, v, x: 0.5 * (sc.jv(v - 1, x) - sc.jv(v + 1, x))),
)
define_ufunc(
    "yve",
    _order_derivative("yve"),
    reals_only("yve", lambda y, v, x: 0.5 * (sc.yv(v - 1, x) - sc.yv(v + 1, x))),
)
define_ufunc("ive", _order_derivative("ive"), reals_only("ive", lambda y, v, x: _ive(v, x)))
define_ufunc(
    "hankel1e",
    _order_derivative("hankel1e"),
    lambda y, v, z: 0.5 * (sc.hankel1e(v - 1, z) - sc.hankel1e(v + 1, z)) - 1j * y,
)
define_ufunc(
    "hankel2e",
    _order_derivative("hankel2e"),
    lambda y, v, z: 0.5 * (sc.hankel2e(v - 1, z) - sc.hankel2e(v + 1, z)) + 1j * y,
)


# Spherical


def _spherical(name: str, sign: int) -> None:
    """f and its derivative, from f'' = -2 f'/z + (n (n + 1)/z**2 + sign) f."""
    f, slope = f"_spherical_{name}", f"_spherical_{name}_d"
    value, first = ufunc_named(f), ufunc_named(slope)
    if value is None or first is None:
        return

    def second(y: Any, n: Any, z: Any) -> Any:
        at_zero = z == 0
        w = np.where(at_zero, 1.0, z)
        elsewhere = -2 * y / w + (n * (n + 1) / np.square(w) + sign) * value(n, w)
        # jn and in at 0: from z**n / (2 n + 1)!!
        start = np.where(n == 0, sign / 3, np.where(n == 2, 2 / 15, 0.0))
        return np.where(at_zero, start, elsewhere)

    define_ufunc(f, _COUNT, lambda y, n, z: first(n, z))
    define_ufunc(slope, _COUNT, second)


_spherical("jn", -1)
_spherical("yn", -1)
_spherical("in", 1)
_spherical("kn", 1)


# Struve


def _struve(f: Function, sign: int) -> Function:
    def slope(y: Any, v: Any, x: Any) -> Any:
        extra = np.power(x / 2, v) * sc.rgamma(v + 1.5) / math.sqrt(math.pi)
        return 0.5 * (f(v - 1, x) - sign * f(v + 1, x) + extra)

    return slope


define_ufunc("struve", _order_derivative("struve"), _struve(sc.struve, 1))
define_ufunc("modstruve", _order_derivative("modstruve"), _struve(sc.modstruve, -1))

# Integrals


def _less_one(f: Function, sign: int) -> Function:
    """The derivative sign (f(x) - 1) / x, where f = sum (-sign x**2 / 4)**k / (k!)**2 ... is 1 at
    0."""

    def slope(y: Any, x: Any) -> Any:
        near = np.abs(x) < 1
        w = -sign * np.square(np.where(near, x, 0.0)) / 4
        series: Any = 0.0
        for k in range(10, 0, -1):
            series = 1 / k**2 * (1 + w * series)
        plain = (f(x) - 1) / np.where(near, 1.0, x)
        return sign * np.where(near, -sign * x / 4 * series, plain)

    return slope


define_ufunc_results(
    "itj0y0", ("itj0y0_j", "itj0y0_y"), [lambda y, x: sc.j0(x)], [lambda y, x: sc.y0(x)]
)
define_ufunc_results(
    "iti0k0", ("iti0k0_i", "iti0k0_k"), [lambda y, x: sc.i0(x)], [lambda y, x: sc.k0(x)]
)
define_ufunc_results(
    "it2j0y0",
    ("it2j0y0_j", "it2j0y0_y"),
    [lambda y, x: -_less_one(sc.j0, 1)(y, x)],
    [lambda y, x: -sc.y0(x) / x],
)
define_ufunc_results(
    "it2i0k0",
    ("it2i0k0_i", "it2i0k0_k"),
    [lambda y, x: -_less_one(sc.i0, -1)(y, x)],
    [lambda y, x: -sc.k0(x) / x],
)
define_ufunc("itstruve0", lambda y, x: sc.struve(0, x))
define_ufunc("it2struve0", lambda y, x: -sc.struve(0, x) / x)
define_ufunc("itmodstruve0", lambda y, x: sc.modstruve(0, x))
define_ufunc(
    "besselpoly",
    lambda y, a, power, v: (sc.jv(v, 2 * a) - (power + 1) * y) / a,
    by_interpolation(sc.besselpoly, 1, above(-1)),
    by_interpolation(sc.besselpoly, 2),
)
