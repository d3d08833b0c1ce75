"""Convolution, correlation and the linear filter.

Kernels of up to 64 elements are applied as a sum of shifted arrays, longer ones by FFT, as SciPy's
`method="auto"` does. The recursive part of a filter is the op `all_pole`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import conjugated, project
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.tape.record import apply

_MODES = ("full", "same", "valid")
_DIRECT_LIMIT = 64  # size of a kernel up to which convolution is a sum of shifted arrays


@drop_in(scipy.signal)
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The convolution in any number of dimensions; `method` is "direct", "fft" or "auto"."""
    a, b = _operands(in1, in2, mode)
    if np.ndim(a) == 0:
        return a * b
    small = min(np.size(a), np.size(b))
    if small == 0:
        return np.zeros(0)
    if method == "fft" or (method == "auto" and small > _DIRECT_LIMIT):
        full = _round_if_integer(
            _convolve_fft(a, b, tuple(range(np.ndim(a)))), np.result_type(a, b)
        )
    else:
        full = _convolve_direct(a, b) if np.size(a) >= np.size(b) else _convolve_direct(b, a)
    return crop_to_mode(full, np.shape(a), np.shape(b), mode, tuple(range(np.ndim(a))))


@drop_in(scipy.signal)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution by FFT along `axes`; the other axes broadcast."""
    a, b = _operands(in1, in2, mode)
    if np.ndim(a) == 0:
        return a * b
    if np.size(a) == 0 or np.size(b) == 0:
        return np.array([])
    along = tuple(range(np.ndim(a))) if axes is None else tuple(np.atleast_1d(axes).tolist())
    along = tuple(axis % np.ndim(a) for axis in along)
    return crop_to_mode(_convolve_fft(a, b, along), np.shape(a), np.shape(b), mode, along)


@drop_in(scipy.signal)
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """As `fftconvolve`."""
    return fftconvolve(in1, in2, mode, axes)


@drop_in(scipy.signal)
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The cross-correlation: convolution with the second operand reversed and conjugated."""
    a, b = _operands(in1, in2, mode)
    return convolve(a, conjugated(np.flip(b)), mode, method)


