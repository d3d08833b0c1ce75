"""SciPy's solvers, differentiated by the implicit function theorem (`tracker/implicit`).

SciPy solves F(x, p) = 0 with plain numbers and the user's options; the value stays SciPy's, also
where SciPy stopped early. Compiled code calls the solver back (`callback.py`).
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.optimize import RootResults

from tracker import tree
from tracker.autodiff.gradients import gradient
from tracker.implicit import solution
from tracker.scipy._bridge.callback import Function
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.tape.observers import is_tracing
from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked


def as_tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def start_vector(x0: Any) -> Any:
    """SciPy's starting point for the user's function: a float array with at least one axis."""
    x0 = 1.0 * as_array(x0)
    return np.reshape(x0, (1,)) if np.ndim(x0) == 0 else x0


def implicit_solution(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """The solution x of residual(x, *args) = 0, as a function of what the residual depends on.
    What is stored later into containers and objects among `args` is not for this solution."""
    now = tree.map(_as_it_is, args)
    return solution.implicit_solution(lambda x: residual(x, *now), x, name)


def _as_it_is(x: Any) -> Any:
    """A tracked array that stays what it is when the given one is written into."""
    return wrap(value_of(x)) if isinstance(x, Tracked) else x


def root_of(f: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """The solution x of f(x, *args) = 0, likewise."""
    x = implicit_solution(f, x, args, name)
    run_at_solution(f, x, args)
    return x


def run_at_solution(f: Function, x: Any, args: tuple[Any, ...]) -> None:
    """Run a function of the user's at the solution: what it stores elsewhere has derivatives, too.
    (Compiled code refuses functions that store.)"""
    if not is_tracing():
        f(x, *args)


def refuse_options(name: str, **given: Any) -> None:
    """Refuse options that ask for results that are not differentiated."""
    for keyword, value in given.items():
        if value:
            raise no_derivative_rule(
                f"scipy.optimize.{name} with {keyword}=",
                "Leave it out, or use minimize or least_squares, whose results have more entries",
            )


def depends_on_tracked(f: Function, x: Any, args: tuple[Any, ...], *options: Any) -> bool:
    """Whether the result will depend on a tracked value."""
    return is_tracked(x, *args, *tree.leaves(options)) or is_tracked(f(x, *args))


def with_entries(result: Any, **entries: Any) -> Any:
    """A copy of SciPy's result with some entries replaced."""
    copied = copy.copy(result)
    copied.update(entries)
    return copied


def with_solution(found: Any, x: Any) -> Any:
    """What SciPy returned for a root, alone or before other results, with x in its place."""
    if not isinstance(found, tuple):
        return x
    return x, *[
        with_entries(each, root=x) if isinstance(each, RootResults) else each for each in found[1:]
    ]


def as_cost(y: Any) -> Any:
    """A cost as a number, also where it is an array of one element, as SciPy allows."""
    return np.reshape(y, ()) if np.ndim(y) and np.size(y) == 1 else y


def minimum_condition(
    cost: Function, x: Any, args: tuple[Any, ...], low: Any = None, high: Any = None
) -> Function:
    """The function that is zero at the minimum x: the gradient of the cost, or the distance from
    the bound for a variable at an active bound."""

    def slope(x: Any, *params: Any) -> Any:
        return gradient(lambda x: as_cost(cost(x, *params)), x)[0]

    if low is None:
        return slope
    down = x - slope(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *params: Any) -> Any:
        free = np.where(above, x - high, slope(x, *params))
        return np.where(below, x - low, free)

    return condition
