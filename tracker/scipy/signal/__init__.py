"""`scipy.signal` on tracked values. Names that are not defined here are SciPy's own.

lfilter.py   convolution, correlation, the linear filter (op `all_pole`)
filters.py   filters built from these: zero-phase, second-order sections, 2-D, smoothing
spectral.py  averaged periodograms, trends, resampling by Fourier transform
stft.py      short-time Fourier transforms and spectrograms
resample.py  polyphase resampling, medians, the Wiener filter
peaks.py     peak positions and properties
"""

from __future__ import annotations

import scipy.signal

from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.signal import filters, lfilter, peaks, resample, spectral, stft  # noqa: F401

__getattr__ = scipy_fallback(
    scipy.signal, constant=("argrelextrema", "argrelmax", "argrelmin", "find_peaks_cwt")
)
globals().update(DROP_INS[scipy.signal])
