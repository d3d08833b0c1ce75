"""`scipy.integrate` on tracked values. Names that are not defined here are SciPy's own.

Rules for samples (trapezoid, simpson, romb, cumulative ones) are here, in NumPy. `quad.py` and
`nquad.py` integrate functions: SciPy solves, and the derivatives follow from Leibniz's rule.
`initial_value.py` solves differential equations: SciPy does, and the steps that it accepted
(`accepted_steps.py`) are differentiated (`step_adjoint.py`) by their tableaus (`tableau.py`) and
the pullback of the right side (`right_side.py`), and so are events (`events.py`). In compiled code
explicit methods (`compiled_steps.py`) and Radau (`compiled_radau.py`) are loops of native code.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy.integrate.initial_value import odeint as odeint
from tracker.scipy.integrate.initial_value import solve_ivp as solve_ivp
from tracker.scipy.integrate.nquad import dblquad as dblquad
from tracker.scipy.integrate.nquad import nquad as nquad
from tracker.scipy.integrate.nquad import tplquad as tplquad
from tracker.scipy.integrate.quad import fixed_quad as fixed_quad
from tracker.scipy.integrate.quad import quad as quad

if TYPE_CHECKING:
    from scipy.integrate import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.integrate,
        hints={
            "solve_bvp": "Solve by shooting: solve_ivp within tracker.scipy.optimize.root",
            "quad_vec": "Integrate each entry by quad, or all at once by fixed_quad",
        },
    )


def _spacings(y: Any, x: Any, dx: Any, axis: int) -> Any:
    """The distances between samples along the last axis, shaped to broadcast with y."""
    if x is None:
        return dx if isinstance(dx, (int, float)) else as_array(dx)
    x = as_array(x)
    x = x if np.ndim(x) == 1 else np.moveaxis(x, axis, -1)
    if np.shape(x)[-1] != np.shape(y)[-1]:
        raise ValueError(f"y has {np.shape(y)[-1]} samples along the axis, x has {np.shape(x)[-1]}")
    return x[..., 1:] - x[..., :-1]


@drop_in(scipy.integrate)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples, by the trapezoidal rule."""
    y = np.moveaxis(as_array(y), axis, -1)
    return np.sum(0.5 * _spacings(y, x, dx, axis) * (y[..., 1:] + y[..., :-1]), axis=-1)


@drop_in(scipy.integrate)
def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The integrals up to each sample, by the trapezoidal rule."""
    y = np.moveaxis(as_array(y), axis, -1)
    out = np.cumsum(0.5 * _spacings(y, x, dx, axis) * (y[..., 1:] + y[..., :-1]), axis=-1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be 0 or None")
        out = np.concatenate([np.zeros_like(y[..., :1]), out], axis=-1)
    return np.moveaxis(out, -1, axis)


@drop_in(scipy.integrate)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples, by Simpson's rule. For an even number of samples the last interval
    is integrated by the parabola through the last three (Cartwright), as in SciPy."""
    y = np.moveaxis(as_array(y), axis, -1)
    h = _spacings(y, x, dx, axis)
    count = np.shape(y)[-1]
    h = h * np.ones_like(y[..., 1:]) if x is None else h
    if count % 2 == 1:
        return _simpson_pairs(y, h)
    if count == 2:
        return 0.5 * h[..., 0] * (y[..., 0] + y[..., 1])
    a, b = h[..., -2], h[..., -1]
    last = _safe_quotient(2 * b**2 + 3 * a * b, 6 * (a + b)) * y[..., -1]
    last = last + _safe_quotient(b**2 + 3 * a * b, 6 * a) * y[..., -2]
    last = last - _safe_quotient(b**3, 6 * a * (a + b)) * y[..., -3]
    return _simpson_pairs(y[..., :-1], h[..., :-1]) + last


def _simpson_pairs(y: Any, h: Any) -> Any:
    """Simpson's rule over pairs of intervals."""
    a, b = h[..., ::2], h[..., 1::2]
    both = a + b
    low = y[..., :-2:2] * (2 - np.where(b == 0, 0, _safe_quotient(b, a)))
    middle = y[..., 1::2] * (both * _safe_quotient(both, a * b))
    high = y[..., 2::2] * (2 - _safe_quotient(a, b))
    return np.sum(both / 6 * (low + middle + high), axis=-1)


def _safe_quotient(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0 (samples that coincide), as in SciPy."""
    return np.where(b == 0, 0, a / np.where(b == 0, 1, b))


@drop_in(scipy.integrate)
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    """Romberg's rule: Richardson extrapolation of trapezoidal sums of 2**k + 1 samples."""
    y = np.moveaxis(as_array(y), axis, -1)
    count = np.shape(y)[-1] - 1
    levels = count.bit_length() - 1
    if count != 2**levels:
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    dx = dx * 1.0
    row = [
        trapezoid(y[..., :: 2 ** (levels - k)]) * dx * 2 ** (levels - k) for k in range(levels + 1)
    ]
    for order in range(1, levels + 1):
        row = [fine + (fine - coarse) / (4**order - 1) for coarse, fine in itertools.pairwise(row)]
    return row[0]


@drop_in(scipy.integrate)
def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The integrals up to each sample, by parabolas through three samples."""
    y = np.moveaxis(as_array(y) * 1.0, axis, -1)
    if np.shape(y)[-1] < 3:
        x = x if x is None or np.ndim(x) == 1 else np.moveaxis(as_array(x), axis, -1)
        out = cumulative_trapezoid(y, x, dx)
    else:
        if x is None and np.ndim(dx):
            h = np.moveaxis(as_array(dx), axis, -1) * np.ones_like(y[..., 1:])
        else:
            h = _spacings(y, x, dx, axis) * np.ones_like(y[..., 1:])
        if x is not None and bool(np.any(h <= 0)):
            raise ValueError("Input x must be strictly increasing.")
        left, right = (
            _first_interval(y, h),
            np.flip(_first_interval(np.flip(y, -1), np.flip(h, -1)), -1),
        )
        # Every other interval is the first of its parabola; the last one is a second one.
        count = np.shape(y)[-1] - 1
        first = np.arange(count) % 2 == 0
        first[-1] = False
        fixed = [(0, 0)] * (np.ndim(y) - 1)
        parts = np.where(first, np.pad(left, [*fixed, (0, 1)]), np.pad(right, [*fixed, (1, 0)]))
        out = np.cumsum(parts, axis=-1)
    if initial is not None:
        initial = as_array(initial) * 1.0
        start = initial if np.ndim(initial) == 0 else np.moveaxis(initial, axis, -1)
        out = np.concatenate([start + 0 * y[..., :1], out + start], axis=-1)
    return np.moveaxis(out, -1, axis)


def _first_interval(y: Any, h: Any) -> Any:
    """The integral over the first of two intervals of the parabola through their three samples."""
    a, b = h[..., :-1], h[..., 1:]
    low, middle, high = y[..., :-2], y[..., 1:-1], y[..., 2:]
    share, ratio = a / (a + b), a / b
    return a / 6 * ((3 - share) * low + (3 + share * ratio + share) * middle - share * ratio * high)
