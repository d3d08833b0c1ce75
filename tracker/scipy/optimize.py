"""`scipy.optimize` on tracked values: roots, fixed points and minima, differentiated in what the
function depends on (`args=`, and what it captures) by the implicit function theorem.

SciPy solves, with plain numbers. Newton's step x - J^-1 F(x), taken twice on tracked values, then
changes nothing but the last digits of x, and has the derivatives of the solution, up to the third.
Within compiled code the solver is called back; there the function may depend on `args` only.

What is not defined here is SciPy's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.errors import UnsupportedError, message
from tracker.gradients import gradient
from tracker.jacobians import jacobian
from tracker.leaves import data
from tracker.rules import custom_gradient
from tracker.scipy._families import is_tracked
from tracker.scipy._passing import passing
from tracker.tape import is_recording
from tracker.tracked import Tracked

__getattr__ = passing(scipy.optimize)

Function = Callable[..., Any]


def _tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _plainly(f: Function) -> Function:
    """The function as SciPy can call it: plain numbers come out."""

    def call(*args: Any) -> Any:
        y = f(*args)
        return type(y)(map(data, y)) if type(y) in (tuple, list) else data(y)

    return call


def _solved(solve: Function, start: Any, args: tuple[Any, ...], name: str) -> Any:
    """What SciPy finds from plain numbers: `solve(start, *args)`."""
    if not is_recording() or not is_tracked(start, *args):
        return solve(data(start), *map(data, args))

    @custom_gradient(host=True)
    def solver(start: Any, *args: Any) -> Any:
        found = solve(start, *args)
        if isinstance(found, Tracked):
            raise UnsupportedError(
                message(f"{name} under jit depends on a captured value", "Pass it through args=")
            )
        return np.asarray(found, float), lambda dy: (None,) * (1 + len(args))

    return solver(start, *args)


def _implicit(residual: Function, x: Any, args: tuple[Any, ...], name: str) -> Any:
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


def _refuse(name: str, **given: Any) -> None:
    for keyword, value in given.items():
        if value is not None and not (isinstance(value, tuple) and not value):
            raise UnsupportedError(
                message(
                    f"scipy.optimize.{name} with {keyword}= has no derivative rule here",
                    "Substitute variables that need no constraint, or pass plain parameters",
                )
            )


def _depends(f: Function, x: Any, args: tuple[Any, ...]) -> bool:
    """Whether the result is going to depend on something tracked."""
    return is_tracked(x, *args, f(x, *args))


def _with(result: Any, **changed: Any) -> Any:
    """SciPy's result, with other entries."""
    return type(result)({**result, **changed})


# Systems ------------------------------------------------------------------------------------------


