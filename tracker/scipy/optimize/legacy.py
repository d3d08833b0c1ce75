"""The older interfaces of `scipy.optimize`: fmin and its relatives, leastsq, differentiated by the
implicit function theorem (`scipy/_bridge/implicit.py`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.scipy._bridge.callback import call_scipy, use_scipy_unless_differentiated
from tracker.scipy._bridge.implicit import (
    as_tuple,
    depends_on_tracked,
    implicit_solution,
    minimum_condition,
    refuse_options,
    start_vector,
)


def _refuse_output(name: str, given: dict[str, Any]) -> None:
    """Refuse the flags that ask for more results."""
    for flag in ("full_output", "retall"):
        refuse_options(name, **{flag: given.get(flag) or None})


def _minimizer(name: str) -> Callable[..., Any]:
    theirs = getattr(scipy.optimize, name)

    def find(func: Any, x0: Any, *rest: Any, **options: Any) -> Any:
        given = inspect.signature(theirs).bind(func, x0, *rest, **options).arguments
        start, args = start_vector(x0), as_tuple(given.get("args", ()))
        if not depends_on_tracked(func, start, args, rest, options):
            return theirs(func, x0, *rest, **options)
        _refuse_output(name, given)

        x = call_scipy(theirs, **given | {"x0": start, "args": args})
        return implicit_solution(minimum_condition(func, x, args), x, args, name)

    find.__name__ = find.__qualname__ = name
    find.__doc__ = f"A minimum, as scipy.optimize.{name} finds it."
    return use_scipy_unless_differentiated(theirs)(find)


fmin = _minimizer("fmin")
fmin_bfgs = _minimizer("fmin_bfgs")
fmin_cg = _minimizer("fmin_cg")
fmin_ncg = _minimizer("fmin_ncg")
fmin_powell = _minimizer("fmin_powell")


@use_scipy_unless_differentiated(scipy.optimize.leastsq)
def leastsq(func: Any, x0: Any, *rest: Any, **options: Any) -> Any:
    """The least sum of squares, and SciPy's flag."""
    theirs = scipy.optimize.leastsq
    given = inspect.signature(theirs).bind(func, x0, *rest, **options).arguments
    start, args = start_vector(x0), as_tuple(given.get("args", ()))

    def residuals(x: Any, *params: Any) -> Any:
        r = func(x, *params)
        return np.stack(r) if isinstance(r, (list, tuple)) else r

    if not depends_on_tracked(residuals, start, args, rest, options):
        return theirs(func, x0, *rest, **options)
    _refuse_output("leastsq", given)

    def cost(x: Any, *params: Any) -> Any:
        return 0.5 * np.sum(residuals(x, *params) ** 2)

    x, flag = call_scipy(theirs, **given | {"x0": start, "args": args})
    return implicit_solution(minimum_condition(cost, x, args), x, args, "leastsq"), flag
