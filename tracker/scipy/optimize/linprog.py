"""Linear programs and linear least squares within bounds.

SciPy finds the active constraints, which are constants. The solution is then that of the linear
system of the active constraints, differentiable in all of its coefficients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize

from tracker import tree
from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.errors import UnsupportedError
from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.callback import call_scipy, call_solver, use_scipy_unless_differentiated
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy._bridge.implicit import with_entries

_ACTIVE_TOLERANCE = 1e-9  # relative distance within which a bound is active


def _free_least_squares(a: Any, b: Any, free: Any, fixed: Any) -> Any:
    """The least squares in the free variables; the others are `fixed`."""
    residual = b - a @ np.where(free, 0.0, fixed)
    inside = np.where(free, a, 0.0)
    normal = np.transpose(inside) @ inside + np.diag(np.where(free, 0.0, 1.0))
    try:
        found = np.linalg.solve(normal, np.transpose(inside) @ residual)
    except np.linalg.LinAlgError as error:
        text = "the columns of the free variables are dependent: the solution is not unique"
        raise UnsupportedError(
            text, "Use np.linalg.lstsq, or tracker.data where no gradient is wanted"
        ) from error
    return np.where(free, found, fixed)


@use_scipy_unless_differentiated(scipy.optimize.nnls)
def nnls(A: Any, b: Any, *, maxiter: Any = None, **options: Any) -> Any:
    """The least squares for x >= 0, and the norm of the residual."""
    if not is_tracked(A, b, maxiter, *options.values()):
        return scipy.optimize.nnls(A, b, maxiter=maxiter, **options)
    a, b = as_array(A) * 1.0, as_array(b) * 1.0
    found, _ = call_scipy(scipy.optimize.nnls, a, b, maxiter=maxiter, **options)
    x = _free_least_squares(a, b, found > 0, 0.0)
    return x, np.linalg.norm(a @ x - b).item()


@use_scipy_unless_differentiated(scipy.optimize.lsq_linear)
def lsq_linear(A: Any, b: Any, bounds: Any = (-np.inf, np.inf), *args: Any, **options: Any) -> Any:
    """The least squares within bounds; `.x`, `.fun` and `.cost` are differentiable, also in the
    bounds."""
    low, high = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    if not is_tracked(A, b, low, high, *args, *options.values()):
        return scipy.optimize.lsq_linear(A, b, bounds, *args, **options)
    a, b = as_array(A) * 1.0, as_array(b) * 1.0
    low, high = as_array(low) * 1.0, as_array(high) * 1.0

    def solve(a: Any, b: Any, low: Any, high: Any, args: Any, options: Any) -> Any:
        found = scipy.optimize.lsq_linear(a, b, (low, high), *args, **options)
        size = _ACTIVE_TOLERANCE * (1 + np.abs(found.x))
        active = np.where(found.x - low <= size, -1, np.where(high - found.x <= size, 1, 0))
        return with_entries(found, active=active)

    found = call_solver("lsq_linear", solve, a, b, low, high, args, options)
    active = found.pop("active")
    fixed = np.where(active < 0, low, np.where(active > 0, high, 0.0))
    x = with_derivatives_of(found.x, _free_least_squares(a, b, active == 0, fixed))
    residual = a @ x - b
    return with_entries(found, x=x, fun=residual, cost=0.5 * np.sum(np.square(residual)))


@use_scipy_unless_differentiated(scipy.optimize.linprog)
def linprog(
    c: Any,
    A_ub: Any = None,
    b_ub: Any = None,
    A_eq: Any = None,
    b_eq: Any = None,
    bounds: Any = (0, None),
    *args: Any,
    **options: Any,
) -> Any:
    """The minimum of c x; `.x` (which must be a unique corner) and `.fun` are differentiable in all
    arguments."""
    given = (c, A_ub, b_ub, A_eq, b_eq)
    if not is_tracked(*given, bounds, *args, *tree.leaves(options)):
        return scipy.optimize.linprog(*given, bounds, *args, **options)
    if options.get("integrality") is not None:
        raise no_derivative_rule("scipy.optimize.linprog with integrality=", "Leave it out")

    found = call_scipy(scipy.optimize.linprog, *given, bounds, *args, **options)
    if not found.success:
        raise no_derivative_rule(f"scipy.optimize.linprog without a solution ({found.message})")
    c = as_array(c) * 1.0
    n = np.size(c)
    rows, rights = _all_constraints(A_ub, b_ub, A_eq, b_eq, _bound_pairs(bounds, n), n)
    distance = np.abs(ignore_derivatives(rows @ found.x - rights))
    active = np.flatnonzero(distance <= _ACTIVE_TOLERANCE * (1 + np.abs(rights)))
    if np.size(active) != n or bool(np.linalg.matrix_rank(rows[active]) != n):
        text = (
            f"{np.size(active)} constraints meet at the solution of a linear program of {n} "
            "unknowns: it is no differentiable function of them"
        )
        raise UnsupportedError(text, "Use tracker.data where no gradient is wanted")
    x = np.linalg.solve(rows[active], rights[active])
    return with_entries(found, x=x, fun=(c @ x).item())


def _bound_pairs(bounds: Any, n: int) -> list[tuple[Any, Any]]:
    """A pair of bounds for each unknown."""
    if bounds is None:
        return [(0.0, None)] * n
    pairs = list(bounds)
    return [tuple(pairs)] * n if np.ndim(pairs[0]) == 0 else [tuple(pair) for pair in pairs]


def _all_constraints(
    a_ub: Any, b_ub: Any, a_eq: Any, b_eq: Any, pairs: list[tuple[Any, Any]], n: int
) -> tuple[Any, Any]:
    """The rows and right sides of all constraints that may be active."""
    rows: list[Any] = []
    rights: list[Any] = []
    for a, b in ((a_eq, b_eq), (a_ub, b_ub)):
        if a is not None:
            rows.append(as_array(a) * 1.0)
            rights.append(np.atleast_1d(as_array(b) * 1.0))
    for i, pair in enumerate(pairs):
        for end in pair:
            if end is not None and bool(np.isfinite(end)):
                rows.append(np.eye(n)[i : i + 1])
                rights.append(np.reshape(as_array(end) * 1.0, (1,)))
    return np.concatenate(rows), np.concatenate(rights)