def root(fun: Any, x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """A root of a system of equations; `.x` is differentiable."""
    args = _tuple(args)
    if not _depends(fun, x0, args):
        return scipy.optimize.root(fun, x0, args, method, **options)
    found: list[Any] = []

    def solve(start: Any, *now: Any) -> Any:
        found[:] = [scipy.optimize.root(_plainly(fun), start, now, method, **options)]
        return found[-1].x

    x = _implicit(_as_array(fun), _solved(solve, x0, args, "root"), args, "root")
    return _with(found[-1], x=x)


def fsolve(func: Any, x0: Any, args: Any = (), **options: Any) -> Any:
    """A root of a system of equations."""
    args = _tuple(args)
    if not _depends(func, x0, args):
        return scipy.optimize.fsolve(func, x0, args, **options)
    _refuse("fsolve", full_output=options.pop("full_output", None) or None)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.fsolve(_plainly(func), start, now, **options)

    return _implicit(_as_array(func), _solved(solve, x0, args, "fsolve"), args, "fsolve")


def _as_array(f: Function) -> Function:
    """A function that returns a list returns an array."""

    def call(x: Any, *args: Any) -> Any:
        y = f(x, *args)
        return np.stack(y) if isinstance(y, (list, tuple)) else y

    return call


def fixed_point(func: Any, x0: Any, args: Any = (), **options: Any) -> Any:
    """x with func(x, *args) = x."""
    args = _tuple(args)
    if not _depends(func, x0, args):
        return scipy.optimize.fixed_point(func, x0, args, **options)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.fixed_point(_plainly(func), start, now, **options)[()]

    def residual(x: Any, *now: Any) -> Any:
        return func(x, *now) - x

    return _implicit(residual, _solved(solve, x0, args, "fixed_point"), args, "fixed_point")


# One unknown --------------------------------------------------------------------------------------


def _bracketed(name: str) -> Function:
    theirs = getattr(scipy.optimize, name)

    def find(f: Any, a: Any, b: Any, args: Any = (), **options: Any) -> Any:
        args = _tuple(args)
        if not _depends(f, a, (*args,)) and not is_tracked(b):
            return theirs(f, a, b, args, **options)
        _refuse(name, full_output=options.pop("full_output", None) or None)

        def solve(low: Any, high: Any, *now: Any) -> Any:
            return theirs(_plainly(f), float(low), float(high), now, **options)

        return _implicit(f, _solved(solve, a, (b, *args), name), args, name)

    find.__name__ = name
    find.__doc__ = f"The root of f between a and b, as scipy.optimize.{name} finds it."
    return find


brentq = _bracketed("brentq")
brenth = _bracketed("brenth")
bisect = _bracketed("bisect")
ridder = _bracketed("ridder")
toms748 = _bracketed("toms748")


def newton(func: Any, x0: Any, fprime: Any = None, args: Any = (), **options: Any) -> Any:
    """A root near x0, by Newton's method or the secant method."""
    args = _tuple(args)
    if not _depends(func, x0, args):
        return scipy.optimize.newton(func, x0, fprime, args, **options)
    _refuse("newton", full_output=options.pop("full_output", None) or None)
    slope = None if fprime is None else _plainly(fprime)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.newton(_plainly(func), start, slope, now, **options)

    return _implicit(func, _solved(solve, x0, args, "newton"), args, "newton")


# Minima -------------------------------------------------------------------------------------------


def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, **options: Any) -> Any:
    """A minimum; `.x` and `.fun` are differentiable, in the bounds, too: what a bound holds moves
    with it, the rest as if there were none."""
    args = _tuple(args)
    pair = options.get("jac") is True
    value = (lambda x, *now: fun(x, *now)[0]) if pair else fun
    low, high = _box(options.get("bounds"))
    if not is_tracked(low, high) and not _depends(value, x0, args):
        return scipy.optimize.minimize(fun, x0, args, method, **options)
    _refuse("minimize", constraints=options.get("constraints"))
    ends = () if low is None else (low, high)
    for keyword in ("jac", "hess", "hessp", "callback"):
        if callable(options.get(keyword)):
            options[keyword] = _plainly(options[keyword])
    found: list[Any] = []

    def solve(start: Any, *now: Any) -> Any:
        if ends:
            now, options["bounds"] = now[:-2], scipy.optimize.Bounds(*now[-2:])
        found[:] = [scipy.optimize.minimize(_plainly(fun), start, now, method, **options)]
        return found[-1].x

    def stationary(x: Any, *now: Any) -> Any:
        return gradient(lambda at: value(at, *now), x)[0]

    x = _solved(solve, x0, (*args, *ends), "minimize")
    condition = stationary if low is None else _held(stationary, x, args, low, high)
    x = _implicit(condition, x, args, "minimize")
    return _with(found[-1], x=x, fun=value(x, *args))


def _box(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds as arrays; None where there are no bounds at all."""
    if bounds is None:
        return None, None
    if isinstance(bounds, scipy.optimize.Bounds):
        return bounds.lb, bounds.ub
    low, high = zip(*bounds, strict=True)
    ends = (low, -math.inf), (high, math.inf)
    return tuple(np.stack([far if e is None else 1.0 * e for e in end]) for end, far in ends)  # type: ignore[return-value]


def _held(stationary: Function, x: Any, args: tuple[Any, ...], low: Any, high: Any) -> Function:
    """What is zero at a minimum within bounds: the distance to the bound, where going down leads
    beyond it, and the slope elsewhere."""
    down = x - stationary(x, *args)
    below, above = down <= low, down >= high

    def condition(x: Any, *now: Any) -> Any:
        free = np.where(above, x - high, stationary(x, *now))
        return np.where(below, x - low, free)

    return condition
