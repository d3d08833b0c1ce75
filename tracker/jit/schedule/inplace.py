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
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.ir.lowering import Pick, Scatter, View
from tracker.ir.types import Bundle, Type
from tracker.jit.schedule.placement import Placement
from tracker.jit.schedule.plan_data import (
    Buffer,
    Expression,
    InMemory,
    Kernel,
    Location,
    Store,
    Unrolled,
    UnrollLimits,
    buffer_location,
    element_span,
    is_in_memory,
    slice_location,
)
from tracker.jit.schedule.write_chains import Update, find_updates, index_size
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import field, record

_MAX_CELLS = 1 << 15  # of a buffer; larger buffers are tracked by blocks of elements
_MAX_STORES = 8  # slices of equal shape that one loop writes: they may share operands
_INT32 = np.dtype(np.int32)


@record(eq=False)
class InPlaceBuffer:
    """A buffer that is updated in place.

    level: that of its last update; read_level: the highest level at which its current contents are
    read; update_count: updates so far; pending_readers: expressions of it that are not stored;
    writes: locations written, the first `applied` of which are entered in `last_update` (the number
    of each cell's last update; a cell is a block of elements).
    """

    buffer: Buffer
    level: int
    read_level: int = 0
    update_count: int = 0
    pending_readers: list[Var] = field(default_factory=list)
    writes: list[tuple[Location, tuple[int, ...], int]] = field(default_factory=list)
    applied: int = 0
    block_size: int = 1
    last_update: Any = None

    def record_write(self, location: Location, shape: tuple[int, ...]) -> None:
        """Record a slice written by the next update."""
        self.writes.append((location, shape, self.update_count + 1))

    def is_written_since(self, count: int, location: Location, shape: tuple[int, ...]) -> bool:
        """Whether a part may have been written after that many updates."""
        if self.last_update is None:
            size = self.buffer.type.size
            self.block_size = -(-size // _MAX_CELLS)
            self.last_update = np.zeros(-(-size // self.block_size), _INT32)
        for written, extents, number in self.writes[self.applied :]:
            self._cells_of(written, extents)[...] = number
        self.applied = len(self.writes)
        return bool(np.max(self._cells_of(location, shape), initial=0) > count)

    def _cells_of(self, location: Location, shape: tuple[int, ...]) -> Any:
        if self.block_size == 1:
            strides = [4 * stride for stride in location.strides]
            return np.ndarray(shape, _INT32, self.last_update, 4 * location.start, strides)
        low, high = element_span(location, shape)
        return self.last_update[low // self.block_size : -(-high // self.block_size)]


class InPlaceBuffers:
    """The in-place buffers of one plan, and their readers."""

    def __init__(
        self,
        planner: Placement,
        function: Function,
        unroll_limits: UnrollLimits,
        carried: Mapping[Var, Atom],
    ) -> None:
        self.planner: Placement = weakref.proxy(planner)  # the planner owns this object
        self.chains = find_updates(function, unroll_limits, carried)
        self.bases = self.chains.bases
        self.uses = function.uses if self.chains.updates else Counter()
        self.buffers: dict[Buffer, InPlaceBuffer] = {}
        self.pick_counts: Counter[Buffer] = Counter()
        self.view_epochs: dict[Var, int] = {}  # views: the number of updates before them
        self.buffers_read: dict[Var, tuple[InPlaceBuffer, ...]] = {}  # of expressions
        self.invalidated: set[Var] = set()
        self.written: dict[Atom, tuple[InMemory, int]] = {}  # expressions: where, by which update
        self.replacements: dict[Var, Var] = {}

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
            stored = self.replacements[atom] = self._stored(atom)
            return self.valid_operand(stored)
        if atom in self.view_epochs:
            location = self.planner.locations[atom]
            buffer = self._buffer_at(location)
            assert buffer is not None
            if buffer.is_written_since(self.view_epochs[atom], location, atom.type.shape):
                return self._copy_view(atom)
        return atom

    def _stored(self, atom: Var) -> Var:
        """An expression in memory: where it was written, if it was."""
        location, count = self.written.get(atom, (None, 0))
        if location is None:
            return self.planner.store_as_new(atom)
        if self.buffers[location.buffer].is_written_since(count, location, atom.type.shape):
            return self.planner.store_as_new(atom)
        new = self.planner.as_new(atom, location)
        self.view_epochs[new] = count
        return new

    def _buffer_at(self, location: Location) -> InPlaceBuffer | None:
        return None if location.buffer is None else self.buffers.get(location.buffer)

    def _copy_view(self, var: Var) -> Var:
        """A copy of a view (or array), at the level where it was planned."""
        copy = self.replacements[var] = self.planner.copy_as_new(var)
        return copy

    def record_reads(self, eqn: Eqn) -> None:
        """Record which buffers a planned equation reads, and at which level."""
        out = eqn.out
        if isinstance(out.type, Bundle):
            level = self.planner.computed_level(out)
        else:
            location = self.planner.locations[out]
            level = location.ready
            if isinstance(location, Expression):
                level = location.kernel.level
            elif isinstance(eqn.op.lower, Pick):
                assert location.buffer is not None
                self.pick_counts[location.buffer] += 1
            is_expression = isinstance(location, Expression)
            if is_expression and (found := self._buffers_of_all(eqn.operands, level)):
                self.buffers_read[out] = found
                for buffer in found:
                    buffer.pending_readers.append(out)
            elif (known := self._buffer_at(location)) is not None:
                self.view_epochs[out] = known.update_count
            elif out in self.bases and self._is_sole_value(eqn, location):
                assert location.buffer is not None
                self.buffers[location.buffer] = InPlaceBuffer(location.buffer, level - 1)
        if self.buffers:
            self._mark_read(eqn.operands, level)

    def _is_sole_value(self, eqn: Eqn, location: Location) -> bool:
        """Whether a value is all of a scratch buffer that no other value uses (a bundle's part may
        be picked twice)."""
        if not _is_whole(location, eqn.out) or isinstance(eqn.op.lower, View):
            return False
        assert location.buffer is not None
        return location.buffer.role == "scratch" and self.pick_counts[location.buffer] <= 1

    def _mark_read(self, atoms: Iterable[Atom | None], level: int) -> None:
        for atom in atoms:
            for buffer in self._buffers_of(atom, level):
                buffer.read_level = max(buffer.read_level, level)

    def _buffers_of_all(self, atoms: Iterable[Atom], level: int) -> tuple[InPlaceBuffer, ...]:
        if not self.buffers:
            return ()
        return tuple(dict.fromkeys(b for atom in atoms for b in self._buffers_of(atom, level)))

    def _buffers_of(self, atom: Atom | None, level: int) -> tuple[InPlaceBuffer, ...]:
        """The in-place buffers that a value reads at a level."""
        location = self.planner.locations.get(atom) if isinstance(atom, Var) else None
        if location is None or isinstance(location, Unrolled):
            return ()
        assert isinstance(atom, Var)
        if isinstance(location, Expression):
            stored = is_in_memory(location, level)
            return () if stored else self.buffers_read.get(atom, ())
        buffer = self._buffer_at(location)
        return () if buffer is None else (buffer,)

    def update_count(self, buffer: Buffer) -> int:
        """How often a buffer has been updated so far."""
        return self.buffers[buffer].update_count if buffer in self.buffers else 0

    def ready_level(self, buffer: Buffer) -> int:
        """The level from which the last update of a buffer can be read."""
        return self.buffers[buffer].level + 1 if buffer in self.buffers else 0

    def version(self, var: Var) -> int:
        """A number that two values in one location share only if they are the same."""
        buffer = self._buffer_at(self.planner.locations[var])
        return 0 if buffer is None else self.view_epochs.get(var, buffer.update_count)

    # Writing

    def plan_update(self, out: Var, update: Update) -> None:
        """Plan an update: in the base's memory if the base is dead afterwards, else in a copy."""
        planner = self.planner
        base = update.base
        base = None if base is None or update.covers_all else self.valid_operand(base)
        buffer = self._buffer_of_base(out, base)
        is_carried = out in self.chains.in_carried  # then its values may read what they replace
        source = None if is_carried else buffer
        values = {v: self._separate_source(v, source, update) for v in update.values}
        for value in values.values() if update.scatter is not None else ():
            planner.store_if_expensive(value)
        level = self._values_level(update, values, out.type.shape)
        location: Location
        if buffer is None:
            if isinstance(base, Var):
                level = max(level, planner.available_level(base))
            memory = planner.buffer(out.type, "scratch")
            buffer = self.buffers[memory] = InPlaceBuffer(memory, level)
            location = buffer_location(memory)
            if not update.covers_all:
                store = Store(base, location)
                planner.add_write(Kernel(out.type.shape, level, stores=[store]))
                self._mark_read([base], level)
        else:
            assert isinstance(base, Var)
            level = max(level, buffer.level, buffer.read_level)
            location = planner.locations[base]
        location = InMemory(level + 1, buffer.buffer, location.strides, location.start)
        planner.locations[out] = location
        self._add_writes(update, values, location, out.type.shape, level)
        self._mark_read(values.values(), level)
        if is_carried:  # what other updates are made of may not be computed again
            for value in values.values():
                if isinstance(value, Var) and isinstance(planner.locations[value], Expression):
                    self.invalidated.add(value)
        buffer.level = level
        buffer.update_count += 1
        self._invalidate(buffer)

    def _values_level(
        self, update: Update, values: Mapping[Atom, Atom], shape: tuple[int, ...]
    ) -> int:
        """The level from which the values of an update can be read. What nothing else reads is
        computed where it is written."""
        written_once = {
            part.value
            for part in update.slices
            if self.uses[part.value] == 1 and part.value.type.size == index_size(part.index, shape)
        }
        return max(
            (
                self.planner.available_level(value, atom in written_once)
                for atom, value in values.items()
                if isinstance(value, Var)
            ),
            default=0,
        )

    def _invalidate(self, buffer: InPlaceBuffer) -> None:
        self.invalidated.update(buffer.pending_readers)
        buffer.pending_readers.clear()

    def _buffer_of_base(self, out: Var, base: Atom | None) -> InPlaceBuffer | None:
        """The buffer of the base, if the update can be made there: not a view of another array."""
        if (
            out not in self.chains.with_dead_base
            or not isinstance(base, Var)
            or base in self.view_epochs
        ):
            return None
        location = self.planner.locations[base]
        return self._buffer_at(location) if _is_whole(location, base) else None

    def _separate_source(self, value: Atom, buffer: InPlaceBuffer | None, update: Update) -> Atom:
        """A value to be written, copied or stored if it would be read from where it goes."""
        atom = self.valid_operand(value)
        if buffer is None or not isinstance(atom, Var):
            return atom
        location = self.planner.locations[atom]
        if buffer not in self._buffers_of(atom, location.ready):
            return atom
        if isinstance(location, Expression):
            self.planner.store(atom)
            return atom
        low, high = element_span(location, atom.type.shape)
        whole = buffer_location(buffer.buffer)
        for part in update.slices:
            shape, target = slice_location(whole, part.index, buffer.buffer.type.shape)
            first, end = element_span(target, shape)
            if part.value is value and not (end <= low or high <= first):
                return self._copy_view(atom)
        return self._copy_view(atom) if update.scatter is not None else atom

    def _add_writes(
        self,
        update: Update,
        values: Mapping[Atom, Atom],
        location: InMemory,
        shape: tuple[int, ...],
        level: int,
    ) -> None:
        planner, buffer = self.planner, self.buffers[location.buffer]
        if update.scatter is not None:
            eqn = update.scatter
            operands = tuple([values.get(o, o) for o in eqn.operands])
            eqn = Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)
            lower = eqn.op.lower
            assert isinstance(lower, Scatter)
            space = lower.update_shape(*(o.type for o in operands), **eqn.params)
            store = Store(operands[lower.value], location, eqn=eqn)
            planner.add_write(Kernel(space, level, stores=[store]))
            buffer.record_write(location, shape)
        loop = None
        for part in update.slices:
            extents, target = slice_location(location, part.index, shape)
            buffer.record_write(target, extents)
            value = values[part.value]
            store = Store(value, target, part.adds)
            if value.type == Type(extents, buffer.buffer.type.dtype) and not part.adds:
                found = InMemory(level + 1, buffer.buffer, target.strides, target.start)
                self.written[value] = found, buffer.update_count + 1
            size = math.prod(extents)
            if size == 1:
                planner.add_write(store, level)
            elif size > 1:
                if loop is None or loop.space != extents or len(loop.stores) >= _MAX_STORES:
                    loop = Kernel(extents, level)
                    planner.add_write(loop)
                loop.stores.append(store)


def _is_whole(location: Location, var: Var) -> bool:
    """Whether a value is all of a buffer."""
    return (
        isinstance(location, InMemory)
        and location.buffer.type.size == var.type.size
        and location.start == 0
        and location.strides == c_strides(var.type.shape)
    )
