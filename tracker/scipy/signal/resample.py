"""Polyphase resampling (upfirdn, resample_poly, decimate), medians, and the Wiener filter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.signal

from tracker.errors import warn
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy.ndimage import rank_filter
from tracker.scipy.signal.filters import sosfilt, sosfiltfilt
from tracker.scipy.signal.lfilter import convolve, correlate


@drop_in(scipy.signal)
def upfirdn(
    h: Any,
    x: Any,
    up: int = 1,
    down: int = 1,
    axis: int = -1,
    mode: str = "constant",
    cval: Any = 0,
) -> Any:
    """Insert `up - 1` zeros between samples, apply the filter h, keep every `down`-th sample."""
    if mode != "constant" or cval:
        raise no_derivative_rule(
            "scipy.signal.upfirdn with mode= or cval=", "Pad the signal with np.pad"
        )
    h, x = as_array(h), np.moveaxis(as_array(x), axis, -1)
    if np.ndim(h) != 1 or np.size(h) == 0:
        raise ValueError("h must be 1-D with non-zero length")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    n = np.shape(x)[-1]
    spread = np.reshape(
        np.pad(np.expand_dims(x, -1), [(0, 0)] * np.ndim(x) + [(0, up - 1)]),
        (*np.shape(x)[:-1], n * up),
    )[..., : (n - 1) * up + 1]
    full = convolve(spread, np.reshape(h, (1,) * (np.ndim(x) - 1) + (-1,)))
    return np.moveaxis(full[..., ::down], -1, axis)


_BACKGROUNDS: dict[str, Any] = {
    "mean": np.mean,
    "median": np.median,
    "minimum": np.min,
    "maximum": np.max,
}


@drop_in(scipy.signal)
def resample_poly(
    x: Any,
    up: int,
    down: int,
    axis: int = 0,
    window: Any = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: Any = None,
) -> Any:
    """`up / down` times as many samples, by a polyphase filter."""
    x = as_array(x)
    if up != int(up) or down != int(down):
        raise ValueError("up and down must be integers")
    if up < 1 or down < 1:
        raise ValueError("up and down must be >= 1")
    if cval is not None and padtype != "constant":
        raise ValueError("cval has no effect when padtype is ", padtype)
    if padtype not in ("constant", *_BACKGROUNDS) or cval:
        raise no_derivative_rule(
            f"scipy.signal.resample_poly with padtype={padtype!r}, cval={cval!r}"
        )
    common = math.gcd(int(up), int(down))
    up, down = int(up) // common, int(down) // common
    if up == down == 1:
        return 1 * x
    n = np.shape(x)[axis]
    count = -(-n * up // down)
    if isinstance(window, (str, tuple)):
        half = 10 * max(up, down)
        h = scipy.signal.firwin(2 * half + 1, 1.0 / max(up, down), window=window)
        h = h.astype(x.dtype) if x.dtype.kind in "fc" else h
    else:
        h = as_array(window)
        if np.ndim(h) > 1:
            raise ValueError("window must be 1-D")
        half = (np.size(h) - 1) // 2
    before = down - half % down
    skipped = (half + before) // down
    missing = (count + skipped - 1) * down + 1 - ((n - 1) * up + np.size(h) + before)
    h = np.pad(h * up, (before, max(missing, 0)))
    background = 0.0
    if padtype != "constant":
        background = _BACKGROUNDS[padtype](x, axis=axis, keepdims=True)
        x = x - background
    y = np.moveaxis(upfirdn(h, x, up, down, axis), axis, -1)[..., skipped : skipped + count]
    y = np.moveaxis(y, -1, axis)
    return y if padtype == "constant" else y + background


@drop_in(scipy.signal)
def decimate(
    x: Any, q: int, n: Any = None, ftype: Any = "iir", axis: int = -1, zero_phase: bool = True
) -> Any:
    """Every q-th sample after an anti-aliasing filter."""
    x = as_array(x)
    kind = x.dtype if x.dtype.kind in "fc" and x.dtype != np.float16 else np.dtype(float)
    if ftype == "fir":
        b = scipy.signal.firwin(20 * q + 1 if n is None else n + 1, 1.0 / q, window="hamming")
        b = b.astype(kind)
        if zero_phase:
            return resample_poly(x, 1, q, axis=axis, window=b)
        y = np.moveaxis(upfirdn(b, x, 1, q, axis), axis, -1)
        return np.moveaxis(y[..., : -(-np.shape(x)[axis] // q)], -1, axis)
    if ftype != "iir":
        if isinstance(ftype, str):
            raise ValueError("invalid ftype")
        raise no_derivative_rule(
            "scipy.signal.decimate with a system for ftype", "Use 'iir' or 'fir'"
        )
    sos = scipy.signal.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos").astype(kind)
    y = (sosfiltfilt if zero_phase else sosfilt)(sos, x, axis=axis)
    return np.moveaxis(np.moveaxis(y, axis, -1)[..., ::q], -1, axis)


# Without noise ------------------------------------------------------------------------------------


def _kernel_sizes(size: Any, ndim: int) -> list[int]:
    sizes = [3] * ndim if size is None else np.broadcast_to(size, (ndim,)).tolist()
    if any(n % 2 != 1 for n in sizes):
        raise ValueError("Each element of kernel_size should be odd.")
    return sizes


@drop_in(scipy.signal)
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """The median of the neighbours, with zeros beyond the edges."""
    x = np.atleast_1d(as_array(volume))
    sizes = _kernel_sizes(kernel_size, np.ndim(x))
    if any(k > n for k, n in zip(sizes, np.shape(x), strict=True)):
        text = "kernel_size exceeds volume extent: the volume will be zero-padded."
        warn(text, UserWarning)
    return rank_filter(x, math.prod(sizes) // 2, size=sizes, mode="constant")


@drop_in(scipy.signal)
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    x = as_array(input)
    sizes = _kernel_sizes(kernel_size, 2)
    return rank_filter(x, math.prod(sizes) // 2, size=sizes, mode="constant")


@drop_in(scipy.signal)
def wiener(im: Any, mysize: Any = None, noise: Any = None) -> Any:
    """The local mean plus the deviation from it, scaled by how far the local variance exceeds the
    noise."""
    x = as_array(im)
    sizes = [3] * np.ndim(x) if mysize is None else np.broadcast_to(mysize, (np.ndim(x),)).tolist()
    ones, count = np.ones(sizes), float(math.prod(sizes))
    mean = correlate(x, ones, "same") / count
    variance = correlate(np.square(x), ones, "same") / count - np.square(mean)
    noise = np.mean(variance) if noise is None else noise
    quiet = variance < noise
    rest = (x - mean) * (1 - noise / np.where(quiet, 1.0, variance))
    return np.where(quiet, mean, rest + mean)
