"""How a solver of SciPy's is differentiated: by the implicit function theorem.

SciPy solves, with plain numbers (`solved`). Newton's step x - J^-1 F(x), taken twice on tracked
values (`implicit`), has the derivatives of the solution, up to the third; the value stays the one
that SciPy found, however far it went. Within compiled code the solver is called back; there the
function may depend on `args` only.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.jacobians import jacobian
from tracker.leaves import data
from tracker.listening import current_stage
from tracker.rules import custom_gradient
from tracker.scipy._passing import as_array, is_tracked
from tracker.stage import Stage
from tracker.tape import value_of
from tracker.tracked import Tracked
from tracker.tree import leaves
from tracker.values import made_of

Function = Callable[..., Any]


def as_tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def vector(x0: Any) -> Any:
    """Where SciPy begins: the user's function gets floats in an array with an axis."""
    x0 = 1.0 * as_array(x0)
    return np.reshape(x0, (1,)) if np.ndim(x0) == 0 else x0


def plainly(f: Function) -> Function:
    """The function as SciPy can call it: plain numbers come out."""

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        y = f(*args)
        return type(y)(map(data, y)) if type(y) in (tuple, list) else data(y)

    return call


def solved(
    solve: Function, start: Any, args: tuple[Any, ...], name: str, probe: Callable[[], Any]
) -> Any:
    """What SciPy finds from plain numbers: `solve(start, *args)`. `probe` gives a value of the
    user's function at plain numbers: what it captures is not there when compiled code calls it.
    """
    stage = current_stage()
    if stage is None:
        return solve(data(start), *map(data, args))
    if _captures(probe, stage):
        text = f"the function that {name} gets under jit captures a value that may change"
        raise UnsupportedError(message(text, "Pass it through args="))
    if not is_tracked(start, *args):
        return solve(start, *args)
    return called_back(solve, start, *args)


def called_back(solve: Function, *given: Any) -> Any:
    """What a solver finds, in a trace: numbers are found anew on each call, texts are guarded."""
    first: list[Any] = []
    texts: list[dict[str, str]] = []

    @custom_gradient(host=True)
    def solver(*given: Any) -> Any:
        found = solve(*given)
        first[:] = first or [found]
        told = {name: text for name, text in _entries(found).items() if isinstance(text, str)}
        if told not in texts:
            texts.append(told)
        numbers = {
            name: _alike(_entries(found)[name], entry)
            for name, entry in _entries(first[0]).items()
            if isinstance(entry, (int, float, complex, np.ndarray, np.generic))
        }
        return (numbers, texts.index(told)), lambda dy: (None,) * len(given)

    numbers, which = solver(*given)
    if not isinstance(first[0], dict):
        return numbers[""]
    return restricted(first[0], numbers | texts[int(which)])


def _entries(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {"": found}


def _alike(number: Any, first: Any) -> Any:
    """A number or array of the type that the first of its kind had."""
    if type(first) in (bool, int, float, complex):
        return type(first)(number)
    number = np.asarray(number, np.result_type(first))
    return number if type(first) is np.ndarray else number[()]


def restricted(result: Any, entries: dict[str, Any]) -> Any:
    """SciPy's result with these entries; who asks for another one cannot be traced."""
    left = set(result) - set(entries)

    class Restricted(type(result)):  # type: ignore[misc]
        def __missing__(self, name: str) -> Any:
            if name not in left:
                raise KeyError(name)
            text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
            raise UnsupportedError(message(text, "Leave it out"))

        def get(self, name: str, default: Any = None) -> Any:
            return self[name] if name in left else super().get(name, default)

    made = Restricted.__new__(Restricted)
    made.update((name, entries[name]) for name in result if name in entries)
    return made


def _captures(probe: Callable[[], Any], stage: Stage) -> bool:
    """Whether a function depends on what was computed before in this trace. Arrays from outside of
    it are found again when the function is called."""
    before = {note[0] for note in stage.notes}
    found = [made_of(value_of(y), stage.placed) for y in leaves(probe()) if isinstance(y, Tracked)]
    return any(value.op is None or value in before for values in found for value in values)


def implicit(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """x with residual(x, *args) = 0, as a function of what the residual depends on."""
    if not is_tracked(*args) and not isinstance(residual(x, *args), Tracked):
        return x
    moved = x
    for _ in range(2):
        moved = moved - _newton(residual, moved, args, name)
    return standing_for(x, moved)


def _newton(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """J^-1 F(x)."""
    (slope,) = jacobian(lambda at: residual(at, *args), x)
    value = residual(x, *args)
    try:
        if np.ndim(x) == 0:
            return _quotient(value, np.reshape(slope, ()))
        return np.reshape(np.linalg.solve(slope, np.reshape(value, (-1,))), np.shape(x))
    except np.linalg.LinAlgError as error:
        raise UnsupportedError(
            message(
                f"the solution that {name} found has a singular Jacobian, so it is no "
                "differentiable function of the parameters",
                "Use tracker.data on them where no gradient is wanted",
            )
        ) from error


def _quotient(value: Any, slope: Any) -> Any:
    if bool(slope == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    return value / slope


@custom_gradient
def standing_for(x: Any, moved: Any) -> tuple[Any, Function]:
    """The value of the one, with the derivatives of the other."""
    return x, lambda dy: (None, dy)


def refuse(name: str, **given: Any) -> None:
    for keyword, value in given.items():
        if value is not None and not (isinstance(value, tuple) and not value):
            raise UnsupportedError(
                message(
                    f"scipy.optimize.{name} with {keyword}= has no derivative rule here",
                    "Substitute variables that need no constraint, or pass plain parameters",
                )
            )


def depends(f: Function, x: Any, args: tuple[Any, ...]) -> bool:
    """Whether the result is going to depend on something tracked."""
    return is_tracked(x, *args, f(x, *args))


def at_plain(f: Function, x: Any, args: tuple[Any, ...]) -> Callable[[], Any]:
    """The function at plain numbers, where it is tracked only because of what it captures."""
    return lambda: f(data(x), *map(data, args))


def changed(result: Any, **entries: Any) -> Any:
    """SciPy's result, with other entries."""
    made = copy.copy(result)
    made.update(entries)
    return made


def held(stationary: Function, x: Any, args: tuple[Any, ...], low: Any, high: Any) -> Function:
    """What is zero at a minimum within bounds: the distance to the bound, where going down leads
    beyond it, and the slope elsewhere."""
    down = x - stationary(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *now: Any) -> Any:
        free = np.where(above, x - high, stationary(x, *now))
        return np.where(below, x - low, free)

    return condition
