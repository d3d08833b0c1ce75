"""Functions of structures as optimisers see them: functions of one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.errors import NotTrackedError, UnsupportedError, message
from tracker.optim.first_order import matching_leaves
from tracker.transforms.jacobians import hessian, hvp


class Objective:
    """A function of structures, and its derivatives, as functions of vectors. `name` is that of the
    optimiser, for errors. With `gives_gradient`, the function returns (value, gradient).

    start    the vector of the parameters
    restore  gives the structure that a vector stands for
    """

    def __init__(
        self, f: Callable[..., Any], params: Any, name: str, gives_gradient: bool = False
    ) -> None:
        if tree.is_number_list(params):
            params = np.asarray(params)
        if tree.is_numeric(params) and np.result_type(params).kind in "biu":
            params = np.asarray(params, float)[()]
        self.f = f
        self.params = params
        self.gives_gradient = gives_gradient
        self.differentiate = f
        if not gives_gradient:
            self.differentiate = value_and_grad(f, check_finite=False)  # a search steps back
        self.leaves, self.trained, self.structure = tree.parameter_leaves(params)
        start, self.restore = tree.ravel(params)
        if np.iscomplexobj(start):
            raise UnsupportedError(
                f"{name} moves real numbers, and the parameters hold complex ones",
                "Give their real and imaginary parts",
            )
        if not start.size:
            raise NotTrackedError(
                f"{name} got a {type(params).__name__} without floats to move",
                "Give floats, or structures that hold them",
            )
        self.start = start.astype(np.float64)

    def value(self, x: Any, *args: Any) -> Any:
        found = self.f(self.restore(x), *args)
        return found[0] if self.gives_gradient else found

    def value_and_gradient(self, x: Any, *args: Any) -> tuple[Any, Any]:
        value, gradient = self.differentiate(self.restore(x), *args)
        return value, self.vector(gradient)

    def hessian_product(self, x: Any, v: Any, *args: Any) -> Any:
        return self.vector(hvp(self.of_structures(args), self.restore(x), self.tangent(v)))

    def tangent(self, v: Any) -> Any:
        """A vector as a tangent of the parameters."""
        pieces = iter(tree.parameter_leaves(self.restore(v))[0])
        tangents = [piece if yes else None for piece, yes in zip(pieces, self.trained, strict=True)]
        return tree.unflatten(self.structure, tangents, self.params)

    def hessian(self, x: Any, *args: Any) -> Any:
        f, restore = self.of_structures(args), self.restore
        return hessian(lambda x: f(restore(x)), x)

    def of_structures(self, args: tuple[Any, ...]) -> Callable[[Any], Any]:
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

    def vector(self, gradient: Any) -> Any:
        """The gradient as a vector like that of the parameters."""
        found = matching_leaves(self.structure, self.params, gradient, "gradient")
        parts = [np.ravel(g) for g, yes in zip(found, self.trained, strict=True) if yes]
        return np.concatenate(parts).astype(np.float64)


def _pairs(bounds: Any, shape: tuple[int, ...]) -> Any:
    """Rows (lower, upper), one for each element of a leaf of this shape; NaN where there is no
    bound."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # scipy.optimize.Bounds
        bounds = np.stack(np.broadcast_arrays(bounds.lb, bounds.ub), axis=-1)
    pairs = np.array((None, None) if bounds is None else bounds, float)
    try:
        return np.broadcast_to(pairs, (*(shape or (1,)), 2)).reshape(-1, 2)
    except ValueError:
        raise ValueError(
            message(
                f"bounds of shape {pairs.shape} for parameters of shape {shape}",
                f"Give a pair (lower, upper), or an array of pairs of shape {(*shape, 2)}",
            )
        ) from None
