"""`scipy.signal` on tracked values: convolution and linear filters (`_linear_filters.py`), filters
made of these (`_filters.py`), spectra and trends (`_spectra.py`), those of pieces (`_segments.py`),
other rates and medians (`_rates.py`), peaks (`_peaks.py`). What is not defined here is SciPy's own.
"""

from __future__ import annotations

import scipy.signal

from tracker.scipy._filters import convolve2d as convolve2d
from tracker.scipy._filters import correlate2d as correlate2d
from tracker.scipy._filters import filtfilt as filtfilt
from tracker.scipy._filters import freqz as freqz
from tracker.scipy._filters import lfilter_zi as lfilter_zi
from tracker.scipy._filters import savgol_filter as savgol_filter
from tracker.scipy._filters import sosfilt as sosfilt
from tracker.scipy._filters import sosfilt_zi as sosfilt_zi
from tracker.scipy._filters import sosfiltfilt as sosfiltfilt
from tracker.scipy._linear_filters import all_pole as all_pole
from tracker.scipy._linear_filters import convolve as convolve
from tracker.scipy._linear_filters import correlate as correlate
from tracker.scipy._linear_filters import fftconvolve as fftconvolve
from tracker.scipy._linear_filters import lfilter as lfilter
from tracker.scipy._linear_filters import oaconvolve as oaconvolve
from tracker.scipy._passing import passing
from tracker.scipy._peaks import find_peaks as find_peaks
from tracker.scipy._rates import decimate as decimate
from tracker.scipy._rates import medfilt as medfilt
from tracker.scipy._rates import medfilt2d as medfilt2d
from tracker.scipy._rates import resample_poly as resample_poly
from tracker.scipy._rates import upfirdn as upfirdn
from tracker.scipy._rates import wiener as wiener
from tracker.scipy._segments import istft as istft
from tracker.scipy._segments import spectrogram as spectrogram
from tracker.scipy._segments import stft as stft
from tracker.scipy._spectra import coherence as coherence
from tracker.scipy._spectra import csd as csd
from tracker.scipy._spectra import detrend as detrend
from tracker.scipy._spectra import hilbert as hilbert
from tracker.scipy._spectra import periodogram as periodogram
from tracker.scipy._spectra import resample as resample
from tracker.scipy._spectra import welch as welch

__getattr__ = passing(
    scipy.signal, constant=("argrelextrema", "argrelmax", "argrelmin", "find_peaks_cwt")
)