def _operands(in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    a, b = as_array(in1), as_array(in2)
    if np.ndim(a) != np.ndim(b):
        raise ValueError(f"in1 has {np.ndim(a)} dimensions, in2 has {np.ndim(b)}")
    if mode not in _MODES:
        raise ValueError(f"acceptable modes are {', '.join(_MODES)}; not {mode!r}")
    return a, b


def _convolve_direct(a: Any, b: Any) -> Any:
    """The full convolution with a small `b`: the sum of shifted copies of `a`."""
    shape = np.shape(b)
    total: Any = None
    for index in np.ndindex(shape):
        room = [(i, n - 1 - i) for i, n in zip(index, shape, strict=True)]
        term = np.pad(a, room) * b[index]
        total = term if total is None else total + term
    return total


def _round_if_integer(y: Any, kind: np.dtype[Any]) -> Any:
    """The result rounded, if the operands were integers."""
    return np.astype(np.rint(y), kind) if kind.kind in "iu" else y


def _convolve_fft(a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """The full convolution by FFT."""
    size = [np.shape(a)[i] + np.shape(b)[i] - 1 for i in axes]
    if np.iscomplexobj(a) or np.iscomplexobj(b):
        return np.fft.ifftn(np.fft.fftn(a, size, axes) * np.fft.fftn(b, size, axes), size, axes)
    return np.fft.irfftn(np.fft.rfftn(a, size, axes) * np.fft.rfftn(b, size, axes), size, axes)


def crop_to_mode(
    full: Any, first: tuple[int, ...], second: tuple[int, ...], mode: str, axes: tuple[int, ...]
) -> Any:
    """The part of the full convolution that the mode keeps."""
    if mode == "full":
        return full
    kept = list(np.shape(full))
    for i in axes:
        kept[i] = first[i] if mode == "same" else abs(first[i] - second[i]) + 1
    if mode == "valid" and len({first[i] >= second[i] for i in axes if first[i] != second[i]}) > 1:
        raise ValueError(
            f"mode='valid' needs one operand at least as large as the other in every dimension; "
            f"the shapes are {first} and {second}"
        )
    starts = [(n - m) // 2 for n, m in zip(np.shape(full), kept, strict=True)]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, kept, strict=True))]


# Filters ------------------------------------------------------------------------------------------


@drop_in(scipy.signal)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """The linear filter with numerator b and denominator a along an axis. With the state `zi` of an
    earlier call, also returns the final state."""
    given = (b, a, x, axis, zi)
    b, a, x = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), as_array(x)
    kinds = {c.dtype.kind for c in (b, a, x, x if zi is None else as_array(zi))}
    scipy_raises_unless(
        a[0] != 0 if kinds & {"f", "c"} else np.shape(a) == (1,), scipy.signal.lfilter, *given
    )
    b, a = b / a[0], a / a[0]
    x = np.moveaxis(x, axis, -1)
    filtered = sum(b[k] * _delayed(x, k) for k in range(np.shape(b)[0]))
    if zi is not None:
        zi = np.moveaxis(as_array(zi), axis, -1)
        filtered = filtered + _state_response(
            zi, np.shape(x), max(np.shape(a)[0], np.shape(b)[0]) - 1
        )
    y = apply(all_pole, (filtered, a)) if np.shape(a)[0] > 1 else filtered
    if zi is None:
        return np.moveaxis(y, -1, axis)
    return np.moveaxis(y, -1, axis), np.moveaxis(_final_state(b, a, x, y, zi), -1, axis)


def _state_response(zi: Any, shape: tuple[int, ...], order: int) -> Any:
    """The response to the initial state: its entry k is added k steps after the start."""
    if np.ndim(zi) != len(shape) or np.shape(zi)[-1] != order:
        raise ValueError(
            f"Unexpected shape for zi: {(*shape[:-1], order)} is needed along the last axis, "
            f"{np.shape(zi)} was given"
        )
    n = shape[-1]
    return np.pad(zi[..., :n], [(0, 0)] * (np.ndim(zi) - 1) + [(0, max(n - order, 0))])


def _final_state(b: Any, a: Any, x: Any, y: Any, zi: Any) -> Any:
    """The state after the last step: entry k is what past samples contribute k steps later."""
    order, n = np.shape(zi)[-1], np.shape(x)[-1]
    zero = np.zeros_like(y[..., 0])
    entries = []
    for k in range(order):
        entry = zi[..., k + n] + zero if k + n < order else zero
        for back in range(min(order - k, n)):
            at = k + 1 + back
            if at < np.shape(b)[0]:
                entry = entry + b[at] * x[..., n - 1 - back]
            if at < np.shape(a)[0]:
                entry = entry - a[at] * y[..., n - 1 - back]
        entries.append(entry)
    return np.stack(entries, axis=-1) if entries else zi


def _delayed(x: Any, k: int) -> Any:
    """x delayed by k steps along the last axis, with zeros in front."""
    n = np.shape(x)[-1]
    if k >= n:
        return np.zeros_like(x)
    return np.pad(x[..., : n - k], [(0, 0)] * (np.ndim(x) - 1) + [(k, 0)])


def _run_all_pole(w: Any, a: Any) -> Any:
    return apply(all_pole, (w, a))


def _run_adjoint(g: Any, a: Any) -> Any:
    """The transposed filter matrix times g: the filter, run backwards in time."""
    return np.flip(_run_all_pole(np.flip(g, -1), conjugated(a)), -1)


def _denominator_vjp(g: Any, y: Any, w: Any, a: Any) -> Any:
    q = conjugated(_run_adjoint(g, a))
    parts = [-np.sum(q * _delayed(y, k)) for k in range(np.shape(a)[0])]
    return project(conjugated(np.stack(parts)), a)


def _denominator_jvp(t: Any, y: Any, w: Any, a: Any) -> Any:
    return _run_all_pole(-sum(t[k] * _delayed(y, k) for k in range(np.shape(a)[0])), a)


def _all_pole_dtype(w: Any, a: Any) -> np.dtype[Any]:
    both = np.result_type(w.dtype, a.dtype)
    return np.dtype(float) if both.kind in "biu" else both


def _evaluate_all_pole(w: Any, a: Any) -> Any:
    kind = _all_pole_dtype(w, a)
    return scipy.signal.lfilter(np.ones(1, kind), a.astype(kind), w.astype(kind))


# The solution y of y[n] = w[n] - a[1] y[n - 1] - ..., along the last axis; a[0] is 1.
all_pole = declare(
    "all_pole",
    infer=lambda w, a: Type(w.shape, _all_pole_dtype(w, a)),
    evaluate=_evaluate_all_pole,
    jvp=[lambda t, y, w, a: _run_all_pole(t, a), _denominator_jvp],
    vjp=[lambda g, y, w, a: project(_run_adjoint(g, a), w), _denominator_vjp],
    lower=Host("SciPy's lfilter"),
)
