"""Roots of systems and of functions of one number, differentiated by the implicit function theorem
(`scipy/_bridge/implicit.py`)."""

from __future__ import annotations

from typing import Any

import scipy.optimize

from tracker.scipy._bridge.callback import (
    Function,
    call_scipy,
    call_solver,
    use_scipy_unless_differentiated,
)
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy._bridge.implicit import (
    as_tuple,
    depends_on_tracked,
    root_of,
    start_vector,
    with_entries,
    with_solution,
)


@use_scipy_unless_differentiated(scipy.optimize.root)
def root(fun: Any, x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """A root of a system of equations; `.x` is differentiable."""
    start, args = start_vector(x0), as_tuple(args)
    if not depends_on_tracked(fun, start, args, options):
        return scipy.optimize.root(fun, x0, args, method, **options)

    found = call_scipy(scipy.optimize.root, fun, start, args, method, **options)
    x = root_of(lambda x, *params: as_array(fun(x, *params)), found.x, args, "root")
    return with_entries(found, x=x)


def _bracketing_solver(name: str) -> Function:
    theirs = getattr(scipy.optimize, name)

    def find(f: Any, a: Any, b: Any, args: Any = (), **options: Any) -> Any:
        args = as_tuple(args)
        if not depends_on_tracked(f, a, args, b, options):
            return theirs(f, a, b, args, **options)

        def solve(f: Any, a: Any, b: Any, args: Any, options: Any) -> Any:
            return theirs(f, float(a), float(b), args, **options)

        found = call_solver(name, solve, f, a, b, args, options)
        x = found[0] if isinstance(found, tuple) else found
        return with_solution(found, root_of(f, x, args, name))

    find.__name__ = find.__qualname__ = name
    find.__doc__ = f"The root of f between a and b, as scipy.optimize.{name} finds it."
    return use_scipy_unless_differentiated(theirs)(find)


brentq = _bracketing_solver("brentq")
brenth = _bracketing_solver("brenth")
bisect = _bracketing_solver("bisect")
ridder = _bracketing_solver("ridder")
toms748 = _bracketing_solver("toms748")


@use_scipy_unless_differentiated(scipy.optimize.root_scalar)
def root_scalar(
    f: Any, args: Any = (), method: Any = None, bracket: Any = None, **options: Any
) -> Any:
    """A root of a function of one number; `.root` is differentiable."""
    args = as_tuple(args)
    start = options.get("x0") if bracket is None else bracket[0]
    several = True in (options.get("fprime"), options.get("fprime2"))
    value = (lambda x, *params: f(x, *params)[0]) if several else f
    if start is None or not depends_on_tracked(value, start, args, bracket, options):
        return scipy.optimize.root_scalar(f, args, method, bracket, **options)

    found = call_scipy(scipy.optimize.root_scalar, f, args, method, bracket, **options)
    return with_entries(found, root=root_of(value, found.root, args, "root_scalar"))
