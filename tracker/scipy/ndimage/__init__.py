"""`scipy.ndimage` on tracked values. Names that are not defined here are SciPy's own.

    filters.py        SciPy's filters and grey morphology, with the loops in NumPy
    interpolation.py  shifted, zoomed, rotated and resampled images
    measurements.py   statistics over labelled regions

`output=` may name a dtype; an array as output is refused. Results have the input's dtype, as
SciPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.ndimage

from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.ndimage import filters, interpolation, measurements  # noqa: F401

if TYPE_CHECKING:
    from scipy.ndimage import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.ndimage,
        constant=(
            "binary_closing",
            "binary_dilation",
            "binary_erosion",
            "binary_fill_holes",
            "binary_hit_or_miss",
            "binary_opening",
            "binary_propagation",
            "distance_transform_bf",
            "distance_transform_cdt",
            "distance_transform_edt",
            "find_objects",
            "histogram",
            "label",
            "maximum_position",
            "minimum_position",
            "watershed_ift",
        ),
        hints={
            "geometric_transform": "Use map_coordinates",
            "generic_filter": "Use np.lib.stride_tricks.sliding_window_view of the padded array",
            "vectorized_filter": "Use np.lib.stride_tricks.sliding_window_view of the padded array",
        },
    )
globals().update(DROP_INS[scipy.ndimage])
