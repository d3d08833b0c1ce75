"""Products of a plain sparse array and a tracked dense one. Importing this module installs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from tracker.scipy._bridge.fallback import no_derivative_rule
from tracker.scipy._bridge.linear_map import LinearMap
from tracker.tape.placeholders import resolve_placeholder
from tracker.tape.tracked import Tracked, install


def sparse_map(a: Any) -> LinearMap:
    """The linear map x -> a @ x. It reads the numbers of `a` at each call."""
    name = type(a).__name__

    adjoint = LinearMap(
        lambda g: a.conj(copy=False).T @ g, a.shape[1], a.dtype, lambda: forward, name
    )
    forward = LinearMap(lambda x: a @ x, a.shape[0], a.dtype, lambda: adjoint, name)
    return forward


def _transposed_map(a: Any) -> LinearMap:
    adjoint = LinearMap(lambda g: a.conj(copy=False) @ g, a.shape[0], a.dtype, lambda: forward)
    forward = LinearMap(lambda x: a.T @ x, a.shape[1], a.dtype, lambda: adjoint)
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


def _star_product(a: Any, x: Any, reflected: bool) -> Any:
    """`*`: the matrix product for sparse matrices; elementwise for sparse arrays, which is
    refused."""
    if isinstance(a, scipy.sparse.spmatrix):
        return product(a, x) if reflected else product_from_left(x, a)
    text = f"a {type(a).__name__} times a tracked value, element by element,"
    raise no_derivative_rule(text, "Use A.toarray(); A @ x is the product of matrices")


# Types of most operands: a fast check before `issparse`.
_DENSE_TYPES = frozenset((Tracked, np.ndarray, float, int, np.float64))


def _install_operator(name: str, rule: Callable[[Any, Any, bool], Any]) -> None:
    dense, reflected = getattr(Tracked, name), name.startswith("__r")

    def operator(self: Any, other: Any) -> Any:
        if type(other) not in _DENSE_TYPES and scipy.sparse.issparse(other):
            return rule(other, self, reflected)
        return dense(self, other)

    install(name)(operator)


def _defer_to_tracked(dispatch: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """SciPy's product, which returns NotImplemented for a tracked operand, so that Python calls the
    operator of the tracked value."""

    @functools.wraps(dispatch)
    def call(self: Any, other: Any) -> Any:
        other = resolve_placeholder(other)
        return NotImplemented if type(other) is Tracked else dispatch(self, other)

    return call


_install_operator("__rmatmul__", lambda a, x, _: product(a, x))
_install_operator("__matmul__", lambda a, x, _: product_from_left(x, a))
_install_operator("__rmul__", _star_product)
_install_operator("__mul__", _star_product)
_name = "_matmul_dispatch"
for _format in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
    for _class in getattr(scipy.sparse, f"{_format}_array").__mro__:
        if _name in vars(_class) and not hasattr(vars(_class)[_name], "__wrapped__"):
            setattr(_class, _name, _defer_to_tracked(vars(_class)[_name]))
