"""Solvers, differentiated by the implicit function theorem.

SciPy solves F(x, p) = 0 with plain numbers and the user's options. Two Newton steps x - J^-1 F(x)
on tracked values then carry the derivatives of the solution in p, up to the third order; the value
stays SciPy's, also where SciPy stopped early (`implicit_solution`). Compiled code calls the solver
back (`callback.py`); there F may depend on `args` only.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.gradients import gradient
from tracker.errors import UnsupportedError, message
from tracker.scipy._bridge.callback import Function
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.tape.tracked import Tracked
from tracker.transforms.jacobians import jacobian
from tracker.tree import leaves


def as_tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def start_vector(x0: Any) -> Any:
    """SciPy's starting point for the user's function: a float array with at least one axis."""
    x0 = 1.0 * as_array(x0)
    return np.reshape(x0, (1,)) if np.ndim(x0) == 0 else x0


def implicit_solution(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """The solution x of residual(x, *args) = 0, as a function of what the residual depends on."""
    if not is_tracked(*args) and not isinstance(residual(x, *args), Tracked):
        return x
    stepped = x
    for _ in range(2):
        stepped = stepped - _newton_step(residual, stepped, args, name)
    return with_derivatives_of(x, stepped)


def _newton_step(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """J^-1 F(x)."""
    (slope,) = jacobian(lambda x: residual(x, *args), x)
    value = residual(x, *args)
    try:
        if np.ndim(x) == 0:
            return _nonsingular_quotient(value, np.reshape(slope, ()))
        return np.reshape(np.linalg.solve(slope, np.reshape(value, (-1,))), np.shape(x))
    except np.linalg.LinAlgError as error:
        text = (
            f"the solution that {name} found has a singular Jacobian, so it is no "
            "differentiable function of the parameters"
        )
        raise UnsupportedError(
            message(text, "Use tracker.data on them where no gradient is wanted")
        ) from error


def _nonsingular_quotient(value: Any, slope: Any) -> Any:
    if bool(slope == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    return value / slope


@custom_gradient
def with_derivatives_of(x: Any, other: Any) -> tuple[Any, Function]:
    """The value of `x` with the derivatives of `other`."""
    return x, lambda dy: (None, dy)


def refuse_options(name: str, **given: Any) -> None:
    """Refuse options that change the result in a way that is not differentiated."""
    for keyword, value in given.items():
        if value is not None and not (isinstance(value, tuple) and not value):
            raise no_derivative_rule(
                f"scipy.optimize.{name} with {keyword}=",
                "Substitute variables that need no constraint, or pass plain parameters",
            )


def depends_on_tracked(f: Function, x: Any, args: tuple[Any, ...], *options: Any) -> bool:
    """Whether the result will depend on a tracked value."""
    return is_tracked(x, *args, *leaves(options)) or is_tracked(f(x, *args))


def with_entries(result: Any, **entries: Any) -> Any:
    """A copy of SciPy's result with some entries replaced."""
    copied = copy.copy(result)
    copied.update(entries)
    return copied


def minimum_condition(
    cost: Function, x: Any, args: tuple[Any, ...], low: Any = None, high: Any = None
) -> Function:
    """The function that is zero at the minimum x: the gradient of the cost, or the distance from
    the bound for a variable at an active bound."""

    def slope(x: Any, *params: Any) -> Any:
        return gradient(lambda x: cost(x, *params), x)[0]

    if low is None:
        return slope
    down = x - slope(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *params: Any) -> Any:
        free = np.where(above, x - high, slope(x, *params))
        return np.where(below, x - low, free)

    return condition
