"""`scipy.integrate` on tracked values. Names that are not defined here are SciPy's own.

Rules for samples are here, in NumPy, or SciPy's own code where that is as fast. `quad.py` and
`nquad.py` integrate functions: SciPy solves, and the derivatives follow from Leibniz's rule.
`initial_value.py` solves differential equations: SciPy does, and the steps that it accepted
(`accepted_steps.py`) are differentiated (`step_adjoint.py`) by their tableaus (`tableau.py`) and
the pullback of the right side (`right_side.py`), and so are events (`events.py`). In compiled code
explicit methods (`compiled_runge_kutta.py`) and Radau (`compiled_radau.py`) are native loops.
`boundary_value.py` solves boundary value problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate

from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.integrate.boundary_value import solve_bvp as solve_bvp
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


Rebinding().drop_in(scipy.integrate, "romb cumulative_simpson")
globals().update(DROP_INS[scipy.integrate])
