"""Arrays that no entry takes as they lie: byte-swapped, misaligned, fields of records.

`to_native_layout` copies such an array into a layout that machine code takes;
`with_views_of_originals` maps what a result shares with the copy back onto the original's memory.

Invariant: a result that is an argument, or a view of one, in the plain function is one in the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.guards import signature
from tracker.support.array_copies import copy_with_layout, data_address, overlaps_itself

UNSUPPORTED = object()


def to_native_layout(x: Any) -> Any:
    """An array in the layout that native code takes; UNSUPPORTED if its class or dtype rules that
    out."""
    if not isinstance(signature.leaf_of(x), signature.UnsupportedLeaf):
        return x
    if type(x) is not np.ndarray or x.dtype.newbyteorder("=") not in signature.NATIVE_DTYPES:
        return UNSUPPORTED
    if x.flags.writeable and overlaps_itself(x):
        return UNSUPPORTED  # the elements of a copy would not share memory
    copy = copy_with_layout(x)
    if not x.dtype.isnative:
        copy = copy.byteswap(inplace=True).view(x.dtype.newbyteorder("="))
    if not x.flags.writeable:
        copy.flags.writeable = False
    return copy


def with_views_of_originals(result: Any, given: Sequence[Any], copies: Sequence[Any]) -> Any:
    """A result in which views of the copies are replaced by views of the original arrays."""
    pairs = [(x, copy) for x, copy in zip(given, copies, strict=True) if x is not copy]
    leaves, structure = tree.flatten(result)
    placed = [_on_original(leaf, pairs) for leaf in leaves]
    if all(new is old for new, old in zip(placed, leaves, strict=True)):
        return result
    return tree.unflatten(structure, placed, result)


def _on_original(leaf: Any, pairs: list[tuple[Any, Any]]) -> Any:
    if type(leaf) is np.ndarray:
        for x, copy in pairs:
            if leaf is copy:
                return x
            if np.may_share_memory(leaf, copy):
                return _same_view(leaf, copy, x)
    return leaf


def _same_view(view: Any, copy: Any, x: Any) -> Any:
    """The view of `x` that corresponds to a view of its copy."""
    start, within = _index_at(data_address(view) - data_address(copy), copy)
    first = x[tuple(slice(i, i + 1) for i in start)]
    if view.dtype != copy.dtype:  # the real or imaginary part
        first = first.imag if within else first.real
    strides = [0] * view.ndim
    for axis, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if n > 1:
            at, _ = _index_at(data_address(view) + stride - data_address(copy), copy)
            strides[axis] = sum(
                (i - k) * step for i, k, step in zip(at, start, x.strides, strict=True)
            )
    return np.lib.stride_tricks.as_strided(first, view.shape, strides)


def _index_at(offset: int, copy: Any) -> tuple[list[int], int]:
    """The index of a copy's element at an offset in bytes from its first, and the remainder."""
    index = [0] * copy.ndim
    steps = [(abs(s), axis) for axis, s in enumerate(copy.strides) if s and copy.shape[axis] > 1]
    for step, axis in steps:
        if copy.strides[axis] < 0:  # stored from the other end
            offset += (copy.shape[axis] - 1) * step
    for step, axis in sorted(steps, reverse=True):
        index[axis], offset = divmod(offset, step)
        if copy.strides[axis] < 0:
            index[axis] = copy.shape[axis] - 1 - index[axis]
    return index, offset
