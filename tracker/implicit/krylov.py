"""Iterative solvers of linear systems, which need only products with the matrix.

`cg` for symmetric positive definite matrices, `gmres` for others. Loops are `while_loop`s, so a
trace holds each as one loop, whatever number of steps a call takes. Nothing here is differentiated:
`solution.py` gives solutions their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.control import fori_loop, while_loop

Map = Callable[[Any], Any]
_BASIS_SIZE = 50  # vectors that GMRES keeps before it starts again


def default_tolerance(b: Any) -> float:
    """The relative residual at which solvers stop: 4e-10 for double precision."""
    return float(np.finfo(np.result_type(b)).eps ** 0.6)


def cg(product: Map, b: Any, rtol: float, maxiter: int) -> Any:
    """The solution of A x = b by conjugate gradients; product(v) is A v.

    Stops without one after `maxiter` products, or where A is found not to be positive definite.
    """
    least = rtol**2 * _square(b)

    def going_on(state: tuple[Any, ...]) -> Any:
        _, _, _, rr, curvature, steps = state
        return (rr > least) & (curvature > 0) & (steps < maxiter)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, p, rr, _, steps = state
        q = product(p)
        curvature = np.real(np.vdot(p, q))
        rate = np.where(curvature > 0, rr / np.where(curvature > 0, curvature, 1.0), 0.0)
        x, r = x + rate * p, r - rate * q
        new = _square(r)
        return x, r, r + new / rr * p, new, curvature, steps + 1

    start = (np.zeros_like(b), b, b, _square(b), np.ones_like(_square(b)), 0)
    return while_loop(going_on, step, start)[0]


def gmres(product: Map, b: Any, rtol: float, maxiter: int) -> Any:
    """The solution of A x = b by restarted GMRES; product(v) is A v.

    Stops without one after about `maxiter` products, or where a restart gains nothing.
    """
    size = min(np.size(b), _BASIS_SIZE)
    least = rtol**2 * _square(b)

    def going_on(state: tuple[Any, ...]) -> Any:
        _, _, rr, before, steps = state
        return (rr > least) & (rr < before) & (steps < maxiter)

    def cycle(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, rr, _, steps = state
        length = np.sqrt(rr)
        basis, products = _arnoldi(product, r / length, size)
        # Least squares in the coefficients, by the triangle of the products.
        q, triangle = np.linalg.qr(np.transpose(products))
        scale = np.abs(np.diagonal(triangle))
        used = scale > np.finfo(scale.dtype).eps * np.max(scale)
        triangle = np.where(used[:, None] & used, triangle, np.eye(size))
        right = np.where(used, np.conj(np.transpose(q)) @ r, 0.0)
        x = x + np.linalg.solve(triangle, right) @ basis
        r = b - product(x)
        return x, r, _square(r), rr, steps + size

    start = (np.zeros_like(b), b, _square(b), np.inf * np.ones_like(_square(b)), 0)
    return while_loop(going_on, cycle, start)[0]


def _arnoldi(product: Map, first: Any, size: int) -> tuple[Any, Any]:
    """An orthonormal basis of the Krylov space of a unit vector, and its products with A, as rows;
    zeros where the space has fewer dimensions."""

    def extend(k: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        basis, products, v = state
        row = np.arange(size) == k
        basis = np.where(row[:, None], v, basis)
        w = product(v)
        products = np.where(row[:, None], w, products)
        before = np.sqrt(_square(w))
        for _ in range(2):  # the second pass removes what rounding left
            w = w - (np.conj(basis) @ w) @ basis
        length = np.sqrt(_square(w))
        is_new = length > 1e3 * np.finfo(length.dtype).eps * before
        return basis, products, np.where(is_new, w / np.where(is_new, length, 1.0), 0.0)

    empty = np.zeros_like(first) * np.zeros((size, 1))
    basis, products, _ = fori_loop(0, size, extend, (empty, empty, first))
    return basis, products


def _square(v: Any) -> Any:
    return np.real(np.vdot(v, v))
