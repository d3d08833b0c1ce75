"""`tracker.scipy.signal`: spectra of pieces, other rates, medians, peaks; SciPy's values,
derivatives against differences, and compiled."""

import numpy as np
import pytest
import scipy.signal
from scipy_cases import check_case

import tracker.scipy.signal
from tracker import UnsupportedError, data, gradient, jit, param

RNG = np.random.default_rng(0)
X, ROWS, IMAGE = RNG.normal(size=30), RNG.normal(size=(2, 23)), RNG.normal(size=(4, 5))
SPECTRA = RNG.normal(size=(5, 4)) + 1j * RNG.normal(size=(5, 4))
SECTIONS = scipy.signal.butter(4, 0.3, output="sos")
NUMERATOR, DENOMINATOR = scipy.signal.butter(3, 0.3)
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
CASES = {
    "stft": (lambda m, x: tuple(m.stft(x, **{**SHORT, **k})[2] for k in STFTS), X[:15]),
    "stft of columns": (lambda m, x: m.stft(x, axis=0, nperseg=4)[2], ROWS.T[:9]),
    "stft, complex": (lambda m, x: m.stft(x * (1 + 2j), return_onesided=False, **SHORT)[2], X[:15]),
    "spectrogram": (
        lambda m, x: tuple(m.spectrogram(x, **{**SHORT, **k})[2] for k in SPECTROGRAMS),
        X[:15],
    ),
    "spectrogram of columns": (lambda m, x: m.spectrogram(x, axis=0, nperseg=4)[2], ROWS.T[:9]),
    "istft": (lambda m, z: tuple(m.istft(z, **k)[1] for k in ISTFTS), SPECTRA),
    "istft of stft": (
        lambda m, x: m.istft(m.stft(x, nperseg=8, noverlap=6)[2], noverlap=6)[1],
        ROWS[:, :16],
    ),
    "sosfiltfilt": (
        lambda m, x: (
            m.sosfiltfilt(SECTIONS, x) * m.sosfiltfilt(SECTIONS, x, padtype="even", padlen=4),
            m.sosfiltfilt(SECTIONS[:1], x[0], padtype=None),
        ),
        ROWS,
    ),
    "sosfilt_zi": (
        lambda m, b: m.sosfilt_zi(np.concatenate([b, SECTIONS[:, 3:]], axis=1)),
        SECTIONS[:, :3],
    ),
    "upfirdn": (
        lambda m, h, x: (
            m.upfirdn(h, x, 3, 2) + m.upfirdn(h**2, x, 3, 2),
            m.upfirdn(h, x[:, :5], 2, 3, axis=0),
        ),
        NUMERATOR,
        ROWS[:, :8],
    ),
    "resample_poly": (
        lambda m, x: (
            m.resample_poly(x, 3, 2, axis=1),
            m.resample_poly(x, 2, 6, axis=1, padtype="mean"),
            m.resample_poly(x, 5, 4, axis=1, window=np.arange(1.0, 8.0), padtype="minimum"),
            m.resample_poly(x, 2, 2),
        ),
        ROWS[:, :9],
    ),
    "decimate": (
        lambda m, x: (
            m.decimate(x, 3, n=2) * m.decimate(x, 3, n=3, zero_phase=False),
            m.decimate(x, 2, ftype="fir", n=6)
            + m.decimate(x, 2, n=4, ftype="fir", zero_phase=False),
        ),
        X,
    ),
    "medfilt": (
        lambda m, x: m.medfilt(x) * m.medfilt(x, (1, 3)) + m.medfilt2d(x, 3) + m.medfilt(x[0], 5),
        IMAGE,
    ),
    "wiener": (lambda m, x: m.wiener(x) * m.wiener(x, (3, 5), noise=0.3), IMAGE),
    "freqz": (
        lambda m, b, a: (
            m.freqz(b, a, 8)[1] * m.freqz(b, worN=8, whole=True)[1],
            m.freqz(b, a, np.array([0.3, 1.2]), fs=4.0)[1],
        ),
        NUMERATOR,
        DENOMINATOR,
    ),
    "find_peaks": (
        lambda m, x: tuple(
            m.find_peaks(x, height=-1, threshold=0, prominence=0.1, width=0, rel_height=0.7)[1][k]
            for k in (
                "peak_heights",
                "left_thresholds",
                "right_thresholds",
                "prominences",
                "width_heights",
                "widths",
                "left_ips",
                "right_ips",
            )
        ),
        X[:14],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:NOLA condition failed")
def test_case(name):
    check_case(tracker.scipy.signal, scipy.signal, *CASES[name], slack=1e-6)


@pytest.mark.parametrize("name", ["stft", "spectrogram"])
def test_frequencies_and_times(name):
    for options in STFTS if name == "stft" else SPECTROGRAMS:
        ours = getattr(tracker.scipy.signal, name)(param(X), **{**SHORT, **options})
        theirs = getattr(scipy.signal, name)(X, **{**SHORT, **options})
        for found, want in zip(ours[:2], theirs[:2], strict=True):
            np.testing.assert_allclose(found, want, atol=1e-14)
    for module in (tracker.scipy.signal, scipy.signal):
        x = param(X) if module is not scipy.signal else X
        with pytest.warns(UserWarning, match="nperseg = 256 is greater than input length  = 30"):
            times, _ = module.istft(module.stft(x)[2])
    narrow = tracker.scipy.signal.stft(param(X.astype("f")), **SHORT)[2]
    assert narrow.dtype == scipy.signal.stft(X.astype("f"), **SHORT)[2].dtype
    np.testing.assert_allclose(times, np.arange(30.0))


def test_peaks_compiled():
    m = tracker.scipy.signal

    def loss(x):
        peaks, found = m.find_peaks(x, prominence=0.1)
        return np.sum(x[peaks] ** 2) + np.sum(found["prominences"]) * peaks[0]

    fast = jit(lambda x: gradient(loss, x)[0])
    for x in (X, X, X[::-1].copy(), ROWS[0]):
        np.testing.assert_allclose(fast(x), gradient(loss, x)[0])
    np.testing.assert_array_equal(m.argrelmax(param(X))[0], scipy.signal.argrelmax(X)[0])


def test_refusals():
    m, p = tracker.scipy.signal, param(X)
    for wrong, error, match in (
        (lambda: m.stft(p, scaling="x"), ValueError, "Parameter scaling='x'"),
        (lambda: m.stft(p, boundary="x"), ValueError, "boundary option"),
        (lambda: m.stft(p, nperseg=0), ValueError, "positive integer"),
        (lambda: m.stft(p, nperseg=8, noverlap=8), ValueError, "noverlap must be less"),
        (lambda: m.stft(p, nperseg=8, nfft=4), ValueError, "nfft must be"),
        (lambda: m.stft(p, window=np.ones(3), nperseg=8), ValueError, "different from length"),
        (lambda: m.spectrogram(p, mode="x"), ValueError, "unknown value for mode"),
        (lambda: m.spectrogram(p, scaling="x", nperseg=8), ValueError, "Unknown scaling"),
        (lambda: m.istft(p), ValueError, "at least 2d"),
        (lambda: m.istft(param(SPECTRA), time_axis=0, freq_axis=0), ValueError, "differing"),
        (lambda: m.istft(param(SPECTRA), scaling="x"), ValueError, "Parameter scaling"),
        (lambda: m.upfirdn([1.0], p, mode="edge"), UnsupportedError, "np.pad"),
        (lambda: m.upfirdn(np.ones((2, 2)), p), ValueError, "h must be 1-D"),
        (lambda: m.upfirdn([1.0], p, 0), ValueError, "must be >= 1"),
        (lambda: m.resample_poly(p, 0, 1), ValueError, "must be >= 1"),
        (lambda: m.resample_poly(p, 1.5, 1), ValueError, "integers"),
        (lambda: m.resample_poly(p, 2, 1, padtype="line"), UnsupportedError, "padtype='line'"),
        (lambda: m.resample_poly(p, 2, 1, padtype="mean", cval=1), ValueError, "no effect"),
        (lambda: m.resample_poly(p, 2, 1, window=np.ones((2, 2))), ValueError, "window must be"),
        (lambda: m.decimate(p, 2, ftype="x"), ValueError, "invalid ftype"),
        (lambda: m.decimate(p, 2, ftype=scipy.signal.dlti(1, 1)), UnsupportedError, "system"),
        (lambda: m.medfilt(p, 2), ValueError, "should be odd"),
        (lambda: m.sosfiltfilt(SECTIONS, p[:5]), ValueError, "padlen, which is"),
        (lambda: m.sosfilt_zi(p), ValueError, "must be shape"),
        (lambda: m.freqz(param(SECTIONS)), UnsupportedError, "several filters"),
        (lambda: m.lombscargle(X, p, X), UnsupportedError, "lombscargle has no derivative rule"),
    ):
        with pytest.raises(error, match=match):
            wrong()
    with pytest.warns(UserWarning, match="kernel_size exceeds"):
        assert data(m.medfilt(p[:3], 5)).shape == (3,)
