"""Peaks of a signal. Their positions have no derivative; the properties measured there have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array

_INDEX_PROPERTIES = ("left_bases", "right_bases", "left_edges", "right_edges", "plateau_sizes")


@drop_in(scipy.signal)
def find_peaks(x: Any, *args: Any, **kwargs: Any) -> Any:
    """SciPy's peak positions; the properties are recomputed from the tracked signal."""
    x = as_array(x)
    peaks, found = call_scipy(scipy.signal.find_peaks, x, *args, **kwargs)
    properties: dict[str, Any] = {name: found[name] for name in _INDEX_PROPERTIES if name in found}
    if "peak_heights" in found:
        properties["peak_heights"] = x[peaks]
    if "left_thresholds" in found:
        properties["left_thresholds"] = x[peaks] - x[peaks - 1]
        properties["right_thresholds"] = x[peaks] - x[peaks + 1]
    if "prominences" in found:
        base = np.maximum(x[found["left_bases"]], x[found["right_bases"]])
        properties["prominences"] = x[peaks] - base
    if "widths" in found:
        share = kwargs.get("rel_height", args[7] if len(args) > 7 else 0.5)
        height = properties["width_heights"] = x[peaks] - properties["prominences"] * share
        properties["left_ips"] = _crossing(x, height, np.floor(found["left_ips"]), 1)
        properties["right_ips"] = _crossing(x, height, np.ceil(found["right_ips"]), -1)
        properties["widths"] = properties["right_ips"] - properties["left_ips"]
    return peaks, {name: properties[name] for name in found}


def _crossing(x: Any, height: Any, position: Any, direction: int) -> Any:
    """The interpolated position where the signal crosses a height, between a sample and its
    neighbour in this direction."""
    at = np.astype(position, np.int64)
    low, high = x[at], x[np.clip(at + direction, 0, np.shape(x)[0] - 1)]
    under = low < height
    rise = np.where(under, high - low, 1.0)
    return position + direction * np.where(under, (height - low) / rise, 0.0)
