"""Discrete Fourier transforms: `np.fft`.

Three ops along one axis, at the full length of the operand: `fourier` (complex, both directions),
`real_fourier` and its inverse `from_half`. The other transforms truncate or pad, axis by axis. The
adjoint of a transform is that of the other direction with the opposite `norm`. Compiled code calls
NumPy's own inner loops directly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.lowering import Expand, no_positions
from tracker.ir.op import LINEAR
from tracker.ir.types import Type
from tracker.ops.along_axis.cumulative import axis_slicer
from tracker.ops.along_axis.sort import on_last_axis
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.dtypes import infer_by_example
from tracker.ops.declare.foreign_ufuncs import LOOP_DTYPE_CHARS, ufunc_call
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.declare.rule_helpers import project
from tracker.ops.shape.create import to_discrete
from tracker.tape.record import apply

_LOOPS = getattr(np.fft, "_pocketfft_umath", None)  # NumPy's inner loops, along rows
_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _evaluate(x: Any, *, axis: int, inverse: bool, norm: Any) -> Any:
    return (np.fft.ifft if inverse else np.fft.fft)(x, axis=axis, norm=norm)


def _infer_transform(evaluate: Any, length: Any = lambda n, params: n) -> Any:
    """The type of a transform: the dtype is found on a single number; `length` is the length along
    the axis."""
    one = infer_by_example(evaluate)

    def infer(x: Type, *, axis: int, **params: Any) -> Type:
        shape = [*x.shape]
        shape[axis] = length(shape[axis], params)
        least = {**params, "n": 1} if "n" in params else params
        return Type(tuple(shape), one(Type((1,), x.dtype), axis=0, **least).dtype)

    return infer


def _memory_order(x: Type, *, axis: int, **_: Any) -> str:
    """Along another axis than the last, the memory layout of the result is NumPy's choice."""
    return "K" if axis == x.ndim - 1 else ""


def _adjoint_transform(g: Any, *, axis: int, inverse: bool, norm: Any) -> Any:
    return apply(fourier, (g,), {"axis": axis, "inverse": not inverse, "norm": _OPPOSITE[norm]})


def _build_transform(
    b: Any, x: Any, axis: int, loop: str, n: int, m: int, norm: str, factor: str
) -> Any:
    """NumPy's own transform of n numbers, a ufunc on rows with m results each; `factor` is the norm
    for which the sum is divided by n."""
    ufunc = getattr(_LOOPS, loop, None)
    dtype = x.type.dtype
    real = np.result_type(dtype.char.lower(), np.float32 if dtype.kind in "fc" else np.float64)
    if ufunc is None or real.char not in LOOP_DTYPE_CHARS or x.type.size == 0:
        return "a Fourier transform"
    row_dtype = real if loop.startswith("rfft") else np.result_type(real, np.complex64)
    divisors = {"ortho": np.sqrt(n, dtype=real), factor: real.type(n)}

    def transformed(rows: Any) -> Any:
        if rows.type.dtype != row_dtype:
            rows = b(to_discrete, rows, dtype=row_dtype)
        core_dims = (rows.type.shape[-1], m)
        scale = np.reciprocal(divisors[norm], dtype=real) if norm in divisors else real.type(1)
        return b(ufunc_call, rows, scale, ufunc=ufunc, at=0, core=core_dims)

    return on_last_axis(b, transformed, x, axis)


def _fourier_build(b: Any, x: Any, *, axis: int, inverse: bool, norm: str) -> Any:
    n = x.type.shape[axis]
    loop, factor = ("ifft", "backward") if inverse else ("fft", "forward")
    return _build_transform(b, x, axis, loop, n, n, norm, factor)


