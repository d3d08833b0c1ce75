"""The older interfaces of `scipy.optimize`: fmin and its relatives, leastsq, fsolve, newton,
fixed_point, and the methods for large systems, differentiated by the implicit function theorem
(`scipy/_bridge/implicit.py`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.scipy._bridge.callback import call_scipy, use_scipy_unless_differentiated
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy._bridge.implicit import (
    as_cost,
    as_tuple,
    depends_on_tracked,
    implicit_solution,
    minimum_condition,
    refuse_options,
    run_at_solution,
    start_vector,
    with_solution,
)


def _solver(
    name: str,
    what: str,
    condition: Callable[..., Any],
    start: Callable[[Any], Any] = start_vector,
    refused: tuple[str, ...] = ("full_output", "retall"),
    returns_value: bool = False,
) -> Callable[..., Any]:
    """SciPy's solver of this name, whose x is zero of `condition(f, x, args)`, a function of
    (x, *args). `start` makes the starting point; `refused` are flags that ask for more results.
    `returns_value`: with `full_output` f(x) comes second, and counts and flags follow."""
    theirs = getattr(scipy.optimize, name)

    def find(func: Any, x0: Any, *rest: Any, **options: Any) -> Any:
        signature = inspect.signature(theirs)
        given = signature.bind(func, x0, *rest, **options).arguments
        at, args = start(x0), as_tuple(given.get("args", ()))
        if not depends_on_tracked(func, at, args, rest, options):
            return theirs(func, x0, *rest, **options)

        for flag in refused:
            refuse_options(name, **{flag: given.get(flag)})
        given[[*signature.parameters][1]] = at
        if "args" in signature.parameters:
            given["args"] = args
        found = call_scipy(theirs, **given)
        x = found[0] if isinstance(found, tuple) else found
        x = implicit_solution(condition(func, x, args), x, args, name)
        if returns_value and isinstance(found, tuple):
            return x, as_cost(func(x, *args)), *found[2:]
        run_at_solution(func, x, args)
        return with_solution(found, x)

    find.__name__ = find.__qualname__ = name
    find.__doc__ = f"{what}, as scipy.optimize.{name} finds it."
    return use_scipy_unless_differentiated(theirs)(find)


def _minimizer(name: str) -> Callable[..., Any]:
    return _solver(name, "A minimum", minimum_condition, refused=("retall",), returns_value=True)


fmin = _minimizer("fmin")
fmin_bfgs = _solver("fmin_bfgs", "A minimum", minimum_condition)
fmin_cg = _minimizer("fmin_cg")
fmin_ncg = _minimizer("fmin_ncg")
fmin_powell = _solver("fmin_powell", "A minimum", minimum_condition)


def _least_squares_condition(f: Callable[..., Any], x: Any, args: Any) -> Callable[..., Any]:
    def cost(x: Any, *params: Any) -> Any:
        return 0.5 * np.sum(as_array(f(x, *params)) ** 2)

    return minimum_condition(cost, x, args)


leastsq = _solver("leastsq", "The least sum of squares, and a flag", _least_squares_condition)
fsolve = _solver(
    "fsolve",
    "A root of a system",
    lambda f, *_: lambda x, *params: as_array(f(x, *params)),
    refused=(),
)
newton = _solver(
    "newton", "A root near x0", lambda f, *_: f, lambda x0: 1.0 * as_array(x0), refused=()
)


def _of_system(name: str) -> Callable[..., Any]:
    return _solver(name, "A root of a system", lambda f, *_: f, lambda x: 1.0 * as_array(x), ())


anderson = _of_system("anderson")
broyden1 = _of_system("broyden1")
broyden2 = _of_system("broyden2")
diagbroyden = _of_system("diagbroyden")
excitingmixing = _of_system("excitingmixing")
linearmixing = _of_system("linearmixing")
newton_krylov = _of_system("newton_krylov")
fixed_point = _solver(
    "fixed_point",
    "A fixed point of a function",
    lambda f, *_: lambda x, *params: f(x, *params) - x,
    as_array,
)
