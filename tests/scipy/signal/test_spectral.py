"""Short-time spectra, resampling, medians and peaks of `tracker.scipy.signal`."""

import numpy as np
import pytest
import scipy.signal
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import signal

RNG = np.random.default_rng(0)
X, ROWS, IMAGE = RNG.normal(size=30), RNG.normal(size=(2, 23)), RNG.normal(size=(4, 5))
SPECTRA = RNG.normal(size=(5, 4)) + 1j * RNG.normal(size=(5, 4))
SECTIONS = scipy.signal.butter(4, 0.3, output="sos")
B, A = scipy.signal.butter(3, 0.3)
SHORT = {"nperseg": 8}

STFTS = (
    {},
    {"fs": 10.0, "window": "hamming", "noverlap": 5, "scaling": "psd", "boundary": "odd"},
    {"nfft": 11, "boundary": "even", "padded": False, "detrend": "linear"},
    {"boundary": None, "return_onesided": False, "window": np.arange(1.0, 9.0)},
    {"boundary": "constant", "detrend": lambda x: x - 0.1},
)
SPECTROGRAMS = (
    {},
    {"scaling": "spectrum", "noverlap": 3, "fs": 4.0, "nfft": 11},
    {"mode": "complex", "return_onesided": False},
    {"mode": "magnitude", "window": "hann"},
    {"mode": "angle"},
    {"mode": "phase", "detrend": False},
)
ISTFTS = (
    {},
    {"boundary": False, "nperseg": 7, "noverlap": 5, "nfft": 9, "scaling": "psd", "fs": 2.0},
    {"input_onesided": False, "noverlap": 3},
    {"window": "hamming", "time_axis": 0, "freq_axis": 1},
)
PROPERTIES = ("peak_heights", "left_thresholds", "right_thresholds", "prominences", "widths")
PROPERTIES = (*PROPERTIES, "width_heights", "left_ips", "right_ips")
CASES = {
    "stft": lambda m, x=X[:15]: tuple(m.stft(x, **{**SHORT, **k})[2] for k in STFTS),
    "stft of columns": lambda m, x=ROWS.T[:9]: m.stft(x, axis=0, nperseg=4)[2],
    "stft, complex": lambda m, x=X[:15]: m.stft(x * (1 + 2j), return_onesided=False, **SHORT)[2],
    "spectrogram": lambda m, x=X[:15]: tuple(
        m.spectrogram(x, **{**SHORT, **k})[2] for k in SPECTROGRAMS),
    "spectrogram of columns": lambda m, x=ROWS.T[:9]: m.spectrogram(x, axis=0, nperseg=4)[2],
    "of a sampling frequency": lambda m, x=X[:15], fs=3.0: (
        *m.stft(x, fs, scaling="psd", **SHORT), *m.spectrogram(x, fs, mode="psd", **SHORT),
        *m.welch(x, fs, **SHORT), *m.csd(x, x**2, fs, scaling="spectrum", **SHORT)),
    "istft": lambda m, z=SPECTRA: tuple(m.istft(z, **k)[1] for k in ISTFTS),
    "istft of stft": lambda m, x=ROWS[:, :16]: m.istft(
        m.stft(x, nperseg=8, noverlap=6)[2], noverlap=6
    )[1],
    "sosfiltfilt": lambda m, x=ROWS: (
        m.sosfiltfilt(SECTIONS, x) * m.sosfiltfilt(SECTIONS, x, padtype="even", padlen=4),
        m.sosfiltfilt(SECTIONS[:1], x[0], padtype=None)),
    "sosfilt_zi": lambda m, b=SECTIONS[:, :3]: m.sosfilt_zi(
        np.concatenate([b, SECTIONS[:, 3:]], axis=1)),
    "upfirdn": lambda m, h=B, x=ROWS[:, :8]: (
        m.upfirdn(h, x, 3, 2) + m.upfirdn(h**2, x, 3, 2), m.upfirdn(h, x[:, :5], 2, 3, axis=0)),
    "resample_poly": lambda m, x=ROWS[:, :9]: (
        m.resample_poly(x, 3, 2, axis=1), m.resample_poly(x, 2, 6, axis=1, padtype="mean"),
        m.resample_poly(x, 5, 4, axis=1, window=np.arange(1.0, 8.0), padtype="minimum"),
        m.resample_poly(x, 2, 2)),
    "decimate": lambda m, x=X: (
        m.decimate(x, 3, n=2) * m.decimate(x, 3, n=3, zero_phase=False),
        m.decimate(x, 2, ftype=scipy.signal.dlti([1.0, 0.2], [1.0, -0.3])),
        m.decimate(x, 2, ftype="fir", n=6) + m.decimate(x, 2, n=4, ftype="fir", zero_phase=False)),
    "medfilt": lambda m, x=IMAGE: (
        m.medfilt(x) * m.medfilt(x, (1, 3)) + m.medfilt2d(x, 3) + m.medfilt(x[0], 5)),
    "wiener": lambda m, x=IMAGE: m.wiener(x) * m.wiener(x, (3, 5), noise=0.3),
    "freqz": lambda m, b=B, a=A: (
        m.freqz(b, a, 8)[1] * m.freqz(b, worN=8, whole=True)[1],
        m.freqz(b, a, np.array([0.3, 1.2]), fs=4.0)[1]),
    "find_peaks": lambda m, x=X[:14]: tuple(
        m.find_peaks(x, height=-1, threshold=0, prominence=0.1, width=0, rel_height=0.7)[1][k]
        for k in PROPERTIES),
}  # fmt: skip
test_case = pytest.mark.filterwarnings("ignore:NOLA condition failed")(
    against_scipy(signal, scipy.signal, CASES, slack=1e-6)
)


