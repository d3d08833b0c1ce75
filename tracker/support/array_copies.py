"""Private copies of plain arrays, so that later writes by their owner cannot reach the tape.

Invariant: nothing writes into what `snapshot` returns.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tracker.support.weakrefs import removing_ref

_SMALL = 1 << 12  # bytes; below, a new copy is cheaper than the comparison
_copies: dict[int, tuple[weakref.ref[Any], Any]] = {}


def snapshot(x: Any) -> Any:
    """A private copy of an array. A large array that has not changed since it was last copied is
    not copied again."""
    if x.nbytes <= _SMALL:
        return copy_with_layout(x)
    known = _copies.get(id(x))
    if known is not None and known[0]() is x and same_bytes(known[1], x):
        return known[1]
    copy = copy_with_layout(x)
    _copies[id(x)] = (removing_ref(x, _copies), copy)
    return copy


class ArrayHistory:
    """What arrays held in the course of a trace: a copy whenever one was seen changed.

    Times are numbers that grow. The arrays must stay alive: they are known by their ids.
    """

    def __init__(self) -> None:
        self._copies: dict[int, list[tuple[int, Any]]] = {}

    def snapshot(self, array: Any, now: int) -> Any:
        """A copy of what an array holds now, which nothing changes."""
        copies = self._copies.setdefault(id(array), [])
        if not copies or not same_bytes(copies[-1][1], array):
            copies.append((now, copy_with_layout(array)))
        return copies[-1][1]

    def has_changed(self, array: Any) -> bool:
        """Whether an array holds, or held, other numbers than when it was first seen."""
        copies = self._copies.get(id(array), [])
        return len(copies) > 1 or (len(copies) == 1 and not same_bytes(copies[0][1], array))

    def at(self, array: Any, time: int) -> Any:
        """An array as it was then: itself, if it has not changed since it was first seen."""
        if not self.has_changed(array):
            return array
        copies = self._copies[id(array)]
        return next(copy for since, copy in reversed(copies) if since <= time)


def copy_with_layout(x: Any) -> Any:
    """A copy with the memory order of the array: axes keep their order and direction, and there are
    gaps where the array has any. So what NumPy computes from the copy has the same layout, and its
    reshapes are views where the array's are."""
    flags = x.flags
    if flags.c_contiguous or flags.f_contiguous:
        return x.copy("K")
    strides, step, packed = [0] * x.ndim, x.itemsize, x.itemsize
    for axis in sorted(range(x.ndim), key=lambda axis: (abs(x.strides[axis]), -axis)):
        n, stride = x.shape[axis], x.strides[axis]
        if n == 1 or not stride:  # any stride will do; broadcast
            continue
        if abs(stride) != packed:
            step += x.itemsize
        strides[axis] = step if stride > 0 else -step
        step, packed = n * step, n * abs(stride)
    first = sum((n - 1) * -s for n, s in zip(x.shape, strides, strict=True) if s < 0)
    room = np.empty(step // x.itemsize, x.dtype)[first // x.itemsize :]
    copy = np.lib.stride_tricks.as_strided(room, x.shape, strides)
    copy[...] = x
    return copy


def overlaps_itself(x: Any) -> bool:
    """Whether elements of an array may share memory, as in sliding windows."""
    if x.flags.forc or not x.size:
        return False
    room = x.itemsize
    steps = [(abs(stride), n) for n, stride in zip(x.shape, x.strides, strict=True) if n > 1]
    for step, n in sorted(steps):
        if step < room:
            return True
        room += (n - 1) * step
    return False


def same_bytes(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same numbers, NaN for NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "fc":  # compare bits, so that NaN equals itself
        if not (a.flags.c_contiguous and b.flags.c_contiguous) or a.dtype.itemsize not in (4, 8):
            return bool(np.array_equal(a, b, equal_nan=True))
        kind = np.dtype(f"u{a.dtype.itemsize}")
        return bool(np.array_equal(a.view(kind), b.view(kind)))
    return bool(np.array_equal(a, b))


def data_address(array: Any) -> int:
    """The address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address
