"""Values in registers: the state of straight-line code, and how it reads and addresses buffers.

`Registers` holds the lines of a function, the elements that are in registers, pointers to buffers,
values spilled to the stack for loops that index them, and conditions to be checked (`require`).
Start at `element`.

Invariant: a value, once computed, dominates everything after it: conditions only branch away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Var
from tracker.jit.codegen.index_set_splitting import SplitValues
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import (
    ComplexValue,
    ModuleNeeds,
    ScalarValue,
    SsaNames,
    literal,
    memory_type,
    part_dtype,
)
from tracker.jit.schedule.affine import IndexEmitter, linear_position
from tracker.jit.schedule.buffer_coalescing import Coalescing, CoalescingCandidate
from tracker.jit.schedule.plan_data import Buffer, FrameSlots, Location, Plan, Unrolled, memory_of
from tracker.ops.shape.memory_order import c_strides

_INT64 = np.dtype(np.int64)


class Registers:
    """The values of one function in straight-line code."""

    def __init__(self, plan: Plan, slots: FrameSlots, needs: ModuleNeeds) -> None:
        self.plan = plan
        self.slots = slots
        self.needs = needs
        self.split_values = SplitValues(plan)
        self.lines: list[str] = []
        self.e = Emitter(self.lines, SsaNames(), self.needs, straight=True)
        self.tools = IndexEmitter(write=self.e.write)
        self.elements: dict[Var, list[ScalarValue | None]] = {}
        self.pointers: dict[Buffer, str] = {}
        self.spilled: dict[Var, str] = {}
        self.spills: list[str] = []
        self.lifetimes: dict[Buffer, tuple[int, int]] = {}  # first and last step
        self.coalesced: Coalescing = {}  # buffers that share memory
        self.carried: Coalescing = {}  # in a body: carried inputs and the results that replace them
        self.candidates: list[CoalescingCandidate] = []
        self.step = 0  # the number of the step that is emitted
        self.level = 0
        self.has_guards = False
        self.can_raise = False  # whether a call may set an exception
        self.first_effect: int | None = None  # the line before the first step with an effect
        self.first_undone: int | None = None  # the line from which a failure undoes that effect
        self.pending_condition: ScalarValue | None = None  # required, and not checked yet

    def location(self, var: Var) -> Location:
        """The location of a value at this level: its copy, once that is made."""
        copy = self.plan.copies.get(var)
        return copy if copy is not None and copy.ready <= self.level else self.plan.locations[var]

    def atom(self, atom: Atom, position: int) -> ScalarValue:
        if isinstance(atom, Const):
            return literal(atom.value, atom.type.dtype)
        return self.element(atom, position)

    def element(self, var: Var, position: int) -> ScalarValue:
        """One element of an unrolled value, by its position in C order."""
        cells = self.elements.get(var)
        if cells is None:
            cells = self.elements[var] = [None] * max(var.type.size, 1)
        cell = cells[position]
        if cell is None:
            cell = cells[position] = self._fetch(var, position)
        return cell

    def _fetch(self, var: Var, position: int) -> ScalarValue:
        """Load an element of a small input, or of a small result of a kernel."""
        location = self.plan.locations[var]
        buffer = location.buffer
        assert buffer is not None, var
        if buffer.role in ("input", "capture") and not self._is_array(buffer):
            return self._slot_number(buffer)
        index = self.tools.unflatten(position, var.type.shape)
        flat = linear_position(index, location.strides, location.start)
        where = self.e.address(self.pointer(buffer), var.type.dtype, str(flat))
        return self.e.load(where, var.type.dtype, buffer.is_ours)

    def _fetch_at(self, var: Var, index: Sequence[Any]) -> ScalarValue:
        """Load an element whose index is known at run time."""
        location, dtype = self.plan.locations[var], var.type.dtype
        if isinstance(location, Unrolled):
            if var.type.size == 1:
                return self.element(var, 0)
            pointer, flat = self.spill(var), self.tools.flatten(index, var.type.shape)
            ours = True
        else:
            assert location.buffer is not None, var
            pointer = self.pointer(memory_of(location))
            flat = linear_position(index, location.strides, location.start)
            ours = memory_of(location).is_ours
        return self.e.load(self.e.address(pointer, dtype, self.tools.name(flat)), dtype, ours)

    def _is_usable(self, buffer: Buffer) -> bool:
        """Whether an array of the caller can be read as it is."""
        return self._is_array(buffer) and buffer.type.dtype != bool  # bytes may have any value

    def _is_array(self, buffer: Buffer) -> bool:
        if buffer.role == "input":
            return self.slots.input_is_array[buffer.slot]
        return self.slots.capture_is_array[buffer.slot]

    def _slot_number(self, buffer: Buffer) -> ScalarValue:
        """A number that is in the frame itself."""
        group = self.slots.inputs if buffer.role == "input" else self.slots.captures
        dtype = buffer.type.dtype
        pointer = self._slot_pointer(group[buffer.slot])
        if dtype.kind == "c":  # real and imaginary part have a slot each
            second = self.e.write(f"getelementptr i64, ptr {pointer}, i64 1")
            part = part_dtype(dtype)
            return ComplexValue(self.e.load(pointer, part), self.e.load(second, part))
        return self.load_number(pointer, dtype)

    def load_number(self, cell: str, dtype: np.dtype[Any]) -> ScalarValue:
        """A real number in a cell, where integers have 64 bits."""
        if dtype.kind == "f":
            return self.e.load(cell, dtype)
        return self.e.cast(self.e.load(cell, _INT64), dtype)

    def _slot_pointer(self, slot: int) -> str:
        return self.e.write(f"getelementptr i64, ptr %slots, i64 {slot}") if slot else "%slots"

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer."""
        buffer = self.coalesced.get(buffer, buffer)
        first, _ = self.lifetimes.get(buffer, (self.step, self.step))
        self.lifetimes[buffer] = (first, self.step)
        if buffer.role == "scratch":  # computed at each use: a long-lived register is expensive
            return self.e.write(f"getelementptr i8, <{buffer.number}>")
        if buffer.role == "table":
            return self.needs.table(buffer.values, buffer.type.dtype)
        pointer = self.pointers.get(buffer)
        if pointer is None:
            group = {
                "input": self.slots.inputs,
                "capture": self.slots.captures,
                "output": self.slots.outputs,
            }[buffer.role]
            cell = self._slot_pointer(group[buffer.slot])
            pointer = self.pointers[buffer] = self.e.write(f"load ptr, ptr {cell}")
        return pointer

    def address(self, buffer: Buffer, at: int) -> str:
        """The address of an element, which may be out of bounds (where zero replaces it)."""
        pointer = self.pointer(buffer)
        if not at:
            return pointer
        kind = memory_type(buffer.type.dtype)
        return self.e.write(f"getelementptr {kind}, ptr {pointer}, i64 {at}")

    def spill(self, var: Var) -> str:
        """An unrolled value in memory, for loops that index it."""
        location = self.plan.locations[var]
        if (
            location.buffer is not None
            and (location.buffer.is_ours or self._is_usable(location.buffer))
            and location.start == 0
            and location.strides == c_strides(var.type.shape)
        ):
            return self.pointer(location.buffer)
        pointer = self.spilled.get(var)
        if pointer is None:
            text = memory_type(var.type.dtype)
            pointer = self.spilled[var] = f"%spill{len(self.spilled)}"
            self.spills.append(f"  {pointer} = alloca [{var.type.size} x {text}], align 16")
            for i in range(var.type.size):
                cell = self.e.address(pointer, var.type.dtype, str(i))
                self.e.store(self.element(var, i), cell)
        return pointer

    def readable(self, atom: Atom) -> str:
        """The address of a whole value in C order (`Placement.in_order`); values in registers and
        literals are stored first."""
        if isinstance(atom, Const):
            cell = f"%literal{len(self.spills)}"
            self.spills.append(f"  {cell} = alloca {memory_type(atom.type.dtype)}")
            self.e.store(self.atom(atom, 0), cell)
            return cell
        if isinstance(self.plan.locations[atom], Unrolled):
            return self.spill(atom)
        buffer = self.location(atom).buffer
        assert buffer is not None
        return self.pointer(buffer)

    # Conditions and effects

    def require(self, holds: ScalarValue) -> None:
        """Fail the call unless the condition holds."""
        self.require_later(holds)
        self.settle()

    def require_later(self, holds: ScalarValue) -> None:
        """Require a condition, but not at once, so that long arithmetic stays one block. (By a
        select, because a condition may be undefined where one before it fails.)"""
        if self.pending_condition is not None:
            both = f"select i1 {self.pending_condition.name}, i1 {holds.name}, i1 false"
            holds = ScalarValue(self.e.write(both), holds.dtype)
        self.pending_condition = holds

    def begin_effects(self) -> None:
        """An effect comes next."""
        if self.first_effect is None:
            self.first_effect = self.first_undone = len(self.lines)

    def end_draw(self, begun: int) -> None:
        """The draw from line `begun` on is over; one that failed has drawn nothing."""
        if self.first_effect == begun:
            self.first_undone = len(self.lines)

    def check_status(self, status: str, can_fail: bool) -> None:
        """Continue if a call returned 0; fail if it returned 1 (possible only if `can_fail`); else
        it has set an exception."""
        label = f"ok{self.e.names.fresh()[1:]}"
        self.can_raise = True
        self.has_guards |= can_fail
        differs = "i64 1, label %fail " if can_fail else ""
        self.lines.append(f"  switch i64 {status}, label %raised [i64 0, label %{label} {differs}]")
        self.lines.append(f"{label}:")

    def settle(self) -> None:
        """Check pending conditions: before anything slow, and before effects."""
        holds, self.pending_condition = self.pending_condition, None
        if holds is None:
            return
        self.has_guards = True
        label = f"ok{self.e.names.fresh()[1:]}"
        self.lines.append(f"  br i1 {holds.name}, label %{label}, label %fail")
        self.lines.append(f"{label}:")
