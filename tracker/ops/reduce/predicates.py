"""Reductions without a derivative: `any`, `all`, `count_nonzero`.

`any_` and `all_` are ordinary reductions (`reduce.py`). Ops declared by `integer_reduction` take
NumPy's `axis` unchanged and state what they are compiled to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tracker.ir.lowering import Expand, Reduce
from tracker.ir.op import METHODS, NUMPY, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import NO_VALUE
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import nondiff_op
from tracker.ops.declare.dtypes import infer_by_example
from tracker.ops.elementwise.comparison import not_equal
from tracker.ops.reduce.reduce import mask_elements, normalize_reduced_axes, reduced_shape, sum_
from tracker.ops.shape.create import astype
from tracker.tape.conversions import plain_integers as integers
from tracker.tape.record import apply


def _declare_predicate(
    function: Callable[..., Any], ufunc: Any, start: bool, body: Callable[..., Any]
) -> Op:
    """`any` or `all`: elements are cast to bool and reduced."""
    op = nondiff_op(
        function.__name__,
        infer=lambda x, *, axis, keepdims: Type(reduced_shape(x, axis, keepdims), np.dtype(bool)),
        evaluate=lambda x, *, axis, keepdims: ufunc.reduce(
            np.asarray(x, bool), axis, keepdims=keepdims
        ),
        lower=Reduce(lambda dtype: start, body),
    )

    def call(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
    ) -> Any:
        if where is not True and where is not NO_VALUE:
            a = mask_elements(np.not_equal(a, 0), where, start)
        kept = keepdims is not NO_VALUE and bool(keepdims)
        return store_out(
            out, apply(op, (a,), {"axis": normalize_reduced_axes(a, axis), "keepdims": kept})
        )

    NUMPY[function] = METHODS[function.__name__] = call
    return op


any_ = _declare_predicate(np.any, np.logical_or, False, lambda e, acc, x: e.logical_or(acc, x))
all_ = _declare_predicate(np.all, np.logical_and, True, lambda e, acc, x: e.logical_and(acc, x))


def reduce_all_axes(b: Any, fold: Op, x: Any) -> Any:
    """In an expansion: a reduction over all axes."""
    return b(fold, x, axis=tuple(range(x.type.ndim)), keepdims=False)


# Counts -------------------------------------------------------------------------------------------


def integer_reduction(function: Callable[..., Any], method: str | None, lower: Expand) -> Op:
    """Declare a reduction to integers."""
    op = nondiff_op(
        function.__name__, infer=infer_by_example(function), evaluate=function, lower=lower
    )

    def call(a: Any, axis: Any = None, out: Any = None, **kwargs: Any) -> Any:
        kwargs = {k: bool(v) for k, v in kwargs.items() if v is not NO_VALUE}
        return store_out(out, apply(op, (a,), {"axis": integers(axis), **kwargs}))

    NUMPY[function] = call
    if method is not None:
        METHODS[method] = call
    return op


def _count_true(b: Any, x: Any, *, axis: Any, keepdims: Any = False) -> Any:
    everywhere = axis is None or x.type.ndim == 0  # 0-d arrays accept the axes 0 and -1
    axes = range(x.type.ndim) if everywhere else normalize_axis_tuple(axis, x.type.ndim)
    true = b(astype, b(not_equal, x, x.type.dtype.type(0)), dtype=np.dtype(np.intp))
    return b(sum_, true, axis=tuple(sorted(axes)), keepdims=bool(keepdims))


count_nonzero = integer_reduction(np.count_nonzero, None, Expand(_count_true))
