"""Filters built from `lfilter` and `convolve`: zero-phase filters, second-order sections, frequency
responses, convolution of matrices, Savitzky-Golay smoothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.signal

from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy.signal.lfilter import convolve, crop_to_mode, lfilter
from tracker.tape.record import speculate_bool

_PAD_MODES = {"odd": ("reflect", "odd"), "even": ("reflect", "even"), "constant": ("edge", None)}


@drop_in(scipy.signal)
def lfilter_zi(b: Any, a: Any) -> Any:
    """The filter state that reproduces the response to a constant 1."""
    b, a = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a))
    fine = (a[0] != 0) & (np.sum(a) != 0)  # SciPy before 1.18 accepts leading zeros
    scipy_raises_unless(fine, scipy.signal.lfilter_zi, b, a)
    while np.size(a) > 1 and not speculate_bool(a[0] != 0, True):
        a = a[1:]
    b, a = b / a[0], a / a[0]
    n = max(np.shape(a)[0], np.shape(b)[0])
    b, a = (np.pad(c, (0, n - np.shape(c)[0])) for c in (b, a))
    if n == 1:
        return b[:0]
    one = np.eye(n - 1, dtype=a.dtype)
    step = np.concatenate([np.expand_dims(-a[1:], 1), one[:, : n - 2]], axis=1)
    return np.linalg.solve(one - step, b[1:] - a[1:] * b[0])


@drop_in(scipy.signal)
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: Any = "odd",
    padlen: Any = None,
    method: str = "pad",
    irlen: Any = None,
) -> Any:
    """The zero-phase filter: forwards, then backwards."""
    if method != "pad":
        raise no_derivative_rule(
            f"scipy.signal.filtfilt with method={method!r}", "Use method='pad'"
        )
    x = np.moveaxis(as_array(x), axis, -1)
    count = 3 * max(np.size(np.atleast_1d(a)), np.size(np.atleast_1d(b)))
    extended, edge = _extend_ends(x, count if padlen is None else int(padlen), padtype)
    zi = lfilter_zi(b, a)
    for _ in range(2):
        extended, _state = lfilter(b, a, extended, zi=zi * extended[..., :1])
        extended = np.flip(extended, -1)
    return np.moveaxis(extended[..., edge : np.shape(extended)[-1] - edge], -1, axis)


def _extend_ends(x: Any, edge: int, padtype: Any) -> tuple[Any, int]:
    """The signal, padded by `edge` samples at both ends, and that number; 0 without `padtype`."""
    edge = 0 if padtype is None else edge
    if np.shape(x)[-1] <= edge:
        raise ValueError(
            f"The length of the input vector x must be greater than padlen, which is {edge}."
        )
    if not edge:
        return x, 0
    mode, kind = _PAD_MODES[padtype]
    options = {} if kind is None else {"reflect_type": kind}
    widths = [(0, 0)] * (np.ndim(x) - 1) + [(edge, edge)]
    return np.pad(x, widths, mode, **options), edge  # type: ignore[call-overload]


def _is_normalized_sos(sos: Any) -> Any:
    """Whether each section has a[0] = 1, as SciPy requires."""
    sos = as_array(sos)
    return np.all(sos[:, 3] == 1) if np.ndim(sos) == 2 and np.shape(sos)[1] == 6 else False


@drop_in(scipy.signal)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """The filter given as second-order sections, applied in turn."""
    scipy_raises_unless(_is_normalized_sos(sos), scipy.signal.sosfilt, sos, x, axis, zi)
    sos, states = as_array(sos), []
    for i in range(np.shape(sos)[0]):
        b, a = sos[i, :3], sos[i, 3:]
        if zi is None:
            x = lfilter(b, a, x, axis)
        else:
            x, state = lfilter(b, a, x, axis, as_array(zi)[i])
            states.append(state)
    return x if zi is None else (x, np.stack(states))


@drop_in(scipy.signal)
def sosfilt_zi(sos: Any) -> Any:
    """The states of the sections that reproduce the response to a constant 1."""
    sos, gain, states = as_array(sos), 1.0, []
    if np.ndim(sos) != 2 or np.shape(sos)[1] != 6:
        raise ValueError("sos must be shape (n_sections, 6)")
    for i in range(np.shape(sos)[0]):
        b, a = sos[i, :3], sos[i, 3:]
        states.append(gain * lfilter_zi(b, a))
        gain = gain * np.sum(b) / np.sum(a)
    return np.stack(states)


@drop_in(scipy.signal)
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    """The zero-phase filter given as second-order sections."""
    scipy_raises_unless(
        _is_normalized_sos(sos), scipy.signal.sosfiltfilt, sos, x, axis, padtype, padlen
    )
    sos, x = as_array(sos), np.moveaxis(as_array(x), axis, -1)
    unused = min(int(np.sum(sos[:, 2] == 0)), int(np.sum(sos[:, 5] == 0)))
    count = 3 * (2 * np.shape(sos)[0] + 1 - unused)
    extended, edge = _extend_ends(x, count if padlen is None else int(padlen), padtype)
    zi = np.reshape(sosfilt_zi(sos), (-1,) + (1,) * (np.ndim(x) - 1) + (2,))
    for _ in range(2):
        extended, _state = sosfilt(sos, extended, zi=zi * extended[..., :1])
        extended = np.flip(extended, -1)
    return np.moveaxis(extended[..., edge : np.shape(extended)[-1] - edge], -1, axis)


@drop_in(scipy.signal)
def freqz(
    b: Any,
    a: Any = 1,
    worN: Any = 512,
    whole: bool = False,
    plot: Any = None,
    fs: Any = 2 * math.pi,
    include_nyquist: bool = False,
) -> Any:
    """The frequencies and the filter's response at each."""
    dtypes = [c if isinstance(c, (int, float)) else as_array(c).dtype for c in (b, a)]
    kind = np.result_type(*dtypes, np.complex64)
    b, a = (np.astype(np.atleast_1d(as_array(c)), kind) for c in (b, a))
    if np.ndim(b) != 1 or np.ndim(a) != 1:
        raise no_derivative_rule(
            "scipy.signal.freqz of several filters", "Take one after the other"
        )
    if worN is None or np.ndim(worN) == 0:
        n = 512 if worN is None else int(worN)
        end = 2 * math.pi if whole else math.pi
        w = np.linspace(0, end, n, endpoint=include_nyquist and not whole)
    else:
        w = 2 * math.pi * (as_array(worN) * 1.0) / fs
    powers = np.exp(-1j * np.expand_dims(w, -1) * np.arange(max(np.size(a), np.size(b))))
    powers = np.astype(powers, kind)
    h = (powers[:, : np.size(b)] @ b) / (powers[:, : np.size(a)] @ a)
    w = w * (fs / (2 * math.pi))
    if plot is not None:
        plot(w, h)
    return w, h


