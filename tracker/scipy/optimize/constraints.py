"""Minima under constraints, differentiated by the conditions of Karush, Kuhn and Tucker.

SciPy finds x. Which constraints are active there is a constant; the multipliers are those that fit
the gradient best. Together they solve a system of equations, by which x is a function of what cost,
constraints and bounds depend on:

    gradient of (cost - multipliers @ c)(x) = 0
    c_j(x) = its bound, where constraint j is active;  multiplier_j = 0 elsewhere

At a constraint that is active with a multiplier of zero, x has a kink as a function of the
parameters: that is an error, as are dependent gradients of active constraints (a singular system).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize

from tracker.autodiff.call_ops import detach
from tracker.autodiff.gradients import gradient
from tracker.autodiff.leaves import plain_data
from tracker.errors import UnsupportedError
from tracker.implicit.solution import implicit_solution
from tracker.scipy._bridge.callback import Function
from tracker.scipy._bridge.fallback import as_array
from tracker.transforms.jacobians import jacobian

_ACTIVE_DISTANCE = 1e-6  # from the bound, relative to 1 + |bound|
_LEAST_FORCE = 1e-6  # a multiplier times its constraint's gradient, relative to that of the cost
_LARGEST_STEP = 1e-2  # that a Newton step may move the solution, relative to 1 + |x|


class Constraints:
    """low <= values(x) <= high: all constraints that SciPy was given, and its bounds, as one."""

    def __init__(self, given: Any, low: Any, high: Any) -> None:
        parts = given if isinstance(given, (list, tuple)) else [given]
        self.parts = [_as_interval(part) for part in parts]
        self.is_bounded = low is not None
        if self.is_bounded:
            self.parts.append((lambda x: x, low, high))

    def values(self, x: Any) -> Any:
        return np.concatenate([_vector(f(x)) for f, _, _ in self.parts])

    def ends(self, x: Any) -> tuple[Any, Any]:
        """The lower and the upper bounds of the values."""
        shapes = [np.shape(_vector(f(x))) for f, _, _ in self.parts]
        pairs = list(zip(self.parts, shapes, strict=True))
        low = [np.broadcast_to(1.0 * as_array(part[1]), shape) for part, shape in pairs]
        high = [np.broadcast_to(1.0 * as_array(part[2]), shape) for part, shape in pairs]
        return np.concatenate(low), np.concatenate(high)


def _as_interval(part: Any) -> tuple[Function, Any, Any]:
    """(f, low, high) of a constraint in any of SciPy's forms."""
    if isinstance(part, scipy.optimize.LinearConstraint):
        return (lambda x: part.A @ x), part.lb, part.ub
    if isinstance(part, scipy.optimize.NonlinearConstraint):
        return part.fun, part.lb, part.ub
    f, args = part["fun"], part.get("args", ())
    return (lambda x: f(x, *args)), 0.0, 0.0 if part["type"].lower() == "eq" else np.inf


def _vector(y: Any) -> Any:
    return np.reshape(as_array(y), (-1,))


def constrained_minimum(
    cost: Function, x: Any, start: Any, args: tuple[Any, ...], constraints: Constraints
) -> Any:
    """The minimum x, which SciPy found, as a function of what the cost, the constraints and the
    bounds depend on."""
    at_low, at_high, multipliers = _active_set(cost, x, start, args, constraints)
    n = np.size(x)

    def conditions(both: Any) -> Any:
        x, weights = both[:n], both[n:]

        def lagrangian(x: Any) -> Any:
            return cost(x, *args) - np.sum(weights * constraints.values(x))

        low, high = constraints.ends(x)
        bound = np.where(at_low, low, np.where(at_high, high, 0.0))
        rest = np.where(at_low | at_high, constraints.values(x) - bound, weights)
        return np.concatenate([gradient(lagrangian, x)[0], rest])

    both = np.concatenate([x, multipliers])
    return implicit_solution(conditions, both, "minimize", tol=_LARGEST_STEP)[:n]


def _active_set(
    cost: Function, x: Any, start: Any, args: tuple[Any, ...], constraints: Constraints
) -> tuple[Any, Any, Any]:
    """Which constraints are at their lower and upper bounds, and the multipliers of all.

    A constraint is active where its force on x is larger than its distance from the bound, both
    relative: so also the active ones of interior methods are found, which stop before the bound.
    """
    c, low, high = map(detach, (constraints.values(x), *constraints.ends(x)))
    slope, first = (detach(gradient(lambda x: cost(x, *args), at)[0]) for at in (x, start))
    rows = detach(jacobian(constraints.values, x)[0])
    above, below = _distance(c, low), _distance(c, high)
    is_low, distance = above <= below, np.minimum(above, below)
    lengths = np.sqrt(np.sum(rows**2, axis=1))

    # The multipliers that fit the gradient, those of distant constraints held down.
    penalty = np.where(np.isfinite(distance), distance, 1.0) * lengths
    inside = np.where(np.isfinite(distance)[:, None], rows, 0.0)
    fitted = np.linalg.pinv(inside @ np.transpose(inside) + np.diag(penalty**2)) @ (inside @ slope)
    scale = np.maximum(np.max(np.abs(slope)), np.max(np.abs(first)))
    forces = fitted * lengths * np.where(is_low, 1.0, -1.0) / np.where(scale > 0, scale, 1.0)

    one_sided = low != high
    kinks = one_sided & (distance <= _ACTIVE_DISTANCE) & (forces <= _LEAST_FORCE)
    if bool(np.any(kinks)):
        at = int(np.flatnonzero(kinks)[0])
        own = np.size(c) - np.size(x) if constraints.is_bounded else np.size(c)
        what = f"constraint {at}" if at < own else f"the bound of x[{at - own}]"
        raise _kink(what, float(plain_data(fitted[at])))
    active = (forces > distance) | ~one_sided
    held = np.where(active[:, None], rows, 0.0)
    return active & is_low, active & ~is_low, np.linalg.pinv(np.transpose(held)) @ slope


def _distance(c: Any, bound: Any) -> Any:
    """The distance from a bound, relative to 1 + its size."""
    finite = np.isfinite(bound)
    bound = np.where(finite, bound, 0.0)
    return np.where(finite, np.abs(c - bound) / (1 + np.abs(bound)), np.inf)


def _kink(what: str, multiplier: float) -> UnsupportedError:
    text = (
        f"{what} is active at the minimum that minimize found, with the multiplier "
        f"{multiplier:.1g}: the solution has a kink there, or is no minimum"
    )
    hint = "Leave it out where it changes nothing, or let SciPy go on by a smaller tol="
    return UnsupportedError(text, hint)
