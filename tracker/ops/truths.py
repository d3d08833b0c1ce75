"""Reductions whose results carry no derivative: any, all, counts and positions.

`any_` and `all_` are folds over canonical axes, as in `reduce.py`. The others take NumPy's own
`axis`, and say in other ops what they are compiled to: the position of an extreme is the least of
the positions at which it is found, so that both loops are vectorised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tracker.ir.op import METHODS, NUMPY, Expand, Op, Reduce
from tracker.ir.types import Type
from tracker.ops.binary import equal, logical_or, not_equal, where
from tracker.ops.create import astype, iota
from tracker.ops.declare import NO_VALUE, declare, infer_by_example, into
from tracker.ops.reduce import axes_of, max_, min_, reduced_shape, sum_
from tracker.ops.shape import reshape
from tracker.ops.unary import isnan, logical_not
from tracker.tape import apply


def _truth(function: Callable[..., Any], ufunc: Any, start: bool, body: Callable[..., Any]) -> Op:
    """any or all: elements are cast to bool, and folded."""
    op = declare(
        function.__name__,
        method=None,
        entry=None,
        infer=lambda x, *, axis, keepdims: Type(reduced_shape(x, axis, keepdims), np.dtype(bool)),
        evaluate=lambda x, *, axis, keepdims: ufunc.reduce(
            np.asarray(x, bool), axis, keepdims=keepdims
        ),
        jvp=[None],
        vjp=[None],
        lower=Reduce(lambda dtype: start, body),
    )

    def call(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        *,
        where: Any = True,
    ) -> Any:
        if where is not True and where is not NO_VALUE:
            a = np.where(where, np.not_equal(a, 0), start)
        kept = keepdims is not NO_VALUE and bool(keepdims)
        return into(out, apply(op, (a,), {"axis": axes_of(a, axis), "keepdims": kept}))

    NUMPY[function] = METHODS[function.__name__] = call
    return op


any_ = _truth(np.any, np.logical_or, False, lambda e, acc, x: e.logical_or(acc, x))
all_ = _truth(np.all, np.logical_and, True, lambda e, acc, x: e.logical_and(acc, x))


def whole(b: Any, fold: Op, x: Any) -> Any:
    """A fold over all axes, in an expansion."""
    return b(fold, x, axis=tuple(range(x.type.ndim)), keepdims=False)


# Counts and positions -----------------------------------------------------------------------------


def _constant_reduction(function: Callable[..., Any], method: str | None, lower: Expand) -> Op:
    op = declare(
        function.__name__,
        method=None,
        entry=None,
        infer=infer_by_example(function),
        evaluate=function,
        jvp=[None],
        vjp=[None],
        lower=lower,
    )

    def call(a: Any, axis: Any = None, out: Any = None, **kwargs: Any) -> Any:
        kwargs = {k: v for k, v in kwargs.items() if v is not NO_VALUE}
        return into(out, apply(op, (a,), {"axis": axis, **kwargs}))

    NUMPY[function] = call
    if method is not None:
        METHODS[method] = call
    return op


def _first(extreme: Op) -> Expand:
    """The first position of an extreme, or of a NaN."""

    def build(b: Any, x: Any, *, axis: Any, keepdims: Any = False) -> Any:
        if x.type.size == 0:
            return "NumPy raises"
        shape = (1,) * x.type.ndim if axis is None and keepdims else None
        if axis is None:
            x = b(reshape, x, shape=(x.type.size,))
        axes = (0,) if axis is None else normalize_axis_tuple(axis, x.type.ndim)
        hit = b(equal, x, b(extreme, x, axis=axes, keepdims=True))
        if x.type.dtype.kind == "f":  # a NaN is the extreme, and equals nothing
            hit = b(logical_or, hit, b(isnan, x))
        if x.type.dtype.kind == "c":  # NumPy may pass over one with half a NaN
            b.require(b(logical_not, whole(b, any_, b(isnan, x))))
        place = b(iota, shape=x.type.shape, axis=axes[0])
        none = np.intp(x.type.shape[axes[0]])
        y = b(min_, b(where, hit, place, none), axis=axes, keepdims=bool(keepdims and not shape))
        return y if shape is None else b(reshape, y, shape=shape)

    return Expand(build)


def _count_true(b: Any, x: Any, *, axis: Any, keepdims: Any = False) -> Any:
    axes = range(x.type.ndim) if axis is None else normalize_axis_tuple(axis, x.type.ndim)
    true = b(astype, b(not_equal, x, x.type.dtype.type(0)), dtype=np.dtype(np.intp))
    return b(sum_, true, axis=tuple(sorted(axes)), keepdims=bool(keepdims))


argmax = _constant_reduction(np.argmax, "argmax", _first(max_))
argmin = _constant_reduction(np.argmin, "argmin", _first(min_))
count_nonzero = _constant_reduction(np.count_nonzero, None, Expand(_count_true))