@drop_in(scipy.signal)
def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The convolution of matrices; `boundary` says how the first one is padded."""
    a, b = as_array(in1), as_array(in2)
    if not np.ndim(a) == np.ndim(b) == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    if mode == "valid":
        return convolve(a, b, "valid", "direct")
    pads: dict[str, Any] = {
        "fill": ("constant", {"constant_values": fillvalue}),
        "wrap": ("wrap", {}),
        "symm": ("symmetric", {}),
    }
    if boundary not in pads:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symm'")
    how, options = pads[boundary]
    padded = np.pad(a, [(n - 1, n - 1) for n in np.shape(b)], how, **options)
    full = convolve(padded, b, "valid", "direct")
    return crop_to_mode(full, np.shape(a), np.shape(b), mode, (0, 1))


@drop_in(scipy.signal)
def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The correlation of matrices: convolution with the second one reversed and conjugated."""
    a, b = as_array(in1), np.conjugate(as_array(in2))
    if mode == "same":  # the centre of a kernel of even size differs
        full = convolve2d(a, np.flip(b), "full", boundary, fillvalue)
        starts = [n // 2 for n in np.shape(b)]
        return full[tuple(slice(s, s + n) for s, n in zip(starts, np.shape(a), strict=True))]
    y = convolve2d(a, np.flip(b), mode, boundary, fillvalue)
    swapped = any(n > m for n, m in zip(np.shape(b), np.shape(a), strict=True))
    return np.conjugate(y) if mode == "valid" and swapped else y  # SciPy swaps the operands


_SAVGOL_PAD_MODES = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


@drop_in(scipy.signal)
def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: Any = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: Any = 0.0,
) -> Any:
    """The least-squares polynomial in a window around each sample."""
    if mode != "interp" and mode not in _SAVGOL_PAD_MODES:
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    x = np.moveaxis(as_array(x), axis, -1)
    kind = x.dtype if x.dtype.kind in "fc" else np.dtype(float)
    coefficients = scipy.signal.savgol_coeffs(window_length, polyorder, deriv, delta, use="dot")
    coefficients = coefficients.astype(kind)
    half, even = window_length // 2, 1 - window_length % 2
    if mode != "interp":
        options = {"constant_values": cval} if mode == "constant" else {}
        widths = [(0, 0)] * (np.ndim(x) - 1) + [(half - even, half)]
        x = np.pad(x, widths, _SAVGOL_PAD_MODES[mode], **options)  # type: ignore[call-overload]
    elif window_length > np.shape(x)[-1]:
        raise ValueError(
            "If mode is 'interp', window_length must be less than or equal to the size of x."
        )
    windows = np.lib.stride_tricks.sliding_window_view(x, window_length, axis=-1)
    inside = windows @ coefficients
    if mode == "interp" and half:  # the first and last window's polynomials
        ends = scipy.signal.savgol_filter(
            np.eye(window_length), window_length, polyorder, deriv, delta, axis=0
        ).astype(kind)
        first, last = windows[..., 0, :], windows[..., -1, :]
        middle = inside[..., even:]
        parts = [first @ np.transpose(ends[:half]), middle, last @ np.transpose(ends[-half:])]
        inside = np.concatenate(parts, axis=-1)
    return np.moveaxis(inside, -1, axis)
