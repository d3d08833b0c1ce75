"""`tracker.scipy.signal` beyond convolution: SciPy's values, derivatives against differences, and
compiled."""

import numpy as np
import pytest
import scipy.signal
from scipy_cases import check_case

import tracker.scipy.signal
from tracker import UnsupportedError, gradient, param

RNG = np.random.default_rng(0)
X, ROWS, IMAGE = RNG.normal(size=40), RNG.normal(size=(3, 33)), RNG.normal(size=(6, 7))
KERNEL, EVEN = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 3))
NUMERATOR, DENOMINATOR = scipy.signal.butter(3, 0.3)
SECTIONS = scipy.signal.butter(4, 0.3, output="sos")


def sections(m, numerators, x):
    sos = np.concatenate([numerators, SECTIONS[:, 3:]], axis=1)
    y, _ = m.sosfilt(sos, x, zi=scipy.signal.sosfilt_zi(SECTIONS))
    return y + m.sosfilt(sos, x)


CASES = {
    "hilbert": (lambda m, x: m.hilbert(x) + m.hilbert(x, 50)[:40] * m.hilbert(x, 31)[5], X),
    "hilbert of columns": (lambda m, x: m.hilbert(x, axis=0), ROWS),
    "detrend": (lambda m, x: m.detrend(x, bp=[10, 25]) + m.detrend(x, type="constant"), X),
    "detrend columns": (lambda m, x: m.detrend(x, axis=0), ROWS),
    "resample with times": (lambda m, x: m.resample(x, 20, t=np.arange(40.0))[0], X),
    "welch of columns": (lambda m, x: m.welch(x, axis=0, nperseg=2)[1], ROWS),
    "coherence": (lambda m, x: m.coherence(x, x**2 + x, nperseg=10)[1], X),
    "csd of two lengths": (lambda m, x: m.csd(x, x[5:] ** 2, nperseg=8)[1], X),
    "lfilter_zi": (lambda m, b, a: m.lfilter_zi(b, a), NUMERATOR, DENOMINATOR),
    "filtfilt": (lambda m, b, a, x: m.filtfilt(b, a, x), NUMERATOR, DENOMINATOR, X),
    "filtfilt, even": (lambda m, x: m.filtfilt(NUMERATOR, [1.0, 0.2], x, padtype="even"), X),
    "filtfilt, constant": (
        lambda m, x: m.filtfilt(NUMERATOR, DENOMINATOR, x, axis=1, padtype="constant", padlen=5),
        ROWS,
    ),
    "filtfilt without ends": (
        lambda m, x: m.filtfilt(NUMERATOR, DENOMINATOR, x, padtype=None),
        X,
    ),
    "sosfilt": (sections, SECTIONS[:, :3], X),
    "convolve2d, exchanged": (lambda m, a, b: m.convolve2d(b, a, "valid"), IMAGE, KERNEL),
    "correlate2d, complex": (lambda m, a, b: m.correlate2d(a, b * (1 + 2j)), IMAGE, KERNEL),
}
for _n in (20, 21, 40, 60, 61):
    CASES[f"resample to {_n}"] = (
        lambda m, x, n=_n: m.resample(x, n, axis=1) + m.resample(x * (1 + 0.5j), n, axis=1),
        ROWS,
    )
    CASES[f"resample 40 to {_n}"] = (
        lambda m, x, n=_n: m.resample(x, n) + m.resample(x * (1 + 0.5j), n),
        X,
    )
for _keywords in (
    {"nperseg": 15, "noverlap": 3, "nfft": 32},
    {"window": "boxcar", "nperseg": 8, "scaling": "spectrum"},
    {"detrend": "linear", "nperseg": 10, "window": ("kaiser", 2.0)},
    {"detrend": False, "nperseg": 10, "return_onesided": False},
    {"nperseg": 8, "average": "median", "window": np.arange(1.0, 9.0)},
    {"fs": 10.0, "nperseg": 12, "detrend": lambda x: x - 0.1},
):
    CASES[f"csd with {', '.join(_keywords)} {len(CASES)}"] = (
        lambda m, x, k=_keywords: m.csd(x, x**2, **k)[1] * m.welch(x, **k)[1],
        X,
    )
for _keywords in ({}, {"nfft": 64}, {"nfft": 30}, {"window": "hann", "scaling": "spectrum"}):
    CASES[f"periodogram {_keywords}"] = (lambda m, x, k=_keywords: m.periodogram(x, **k)[1], X)
for _mode in ("full", "same", "valid"):
    for _boundary in ("fill", "wrap", "symm"):
        CASES[f"convolve2d, {_mode}, {_boundary}"] = (
            lambda m, a, b, c, mode=_mode, boundary=_boundary: (
                np.sum(m.convolve2d(a, b, mode, boundary, 0.5) ** 2)
                + m.correlate2d(a, c, mode, boundary, 0.5)
            ),
            IMAGE,
            KERNEL,
            EVEN,
        )
for _mode in ("interp", "mirror", "nearest", "wrap", "constant"):
    CASES[f"savgol_filter, {_mode}"] = (
        lambda m, x, mode=_mode: (
            m.savgol_filter(x, 7, 3, mode=mode)[:, :30]
            + m.savgol_filter(x, 6, 2, deriv=1, delta=0.5, mode=mode, cval=1.0)[:, -30:]
        ),
        ROWS,
    )


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check_case(tracker.scipy.signal, scipy.signal, *CASES[name])


def test_frequencies_and_warnings():
    ours, theirs = tracker.scipy.signal, scipy.signal
    p = param(X)
    np.testing.assert_array_equal(
        ours.welch(p, 5.0, nperseg=8)[0], theirs.welch(X, 5.0, nperseg=8)[0]
    )
    for module in (ours, theirs):
        with pytest.warns(UserWarning, match="nperseg=64 is greater than signal length.* = 40"):
            module.welch(p if module is ours else X, nperseg=64)
    assert ours.welch(X, nperseg=8)[1].shape == theirs.welch(X, nperseg=8)[1].shape


def test_refusals():
    def refused(call, error, match):
        with pytest.raises(error, match=match):
            gradient(lambda x: np.sum(np.real(call(x))), X)

    m = tracker.scipy.signal
    refused(lambda x: m.resample(x, 20, window="hann"), UnsupportedError, "window= or domain=")
    refused(lambda x: m.filtfilt([1.0], [1.0], x, method="gust"), UnsupportedError, "'gust'")
    refused(lambda x: m.filtfilt(np.ones(20), [1.0], x), ValueError, "padlen, which is 60")
    refused(lambda x: m.hilbert(x + 0j), ValueError, "x must be real")
    refused(lambda x: m.detrend(x, type="x"), ValueError, "Trend type must be")
    refused(lambda x: m.detrend(x, bp=99), ValueError, "Breakpoints must be less")
    refused(lambda x: m.csd(x, x, nperseg=8, noverlap=8)[1], ValueError, "noverlap must be less")
    refused(lambda x: m.csd(x, x, nperseg=8, nfft=4)[1], ValueError, "nfft must be greater")
    refused(lambda x: m.welch(x, nperseg=8, scaling="x")[1], ValueError, "Unknown scaling")
    refused(lambda x: m.convolve2d(x, x), ValueError, "both be 2-D")
    refused(lambda x: m.savgol_filter(x, 5, 2, mode="x"), ValueError, "mode must be")
    refused(lambda x: m.savgol_filter(x, 51, 2), ValueError, "less than or equal to the size")
