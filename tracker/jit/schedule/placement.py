"""Placement: the location of each value while a plan is made, and the ways to store or copy it.

`Placement` holds the planner's state: locations, and kernels by (space, level). Its methods have a
value stored, copied, or laid out as a reader needs it. Start at `Placement.store`.

Invariant: the level from which a value can be read never decreases.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from tracker.ir.graph import Atom, Const, Function, Var
from tracker.ir.lowering import Map, View
from tracker.ir.types import Type
from tracker.jit.schedule.plan_data import (
    Buffer,
    Kernel,
    Location,
    Plan,
    Store,
    UnrollLimits,
    buffer_location,
    is_blas_matrix,
)
from tracker.ops.shape.memory_order import MemoryOrder, c_strides

MATH_COST = 20  # operations of a transcendental function
RECOMPUTE_LIMIT = 24  # operations; up to here an expression is recomputed, not stored
_RECOMPUTE_LIMIT_IN_BODY = 34  # in a loop's body, which would store at every step
_RECOMPUTE_LIMIT_IN_CACHE = 7  # for values that stay in the cache, where stores and loads are fast
_CACHED_SIZE = 1 << 14  # elements of such a value
_MAX_SHARED_DISTANCE = 4  # operations between an expression and its shared operand
_MAX_WEIGHT = 180  # operations of one kernel; beyond, a new one begins
# lines of one kernel; much longer ones are not vectorised (`jit/llvm/engine.py`)
_MAX_LINES = 2000
_MAX_WEIGHT_UNCACHED = 600  # where stores between two kernels would leave the cache


class Placement:
    """The locations of a function's values."""

    def __init__(
        self, function: Function, wanted: Sequence[MemoryOrder], tiny: UnrollLimits, body: bool
    ) -> None:
        self.tiny = tiny
        self.recompute_limit = _RECOMPUTE_LIMIT_IN_BODY if body else RECOMPUTE_LIMIT
        self.outputs = list(itertools.zip_longest(function.outputs, wanted))
        self.output_strides: dict[Atom, tuple[int, ...]] = {}
        for atom, order in self.outputs:
            self.output_strides.setdefault(atom, order or c_strides(atom.type.shape))
        self.plan = Plan(function, {}, {}, {}, {}, {}, {}, {}, [], {}, [], {}, [], 0)
        self.places = self.plan.places
        self.contiguous_copies: dict[Var, Location] = {}
        self.kernels: dict[tuple[tuple[int, ...], int], Kernel] = {}
        self.next_level: dict[
            tuple[tuple[int, ...], int], int
        ] = {}  # the level after a run of full kernels
        self.shared_operands = _shared_operands(function)

    def buffer(self, type: Type, role: str) -> Buffer:
        buffer = Buffer(len(self.plan.buffers), type, role)
        self.plan.buffers.append(buffer)
        return buffer

    def add_parameter(self, var: Var, role: str, number: int, strides: tuple[int, ...]) -> None:
        buffer = self.buffer(var.type, role)
        buffer.slot = number
        kind = "tiny" if self.tiny.admits(var.type) else "memory"
        self.places[var] = Location(kind, 0, 0, None, buffer, strides)

    def made(self, var: Var, level: int, strides: MemoryOrder = None) -> Location:
        """Memory for a value that is written at a level, in C order or with these strides."""
        kind = "tiny" if self.tiny.admits(var.type) else "memory"
        buffer = self.buffer(var.type, "scratch")
        place = Location(kind, level + 1, 0, None, buffer, strides or c_strides(var.type.shape))
        self.places[var] = place
        return place

    def result(self, var: Var, ready: int) -> Buffer:
        """Memory for the result of a call."""
        buffer = self.buffer(var.type, "scratch")
        kind = "tiny" if self.tiny.admits(var.type) else "memory"
        self.places[var] = Location(kind, ready, 0, None, buffer, c_strides(var.type.shape))
        return buffer

    def is_not_unrolled(self, var: Var) -> bool:
        return self.places[var].kind != "tiny"

    def ready_level(self, atom: Atom) -> int:
        return 0 if isinstance(atom, Const) else self.places[atom].ready

    def reach(self, var: Var) -> int:
        """The level from which any element of `var` can be had at any index."""
        place = self.places[var]
        if place.kind != "expression":
            return place.ready
        if place.stored:
            return place.ready
        if place.cost > self.recompute_limit_of(var):
            self._store_shared_operand(var)
        return self.store(var) if place.cost > self.recompute_limit_of(var) else place.ready

    def _store_shared_operand(self, var: Var) -> None:
        """Store, in place of an expression, a shared operand from which it is cheap to compute: one
        array serves all expressions of that operand."""
        place = self.places[var]
        for o in self.plan.definitions[var].operands:
            if (
                not isinstance(o, Var)
                or o not in self.shared_operands
                or o.type.shape != var.type.shape
            ):
                continue
            whole = self.places[o]
            near = whole.home is place.home and place.cost - whole.cost <= _MAX_SHARED_DISTANCE
            if near and o.type.dtype.itemsize <= var.type.dtype.itemsize:
                place.ready = max(place.ready, self.store(o))
                place.cost -= whole.cost
                return

    def recompute_limit_of(self, var: Var) -> int:
        """The cost up to which a value is computed again rather than stored."""
        return _RECOMPUTE_LIMIT_IN_CACHE if var.type.size <= _CACHED_SIZE else self.recompute_limit

    def store(self, var: Var) -> int:
        """Store an expression; the level from which it can be read."""
        place = self.places[var]
        if not place.stored:
            assert place.home is not None
            place.buffer = self.buffer(var.type, "scratch")
            place.strides = self.order(var)
            place.ready = place.home.level + 1
            place.home.stores.append(Store(var, buffer_location(place.buffer, 0, place.strides)))
        return place.ready

    def order(self, var: Var) -> tuple[int, ...]:
        """The strides of a value in memory of its own: those of the output that it is, if any."""
        return self.output_strides.get(var) or c_strides(var.type.shape)

    def stored(self, var: Var) -> Location:
        """The location of a value in registers or in memory."""
        if self.places[var].kind == "expression":
            self.store(var)
        return self.places[var]

    def store_if_dear(self, atom: Atom) -> None:
        """Have an expensive expression stored by a vectorised loop, for a reader that is not
        vectorised; of a view that has each element once, store its operand."""
        if isinstance(atom, Var):
            place = self.places[atom]
            if place.kind == "expression" and place.cost >= MATH_COST:
                place.ready = max(place.ready, self.stored(self._permuted_source(atom)).ready)

    def _permuted_source(self, var: Var) -> Var:
        """The expression of which a value is a permutation."""
        while True:
            eqn = self.plan.definitions.get(var)
            if eqn is None or not isinstance(eqn.op.lower, View) or len(eqn.operands) != 1:
                return var
            (source,) = eqn.operands
            if not isinstance(source, Var) or source.type.size != var.type.size:
                return var
            if self.places[source].kind != "expression":
                return var
            var = source

    def in_order(self, var: Var) -> Location:
        """A value in registers, or in memory in C order, where a routine can read it."""
        place = self.stored(var)
        start = place.start == 0 and place.strides == c_strides(var.type.shape)
        return place if place.kind == "tiny" or start else self.copied(var)

    def copied(self, var: Var) -> Location:
        """A copy in C order of a value that is in memory."""
        if var not in self.plan.copies:
            self.plan.copies[var] = self.copy(var, self.buffer(var.type, "scratch"))
        return self.plan.copies[var]

    def blas_operand(self, var: Var) -> Location:
        """The operand of a product where BLAS can read it: a copy if its strides do not fit."""
        place = self.places[var]
        if place.kind == "tiny" or is_blas_matrix(place.strides, var.type.shape):
            return place
        return self.copied(var)

    def body_operand(self, var: Var) -> Location:
        """An operand of a body: in registers, or in memory in C order."""
        if self.places[var].kind == "expression":
            self.store(var)
        place = self.places[var]
        if place.kind == "tiny" or place.strides == c_strides(var.type.shape):
            return place
        known = self.contiguous_copies.get(var)
        if known is None:
            known = self.contiguous_copies[var] = self.copy(var, self.buffer(var.type, "scratch"))
        return known

    def kept(self, var: Var) -> Var:
        """An expression as another variable, which is in memory and never computed again."""
        ready = self.store(var)
        place = self.places[var]
        twin = Var(var.type, var.name)
        self.plan.definitions[twin] = self.plan.definitions[var]
        self.places[twin] = Location("memory", ready, 0, None, place.buffer, place.strides)
        return twin

    def duplicate(self, var: Var) -> Var:
        """A value that is in memory as another variable with memory of its own."""
        twin = Var(var.type, var.name)
        self.plan.definitions[twin] = self.plan.definitions[var]
        self.places[twin] = self.copy(var, self.buffer(var.type, "scratch"))
        return twin

    def whole(self, buffer: Buffer, ready: int) -> Location:
        return buffer_location(buffer, ready)

    def copy(self, var: Var, buffer: Buffer, strides: MemoryOrder = None) -> Location:
        """Store a value that is in memory once more, in C order or with these strides."""
        kernel = self.kernel_at(var.type.shape, self.places[var].ready)
        kernel.stores.append(Store(var, buffer_location(buffer, 0, strides)))
        return buffer_location(buffer, kernel.level + 1, strides)

    def kernel_at(self, space: tuple[int, ...], level: int) -> Kernel:
        kernel = self.kernels.get((space, level))
        if kernel is None:
            kernel = self.kernels[space, level] = Kernel(space, level)
            self.plan.kernels.append(kernel)
        return kernel

    def kernel_with_room(self, space: tuple[int, ...], level: int) -> Kernel:
        """The first kernel from a level on that is not full. Full kernels stay full, so they are
        skipped once."""
        most = _MAX_WEIGHT if math.prod(space) <= _CACHED_SIZE else _MAX_WEIGHT_UNCACHED
        kernel = self.kernel_at(space, level)
        passed = []
        while kernel.weight >= most or kernel.lines >= _MAX_LINES:
            passed.append(kernel.level)
            kernel = self.kernel_at(
                space, self.next_level.get((space, kernel.level), kernel.level + 1)
            )
        for level in passed:
            self.next_level[space, level] = kernel.level
        return kernel


def _shared_operands(function: Function) -> set[Atom]:
    """Operands of several values that are read at other indices than their own."""
    moved: set[Atom] = set()
    for eqn in function.eqns:
        how, shape = eqn.op.lower, eqn.out.type.shape
        if isinstance(how, View):
            moved.update(eqn.operands)
        elif isinstance(how, Map):
            moved.update(o for o in eqn.operands if o.type.shape != shape)
    made = (set(eqn.operands) for eqn in function.eqns if eqn.out in moved)
    counts = Counter(itertools.chain.from_iterable(made))
    return {o for o, count in counts.items() if count > 1}
