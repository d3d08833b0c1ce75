"""Placement: the location of each value while a plan is made, and the ways to store or copy it.

`Placement` holds the planner's state: locations, and kernels by (space, level). Its methods have a
value stored, copied, or laid out as a reader needs it. Start at `Placement.store`.

Invariant: the level from which a value can be read never decreases.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tracker.ir.graph import Atom, Const, Eqn, Function, Var
from tracker.ir.lowering import Map, View
from tracker.ir.types import Type
from tracker.jit.schedule.affine import loop_index, view_index
from tracker.jit.schedule.plan_data import (
    Buffer,
    Expression,
    InMemory,
    Kernel,
    Location,
    Plan,
    Role,
    Store,
    Unrolled,
    UnrollLimits,
    buffer_location,
    is_blas_matrix,
)
from tracker.jit.schedule.steps import Step
from tracker.ops.shape.memory_order import MemoryOrder, c_strides

MATH_COST = 20  # operations of a transcendental function
RECOMPUTE_LIMIT = 24  # operations; up to here an expression is recomputed, not stored
_RECOMPUTE_LIMIT_IN_BODY = 34  # in a loop's body, which would store at every step
_RECOMPUTE_LIMIT_IN_CACHE = 7  # for values that stay in the cache, where stores and loads are fast
_CACHED_SIZE = 1 << 14  # elements of such a value
_MAX_SHARED_DISTANCE = 4  # operations between an expression and its shared operand
_MAX_WEIGHT = 180  # operations of one kernel; beyond, a new one begins
# lines of one kernel; longer ones have slow code (`jit/llvm/engine.py`)
_MAX_LINES = 2000
_MAX_WEIGHT_UNCACHED = 600  # where stores between two kernels would leave the cache


class Placement:
    """The locations of a function's values."""

    def __init__(
        self,
        function: Function,
        output_orders: Sequence[MemoryOrder],
        unroll_limits: UnrollLimits,
        body: bool,
    ) -> None:
        self.unroll_limits = unroll_limits
        self.recompute_limit = _RECOMPUTE_LIMIT_IN_BODY if body else RECOMPUTE_LIMIT
        self.outputs = list(itertools.zip_longest(function.outputs, output_orders))
        self.wanted_strides: dict[Atom, tuple[int, ...]] = {}
        for atom, order in self.outputs:
            self.wanted_strides.setdefault(atom, order or c_strides(atom.type.shape))
        for atom, strides in _strides_of_transposed(function):
            self.wanted_strides.setdefault(atom, strides)
        self.plan = Plan(function)
        self.locations = self.plan.locations
        self.body_copies: dict[Var, Location] = {}
        self.bundles: dict[Var, list[Location]] = {}
        self.kernels: dict[tuple[tuple[int, ...], int], Kernel] = {}
        self.next_level: dict[tuple[tuple[int, ...], int], int] = {}  # after a run of full kernels
        self.shared_operands = _shared_operands(function)

    def buffer(self, type: Type, role: Role) -> Buffer:
        buffer = Buffer(len(self.plan.buffers), type, role)
        self.plan.buffers.append(buffer)
        return buffer

    def new_location(
        self, type: Type, ready: int, strides: MemoryOrder = None, role: Role = "scratch"
    ) -> Unrolled | InMemory:
        """A buffer for a value of this type, in C order or with these strides."""
        buffer = self.buffer(type, role)
        if self.unroll_limits.admits(type):
            return Unrolled(ready, buffer, strides or c_strides(type.shape))
        return InMemory(ready, buffer, strides or c_strides(type.shape))

    def add_parameter(self, var: Var, role: Role, number: int, strides: tuple[int, ...]) -> None:
        location = self.locations[var] = self.new_location(var.type, 0, strides, role)
        assert location.buffer is not None
        location.buffer.slot = number

    def allocate(self, var: Var, ready: int, strides: MemoryOrder = None) -> Location:
        """Memory for a value that can be read from a level on."""
        location = self.locations[var] = self.new_location(var.type, ready, strides)
        return location

    def result(self, var: Var, ready: int) -> Buffer:
        """Memory for the result of a call."""
        buffer = self.allocate(var, ready).buffer
        assert buffer is not None
        return buffer

    def is_unrolled(self, var: Var) -> bool:
        return isinstance(self.locations[var], Unrolled)

    def ready_level(self, atom: Atom) -> int:
        return 0 if isinstance(atom, Const) else self.locations[atom].ready

    def computed_level(self, out: Var) -> int:
        """The level by which an equation has been computed."""
        bundle = self.bundles.get(out)
        return (
            self.locations[out].ready
            if bundle is None
            else max([p.ready for p in bundle], default=0)
        )

    def available_level(self, var: Var, once: bool = False) -> int:
        """The level from which any element of `var` can be had at any index. once: each is read
        once, by nothing else."""
        location = self.locations[var]
        if isinstance(location, Expression) and location.buffer is None:
            limit = self.recompute_limit if once else self.recompute_limit_of(var)
            if location.cost > limit:
                self._store_shared_operand(var, location)
            if location.cost > limit:
                return self.store(var)
        return location.ready

    def operand_level(self, operands: Iterable[Atom]) -> int:
        """The level from which any element of these operands can be had at any index."""
        return max((self.available_level(o) for o in operands if isinstance(o, Var)), default=0)

    def contiguous_level(self, operands: Iterable[Atom]) -> int:
        """The level from which all operands can be read by a routine."""
        return max((self.contiguous(o).ready for o in operands if isinstance(o, Var)), default=0)

    def add_write(self, step: Kernel | Store | Step, level: int | None = None) -> None:
        """Add a step that runs after the kernels of its level."""
        if level is None:
            assert isinstance(step, Kernel)
            level = step.level
        self.plan.writes.setdefault(level, []).append(step)

    def add_routine_step(self, step: Step) -> None:
        """Add a step that reads its operands in C order, and allocate its result."""
        level = self.contiguous_level(step.eqn.operands)
        self.allocate(step.eqn.out, level + 1)
        self.add_write(step, level)

    def _store_shared_operand(self, var: Var, location: Expression) -> None:
        """Store, in place of an expression, a shared operand from which it is cheap to compute: one
        array serves all expressions of that operand."""
        for o in self.plan.definitions[var].operands:
            if not isinstance(o, Var) or o not in self.shared_operands:
                continue
            operand = self.locations[o]
            if o.type.shape != var.type.shape or not isinstance(operand, Expression):
                continue
            near = location.cost - operand.cost <= _MAX_SHARED_DISTANCE
            is_narrow = o.type.dtype.itemsize <= var.type.dtype.itemsize
            if operand.kernel is location.kernel and near and is_narrow:
                location.ready = max(location.ready, self.store(o))
                location.cost -= operand.cost
                return

    def recompute_limit_of(self, var: Var) -> int:
        """The cost up to which a value is computed again rather than stored."""
        return _RECOMPUTE_LIMIT_IN_CACHE if var.type.size <= _CACHED_SIZE else self.recompute_limit

    def store(self, var: Var) -> int:
        """Store an expression; the level from which it can be read."""
        location = self.locations[var]
        if isinstance(location, Expression) and location.buffer is None:
            location.buffer = self.buffer(var.type, "scratch")
            location.strides = self.strides_of(var)
            location.ready = location.kernel.level + 1
            target = buffer_location(location.buffer, strides=location.strides)
            location.kernel.stores.append(Store(var, target))
        return location.ready

    def strides_of(self, var: Var) -> tuple[int, ...]:
        """The strides of a value in memory of its own: those that its readers want, if any."""
        return self.wanted_strides.get(var) or c_strides(var.type.shape)

    def stored(self, var: Var) -> Location:
        """The location of a value in registers or in memory."""
        self.store(var)
        return self.locations[var]

    def store_if_expensive(self, atom: Atom) -> None:
        """Have an expensive expression stored by a vectorised loop, for a reader that is not
        vectorised; of a view that has each element once, store its operand."""
        location = self.locations[atom] if isinstance(atom, Var) else None
        if isinstance(location, Expression) and location.cost >= MATH_COST:
            assert isinstance(atom, Var)
            location.ready = max(location.ready, self.store(self._permuted_source(atom)))

    def _permuted_source(self, var: Var) -> Var:
        """The expression of which a value is a permutation."""
        while True:
            eqn = self.plan.definitions.get(var)
            if eqn is None or not isinstance(eqn.op.lower, View) or len(eqn.operands) != 1:
                return var
            (source,) = eqn.operands
            if not isinstance(source, Var) or source.type.size != var.type.size:
                return var
            if not isinstance(self.locations[source], Expression):
                return var
            var = source

    def contiguous(self, var: Var) -> Location:
        """A value in registers, or in memory in C order, where a routine can read it."""
        location = self.stored(var)
        is_whole = location.start == 0 and location.strides == c_strides(var.type.shape)
        return location if isinstance(location, Unrolled) or is_whole else self.copied(var)

    def copied(self, var: Var) -> Location:
        """A copy in C order of a value that is in memory."""
        if var not in self.plan.copies:
            self.plan.copies[var] = self.copy(var)
        return self.plan.copies[var]

    def blas_operand(self, var: Var) -> Location:
        """The operand of a product where BLAS can read it: a copy if its strides do not fit."""
        location = self.locations[var]
        if isinstance(location, Unrolled) or is_blas_matrix(location.strides, var.type.shape):
            return location
        return self.copied(var)

    def body_operand(self, var: Var, by_rows: bool = False) -> Location:
        """An operand of a body: in registers, or in memory in C order; where a loop reads it by
        rows, each row is."""
        location = self.stored(var)
        if isinstance(location, Unrolled):
            return location
        strides = c_strides(var.type.shape)
        if location.strides == strides or (by_rows and location.strides[1:] == strides[1:]):
            return location
        if var not in self.body_copies:
            self.body_copies[var] = self.copy(var)
        return self.body_copies[var]

    def store_as_new(self, var: Var) -> Var:
        """An expression as another variable, which is in memory and never computed again."""
        at = self.stored(var)
        assert at.buffer is not None
        return self.as_new(var, InMemory(at.ready, at.buffer, at.strides, at.start))

    def copy_as_new(self, var: Var) -> Var:
        """A value that is in memory as another variable with memory of its own."""
        return self.as_new(var, self.copy(var))

    def as_new(self, var: Var, location: Location) -> Var:
        """A value as another variable, at a location."""
        new = Var(var.type, var.name)
        self.plan.definitions[new] = self.plan.definitions[var]
        self.locations[new] = location
        return new

    def copy(self, var: Var, buffer: Buffer | None = None, strides: MemoryOrder = None) -> Location:
        """Store a value that is in memory once more, in C order or with these strides."""
        buffer = buffer or self.buffer(var.type, "scratch")
        kernel = self.kernel_at(var.type.shape, self.locations[var].ready)
        kernel.stores.append(Store(var, buffer_location(buffer, strides=strides)))
        return buffer_location(buffer, kernel.level + 1, strides)

    def kernel_at(self, space: tuple[int, ...], level: int) -> Kernel:
        kernel = self.kernels.get((space, level))
        if kernel is None:
            kernel = self.kernels[space, level] = Kernel(space, level)
            self.plan.kernels.append(kernel)
        return kernel

    def kernel_with_room(self, space: tuple[int, ...], level: int) -> Kernel:
        """The first kernel from a level on that is not full. Full ones are skipped once."""
        limit = _MAX_WEIGHT if math.prod(space) <= _CACHED_SIZE else _MAX_WEIGHT_UNCACHED
        kernel = self.kernel_at(space, level)
        full = []
        while kernel.weight >= limit or kernel.lines >= _MAX_LINES:
            full.append(kernel.level)
            kernel = self.kernel_at(
                space, self.next_level.get((space, kernel.level), kernel.level + 1)
            )
        for level in full:
            self.next_level[space, level] = kernel.level
        return kernel


