"""Which write gave a part of an array its newest numbers, asked of a chain of writes.

Owns: `History`. A chain is an array and its versions: each `put` (or sum with an `embed`) makes
the next one. For each cell of a chain's array it is known which write was the last, so that a
reading is answered at once, however many writes lie between.

- A `Write` is one version. `value` is what stands at its index; None: something was added there.
- `Chain.cells` holds the number of the last write of each cell, and is brought up to date by
  readings only. A cell is an element; in a large array, a block of them.

Invariants: an answer is never older than the truth (a cell may say that it was written where
another element of its block was); a reading or write costs no more than the cells that it covers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Var
from tracker.records import field, record

_CELLS = 1 << 14  # of a chain, at most


@record(frozen=True)
class Write:
    """The version `out`, which differs from the one before at a basic index."""

    out: Var
    index: tuple[Any, ...]
    value: Atom | None


@record()
class Chain:
    """The versions of one array. `root`: what the first write was made to; None: zeros."""

    root: Atom | None
    shape: tuple[int, ...]
    writes: list[Write] = field(default_factory=list)
    cells: Any = None
    blocks: tuple[int, ...] = ()
    marked: int = 0

    def newest(self, index: tuple[Any, ...]) -> int:
        """How many writes there were when the part at an index got its newest numbers."""
        if self.cells is None:
            self.blocks = _blocks(self.shape)
            extents = [-(-n // b) for n, b in zip(self.shape, self.blocks, strict=True)]
            self.cells = np.zeros(extents, np.int32)
        for number in range(self.marked, len(self.writes)):
            self.cells[self._covered(self.writes[number].index)] = number + 1
        self.marked = len(self.writes)
        return int(np.max(self.cells[self._covered(index)], initial=0))

    def _covered(self, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """The cells that a basic index touches."""
        parts = [part for part in index if part is not None]
        return tuple(
            [
                part if b == 1 else _of_blocks(part, n, b)
                for part, n, b in zip(parts, self.shape, self.blocks, strict=True)
            ]
        )


class History:
    """The chains of a body, and the place of each version in its own."""

    def __init__(self) -> None:
        self._places: dict[Atom, tuple[Chain, int]] = {}

    def put(self, eqn: Eqn) -> None:
        """Enter an equation that writes operand 1 into operand 0."""
        self._append(eqn.operands[0], Write(eqn.out, eqn.params["index"], eqn.operands[1]))

    def embed(self, eqn: Eqn) -> None:
        """Enter an equation that writes operand 0 into zeros."""
        chain = Chain(None, eqn.out.type.shape)
        chain.writes.append(Write(eqn.out, eqn.params["index"], eqn.operands[0]))
        self._places[eqn.out] = (chain, 1)

    def add(self, eqn: Eqn, total: Atom, part: Eqn) -> None:
        """Enter the sum of an array and an embedded part, unless one of them is broadcast."""
        if total.type == eqn.out.type and part.out.type.shape == eqn.out.type.shape:
            self._append(total, Write(eqn.out, part.params["index"], None))

    def _append(self, base: Atom, write: Write) -> None:
        found = self._places.get(base)
        if found is None or found[1] < len(found[0].writes):  # the first of its writes, or not
            found = (Chain(base, write.out.type.shape), 0)
        chain = found[0]
        chain.writes.append(write)
        self._places[write.out] = (chain, len(chain.writes))

    def source(self, x: Atom, index: tuple[Any, ...]) -> Write | Chain | None:
        """Of x[index], where x is the newest version of its chain: the write that its newest
        numbers come from, or the chain if they are its root's. None: x is no such version."""
        found = self._places.get(x)
        if found is None:
            return None
        chain, number = found
        if number < len(chain.writes):
            return None
        newest = chain.newest(index)
        return chain.writes[newest - 1] if newest else chain


def _blocks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements of each axis share a cell."""
    blocks = [1] * len(shape)
    while (cells := [-(-n // b) for n, b in zip(shape, blocks, strict=True)]) and math.prod(
        cells
    ) > _CELLS:
        blocks[cells.index(max(cells))] *= 2
    return tuple(blocks)


def _of_blocks(part: Any, extent: int, block: int) -> slice:
    """The blocks of an axis that an entry of an index touches."""
    if not isinstance(part, slice):
        return slice(part // block, part // block + 1)
    covered = range(*part.indices(extent))
    if not covered:
        return slice(0, 0)
    return slice(min(covered[0], covered[-1]) // block, max(covered[0], covered[-1]) // block + 1)
