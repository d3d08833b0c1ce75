"""`minimize`: `scipy.optimize.minimize` over structures of parameters, with their derivatives.

SciPy sees the vector that `tracker.tree.ravel` makes of the parameters; the function and its
derivatives see the structure, so that those of a jitted function run compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.errors import NotTrackedError, UnsupportedError, message
from tracker.optim.first_order import matching_leaves
from tracker.transforms.jacobians import hessian, hvp

_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_WITH_HESSIAN_PRODUCT = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_WITH_HESSIAN = ("dogleg", "trust-exact")


def minimize(
    f: Callable[..., Any], params: Any, method: Any = None, *, bounds: Any = None, **options: Any
) -> Any:
    """Minimise a scalar function of parameters with one of SciPy's methods.

    Parameters
    ----------
    f : callable
        Of the parameters; its result is a real scalar. If it is jitted, value and derivatives run
        compiled.
    params
        The start: a number, an array, or any structure. Integers, bools and text inside structures
        stay as they are, and what is not `trainable`.
    method : str, optional
        As for `scipy.optimize.minimize`. Those of Newton get products with the hessian.
    bounds : optional
        In the structure of the parameters: for each leaf a pair (lower, upper) for all of its
        elements, or an array of such pairs; None where there is no bound.
    **options
        Other keywords of SciPy's: `args`, `tol`, `options`, ...; callbacks and constraints get the
        vector of `tracker.tree.ravel`.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Its `x` has the structure of the parameters.

    Examples
    --------
    >>> result = minimize(lambda m: (m["x"] - 1.0) ** 2 + m["n"], {"x": 0.0, "n": 2})
    >>> round(result.x["x"], 6), result.x["n"]
    (1.0, 2)
    """
    optimize = _scipy_optimize()
    objective = _Objective(f, params)
    name = method.lower() if isinstance(method, str) else ""
    derivatives: dict[str, Any] = {} if name in _WITHOUT_GRADIENT else {"jac": True}
    if name in _WITH_HESSIAN_PRODUCT:
        derivatives["hessp"] = objective.hessian_product
    if name in _WITH_HESSIAN:
        derivatives["hess"] = objective.hessian
    result = optimize.minimize(
        objective.value_and_gradient if derivatives else objective.value,
        objective.start,
        method=method,
        bounds=None if bounds is None else optimize.Bounds(*objective.limits(bounds)),
        **derivatives,
        **options,
    )
    result.x = objective.restore(result.x)
    return result


def _scipy_optimize() -> Any:
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        raise ImportError(
            "tracker.optim.minimize needs SciPy, which is not installed. Type: "
            "pip install 'tracker-grad[scipy]'"
        ) from error


class _Objective:
    """A function of structures, and its derivatives, as functions of vectors.

    start    the vector of the parameters
    restore  gives the structure that a vector stands for
    """

    def __init__(self, f: Callable[..., Any], params: Any) -> None:
        if tree.is_number_list(params):
            params = np.asarray(params)
        if tree.is_numeric(params) and np.result_type(params).kind in "biu":
            params = np.asarray(params, float)[()]
        self.f = f
        self.params = params
        self.differentiate = value_and_grad(f, check_finite=False)  # a search steps back
        self.leaves, self.trained, self.structure = tree.parameter_leaves(params)
        start, self.restore = tree.ravel(params)
        if np.iscomplexobj(start):
            raise UnsupportedError(
                message(
                    "minimize moves real numbers, and the parameters hold complex ones",
                    "Give their real and imaginary parts",
                )
            )
        if not start.size:
            raise NotTrackedError(
                message(
                    f"minimize got a {type(params).__name__} without floats to move",
                    "Give floats, or structures that hold them",
                )
            )
        self.start = start.astype(np.float64)

    def value(self, x: Any, *args: Any) -> Any:
        return self.f(self.restore(x), *args)

    def value_and_gradient(self, x: Any, *args: Any) -> tuple[Any, Any]:
        value, gradient = self.differentiate(self.restore(x), *args)
        return value, self._vector(gradient)

    def hessian_product(self, x: Any, v: Any, *args: Any) -> Any:
        pieces = iter(tree.parameter_leaves(self.restore(v))[0])
        tangents = [piece if yes else None for piece, yes in zip(pieces, self.trained, strict=True)]
        tangent = tree.unflatten(self.structure, tangents, self.params)
        return self._vector(hvp(self._of_structures(args), self.restore(x), tangent))

    def hessian(self, x: Any, *args: Any) -> Any:
        f, restore = self._of_structures(args), self.restore
        return hessian(lambda x: f(restore(x)), x)

    def _of_structures(self, args: tuple[Any, ...]) -> Callable[[Any], Any]:
        """The user's function with these further arguments. Its closure has the function itself,
        where the exchange of NumPy looks for user code."""
        f = self.f
        return (lambda p: f(p, *args)) if args else f

    def limits(self, bounds: Any) -> tuple[Any, Any]:
        """The lower and the upper bounds of the vector's elements."""
        pairs = matching_leaves(self.structure, self.params, bounds, "bounds")
        rows = [
            _pairs(pair, np.shape(leaf))
            for leaf, pair, yes in zip(self.leaves, pairs, self.trained, strict=True)
            if yes
        ]
        lower, upper = np.concatenate(rows).T
        return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)

    def _vector(self, gradient: Any) -> Any:
        """The gradient as a vector like that of the parameters."""
        found = matching_leaves(self.structure, self.params, gradient, "gradient")
        parts = [np.ravel(g) for g, yes in zip(found, self.trained, strict=True) if yes]
        return np.concatenate(parts).astype(np.float64)


def _pairs(bounds: Any, shape: tuple[int, ...]) -> Any:
    """Rows (lower, upper), one for each element of a leaf of this shape; NaN where there is no
    bound."""
    pairs = np.array((None, None) if bounds is None else bounds, float)
    try:
        return np.broadcast_to(pairs, (*shape, 2)).reshape(-1, 2)
    except ValueError:
        raise ValueError(
            message(
                f"bounds of shape {pairs.shape} for parameters of shape {shape}",
                f"Give a pair (lower, upper), or an array of pairs of shape {(*shape, 2)}",
            )
        ) from None
