"""Loop candidates: repetitions that can become a loop, and the sources of their operands.

A slot is a step of the period, by its number. Invariant: everything here is data; `recurrences.py`
finds it, `reroll.py` writes the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.ir.graph import Atom, Const, Var
from tracker.ir.types import Type
from tracker.support.structs import field, record

_MAX_WIDTH = 8  # positions of a slice that moves


@record(frozen=True)
class LoopInvariant:
    """The same value in every step."""

    atom: Atom


@record(frozen=True)
class SameStep:
    """The result of a slot in the same step."""

    slot: int


@record(frozen=True)
class PreviousStep:
    """The result of a slot in the step before; `first` in the first step."""

    slot: int
    first: Atom


@record(frozen=True)
class LiteralSequence:
    """A literal per step."""

    values: tuple[Const, ...]


@record(frozen=True)
class OtherLoopResult:
    """The result of a slot of another loop in its step `at + by * step`."""

    candidate: LoopCandidate
    slot: int
    at: int
    by: int


@record(frozen=True)
class MovingIndex:
    """A basic index, `first` in the first step, whose integers move by `by` from step to step."""

    first: tuple[Any, ...] = field(compare=False)  # compared by `text`: slices have no hash
    by: tuple[int, ...]
    text: str

    @staticmethod
    def of(index: tuple[Any, ...], by: tuple[int, ...]) -> MovingIndex:
        return MovingIndex(index, by, str(index))

    def at_step(self, step: int) -> tuple[Any, ...]:
        return _shift_index(self.first, [by * step for by in self.by])

    def every(self, at: int, by: int) -> MovingIndex:
        """The index in the steps at, at + by, ..."""
        return MovingIndex.of(self.at_step(at), tuple([n * by for n in self.by]))

    def moving_axis(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """The entry that moves and its axis, if it is one entry of a few adjacent positions."""
        entries = [at for at, entry in enumerate(self.first) if entry is not None]
        moving = [axis for axis, by in enumerate(self.by) if by]
        if len(moving) != 1:
            return None
        axis = moving[0]
        entry = self.first[entries[axis]]
        if isinstance(entry, slice):
            covered = range(*entry.indices(shape[axis]))
            if not 1 <= len(covered) <= _MAX_WIDTH or (len(covered) > 1 and covered.step != 1):
                return None
        return entries[axis], axis

    def width(self, entry: int) -> int:
        """The number of positions that an entry selects (see `moving_axis`)."""
        found = self.first[entry]
        return found.stop - found.start if isinstance(found, slice) and found.step == 1 else 1

    def nth_position(self, entry: int, at: int) -> MovingIndex:
        """The index with one of the positions that an entry selects, as a slice."""
        start = self.start(entry) + at
        index = (*self.first[:entry], slice(start, start + 1, 1), *self.first[entry + 1 :])
        return MovingIndex.of(index, self.by)

    def start(self, entry: int) -> int:
        """The first position of an entry in the first step."""
        found = self.first[entry]
        start: int = found.start if isinstance(found, slice) else found
        return start


@record(frozen=True)
class MovingSlice:
    """array[index], with an index that moves."""

    array: Var
    index: MovingIndex
    type: Type


OperandSource = (
    LoopInvariant | SameStep | PreviousStep | LiteralSequence | OtherLoopResult | MovingSlice
)


@record(frozen=True)
class DeferredUpdate:
    """A value that is written, or added, to a slice of an array in each step."""

    value: LoopInvariant | SameStep | PreviousStep
    index: MovingIndex
    adds: bool


@record(frozen=True)
class DeferredUpdates:
    """An array that the steps only update, and nothing reads before the end: the loop stacks the
    values instead of carrying the array, and the updates are made after the loop."""

    first: Atom
    updates: tuple[DeferredUpdate, ...]


@record(eq=False)
class LoopCandidate:
    """Repetitions that become a loop: `count` of `period` steps, from step number `start` on.

    sources: of the operands of each slot. carries: the slots that the next step reads, and their
    first values. slices: the slots that are slices of an array from outside. deferred: by the slot
    that gives the array. removed_slots: those that are not in the loop because their updates are
    deferred.
    """

    start: int
    period: int
    count: int
    sources: list[list[OperandSource]] = field(default_factory=list)
    carries: dict[int, Atom] = field(default_factory=dict)
    slices: dict[int, MovingSlice] = field(default_factory=dict)
    deferred: dict[int, DeferredUpdates] = field(default_factory=dict)
    removed_slots: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + self.count * self.period


def _shift_index(index: tuple[Any, ...], by: Sequence[int]) -> tuple[Any, ...]:
    """A basic index with its integers moved."""
    steps = iter(by)
    out: list[Any] = []
    for part in index:
        if part is None:
            out.append(None)
        elif isinstance(part, slice):
            n = next(steps)
            stop = None if part.stop is None else part.stop + n
            out.append(slice(part.start + n, stop, part.step))
        else:
            out.append(part + next(steps))
    return tuple(out)
