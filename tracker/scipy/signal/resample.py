"""Polyphase filters and medians, which SciPy compiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.signal

from tracker.errors import warn
from tracker.scipy import ndimage as ndimage
from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.scipy.signal.lfilter import convolve

_rank_filter = DROP_INS[scipy.ndimage]["rank_filter"]


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
    return _rank_filter(x, math.prod(sizes) // 2, size=sizes, mode="constant")


@drop_in(scipy.signal)
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    x = as_array(input)
    sizes = _kernel_sizes(kernel_size, 2)
    return _rank_filter(x, math.prod(sizes) // 2, size=sizes, mode="constant")
