"""Reductions that skip NaN: `np.nansum` and its relatives.

Composed: a NaN is replaced by a neutral number, or masked; its derivative is 0. (`nanmedian` and
the quantiles are in `quantiles.py`, `nancumsum` in `cumulative.py`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Expand
from tracker.ir.op import NUMPY, Op
from tracker.ops.along_axis.argextremes import argmax, argmin
from tracker.ops.along_axis.cumulative import replace_nan
from tracker.ops.along_axis.sort import sort_key
from tracker.ops.declare.arguments import NO_VALUE, as_array, dtype_of
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import declare_nondiff, implements
from tracker.ops.elementwise.comparison import where
from tracker.ops.elementwise.unary import isnan, logical_not
from tracker.ops.reduce.predicates import all_, any_, reduce_all_axes
from tracker.ops.reduce.reduce import normalize_axes, resolve_ddof


def _counted_elements(a: Any, where: Any) -> Any:
    """The elements that are included: not NaN, and selected by `where`."""
    here = ~np.isnan(a)
    return here if where is True or where is NO_VALUE else here & where


def _given_keywords(**keywords: Any) -> dict[str, Any]:
    return {k: v for k, v in keywords.items() if v is not NO_VALUE}


def _nan_fold(function: Any, neutral: int) -> Any:
    def call(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NO_VALUE,
        where: Any = True,
    ) -> Any:
        given = _given_keywords(keepdims=keepdims, initial=initial, where=where)
        rule = NUMPY[function]  # `initial` may be tracked although `a` is plain
        return rule(replace_nan(a, neutral), axis=axis, dtype=dtype, out=out, **given)

    return call


nansum = implements(np.nansum)(_nan_fold(np.sum, 0))
nanprod = implements(np.nanprod)(_nan_fold(np.prod, 1))


def _nan_extreme(reduction: Any, skipping: Any, neutral: float) -> Any:
    def call(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NO_VALUE,
        where: Any = True,
    ) -> Any:
        """NaN where every element is NaN."""
        a = as_array(a)
        if a.dtype.kind != "f":
            given = _given_keywords(keepdims=keepdims, initial=initial, where=where)
            function = skipping.reduce if a.dtype.kind == "c" else reduction
            return function(a, axis=axis, out=out, **given)
        given = _given_keywords(keepdims=keepdims, initial=initial)
        if where is not True and where is not NO_VALUE:
            given["where"] = where
        y = NUMPY[reduction](replace_nan(a, neutral), axis=axis, **given)  # as above
        some = np.any(~np.isnan(a), axis=axis, keepdims=given.get("keepdims", False))
        missing = np.nan if initial is NO_VALUE else y
        return store_out(out, np.where(some, y, missing)[()], "unsafe")

    return call


nanmax = implements(np.nanmax)(_nan_extreme(np.max, np.fmax, -np.inf))
nanmin = implements(np.nanmin)(_nan_extreme(np.min, np.fmin, np.inf))


def _refuse_integer_results(a: Any, dtype: Any, out: Any) -> None:
    if a.dtype.kind not in "fc":
        return
    for name, given in (("dtype", dtype), ("out", None if out is None else out.dtype)):
        if given is not None and dtype_of(given).kind not in "fc":
            raise TypeError(f"If a is inexact, then {name} must be inexact")


@implements(np.nanmean)
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    a = as_array(a)
    _refuse_integer_results(a, dtype, out)
    given = _given_keywords(keepdims=keepdims)
    return np.mean(replace_nan(a, 0), axis, dtype, out, where=_counted_elements(a, where), **given)


@implements(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    a = as_array(a)
    _refuse_integer_results(a, dtype, out)
    given = _given_keywords(keepdims=keepdims, mean=mean)
    ddof, here = resolve_ddof(ddof, correction), _counted_elements(a, where)
    y = np.var(replace_nan(a, 0), axis, dtype, None, ddof, where=here, **given)
    few = np.sum(here, axis=axis, keepdims=given.get("keepdims", False)) <= ddof
    return store_out(out, np.where(few, np.nan, y)[()])


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *rest: Any, **kw: Any
) -> Any:
    return store_out(out, np.sqrt(nanvar(a, axis, dtype, None, *rest, **kw)))


def _lower_nan_argextreme(extreme: Op, neutral: float) -> Expand:
    """The position of the extreme among elements that are not NaN; NumPy raises if all are."""

    def build(b: Any, a: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
        if a.type.size and a.type.dtype.kind == "f":
            is_missing = b(isnan, a)
            axes = normalize_axes(a.type, axis) if a.type.ndim else ()
            all_missing = b(all_, is_missing, axis=axes, keepdims=False)
            b.require(b(logical_not, reduce_all_axes(b, any_, all_missing)))
            # Sort keys, because LLVM does not vectorise a maximum whose input may be its identity.
            missing = sort_key.evaluate(a.type.dtype.type(neutral))
            a = b(where, is_missing, missing, b(sort_key, a))
        assert isinstance(extreme.lower, Expand)
        return extreme.lower.build(b, a, axis=axis, keepdims=keepdims)

    return Expand(build)


nanargmax = declare_nondiff(
    np.nanargmax, "a", "axis keepdims", lower=_lower_nan_argextreme(argmax, -np.inf)
)
nanargmin = declare_nondiff(
    np.nanargmin, "a", "axis keepdims", lower=_lower_nan_argextreme(argmin, np.inf)
)
