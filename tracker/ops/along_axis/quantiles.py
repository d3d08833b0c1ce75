"""Medians, quantiles and percentiles, also of data with NaN.

Composed of order statistics and interpolation between neighbours. The rank of a quantile follows
Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996),
whose nine methods NumPy has. Derivatives go to the selected elements, and to `q` where the method
interpolates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ops.along_axis.partition import ranked
from tracker.ops.declare.arguments import NO_VALUE, as_array
from tracker.ops.declare.casting import broadcast_to_out, store_out
from tracker.ops.declare.declare import implements
from tracker.ops.reduce.reduce import normalize_axes
from tracker.ops.shape.shape import contiguous
from tracker.tape.record import apply, aval_of

# Continuous methods, (alpha, beta): quantile q has rank n*q + alpha + q*(1 - alpha - beta) - 1.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
# Methods that select one element: its rank. Halves round to even in `nearest`.
_PICKING: dict[str, Callable[[Any, Any], Any]] = {
    "inverted_cdf": lambda n, q: np.ceil(n * q - 1),
    "closest_observation": lambda n, q: _closest(n * q - 1.5),
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "nearest": lambda n, q: np.rint((n - 1) * q),
}


def _closest(rank: Any) -> Any:
    low = np.floor(rank)
    return low + np.where((rank == low) & (low % 2 == 1), 0, 1)


def _rank_and_weight(method: str, n: Any, q: Any) -> tuple[Any, Any]:
    """The rank of a quantile among n sorted elements, rounded down, and the weight of the next
    element (None: the method does not interpolate)."""
    if method in _PICKING:
        return _PICKING[method](n, q), None
    if method == "linear":
        rank = (n - 1) * q
    elif method == "midpoint":
        rank = 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    elif method == "averaged_inverted_cdf":
        rank = n * q - 1
        low = np.floor(rank)
        unit = np.ones_like(low)
        return low, np.where(rank == low, 0.5 * unit, unit)
    elif method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        rank = n * q + (alpha + q * (1 - alpha - beta)) - 1
    else:
        known = [*_PICKING, *_CONTINUOUS, "linear", "midpoint", "averaged_inverted_cdf"]
        raise ValueError(f"{method!r} is not a valid method. Use one of: {known}")
    if np.result_type(rank).kind in "iu":  # integer q of "linear": 0 or 1, an end
        return rank, None
    low = np.floor(rank)
    return low, rank - low


def _pick(rows: Any, rank: Any, n: Any) -> Any:
    """The elements of the given ranks, (Q, R) or (Q, 1), clipped to 0 .. n - 1, of (R, N) rows."""
    return apply(ranked, (rows, _clipped_rank(rank, n)), {})


def _pick_two(rows: Any, rank: Any, n: Any) -> tuple[Any, Any]:
    """The elements of the given ranks, and the next ones."""
    both = np.stack([_clipped_rank(rank, n), _clipped_rank(rank + 1, n)], axis=1)
    count, _, width = np.shape(both)
    found = apply(ranked, (rows, np.reshape(both, (2 * count, width))), {})
    return found[::2], found[1::2]


def _clipped_rank(rank: Any, n: Any) -> Any:
    return np.astype(as_array(np.clip(rank, 0, np.maximum(n - 1, 0))), np.intp)


def _interpolated(rows: Any, n: Any, q: Any, method: str, weak: bool) -> Any:
    """Quantiles q (Q, 1) of (R, N) rows, of which the first n elements in order count: (Q, R)."""
    if method == _MEDIAN:
        return _median_of_rows(rows, n)
    low, weight = _rank_and_weight(method, n, q)
    if weight is None:
        return _pick(rows, low, n)
    before, after = _pick_two(rows, low, n)
    if weak and rows.dtype.kind == "f":
        weight = np.astype(as_array(weight), rows.dtype)
    gap = after - before
    return np.where(weight >= 0.5, after - gap * (1 - weight), before + gap * weight)


_MEDIAN = "median"  # of an even count, the mean of two elements, which may be infinite


def _median_of_rows(rows: Any, n: Any) -> Any:
    """The medians of (R, N) rows, of which the first n elements in order count: (1, R), floats."""
    if rows.dtype.kind in "biu":
        rows = np.astype(rows, float)
    if type(n) is int and n % 2:
        return _pick(rows, np.array([[n // 2]]), n)
    half, odd = np.atleast_2d(n // 2), np.atleast_2d(n % 2 == 1)
    low, high = _pick_two(rows, half - 1, n)
    return np.where(odd, high, (low + high) / 2)


def _rows(a: Any, axis: tuple[int, ...]) -> Any:
    """(R, N): the elements of each reduction in one row."""
    rest = tuple(i for i in range(np.ndim(a)) if i not in axis)
    rows, count = (math.prod(np.shape(a)[i] for i in some) for some in (rest, axis))
    return np.reshape(np.transpose(a, rest + axis), (rows, count))


def _weighted(rows: Any, weights: Any, q: Any) -> Any:
    """The smallest element at which the cumulative weight reaches the share q."""
    order = np.argsort(rows, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    reached = reached / reached[:, -1:]
    reached = np.where(reached == 0, -1.0, reached)  # elements of weight 0 are not candidates
    rank = np.sum(reached[None] < q[:, None], axis=2)
    row_numbers = np.arange(np.shape(rows)[0])
    return rows[row_numbers, order[row_numbers, _clipped_rank(rank, np.shape(rows)[1])]]


def _check_weights(weights: Any) -> None:
    if np.any(weights < 0):
        raise ValueError("Weights must be non-negative.")
    total = np.sum(weights, axis=1)
    if not np.all(np.isfinite(total) & (total > 0)):
        raise ValueError("Weights included NaN, inf or were all zero.")


def _quantile(
    a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any, *, skip_nan: bool
) -> Any:
    a = as_array(a)
    if skip_nan and np.size(a) == 0:
        return np.nanmean(a, axis, out=out, keepdims=keepdims)  # NaN, one for all q
    axes = normalize_axes(a, axis)
    is_weak = type(aval_of(q)) in (int, float)
    q = as_array(q)
    if np.ndim(q) > 2:
        raise ValueError("q must be a scalar or 1d")
    flat = np.reshape(q, (-1, 1))
    rows = _rows(a, axes)
    is_missing = np.isnan(rows)
    if weights is not None:
        if method != "inverted_cdf":
            raise ValueError("Only method 'inverted_cdf' supports weights.")
        weights = as_array(weights)
        if np.shape(weights) != np.shape(a):
            shape_of_weights = [1] * np.ndim(a)
            shape_of_weights[axes[0]] = -1
            weights = np.broadcast_to(np.reshape(weights, shape_of_weights), np.shape(a))
        weights = _rows(np.astype(weights, float), axes)
        _check_weights(weights)
        if skip_nan:
            weights, rows = np.where(is_missing, 0.0, weights), np.where(is_missing, np.inf, rows)
        found = _weighted(rows, weights, flat)
    else:
        n = np.sum(~is_missing, axis=1) if skip_nan else np.shape(rows)[1]
        if skip_nan and q.dtype.kind == "f":  # NumPy's counts are Python ints
            n = np.astype(n, q.dtype)
        found = _interpolated(rows, n, flat, method, is_weak)
    is_nan = np.all(is_missing, axis=1) if skip_nan else np.any(is_missing, axis=1)
    if rows.dtype.kind in "fc":
        found = np.where(is_nan, np.nan, found)
    shape = np.shape(a)
    keep = keepdims is not NO_VALUE and keepdims
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    found = np.reshape(found, (*np.shape(q), *kept))
    if skip_nan and np.ndim(q):  # NumPy's result lies line by line, each with all q
        first, last = range(np.ndim(q)), range(-np.ndim(q), 0)
        found = np.moveaxis(contiguous(np.moveaxis(found, first, last)), last, first)
    if weights is not None:  # NumPy returns an array here, never a scalar
        return store_out(out, found)
    return store_out(out, broadcast_to_out(found[()], out))


def _check_range(q: Any, high: float, what: str) -> Any:
    if not np.all((q >= 0) & (q <= high)):
        raise ValueError(f"{what} must be in the range [0, {high:g}]")
    return q


def _quantile_function(scale: float, what: str, skip_nan: bool) -> Any:
    def call(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        a, q = as_array(a), q if type(aval_of(q)) in (int, float) else as_array(q)
        if a.dtype.kind == "c":
            raise TypeError("a must be an array of real numbers")
        q = _check_range(q, scale, what)
        q = q if scale == 1 else q / scale
        return _quantile(a, q, axis, out, method, keepdims, weights, skip_nan=skip_nan)

    return call


quantile = implements(np.quantile)(_quantile_function(1.0, "Quantiles", skip_nan=False))
nanquantile = implements(np.nanquantile)(_quantile_function(1.0, "Quantiles", skip_nan=True))
percentile = implements(np.percentile)(_quantile_function(100.0, "Percentiles", skip_nan=False))
nanpercentile = implements(np.nanpercentile)(
    _quantile_function(100.0, "Percentiles", skip_nan=True)
)


def _median(skip_nan: bool) -> Any:
    def call(
        a: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        keepdims: Any = False,
    ) -> Any:
        a = as_array(a)
        if 0 in (np.shape(a)[i] for i in normalize_axes(a, axis)):
            return np.mean(a, axis, out=out, keepdims=keepdims)  # NaN
        y = _quantile(a, 0.5, axis, None, _MEDIAN, keepdims, None, skip_nan=skip_nan)
        return store_out(out, y, "unsafe")  # as the mean's

    return call


median = implements(np.median)(_median(skip_nan=False))
nanmedian = implements(np.nanmedian)(_median(skip_nan=True))