def _real_build(b: Any, x: Any, *, axis: int, norm: str) -> Any:
    n = x.type.shape[axis]
    loop = "rfft_n_odd" if n % 2 else "rfft_n_even"
    return _build_transform(b, x, axis, loop, n, n // 2 + 1, norm, "forward")


fourier = declare(
    "fourier",
    infer=_infer_transform(_evaluate),
    evaluate=_evaluate,
    jvp=LINEAR,
    vjp=[lambda g, y, x, **params: project(_adjoint_transform(g, **params), x)],
    lower=Expand(_fourier_build, _memory_order, no_positions),
)


def _half_spectrum_weights(n: int, shape: tuple[int, ...], axis: int) -> Any:
    """How many elements of the whole spectrum each element of a half spectrum represents: 1 at its
    ends, else 2."""
    weights = np.full(n // 2 + 1, 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return weights.reshape((-1,) + (1,) * (len(shape) - axis - 1))


def _real_vjp(g: Any, y: Any, x: Any, *, axis: int, norm: Any) -> Any:
    n = np.shape(x)[axis]
    params = {"axis": axis, "n": n, "norm": _OPPOSITE[norm]}
    return project(apply(from_half, (g / _half_spectrum_weights(n, np.shape(g), axis),), params), x)


def _half_vjp(g: Any, y: Any, x: Any, *, axis: int, n: int, norm: Any) -> Any:
    c = apply(real_fourier, (g,), {"axis": axis, "norm": _OPPOSITE[norm]})
    return project(c * _half_spectrum_weights(n, np.shape(c), axis), x)


def _real_evaluate(x: Any, *, axis: int, norm: Any) -> Any:
    return np.fft.rfft(x, axis=axis, norm=norm)


def _half_evaluate(x: Any, *, axis: int, n: int, norm: Any) -> Any:
    return np.fft.irfft(x, n, axis, norm)


real_fourier = declare(
    "real_fourier",
    infer=_infer_transform(_real_evaluate, lambda n, params: n // 2 + 1),
    evaluate=_real_evaluate,
    jvp=LINEAR,
    vjp=[_real_vjp],
    lower=Expand(_real_build, _memory_order, no_positions),
)
from_half = declare(
    "from_half",
    infer=_infer_transform(_half_evaluate, lambda n, params: params["n"]),
    evaluate=_half_evaluate,
    jvp=LINEAR,
    vjp=[_half_vjp],
    lower=Expand(
        lambda b, x, *, axis, n, norm: _build_transform(
            b, x, axis, "irfft", n, n, norm, "backward"
        ),
        _memory_order,
        no_positions,
    ),
)


def _resize_axis(a: Any, n: int, axis: int) -> Any:
    """Truncated, or padded with zeros, to n elements along an axis."""
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    length = np.shape(a)[axis]
    at = axis_slicer(axis)
    if length > n:
        return a[at(slice(n))]
    if length < n:
        shape = list(np.shape(a))
        shape[axis] = n - length
        return np.concatenate([a, np.zeros(shape, a.dtype)], axis)
    return a


def _check_norm(norm: Any) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return str(norm)


def _complex_transform(a: Any, n: int | None, axis: int, norm: Any, inverse: bool) -> Any:
    axis = normalize_axis_index(axis, np.ndim(a))
    a = _resize_axis(a, np.shape(a)[axis] if n is None else n, axis)
    return apply(fourier, (a,), {"axis": axis, "inverse": inverse, "norm": _check_norm(norm)})


@implements(np.fft.fft)
def fft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    return store_out(out, _complex_transform(as_array(a), n, axis, norm, inverse=False))


@implements(np.fft.ifft)
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    return store_out(out, _complex_transform(as_array(a), n, axis, norm, inverse=True))


@implements(np.fft.rfft)
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    a = as_array(a)
    if np.iscomplexobj(a):
        raise TypeError("rfft takes real numbers; use np.fft.fft")
    axis = normalize_axis_index(axis, np.ndim(a))
    a = _resize_axis(a, np.shape(a)[axis] if n is None else n, axis)
    return store_out(out, apply(real_fourier, (a,), {"axis": axis, "norm": _check_norm(norm)}))


@implements(np.fft.irfft)
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    a = as_array(a)
    axis = normalize_axis_index(axis, np.ndim(a))
    n = (np.shape(a)[axis] - 1) * 2 if n is None else n
    a, kind = _resize_axis(a, n // 2 + 1 if n > 0 else n, axis), a.dtype
    if not np.iscomplexobj(a):
        a = a + 0j
    y = apply(from_half, (a,), {"axis": axis, "n": int(n), "norm": _check_norm(norm)})
    return store_out(out, np.astype(y, kind) if kind == np.float16 else y)


@implements(np.fft.hfft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    a = as_array(a)
    n = (np.shape(a)[axis] - 1) * 2 if n is None else n
    return irfft(np.conjugate(a), n, axis, _OPPOSITE[_check_norm(norm)], out)


@implements(np.fft.ihfft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    return store_out(out, np.conjugate(rfft(a, n, axis, _OPPOSITE[_check_norm(norm)])))


# Several axes -------------------------------------------------------------------------------------


run_as_written(np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn)
run_as_written(np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2)
run_as_written(np.fft.fftshift, np.fft.ifftshift)
