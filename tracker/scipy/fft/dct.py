"""Cosine and sine transforms (DCT and DST, types 1 to 4), by the Fourier transform of the even or
odd extension of the sequence.

Along an axis, of a sequence x of length n, with j and k from 0:

    DCT 1   x[0] + (-1)^k x[n-1] + 2 sum x[j] cos(pi k j / (n-1)), j from 1 to n-2
    DCT 2   2 sum x[j] cos(pi k (2j+1) / 2n)
    DCT 3   x[0] + 2 sum x[j] cos(pi (2k+1) j / 2n), j from 1
    DCT 4   2 sum x[j] cos(pi (2k+1)(2j+1) / 4n)
    DST 1   2 sum x[j] sin(pi (k+1)(j+1) / (n+1))
    DST 2   2 sum x[j] sin(pi (k+1)(2j+1) / 2n)
    DST 3   (-1)^k x[n-1] + 2 sum x[j] sin(pi (2k+1)(j+1) / 2n), j to n-2
    DST 4   2 sum x[j] sin(pi (2k+1)(2j+1) / 4n)

The inverses of types 1, 2, 3, 4 are types 1, 3, 2, 4, divided by the length of the extension.
`norm="ortho"` makes a transform orthogonal; `orthogonalize=` says whether the end terms are scaled,
too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _unscaled_dct(x: Any, kind: int) -> Any:
    """The transform along the last axis of a real x, without a scale."""
    n = np.shape(x)[-1]
    if kind == 1:
        return np.real(np.fft.rfft(np.concatenate([x, np.flip(x[..., 1:-1], -1)], axis=-1)))
    if kind == 2:
        spectrum = np.fft.rfft(np.concatenate([x, np.flip(x, -1)], axis=-1))[..., :n]
        return np.real(spectrum * np.exp(-0.5j * math.pi / n * np.arange(n)))
    if kind == 3:
        rotated = x * np.exp(0.5j * math.pi / n * np.arange(n))
        full = np.concatenate([rotated, np.zeros_like(rotated[..., :1])], axis=-1)
        return 2 * n * np.fft.irfft(full, 2 * n)[..., :n]
    spectrum = np.fft.fft(x * np.exp(-0.5j * math.pi / n * np.arange(n)), 2 * n)[..., :n]
    return 2 * np.real(spectrum * np.exp(-0.25j * math.pi / n * (2 * np.arange(n) + 1)))


def _unscaled_dst(x: Any, kind: int) -> Any:
    n = np.shape(x)[-1]
    if kind == 1:
        zero = np.zeros_like(x[..., :1])
        odd = np.concatenate([zero, x, zero, -np.flip(x, -1)], axis=-1)
        return -np.imag(np.fft.rfft(odd))[..., 1 : n + 1]
    if kind == 3:  # the reversed cosine transform
        return _alternating_signs(n) * _unscaled_dct(np.flip(x, -1), 3)
    return np.flip(_unscaled_dct(_alternating_signs(n) * x, kind), -1)


def _alternating_signs(n: int) -> Any:
    return (-1.0) ** np.arange(n)


def _orthogonal_ends(kind: int, sine: bool) -> tuple[list[int], list[int]]:
    """The terms that an orthogonal transform scales, before it (types 1, 3) and after it (types 1,
    2)."""
    if sine:
        return ([-1] if kind == 3 else []), ([-1] if kind == 2 else [])
    before = {1: [0, -1], 3: [0]}.get(kind, [])
    return before, {1: [0, -1], 2: [0]}.get(kind, [])


def _real_transform(
    x: Any, kind: int, n: Any, axis: int, norm: Any, ortho: Any, sine: bool, inverse: bool
) -> Any:
    x = np.moveaxis(x, axis, -1)
    x = x if n is None else _crop_or_pad(x, int(n))
    if kind not in _INVERSE:
        raise ValueError(f"invalid DCT or DST type {kind}; 1, 2, 3 and 4 are known")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"Invalid norm value {norm!r}, should be 'backward', 'ortho' or 'forward'")
    if np.shape(x)[-1] < 1 + (kind == 1 and not sine):
        raise ValueError(f"invalid number of data points ({np.shape(x)[-1]}) specified")
    ortho = norm == "ortho" if ortho is None else ortho
    kind = _INVERSE[kind] if inverse else kind
    count = np.shape(x)[-1]
    length = 2 * (count + (kind == 1) * (1 if sine else -1))
    scale = {"ortho": length**-0.5}.get(norm, 1 / length if (norm == "forward") != inverse else 1.0)
    before, after = _orthogonal_ends(kind, sine) if ortho else ([], [])
    given = _scale_entries(x, before, math.sqrt(2))
    y = (_unscaled_dst if sine else _unscaled_dct)(given, kind) * scale
    y = _scale_entries(y, after, math.sqrt(0.5))
    return np.moveaxis(np.astype(y, x.dtype), -1, axis)


def _crop_or_pad(x: Any, n: int) -> Any:
    have = np.shape(x)[-1]
    if n <= have:
        return x[..., :n]
    return np.pad(x, [(0, 0)] * (np.ndim(x) - 1) + [(0, n - have)])


def _scale_entries(x: Any, positions: list[int], factor: float) -> Any:
    if not positions:
        return x
    factors = np.ones(np.shape(x)[-1])
    factors[positions] = factor
    return x * factors


def _define_one_axis(name: str) -> None:
    sine, back = name.endswith("st"), name.startswith("i")

    @drop_in(scipy.fft, name)
    def transform(
        x: Any,
        type: int = 2,
        n: Any = None,
        axis: int = -1,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        return _transform(as_array(x), type, n, axis, norm, orthogonalize, sine, back)


def _transform(
    x: Any, kind: int, n: Any, axis: int, norm: Any, ortho: Any, sine: bool, inverse: bool
) -> Any:
    if np.iscomplexobj(x):  # SciPy ignores orthogonalize= then
        parts = [
            _real_transform(part, kind, n, axis, norm, None, sine, inverse)
            for part in (np.real(x), np.imag(x))
        ]
        return parts[0] + 1j * parts[1]
    x = x if np.dtype(x.dtype).kind == "f" else np.astype(x, float)
    return _real_transform(x, kind, n, axis, norm, ortho, sine, inverse)


def _define_n_axis(name: str) -> None:
    sine, back = "st" in name, name.startswith("i")

    @drop_in(scipy.fft, name)
    def transform(
        x: Any,
        type: int = 2,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        x = as_array(x)
        if axes is None:
            axes = range(-np.ndim(x) if s is None else -np.size(s), 0)
        axes = [int(axis) for axis in np.atleast_1d(axes)]
        lengths = [None] * len(axes) if s is None else np.atleast_1d(s).tolist()
        if len(lengths) != len(axes):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
        for axis, n in zip(axes, lengths, strict=True):
            x = _transform(x, type, n, axis, norm, orthogonalize, sine, back)
        return x


for _name in ("dct", "idct", "dst", "idst"):
    _define_one_axis(_name)
    _define_n_axis(f"{_name}n")
