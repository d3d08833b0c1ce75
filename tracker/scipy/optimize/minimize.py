"""Minima, differentiated by the implicit function theorem (`scipy/_bridge/implicit.py`), and
gradients by finite differences. `constraints.py` has minima under constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.optimize

from tracker.scipy._bridge.callback import (
    Function,
    call_scipy,
    call_solver,
    use_scipy_unless_differentiated,
)
from tracker.scipy._bridge.fallback import as_array, is_tracked
from tracker.scipy._bridge.implicit import (
    as_cost,
    as_tuple,
    depends_on_tracked,
    implicit_solution,
    minimum_condition,
    start_vector,
    with_entries,
)
from tracker.scipy.optimize.constraints import Constraints, constrained_minimum
from tracker.tape.observers import is_deriving, is_tracing

_STEP = math.sqrt(np.finfo(float).eps)


@use_scipy_unless_differentiated(scipy.optimize.minimize)
def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, **options: Any) -> Any:
    """A minimum; `.x` and `.fun` are differentiable, also in what bounds and constraints depend on:
    active ones stay active, the others count as absent."""
    start, args = start_vector(x0), as_tuple(args)
    pair = options.get("jac") is True
    value = (lambda x, *params: fun(x, *params)[0]) if pair else fun
    low, high = _bound_arrays(options.get("bounds"))
    given = options.get("constraints") or ()
    constraints = Constraints(given, low, high) if np.size(given) else None
    limits = () if constraints is None else (constraints.values(start), *constraints.ends(start))
    if not depends_on_tracked(value, start, args, low, high, *limits, options):
        return scipy.optimize.minimize(fun, x0, args, method, **options)

    def solve(fun: Any, start: Any, args: Any, ends: Any, options: Any) -> Any:
        if ends[0] is not None:
            options = {**options, "bounds": scipy.optimize.Bounds(*ends)}
        return scipy.optimize.minimize(fun, start, args, method, **options)

    options.pop("bounds", None)
    found = call_solver("minimize", solve, fun, start, args, (low, high), options)
    if constraints is not None:
        x = constrained_minimum(value, found.x, start, args, constraints)
    else:
        condition = minimum_condition(value, found.x, args, low, high)
        x = implicit_solution(condition, found.x, args, "minimize")
    return with_entries(found, x=x, fun=as_cost(value(x, *args)))


def _bound_arrays(bounds: Any) -> tuple[Any, Any]:
    """The lower and upper bounds as arrays; None without bounds."""
    if bounds is None:
        return None, None
    if isinstance(bounds, scipy.optimize.Bounds):
        return bounds.lb, bounds.ub
    low, high = zip(*bounds, strict=True)
    ends = (low, -math.inf), (high, math.inf)
    return tuple(
        np.stack([unbounded if e is None else 1.0 * e for e in end]) for end, unbounded in ends
    )  # type: ignore[return-value]


@use_scipy_unless_differentiated(scipy.optimize.minimize_scalar)
def minimize_scalar(
    fun: Any, bracket: Any = None, bounds: Any = None, args: Any = (), **options: Any
) -> Any:
    """A minimum of a function of one number; `.x` and `.fun` are differentiable, also in the
    bounds."""
    args = as_tuple(args)
    start = 0.0 if bracket is None else bracket[0]
    if bounds is not None:
        start = 0.5 * (bounds[0] + bounds[1])
    if not depends_on_tracked(fun, start, args, bracket, options):
        return scipy.optimize.minimize_scalar(fun, bracket, bounds, args, **options)
    ends = None if bounds is None else (1.0 * bounds[0], 1.0 * bounds[1])

    found = call_scipy(scipy.optimize.minimize_scalar, fun, bracket, ends, args, **options)
    condition = minimum_condition(fun, found.x, args, *(ends or ()))
    x = implicit_solution(condition, found.x, args, "minimize_scalar")
    return with_entries(found, x=x, fun=fun(x, *args))


def approx_fprime(xk: Any, f: Function, epsilon: Any = _STEP, *args: Any) -> Any:
    """The derivative of f at xk by forward differences, itself differentiable."""
    if not (is_tracing() or is_deriving() or is_tracked(xk, epsilon, *args)):
        return scipy.optimize.approx_fprime(xk, f, epsilon, *args)
    at, first = as_array(xk) * 1.0, f(xk, *args)
    unit = np.eye(np.size(at))
    steps = np.broadcast_to(as_array(epsilon), np.shape(at))
    columns = []
    for i in range(np.size(at)):
        moved = at + steps[i] * unit[i]
        columns.append((as_array(f(moved, *args)) - first) / (moved[i] - at[i]))
    return np.stack(columns, axis=-1)
