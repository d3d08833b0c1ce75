"""`solve_bvp`: SciPy solves the collocation system on the mesh that it refines, and the implicit
function theorem differentiates the solution there (J. Kierzenka, L. Shampine, 2001)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from tracker.autodiff.leaves import plain_data
from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.callback import call_solver
from tracker.scipy._bridge.fallback import (
    as_array,
    drop_in_of_result,
    is_tracked,
    no_derivative_rule,
)
from tracker.scipy._bridge.implicit import implicit_solution, with_entries
from tracker.scipy.interpolate.cubic_hermite import CubicHermiteSpline
from tracker.tape.observers import is_deriving, is_tracing


def solve_bvp(
    fun: Any, bc: Any, x: Any, y: Any, p: Any = None, S: Any = None, *rest: Any, **options: Any
) -> Any:
    """The solution of a boundary value problem; `.y`, `.yp`, `.p`, `.sol` and the mesh `.x` are
    differentiable in the ends of x and in what `fun` and `bc` depend on."""
    names = ("fun_jac", "bc_jac", "tol", "max_nodes", "verbose", "bc_tol")
    options |= dict(zip(names, rest, strict=False))

    def solve(fun: Any, bc: Any, x: Any, y: Any, p: Any, S: Any, options: Any) -> Any:
        return scipy.integrate.solve_bvp(fun, bc, x, y, p, S, **options)

    x, y = as_array(x), as_array(y)
    unknown = () if p is None else (as_array(p),)
    first = fun(x, y, *unknown), bc(y[:, 0], y[:, -1], *unknown)
    if not is_tracked(x, S, *map(as_array, first)):
        x, y, p, S = map(plain_data, (x, y, p, S))
        found = solve(fun, bc, x, y, p, S, options)
        return with_entries(found, sol=drop_in_of_result(found.sol))
    if S is not None:
        text = "Write the singular term into fun, and begin beside the singularity"
        raise no_derivative_rule("scipy.integrate.solve_bvp with S=", text)
    found = call_solver("solve_bvp", solve, fun, bc, x, y, p, S, options)
    shape, mesh = np.shape(found.y), _refined(x, found.x)

    def parts(z: Any) -> tuple[Any, tuple[Any, ...]]:
        count = shape[0] * shape[1]
        return np.reshape(z[:count], shape), () if p is None else (z[count:],)

    def collocation(z: Any) -> Any:
        y, p = parts(z)
        h, f = np.diff(mesh), as_array(fun(mesh, y, *p))
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * np.diff(f)
        f_middle = as_array(fun(mesh[:-1] + 0.5 * h, middle, *p))
        rest = np.diff(y) - h / 6 * (f[:, :-1] + f[:, 1:] + 4 * f_middle)
        ends = as_array(bc(y[:, 0], y[:, -1], *p))
        return np.concatenate([np.reshape(rest, (-1,)), ends])

    z = np.concatenate([np.reshape(found.y, (-1,)), *([] if p is None else [found.p])])
    if is_deriving() or not is_tracing():
        z = implicit_solution(collocation, z, (), "solve_bvp")
    y, unknown = parts(z)
    slopes = as_array(fun(mesh, y, *unknown))
    sol = CubicHermiteSpline(mesh, y, slopes, 1, True)
    return with_entries(found, x=mesh, y=y, yp=slopes, p=(*unknown, None)[0], sol=sol)


def _refined(x: Any, mesh: Any) -> Any:
    """SciPy's mesh as a function of the nodes that it has refined, which it keeps."""
    if not is_tracked(x):
        return mesh
    at = np.clip(np.searchsorted(plain_data(x), mesh, side="right") - 1, 0, np.size(x) - 2)
    low, high = x[at], x[at + 1]
    share = plain_data((mesh - low) / (high - low))
    return with_derivatives_of(mesh, low + share * (high - low))
