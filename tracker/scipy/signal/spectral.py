"""Analytic signals, trends, resampling by Fourier transform, and averaged periodograms (P. Welch,
"The use of the fast Fourier transform for the estimation of power spectra", 1967)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.signal

from tracker.errors import warn
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule


@drop_in(scipy.signal)
def hilbert(x: Any, N: Any = None, axis: int = -1) -> Any:
    """The analytic signal."""
    x = as_array(x)
    if np.iscomplexobj(x):
        raise ValueError("x must be real.")
    n = np.shape(x)[axis] if N is None else int(N)
    if n <= 0:
        raise ValueError("N must be positive.")
    weights = np.zeros(n)
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = 1
    shape = [1] * np.ndim(x)
    shape[axis] = n
    spectrum = np.fft.fft(x, n, axis)
    weights = np.reshape(weights, shape).astype(np.real(spectrum).dtype)
    return np.fft.ifft(spectrum * weights, n, axis)


@drop_in(scipy.signal)
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """The signal without its mean ("constant"), or without its shorter-squares line between break
    points."""
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = np.moveaxis(as_array(data), axis, -1)
    if type in ("constant", "c"):
        return np.moveaxis(x - np.mean(x, axis=-1, keepdims=True), -1, axis)
    n, kind = np.shape(x)[-1], x.dtype if x.dtype.char in "dfDF" else np.dtype(float)
    breaks = sorted({0, n, *np.atleast_1d(bp).tolist()})
    if breaks[-1] > n:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in itertools.pairwise(breaks):
        count = stop - start
        line = np.stack([np.arange(1, count + 1) / count, np.ones(count)], axis=1).astype(kind)
        part = x[..., start:stop]
        parts.append(part - (part @ np.transpose(np.linalg.pinv(line))) @ np.transpose(line))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


@drop_in(scipy.signal)
def resample(
    x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time"
) -> Any:
    """The signal with `num` samples and the same spectrum."""
    if window is not None or domain != "time":
        raise no_derivative_rule(
            "scipy.signal.resample with window= or domain=", "Multiply the spectrum by the window"
        )
    x = np.moveaxis(as_array(x), axis, -1)
    n = np.shape(x)[-1]
    shorter = min(n, num)
    if np.iscomplexobj(x):
        y = _resampled_complex(x, n, num, shorter)
    else:
        spectrum = np.fft.rfft(x)[..., : shorter // 2 + 1]
        scale = np.ones(shorter // 2 + 1, np.real(spectrum).dtype)
        if shorter % 2 == 0 and n != num:  # the Nyquist term counts twice, or half
            scale[-1] = 2.0 if num < n else 0.5
        y = np.fft.irfft(spectrum * scale, num)
    y = np.moveaxis(y * (num / n), -1, axis)
    if t is None:
        return y
    t = as_array(t)
    return y, np.arange(num) * (t[1] - t[0]) * n / float(num) + t[0]


def _resampled_complex(x: Any, n: int, num: int, shorter: int) -> Any:
    spectrum = np.fft.fft(x)
    half = (shorter + 1) // 2
    low, high = spectrum[..., :half], spectrum[..., n - (shorter - 1) // 2 :]
    middle = []
    if shorter % 2 == 0:
        one = spectrum[..., shorter // 2 : shorter // 2 + 1]
        if num < n:
            one = one + spectrum[..., n - shorter // 2 : n - shorter // 2 + 1]
        middle = [one] if num <= n else [0.5 * one]
    rest = num - np.shape(low)[-1] - np.shape(high)[-1] - len(middle)
    if shorter % 2 == 0 and num > n:
        middle += [np.zeros((*np.shape(x)[:-1], rest - 1), spectrum.dtype), *middle]
    else:
        middle.append(np.zeros((*np.shape(x)[:-1], rest), spectrum.dtype))
    return np.fft.ifft(np.concatenate([low, *middle, high], axis=-1))


# Averaged periodograms ----------------------------------------------------------------------------


@drop_in(scipy.signal)
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    """The frequencies and the cross spectral density."""
    scipy_raises_unless(fs > 0, scipy.signal.welch, x, fs, nperseg=1)
    x, y = (np.moveaxis(as_array(z), axis, -1) for z in (x, y))
    n = max(np.shape(x)[-1], np.shape(y)[-1])
    x, y = (np.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, n - np.shape(z)[-1])]) for z in (x, y))
    weights, length = _window_weights(window, nperseg, n)
    weights = weights.astype(np.finfo(np.result_type(x.dtype, y.dtype, np.complex64)).dtype)
    step, size = step_and_size(length, noverlap, nfft)
    both = not return_onesided or np.iscomplexobj(x) or np.iscomplexobj(y)
    spectra = [segment_spectra(z, weights, length, step, size, detrend, both) for z in (x, y)]
    area, total = float(np.sum(weights**2)), float(np.sum(weights))
    scale = {"density": 1 / (fs * area), "spectrum": 1 / total**2}
    if scaling not in scale:
        raise ValueError(f"Unknown scaling: {scaling!r}")
    power = np.conjugate(spectra[0]) * spectra[1] * scale[scaling]
    if not both:
        power = one_sided(power, size)
    power = _average_segments(power, average)
    return frequencies(size, fs, both), np.moveaxis(power, -1, axis)


def step_and_size(length: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    """The hop between segments, and the length of the transforms."""
    step = length - (length // 2 if noverlap is None else int(noverlap))
    if step <= 0:
        raise ValueError("noverlap must be less than nperseg.")
    size = length if nfft is None else int(nfft)
    if size < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    return step, size


def one_sided(power: Any, size: int) -> Any:
    """The powers at non-negative frequencies, including those of the negative ones."""
    twice = np.full(np.shape(power)[-1], 2.0, np.finfo(power.dtype).dtype)
    twice[0] = 1.0
    if size % 2 == 0:
        twice[-1] = 1.0
    return power * twice


def frequencies(size: int, fs: Any, two_sided: bool) -> Any:
    """The frequencies of transforms of this length; `two_sided` includes the negative ones."""
    return (np.fft.fftfreq if two_sided else np.fft.rfftfreq)(size, 1 / fs)


def _window_weights(window: Any, nperseg: Any, n: int) -> tuple[Any, int]:
    if not isinstance(window, (str, tuple)):
        weights = np.asarray(window)
        if nperseg is not None and int(nperseg) != weights.size:
            raise ValueError("value specified for nperseg is different from length of window")
        return weights, weights.size
    length = 256 if nperseg is None else int(nperseg)
    if length > n:
        text = (
            f"nperseg={length} is greater than signal length max(len(x), len(y)) = {n}, using "
            f"nperseg = {n}"
        )
        warn(text, UserWarning)
        length = n
    return scipy.signal.get_window(window, length), length


def segment_spectra(
    x: Any, weights: Any, length: int, step: int, size: int, trend: Any, two_sided: bool
) -> Any:
    """The spectra of the windowed segments: an axis of segments, then one of frequencies."""
    pieces = np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)[..., ::step, :]
    if callable(trend):
        pieces = trend(pieces)
    elif trend:
        pieces = detrend(pieces, type=trend)
    return (np.fft.fft if two_sided else np.fft.rfft)(pieces * weights, size)


def _average_segments(power: Any, average: str) -> Any:
    if average == "mean":
        return np.mean(power, axis=-2)
    if average != "median":
        raise ValueError(f"average must be 'median' or 'mean', got {average}")
    even = 2 * np.arange(1.0, (np.shape(power)[-2] - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))  # of the median of this many segments
    if np.iscomplexobj(power):
        middle = np.median(np.real(power), axis=-2) + 1j * np.median(np.imag(power), axis=-2)
    else:
        middle = np.median(power, axis=-2)
    return middle / bias


@drop_in(scipy.signal)
def welch(x: Any, *args: Any, **kwargs: Any) -> Any:
    """The frequencies and the power spectral density."""
    frequencies, power = csd(x, x, *args, **kwargs)
    return frequencies, np.real(power)


@drop_in(scipy.signal)
def periodogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = "boxcar",
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> Any:
    """The frequencies and the power spectral density of the whole signal."""
    x = as_array(x)
    n = np.shape(x)[axis]
    if nfft is not None and nfft < n:
        x, n = np.moveaxis(np.moveaxis(x, axis, -1)[..., :nfft], -1, axis), nfft
    return welch(x, fs, window, n, 0, nfft, detrend, return_onesided, scaling, axis)


@drop_in(scipy.signal)
def coherence(x: Any, y: Any, fs: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
    """The frequencies and the magnitude-squared coherence."""
    frequencies, first = welch(x, fs, *args, **kwargs)
    return frequencies, np.abs(csd(x, y, fs, *args, **kwargs)[1]) ** 2 / first / (
        welch(y, fs, *args, **kwargs)[1]
    )
