"""Allocation of scratch memory: buffers whose lifetimes do not overlap share memory.

First fit in the order in which lifetimes begin. Small buffers may fragment the hole that a large
one needs, so a second layout places the largest buffers first, and the smaller of the two layouts
is taken. A large output that is written only after a buffer's lifetime has ended can hold the
buffer.

Invariant: linear, with at most a constant number of holes examined for each buffer; programs with
very many buffers trade memory for compile time.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping
from typing import TypeVar

from tracker.support.structs import record

Key = TypeVar("Key")

ALIGNMENT = 64  # bytes
_MAX_HOLES = 64  # holes examined for each buffer
_MAX_OUTPUTS = 8  # results examined for each buffer
_LARGEST_FIRST = 64  # buffers that are placed by size
_MIN_OUTPUT_BYTES = 1 << 16  # bytes; smaller buffers are not put into results


@record(frozen=True)
class ScratchAddress:
    """An offset in scratch, or (`output`) in the memory of a result."""

    offset: int
    output: int | None = None


def allocate_scratch(
    lives: Mapping[Key, tuple[int, int, int]], outputs: Mapping[int, tuple[int, int]] | None = None
) -> tuple[int, dict[Key, ScratchAddress]]:
    """The bytes of scratch in all, and the address of each buffer.

    `lives`: (first step, last step, bytes) of each buffer; `outputs`: the large results, each
    (first step at which it is written, bytes). Of two layouts the smaller one: first fit by first
    step, and largest (then longest-lived) first.
    """
    outputs = outputs or {}
    in_order_bytes, in_order = _allocate_by_start(lives, outputs)
    large = heapq.nlargest(
        _LARGEST_FIRST, lives, key=lambda k: (lives[k][2], lives[k][1] - lives[k][0])
    )
    if not in_order_bytes or lives[large[0]][2] < _MIN_OUTPUT_BYTES:
        return in_order_bytes, in_order
    large_bytes, by_size = _allocate_by_size({key: lives[key] for key in large}, outputs)
    taken = {address.output for address in by_size.values()}
    free = {name: room for name, room in outputs.items() if name not in taken}
    rest_bytes, rest = _allocate_by_start(
        {k: life for k, life in lives.items() if k not in by_size}, free
    )
    if large_bytes + rest_bytes >= in_order_bytes:
        return in_order_bytes, in_order
    for key, address in rest.items():
        by_size[key] = (
            address if address.output is not None else ScratchAddress(address.offset + large_bytes)
        )
    return large_bytes + rest_bytes, by_size


def _allocate_by_size(
    lives: Mapping[Key, tuple[int, int, int]], outputs: Mapping[int, tuple[int, int]]
) -> tuple[int, dict[Key, ScratchAddress]]:
    """A layout of a few buffers, each at the lowest offset that is free for its lifetime."""
    total = 0
    addresses: dict[Key, ScratchAddress] = {}
    held: dict[int | None, list[tuple[int, int, int, int]]] = {}  # (start, end, first, last)
    free = [
        (name, outputs[name])
        for name in heapq.nlargest(_MAX_OUTPUTS, outputs, key=lambda k: outputs[k][1])
    ]
    for key, (first, last, nbytes) in lives.items():
        output, start, size = None, -1, max(nbytes, 1)
        for name, (written, bytes_) in free if size >= _MIN_OUTPUT_BYTES else ():
            start = _lowest_gap(held.get(name, ()), first, last, size) if last < written else bytes_
            if start + size <= bytes_:
                output = name
                break
        if output is None:
            start = _lowest_gap(held.get(None, ()), first, last, size)
        end = start + -(-size // ALIGNMENT) * ALIGNMENT
        held.setdefault(output, []).append((start, end, first, last))
        addresses[key] = ScratchAddress(start, output)
        total = max(total, end if output is None else 0)
    return total, addresses


def _lowest_gap(held: Iterable[tuple[int, int, int, int]], first: int, last: int, size: int) -> int:
    """The lowest offset that is free from the first to the last step."""
    at = 0
    for start, end, begins, ends in sorted(held):
        if begins <= last and first <= ends:
            if start - at >= size:
                break
            at = max(at, end)
    return at


def _allocate_by_start(
    lives: Mapping[Key, tuple[int, int, int]], outputs: Mapping[int, tuple[int, int]]
) -> tuple[int, dict[Key, ScratchAddress]]:
    """First fit in the order in which lifetimes begin."""
    memory = _FreeList()
    free = _largest_outputs(outputs)
    addresses: dict[Key, ScratchAddress] = {}
    ends: list[tuple[int, int, int, int]] = []  # a heap of (last step, start, end, memory)
    held = [memory, *(inside for _, _, inside in free)]
    for key in sorted(lives, key=lambda key: lives[key][0]):
        first, last, size = lives[key]
        while ends and ends[0][0] < first:
            _, start, end, memory_number = heapq.heappop(ends)
            held[memory_number].free(start, end)
        size = max(size, 1)
        found, memory_number, output = None, 0, None
        for at, (name, written, inside) in enumerate(free if size >= _MIN_OUTPUT_BYTES else ()):
            if last < written and (found := inside.find_hole(size)) is not None:
                memory_number, output = at + 1, name
                break
        start, end = found or memory.allocate(size)
        addresses[key] = ScratchAddress(start, output)
        heapq.heappush(ends, (last, start, end, memory_number))
    return memory.peak, addresses


def _largest_outputs(outputs: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, _FreeList]]:
    """The largest results, earliest written first: name, first step written, memory."""
    names = heapq.nlargest(_MAX_OUTPUTS, outputs, key=lambda name: outputs[name][1])
    memories = [(name, outputs[name][0], _FreeList(outputs[name][1])) for name in names]
    return sorted(memories, key=lambda room: room[1])


class _FreeList:
    """The holes below `top`, in order, no two adjacent, none adjacent to the top, which can grow
    unless `size` limits it."""

    def __init__(self, size: int = 0) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.top = 0
        self.peak = 0
        if size:
            self.allocate(size + 1)
            self.free(0, size)

    def allocate(self, size: int) -> tuple[int, int]:
        """The start of a buffer of this size, and the end of its memory."""
        found = self.find_hole(size)
        if found is not None:
            return found
        start = self.top
        self.top += -(-size // ALIGNMENT) * ALIGNMENT
        self.peak = max(self.peak, self.top)
        return start, self.top

    def find_hole(self, size: int) -> tuple[int, int] | None:
        """Allocate from a hole; None if none is large enough. The memory of a result may have any
        size: a buffer as large as the result fits."""
        for i in range(min(len(self.starts), _MAX_HOLES)):
            start, hole_end = self.starts[i], self.ends[i]
            if hole_end - start >= size:
                end = min(start + -(-size // ALIGNMENT) * ALIGNMENT, hole_end)
                self.starts[i] = end
                if end == hole_end:
                    del self.starts[i], self.ends[i]
                return start, end
        return None

    def free(self, start: int, end: int) -> None:
        at = bisect.bisect(self.starts, start)
        if at < len(self.starts) and self.starts[at] == end:
            end = self.ends[at]
            del self.starts[at], self.ends[at]
        if at and self.ends[at - 1] == start:
            at -= 1
            start = self.starts[at]
            del self.starts[at], self.ends[at]
        if end == self.top:
            self.top = start
            return
        self.starts.insert(at, start)
        self.ends.insert(at, end)
