"""Strides of arrays without gaps, in elements: C order, and the order of another array's axes.

Owns: `MemoryOrder`, how a result is to lie; `k_order_strides`, which finds it; `c_strides`, and
what is asked about strides. Start at `k_order_strides`.
"""

from __future__ import annotations

from typing import Any

from tracker.ops.shape.shape import memory_axes

MemoryOrder = tuple[int, ...] | None  # strides of an array without gaps; None: C order


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements."""
    out = []
    stride = 1
    for extent in reversed(shape):
        out.append(stride)
        stride *= extent
    return tuple(reversed(out))


def k_order_strides(array: Any) -> MemoryOrder:
    """Strides of an array without gaps whose axes lie in the order of this one's, as NumPy's copies
    in the order "K" do, in elements; None if that is C order."""
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
    """The strides of the axes that matter: one of extent 1 may have any."""
    return tuple(stride for stride, n in zip(strides, shape, strict=True) if n != 1)


def reversed_along(
    strides: tuple[int, ...], shape: tuple[int, ...], axis: int
) -> tuple[int, tuple[int, ...]]:
    """Where the same memory begins, and its strides, for who goes along an axis from its end."""
    start = (shape[axis] - 1) * strides[axis]
    return start, (*strides[:axis], -strides[axis], *strides[axis + 1 :])


def is_dense(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array with these (wide) strides has no gaps, in whatever order its axes lie."""
    step = 1
    for stride, n in sorted(zip(strides, (n for n in shape if n != 1), strict=True)):
        if stride != step:
            return False
        step *= n
    return True
