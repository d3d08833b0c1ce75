"""Operators of a plain sparse array with a tracked dense or sparse one (`ops/sparse_operands.py`
calls them for SciPy's own classes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.scipy._bridge.fallback import is_tracked_sparse
from tracker.scipy._bridge.linear_map import LinearMap
from tracker.scipy.sparse.tracked_array import TrackedSparse


def apply_operator(name: str, a: Any, other: Any) -> Any:
    """What SciPy's method of this name gives for a tracked operand."""
    if is_tracked_sparse(other) or np.ndim(other) == 0:
        public = {"_matmul_dispatch": "__matmul__", "_rmatmul_dispatch": "__rmatmul__"}
        if np.ndim(other) == 0 and name in public:
            return TrackedSparse.of(a).multiply(other)
        return getattr(TrackedSparse.of(a), public.get(name, name))(other)
    if name == "_matmul_dispatch":
        return product(a, other)
    if name == "_rmatmul_dispatch":
        return product_from_left(other, a)
    return getattr(TrackedSparse.of(a), name)(other)


def sparse_map(a: Any) -> LinearMap:
    """The linear map x -> a @ x. It reads the numbers of `a` at each call."""
    name = type(a).__name__

    adjoint = LinearMap(
        lambda g: a.conj(copy=False).T @ g,
        a.shape[1],
        a.dtype,
        lambda: forward,
        name,
        places=lambda: a.T,
    )
    forward = LinearMap(
        lambda x: a @ x, a.shape[0], a.dtype, lambda: adjoint, name, places=lambda: a
    )
    return forward


def _transposed_map(a: Any) -> LinearMap:
    adjoint = LinearMap(
        lambda g: a.conj(copy=False) @ g, a.shape[0], a.dtype, lambda: forward, places=lambda: a
    )
    forward = LinearMap(lambda x: a.T @ x, a.shape[1], a.dtype, lambda: adjoint, places=lambda: a.T)
    return forward


def product(a: Any, x: Any) -> Any:
    """The product of a sparse array and a tracked vector or matrix."""
    _check(a, np.ndim(x), a.shape[-1], np.shape(x)[:1], x)
    return sparse_map(a)(x) if a.ndim == 2 else a.tocoo().data @ x[a.tocoo().coords[0]]


def product_from_left(x: Any, a: Any) -> Any:
    """The product of a tracked vector or matrix and a sparse array."""
    _check(a, np.ndim(x), a.shape[0], np.shape(x)[-1:], x)
    if a.ndim == 1:
        return x[..., a.tocoo().coords[0]] @ a.tocoo().data
    return np.transpose(_transposed_map(a)(np.transpose(x)))


def _check(a: Any, ndim: int, inner: int, found: tuple[int, ...], x: Any) -> None:
    if ndim not in (1, 2) or found != (inner,):
        raise ValueError(
            f"matmul: dimension mismatch: a {type(a).__name__} of shape {a.shape} and a tracked "
            f"value of shape {np.shape(x)}"
        )
