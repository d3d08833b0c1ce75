"""Where scratch buffers lie: those whose lives do not overlap share memory.

Owns: `lay_out`. Buffers come in the order in which their lives begin; what has ended leaves a hole,
and the first hole that is large enough serves. A large result whose own memory is written later
than a buffer's life ends has room for that buffer.

Invariant: linear, but for a few holes looked at for each buffer: memory for time, where a program
has very many buffers.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Mapping
from typing import TypeVar

from tracker.records import record

Key = TypeVar("Key")

ALIGNMENT = 64  # bytes
_LOOKS = 64  # holes that are looked at
_ROOMS = 8  # results that are looked at
_WORTH = 1 << 16  # bytes of a buffer that is worth to be found room for in a result


@record(frozen=True)
class Spot:
    """An offset in scratch, or (`room`) in the memory of a result."""

    offset: int
    room: int | None = None


def lay_out(
    lives: Mapping[Key, tuple[int, int, int]], rooms: Mapping[int, tuple[int, int]] | None = None
) -> tuple[int, dict[Key, Spot]]:
    """Bytes of scratch in all, and a spot for each buffer, of (first level, last level, bytes).
    `rooms`: the results that are large, each (first level at which it is written, bytes)."""
    memory = _Memory()
    free = _largest(rooms or {})
    spots: dict[Key, Spot] = {}
    ends: list[tuple[int, int, int, int]] = []  # a heap of (last level, start, end, whose)
    held = [memory, *(inside for _, _, inside in free)]
    for key in sorted(lives, key=lambda key: lives[key][0]):
        first, last, size = lives[key]
        while ends and ends[0][0] < first:
            _, start, end, whose = heapq.heappop(ends)
            held[whose].give(start, end)
        size = max(size, 1)
        found, whose, room = None, 0, None
        for at, (name, written, inside) in enumerate(free if size >= _WORTH else ()):
            if last < written and (found := inside.find(size)) is not None:
                whose, room = at + 1, name
                break
        start, end = found or memory.take(size)
        spots[key] = Spot(start, room)
        heapq.heappush(ends, (last, start, end, whose))
    return memory.most, spots


def _largest(rooms: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, _Memory]]:
    """The largest results, the one that is written first in front: the name of each, when that is,
    and the memory in it."""
    names = heapq.nlargest(_ROOMS, rooms, key=lambda name: rooms[name][1])
    found = [(name, rooms[name][0], _Memory(rooms[name][1])) for name in names]
    return sorted(found, key=lambda room: room[1])


class _Memory:
    """Holes below `top`, in order, never two that touch; none touches the top, which can be
    moved if nobody has said how much memory there is."""

    def __init__(self, size: int = 0) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.top = 0
        self.most = 0
        if size:
            self.take(size + 1)
            self.give(0, size)

    def take(self, size: int) -> tuple[int, int]:
        """Where a buffer of so many bytes lies, and up to where nothing else does."""
        found = self.find(size)
        if found is not None:
            return found
        start = self.top
        self.top += -(-size // ALIGNMENT) * ALIGNMENT
        self.most = max(self.most, self.top)
        return start, self.top

    def find(self, size: int) -> tuple[int, int] | None:
        """Take a hole; None if none is large enough. A result's memory may end anywhere: what is
        as large as the result has room in it."""
        for i in range(min(len(self.starts), _LOOKS)):
            start, most = self.starts[i], self.ends[i]
            if most - start >= size:
                end = min(start + -(-size // ALIGNMENT) * ALIGNMENT, most)
                self.starts[i] = end
                if end == most:
                    del self.starts[i], self.ends[i]
                return start, end
        return None

    def give(self, start: int, end: int) -> None:
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
