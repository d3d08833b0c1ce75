"""`scipy.optimize` on tracked values: roots, fixed points and minima, differentiated in what the
function depends on (`args=` and captured values) by the implicit function theorem
(`scipy/_bridge/implicit.py`). Names that are not defined here are SciPy's own.

`root`, `root_scalar` and `minimize` are here; `constraints.py` has minima under constraints,
`least_squares.py` fits, `linprog.py` linear problems with active constraints, `legacy.py` the
older interfaces.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize

from tracker import tree
from tracker.scipy._bridge.callback import (
    Function,
    call_scipy,
    call_solver,
    use_scipy_unless_differentiated,
)
from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import as_array, is_tracked, scipy_fallback
from tracker.scipy._bridge.implicit import (
    as_tuple,
    depends_on_tracked,
    implicit_solution,
    minimum_condition,
    refuse_options,
    root_of,
    start_vector,
    with_entries,
)
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.optimize.constraints import Constraints, constrained_minimum
from tracker.scipy.optimize.least_squares import curve_fit as curve_fit
from tracker.scipy.optimize.least_squares import least_squares as least_squares
from tracker.scipy.optimize.legacy import fixed_point as fixed_point
from tracker.scipy.optimize.legacy import fmin as fmin
from tracker.scipy.optimize.legacy import fmin_bfgs as fmin_bfgs
from tracker.scipy.optimize.legacy import fmin_cg as fmin_cg
from tracker.scipy.optimize.legacy import fmin_ncg as fmin_ncg
from tracker.scipy.optimize.legacy import fmin_powell as fmin_powell
from tracker.scipy.optimize.legacy import fsolve as fsolve
from tracker.scipy.optimize.legacy import leastsq as leastsq
from tracker.scipy.optimize.legacy import newton as newton
from tracker.scipy.optimize.linprog import linprog as linprog
from tracker.scipy.optimize.linprog import lsq_linear as lsq_linear
from tracker.scipy.optimize.linprog import nnls as nnls
from tracker.tape.observers import is_deriving, is_tracing

_STEP = math.sqrt(np.finfo(float).eps)
_MINIMIZE = "Use minimize, whose result is differentiable"
if TYPE_CHECKING:
    from scipy.optimize import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.optimize,
        constant=("linear_sum_assignment", "quadratic_assignment"),
        hints=dict.fromkeys(("fmin_l_bfgs_b", "fmin_tnc", "fmin_slsqp", "fmin_cobyla"), _MINIMIZE)
        | dict.fromkeys(
            ("basinhopping", "differential_evolution", "dual_annealing", "shgo"), _MINIMIZE
        )
        | {"fminbound": "Use minimize_scalar(bounds=)", "milp": "Use linprog"},
    )

# Bounds and constraints may contain tracked values, as lists may.
for _cls in (
    scipy.optimize.Bounds,
    scipy.optimize.LinearConstraint,
    scipy.optimize.NonlinearConstraint,
):
    tree.register_object(_cls)

# Systems ------------------------------------------------------------------------------------------


@use_scipy_unless_differentiated(scipy.optimize.root)
def root(fun: Any, x0: Any, args: Any = (), method: str = "hybr", **options: Any) -> Any:
    """A root of a system of equations; `.x` is differentiable."""
    start, args = start_vector(x0), as_tuple(args)
    if not depends_on_tracked(fun, start, args, options):
        return scipy.optimize.root(fun, x0, args, method, **options)

    found = call_scipy(scipy.optimize.root, fun, start, args, method, **options)
    x = root_of(lambda x, *params: as_array(fun(x, *params)), found.x, args, "root")
    return with_entries(found, x=x)


# One unknown --------------------------------------------------------------------------------------


def _bracketing_solver(name: str) -> Function:
    theirs = getattr(scipy.optimize, name)

    def find(f: Any, a: Any, b: Any, args: Any = (), **options: Any) -> Any:
        args = as_tuple(args)
        if not depends_on_tracked(f, a, args, b, options):
            return theirs(f, a, b, args, **options)
        refuse_options(name, full_output=options.pop("full_output", None) or None)

        def solve(f: Any, a: Any, b: Any, args: Any, options: Any) -> Any:
            return theirs(f, float(a), float(b), args, **options)

        return root_of(f, call_solver(name, solve, f, a, b, args, options), args, name)

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


# Minima -------------------------------------------------------------------------------------------


@use_scipy_unless_differentiated(scipy.optimize.minimize)
def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, **options: Any) -> Any:
    """A minimum; `.x` and `.fun` are differentiable, also in what bounds and constraints depend on:
    active ones stay active, the others count as absent."""
    start, args = start_vector(x0), as_tuple(args)
    pair = options.get("jac") is True
    value = (lambda x, *params: fun(x, *params)[0]) if pair else fun
    low, high = _bound_arrays(options.get("bounds"))
    given = options.get("constraints") or ()
    constraints = Constraints(given, low, high) if np.size(given) else None
    limits = () if constraints is None else (constraints.values(start), *constraints.ends(start))
    if not depends_on_tracked(value, start, args, low, high, *limits, options):
        return scipy.optimize.minimize(fun, x0, args, method, **options)

    def solve(fun: Any, start: Any, args: Any, ends: Any, options: Any) -> Any:
        if ends[0] is not None:
            options = {**options, "bounds": scipy.optimize.Bounds(*ends)}
        return scipy.optimize.minimize(fun, start, args, method, **options)

    options.pop("bounds", None)
    found = call_solver("minimize", solve, fun, start, args, (low, high), options)
    if constraints is not None:
        x = constrained_minimum(value, found.x, start, args, constraints)
    else:
        condition = minimum_condition(value, found.x, args, low, high)
        x = implicit_solution(condition, found.x, args, "minimize")
    return with_entries(found, x=x, fun=value(x, *args))


def _bound_arrays(bounds: Any) -> tuple[Any, Any]:
    """The lower and upper bounds as arrays; None without bounds."""
    if bounds is None:
        return None, None
    if isinstance(bounds, scipy.optimize.Bounds):
        return bounds.lb, bounds.ub
    low, high = zip(*bounds, strict=True)
    ends = (low, -math.inf), (high, math.inf)
    return tuple(
        np.stack([unbounded if e is None else 1.0 * e for e in end]) for end, unbounded in ends
    )  # type: ignore[return-value]


@use_scipy_unless_differentiated(scipy.optimize.minimize_scalar)
def minimize_scalar(
    fun: Any, bracket: Any = None, bounds: Any = None, args: Any = (), **options: Any
) -> Any:
    """A minimum of a function of one number; `.x` and `.fun` are differentiable, also in the
    bounds."""
    args = as_tuple(args)
    start = 0.0 if bracket is None else bracket[0]
    if bounds is not None:
        start = 0.5 * (bounds[0] + bounds[1])
    if not depends_on_tracked(fun, start, args, bracket, options):
        return scipy.optimize.minimize_scalar(fun, bracket, bounds, args, **options)
    ends = None if bounds is None else (1.0 * bounds[0], 1.0 * bounds[1])

    found = call_scipy(scipy.optimize.minimize_scalar, fun, bracket, ends, args, **options)
    condition = minimum_condition(fun, found.x, args, *(ends or ()))
    x = implicit_solution(condition, found.x, args, "minimize_scalar")
    return with_entries(found, x=x, fun=fun(x, *args))


Rebinding().drop_in(scipy.optimize, "rosen")
globals().update(DROP_INS[scipy.optimize])


def approx_fprime(xk: Any, f: Function, epsilon: Any = _STEP, *args: Any) -> Any:
    """The derivative of f at xk by forward differences, itself differentiable."""
    if not (is_tracing() or is_deriving() or is_tracked(xk, epsilon, *args)):
        return scipy.optimize.approx_fprime(xk, f, epsilon, *args)
    at, first = as_array(xk) * 1.0, f(xk, *args)
    unit = np.eye(np.size(at))
    steps = np.broadcast_to(as_array(epsilon), np.shape(at))
    columns = []
    for i in range(np.size(at)):
        moved = at + steps[i] * unit[i]
        columns.append((as_array(f(moved, *args)) - first) / (moved[i] - at[i]))
    return np.stack(columns, axis=-1)
