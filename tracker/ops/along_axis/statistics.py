"""Averages, covariances and histograms, composed of sums, products and indexing.

Counts have no derivative, sums of weights have one; bin edges follow the data where NumPy derives
them from it.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracker.ops.declare.arguments import NO_VALUE, as_array
from tracker.ops.declare.casting import cast_error
from tracker.ops.declare.declare import declare_nondiff, implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.indexing import subscripts
from tracker.ops.shape.create import join_tracked_list
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracked import Tracked


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    a = as_array(a)
    keep: Any = keepdims is not NO_VALUE and bool(keepdims)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keep)
        count = np.size(a) / max(np.size(mean), 1)
        return (mean, np.full_like(mean, count)[()]) if returned else mean
    weights = as_array(weights)
    if np.shape(weights) != np.shape(a):
        weights = _spread_weights(weights, a, axis)
    kind = np.result_type(aval_of(a), aval_of(weights), *(["f8"] if a.dtype.kind in "biu" else []))
    weights = np.astype(weights, kind)
    total = np.sum(weights, axis=axis, keepdims=keep)
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    mean = np.sum(np.astype(a, kind) * weights, axis=axis, keepdims=keep) / total
    return (mean, np.broadcast_to(total, np.shape(mean))[()]) if returned else mean


def _spread_weights(weights: Any, a: Any, axis: Any) -> Any:
    """Weights given for the averaged axes only, broadcast to the array."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(i % np.ndim(a) for i in axes)
    if np.shape(weights) != tuple(np.shape(a)[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    weights = np.transpose(weights, tuple(np.argsort(axes)))
    shape = tuple(n if i in axes else 1 for i, n in enumerate(np.shape(a)))
    return np.broadcast_to(np.reshape(weights, shape), np.shape(a))


# Covariance ---------------------------------------------------------------------------------------


@implements(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    rows = _observations(m, "m")
    rows = rows.T if not rowvar and np.ndim(m) != 1 else rows
    if np.shape(rows)[0] == 0:
        return np.empty((0, 0))
    if y is not None:
        more = _observations(y, "y")
        more = more.T if not rowvar and np.shape(more)[0] != 1 else more
        rows = np.concatenate([rows, more], axis=0)
    if dtype is None:
        dtype = np.result_type(aval_of(rows), np.float64)
    # raises for integers
    np.subtract.resolve_dtypes((np.dtype(dtype), np.dtype(float), np.dtype(dtype)))
    rows = np.astype(rows, dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights, divisor = _observation_weights(np.shape(rows)[1], ddof, fweights, aweights)
    if weights is None:
        deviations = rows - np.mean(rows, axis=1, keepdims=True)
        weighted = deviations
    else:
        deviations = np.astype(rows - np.average(rows, axis=1, weights=weights)[:, None], dtype)
        weighted = deviations * weights
    product = np.dot(deviations, np.conjugate(weighted.T))
    return np.squeeze(np.astype(product * (1 / divisor), product.dtype))


def _observations(m: Any, name: str) -> Any:
    if np.ndim(m) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    return np.atleast_2d(as_array(m))


def _observation_weights(n: int, ddof: int, fweights: Any, aweights: Any) -> tuple[Any, Any]:
    """The product of both kinds of weights, and the divisor."""
    if fweights is None and aweights is None:
        return None, np.float64(max(n - ddof, 0))
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(name, as_array(given), n)
    weights = np.ones(n) if fweights is None else as_array(fweights) * 1.0
    if aweights is not None:
        weights = weights * as_array(aweights)
    total = np.sum(weights)
    if ddof == 0:
        return weights, total
    if aweights is None:
        return weights, total - ddof
    return weights, total - ddof * np.sum(weights * as_array(aweights)) / total


def _check_weights(name: str, given: Any, n: int) -> None:
    if name == "fweights" and not np.all(given == np.round(given)):
        raise TypeError("fweights must be integer")
    if np.ndim(given) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if np.shape(given) != (n,):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if np.any(given < 0):
        raise ValueError(f"{name} cannot be negative")


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *_: Any, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    size = np.sqrt(np.real(np.diag(c)))
    c = c / size[:, None] / size[None, :]
    if np.iscomplexobj(c):
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    # exactly 1 on the diagonal, without a tie in `clip`
    is_diagonal = np.eye(np.shape(c)[0], dtype=bool)
    return np.where(is_diagonal, c, np.clip(c, -1, 1))


# Histograms ---------------------------------------------------------------------------------------


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    x = _bin_numbers(as_array(x))
    if operator.index(minlength) < 0:
        raise ValueError("'minlength' must not be negative")
    if x.dtype.kind == "i" and np.any(x < 0):
        raise ValueError("'list' argument must have no negative elements")
    n = max(int(np.max(x)) + 1 if np.size(x) else 0, operator.index(minlength))
    if weights is None or np.size(x) == 0:
        return subscripts.add_into_zeros((n,), x, np.ones(np.shape(x), np.intp))
    weights = as_array(weights)
    if not np.can_cast(weights.dtype, float):
        raise cast_error(weights.dtype, np.dtype(float), "safe")
    weights = np.astype(weights, float)
    if np.shape(weights) != np.shape(x):
        raise ValueError("The weights and list don't have the same length.")
    return subscripts.add_into_zeros((n,), x, weights)


def _bin_numbers(x: Any) -> Any:
    """The bins of `bincount`, checked with NumPy's errors."""
    if x.dtype.kind not in "biu":
        raise TypeError(
            f"Cannot cast array data from dtype('{x.dtype}') to dtype('int64') according to the "
            "rule 'safe'"
        )
    if np.ndim(x) != 1:
        depth = "too deep" if np.ndim(x) else "of too small depth"
        raise ValueError(f"object {depth} for desired array")
    return np.astype(x, np.intp) if x.dtype.kind == "b" else x


def _bin_count(a: Any, bins: str, range: Any) -> Any:
    return np.int64(len(np.histogram_bin_edges(a, bins, range)) - 1)


bin_count = declare_nondiff(_bin_count, "a", "bins range", numpy=False, name="bin_count")


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    a = np.ravel(as_array(a))
    bins = join_tracked_list(bins)
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError("The number of bins is not estimated for weighted data")
        bins = int(apply(bin_count, (a,), {"bins": bins, "range": range}))
    if np.ndim(bins):
        return _given_edges(as_array(bins))
    count = _whole_count(bins)
    low, high = _outer_edges(a, range)
    kind = np.result_type(low, high, a)
    edges = np.linspace(low, high, count + 1, dtype=kind if kind.kind in "fc" else float)
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {count} finite-sized bins.")
    return edges


def _given_edges(edges: Any) -> Any:
    if np.ndim(edges) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    if np.any(edges[:-1] > edges[1:]):
        raise ValueError("`bins` must increase monotonically, when an array")
    return edges


def _whole_count(bins: Any) -> int:
    try:
        count = operator.index(bins)
    except TypeError as error:
        raise TypeError("`bins` must be an integer, a string, or an array") from error
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    return count


def _outer_edges(a: Any, range: Any) -> tuple[Any, Any]:
    if range is not None:
        (low, high), what = range, "supplied"
        if low > high:
            raise ValueError("max must be larger than min in range parameter.")
    else:
        low, high = (np.min(a), np.max(a)) if np.size(a) else (0.0, 1.0)
        what = "autodetected"
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"{what} range of [{data_of(low)}, {data_of(high)}] is not finite")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _bins(a: Any, edges: Any, bins: Any) -> Any:
    """The bin of each element, counting from 1; 0 and n + 1 are outside."""
    if np.ndim(join_tracked_list(bins)) == 0:
        return _even_bins(a, edges)
    after = np.searchsorted(edges, a, side="right")
    # the last bin includes its right edge
    return after - np.astype(as_array(a == edges[-1]), np.intp)


def _even_bins(a: Any, edges: Any) -> Any:
    """Bins of equal width, computed by division and corrected by comparison with the edges, as
    rounding may be off by one."""
    n = np.size(edges) - 1
    low, high = edges[0], edges[-1]
    below, is_inside = a < low, (a >= low) & (a <= high)
    clamped = np.where(is_inside, a, low)
    bin = np.astype(as_array((clamped - low) * (n / (high - low))), np.intp)
    bin = np.minimum(bin, n - 1)
    bin = bin - np.astype(as_array(clamped < edges[bin]), np.intp)
    is_next = (clamped >= edges[bin + 1]) & (bin < n - 1)
    bin = bin + np.astype(as_array(is_next), np.intp)
    return np.where(is_inside, bin + 1, np.where(below, 0, n + 1))


@implements(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    a = np.ravel(as_array(a))
    edges = histogram_bin_edges(a, bins, range, weights)
    n = np.size(edges) - 1
    counts = _bin_sums(_bins(a, edges, bins), weights, n + 2)[1:-1]
    if weights is not None:
        counts = np.astype(counts, as_array(weights).dtype)
    if not density:
        return counts, edges
    widths = np.astype(np.diff(edges), float)
    return counts / widths / np.sum(counts), edges


def _bin_sums(bins: Any, weights: Any, n: int) -> Any:
    """Weights are summed in float64, as by `np.bincount`."""
    if weights is None:
        return subscripts.add_into_zeros((n,), bins, np.ones(np.shape(bins), np.intp))
    weights = np.ravel(as_array(weights))
    if np.shape(weights) != np.shape(bins):
        raise ValueError("weights should have the same shape as a.")
    if isinstance(weights, Tracked) or isinstance(bins, Tracked) or weights.dtype.kind == "c":
        return subscripts.add_into_zeros(
            (n,), bins, np.astype(weights, np.result_type(weights, np.float64))
        )
    return np.bincount(bins, weights, n)


@implements(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    columns = _columns_of(sample)
    ndim = len(columns)
    several = isinstance(bins, (list, tuple)) or np.ndim(bins) > 0
    bins_per_axis = list(bins) if several else [bins] * ndim
    if len(bins_per_axis) != ndim:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * ndim if range is None else list(range)
    for at, axis_bins in enumerate(bins_per_axis):
        if np.ndim(join_tracked_list(axis_bins)) == 0 and axis_bins < 1:
            raise ValueError(f"`bins[{at}]` must be positive, when an integer")
    edges = [_edges(c, b, r) for c, b, r in zip(columns, bins_per_axis, ranges, strict=True)]
    shape = tuple(np.size(e) + 1 for e in edges)
    flat_bins: Any = 0
    for column, edge, n, axis_bins in zip(columns, edges, shape, bins_per_axis, strict=True):
        flat_bins = flat_bins * n + _bins(column, edge, axis_bins)
    counts = np.reshape(_bin_sums(flat_bins, weights, int(np.prod(shape))), shape)
    counts = np.astype(counts[(slice(1, -1),) * ndim], float)
    if density:
        total = np.sum(counts)
        for at, edge in enumerate(edges):
            shape_of_axis = (1,) * at + (-1,) + (1,) * (ndim - at - 1)
            counts = counts / np.reshape(np.diff(edge), shape_of_axis)
        counts = counts / total
    return counts, edges


def _edges(column: Any, bins: Any, range: Any) -> Any:
    """The edges along one axis, float64 for a given range."""
    if np.ndim(join_tracked_list(bins)):
        return _given_edges(as_array(join_tracked_list(bins)))
    low, high = _outer_edges(column, range)
    return np.linspace(low, high, _whole_count(bins) + 1)


def _columns_of(sample: Any) -> list[Any]:
    if isinstance(sample, (list, tuple)):
        columns = [as_array(c) for c in sample]
        if any(np.ndim(c) for c in columns):
            kind = np.result_type(*map(aval_of, columns))
            return [np.astype(np.ravel(c), kind) for c in columns]
        sample = as_array(sample)
    if np.ndim(sample) <= 1:
        return [np.ravel(sample)]
    return list(np.transpose(sample))


run_as_written(np.histogram2d)
