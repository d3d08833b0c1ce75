"""Memory orders: strides of arrays without gaps, in elements. Start at `k_order_strides`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ops.shape.shape import memory_axes

MemoryOrder = tuple[int, ...] | None  # strides without gaps; None: C order


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements."""
    out = []
    stride = 1
    for extent in reversed(shape):
        out.append(stride)
        stride *= extent
    return tuple(reversed(out))


def k_order_strides(array: Any) -> MemoryOrder:
    """The strides, in elements, of a copy in order "K": no gaps, axes ordered as in `array`; None
    for C order."""
    flags, shape = array.flags, array.shape
    if flags.c_contiguous:
        return None
    if flags.f_contiguous:
        return c_strides(shape[::-1])[::-1]
    axes = memory_axes(array, "K")
    if axes is None:
        return None
    packed = c_strides(tuple(shape[axis] for axis in axes))
    strides = tuple(packed[axes.index(axis)] for axis in range(array.ndim))
    return None if is_c_order(strides, shape) else strides


def is_c_order(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array with these strides is C-contiguous."""
    return nontrivial_strides(strides, shape) == nontrivial_strides(c_strides(shape), shape)


def nontrivial_strides(strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of axes of extent other than 1 (theirs are arbitrary)."""
    return tuple(stride for stride, n in zip(strides, shape, strict=True) if n != 1)


def reversed_along(
    strides: tuple[int, ...], shape: tuple[int, ...], axis: int
) -> tuple[int, tuple[int, ...]]:
    """The start offset and strides that traverse the same memory in reverse along an axis."""
    start = (shape[axis] - 1) * strides[axis]
    return start, (*strides[:axis], -strides[axis], *strides[axis + 1 :])


def is_dense(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array with these (nontrivial) strides has no gaps, in any order of axes."""
    step = 1
    for stride, n in sorted(zip(strides, (n for n in shape if n != 1), strict=True)):
        if stride != step:
            return False
        step *= n
    return True


def in_memory_order(x: Any, order: MemoryOrder) -> Any:
    """A number or array; an array that lies otherwise is copied."""
    if type(x) is not np.ndarray or k_order_strides(x) == order:
        return x
    if order is None:
        return np.ascontiguousarray(x)
    laid = np.ndarray(x.shape, x.dtype, strides=tuple(step * x.itemsize for step in order))
    laid[...] = x
    return laid
