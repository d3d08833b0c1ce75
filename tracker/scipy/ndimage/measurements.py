"""Sums, means, extremes and centres of mass over labelled regions.

Without `labels` the region is the whole array; without `index` it is all elements with a label
other than 0. Several indices give an array of results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array


def _regions(x: Any, labels: Any, index: Any) -> Any:
    """The elements of the region; for several regions, a list."""
    if labels is None:
        if index is not None:
            raise ValueError("index without defined labels")
        return np.ravel(x)
    x, labels = np.broadcast_arrays(x, as_array(labels))
    if index is None:
        return x[labels > 0]
    if np.ndim(index) == 0:
        return x[labels == index]
    return [x[labels == i] for i in np.ravel(index)]


def _region_measure(
    name: str, measure: Callable[[Any], Any], double_if_several: bool, double_if_single: bool
) -> Callable[..., Any]:
    """The measure of regions. The flags say whether SciPy measures several regions, or one, in
    double precision."""

    @drop_in(scipy.ndimage, name)
    def measured(input: Any, labels: Any = None, index: Any = None) -> Any:
        x = as_array(input)
        several = labels is not None and np.ndim(index) > 0
        found = _regions(
            x * np.float64(1) if (double_if_several if several else double_if_single) else x,
            labels,
            index,
        )
        if isinstance(found, list):
            return np.reshape(np.stack([measure(part) for part in found]), np.shape(index))
        return measure(found)

    return measured


sum = _region_measure("sum", np.sum, double_if_several=True, double_if_single=False)
sum_labels = _region_measure("sum_labels", np.sum, double_if_several=True, double_if_single=False)
mean = _region_measure("mean", np.mean, double_if_several=True, double_if_single=True)
variance = _region_measure("variance", np.var, double_if_several=True, double_if_single=True)
standard_deviation = _region_measure(
    "standard_deviation", np.std, double_if_several=True, double_if_single=True
)
minimum = _region_measure("minimum", np.min, double_if_several=False, double_if_single=False)
maximum = _region_measure("maximum", np.max, double_if_several=False, double_if_single=False)
median = _region_measure("median", np.median, double_if_several=False, double_if_single=False)


@drop_in(scipy.ndimage)
def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """A tuple of coordinates; for several regions, a list of tuples."""
    x = as_array(input) * 1.0
    total = sum(x, labels, index)
    coordinates = np.indices(np.shape(x))
    centre = [sum(x * along, labels, index) / total for along in coordinates]
    if np.ndim(total) == 0:
        return tuple(centre)
    return list(zip(*(np.ravel(c) for c in centre), strict=True))
