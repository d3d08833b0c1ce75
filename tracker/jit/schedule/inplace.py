"""In-place updates.

`y = put(x, v, i)` copies x. Where x is dead afterwards (`write_chains.py`), `InPlaceBuffers` writes
v into x's buffer instead. Readers that would see the new contents (a read-after-write hazard) are
dealt with as follows:
- an expression that reads the buffer and is not stored yet becomes invalidated: its next use stores
  it, at the level where it was planned, and reads the stored value;
- a view records the number of updates before it (its epoch). When the view is used and its own
  elements were written since, it is copied, at the level where it was planned.

Invariants: writes of a level run after its reads; a buffer's level never decreases; what is stored
or copied later is so at a level not above the update's; each query costs no more than the elements
(or blocks of elements) that it covers.
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
    Location,
    Store,
    UnrollLimits,
    buffer_location,
    element_span,
    slice_location,
)
from tracker.jit.schedule.write_chains import Update, find_updates
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import field, record

_MAX_CELLS = 1 << 15  # of a buffer; larger buffers are tracked by blocks of elements
_MAX_STORES = 8  # slices of equal shape that one loop writes: they may share operands
_INT32 = np.dtype(np.int32)


@record(eq=False)
class InPlaceBuffer:
    """A buffer that is updated in place.

    level: that of its last update; read: the highest level at which its current contents are read;
    update_count: updates so far; pending_readers: expressions of it that are not stored; log:
    locations written, the first `applied` of which are entered in `last_update` (the number of each
    cell's last update; a cell is a block of elements).
    """

    buffer: Buffer
    level: int
    read: int = 0
    update_count: int = 0
    pending_readers: list[Var] = field(default_factory=list)
    log: list[tuple[Location, tuple[int, ...], int]] = field(default_factory=list)
    applied: int = 0
    block_size: int = 1
    last_update: Any = None

    def record_write(self, place: Location, shape: tuple[int, ...]) -> None:
        """Record a slice written by the next update."""
        self.log.append((place, shape, self.update_count + 1))

    def is_written_since(self, changes: int, place: Location, shape: tuple[int, ...]) -> bool:
        """Whether a part may have been written after that many updates."""
        if self.last_update is None:
            size = self.buffer.type.size
            self.block_size = -(-size // _MAX_CELLS)
            self.last_update = np.zeros(-(-size // self.block_size), _INT32)
        for written, extents, number in self.log[self.applied :]:
            self._cells_of(written, extents)[...] = number
        self.applied = len(self.log)
        return bool(np.max(self._cells_of(place, shape), initial=0) > changes)

    def _cells_of(self, place: Location, shape: tuple[int, ...]) -> Any:
        if self.block_size == 1:
            strides = [4 * stride for stride in place.strides]
            return np.ndarray(shape, _INT32, self.last_update, 4 * place.start, strides)
        low, high = element_span(place, shape)
        return self.last_update[low // self.block_size : -(-high // self.block_size)]


class InPlaceBuffers:
    """The in-place buffers of one plan, and their readers."""

    def __init__(self, planner: Any, function: Function, tiny: UnrollLimits) -> None:
        self.planner: Any = weakref.proxy(planner)  # the planner owns this object
        self.tiny = tiny
        self.chains = find_updates(function, tiny)
        self.bases = self.chains.bases
        self.buffers: dict[Buffer, InPlaceBuffer] = {}
        self.pick_counts: Counter[Buffer] = Counter()
        self.view_epochs: dict[Var, int] = {}  # views: the number of updates before them
        self.buffers_read: dict[Var, tuple[InPlaceBuffer, ...]] = {}  # of expressions
        self.invalidated: set[Var] = set()
        self.replacements: dict[Var, Var] = {}

    def track_input(self, place: Location) -> None:
        """Have an input read before its first update. The update is made in a copy, which may share
        the input's memory (`jit/pipeline/loop_carried.py`)."""
        assert place.buffer is not None
        self.buffers[place.buffer] = InPlaceBuffer(place.buffer, -1)

    # Reading

    def with_valid_operands(self, eqn: Eqn) -> Eqn:
        """The equation, with operands that can still be read."""
        if not self.buffers or eqn.out in self.chains.updates:
            return eqn
        operands = tuple([self.valid_operand(o) for o in eqn.operands])
        if all(new is old for new, old in zip(operands, eqn.operands, strict=True)):
            return eqn
        return Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)

    def valid_operand(self, atom: Atom) -> Atom:
        """A value that can be read: stored or copied, if the buffer it reads has changed."""
        if not isinstance(atom, Var):
            return atom
        atom = self.replacements.get(atom, atom)
        if atom in self.invalidated:
            self.invalidated.discard(atom)
            kept: Var = self.planner.kept(atom)
            self.replacements[atom] = kept
            return kept
        if atom in self.view_epochs:
            place = self.planner.places[atom]
            home = self.buffers[place.buffer]
            if home.is_written_since(self.view_epochs[atom], place, atom.type.shape):
                return self._copy_view(atom)
        return atom

    def _copy_view(self, var: Var) -> Var:
        """A copy of a view (or array), at the level where it was planned."""
        copy: Var = self.planner.duplicate(var)
        self.replacements[var] = copy
        return copy

    def record_reads(self, eqn: Eqn) -> None:
        """Record which buffers a planned equation reads, and at which level."""
        places, out = self.planner.places, eqn.out
        if isinstance(out.type, Bundle):
            level = max([place.ready for place in self.planner.bundles[out]], default=0)
        else:
            place = places[out]
            expression = place.kind == "expression"
            level = place.home.level if expression else place.ready
            if isinstance(eqn.op.lower, Pick):
                self.pick_counts[place.buffer] += 1
            if expression and (found := self._buffers_of_all(eqn.operands, level)):
                self.buffers_read[out] = found
                for home in found:
                    home.pending_readers.append(out)
            elif place.buffer in self.buffers:
                self.view_epochs[out] = self.buffers[place.buffer].update_count
            elif (
                out in self.bases
                and _is_whole_scratch(place, out)
                and self._is_sole_value(eqn, place)
            ):
                self.buffers[place.buffer] = InPlaceBuffer(place.buffer, level - 1)
        if self.buffers:
            self._mark_read(eqn.operands, level)

    def _is_sole_value(self, eqn: Eqn, place: Location) -> bool:
        """Whether no other value is in that buffer (a bundle's part may be picked twice)."""
        assert place.buffer is not None
        return not isinstance(eqn.op.lower, View) and self.pick_counts[place.buffer] <= 1

    def _mark_read(self, atoms: Any, level: int) -> None:
        for atom in atoms:
            for home in self._buffers_of(atom, level):
                home.read = max(home.read, level)

    def _buffers_of_all(self, atoms: Any, level: int) -> tuple[InPlaceBuffer, ...]:
        if not self.buffers:
            return ()
        return tuple(dict.fromkeys(h for atom in atoms for h in self._buffers_of(atom, level)))

    def _buffers_of(self, atom: Atom, level: int) -> tuple[InPlaceBuffer, ...]:
        """The in-place buffers that a value reads at a level."""
        place = self.planner.places.get(atom) if isinstance(atom, Var) else None
        if place is None or place.kind == "tiny":
            return ()
        assert isinstance(atom, Var)
        if place.kind == "expression":
            return () if place.stored and place.ready <= level else self.buffers_read.get(atom, ())
        home = self.buffers.get(place.buffer)
        return () if home is None else (home,)

    def version(self, var: Var) -> int:
        """A number that two values in one location share only if they are the same."""
        home = self.buffers.get(self.planner.places[var].buffer)
        return 0 if home is None else self.view_epochs.get(var, home.update_count)

    # Writing

    def plan_update(self, out: Var, change: Update) -> None:
        """Plan an update: in the base's memory if the base is dead afterwards, else in a copy."""
        base = None if change.base is None or change.covers_all else self.valid_operand(change.base)
        home = self._buffer_of_base(out, base)
        atoms = {
            a: self._separate_source(self.valid_operand(a), home, change, a) for a in change.values
        }
        planner = self.planner
        for atom in atoms.values() if change.by is not None else ():
            planner.store_if_dear(atom)
        level = max([planner.reach(a) for a in atoms.values() if isinstance(a, Var)], default=0)
        if home is None:
            if isinstance(base, Var):
                level = max(level, planner.reach(base), self._invalidate_readers(base))
            buffer = planner.buffer(out.type, "scratch")
            home, place = InPlaceBuffer(buffer, level), buffer_location(buffer)
            self.buffers[buffer] = home
            if not change.covers_all:
                self._writes_at(level).append(
                    Kernel(out.type.shape, level, [], 0, [Store(base, place)])
                )
                self._mark_read([base], level)
        else:
            level = max(level, home.level, home.read)
            place = planner.places[base]
        planner.places[out] = Location(
            "memory", level + 1, 0, None, place.buffer, place.strides, place.start
        )
        self._add_writes(out, change, atoms, planner.places[out], level)
        self._mark_read(atoms.values(), level)
        home.level = level
        home.update_count += 1
        self.invalidated.update(home.pending_readers)
        home.pending_readers.clear()

    def _invalidate_readers(self, base: Var) -> int:
        """Have all pending readers of an input read it before it is copied; their level."""
        home = self.buffers.get(self.planner.places[base].buffer)
        if home is None or home.buffer.role != "input":
            return 0
        self.invalidated.update(home.pending_readers)
        home.pending_readers.clear()
        return home.read

    def _buffer_of_base(self, out: Var, base: Atom | None) -> InPlaceBuffer | None:
        """The buffer of the base, if the update can be made there: not a view of another array."""
        if out not in self.chains.last or not isinstance(base, Var) or base in self.view_epochs:
            return None
        place = self.planner.places[base]
        return self.buffers.get(place.buffer) if _is_whole_scratch(place, base) else None

    def _separate_source(
        self, atom: Atom, home: InPlaceBuffer | None, change: Update, given: Atom
    ) -> Atom:
        """A value to be written, copied or stored if it would be read from where it goes."""
        if home is None or not isinstance(atom, Var):
            return atom
        place = self.planner.places[atom]
        if home not in self._buffers_of(atom, place.ready):
            return atom
        if place.kind == "expression":
            self.planner.store(atom)
            return atom
        low, high = element_span(place, atom.type.shape)
        whole = buffer_location(home.buffer)
        for piece in change.slices:
            shape, target = slice_location(whole, piece.index, home.buffer.type.shape)
            first, end = element_span(target, shape)
            if piece.value is given and not (end <= low or high <= first):
                return self._copy_view(atom)
        return self._copy_view(atom) if change.by is not None else atom

    def _add_writes(
        self, out: Var, change: Update, atoms: dict[Atom, Atom], place: Location, level: int
    ) -> None:
        assert place.buffer is not None
        steps, home, shape = self._writes_at(level), self.buffers[place.buffer], out.type.shape
        if change.by is not None:
            eqn = change.by
            operands = tuple([atoms.get(o, o) for o in eqn.operands])
            eqn = Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)
            lower = eqn.op.lower
            assert isinstance(lower, Scatter)
            space = lower.update_shape(*(o.type for o in operands), **eqn.params)
            store = Store(operands[lower.value], place, by=eqn)
            steps.append(Kernel(space, level, [], 0, [store]))
            home.record_write(place, shape)
        loop = None
        for piece in change.slices:
            extents, target = slice_location(place, piece.index, shape)
            home.record_write(target, extents)
            store = Store(atoms[piece.value], target, piece.adds)
            if math.prod(extents) <= 1:
                steps.extend([store] * math.prod(extents))
            elif loop is None or loop.space != extents or len(loop.stores) >= _MAX_STORES:
                loop = Kernel(extents, level, [], 0, [store])
                steps.append(loop)
            else:
                loop.stores.append(store)

    def _writes_at(self, level: int) -> Any:
        return self.planner.plan.writes.setdefault(level, [])


def _is_whole_scratch(place: Location, var: Var) -> bool:
    """Whether a value is all of a scratch buffer."""
    return (
        place.kind == "memory"
        and place.buffer is not None
        and place.buffer.role == "scratch"
        and place.buffer.type.size == var.type.size
        and place.start == 0
        and place.strides == c_strides(var.type.shape)
    )
