"""Convolution and pooling in the layout NCHW, for one to three spatial dimensions.

Each function takes windows of the padded input (`ops/shape/windows.py`) and reduces them by a
matrix product, a maximum or a mean. Start at `conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.errors import message
from tracker.ops.declare.arguments import as_array
from tracker.ops.reduce.reduce import max_
from tracker.ops.shape.windows import window_counts, windows
from tracker.tape.record import apply, aval_of

if TYPE_CHECKING:
    from tracker.support.type_variables import AnyArray

Size = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]


def conv(
    x: Any,
    w: Any,
    *,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    groups: int = 1,
    flipped: bool = False,
) -> AnyArray:
    """The correlation of deep learning, with kernels that are shared by all positions.

    Parameters
    ----------
    x : array_like
        Shape `(N, C, *spatial)`.
    w : array_like
        Shape `(O, C / groups, *kernel)`.
    stride, dilation : int or tuple of int
        For all spatial dimensions, or one for each.
    padding : int, tuple, or {'valid', 'same'}
        A number of zeros, one per dimension, a pair per dimension, 'valid' (none) or 'same' (as
        many as keep the extents at stride 1).
    groups : int
        The channels of x and w are divided into so many groups, in order.
    flipped : bool
        Whether the kernel runs backwards: the mathematical convolution (NNlib's default).

    Returns
    -------
    Of shape `(N, O, *counts)`.

    Notes
    -----
    `y[n, o, p]` is the sum over c, k of `w[o, c, k] * x[n, c, p*stride + k*dilation - padding]`.

    Examples
    --------
    >>> conv(np.ones((1, 1, 4)), np.array([[[1.0, 2.0]]]))
    array([[[3., 3., 3.]]])
    """
    x, w = as_array(x), as_array(w)
    rank = _spatial_rank("conv", x)
    if np.ndim(w) != rank + 2 or np.shape(x)[1] != groups * np.shape(w)[1]:
        raise ValueError(
            message(
                f"conv of shape {np.shape(x)} with weights of shape {np.shape(w)} in {groups} "
                "group(s)",
                "Give x (N, C, *spatial) and w (O, C / groups, *kernel)",
            )
        )
    outputs, depth, *kernel = np.shape(w)
    if outputs % groups:
        raise ValueError(
            message(f"{outputs} output channels cannot be divided into {groups} groups")
        )
    if flipped:
        w = w[(..., *(slice(None, None, -1),) * rank)]
    dilated = _sizes("dilation", dilation, rank)
    patches = _windows(
        "conv", x, tuple(kernel), _sizes("stride", stride, rank), padding, dilated, 0.0
    )
    count, counts = np.shape(x)[0], np.shape(patches)[2 + rank :]
    if groups > 1 and depth == 1:  # products of single rows: a sum is faster
        taps = np.reshape(patches, (count, groups, 1, prod(kernel), prod(counts)))
        rows = np.reshape(w, (groups, outputs // groups, prod(kernel), 1))
        y = np.sum(taps * rows, axis=3)
    else:
        inner = depth * prod(kernel)
        group_axes = (groups,) if groups > 1 else ()
        y = np.matmul(
            np.reshape(w, (*group_axes, outputs // groups, inner)),
            np.reshape(patches, (count, *group_axes, inner, prod(counts))),
        )
    return np.reshape(y, (count, outputs, *counts))


def depthwiseconv(
    x: Any,
    w: Any,
    *,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    flipped: bool = False,
) -> AnyArray:
    """`conv` of each channel for itself.

    Parameters
    ----------
    x : array_like
        Shape `(N, C, *spatial)`.
    w : array_like
        Shape `(C * multiplier, 1, *kernel)`.
    stride, padding, dilation, flipped
        As for `conv`.

    Returns
    -------
    Of shape `(N, C * multiplier, *counts)`.

    Examples
    --------
    >>> depthwiseconv(np.ones((1, 2, 3)), np.array([[[1.0, 1.0]], [[1.0, 2.0]]]))
    array([[[2., 2.],
            [3., 3.]]])
    """
    return conv(
        x,
        w,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=np.shape(x)[1],
        flipped=flipped,
    )


def maxpool(x: Any, k: Size, *, stride: Size | None = None, padding: Padding = 0) -> AnyArray:
    """The largest entry of each window of extent `k`, which moves by `stride` (k, if None).

    Parameters
    ----------
    x : array_like
        Shape `(N, C, *spatial)`.
    k : int or tuple of int
        The extents of the window.
    stride : int or tuple of int, optional
        How far it moves; by default `k`.
    padding
        As for `conv`; it never wins.

    Returns
    -------
    Of shape `(N, C, *counts)`.

    Notes
    -----
    Where several entries attain the maximum, they share its gradient equally, as in `np.max`.

    Examples
    --------
    >>> maxpool(np.array([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    array([[[3., 2.]]])
    """
    x = as_array(x)
    kind = np.result_type(aval_of(x))
    least = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    patches, axes = _pooled("maxpool", x, k, stride, padding, least)
    return apply(max_, (patches,), {"axis": axes, "keepdims": False})  # type: ignore[no-any-return]


def meanpool(x: Any, k: Size, *, stride: Size | None = None, padding: Padding = 0) -> AnyArray:
    """The mean of each window of extent `k`, which moves by `stride` (k, if None).

    Parameters
    ----------
    x : array_like
        Shape `(N, C, *spatial)`.
    k : int or tuple of int
        The extents of the window.
    stride : int or tuple of int, optional
        How far it moves; by default `k`.
    padding
        As for `conv`; its zeros are counted.

    Returns
    -------
    Of shape `(N, C, *counts)`.

    Examples
    --------
    >>> meanpool(np.array([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    array([[[2., 1.]]])
    """
    mean: np.ndarray[Any, Any] = np.mean(*_pooled("meanpool", as_array(x), k, stride, padding, 0))
    return mean


def _pooled(
    function: str, x: Any, k: Size, stride: Size | None, padding: Padding, fill: Any
) -> tuple[Any, tuple[int, ...]]:
    """The windows, and the axes to reduce."""
    rank = _spatial_rank(function, x)
    kernel = _sizes("k", k, rank)
    steps = kernel if stride is None else _sizes("stride", stride, rank)
    extents = np.shape(x)[2:]
    tiles = all(n % k == 0 and n for n, k in zip(extents, kernel, strict=True))
    if tiles and steps == kernel and not any(map(any, _edges(padding, kernel, (1,) * rank))):
        pairs = [(n // k, k) for n, k in zip(extents, kernel, strict=True)]
        tiled = np.reshape(x, (*np.shape(x)[:2], *(n for pair in pairs for n in pair)))
        return tiled, tuple(range(3, 3 + 2 * rank, 2))
    patches = _windows(function, x, kernel, steps, padding, (1,) * rank, fill)
    return patches, tuple(range(2, 2 + rank))


def _spatial_rank(function: str, x: Any) -> int:
    rank = np.ndim(x) - 2
    if not 1 <= rank <= 3:
        raise ValueError(
            message(
                f"{function} of an array of shape {np.shape(x)}",
                "Give (N, C, *spatial) with one to three spatial dimensions",
            )
        )
    return rank


def _sizes(name: str, size: Size, rank: int) -> tuple[int, ...]:
    sizes = (int(size),) * rank if np.ndim(size) == 0 else tuple(int(n) for n in size)  # type: ignore[arg-type, union-attr]
    if len(sizes) != rank or min(sizes) < 1:
        raise ValueError(
            message(f"{name}={size!r} for {rank} spatial dimension(s)", "Give positive integers")
        )
    return sizes


def _windows(
    function: str,
    x: Any,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: Padding,
    dilation: tuple[int, ...],
    fill: Any,
) -> Any:
    """The windows (N, C, *kernel, *counts) of the padded array."""
    edges = _edges(padding, kernel, dilation)
    if any(map(any, edges)):
        x = np.pad(x, ((0, 0), (0, 0), *edges), constant_values=fill)
    if min(window_counts(np.shape(x)[2:], kernel, stride, dilation)) < 1:
        raise ValueError(
            message(f"{function}: a window of extents {kernel} does not fit into {np.shape(x)[2:]}")
        )
    return apply(windows, (x,), {"kernel": kernel, "stride": stride, "dilation": dilation})


def _edges(
    padding: Padding, kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> list[tuple[int, int]]:
    """The padding before and after, along each spatial dimension."""
    rank = len(kernel)
    if padding == "valid":
        return [(0, 0)] * rank
    if padding == "same":
        wide = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
        return [(n // 2, n - n // 2) for n in wide]
    each: Any = (padding,) * rank if np.ndim(padding) == 0 else padding
    try:
        edges = [(int(p), int(p)) if np.ndim(p) == 0 else (int(p[0]), int(p[1])) for p in each]
    except (TypeError, ValueError, IndexError):
        edges = []
    if len(edges) != rank or min(map(min, edges)) < 0:
        raise ValueError(
            message(
                f"padding={padding!r} for {rank} spatial dimension(s)",
                "Give a number, one per dimension, a pair per dimension, 'same' or 'valid'",
            )
        )
    return edges
