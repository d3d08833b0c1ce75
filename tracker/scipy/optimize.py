"""`scipy.optimize` on tracked values: roots, fixed points and minima, differentiated in what the
function depends on (`args=`, and what it captures) by the implicit function theorem
(`_implicit.py`). What is not defined here is SciPy's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.optimize

from tracker.gradients import gradient
from tracker.leaves import data
from tracker.scipy._dropin import drop_in
from tracker.scipy._fitting import curve_fit as curve_fit
from tracker.scipy._fitting import least_squares as least_squares
from tracker.scipy._implicit import (
    Function,
    as_tuple,
    at_plain,
    changed,
    depends,
    held,
    implicit,
    plainly,
    refuse,
    solved,
    vector,
)
from tracker.scipy._linear_programs import linprog as linprog
from tracker.scipy._linear_programs import lsq_linear as lsq_linear
from tracker.scipy._linear_programs import nnls as nnls
from tracker.scipy._older_solvers import fmin as fmin
from tracker.scipy._older_solvers import fmin_bfgs as fmin_bfgs
from tracker.scipy._older_solvers import fmin_cg as fmin_cg
from tracker.scipy._older_solvers import fmin_ncg as fmin_ncg
from tracker.scipy._older_solvers import fmin_powell as fmin_powell
from tracker.scipy._older_solvers import leastsq as leastsq
from tracker.scipy._passing import as_array, is_tracked, passing

_MINIMIZE = "Use minimize, whose result is differentiable"
__getattr__ = passing(
    scipy.optimize,
    constant=("linear_sum_assignment", "quadratic_assignment"),
    instead=dict.fromkeys(("fmin_l_bfgs_b", "fmin_tnc", "fmin_slsqp", "fmin_cobyla"), _MINIMIZE)
    | dict.fromkeys(("basinhopping", "differential_evolution", "dual_annealing", "shgo"), _MINIMIZE)
    | {"fminbound": "Use minimize_scalar(bounds=)", "milp": "Use linprog"},
)

# Systems ------------------------------------------------------------------------------------------


def root(fun: Any, x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """A root of a system of equations; `.x` is differentiable."""
    begin, args = vector(x0), as_tuple(args)
    if not depends(fun, begin, args):
        return scipy.optimize.root(fun, x0, args, method, **options)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.root(plainly(fun), start, now, method, **options)

    found = solved(solve, begin, args, "root", at_plain(fun, begin, args))
    return changed(found, x=implicit(_as_array(fun), found.x, args, "root"))


def fsolve(func: Any, x0: Any, args: Any = (), **options: Any) -> Any:
    """A root of a system of equations."""
    begin, args = vector(x0), as_tuple(args)
    if not depends(func, begin, args):
        return scipy.optimize.fsolve(func, x0, args, **options)
    refuse("fsolve", full_output=options.pop("full_output", None) or None)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.fsolve(plainly(func), start, now, **options)

    x = solved(solve, begin, args, "fsolve", at_plain(func, begin, args))
    return implicit(_as_array(func), x, args, "fsolve")


def _as_array(f: Function) -> Function:
    """A function that returns a list returns an array."""

    def call(x: Any, *args: Any) -> Any:
        y = f(x, *args)
        return np.stack(y) if isinstance(y, (list, tuple)) else y

    return call


def fixed_point(func: Any, x0: Any, args: Any = (), **options: Any) -> Any:
    """x with func(x, *args) = x."""
    begin, args = as_array(x0), as_tuple(args)
    if not depends(func, begin, args):
        return scipy.optimize.fixed_point(func, x0, args, **options)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.fixed_point(plainly(func), start, now, **options)

    def residual(x: Any, *now: Any) -> Any:
        return func(x, *now) - x

    x = solved(solve, begin, args, "fixed_point", at_plain(func, begin, args))
    return implicit(residual, x, args, "fixed_point")


# One unknown --------------------------------------------------------------------------------------


def _bracketed(name: str) -> Function:
    theirs = getattr(scipy.optimize, name)

    def find(f: Any, a: Any, b: Any, args: Any = (), **options: Any) -> Any:
        args = as_tuple(args)
        if not depends(f, a, (*args,)) and not is_tracked(b):
            return theirs(f, a, b, args, **options)
        refuse(name, full_output=options.pop("full_output", None) or None)

        def solve(low: Any, high: Any, *now: Any) -> Any:
            return theirs(plainly(f), float(low), float(high), now, **options)

        return implicit(f, solved(solve, a, (b, *args), name, at_plain(f, a, args)), args, name)

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
    begin, args = 1.0 * as_array(x0), as_tuple(args)
    if not depends(func, begin, args):
        return scipy.optimize.newton(func, x0, fprime, args, **options)
    refuse("newton", full_output=options.pop("full_output", None) or None)
    slope = None if fprime is None else plainly(fprime)

    def solve(start: Any, *now: Any) -> Any:
        return scipy.optimize.newton(plainly(func), start, slope, now, **options)

    x = solved(solve, begin, args, "newton", at_plain(func, begin, args))
    return implicit(func, x, args, "newton")


def root_scalar(
    f: Any, args: Any = (), method: Any = None, bracket: Any = None, **options: Any
) -> Any:
    """A root of a function of one number; `.root` is differentiable."""
    args = as_tuple(args)
    near = options.get("x0") if bracket is None else bracket[0]
    several = True in (options.get("fprime"), options.get("fprime2"))
    value = (lambda x, *now: f(x, *now)[0]) if several else f
    begin = {name: options.pop(name) for name in ("x0", "x1") if options.get(name) is not None}
    ends = () if bracket is None else tuple(bracket)
    starts = (*ends, *begin.values())
    if near is None or not (is_tracked(*starts) or depends(value, near, args)):
        return scipy.optimize.root_scalar(f, args, method, bracket, **begin, **options)
    for keyword in ("fprime", "fprime2"):
        if callable(options.get(keyword)):
            options[keyword] = plainly(options[keyword])

    def solve(_: Any, *now: Any) -> Any:
        now, places = now[: len(args)], now[len(args) :]
        within = places[: len(ends)] or None
        options_now = dict(zip(begin, places[len(ends) :], strict=True)) | options
        return scipy.optimize.root_scalar(plainly(f), now, method, within, **options_now)

    found = solved(solve, 0.0, (*args, *starts), "root_scalar", at_plain(value, data(near), args))
    return changed(found, root=implicit(value, found.root, args, "root_scalar"))


# Minima -------------------------------------------------------------------------------------------


def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, **options: Any) -> Any:
    """A minimum; `.x` and `.fun` are differentiable, in the bounds, too: what a bound holds moves
    with it, the rest as if there were none."""
    begin, args = vector(x0), as_tuple(args)
    pair = options.get("jac") is True
    value = (lambda x, *now: fun(x, *now)[0]) if pair else fun
    low, high = _box(options.get("bounds"))
    if not is_tracked(low, high) and not depends(value, begin, args):
        return scipy.optimize.minimize(fun, x0, args, method, **options)
    refuse("minimize", constraints=options.get("constraints"))
    ends = () if low is None else (low, high)
    for keyword in ("jac", "hess", "hessp", "callback"):
        if callable(options.get(keyword)):
            options[keyword] = plainly(options[keyword])

    def solve(start: Any, *now: Any) -> Any:
        if ends:
            now, options["bounds"] = now[:-2], scipy.optimize.Bounds(*now[-2:])
        return scipy.optimize.minimize(plainly(fun), start, now, method, **options)

    def stationary(x: Any, *now: Any) -> Any:
        return gradient(lambda at: value(at, *now), x)[0]

    found = solved(solve, begin, (*args, *ends), "minimize", at_plain(value, begin, args))
    condition = stationary if low is None else held(stationary, found.x, args, low, high)
    x = implicit(condition, found.x, args, "minimize")
    return changed(found, x=x, fun=value(x, *args))


def _box(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds as arrays; None where there are no bounds at all."""
    if bounds is None:
        return None, None
    if isinstance(bounds, scipy.optimize.Bounds):
        return bounds.lb, bounds.ub
    low, high = zip(*bounds, strict=True)
    ends = (low, -math.inf), (high, math.inf)
    return tuple(np.stack([far if e is None else 1.0 * e for e in end]) for end, far in ends)  # type: ignore[return-value]


