"""Derivatives of what a solver of your own finds: roots, fixed points, minima.

`solution.py` has the implicit function theorem, which the functions here and those of
`tracker.scipy.optimize` use; `krylov.py` the iterations for large linear systems. The solver may be
anything: it is called with plain numbers, and only what it returns counts. May import `control`,
`autodiff`, and `transforms`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tracker import tree
from tracker.autodiff.call_ops import detach
from tracker.autodiff.gradients import gradient
from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.errors import NotTrackedError, RuleError, message
from tracker.implicit.solution import DENSE_SIZE, implicit_solution
from tracker.support.pickling import made_by
from tracker.support.shown_text import named_after
from tracker.tape.observers import ObserversSuspended, is_tracing
from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked

if TYPE_CHECKING:
    from tracker.support.type_variables import P, R

__all__ = ["fixed_point", "minimum", "root"]

Function = Callable[..., Any]
Condition = Callable[[Any, Any], Any]
Method = Literal["dense", "cg", "gmres"]
_METHODS = ("dense", "cg", "gmres")


def root(
    optimality: Condition,
    solver: Callable[P, R],
    *,
    solve: Method | None = None,
    tol: float = 1e-3,
) -> Callable[P, R]:
    """A solver of optimality(x, theta) = 0, differentiable in `theta`.

    Parameters
    ----------
    optimality : callable
        Of `x` and `theta`; gives as many numbers as `x` has, in any structure.
    solver : callable
        `solver(theta, *rest)` gives the root: a number, an array or a structure of them. It is
        called with plain numbers, and is not differentiated.
    solve : {"dense", "cg", "gmres"}, optional
        How the linear system of the derivative is solved: by a Jacobian and its factors, or by
        products with it (`cg` for symmetric positive definite ones). By default "dense" up to 200
        unknowns, "gmres" above.
    tol : float
        How far a Newton step may move the result of the solver, relative to 1 + its size.

    Returns
    -------
    callable
        Called like `solver`. `theta` is any structure, and what `optimality` captures gets its
        gradient, too; the other arguments (a start, options) have none.

    Raises
    ------
    RuleError
        When it is differentiated: the solver's result is no root, or has another size than
        `optimality`.
    UnsupportedError
        The Jacobian is singular there, or iterations do not converge.

    See Also
    --------
    fixed_point, minimum

    Notes
    -----
    By the implicit function theorem [1]_, to any order and in both modes: nothing of the solver's
    steps is recorded, and the derivative costs one linear system.

    References
    ----------
    .. [1] M. Blondel et al., Efficient and modular implicit differentiation, NeurIPS 2022.

    Examples
    --------
    >>> def babylonian(a, x=1.0):
    ...     for _ in range(20):
    ...         x = (x + a / x) / 2
    ...     return x
    >>> square_root = root(lambda x, a: x**2 - a, babylonian)
    >>> tracker.gradient(square_root, 4.0)
    (0.25,)
    """

    def residual(x: Any, theta: Any, restore: Function) -> Any:
        return _vector(optimality(restore(x), theta))

    return _differentiable(root, residual, solver, optimality, solve or "gmres", solve, tol)


def fixed_point(
    g: Condition,
    solver: Callable[P, R],
    *,
    solve: Method | None = None,
    tol: float = 1e-3,
) -> Callable[P, R]:
    """A solver of g(x, theta) = x, differentiable in `theta`.

    Parameters
    ----------
    g : callable
        Of `x` and `theta`; gives the structure of `x`.
    solver, solve, tol
        As for `root`.

    Returns
    -------
    callable
        As from `root`.

    See Also
    --------
    root

    Examples
    --------
    >>> def iterate(a, x=1.0):
    ...     for _ in range(60):
    ...         x = np.cos(a * x)
    ...     return x
    >>> cosine = fixed_point(lambda x, a: np.cos(a * x), iterate)
    >>> round(tracker.gradient(cosine, 1.0)[0], 6)
    -0.297474
    """

    def residual(x: Any, theta: Any, restore: Function) -> Any:
        y = _vector(g(restore(x), theta))
        return y - x if np.shape(y) == np.shape(x) else y

    return _differentiable(fixed_point, residual, solver, g, solve or "gmres", solve, tol)


def minimum(
    f: Condition,
    solver: Callable[P, R],
    *,
    solve: Method | None = None,
    tol: float = 1e-3,
) -> Callable[P, R]:
    """A solver for the x that minimises f(x, theta), differentiable in `theta`.

    Parameters
    ----------
    f : callable
        Of `x` and `theta`; gives a real number.
    solver, solve, tol
        As for `root`; above 200 unknowns the default is "cg".

    Returns
    -------
    callable
        As from `root`.

    See Also
    --------
    root, fixed_point

    Notes
    -----
    The gradient of `f` in x must vanish: a minimum at a bound or under constraints is a matter of
    `scipy.optimize.minimize`, whose results are differentiable as they are.

    Examples
    --------
    >>> def ridge(w, strength):
    ...     return np.sum((X @ w - y) ** 2) + strength * np.sum(w**2)
    >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 3.0])
    >>> fit = minimum(ridge, lambda s: np.linalg.solve(X.T @ X + s * np.eye(2), X.T @ y))
    >>> tracker.jacobian(fit, 1.0)[0].round(6)
    array([-0.2, -0.4])
    """

    def residual(x: Any, theta: Any, restore: Function) -> Any:
        return gradient(lambda x: f(restore(x), theta), x)[0]

    return _differentiable(minimum, residual, solver, f, solve or "cg", solve, tol)


def _differentiable(
    make: Function,
    residual: Function,
    solver: Function,
    condition: Function,
    iterative: str,
    solve: str | None,
    tol: float,
) -> Function:
    """The solver as the function with derivatives that `make` gives; the residual is one of
    vectors."""
    if solve is not None and solve not in _METHODS:
        raise ValueError(
            message(f"solve={solve!r} names no way to solve", f"Give one of {_METHODS}, or None")
        )
    name = _name(solver)

    def solution(theta: Any, *rest: Any) -> Any:
        theta = tree.map(_own_handle, theta)
        x, restore = tree.ravel(_run(solver, theta, rest))
        if not np.size(x):
            raise NotTrackedError(f"{name} returned no floats", "Let it return x alone")
        method = solve or ("dense" if np.size(x) <= DENSE_SIZE else iterative)

        def equation(x: Any) -> Any:
            r = residual(x, theta, restore)
            if np.shape(r) != np.shape(x):
                raise RuleError(
                    f"the condition {_name(condition)} gave {np.size(r)} numbers for a "
                    f"solution of {np.size(x)}",
                    "Give one equation for each unknown",
                )
            return r

        return restore(implicit_solution(equation, x, name, method, tol))

    again = functools.partial(make, solve=solve, tol=tol)
    return made_by(named_after(solution, "implicit", solver), again, condition, solver)


def _own_handle(x: Any) -> Any:
    """A leaf of theta that later writes by its owner do not reach."""
    if type(x) is Tracked:
        return wrap(value_of(x))
    return x if is_tracing() or type(x) is not np.ndarray else x.copy("K")


def _run(solver: Function, theta: Any, rest: tuple[Any, ...]) -> Any:
    """What the solver finds, without a derivative: for plain numbers, or in a trace for traced
    ones."""
    given = tree.map(detach, (theta, *rest))
    with ignore_derivatives() if is_tracing() else ObserversSuspended():
        return tree.map(detach, solver(*given))


def _vector(x: Any) -> Any:
    return tree.ravel(x)[0]


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def __dir__() -> list[str]:
    return __all__
