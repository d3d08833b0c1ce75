"""Filters, convolutions of matrices, periodograms and trends of `tracker.scipy.signal`."""

from functools import partial

import numpy as np
import pytest
import scipy.signal
from scipy_cases import against_scipy, since
from tables import refused

from tracker import param
from tracker.scipy import signal

RNG = np.random.default_rng(0)
X, ROWS, IMAGE = RNG.normal(size=40), RNG.normal(size=(3, 33)), RNG.normal(size=(6, 7))
KERNEL, EVEN = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 3))
B, A = scipy.signal.butter(3, 0.3)
SECTIONS = scipy.signal.butter(4, 0.3, output="sos")


def sections(m, numerators=SECTIONS[:, :3], x=X):
    sos = np.concatenate([numerators, SECTIONS[:, 3:]], axis=1)
    y, _ = m.sosfilt(sos, x, zi=scipy.signal.sosfilt_zi(SECTIONS))
    return y + m.sosfilt(sos, x)


def matrices(m, a=IMAGE, b=KERNEL, c=EVEN, *, options):
    return np.sum(m.convolve2d(a, b, *options) ** 2) + m.correlate2d(a, c, *options)


def smoothed(m, x=ROWS, *, mode):
    slopes = m.savgol_filter(x, 6, 2, deriv=1, delta=0.5, mode=mode, cval=1.0)
    return m.savgol_filter(x, 7, 3, mode=mode)[:, :30] + slopes[:, -30:]


CASES = {
    "hilbert": lambda m, x=X: m.hilbert(x) + m.hilbert(x, 50)[:40] * m.hilbert(x, 31)[5],
    "hilbert of columns": lambda m, x=ROWS: m.hilbert(x, axis=0),
    "detrend": lambda m, x=X: m.detrend(x, bp=[10, 25]) + m.detrend(x, type="constant"),
    "detrend columns": lambda m, x=ROWS: m.detrend(x, axis=0),
    "resample with times": lambda m, x=X: m.resample(x, 20, t=np.arange(40.0))[0],
    "welch of columns": lambda m, x=ROWS: m.welch(x, axis=0, nperseg=2)[1],
    "coherence": lambda m, x=X: m.coherence(x, x**2 + x, nperseg=10)[1],
    "csd of two lengths": lambda m, x=X: m.csd(x, x[5:] ** 2, nperseg=8)[1],
    "lfilter_zi": lambda m, b=B, a=A: m.lfilter_zi(b, a),
    "filtfilt": lambda m, b=B, a=A, x=X: m.filtfilt(b, a, x),
    "filtfilt, even": lambda m, x=X: m.filtfilt(B, [1.0, 0.2], x, padtype="even"),
    "filtfilt, constant": lambda m, x=ROWS: m.filtfilt(B, A, x, 1, padtype="constant", padlen=5),
    "filtfilt without ends": lambda m, x=X: m.filtfilt(B, A, x, padtype=None),
    "filtfilt, gust": lambda m, b=B, a=A, x=X: m.filtfilt(b, a, x, method="gust"),
    "resample a spectrum": lambda m, x=X: m.resample(1 * x, 21, window="hann", domain="freq"),
    "sosfilt": sections,
    "convolve2d, exchanged": lambda m, a=IMAGE, b=KERNEL: m.convolve2d(b, a, "valid"),
    "correlate2d, complex": lambda m, a=IMAGE, b=KERNEL: m.correlate2d(a, b * (1 + 2j)),
    **since(
        (1, 18),
        {
            "whittaker_henderson": lambda m, x=X: m.whittaker_henderson(x, lamb=3.0).x,
            "whittaker_henderson, weights": lambda m, x=X, w=X**2: (
                m.whittaker_henderson(x, lamb=0.5, order=1, weights=w).x
            ),
        },
    ),
}
for _n in (20, 21, 40, 60, 61):
    CASES[f"resample to {_n}"] = lambda m, x=ROWS, *, n=_n: (
        m.resample(x, n, axis=1) + m.resample(x * (1 + 0.5j), n, axis=1)
    )
    CASES[f"resample 40 to {_n}"] = lambda m, x=X, *, n=_n: (
        m.resample(x, n) + m.resample(x * (1 + 0.5j), n)
    )
for _keywords in (
    {"nperseg": 15, "noverlap": 3, "nfft": 32},
    {"window": "boxcar", "nperseg": 8, "scaling": "spectrum"},
    {"detrend": "linear", "nperseg": 10, "window": ("kaiser", 2.0)},
    {"detrend": False, "nperseg": 10, "return_onesided": False},
    {"nperseg": 8, "average": "median", "window": np.arange(1.0, 9.0)},
    {"fs": 10.0, "nperseg": 12, "detrend": lambda x: x - 0.1},
):
    CASES[f"csd with {', '.join(_keywords)} {len(CASES)}"] = lambda m, x=X, *, k=_keywords: (
        m.csd(x, x**2, **k)[1] * m.welch(x, **k)[1]
    )
for _keywords in ({}, {"nfft": 64}, {"nfft": 30}, {"window": "hann", "scaling": "spectrum"}):
    CASES[f"periodogram {_keywords}"] = lambda m, x=X, *, k=_keywords: m.periodogram(x, **k)[1]
for _mode in ("full", "same", "valid"):
    for _edge in ("fill", "wrap", "symm"):
        CASES[f"convolve2d, {_mode}, {_edge}"] = partial(matrices, options=(_mode, _edge, 0.5))
for _mode in ("interp", "mirror", "nearest", "wrap", "constant"):
    CASES[f"savgol_filter, {_mode}"] = partial(smoothed, mode=_mode)
test_case = against_scipy(signal, scipy.signal, CASES)


def test_frequencies_and_warnings():
    found, want = signal.welch(param(X), 5.0, nperseg=8), scipy.signal.welch(X, 5.0, nperseg=8)
    np.testing.assert_array_equal(found[0], want[0])
    assert signal.welch(X, 5.0, nperseg=8)[1].shape == want[1].shape
    for module, x in ((signal, param(X)), (scipy.signal, X)):
        with pytest.warns(UserWarning, match="nperseg=64 is greater than signal length.* = 40"):
            module.welch(x, nperseg=64)


P = param(X)
test_refused = refused(
    {
        ValueError: {
            "padlen, which is 60": lambda: signal.filtfilt(np.ones(20), [1.0], P),
            "x must be real": lambda: signal.hilbert(P + 0j),
            "Trend type must be": lambda: signal.detrend(P, type="x"),
            "Breakpoints must be less": lambda: signal.detrend(P, bp=99),
            "noverlap.* must be less": lambda: signal.csd(P, P, nperseg=8, noverlap=8),
            "nfft.* must be greater": lambda: signal.csd(P, P, nperseg=8, nfft=4),
            "scaling": lambda: signal.welch(P, nperseg=8, scaling="x"),
            "both be 2-D": lambda: signal.convolve2d(P, P),
            "mode must be": lambda: signal.savgol_filter(P, 5, 2, mode="x"),
            "less than or equal to the size": lambda: signal.savgol_filter(P, 51, 2),
        },
    }
)
