"""Windows: repetitions that become a loop, and what their operands are from step to step.

Owns: `Window`, and the kinds of `Source` that an operand in it can be: the same value always
(`Fixed`), one of the same repetition (`Within`) or of the one before (`Before`), literals
(`Table`), rows of an array from outside (`Part`), or what an earlier window made at each of its
steps (`Residual`). The array that a loop only writes into, or only adds pieces to, is no carry but
a `Chain`: its pieces are left for after the loop. `recurrences.py` finds all of these.

A slot is a step of the period, by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.ir.graph import Atom, Const, Var
from tracker.ir.types import Type
from tracker.support.structs import field, record

_WIDEST = 8  # places of a window that slides over an array


@record(frozen=True)
class Fixed:
    """The same value in every step."""

    atom: Atom


@record(frozen=True)
class Within:
    """What slot `slot` gives in the same step."""

    slot: int


@record(frozen=True)
class Before:
    """What slot `slot` gave in the step before; `first` in the first step."""

    slot: int
    first: Atom


@record(frozen=True)
class Table:
    """Literals."""

    values: tuple[Const, ...]


@record(frozen=True)
class Residual:
    """What slot `slot` of another window gave in its step `at + by * step`."""

    window: Window
    slot: int
    at: int
    by: int


@record(frozen=True)
class Place:
    """A basic index, whose integers move by `by` from step to step."""

    index: tuple[Any, ...] = field(compare=False)  # its text stands for it: slices have no hash
    by: tuple[int, ...]
    text: str

    @staticmethod
    def of(index: tuple[Any, ...], by: tuple[int, ...]) -> Place:
        return Place(index, by, str(index))

    def at(self, step: int) -> tuple[Any, ...]:
        """The index in a step."""
        return _moved(self.index, [by * step for by in self.by])

    def along(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
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
            if not 1 <= len(covered) <= _WIDEST or (len(covered) > 1 and covered.step != 1):
                return None
        return entries[axis], axis

    def width(self, entry: int) -> int:
        """How many places an entry of the index names, of those that `along` allows."""
        found = self.index[entry]
        return found.stop - found.start if isinstance(found, slice) and found.step == 1 else 1

    def column(self, entry: int, at: int) -> Place:
        """One of the places that an entry names, as a slice."""
        start = self.start(entry) + at
        index = (*self.index[:entry], slice(start, start + 1, 1), *self.index[entry + 1 :])
        return Place.of(index, self.by)

    def start(self, entry: int) -> int:
        """Where an entry of the index is in the first step."""
        found = self.index[entry]
        start: int = found.start if isinstance(found, slice) else found
        return start


@record(frozen=True)
class Part:
    """array[place]."""

    array: Var
    place: Place
    type: Type


Source = Fixed | Within | Before | Table | Residual | Part


@record(frozen=True)
class Link:
    """A piece that is the same in every step, or what a slot gives, or gave in the step before, is
    written or added at a place."""

    piece: Fixed | Within | Before
    place: Place
    adds: bool


@record(frozen=True)
class Chain:
    """An array that starts as `first`, and into which each step puts pieces; nobody looks at it
    before the loop is over."""

    first: Atom
    links: tuple[Link, ...]


@record(eq=False)
class Window:
    """Repetitions that become a loop: `count` of `period` steps, from step number `start` on.

    sources: of the operands of each slot, a step of the period. carries: slots that the next step
    reads, and their first values. parts: slots that are parts of an array from outside. chains: by
    the slot that gives the array; `gone`: slots that are not in the loop for that reason.
    """

    start: int
    period: int
    count: int
    sources: list[list[Source]] = field(default_factory=list)
    carries: dict[int, Atom] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + self.count * self.period


def _moved(index: tuple[Any, ...], by: Sequence[int]) -> tuple[Any, ...]:
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
