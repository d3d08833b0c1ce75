"""Operators between a plain sparse array and a tracked dense one. Importing this installs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from tracker.scipy._bridge.fallback import no_rule
from tracker.scipy._bridge.linear_map import Linear
from tracker.tape.placeholders import settled
from tracker.tape.tracked import Tracked, install


def times(a: Any) -> Linear:
    """The map that a sparse matrix is. Its numbers are looked at when it is applied."""
    name = type(a).__name__

    back = Linear(lambda g: a.conj(copy=False).T @ g, a.shape[1], a.dtype, lambda: there, name)
    there = Linear(lambda x: a @ x, a.shape[0], a.dtype, lambda: back, name)
    return there


def _transposed(a: Any) -> Linear:
    back = Linear(lambda g: a.conj(copy=False) @ g, a.shape[0], a.dtype, lambda: there)
    there = Linear(lambda x: a.T @ x, a.shape[1], a.dtype, lambda: back)
    return there


def product(a: Any, x: Any) -> Any:
    """A sparse array times a tracked vector or matrix."""
    _check(a, np.ndim(x), a.shape[-1], np.shape(x)[:1], x)
    return times(a)(x) if a.ndim == 2 else a.tocoo().data @ x[a.tocoo().coords[0]]


def product_from_left(x: Any, a: Any) -> Any:
    """A tracked vector or matrix times a sparse array."""
    _check(a, np.ndim(x), a.shape[0], np.shape(x)[-1:], x)
    if a.ndim == 1:
        return x[..., a.tocoo().coords[0]] @ a.tocoo().data
    return np.transpose(_transposed(a)(np.transpose(x)))


def _check(a: Any, ndim: int, inner: int, found: tuple[int, ...], x: Any) -> None:
    if ndim not in (1, 2) or found != (inner,):
        raise ValueError(
            f"matmul: dimension mismatch: a {type(a).__name__} of shape {a.shape} and a tracked "
            f"value of shape {np.shape(x)}"
        )


def _multiplied(a: Any, x: Any, reflected: bool) -> Any:
    """`*`: of sparse matrices the product of matrices, of sparse arrays element by element."""
    if isinstance(a, scipy.sparse.spmatrix):
        return product(a, x) if reflected else product_from_left(x, a)
    text = f"a {type(a).__name__} times a tracked value, element by element,"
    raise no_rule(text, "Use A.toarray(); A @ x is the product of matrices")


_DENSE = frozenset((Tracked, np.ndarray, float, int, np.float64))  # most operands, at little cost


def _with_sparse(name: str, rule: Callable[[Any, Any, bool], Any]) -> None:
    dense, reflected = getattr(Tracked, name), name.startswith("__r")

    def operator(self: Any, other: Any) -> Any:
        if type(other) not in _DENSE and scipy.sparse.issparse(other):
            return rule(other, self, reflected)
        return dense(self, other)

    install(name)(operator)


def _stepping_aside(dispatch: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """SciPy's product of matrices, which leaves a tracked operand to that operand's operators."""

    @functools.wraps(dispatch)
    def call(self: Any, other: Any) -> Any:
        other = settled(other)
        return NotImplemented if type(other) is Tracked else dispatch(self, other)

    return call


_with_sparse("__rmatmul__", lambda a, x, _: product(a, x))
_with_sparse("__matmul__", lambda a, x, _: product_from_left(x, a))
_with_sparse("__rmul__", _multiplied)
_with_sparse("__mul__", _multiplied)
_name = "_matmul_dispatch"
for _format in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
    for _class in getattr(scipy.sparse, f"{_format}_array").__mro__:
        if _name in vars(_class) and not hasattr(vars(_class)[_name], "__wrapped__"):
            setattr(_class, _name, _stepping_aside(vars(_class)[_name]))
