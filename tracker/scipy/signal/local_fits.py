"""Polynomials fitted to parts of a signal: trends, Savitzky-Golay smoothing. SciPy solves a
least-squares problem in each call; here its matrix is a constant of the compiled function."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.signal

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.linalg.banded import cho_solve_banded, cholesky_banded


@drop_in(scipy.signal)
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """The signal without its mean ("constant"), or without its least-squares line between break
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


def _solve_banded(ab: Any, b: Any, calc_logdet: bool = False) -> tuple[Any, Any, int]:
    """The solution for a positive definite band, the logarithm of its determinant, and no error."""
    factor = cholesky_banded(ab, lower=True)
    logdet = 2 * np.sum(np.log(factor[0])) if calc_logdet else 0.0
    return cho_solve_banded((factor, True), b), logdet, 0


if hasattr(scipy.signal, "whittaker_henderson"):  # from SciPy 1.18 on
    Rebinding({"_solveh_banded": _solve_banded}).drop_in(scipy.signal, "whittaker_henderson")
