"""Derivatives in orders, degrees, degrees of freedom and parameters of series, by interpolation.

For functions whose derivative in a parameter is neither a function of SciPy's nor a quadrature that
works over the whole range: `by_interpolation` takes the slope of the polynomial through 24
Chebyshev points around the parameter. As these functions are analytic, it converges geometrically.
`reach`, half the width of the points, stays away from singularities. The error is SciPy's rounding,
a few hundred units in the last place of the largest value. Do not use it where SciPy's values jump.

The rule is plain NumPy over the ufunc itself, so it is traced, and differentiated again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ops.special.table import ParameterDerivative

_COUNT = 24
_HALF = np.arange(_COUNT // 2)
_ANGLES = (2 * _HALF + 1) * (math.pi / (2 * _COUNT))
_NODES = np.cos(_ANGLES)  # in 0 to 1; the other half of nodes and weights are the negatives
_DEGREES = np.arange(1, _COUNT, 2)[:, None]
_WEIGHTS = (2 / _COUNT) * np.sum(
    _DEGREES * np.sin(_DEGREES * (math.pi / 2)) * np.cos(_DEGREES * _ANGLES), axis=0
)

Function = Callable[..., Any]


def one_half(p: Any, *xs: Any) -> Any:
    """The reach of functions that are entire in their parameter."""
    return 0.5


def above(lowest: float) -> Function:
    """The reach of functions that are analytic above `lowest`."""
    return lambda p, *xs: np.minimum(0.5, 0.5 * (p - lowest))


def between_poles(p: Any, *xs: Any) -> Any:
    """The reach of functions with poles at 0, -1, -2, ..."""
    clear = np.where(p > 0, p, np.abs(p - np.rint(p)))
    return np.minimum(0.5, 0.5 * clear)


def slope_by_interpolation(f: Function, at: int, reach: Function = one_half) -> Function:
    """The derivative of f in its argument `at`, a real number, as a function of all arguments.
    `reach` takes that argument, then all of them."""

    def slope(*xs: Any) -> Any:
        width = reach(xs[at], *xs)
        around = [np.expand_dims(x, -1) for x in xs]
        step = np.expand_dims(width, -1) * _NODES
        below, over = list(around), list(around)
        below[at], over[at] = around[at] - step, around[at] + step
        return np.sum((f(*over) - f(*below)) * _WEIGHTS, axis=-1) / width

    return slope


def by_interpolation(f: Function, at: int, reach: Function = one_half) -> ParameterDerivative:
    """The same as a derivative for `define_ufunc`."""
    slope = slope_by_interpolation(f, at, reach)
    return ParameterDerivative(lambda y, *xs: slope(*xs))
