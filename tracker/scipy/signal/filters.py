"""Filters built from `lfilter` and `convolve`: second-order sections, frequency responses,
convolution of matrices. SciPy's are compiled, or branch on coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.signal.lfilter import convolve, crop_to_mode, lfilter
from tracker.tape.tracing.value_guards import speculate_bool


@drop_in(scipy.signal)
def lfilter_zi(b: Any, a: Any) -> Any:
    """The filter state that reproduces the response to a constant 1. (SciPy's function has no
    derivative in a[0] where that is 1.)"""
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
def lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> Any:
    """The filter state after outputs y and inputs x, the latest first. (SciPy's function has no
    derivative in a[0] where that is 1.)"""
    b, a = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a))
    scipy_raises_unless(a[0] != 0, scipy.signal.lfiltic, b, a, y, x)
    n, m = np.size(a) - 1, np.size(b) - 1
    y = _padded(y, n)
    x = _padded(y[:0] if x is None else x, m)
    state = [
        np.sum(b[k + 1 :] * x[: max(m - k, 0)]) - np.sum(a[k + 1 :] * y[: max(n - k, 0)])
        for k in range(max(n, m))
    ]
    return np.stack(state) / a[0] if state else np.zeros(0)


def _padded(x: Any, size: int) -> Any:
    x = as_array(x) * 1.0
    return np.pad(x, (0, max(0, size - np.size(x))))


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
