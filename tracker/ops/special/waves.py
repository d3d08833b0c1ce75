"""Mathieu and spheroidal wave functions. SciPy returns each with its derivative; the second
derivative follows from the differential equation. Orders and degrees are integers; the derivative
in the parameter q or c is by interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sc

from tracker.ops.special.parameter_derivatives import above, by_interpolation
from tracker.ops.special.table import ParameterDerivative, define_ufunc, define_ufunc_results

_DEG = math.pi / 180
_POINTS = np.arange(256) * (360 / 256)


def _characteristic(even: bool) -> Callable[..., Any]:
    """The mean of 2 cos(2 x) over ce_m(x)**2 (se_m): the derivative of the eigenvalue in q."""
    wave = sc.mathieu_cem if even else sc.mathieu_sem

    def partial(y: Any, m: Any, q: Any) -> Any:
        square = np.square(wave(np.expand_dims(m, -1), np.expand_dims(q, -1), _POINTS)[0])
        return 2 * np.sum(square * np.cos(2 * _DEG * _POINTS), -1) / np.sum(square, -1)

    return partial


_M, _N = "m, the order, a whole number", "n, the degree, a whole number"
_UNRELATED = "cv, the characteristic value, which c determines"
_JUMPING = "c, the parameter, in which SciPy's values jump"

define_ufunc("mathieu_a", _M, _characteristic(True))
define_ufunc("mathieu_b", _M, _characteristic(False))


def _in_parameter(f: Callable[..., Any], part: int, at: int) -> ParameterDerivative:
    return by_interpolation(
        lambda *xs: f(*xs)[part], at, lambda p, *xs: np.minimum(0.25, 0.5 * np.abs(p))
    )


def _mathieu(name: str, eigenvalue: Callable[..., Any], angular: bool) -> None:
    """f'' = -(a - 2 q cos(2 x)) f, x in degrees; radial ones with cosh and the opposite sign."""
    f = getattr(sc, name)

    def second(y: Any, m: Any, q: Any, x: Any) -> Any:
        a = eigenvalue(m, q)
        value = f(m, q, x)[0]
        if angular:
            return -_DEG * (a - 2 * q * np.cos(2 * _DEG * x)) * value
        return (a - 2 * q * np.cosh(2 * x)) * value

    scale = _DEG if angular else 1.0
    define_ufunc_results(
        name,
        (f"{name}_value", f"{name}_slope"),
        [_M, _in_parameter(f, 0, 1), lambda y, m, q, x: scale * f(m, q, x)[1]],
        [_M, _in_parameter(f, 1, 1), second],
    )


_mathieu("mathieu_cem", sc.mathieu_a, True)
_mathieu("mathieu_sem", sc.mathieu_b, True)
for _kind in ("1", "2"):
    _mathieu(f"mathieu_modcem{_kind}", sc.mathieu_a, False)
    _mathieu(f"mathieu_modsem{_kind}", sc.mathieu_b, False)


def _spheroidal(name: str, sign: int, metric: int, given: bool) -> None:
    """(1 - metric x**2) f'' - 2 metric x f' + ... f = 0; sign of c**2: prolate 1, oblate -1.

    metric 1: with 1 - x**2 (angular, and radial prolate); -1: with 1 + x**2 (radial oblate).
    """
    f = getattr(sc, name)
    eigenvalue = sc.pro_cv if sign > 0 else sc.obl_cv

    def second(y: Any, m: Any, n: Any, c: Any, *rest: Any) -> Any:
        x = rest[-1]
        characteristic = rest[0] if given else eigenvalue(m, n, c)
        value, slope = f(m, n, c, *rest)
        weight = 1 - metric * np.square(x)
        square = sign * metric * np.square(c * x)
        force = metric * (characteristic - square - np.square(m) / weight)
        return (2 * metric * x * slope - force * value) / weight

    def parameters(part: int) -> list[Any]:
        if given:
            return [_M, _N, f"c, the parameter, at a fixed {_UNRELATED}", _UNRELATED]
        return [_M, _N, _JUMPING if "rad2" in name else _in_parameter(f, part, 2)]

    define_ufunc_results(
        name,
        (f"{name}_value", f"{name}_slope"),
        [*parameters(0), lambda y, *xs: f(*xs)[1]],
        [*parameters(1), second],
    )


for _given in (False, True):
    _suffix = "_cv" if _given else ""
    for _family, _sign in (("pro", 1), ("obl", -1)):
        _spheroidal(f"{_family}_ang1{_suffix}", _sign, 1, _given)
        for _kind in ("rad1", "rad2"):
            _spheroidal(f"{_family}_{_kind}{_suffix}", _sign, _sign, _given)
for _name in ("pro_cv", "obl_cv"):
    define_ufunc(_name, _M, _N, by_interpolation(getattr(sc, _name), 2, above(0)))
