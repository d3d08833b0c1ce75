"""`argmax` and `argmin`.

Compiled, the result is the minimum of the positions that hold the extreme, so that both loops
vectorise; a long array is read once, block by block. Start at `_lower_argextreme`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tracker.ir.lowering import Expand
from tracker.ir.op import Op
from tracker.ops.elementwise.binary import add, maximum, minimum, multiply
from tracker.ops.elementwise.comparison import equal, logical_and, logical_or, where
from tracker.ops.elementwise.unary import isnan, logical_not
from tracker.ops.indexing.gather_scatter import HOLE, taken
from tracker.ops.indexing.getitem import getitem
from tracker.ops.reduce.predicates import any_, integer_reduction, reduce_all_axes
from tracker.ops.reduce.reduce import max_, min_
from tracker.ops.shape.create import iota
from tracker.ops.shape.shape import reshape, reshape_if_needed

_BLOCK = 512
_LONG = 8 * _BLOCK
_PAIRED = {max_: maximum, min_: minimum}


def _lower_argextreme(extreme: Op) -> Expand:
    """The lowering: the first position of an extreme, or of a NaN."""

    def build(b: Any, x: Any, *, axis: Any, keepdims: Any = False) -> Any:
        if x.type.size == 0:
            return "NumPy raises"
        if x.type.dtype.kind == "c":  # NumPy may skip a number with one NaN part
            b.require(b(logical_not, reduce_all_axes(b, any_, b(isnan, x))))
        everywhere = axis is None or x.type.ndim == 0  # 0-d arrays accept the axes 0 and -1
        axes = None if everywhere else normalize_axis_tuple(axis, x.type.ndim)
        if axes is not None and x.type.ndim > 1:
            extreme_value = b(extreme, x, axis=axes, keepdims=True)
            return _first_equal(b, x, extreme_value, axes[0], bool(keepdims))
        shape = (1,) * x.type.ndim if keepdims else ()
        line = reshape_if_needed(b, x, (x.type.size,))
        is_long = line.type.size >= _LONG
        y = _first_blocked(b, line, extreme) if is_long else _first_unblocked(b, line, extreme)[0]
        return b(reshape, y, shape=shape) if shape else y

    return Expand(build)


def _first_equal(b: Any, x: Any, best: Any, axis: int, keepdims: bool = False) -> Any:
    """The first position along an axis of an element equal to `best`, or of a NaN."""
    hit = b(equal, x, best)
    if x.type.dtype.kind == "f":  # a NaN is the extreme, and equals nothing
        hit = b(logical_or, hit, b(isnan, x))
    position = b(iota, shape=x.type.shape, axis=axis)
    past_end = np.intp(x.type.shape[axis])
    return b(min_, b(where, hit, position, past_end), axis=(axis,), keepdims=keepdims)


def _first_unblocked(b: Any, line: Any, extreme: Op) -> tuple[Any, Any]:
    """The first position of the extreme of a vector, and the extreme."""
    best = b(extreme, line, axis=(0,), keepdims=False)
    return _first_equal(b, line, best, 0), best


def _first_blocked(b: Any, line: Any, extreme: Op) -> Any:
    """The same of a long vector, in one pass over memory: the first block that attains the extreme,
    and the first position in this block."""
    n = line.type.size
    count = n // _BLOCK
    blocked = count * _BLOCK
    blocks = b(getitem, line, index=(slice(0, blocked, 1),)) if blocked < n else line
    blocks = b(reshape, blocks, shape=(count, _BLOCK))
    block_best = b(extreme, blocks, axis=(1,), keepdims=False)
    block, best = _first_unblocked(b, block_best, extreme)
    row = b(taken, blocks, block, index=(HOLE, slice(0, _BLOCK, 1)))
    y = b(add, b(multiply, block, np.intp(_BLOCK)), _first_equal(b, row, best, 0))
    if blocked == n:
        return y
    tail_position, tail_best = _first_unblocked(
        b, b(getitem, line, index=(slice(blocked, n, 1),)), extreme
    )
    tail_is_better = b(logical_not, b(equal, b(_PAIRED[extreme], best, tail_best), best))
    if line.type.dtype.kind == "f":
        tail_is_better = b(logical_and, tail_is_better, b(logical_not, b(isnan, best)))
    return b(where, tail_is_better, b(add, tail_position, np.intp(blocked)), y)


argmax = integer_reduction(np.argmax, "argmax", _lower_argextreme(max_))
argmin = integer_reduction(np.argmin, "argmin", _lower_argextreme(min_))
