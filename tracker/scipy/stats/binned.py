"""The mode, statistics of bins, and frequencies.

The assignment of elements to bins and the counts have no derivative; statistics of the values (a
mean, a sum of weights, the mode) have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import scipy.stats

from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array

_BinnedResult: Any = type(scipy.stats.binned_statistic([0.0], [0.0]))


@drop_in(scipy.stats)
def mode(a: Any, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """The derivative is shared equally by the elements that equal the mode."""
    a = as_array(a)
    found, count = call_scipy(scipy.stats.mode, a, axis=axis, nan_policy=nan_policy, keepdims=True)
    chosen = a == found
    if a.dtype.kind == "f":
        y = np.max(np.where(chosen, a, -math.inf), axis=axis, keepdims=True)
        found = np.where(np.any(chosen, axis=axis, keepdims=True), y, found)
    if not keepdims:
        found, count = (np.squeeze(part, axis)[()] for part in (found, count))
    kind: Any = type(scipy.stats.mode([0]))
    return kind(found, count)


@drop_in(scipy.stats)
def binned_statistic(
    x: Any, values: Any, statistic: Any = "mean", bins: Any = 10, range: Any = None
) -> Any:
    """`statistic` may be a function, which is called with the values of each bin."""
    x = as_array(x)
    binned = call_scipy(scipy.stats.binned_statistic, x, x, "count", bins, range)
    count, _, bin_number = binned
    edges = np.histogram_bin_edges(x, bins, range)
    if isinstance(values, (list, tuple)) and any(np.ndim(row) for row in values):
        rows = [as_array(row) for row in values]
    else:
        values = as_array(values)
        rows = list(values) if values.ndim > 1 else [values]
    single = rows[0] is values
    found = [_per_bin(row * 1.0, count, bin_number, statistic) for row in rows]
    return _BinnedResult(found[0] if single else np.stack(found), edges, bin_number)


def _per_bin(values: Any, count: Any, bin_number: Any, statistic: Any) -> Any:
    """The statistic of the values in each bin; `bin_number` counts from 1."""
    n = np.size(count)
    empty = count == 0

    def total(of: Any) -> Any:
        return np.bincount(bin_number, weights=of, minlength=n + 2)[1 : n + 1]

    if statistic == "count":
        return count
    if statistic == "sum":
        return total(values)
    if statistic in ("mean", "std"):
        known = np.where(empty, 1, count)
        mean = total(values) / known
        if statistic == "mean":
            return np.where(empty, math.nan, mean)
        means = np.concatenate([mean[:1], mean, mean[:1]])  # with the bins beyond both ends
        variance = total((values - means[bin_number]) ** 2) / known
        return np.where(empty, math.nan, np.sqrt(variance))
    function = {"median": np.median, "min": np.min, "max": np.max}.get(statistic, statistic)
    if not callable(function):
        raise ValueError(f"invalid statistic {statistic!r}")
    return np.stack(
        [_one_bin(function, values, bin_number == k + 1, empty[k]) for k in np.arange(n)]
    )


def _one_bin(function: Callable[..., Any], values: Any, inside: Any, empty: Any) -> Any:
    if not empty:
        return as_array(function(values[inside]))
    try:
        return np.asarray(function([]) * 1.0)
    except Exception:
        return np.asarray(math.nan)