@pytest.mark.parametrize("name", ["stft", "spectrogram"])
def test_frequencies_and_times(name):
    for options in STFTS if name == "stft" else SPECTROGRAMS:
        ours = getattr(signal, name)(param(X), **{**SHORT, **options})
        theirs = getattr(scipy.signal, name)(X, **{**SHORT, **options})
        for found, want in zip(ours[:2], theirs[:2], strict=True):
            np.testing.assert_allclose(found, want, atol=1e-14)
    for module, x in ((signal, param(X)), (scipy.signal, X)):
        with pytest.warns(UserWarning, match="nperseg = 256 is greater than input length  = 30"):
            times, _ = module.istft(module.stft(x)[2])
    narrow = signal.stft(param(X.astype("f")), **SHORT)[2]
    assert narrow.dtype == scipy.signal.stft(X.astype("f"), **SHORT)[2].dtype
    np.testing.assert_allclose(times, np.arange(30.0))


def test_peaks_compiled():
    def loss(x):
        peaks, found = signal.find_peaks(x, prominence=0.1)
        return np.sum(x[peaks] ** 2) + np.sum(found["prominences"]) * peaks[0]

    fast = jit(lambda x: gradient(loss, x)[0])
    for x in (X, X, X[::-1].copy(), ROWS[0]):
        np.testing.assert_allclose(fast(x), gradient(loss, x)[0])
    np.testing.assert_array_equal(signal.argrelmax(param(X))[0], scipy.signal.argrelmax(X)[0])


def test_a_kernel_larger_than_the_signal():
    with pytest.warns(UserWarning, match="kernel_size exceeds"):
        assert data(signal.medfilt(param(X[:3]), 5)).shape == (3,)


m, P, Z = signal, param(X), param(SPECTRA)
test_refused = refused(
    {
        ValueError: {
            "Parameter scaling='x' not in": lambda: m.stft(P, scaling="x"),
            "boundary option": lambda: m.stft(P, boundary="x"),
            "positive integer": lambda: m.stft(P, nperseg=0),
            "noverlap must be less": lambda: m.stft(P, nperseg=8, noverlap=8),
            "nfft must be": lambda: m.stft(P, nperseg=8, nfft=4),
            "different from length": lambda: m.stft(P, window=np.ones(3), nperseg=8),
            "unknown value for mode": lambda: m.spectrogram(P, mode="x"),
            "Unknown scaling": lambda: m.spectrogram(P, scaling="x", nperseg=8),
            "at least 2d": lambda: m.istft(P),
            "differing": lambda: m.istft(Z, time_axis=0, freq_axis=0),
            "Parameter scaling": lambda: m.istft(Z, scaling="x"),
            "broadcast": lambda: m.freqz(param(SECTIONS)),
            "h must be 1-D": lambda: m.upfirdn(np.ones((2, 2)), P),
            "up and down must be >= 1": lambda: m.upfirdn([1.0], P, 0),
            "must be >= 1": lambda: m.resample_poly(P, 0, 1),
            "must be an integer": lambda: m.resample_poly(P, 1.5, 1),
            "no effect": lambda: m.resample_poly(P, 2, 1, padtype="mean", cval=1),
            "window must be": lambda: m.resample_poly(P, 2, 1, window=np.ones((2, 2))),
            "invalid ftype": lambda: m.decimate(P, 2, ftype="x"),
            "should be odd": lambda: m.medfilt(P, 2),
            "padlen, which is": lambda: m.sosfiltfilt(SECTIONS, P[:5]),
            "must be shape": lambda: m.sosfilt_zi(P),
        },
        UnsupportedError: {
            "np.pad": lambda: m.upfirdn([1.0], P, mode="edge"),
            r"mode= or cval=": lambda: m.resample_poly(P, 2, 1, padtype="line"),
        },
    }
)
