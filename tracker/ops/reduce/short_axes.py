"""Folds over short axes of large arrays, which NumPy goes about from the wrong side.

A ufunc's `reduce` takes the axis whose elements lie closest together innermost: of windows of three
by three elements it makes millions of loops of three steps. `reduce_short_axes` goes over the
elements of a window outside, and over all windows in each step.

Invariant: only where the order of the elements does not change the result.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

_FEW = 32  # elements that are folded into one
_MANY = 4096  # elements, below which it does not matter


def reduce_short_axes(ufunc: np.ufunc, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
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
            total = part.astype(ufunc.reduce(part[:0], 0).dtype) if ufunc is np.add else part.copy()
        else:
            ufunc(total, part, out=total)
    return total if keepdims else total.reshape([n for i, n in enumerate(shape) if i not in axis])
