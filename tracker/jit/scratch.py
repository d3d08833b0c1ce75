"""Where scratch buffers lie: those whose lives do not overlap share memory.

Owns: `lay_out`. Buffers come in the order in which their lives begin; what has ended leaves a hole,
and the first hole that is large enough serves.

Invariant: linear, but for a few holes looked at for each buffer: memory for time, where a program
has very many buffers.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")

ALIGNMENT = 64  # bytes
_LOOKS = 64  # holes that are looked at


def lay_out(lives: Mapping[Key, tuple[int, int, int]]) -> tuple[int, dict[Key, int]]:
    """Bytes in all, and an offset for each buffer, of (first level, last level, bytes)."""
    memory = _Memory()
    offsets: dict[Key, int] = {}
    ends: list[tuple[int, int, int]] = []  # a heap of (last level, start, end)
    for key in sorted(lives, key=lambda key: lives[key][0]):
        first, last, size = lives[key]
        while ends and ends[0][0] < first:
            _, start, end = heapq.heappop(ends)
            memory.give(start, end)
        size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        start = offsets[key] = memory.take(size)
        heapq.heappush(ends, (last, start, start + size))
    return memory.most, offsets


class _Memory:
    """Holes below `top`, in order, never two that touch; none touches the top."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.top = 0
        self.most = 0

    def take(self, size: int) -> int:
        for i in range(min(len(self.starts), _LOOKS)):
            start = self.starts[i]
            if self.ends[i] - start >= size:
                self.starts[i] += size
                if self.starts[i] == self.ends[i]:
                    del self.starts[i], self.ends[i]
                return start
        start = self.top
        self.top += size
        self.most = max(self.most, self.top)
        return start

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