def _strides_of_transposed(function: Function) -> Iterator[tuple[Atom, tuple[int, ...]]]:
    """Values that only equal transposes read, and the strides that make these C ordered."""
    readers: dict[Atom, list[tuple[int, ...]]] = {}
    for eqn in function.eqns:
        strides = _transposed_strides(eqn) if isinstance(eqn.op.lower, View) else None
        if strides is not None:
            readers.setdefault(eqn.operands[0], []).append(strides)
    uses = function.uses if readers else {}
    for atom, found in readers.items():
        if len({*found}) == 1 and len(found) == uses[atom]:
            yield atom, found[0]


def _transposed_strides(eqn: Eqn) -> tuple[int, ...] | None:
    """The strides of its operand that make the result of a transpose C ordered; None for any other
    view."""
    shape = eqn.out.type.shape
    size = eqn.out.type.size
    if len(eqn.operands) != 1 or len(shape) < 2 or not size or eqn.operands[0].type.size != size:
        return None
    axes = loop_index(shape)
    index = view_index(eqn, axes, shape)
    if index is None or Counter(index) != Counter(axes):
        return None
    strides = dict(zip(axes, c_strides(shape), strict=True))
    return tuple(strides[i] for i in index)


def _shared_operands(function: Function) -> set[Atom]:
    """Operands of several values that are read at other indices than their own."""
    reindexed: set[Atom] = set()
    for eqn in function.eqns:
        lowering, shape = eqn.op.lower, eqn.out.type.shape
        if isinstance(lowering, View):
            reindexed.update(eqn.operands)
        elif isinstance(lowering, Map):
            reindexed.update(o for o in eqn.operands if o.type.shape != shape)
    operands = (set(eqn.operands) for eqn in function.eqns if eqn.out in reindexed)
    counts = Counter(itertools.chain.from_iterable(operands))
    return {o for o, count in counts.items() if count > 1}
