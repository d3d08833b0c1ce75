"""Legendre functions and spherical harmonics: SciPy's newer names, with their `diff_n`.

Degrees and orders are whole numbers. The derivative of a spherical Legendre function in the angle
is a combination of those of the neighbouring orders, hence derivatives of any order, also at the
poles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from tracker.ir.lowering import Host
from tracker.ir.op import NUMPY, UNSUPPORTED
from tracker.ops.declare.declare import declare
from tracker.ops.declare.dtypes import infer_by_example
from tracker.ops.declare.rule_helpers import match_tangent, project
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import no_derivative_rule
from tracker.tape.record import apply


def _evaluate_sph_legendre(n: Any, m: Any, theta: Any) -> Any:
    return scipy.special.sph_legendre_p(n, m, theta)[0]


def _order_recurrence(of: Callable[[Any], Any], n: Any, m: Any) -> Any:
    """The derivative in the angle, from `of(order)` at the neighbouring orders; beyond -n to n the
    factors are 0."""
    degree, order = 1.0 * n, 1.0 * m  # products of small integers would overflow
    up, down = (degree - order) * (degree + order + 1), (degree + order) * (degree - order + 1)
    above, below = np.sqrt(np.maximum(up, 0)), np.sqrt(np.maximum(down, 0))
    return 0.5 * (above * of(m + 1) - below * of(m - 1))


def _theta_derivative(n: Any, m: Any, theta: Any) -> Any:
    slope = _order_recurrence(lambda m: apply(sph_legendre, (n, m, theta)), n, m)
    return _sine_sign(theta) * slope


def _sine_sign(theta: Any) -> Any:
    """The sign of the sine: SciPy takes its absolute value, so the functions are even in theta."""
    return np.where(np.sin(theta) < 0, -1.0, 1.0)


sph_legendre = declare(
    "sph_legendre",
    infer=infer_by_example(_evaluate_sph_legendre),
    evaluate=_evaluate_sph_legendre,
    jvp=[
        None,
        None,
        lambda t, y, n, m, theta: match_tangent(t * _theta_derivative(n, m, theta), y),
    ],
    vjp=[None, None, lambda g, y, n, m, theta: project(g * _theta_derivative(n, m, theta), theta)],
    lower=Host("SciPy's sph_legendre_p"),
)


@drop_in(scipy.special)
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """The spherical Legendre function and its first `diff_n` derivatives, along a first axis."""

    def derivative(k: int, m: Any) -> Any:
        if k == 0:
            return apply(sph_legendre, (n, m, theta))
        return falling * _order_recurrence(lambda m: derivative(k - 1, m), n, m)

    falling = _sine_sign(theta)
    n, m = np.asarray(n), np.asarray(m)
    return np.stack([derivative(k, m) for k in range(diff_n + 1)])


@drop_in(scipy.special)
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """The spherical harmonic of degree n and order m, at the polar angle theta."""
    _refuse_derivatives("sph_harm_y", diff_n)
    n, m = np.asarray(n), np.asarray(m)
    return apply(sph_legendre, (n, m, theta)) * np.exp(1j * (m * phi))


@drop_in(scipy.special)
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """The Legendre polynomial and its first derivatives (Gegenbauer polynomials), along a first
    axis."""
    n = np.asarray(n)
    parts = [scipy.special.eval_legendre(n, z)]
    for k in range(1, diff_n + 1):
        scale = scipy.special.factorial2(2 * k - 1)
        part = scipy.special.eval_gegenbauer(np.maximum(n - k, 0), k + 0.5, z)
        parts.append(np.where(n >= k, scale * part, 0.0))
    return np.stack(parts)


@drop_in(scipy.special)
def assoc_legendre_p(*_: Any, **__: Any) -> Any:
    """Refused by name."""
    raise no_derivative_rule(
        "scipy.special.assoc_legendre_p",
        "Use scipy.special.lpmv(m, n, z), or sph_legendre_p of an angle",
    )


NUMPY[scipy.special.assoc_legendre_p] = assoc_legendre_p
UNSUPPORTED[scipy.special.assoc_legendre_p] = "no derivative rule; `lpmv(m, n, z)` has one"


def _refuse_derivatives(name: str, diff_n: int) -> None:
    if diff_n:
        raise no_derivative_rule(
            f"scipy.special.{name} with diff_n={diff_n}", "Leave diff_n= out, and differentiate"
        )
