"""Cumulative sums, products and extremes.

Ops: `cumsum`, `cumprod`, `recurrence`, `running_maximum`, `running_minimum`, and `latest_extreme`,
which says where a running extreme comes from. The derivative of a cumulative product is a linear
recurrence, so nothing is divided by an element, which may be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.lowering import Expand, Scan
from tracker.ir.op import LINEAR
from tracker.ir.types import Type
from tracker.ops.declare.arguments import array_and_axis, as_array
from tracker.ops.declare.casting import in_dtype_of_fold, store_out
from tracker.ops.declare.declare import declare, declare_nondiff, implements
from tracker.ops.declare.dtypes import result_dtype_by_example
from tracker.ops.declare.rule_helpers import conjugated, project
from tracker.ops.elementwise.comparison import equal, logical_or, where
from tracker.ops.elementwise.unary import isnan
from tracker.ops.indexing.subscripts import add_into_zeros
from tracker.ops.indexing.take_repeat import index_along_axis
from tracker.ops.shape.create import iota
from tracker.tape.record import apply

AxisSlicer = Callable[[Any], tuple[Any, ...]]


def axis_slicer(axis: int) -> AxisSlicer:
    """A function from a slice to the index that applies it along one axis."""
    front = (slice(None),) * axis
    return lambda entry: (*front, entry)


def _infer_cumulative(function: Any) -> Any:
    kind = result_dtype_by_example(function)
    return lambda x, *, axis: Type(x.shape, kind(x.dtype))


def _cumsum_vjp(g: Any, y: Any, x: Any, *, axis: int) -> Any:
    """The reversed cumulative sum."""
    return project(np.flip(np.cumsum(np.flip(g, axis), axis), axis), x)


cumsum = declare(
    "cumsum",
    infer=_infer_cumulative(np.cumsum),
    evaluate=lambda x, *, axis: np.cumsum(x, axis),
    jvp=LINEAR,
    vjp=[_cumsum_vjp],
    lower=Scan(lambda e, acc, x: e.add(acc, x)),
)


def _recurrence(b: Any, a: Any, *, axis: int) -> Any:
    """By doubling: after step k, an element includes the 2**k elements before it."""
    kind = np.result_type(a, b)
    a, b = np.asarray(a, kind), np.asarray(b, kind)
    at = axis_slicer(axis)
    step, n = 1, np.shape(b)[axis]
    while step < n:
        head, tail, before = at(slice(step)), at(slice(step, None)), at(slice(None, -step))
        b = np.concatenate([b[head], b[tail] + a[tail] * b[before]], axis)
        a = np.concatenate([a[head], a[tail] * a[before]], axis)
        step *= 2
    return b


def _shifted(x: Any, fill: Any, axis: int) -> Any:
    """x shifted by one position, with zeros or ones in front."""
    at = axis_slicer(axis)
    return np.concatenate([fill(x[at(slice(1))]), x[at(slice(None, -1))]], axis)


def _solve_recurrence(b: Any, a: Any, axis: int) -> Any:
    return apply(recurrence, (b, a), {"axis": axis})


def _solve_adjoint_recurrence(g: Any, a: Any, axis: int) -> Any:
    """The recurrence backwards: the cotangent of an element includes those of all later ones."""
    a = conjugated(a)
    later = _shifted(np.flip(a, axis), np.ones_like, axis)
    return np.flip(_solve_recurrence(np.flip(g, axis), later, axis), axis)


def _recurrence_vjp(g: Any, y: Any, b: Any, a: Any, *, axis: int) -> Any:
    """In `a`: the cotangent of an element times the element before it."""
    y = conjugated(y)
    return project(_solve_adjoint_recurrence(g, a, axis) * _shifted(y, np.zeros_like, axis), a)


recurrence = declare(  # s[i] = b[i] + a[i] * s[i - 1] along an axis, with s[-1] = 0
    "recurrence",
    infer=lambda b, a, *, axis: Type(b.shape, np.result_type(b.dtype, a.dtype)),
    evaluate=_recurrence,
    jvp=[
        lambda t, y, b, a, *, axis: _solve_recurrence(t, a, axis),
        lambda t, y, b, a, *, axis: _solve_recurrence(
            t * _shifted(y, np.zeros_like, axis), a, axis
        ),
    ],
    vjp=[
        lambda g, y, b, a, *, axis: project(_solve_adjoint_recurrence(g, a, axis), b),
        _recurrence_vjp,
    ],
    lower=Scan(lambda e, acc, b, a: e.add(b, e.mul(a, acc))),
)


def _cumprod_vjp(g: Any, y: Any, x: Any, *, axis: int) -> Any:
    """The product before an element times the adjoint recurrence of later cotangents."""
    prefix = conjugated(y)
    return project(_solve_adjoint_recurrence(g, x, axis) * _shifted(prefix, np.ones_like, axis), x)


cumprod = declare(
    "cumprod",
    infer=_infer_cumulative(np.cumprod),
    evaluate=lambda x, *, axis: np.cumprod(x, axis),
    jvp=[lambda t, y, x, *, axis: _solve_recurrence(t * _shifted(y, np.ones_like, axis), x, axis)],
    vjp=[_cumprod_vjp],
    lower=Scan(lambda e, acc, x: e.mul(acc, x)),
)


def _numpy_function(op: Any) -> Any:
    def call(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        a = in_dtype_of_fold(as_array(a), dtype, out)
        a, axis = array_and_axis(a, axis)
        y = apply(op, (a,), {"axis": axis})
        if dtype is not None:  # NumPy widens small integers unless dtype= is given
            y = np.astype(y, dtype)
        return store_out(out, y, "unsafe")

    return call


_cumsum = implements(np.cumsum, method="cumsum")(_numpy_function(cumsum))
_cumprod = implements(np.cumprod, method="cumprod")(_numpy_function(cumprod))


def _with_initial(function: Any, first: Any) -> Any:
    def call(
        x: Any,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        if axis is None:
            if np.ndim(x) > 1:
                raise ValueError(
                    "For arrays which have more than one dimension ``axis`` argument is required."
                )
            axis = 0
        y = function(np.atleast_1d(x), axis, dtype)
        if include_initial:
            axis = normalize_axis_index(axis, np.ndim(y))
            start = first(y[axis_slicer(axis)(slice(1))])
            y = np.concatenate([start, y], axis)
        return store_out(out, y, "unsafe")

    return call


implements(np.cumulative_sum)(_with_initial(np.cumsum, np.zeros_like))
implements(np.cumulative_prod)(_with_initial(np.cumprod, np.ones_like))


@implements(np.nancumsum)
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return np.cumsum(replace_nan(a, 0), axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return np.cumprod(replace_nan(a, 1), axis, dtype, out)


def replace_nan(a: Any, instead: Any) -> Any:
    """The array with every NaN replaced by a number."""
    a = as_array(a)
    return np.where(np.isnan(a), instead, a) if a.dtype.kind in "fc" else a


# Running extremes ---------------------------------------------------------------------------------


def _latest_extreme(x: Any, axis: int, largest: bool) -> Any:
    """For every prefix, the position of the last element that attains its extreme; a NaN does."""
    extreme = (np.maximum if largest else np.minimum).accumulate(x, axis)
    n = x.shape[axis]
    positions = np.arange(n).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    return np.maximum.accumulate(np.where((x == extreme) | np.isnan(x), positions, 0), axis)


def _extreme_positions(x: Any, axis: int, largest: bool) -> Any:
    return apply(latest_extreme, (x,), {"axis": axis, "largest": largest})


def _extreme_body(relation: str) -> Any:
    """The extreme of the previous one and the next element; of equals, and of NaN, the first."""

    def combine(e: Any, acc: Any, x: Any) -> Any:
        if acc.dtype.kind != "f":
            return e.extremum(relation, acc, x)
        # Steps are sequential: one comparison has less latency than LLVM's `maximum`.
        keep = e.logical_or(e.compare(f"{relation}=", acc, x), e.isnan(acc))
        return e.select(keep, acc, x)

    return combine


def _running(name: str, ufunc: Any, largest: bool) -> Any:

    def vjp(g: Any, y: Any, x: Any, *, axis: int) -> Any:
        return project(
            add_into_zeros(
                np.shape(x), index_along_axis(x, _extreme_positions(x, axis, largest), axis), g
            ),
            x,
        )

    return declare(
        name,
        infer=lambda x, *, axis: x,
        evaluate=lambda x, *, axis: ufunc.accumulate(x, axis),
        jvp=[
            lambda t, y, x, *, axis: np.take_along_axis(
                t, _extreme_positions(x, axis, largest), axis
            )
        ],
        vjp=[vjp],
        lower=Scan(_extreme_body(">" if largest else "<")),
    )


running_maximum = _running("running_maximum", np.maximum, True)
running_minimum = _running("running_minimum", np.minimum, False)


def _latest_build(b: Any, x: Any, *, axis: int, largest: bool) -> Any:
    hit = b(equal, x, b(running_maximum if largest else running_minimum, x, axis=axis))
    if x.type.dtype.kind in "fc":
        hit = b(logical_or, hit, b(isnan, x))
    position = b(where, hit, b(iota, shape=x.type.shape, axis=axis), np.intp(0))
    return b(running_maximum, position, axis=axis)


latest_extreme = declare_nondiff(
    _latest_extreme,
    "x",
    "axis largest",
    numpy=False,
    name="latest_extreme",
    lower=Expand(_latest_build),
)
