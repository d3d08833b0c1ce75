"""`norm` and its relatives, `cond`, `matrix_rank`: composed of other functions. The derivative of a
norm at zero is 0, by the strong zeros of docs/explanation/conventions.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.linalg.triangles import as_array, as_square, real_part
from tracker.tape.conversions import plain_integers
from tracker.tape.tracked import Tracked


def _squares(x: Any) -> Any:
    return real_part(x * np.conjugate(x)) if np.iscomplexobj(x) else np.square(x)


def _floating(x: Any) -> Any:
    x = as_array(x)
    return x if x.dtype.kind in "fc" else np.astype(x, np.float64)


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """Vector norms of any order, and matrix norms (1, 2, inf, "fro", "nuc" and their negatives)."""
    x = _floating(x)
    ndim = np.ndim(x)
    if axis is None:
        frobenius = ndim == 2 and ord in ("f", "fro")
        if ord is None or frobenius or (ndim == 1 and ord == 2 and not _is_variable(ord)):
            return np.sqrt(np.sum(_squares(x), keepdims=keepdims))
        axes: tuple[int, ...] = tuple(range(ndim))
    else:
        axis = tuple(plain_integers(axis)) if type(axis) is Tracked and axis.ndim else axis
        axes = axis if isinstance(axis, tuple) else (_integer_axis(axis),)
    if len(axes) == 1:
        return _vector_norm(x, ord, normalize_axis_index(axes[0], ndim), keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    row, column = (normalize_axis_index(i, ndim) for i in axes)
    if row == column:
        raise ValueError("Duplicate axes given.")
    result = _matrix_norm(x, ord, row, column)
    if keepdims:
        kept = (1 if i in (row, column) else n for i, n in enumerate(np.shape(x)))
        return np.reshape(result, tuple(kept))
    return result


def _integer_axis(axis: Any) -> int:
    try:
        return int(axis)
    except Exception as error:
        raise TypeError("'axis' must be None, an integer or a tuple of integers") from error


def _vector_norm(x: Any, ord: Any, axis: int, keepdims: bool) -> Any:
    how: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if _is_variable(ord) and np.isfinite(ord) and ord != 0:
        return _p_norm(x, ord, how)
    if ord is None or ord == 2:
        return np.sqrt(np.sum(_squares(x), **how))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == math.inf:
        return np.max(np.abs(x), initial=0, **how)
    if ord == -math.inf:
        return np.min(np.abs(x), **how)
    if ord == 0:
        return np.sum(np.astype(x != 0, real_part(x).dtype), **how)
    if ord == 1:
        return np.sum(np.abs(x), **how)
    return _p_norm(x, ord, how)


def _p_norm(x: Any, ord: Any, how: dict[str, Any]) -> Any:
    powers = np.abs(x) ** ord
    if type(ord) is not Tracked and ord > 0:  # underflowed powers get the derivative 0, like zeros
        powers = np.where(powers == 0, np.zeros_like(powers), powers)
    return np.sum(powers, **how) ** (1 / ord)


def _is_variable(ord: Any) -> bool:
    """Whether the order may be differentiated: then 1 and 2 are computed like any other order."""
    return type(ord) is Tracked and ord.dtype.kind == "f"


def _matrix_norm(x: Any, ord: Any, row: int, column: int) -> Any:
    if ord is None or ord in ("fro", "f"):
        return np.sqrt(np.sum(_squares(x), axis=(row, column)))
    if ord in (1, -1, math.inf, -math.inf):
        along, across = (row, column) if abs(ord) == 1 else (column, row)
        sums = np.sum(np.abs(x), axis=along)
        rest = across - 1 if across > along else across
        if ord < 0:
            return np.min(sums, axis=rest)
        return np.max(sums, axis=rest, initial=0)
    if ord not in (2, -2, "nuc"):
        raise ValueError("Invalid norm order for matrices.")
    s = np.linalg.svdvals(np.moveaxis(x, (row, column), (-2, -1)))
    if ord == "nuc":
        return np.sum(s, axis=-1)
    return np.min(s, axis=-1) if ord == -2 else np.max(s, axis=-1, initial=0)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, (-2, -1), keepdims)


run_as_written(np.linalg.matrix_rank, np.linalg.vector_norm)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number; infinite, and without a derivative, where `x` is singular."""
    x = as_array(x)
    if 0 in np.shape(x)[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = np.linalg.svdvals(x)
        ends = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        with np.errstate(all="ignore"):
            return _or_infinite(np.divide(*ends), x)
    as_square(x)  # raises
    singular = np.linalg.slogdet(x)[0] == 0
    if not bool(np.any(singular)):
        return norm(x, p, (-2, -1)) * norm(np.linalg.inv(x), p, (-2, -1))
    unit = np.eye(np.shape(x)[-1], dtype=x.dtype)
    safe = np.where(np.expand_dims(singular, (-2, -1)), unit, x)
    found = norm(safe, p, (-2, -1)) * norm(np.linalg.inv(safe), p, (-2, -1))
    return _or_infinite(np.where(singular, np.nan, found), x)


def _or_infinite(r: Any, x: Any) -> Any:
    """NaN means singular, unless the matrix holds a NaN."""
    is_nan = np.isnan(r)
    if not bool(np.any(is_nan)):
        return r
    has_nan = np.any(np.isnan(x), axis=(-2, -1))
    return np.where(np.logical_and(is_nan, np.logical_not(has_nan)), np.inf, r)[()]
