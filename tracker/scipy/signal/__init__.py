"""`scipy.signal` on tracked values. Names that are not defined here are SciPy's own.

lfilter.py     convolution, correlation, the linear filter (op `all_pole`)
filters.py     second-order sections, frequency responses, convolution of matrices
resample.py    polyphase filters, medians
local_fits.py  trends, smoothing
designs.py     SciPy's own filter designs, linear systems, signals with parameters
spectral.py    SciPy's own functions: zero-phase filters, spectra, resampling
peaks.py       peak positions and properties
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.signal

from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.signal import designs, filters, local_fits, peaks, spectral  # noqa: F401
from tracker.scipy.signal import lfilter as _lfilter  # noqa: F401
from tracker.scipy.signal import resample as _resample  # noqa: F401

if TYPE_CHECKING:
    from scipy.signal import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.signal, constant=("argrelextrema", "argrelmax", "argrelmin", "find_peaks_cwt")
    )
globals().update(DROP_INS[scipy.signal])
