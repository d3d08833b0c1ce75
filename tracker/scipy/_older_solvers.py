"""`scipy.optimize`'s older functions: fmin and its relatives, leastsq. SciPy finds the minimum; its
derivatives are those of the implicit function theorem (`_implicit.py`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.gradients import gradient
from tracker.scipy._implicit import (
    as_tuple,
    at_plain,
    depends,
    implicit,
    plainly,
    refuse,
    solved,
    vector,
)

_FUNCTIONS = ("fprime", "fhess", "fhess_p", "callback", "Dfun")


def _called(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names; functions such that SciPy can call them."""
    bound = inspect.signature(getattr(scipy.optimize, name)).bind(*args, **options).arguments
    for flag in ("full_output", "retall"):
        refuse(name, **{flag: bound.get(flag) or None})
    return {k: plainly(v) if k in _FUNCTIONS and callable(v) else v for k, v in bound.items()}


def _minimizer(name: str) -> Callable[..., Any]:
    theirs = getattr(scipy.optimize, name)
    named = next(iter(inspect.signature(theirs).parameters))  # what it calls the function

    def find(func: Any, x0: Any, *rest: Any, **options: Any) -> Any:
        bound = inspect.signature(theirs).bind(func, x0, *rest, **options).arguments
        begin, args = vector(x0), as_tuple(bound.get("args", ()))
        if not depends(func, begin, args):
            return theirs(func, x0, *rest, **options)
        given = _called(name, (func, x0, *rest), options)

        def solve(start: Any, *now: Any) -> Any:
            return theirs(**{**given, named: plainly(func), "x0": start, "args": now})

        def stationary(x: Any, *now: Any) -> Any:
            return gradient(lambda at: func(at, *now), x)[0]

        x = solved(solve, begin, args, name, at_plain(func, begin, args))
        return implicit(stationary, x, args, name)

    find.__name__ = name
    find.__doc__ = f"A minimum, as scipy.optimize.{name} finds it."
    return find


fmin = _minimizer("fmin")
fmin_bfgs = _minimizer("fmin_bfgs")
fmin_cg = _minimizer("fmin_cg")
fmin_ncg = _minimizer("fmin_ncg")
fmin_powell = _minimizer("fmin_powell")


def leastsq(func: Any, x0: Any, *rest: Any, **options: Any) -> Any:
    """The least sum of squares, and SciPy's flag."""
    theirs = scipy.optimize.leastsq
    bound = inspect.signature(theirs).bind(func, x0, *rest, **options).arguments
    begin, args = vector(x0), as_tuple(bound.get("args", ()))

    def residuals(x: Any, *now: Any) -> Any:
        r = func(x, *now)
        return np.stack(r) if isinstance(r, (list, tuple)) else r

    if not depends(residuals, begin, args):
        return theirs(func, x0, *rest, **options)
    given = _called("leastsq", (func, x0, *rest), options)

    def solve(start: Any, *now: Any) -> Any:
        x, flag = theirs(**{**given, "func": plainly(residuals), "x0": start, "args": now})
        return {"x": x, "flag": flag}

    def stationary(x: Any, *now: Any) -> Any:
        return gradient(lambda at: 0.5 * np.sum(residuals(at, *now) ** 2), x)[0]

    found = solved(solve, begin, args, "leastsq", at_plain(residuals, begin, args))
    return implicit(stationary, found["x"], args, "leastsq"), found["flag"]
