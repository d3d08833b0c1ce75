"""Airy, Kelvin and parabolic cylinder functions. SciPy returns each with its derivative; the second
derivative is a multiple of the function, by its differential equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.parameter_derivatives import by_interpolation
from tracker.ops.special.table import Derivative, define_ufunc, define_ufunc_results, reals_only


def _part(f: Callable[..., Any], at: int) -> Callable[..., Any]:
    return lambda *xs: f(*xs)[at]


_AIRY = [
    [lambda y, x: sc.airy(x)[1]],
    [lambda y, x: x * sc.airy(x)[0]],
    [lambda y, x: sc.airy(x)[3]],
    [lambda y, x: x * sc.airy(x)[2]],
]
define_ufunc_results("airy", ("airy_ai", "airy_ai_slope", "airy_bi", "airy_bi_slope"), *_AIRY)


def _root(x: Any) -> Any:
    """sqrt(x) of the scaling exp(2/3 x sqrt(x)); Bi is scaled for positive x only."""
    return np.sqrt(np.maximum(x, 0.0))


define_ufunc_results(
    "airye",
    ("airye_ai", "airye_ai_slope", "airye_bi", "airye_bi_slope"),
    [lambda y, x: sc.airye(x)[1] + np.sqrt(x) * y],
    [lambda y, x: x * sc.airye(x)[0] + np.sqrt(x) * y],
    [reals_only("airye", lambda y, x: sc.airye(x)[3] - _root(x) * y)],
    [reals_only("airye", lambda y, x: x * sc.airye(x)[2] - _root(x) * y)],
)
define_ufunc_results(
    "itairy",
    ("itairy_ai", "itairy_bi", "itairy_ai_left", "itairy_bi_left"),
    [lambda y, x: sc.airy(x)[0]],
    [lambda y, x: sc.airy(x)[2]],
    [lambda y, x: sc.airy(-x)[0]],
    [lambda y, x: sc.airy(-x)[2]],
)

# Kelvin: f = ber + i bei has f'' = i f - f' / x


def _kelvin(real: str, imaginary: str, at_zero: float) -> None:
    """`at_zero`: the second derivative of the imaginary part at 0."""
    re, im, re_slope, im_slope = (
        getattr(sc, name) for name in (real, imaginary, f"{real}p", f"{imaginary}p")
    )

    def over(y: Any, x: Any) -> tuple[Any, Any]:
        zero = x == 0
        return zero, y / np.where(zero, 1.0, x)

    def im_second(y: Any, x: Any) -> Any:
        zero, ratio = over(y, x)
        return np.where(zero, at_zero, re(x) - ratio)

    define_ufunc(real, lambda y, x: re_slope(x))
    define_ufunc(imaginary, lambda y, x: im_slope(x))
    define_ufunc(f"{real}p", lambda y, x: -im(x) - over(y, x)[1])
    define_ufunc(f"{imaginary}p", im_second)


_kelvin("ber", "bei", 0.5)
_kelvin("ker", "kei", math.inf)
define_ufunc_results(
    "kelvin",
    ("kelvin_be", "kelvin_ke", "kelvin_be_slope", "kelvin_ke_slope"),
    [lambda y, x: sc.kelvin(x)[2]],
    [lambda y, x: sc.kelvin(x)[3]],
    [lambda y, x: sc.ber(x) * 1j - sc.bei(x) - y / x],
    [lambda y, x: sc.ker(x) * 1j - sc.kei(x) - y / x],
)

# Parabolic cylinders


_NEAR_WHOLE = "v, the order, near whole numbers of which SciPy's values jump"


def _cylinder(name: str, curve: Callable[[Any, Any], Any], smooth: bool = False) -> None:
    """Declare a function with f'' = curve(v, x) f."""
    f = getattr(sc, name)

    def order(part: int) -> Derivative:
        return by_interpolation(_part(f, part), 0) if smooth else _NEAR_WHOLE

    define_ufunc_results(
        name,
        (f"{name}_value", f"{name}_slope"),
        [order(0), lambda y, v, x: f(v, x)[1]],
        [order(1), lambda y, v, x: curve(v, x) * f(v, x)[0]],
    )


_cylinder("pbdv", lambda v, x: np.square(x) / 4 - v - 0.5)
_cylinder("pbvv", lambda v, x: np.square(x) / 4 - v - 0.5)
_cylinder("pbwa", lambda a, x: a - np.square(x) / 4, smooth=True)
