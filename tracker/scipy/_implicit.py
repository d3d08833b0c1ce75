"""How a solver of SciPy's is differentiated: by the implicit function theorem.

SciPy solves, with plain numbers (`solved`). Newton's step x - J^-1 F(x), taken twice on tracked
values (`implicit`), then changes nothing but the last digits of x, and has the derivatives of the
solution, up to the third. Within compiled code the solver is called back; there the function may
depend on `args` only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.jacobians import jacobian
from tracker.leaves import data
from tracker.listening import current_stage
from tracker.rules import custom_gradient
from tracker.scipy._passing import is_tracked
from tracker.stage import Stage
from tracker.tape import value_of
from tracker.tracked import Tracked
from tracker.values import made_of

Function = Callable[..., Any]


def as_tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


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

    @custom_gradient(host=True)
    def solver(start: Any, *args: Any) -> Any:
        return np.asarray(solve(start, *args), float), lambda dy: (None,) * (1 + len(args))

    return solver(start, *args)


def _captures(probe: Callable[[], Any], stage: Stage) -> bool:
    """Whether a function depends on what was computed before in this trace. Arrays from outside of
    it are found again when the function is called."""
    before = {note[0] for note in stage.notes}
    y = probe()
    if not isinstance(y, Tracked):
        return False
    found = made_of(value_of(y), stage.placed)
    return any(value.op is None or value in before for value in found)


def implicit(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
    """x with residual(x, *args) = 0, as a function of what the residual depends on."""
    if not is_tracked(*args) and not isinstance(residual(x, *args), Tracked):
        return x
    for _ in range(2):
        (slope,) = jacobian(lambda at: residual(at, *args), x)
        value = residual(x, *args)
        if np.ndim(x) == 0:
            x = x - value / np.reshape(slope, ())
            continue
        try:
            step = np.linalg.solve(slope, np.reshape(value, (-1,)))
        except np.linalg.LinAlgError as error:
            raise UnsupportedError(
                message(
                    f"the solution that {name} found has a singular Jacobian, so it is no "
                    "differentiable function of the parameters",
                    "Use tracker.data on them where no gradient is wanted",
                )
            ) from error
        x = x - np.reshape(step, np.shape(x))
    return x


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
    return type(result)({**result, **entries})


def held(stationary: Function, x: Any, args: tuple[Any, ...], low: Any, high: Any) -> Function:
    """What is zero at a minimum within bounds: the distance to the bound, where going down leads
    beyond it, and the slope elsewhere."""
    down = x - stationary(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *now: Any) -> Any:
        free = np.where(above, x - high, stationary(x, *now))
        return np.where(below, x - low, free)

    return condition
