"""Convolution and correlation of two vectors.

Two ops: `convolve`, in full, and `slide`, the valid part of a correlation. The derivatives of each
are the other one, so the gradient of a short factor takes no more work than the function. Compiled,
a short factor is unrolled; else all pairs are visited in memory order.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from tracker.ir.lowering import Expand
from tracker.ir.op import UFUNCS, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.rule_helpers import conjugated, project
from tracker.ops.indexing.getitem import embed, getitem
from tracker.ops.reduce.reduce import sum_
from tracker.ops.shape.create import astype
from tracker.ops.shape.shape import broadcast_to, concatenate, reshape, transpose
from tracker.ops.shape.windows import overlaps, windows
from tracker.tape.record import apply

_FEW = 12  # elements of an unrolled factor; each has loops of its own for both ends
_FEW_PARTS = 16  # elements of an unrolled factor or result of `slide`, without such ends

# Full convolution ---------------------------------------------------------------------------------


def _factor_cotangent(g: Any, v: Any, x: Any) -> Any:
    """The cotangent of one factor: g correlated with the other factor."""
    return project(apply(slide, (g, conjugated(v))), x)


def _in_result_dtype(b: Any, *xs: Any) -> list[Any] | str:
    """The factors in the dtype of the result, or why it cannot be compiled."""
    dtype = np.result_type(*(x.type.dtype for x in xs))
    if dtype.char in "egG":
        return f"a convolution of {dtype}"
    return [b(astype, x, dtype=dtype) if x.type.dtype != dtype else x for x in xs]


def _slice(b: Any, x: Any, start: int, count: int) -> Any:
    return b(getitem, x, index=(slice(start, start + count, 1),))


def _sum_terms(b: Any, terms: list[Any]) -> Any:
    return reduce(lambda total, term: b(UFUNCS[np.add], total, term), terms)


def _convolve_build(b: Any, a: Any, v: Any) -> Any:
    """Multiples of the longer factor, one for each element of the shorter, shifted and summed."""
    both = _in_result_dtype(b, a, v)
    if isinstance(both, str):
        return both
    a, v = both
    if a.type.size < v.type.size:
        a, v = v, a
    (n,), (m,) = a.type.shape, v.type.shape
    times, shape = UFUNCS[np.multiply], (n + m - 1,)
    if m <= _FEW and a.type.dtype.kind in "fc":
        terms = []
        for k in range(m):
            multiple = b(times, b(getitem, v, index=(k,)), a)  # before padding: no 0 * nan
            terms.append(b(embed, multiple, index=(slice(k, k + n, 1),), shape=shape))
        return _sum_terms(b, terms)
    multiples = b(times, b(reshape, v, shape=(m, 1)), b(reshape, a, shape=(1, n)))
    return b(overlaps, multiples, extents=shape, stride=(1,), dilation=(1,))


convolve_ = declare(
    "convolve",
    infer=lambda a, v: Type((a.shape[0] + v.shape[0] - 1,), np.result_type(a.dtype, v.dtype)),
    evaluate=np.convolve,
    jvp=[lambda t, y, a, v: np.convolve(t, v), lambda t, y, a, v: np.convolve(a, t)],
    vjp=[
        lambda g, y, a, v: _factor_cotangent(g, v, a),
        lambda g, y, a, v: _factor_cotangent(g, a, v),
    ],
    lower=Expand(_convolve_build),
)

# Valid correlation --------------------------------------------------------------------------------


def _slide_build(b: Any, a: Any, v: Any) -> Any:
    both = _in_result_dtype(b, a, v)
    if isinstance(both, str):
        return both
    a, v = both
    (n,), times = v.type.shape, UFUNCS[np.multiply]
    many = a.type.size - n + 1
    if n <= _FEW_PARTS:
        parts = [_slice(b, a, k, many) for k in range(n)]
        return _sum_terms(b, [b(times, x, b(getitem, v, index=(k,))) for k, x in enumerate(parts)])
    if many <= _FEW_PARTS:
        sums = [
            _narrow_sum(b, b(times, _slice(b, a, k, n), v), 0, keepdims=True) for k in range(many)
        ]
        return sums[0] if many == 1 else b(concatenate, *sums, axis=0)
    parts = b(windows, a, kernel=(n,), stride=(1,), dilation=(1,))  # (n, many)
    if n <= many:  # a sum for each part
        products = b(times, b(transpose, parts, axes=(1, 0)), b(reshape, v, shape=(1, n)))
        return _narrow_sum(b, products, 1)
    column = b(broadcast_to, b(reshape, v, shape=(n, 1)), shape=(n, many))
    return _narrow_sum(b, b(times, parts, column), 0)


def _narrow_sum(b: Any, x: Any, axis: int, keepdims: bool = False) -> Any:
    """A sum in the dtype of its terms: `np.sum` widens integers, `np.convolve` does not (of bools
    it is `any`)."""
    total = b(sum_, x, axis=(axis,), keepdims=keepdims)
    dtype = x.type.dtype
    return total if total.type.dtype == dtype else b(astype, total, dtype=dtype)


slide: Op = declare(  # sum over i of a[j + i] * v[i], where v is not longer than a
    "slide",
    infer=lambda a, v: Type((a.shape[0] - v.shape[0] + 1,), np.result_type(a.dtype, v.dtype)),
    evaluate=lambda a, v: np.convolve(a, v[::-1], "valid"),
    jvp=[lambda t, y, a, v: apply(slide, (t, v)), lambda t, y, a, v: apply(slide, (a, t))],
    vjp=[
        lambda g, y, a, v: project(np.convolve(g, conjugated(v)), a),
        lambda g, y, a, v: project(apply(slide, (conjugated(a), g)), v),
    ],
    lower=Expand(_slide_build),
)

# NumPy's functions --------------------------------------------------------------------------------


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    a, v = (np.atleast_1d(as_array(x)) for x in (a, v))
    n, m = np.size(a), np.size(v)
    if n == 0 or m == 0:
        raise ValueError("a cannot be empty" if n == 0 else "v cannot be empty")
    if np.ndim(a) > 1 or np.ndim(v) > 1:
        raise ValueError("object too deep for desired array")
    start, stop = _mode_bounds(mode, max(n, m), min(n, m))
    if mode in ("valid", 0):
        return apply(slide, (a, np.flip(v)) if n >= m else (v, np.flip(a)))
    full = apply(convolve_, (a, v))
    return full if mode == "full" else full[start:stop]


def _mode_bounds(mode: Any, n: int, m: int) -> tuple[int, int]:
    """The part of a full convolution of n and m elements, n >= m, that a mode keeps."""
    if mode in ("full", 2):
        return 0, n + m - 1
    if mode in ("same", 1):
        return (m - 1) // 2, (m - 1) // 2 + n
    if mode in ("valid", 0):
        return m - 1, n
    raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    a, v = as_array(a), as_array(v)
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        raise ValueError("object of too small depth for desired array")
    v = conjugated(v)
    if np.size(v) > np.size(a):  # NumPy swaps them, and reverses the result
        return np.copy(np.flip(convolve(np.flip(a), v, mode)))
    return convolve(a, np.flip(v), mode)
