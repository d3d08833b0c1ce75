"""Sliding windows, for convolution and pooling: `windows` and its adjoint, `overlaps`.

With `kernel`, `stride` and `dilation` for the last d dimensions, the windows of an array (..., *S)
are (..., *kernel, *counts): entry (k, o) of a window is position o * stride + k * dilation of S.
`overlaps` adds the entries of windows at the positions they came from. Each is the other's vjp.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tracker.ir.lowering import Scatter, View
from tracker.ir.op import LINEAR, Op
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.tape.record import apply

Ints = tuple[int, ...]


def window_counts(extents: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """The number of windows along each dimension; not positive if the window does not fit."""
    return tuple(
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(extents, kernel, stride, dilation, strict=True)
    )


def _windows_infer(x: Type, *, kernel: Ints, stride: Ints, dilation: Ints) -> Type:
    lead = x.ndim - len(kernel)
    counts = window_counts(x.shape[lead:], kernel, stride, dilation)
    return Type((*x.shape[:lead], *kernel, *counts), x.dtype)


def _windows(x: Any, *, kernel: Ints, stride: Ints, dilation: Ints) -> Any:
    x = np.asarray(x)
    lead = x.ndim - len(kernel)
    steps = x.strides[lead:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:lead], *kernel, *window_counts(x.shape[lead:], kernel, stride, dilation)),
        (
            *x.strides[:lead],
            *(step * d for step, d in zip(steps, dilation, strict=True)),
            *(step * s for step, s in zip(steps, stride, strict=True)),
        ),
        writeable=False,
    )


def _source_position(index: Any, count: int, stride: Ints, dilation: Ints) -> tuple[Any, ...]:
    """The position in the array of a window's entry."""
    lead = len(index) - 2 * count
    along = [
        index[lead + i] * dilation[i] + index[lead + count + i] * stride[i] for i in range(count)
    ]
    return (*index[:lead], *along)


windows: Op = declare(
    "windows",
    infer=_windows_infer,
    evaluate=_windows,
    jvp=LINEAR,
    vjp=[
        lambda g, y, x, *, kernel, **how: apply(
            overlaps, (g,), {"extents": np.shape(x)[np.ndim(x) - len(kernel) :], **how}
        )
    ],
    lower=View(
        lambda e, index, x, *, kernel, stride, dilation: (
            0,
            _source_position(index, len(kernel), stride, dilation),
            None,
        ),
        order="V",
    ),
)


def _overlaps(g: Any, *, extents: Ints, stride: Ints, dilation: Ints) -> Any:
    g = np.asarray(g)
    rank = len(extents)
    lead = g.ndim - 2 * rank
    kernel, counts = g.shape[lead : lead + rank], g.shape[lead + rank :]
    out = np.zeros((*g.shape[:lead], *extents), g.dtype)
    for k in itertools.product(*map(range, kernel)):
        at: Any = tuple(
            slice(i * d, i * d + s * (o - 1) + 1, s)
            for i, d, s, o in zip(k, dilation, stride, counts, strict=True)
        )
        part: Any = (..., *k, *(slice(None),) * rank)
        out[(..., *at)] += g[part]
    return out


overlaps: Op = declare(
    "overlaps",
    infer=lambda g, *, extents, stride, dilation: Type(
        (*g.shape[: g.ndim - 2 * len(extents)], *extents), g.dtype
    ),
    evaluate=_overlaps,
    jvp=LINEAR,
    vjp=[
        lambda g, y, x, *, extents, **how: apply(
            windows,
            (g,),
            {"kernel": np.shape(x)[np.ndim(x) - 2 * len(extents) : -len(extents)], **how},
        )
    ],
    lower=Scatter(
        lambda g, **_: g.shape,
        lambda e, index, g, *, extents, stride, dilation: _source_position(
            index, len(extents), stride, dilation
        ),
        base=None,
        value=0,
        adds=True,
    ),
)
