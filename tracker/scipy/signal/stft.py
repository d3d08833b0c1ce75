"""Short-time Fourier transforms of overlapping segments: stft, its inverse, spectrogram."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.signal

from tracker.errors import warn
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.signal.spectral import frequencies, one_sided, segment_spectra, step_and_size

_BOUNDARY_PADS: dict[Any, Any] = {
    "zeros": {"mode": "constant"},
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
}


def _segmentation(
    window: Any, nperseg: Any, noverlap: Any, nfft: Any, n: int
) -> tuple[Any, int, int]:
    """The window, the hop between segments, and the length of the transforms."""
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    if isinstance(window, (str, tuple)):
        length = 256 if nperseg is None else int(nperseg)
        if length > n:
            text = f"nperseg = {length} is greater than input length  = {n}, using nperseg = {n}"
            warn(text, UserWarning)
            length = n
        weights = scipy.signal.get_window(window, length)
    else:
        weights = as_array(window)
        length = np.size(weights)
        if nperseg is not None and int(nperseg) != length:
            raise ValueError("value specified for nperseg is different from length of window")
    return weights, *step_and_size(length, noverlap, nfft)


def _spectrum_scale(weights: Any, fs: Any, scaling: str) -> Any:
    if scaling == "density":
        return 1.0 / (fs * np.sum(weights * weights))
    if scaling == "spectrum":
        return 1.0 / np.sum(weights) ** 2
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _segment_times(weights: Any, step: int, n: int, fs: Any, is_padded: bool) -> Any:
    length = np.size(weights)
    times = np.arange(length / 2, n - length / 2 + 1, step) / float(fs)
    return times - length / 2 / fs if is_padded else times


def _frequencies_to_axis(spectra: Any, axis: int) -> Any:
    """The spectra with frequencies at the axis of the samples, and segments last."""
    return np.moveaxis(spectra, -1, axis - 1 if axis < 0 else axis)


@drop_in(scipy.signal)
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann_periodic",
    nperseg: Any = 256,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: Any = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> Any:
    """The frequencies, the times, and the spectra of the segments."""
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    if boundary is not None and boundary not in _BOUNDARY_PADS:
        raise ValueError(f"Unknown boundary option {boundary!r}")
    x = np.moveaxis(as_array(x), axis, -1)
    kind = np.result_type(x.dtype, np.complex64)
    weights, step, size = _segmentation(window, nperseg, noverlap, nfft, np.shape(x)[-1])
    length = np.size(weights)
    still = [(0, 0)] * (np.ndim(x) - 1)
    if boundary is not None:
        x = np.pad(x, [*still, (length // 2, length // 2)], **_BOUNDARY_PADS[boundary])
    if padded:
        x = np.pad(x, [*still, (0, (-(np.shape(x)[-1] - length) % step) % length)])
    both = not return_onesided or np.iscomplexobj(x)
    scale = np.sqrt(_spectrum_scale(weights, fs, "density" if scaling == "psd" else scaling))
    spectra = segment_spectra(x, weights, length, step, size, detrend, both) * scale
    times = _segment_times(weights, step, np.shape(x)[-1], fs, boundary is not None)
    return frequencies(size, fs, both), times, _frequencies_to_axis(np.astype(spectra, kind), axis)


@drop_in(scipy.signal)
def spectrogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = ("tukey_periodic", 0.25),
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> Any:
    """The frequencies, the times, and the power (or what `mode` names) of the segments."""
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ValueError(f"unknown value for mode {mode}")
    x = np.moveaxis(as_array(x), axis, -1)
    kind = np.result_type(x.dtype, np.complex64)
    overlap = noverlap
    if noverlap is None:
        overlap = np.size(_segmentation(window, nperseg, 0, None, np.shape(x)[-1])[0]) // 8
        nperseg = min(256 if nperseg is None else int(nperseg), np.shape(x)[-1])
        nperseg = nperseg if isinstance(window, (str, tuple)) else None
    weights, step, size = _segmentation(window, nperseg, overlap, nfft, np.shape(x)[-1])
    both = not return_onesided or np.iscomplexobj(x)
    spectra = segment_spectra(x, weights, np.size(weights), step, size, detrend, both)
    scale = _spectrum_scale(weights, fs, scaling)
    found = np.astype(spectra * np.sqrt(scale), kind)
    if mode == "psd":
        found = np.astype(
            (np.square(np.real(spectra)) + np.square(np.imag(spectra))) * scale, _real_dtype(kind)
        )
        if not both:
            found = one_sided(found, size)
    elif mode == "magnitude":
        found = np.abs(found)
    elif mode in ("angle", "phase"):
        found = np.angle(found)
    found = _frequencies_to_axis(found, axis)
    if mode == "phase":
        found = np.unwrap(found, axis=axis - 1 if axis < 0 else axis)
    times = _segment_times(weights, step, np.shape(x)[-1], fs, False)
    return frequencies(size, fs, both), times, found


def _real_dtype(kind: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(kind.char.lower())


@drop_in(scipy.signal)
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann_periodic",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: bool = True,
    boundary: Any = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> Any:
    """The times, and the signal with these spectra, by overlap-add."""
    z = as_array(Zxx) + 0j
    if np.ndim(z) < 2:
        raise ValueError("Input stft must be at least 2d!")
    time_axis, freq_axis = time_axis % np.ndim(z), freq_axis % np.ndim(z)
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    z = np.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    count, bins = np.shape(z)[-2:]
    usual = 2 * (bins - 1) if input_onesided else bins
    length = usual if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    weights, step, size = _segmentation(window, length, noverlap, nfft, length)
    cut = (np.fft.irfft if input_onesided else np.fft.ifft)(z, size)[..., :length]
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    scale = np.sum(weights) if scaling == "spectrum" else np.sqrt(fs * np.sum(weights**2))
    weights, scale = weights.astype(_real_dtype(z.dtype)), float(scale)
    x = _overlap_add(cut * scale * weights, step)
    norm = _overlap_add(np.broadcast_to(weights**2, (count, length)), step)
    if boundary:
        x, norm = (part[..., length // 2 : -(length // 2)] for part in (x, norm))
    bare = norm <= 1e-10
    if bool(np.any(bare)):
        text = "NOLA condition failed, STFT may not be invertible."
        hint = "" if boundary else " Possibly due to missing boundary"
        warn(text + hint, UserWarning)
    x = x / np.where(bare, 1.0, norm)
    if np.ndim(x) > 1:
        x = np.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return np.arange(np.shape(x)[0]) / float(fs), np.astype(
        x, _real_dtype(z.dtype)
    ) if input_onesided else x


def _overlap_add(parts: Any, step: int) -> Any:
    """The sum of segments (last axis), each of which starts `step` samples after the previous
    one."""
    count, length = np.shape(parts)[-2:]
    chunks = math.ceil(length / step)
    lead = [(0, 0)] * (np.ndim(parts) - 2)
    wide = np.pad(parts, [*lead, (0, 0), (0, chunks * step - length)])
    wide = np.reshape(wide, (*np.shape(parts)[:-1], chunks, step))
    total = sum(
        np.pad(wide[..., k, :], [*lead, (k, chunks - 1 - k), (0, 0)]) for k in range(chunks)
    )
    flat = np.reshape(total, (*np.shape(parts)[:-2], (count + chunks - 1) * step))
    return flat[..., : length + (count - 1) * step]
