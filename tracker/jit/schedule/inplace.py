"""Where changes of arrays are made: in place, where the base's numbers are not needed any more.

Owns: `InPlace`, which the planner asks about each equation: `current` (with operands that can still
be read as they were), `note` (what it reads, and when), `change` (plan a change). What is a change,
and whether its base is needed afterwards, is found in `write_chains.py`.

A `Home` is a buffer that is written into while the function runs. Levels keep order: a change at
level w comes after all reading at levels up to w, for writes are last in a level. What still reads
the buffer without having been stored is
- an expression that would be computed where it is used: `waiting`. A change makes these *stale*:
  whoever uses one from then on has it stored, at the level where it was planned, and reads it from
  memory: what is computed of it must not be computed from the changed buffer either;
- a view, which is another way to read the same memory. When it is used it is asked whether its own
  elements have been written since; then it is copied, at the level where it was taken.

Invariants: a home's levels never decrease; what is stored or copied later on is so at a level that
is not above the change's; each question costs no more than the elements (or blocks) it is about.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.ir.lowering import Pick, Scatter, View
from tracker.ir.types import Bundle
from tracker.jit.schedule.plan_data import (
    Buffer,
    Kernel,
    Place,
    Store,
    Tiny,
    region,
    span,
    whole_place,
)
from tracker.jit.schedule.write_chains import Change, find_changes
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import field, record

_CELLS = 1 << 15  # of a buffer, at most: what was written is known element by element, or by blocks
_TOGETHER = 8  # pieces alike, of one change, that one loop writes: they may be computed of the same
_INT = np.dtype(np.int32)


@record(eq=False)
class Home:
    """A buffer that is written into. `level`: that of its last change; `read`: the highest at which
    what is there now is read; `changes`: how many there were; `log`: places written, of which the
    first `marked` are in `cells` (the number of each cell's last change)."""

    buffer: Buffer
    level: int
    read: int = 0
    changes: int = 0
    waiting: list[Var] = field(default_factory=list)
    log: list[tuple[Place, tuple[int, ...], int]] = field(default_factory=list)
    marked: int = 0
    block: int = 1
    cells: Any = None

    def enter(self, place: Place, shape: tuple[int, ...]) -> None:
        """A part was written, by the change that comes next."""
        self.log.append((place, shape, self.changes + 1))

    def is_written_since(self, changes: int, place: Place, shape: tuple[int, ...]) -> bool:
        """Whether a part may have been written after so many changes."""
        if self.cells is None:
            size = self.buffer.type.size
            self.block = -(-size // _CELLS)
            self.cells = np.zeros(-(-size // self.block), _INT)
        for written, extents, number in self.log[self.marked :]:
            self._covered(written, extents)[...] = number
        self.marked = len(self.log)
        return bool(np.max(self._covered(place, shape), initial=0) > changes)

    def _covered(self, place: Place, shape: tuple[int, ...]) -> Any:
        if self.block == 1:
            strides = [4 * stride for stride in place.strides]
            return np.ndarray(shape, _INT, self.cells, 4 * place.start, strides)
        low, high = span(place, shape)
        return self.cells[low // self.block : -(-high // self.block)]


class InPlace:
    """The homes of one plan, and who reads them."""

    def __init__(self, planner: Any, function: Function, tiny: Tiny) -> None:
        self.planner: Any = weakref.proxy(planner)  # which holds this
        self.tiny = tiny
        self.changes = find_changes(function, tiny)
        self.bases = self.changes.bases
        self.homes: dict[Buffer, Home] = {}
        self.picked: Counter[Buffer] = Counter()
        self.taken: dict[Var, int] = {}  # views: after how many changes
        self.reads: dict[Var, tuple[Home, ...]] = {}  # expressions
        self.stale: set[Var] = set()
        self.renamed: dict[Var, Var] = {}

    def watch(self, place: Place) -> None:
        """Have an input read before its first change, which is made in a copy: that can lie where
        the input does (see `jit/pipeline/loop_carried.py`)."""
        assert place.buffer is not None
        self.homes[place.buffer] = Home(place.buffer, -1)

    # Reading

    def current(self, eqn: Eqn) -> Eqn:
        """The equation, with its operands where they can be read."""
        if not self.homes or eqn.out in self.changes.by:
            return eqn
        operands = tuple([self.fresh(o) for o in eqn.operands])
        if all(new is old for new, old in zip(operands, eqn.operands, strict=True)):
            return eqn
        return Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)

    def fresh(self, atom: Atom) -> Atom:
        """A value that can be read: stored or copied, if what it is read from has changed."""
        if not isinstance(atom, Var):
            return atom
        atom = self.renamed.get(atom, atom)
        if atom in self.stale:
            self.stale.discard(atom)
            kept: Var = self.planner.kept(atom)
            self.renamed[atom] = kept
            return kept
        if atom in self.taken:
            place = self.planner.places[atom]
            home = self.homes[place.buffer]
            if home.is_written_since(self.taken[atom], place, atom.type.shape):
                return self._copied(atom)
        return atom

    def _copied(self, var: Var) -> Var:
        """A copy of a view (or array), made where it was taken."""
        copy: Var = self.planner.duplicate(var)
        self.renamed[var] = copy
        return copy

    def note(self, eqn: Eqn) -> None:
        """Remember from when to when a planned equation reads what."""
        places, out = self.planner.places, eqn.out
        if isinstance(out.type, Bundle):
            level = max([place.ready for place in self.planner.bundles[out]], default=0)
        else:
            place = places[out]
            expression = place.kind == "expression"
            level = place.home.level if expression else place.ready
            if isinstance(eqn.op.lower, Pick):
                self.picked[place.buffer] += 1
            if expression and (found := self._homes_of_all(eqn.operands, level)):
                self.reads[out] = found
                for home in found:
                    home.waiting.append(out)
            elif place.buffer in self.homes:
                self.taken[out] = self.homes[place.buffer].changes
            elif out in self.bases and _is_own(place, out) and self._is_only_name(eqn, place):
                self.homes[place.buffer] = Home(place.buffer, level - 1)
        if self.homes:
            self._read_at(eqn.operands, level)

    def _is_only_name(self, eqn: Eqn, place: Place) -> bool:
        """Whether no other value lives there (a bundle's part may be picked twice)."""
        assert place.buffer is not None
        return not isinstance(eqn.op.lower, View) and self.picked[place.buffer] <= 1

    def _read_at(self, atoms: Any, level: int) -> None:
        for atom in atoms:
            for home in self._homes_of(atom, level):
                home.read = max(home.read, level)

    def _homes_of_all(self, atoms: Any, level: int) -> tuple[Home, ...]:
        if not self.homes:
            return ()
        return tuple(dict.fromkeys(h for atom in atoms for h in self._homes_of(atom, level)))

    def _homes_of(self, atom: Atom, level: int) -> tuple[Home, ...]:
        """The homes that are read for a value at a level."""
        place = self.planner.places.get(atom) if isinstance(atom, Var) else None
        if place is None or place.kind == "tiny":
            return ()
        assert isinstance(atom, Var)
        if place.kind == "expression":
            return () if place.stored and place.ready <= level else self.reads.get(atom, ())
        home = self.homes.get(place.buffer)
        return () if home is None else (home,)

    def version(self, var: Var) -> int:
        """A number that two values in one place share only if they are the same."""
        home = self.homes.get(self.planner.places[var].buffer)
        return 0 if home is None else self.taken.get(var, home.changes)

    # Writing

    def change(self, out: Var, change: Change) -> None:
        """Plan a change: in the base's memory if nobody needs it afterwards, else in a copy."""
        base = None if change.base is None or change.covered else self.fresh(change.base)
        home = self._home_of_base(out, base)
        atoms = {a: self._apart(self.fresh(a), home, change, a) for a in change.atoms}
        planner = self.planner
        for atom in atoms.values() if change.by is not None else ():
            planner.store_if_dear(atom)
        level = max([planner.reach(a) for a in atoms.values() if isinstance(a, Var)], default=0)
        if home is None:
            if isinstance(base, Var):
                level = max(level, planner.reach(base), self._leave(base))
            buffer = planner.buffer(out.type, "scratch")
            home, place = Home(buffer, level), whole_place(buffer)
            self.homes[buffer] = home
            if not change.covered:
                self._steps(level).append(
                    Kernel(out.type.shape, level, [], 0, [Store(base, place)])
                )
                self._read_at([base], level)
        else:
            level = max(level, home.level, home.read)
            place = planner.places[base]
        planner.places[out] = Place(
            "memory", level + 1, 0, None, place.buffer, place.strides, place.start
        )
        self._write(out, change, atoms, planner.places[out], level)
        self._read_at(atoms.values(), level)
        home.level = level
        home.changes += 1
        self.stale.update(home.waiting)
        home.waiting.clear()

    def _leave(self, base: Var) -> int:
        """Have all that still waits to read an input do so before it is copied; the level."""
        home = self.homes.get(self.planner.places[base].buffer)
        if home is None or home.buffer.role != "input":
            return 0
        self.stale.update(home.waiting)
        home.waiting.clear()
        return home.read

    def _home_of_base(self, out: Var, base: Atom | None) -> Home | None:
        """Where the base is, if the change can be made there: not a view of another array."""
        if out not in self.changes.last or not isinstance(base, Var) or base in self.taken:
            return None
        place = self.planner.places[base]
        return self.homes.get(place.buffer) if _is_own(place, base) else None

    def _apart(self, atom: Atom, home: Home | None, change: Change, given: Atom) -> Atom:
        """A value to be written that is not read from where it goes."""
        if home is None or not isinstance(atom, Var):
            return atom
        place = self.planner.places[atom]
        if home not in self._homes_of(atom, place.ready):
            return atom
        if place.kind == "expression":
            self.planner.store(atom)
            return atom
        low, high = span(place, atom.type.shape)
        whole = whole_place(home.buffer)
        for piece in change.pieces:
            shape, target = region(whole, piece.index, home.buffer.type.shape)
            first, end = span(target, shape)
            if piece.atom is given and not (end <= low or high <= first):
                return self._copied(atom)
        return self._copied(atom) if change.by is not None else atom

    def _write(
        self, out: Var, change: Change, atoms: dict[Atom, Atom], place: Place, level: int
    ) -> None:
        assert place.buffer is not None
        steps, home, shape = self._steps(level), self.homes[place.buffer], out.type.shape
        if change.by is not None:
            eqn = change.by
            operands = tuple([atoms.get(o, o) for o in eqn.operands])
            eqn = Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)
            lower = eqn.op.lower
            assert isinstance(lower, Scatter)
            space = lower.space(*(o.type for o in operands), **eqn.params)
            store = Store(operands[lower.value], place, by=eqn)
            steps.append(Kernel(space, level, [], 0, [store]))
            home.enter(place, shape)
        loop = None
        for piece in change.pieces:
            extents, target = region(place, piece.index, shape)
            home.enter(target, extents)
            store = Store(atoms[piece.atom], target, piece.adds)
            if math.prod(extents) <= 1:
                steps.extend([store] * math.prod(extents))
            elif loop is None or loop.space != extents or len(loop.stores) >= _TOGETHER:
                loop = Kernel(extents, level, [], 0, [store])
                steps.append(loop)
            else:
                loop.stores.append(store)

    def _steps(self, level: int) -> Any:
        return self.planner.plan.writes.setdefault(level, [])


def _is_own(place: Place, var: Var) -> bool:
    """Whether a value is all of a buffer of the plan's own."""
    return (
        place.kind == "memory"
        and place.buffer is not None
        and place.buffer.role == "scratch"
        and place.buffer.type.size == var.type.size
        and place.start == 0
        and place.strides == c_strides(var.type.shape)
    )
