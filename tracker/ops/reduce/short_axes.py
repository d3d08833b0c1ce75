"""Reductions over short axes of large arrays, faster than NumPy's.

`ufunc.reduce` makes the axis of least stride the inner loop: for windows of 3 by 3 elements these
are millions of loops of three steps. `reduce_short_axes` loops over the elements of a window
outside, and over all windows in each step.

Invariant: used only where the order of the elements does not change the result.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

_FEW = 32  # elements per reduction
_MANY = 4096  # elements of the array; below, the overhead does not matter


def reduce_short_axes(ufunc: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`ufunc.reduce` of an array."""
    if type(x) is not np.ndarray or x.size < _MANY or not axis:
        return ufunc.reduce(x, axis, keepdims=keepdims)
    shape = x.shape
    if math.prod(shape[i] for i in axis) > _FEW:
        return ufunc.reduce(x, axis, keepdims=keepdims)
    at: list[Any] = [slice(None)] * x.ndim
    steps = itertools.product(*(range(shape[i]) for i in axis))
    total: Any = None
    for step in steps:
        for i, k in zip(axis, step, strict=True):
            at[i] = slice(k, k + 1)
        part = x[tuple(at)]
        if total is None:
            total = part.astype(np.sum(part[:0]).dtype) if ufunc is np.add else part.copy()
        else:
            ufunc(total, part, out=total)
    return total if keepdims else total.reshape([n for i, n in enumerate(shape) if i not in axis])
