"""Triangles and diagonals, and what the rules of linear algebra share.

Ops: `triangle` (np.tril, np.triu), `diagonal` and `embed_diagonal`; each is linear, and a view to
the compiler. The rest are helpers for rules.

Invariant: helpers act on the last two axes, of plain and of tracked arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.lowering import View
from tracker.ir.op import LINEAR, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array as as_array
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.shape.shape import adjoint
from tracker.tape.record import apply

# Triangles ----------------------------------------------------------------------------------------


def _triangle_source(e: Any, index: Any, x: Type, *, k: int, lower: bool) -> Any:
    """Zero above (below) the k-th diagonal: the element exists where row - column is in range."""
    m, n = x.shape[-2:]
    row_minus_column = index[-2] + index[-1] * -1
    start, count = (-k, max(m + k, 0)) if lower else (1 - n, max(n - k, 0))
    return 0, index, e.within(row_minus_column, start, 1, count)[1]


triangle: Op = declare(
    "triangle",
    infer=lambda x, *, k, lower: Type(x.shape, x.dtype),
    evaluate=lambda x, *, k, lower: (np.tril if lower else np.triu)(x, k),
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, k, lower: apply(triangle, (g,), {"k": k, "lower": lower})],
    lower=View(_triangle_source),
)


def _triangle(m: Any, k: int, lower: bool) -> Any:
    if np.ndim(m) == 1:
        m = np.broadcast_to(m, (np.size(m), np.size(m)))
    return apply(triangle, (m,), {"k": int(k), "lower": lower})


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, lower=True)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    return _triangle(m, k, lower=False)


# Diagonals ----------------------------------------------------------------------------------------


def _diagonal_length(m: int, n: int, k: int) -> int:
    return max(min(m + min(k, 0), n - max(k, 0)), 0)


def _diagonal_source(e: Any, index: Any, x: Type, *, k: int) -> Any:
    i = index[-1]
    return 0, (*index[:-1], i + max(-k, 0), i + max(k, 0)), None


def _embed_diagonal_source(e: Any, index: Any, x: Type, *, k: int, shape: tuple[int, int]) -> Any:
    column_minus_row = index[-1] + index[-2] * -1
    _, on = e.within(column_minus_row, k, 1, 1)
    i, inside = e.within(index[-2], max(-k, 0), 1, x.shape[-1])
    return 0, (*index[:-2], i), e.every([on, inside])


def _embed_diagonal(x: Any, *, k: int, shape: tuple[int, int]) -> Any:
    out = np.zeros((*np.shape(x)[:-1], *shape), np.result_type(x))
    along = np.arange(np.shape(x)[-1])
    out[..., along + max(-k, 0), along + max(k, 0)] = x
    return out


diagonal: Op = declare(
    "diagonal",
    infer=lambda x, *, k: Type(
        (*x.shape[:-2], _diagonal_length(x.shape[-2], x.shape[-1], k)), x.dtype
    ),
    evaluate=lambda x, *, k: np.diagonal(x, k, -2, -1),
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, k: apply(embed_diagonal, (g,), {"k": k, "shape": np.shape(x)[-2:]})],
    lower=View(_diagonal_source),
)
embed_diagonal: Op = declare(
    "embed_diagonal",
    infer=lambda x, *, k, shape: Type((*x.shape[:-1], *shape), x.dtype),
    evaluate=_embed_diagonal,
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, k, shape: apply(diagonal, (g,), {"k": k})],
    lower=View(_embed_diagonal_source),
)


@implements(np.diagonal, method="diagonal")
def diagonal_(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    if np.ndim(a) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    return apply(diagonal, (np.moveaxis(a, (axis1, axis2), (-2, -1)),), {"k": int(offset)})


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    if np.ndim(v) == 2:
        return diagonal_(v, k)
    if np.ndim(v) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = int(k)
    n = np.size(v) + abs(k)
    return apply(embed_diagonal, (v,), {"k": k, "shape": (n, n)})


@implements(np.trace, method="trace")
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


run_as_written(np.linalg.diagonal, np.linalg.trace)

# Shared by the rules ------------------------------------------------------------------------------


def expand_last(v: Any, count: int = 1) -> Any:
    """Append axes of extent 1: one number per row (or per matrix, by two axes), to scale rows (or
    matrices)."""
    return np.reshape(v, (*np.shape(v), *(1,) * count))


def real_part(x: Any) -> Any:
    return np.real(x) if np.iscomplexobj(x) else x


def diagonal_of(a: Any) -> Any:
    return apply(diagonal, (a,), {"k": 0})


def diagonal_matrix(v: Any, like: Any) -> Any:
    """A diagonal matrix, of the shape of `like`."""
    return apply(embed_diagonal, (v,), {"k": 0, "shape": np.shape(like)[-2:]})


def hermitian_from_triangle(a: Any, lower: bool = True) -> Any:
    """The Hermitian matrix that LAPACK sees when it reads one triangle of `a`."""
    strict = _triangle(a, -1 if lower else 1, lower)
    return strict + adjoint(strict) + diagonal_matrix(real_part(diagonal_of(a)), a)


def project_to_triangle(s: Any, lower: bool = True) -> Any:
    """The cotangent of `a`, given one of `hermitian_from_triangle(a)`: both triangles add up in the
    one read."""
    strict = _triangle(s + adjoint(s), -1 if lower else 1, lower)
    return strict + diagonal_matrix(real_part(diagonal_of(s)), s)


def check_matrices(a: Any) -> None:
    """Raise NumPy's error unless `a` is a stack of matrices."""
    if np.ndim(a) < 2:
        raise np.linalg.LinAlgError(
            f"{np.ndim(a)}-dimensional array given. Array must be at least two-dimensional"
        )


def as_square(a: Any) -> Any:
    """The argument as an array; raises NumPy's errors unless it is a stack of square matrices."""
    a = as_array(a)
    check_matrices(a)
    if np.shape(a)[-1] != np.shape(a)[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a


Shapes = tuple[tuple[int, ...], ...]  # of the parts of a packed result, of one matrix


def pack(parts: Sequence[Any], shapes: Shapes) -> Any:
    """Stacks of vectors or matrices, flat and one after the other."""
    rows = []
    for part, shape in zip(parts, shapes, strict=True):
        batch = np.shape(part)[: np.ndim(part) - len(shape)]
        rows.append(np.reshape(part, (*batch, math.prod(shape))))
    return np.concatenate(rows, axis=-1)


def unpack(flat: Any, shapes: Shapes) -> list[Any]:
    """The parts of a packed result."""
    out = []
    start = 0
    for shape in shapes:
        size = math.prod(shape)
        part = flat[..., start : start + size]
        part_shape = (*np.shape(part)[:-1], *shape)
        out.append(part if len(shape) == 1 else np.reshape(part, part_shape))
        start += size
    return out


def packed_type(a: Type, shapes: Shapes, dtype: np.dtype[Any] | None = None) -> Type:
    size = sum(map(math.prod, shapes))
    return Type((*a.shape[:-2], size), linalg_dtype(a.dtype) if dtype is None else dtype)


def linalg_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which `np.linalg` computes."""
    found = np.result_type(*dtypes)
    if found.kind in "biu":
        return np.dtype(np.float64)
    if found.char not in "fdFD":
        raise TypeError(f"array type {found.name} is unsupported in linalg")
    return found


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex number."""
    return np.dtype(dtype.char.lower())


def epsilon(a: Any) -> float:
    """The machine epsilon of a matrix's dtype."""
    return float(np.finfo(linalg_dtype(np.result_type(a))).eps)
