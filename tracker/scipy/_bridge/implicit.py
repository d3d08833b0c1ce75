"""How a solver of SciPy's is differentiated: by the implicit function theorem.

SciPy solves, with plain numbers, its options among them. Newton's step x - J^-1 F(x), taken twice
on tracked values (`implicit_solution`), has the derivatives of the solution, up to the third; the
value stays the one that SciPy found, however far it went. Within compiled code the solver is called
back (`callback.py`); there the function may depend on `args` only.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tracker.autodiff.custom_rules import custom_gradient
from tracker.errors import UnsupportedError, message
from tracker.scipy._bridge.callback import Function
from tracker.scipy._bridge.fallback import as_array, is_tracked
from tracker.tape.tracked import Tracked
from tracker.transforms.jacobians import jacobian
from tracker.tree import leaves


def as_tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def start_vector(x0: Any) -> Any:
    """Where SciPy begins: the user's function gets floats in an array with an axis."""
    x0 = 1.0 * as_array(x0)
    return np.reshape(x0, (1,)) if np.ndim(x0) == 0 else x0


def implicit_solution(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """x with residual(x, *args) = 0, as a function of what the residual depends on."""
    if not is_tracked(*args) and not isinstance(residual(x, *args), Tracked):
        return x
    moved = x
    for _ in range(2):
        moved = moved - _newton_step(residual, moved, args, name)
    return with_derivatives_of(x, moved)


def _newton_step(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """J^-1 F(x)."""
    (slope,) = jacobian(lambda at: residual(at, *args), x)
    value = residual(x, *args)
    try:
        if np.ndim(x) == 0:
            return _nonsingular_quotient(value, np.reshape(slope, ()))
        return np.reshape(np.linalg.solve(slope, np.reshape(value, (-1,))), np.shape(x))
    except np.linalg.LinAlgError as error:
        raise UnsupportedError(
            message(
                f"the solution that {name} found has a singular Jacobian, so it is no "
                "differentiable function of the parameters",
                "Use tracker.data on them where no gradient is wanted",
            )
        ) from error


def _nonsingular_quotient(value: Any, slope: Any) -> Any:
    if bool(slope == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    return value / slope


@custom_gradient
def with_derivatives_of(x: Any, moved: Any) -> tuple[Any, Function]:
    """The value of the one, with the derivatives of the other."""
    return x, lambda dy: (None, dy)


def refuse_options(name: str, **given: Any) -> None:
    for keyword, value in given.items():
        if value is not None and not (isinstance(value, tuple) and not value):
            raise UnsupportedError(
                message(
                    f"scipy.optimize.{name} with {keyword}= has no derivative rule here",
                    "Substitute variables that need no constraint, or pass plain parameters",
                )
            )


def depends_on_tracked(f: Function, x: Any, args: tuple[Any, ...], *options: Any) -> bool:
    """Whether the result is going to depend on something tracked."""
    return is_tracked(x, *args, *leaves(options)) or is_tracked(f(x, *args))


def with_entries(result: Any, **entries: Any) -> Any:
    """SciPy's result, with other entries."""
    made = copy.copy(result)
    made.update(entries)
    return made


def stationarity_within_bounds(
    stationary: Function, x: Any, args: tuple[Any, ...], low: Any, high: Any
) -> Function:
    """What is zero at a minimum within bounds: the distance to the bound, where going down leads
    beyond it, and the slope elsewhere."""
    down = x - stationary(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *now: Any) -> Any:
        free = np.where(above, x - high, stationary(x, *now))
        return np.where(below, x - low, free)

    return condition
