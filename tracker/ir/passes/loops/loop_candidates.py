"""Windows: repetitions that become a loop, and what their operands are from step to step.

Owns: `LoopCandidate`, and the kinds of `OperandSource` that an operand in it can be: the same value
always (`LoopInvariant`), one of the same repetition (`SameStep`) or of the one before
(`PreviousStep`), literals (`LiteralSequence`), rows of an array from outside (`MovingSlice`), or
what an earlier window made at each of its steps (`OtherLoopResult`). The array that a loop only
writes into, or only adds pieces to, is no carry but a `DeferredUpdates`: its pieces are left for
after the loop. `recurrences.py` finds all of these.

A slot is a step of the period, by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.ir.graph import Atom, Const, Var
from tracker.ir.types import Type
from tracker.support.structs import field, record

_MAX_WIDTH = 8  # places of a window that slides over an array


@record(frozen=True)
class LoopInvariant:
    """The same value in every step."""

    atom: Atom


@record(frozen=True)
class SameStep:
    """What slot `slot` gives in the same step."""

    slot: int


@record(frozen=True)
class PreviousStep:
    """What slot `slot` gave in the step before; `first` in the first step."""

    slot: int
    first: Atom


@record(frozen=True)
class LiteralSequence:
    """Literals."""

    values: tuple[Const, ...]


@record(frozen=True)
class OtherLoopResult:
    """What slot `slot` of another window gave in its step `at_step + by * step`."""

    window: LoopCandidate
    slot: int
    at: int
    by: int


@record(frozen=True)
class WindowIndex:
    """A basic index, whose integers move by `by` from step to step."""

    index: tuple[Any, ...] = field(compare=False)  # its text stands for it: slices have no hash
    by: tuple[int, ...]
    text: str

    @staticmethod
    def of(index: tuple[Any, ...], by: tuple[int, ...]) -> WindowIndex:
        return WindowIndex(index, by, str(index))

    def at_step(self, step: int) -> tuple[Any, ...]:
        """The index in a step."""
        return _shift_index(self.index, [by * step for by in self.by])

    def moving_axis(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Which entry of the index moves, and of which axis, if it is one place along one axis, or
        a few neighbouring ones."""
        entries = [at for at, entry in enumerate(self.index) if entry is not None]
        moving = [axis for axis, by in enumerate(self.by) if by]
        if len(moving) != 1:
            return None
        axis = moving[0]
        entry = self.index[entries[axis]]
        if isinstance(entry, slice):
            covered = range(*entry.indices(shape[axis]))
            if not 1 <= len(covered) <= _MAX_WIDTH or (len(covered) > 1 and covered.step != 1):
                return None
        return entries[axis], axis

    def width(self, entry: int) -> int:
        """How many places an entry of the index names, of those that `moving_axis` allows."""
        found = self.index[entry]
        return found.stop - found.start if isinstance(found, slice) and found.step == 1 else 1

    def nth_position(self, entry: int, at: int) -> WindowIndex:
        """One of the places that an entry names, as a slice."""
        start = self.start(entry) + at
        index = (*self.index[:entry], slice(start, start + 1, 1), *self.index[entry + 1 :])
        return WindowIndex.of(index, self.by)

    def start(self, entry: int) -> int:
        """Where an entry of the index is in the first step."""
        found = self.index[entry]
        start: int = found.start if isinstance(found, slice) else found
        return start


@record(frozen=True)
class MovingSlice:
    """array[place]."""

    array: Var
    index: WindowIndex
    type: Type


OperandSource = (
    LoopInvariant | SameStep | PreviousStep | LiteralSequence | OtherLoopResult | MovingSlice
)


@record(frozen=True)
class DeferredUpdate:
    """A piece that is the same in every step, or what a slot gives, or gave in the step before, is
    written or added at a place."""

    piece: LoopInvariant | SameStep | PreviousStep
    index: WindowIndex
    adds: bool


@record(frozen=True)
class DeferredUpdates:
    """An array that starts as `first`, and into which each step puts pieces; nobody looks at it
    before the loop is over."""

    first: Atom
    updates: tuple[DeferredUpdate, ...]


@record(eq=False)
class LoopCandidate:
    """Repetitions that become a loop: `count` of `period` steps, from step number `start` on.

    sources: of the operands of each slot, a step of the period. carries: slots that the next step
    reads, and their first values. parts: slots that are parts of an array from outside. chains: by
    the slot that gives the array; `removed_slots`: slots that are not in the loop for that reason.
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
    """A basic index, whose integers moved."""
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