def minimize_scalar(
    fun: Any, bracket: Any = None, bounds: Any = None, args: Any = (), **options: Any
) -> Any:
    """A minimum of a function of one number; `.x` and `.fun` are differentiable, in the bounds,
    too."""
    args = as_tuple(args)
    near = 0.0 if bracket is None else bracket[0]
    if bounds is not None:
        near = 0.5 * (bounds[0] + bounds[1])
    if not depends(fun, near, args):
        return scipy.optimize.minimize_scalar(fun, bracket, bounds, args, **options)
    ends = () if bounds is None else (1.0 * bounds[0], 1.0 * bounds[1])

    def solve(_: Any, *now: Any) -> Any:
        limits, now = now[len(args) :] or None, now[: len(args)]
        return scipy.optimize.minimize_scalar(plainly(fun), bracket, limits, now, **options)

    def stationary(x: Any, *now: Any) -> Any:
        return gradient(lambda at: fun(at, *now), x)[0]

    found = solved(solve, 0.0, (*args, *ends), "minimize_scalar", at_plain(fun, near, args))
    condition = held(stationary, found.x, args, *ends) if ends else stationary
    x = implicit(condition, found.x, args, "minimize_scalar")
    return changed(found, x=x, fun=fun(x, *args))


@drop_in(scipy.optimize)
def rosen(x: Any) -> Any:
    """Rosenbrock's function."""
    x = as_array(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0, axis=0)
