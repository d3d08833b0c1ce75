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

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.signal.filters import convolve2d as convolve2d
from tracker.scipy.signal.filters import correlate2d as correlate2d
from tracker.scipy.signal.filters import filtfilt as filtfilt
from tracker.scipy.signal.filters import freqz as freqz
from tracker.scipy.signal.filters import lfilter_zi as lfilter_zi
from tracker.scipy.signal.filters import savgol_filter as savgol_filter
from tracker.scipy.signal.filters import sosfilt as sosfilt
from tracker.scipy.signal.filters import sosfilt_zi as sosfilt_zi
from tracker.scipy.signal.filters import sosfiltfilt as sosfiltfilt
from tracker.scipy.signal.lfilter import all_pole as all_pole
from tracker.scipy.signal.lfilter import convolve as convolve
from tracker.scipy.signal.lfilter import correlate as correlate
from tracker.scipy.signal.lfilter import fftconvolve as fftconvolve
from tracker.scipy.signal.lfilter import lfilter as lfilter
from tracker.scipy.signal.lfilter import oaconvolve as oaconvolve
from tracker.scipy.signal.peaks import find_peaks as find_peaks
from tracker.scipy.signal.resample import decimate as decimate
from tracker.scipy.signal.resample import medfilt as medfilt
from tracker.scipy.signal.resample import medfilt2d as medfilt2d
from tracker.scipy.signal.resample import resample_poly as resample_poly
from tracker.scipy.signal.resample import upfirdn as upfirdn
from tracker.scipy.signal.resample import wiener as wiener
from tracker.scipy.signal.spectral import coherence as coherence
from tracker.scipy.signal.spectral import csd as csd
from tracker.scipy.signal.spectral import detrend as detrend
from tracker.scipy.signal.spectral import hilbert as hilbert
from tracker.scipy.signal.spectral import periodogram as periodogram
from tracker.scipy.signal.spectral import resample as resample
from tracker.scipy.signal.spectral import welch as welch
from tracker.scipy.signal.stft import istft as istft
from tracker.scipy.signal.stft import spectrogram as spectrogram
from tracker.scipy.signal.stft import stft as stft

__getattr__ = scipy_fallback(
    scipy.signal, constant=("argrelextrema", "argrelmax", "argrelmin", "find_peaks_cwt")
)
