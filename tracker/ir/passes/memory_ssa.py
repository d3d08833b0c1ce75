"""Memory SSA of arrays: which write an element of an array comes from.

A chain is an array and its versions: each `put`, or sum with an `embed`, makes the next version.
For each cell of the chain's array the number of its last write is stored, so that a read is
answered in constant time, however many writes lie between.

- `ArrayWrite` is a version. `value` is the content at its index; None: something was added there.
- `VersionChain.cells` holds the number of the last write of each cell, and is brought up to date by
  reads only. A cell is an element, or all of an axis that is never sliced; in a large array, a
  block of them.

Invariants: an answer is never older than the truth (a cell may count as written when another
element of its block was); a read or write costs no more than the cells that it covers.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Var
from tracker.support.structs import field, record

_MAX_CELLS = 1 << 14  # of a chain
_MAX_BACKTRACK = 8  # writes that are compared one by one, where cells are blocks


@record(frozen=True)
class ArrayWrite:
    """The version `out`, which differs from the one before at a basic index.

    added: what was added to the part, whose content is not known; previous: the number of writes
    when the part got its content before (None: not asked).
    """

    out: Var
    index: tuple[Any, ...]
    value: Atom | None
    added: Atom | None = None
    previous: int | None = None


@record()
class VersionChain:
    """The versions of one array. root: what the first write was made to; None: zeros."""

    root: Atom | None
    shape: tuple[int, ...]
    writes: list[ArrayWrite] = field(default_factory=list)
    cells: Any = None
    blocks: tuple[int, ...] = ()
    applied: int = 0
    partial_axes: set[int] = field(default_factory=set)  # axes that some index slices

    def last_write(self, index: tuple[Any, ...], number: int) -> int:
        """The number of writes after which the part at an index had the content that it has after
        `number` writes; `number` must not be less than in earlier calls."""
        indices = [index, *(write.index for write in self.writes[self.applied : number])]
        cut = {axis for each in indices for axis in partial_axes(each, self.shape)}
        if self.cells is None or not cut <= self.partial_axes:
            self.partial_axes |= cut
            self.blocks = _block_sizes(self.shape, self.partial_axes)
            extents = [-(-n // b) for n, b in zip(self.shape, self.blocks, strict=True)]
            self.cells = np.zeros(extents, np.int32)
            self.applied = 0
        for at in range(self.applied, number):
            self.cells[self._cells_of(self.writes[at].index)] = at + 1
        self.applied = number
        newest = int(np.max(self.cells[self._cells_of(index)], initial=0))
        if max(self.blocks, default=1) > 1:
            return self._skip_disjoint(index, newest)
        return newest

    def _skip_disjoint(self, index: tuple[Any, ...], newest: int) -> int:
        """The same where cells are blocks: a block counts as written for its other elements, as for
        the rows of a table that are written one after another."""
        for _ in range(_MAX_BACKTRACK):
            if not newest or not are_disjoint(index, self.writes[newest - 1].index, self.shape):
                break
            newest -= 1
        return newest

    def _cells_of(self, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """The cells that a basic index touches."""
        parts = [part for part in index if part is not None]
        return tuple(
            [
                part if b == 1 else _block_range(part, n, b)
                for part, n, b in zip(parts, self.shape, self.blocks, strict=True)
            ]
        )


def index_extents(index: tuple[Any, ...], shape: tuple[int, ...]) -> list[int]:
    """How many elements of each axis a canonical basic index selects."""
    parts = [part for part in index if part is not None]
    return [
        len(range(*part.indices(n))) if isinstance(part, slice) else 1
        for part, n in zip(parts, shape, strict=False)
    ]


def partial_axes(index: tuple[Any, ...], shape: tuple[int, ...]) -> list[int]:
    """The axes that a basic index does not select entirely."""
    extents = index_extents(index, shape)
    return [axis for axis, (k, n) in enumerate(zip(extents, shape, strict=False)) if k < n]


class WriteHistory:
    """The chains of a body, and the position of each version in its chain."""

    def __init__(self) -> None:
        self._versions: dict[Atom, tuple[VersionChain, int]] = {}

    def record_put(self, eqn: Eqn) -> None:
        """Enter an equation that writes operand 1 into operand 0."""
        self._append(eqn.operands[0], ArrayWrite(eqn.out, eqn.params["index"], eqn.operands[1]))

    def record_embed(self, eqn: Eqn) -> None:
        """Enter an equation that writes operand 0 into zeros."""
        chain = VersionChain(None, eqn.out.type.shape)
        chain.writes.append(ArrayWrite(eqn.out, eqn.params["index"], eqn.operands[0]))
        self._versions[eqn.out] = (chain, 1)

    def record_add(self, eqn: Eqn, total: Atom, part: Eqn) -> None:
        """Enter the sum of an array and an embed, unless one of them is broadcast."""
        if total.type == eqn.out.type and part.out.type.shape == eqn.out.type.shape:
            index, below = part.params["index"], None
            if part.operands[0].type.size == 1 and (found := self._find(total)) is not None:
                below = found[0].last_write(index, found[1])
            self._append(total, ArrayWrite(eqn.out, index, None, part.operands[0], below))

    def _append(self, base: Atom, write: ArrayWrite) -> None:
        found = self._versions.get(base)
        if found is not None and found[1] == len(found[0].writes) - 1:
            last = found[0].writes[-1]
            if last.index == write.index and last.value is not None and write.value is not None:
                del self._versions[last.out], found[0].writes[-1]  # a write in its place
        if found is None or found[1] < len(
            found[0].writes
        ):  # the first write to this version, or a second one
            found = (VersionChain(base, write.out.type.shape), 0)
        chain = found[0]
        chain.writes.append(write)
        self._versions[write.out] = (chain, len(chain.writes))

    def forget_last(self, x: Atom) -> None:
        """Take back the newest write, if nothing was read since; it will be replaced."""
        found = self._versions.get(x)
        if found is not None and found[1] == len(found[0].writes) > found[0].applied:
            del self._versions[x], found[0].writes[-1]

    def is_version(self, x: Atom) -> bool:
        """Whether an array is a version of a chain."""
        return x in self._versions

    def last_write(self, x: Atom, index: tuple[Any, ...]) -> ArrayWrite | VersionChain | None:
        """The write that x[index] comes from, or the chain if it is the root's.

        None: x is no version, or a newer version was asked about.
        """
        found = self._find(x)
        if found is None:
            return None
        chain, number = found
        newest = chain.last_write(index, number)
        return chain.writes[newest - 1] if newest else chain

    def previous_write(self, x: Atom) -> ArrayWrite | VersionChain | None:
        """The same for the part that the write to x overwrote."""
        found = self._versions.get(x)
        if found is None or not found[1]:
            return None
        chain, number = found
        below = chain.writes[number - 1].previous
        if below is None:
            return None
        return chain.writes[below - 1] if below else chain

    def _find(self, x: Atom) -> tuple[VersionChain, int] | None:
        """The chain and number of a version, if the cells still describe it."""
        found = self._versions.get(x)
        return found if found is not None and found[0].applied <= found[1] else None


def _block_sizes(shape: tuple[int, ...], cut: Collection[int]) -> tuple[int, ...]:
    """How many elements of each axis share a cell: all of an axis that is not sliced."""
    blocks = [1 if axis in cut else max(n, 1) for axis, n in enumerate(shape)]
    while (cells := [-(-n // b) for n, b in zip(shape, blocks, strict=True)]) and math.prod(
        cells
    ) > _MAX_CELLS:
        blocks[cells.index(max(cells))] *= 2
    return tuple(blocks)


def are_disjoint(a: tuple[Any, ...], b: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether two basic indices have no element in common, as far as their bounds tell."""
    pairs = zip([p for p in a if p is not None], [p for p in b if p is not None], strict=True)
    for (one, other), extent in zip(pairs, shape, strict=True):
        low, high = _block_range(one, extent, 1), _block_range(other, extent, 1)
        if low.stop <= high.start or high.stop <= low.start:
            return True
    return False


def _block_range(part: Any, extent: int, block: int) -> slice:
    """The blocks of an axis that an entry of an index touches."""
    if not isinstance(part, slice):
        return slice(part // block, part // block + 1)
    covered = range(*part.indices(extent))
    if not covered:
        return slice(0, 0)
    return slice(min(covered[0], covered[-1]) // block, max(covered[0], covered[-1]) // block + 1)
