"""`scipy.ndimage` on tracked values. Names that are not defined here are SciPy's own.

    correlate.py      weighted sums of neighbours, Gaussian and derivative filters, edge modes
    rank_filters.py   filters that select a neighbour, and grey morphology
    interpolation.py  shifted, zoomed, rotated and resampled images
    measurements.py   statistics over labelled regions

`output=` may name a dtype; an array as output is refused. Results have the input's dtype, as
SciPy's.
"""

from __future__ import annotations

import scipy.ndimage

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.ndimage.correlate import convolve as convolve
from tracker.scipy.ndimage.correlate import convolve1d as convolve1d
from tracker.scipy.ndimage.correlate import correlate as correlate
from tracker.scipy.ndimage.correlate import correlate1d as correlate1d
from tracker.scipy.ndimage.correlate import gaussian_filter as gaussian_filter
from tracker.scipy.ndimage.correlate import gaussian_filter1d as gaussian_filter1d
from tracker.scipy.ndimage.correlate import (
    gaussian_gradient_magnitude as gaussian_gradient_magnitude,
)
from tracker.scipy.ndimage.correlate import gaussian_laplace as gaussian_laplace
from tracker.scipy.ndimage.correlate import laplace as laplace
from tracker.scipy.ndimage.correlate import prewitt as prewitt
from tracker.scipy.ndimage.correlate import sobel as sobel
from tracker.scipy.ndimage.correlate import uniform_filter as uniform_filter
from tracker.scipy.ndimage.correlate import uniform_filter1d as uniform_filter1d
from tracker.scipy.ndimage.interpolation import affine_transform as affine_transform
from tracker.scipy.ndimage.interpolation import map_coordinates as map_coordinates
from tracker.scipy.ndimage.interpolation import rotate as rotate
from tracker.scipy.ndimage.interpolation import shift as shift
from tracker.scipy.ndimage.interpolation import spline_filter as spline_filter
from tracker.scipy.ndimage.interpolation import spline_filter1d as spline_filter1d
from tracker.scipy.ndimage.interpolation import zoom as zoom
from tracker.scipy.ndimage.measurements import center_of_mass as center_of_mass
from tracker.scipy.ndimage.measurements import maximum as maximum
from tracker.scipy.ndimage.measurements import mean as mean
from tracker.scipy.ndimage.measurements import median as median
from tracker.scipy.ndimage.measurements import minimum as minimum
from tracker.scipy.ndimage.measurements import standard_deviation as standard_deviation
from tracker.scipy.ndimage.measurements import sum as sum
from tracker.scipy.ndimage.measurements import sum_labels as sum_labels
from tracker.scipy.ndimage.measurements import variance as variance
from tracker.scipy.ndimage.rank_filters import black_tophat as black_tophat
from tracker.scipy.ndimage.rank_filters import grey_closing as grey_closing
from tracker.scipy.ndimage.rank_filters import grey_dilation as grey_dilation
from tracker.scipy.ndimage.rank_filters import grey_erosion as grey_erosion
from tracker.scipy.ndimage.rank_filters import grey_opening as grey_opening
from tracker.scipy.ndimage.rank_filters import maximum_filter as maximum_filter
from tracker.scipy.ndimage.rank_filters import maximum_filter1d as maximum_filter1d
from tracker.scipy.ndimage.rank_filters import median_filter as median_filter
from tracker.scipy.ndimage.rank_filters import minimum_filter as minimum_filter
from tracker.scipy.ndimage.rank_filters import minimum_filter1d as minimum_filter1d
from tracker.scipy.ndimage.rank_filters import morphological_gradient as morphological_gradient
from tracker.scipy.ndimage.rank_filters import percentile_filter as percentile_filter
from tracker.scipy.ndimage.rank_filters import rank_filter as rank_filter
from tracker.scipy.ndimage.rank_filters import white_tophat as white_tophat

__getattr__ = scipy_fallback(
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
