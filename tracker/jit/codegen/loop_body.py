"""The innermost code of a kernel: the elements of its values at one index.

`LoopBody` emits every store and reduction at an index. Values are emitted on demand and memoised:
`LoopBody.value(var, index)` emits one element the first time that it is used in the body.
`select_alternative` and `index_value` also serve unrolled code. Start at `LoopBody.emit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Var
from tracker.ir.lowering import Before, Iota, Map, View
from tracker.jit.codegen import scatter_stores
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import ScalarValue, literal
from tracker.jit.schedule.affine import IndexEmitter, linear_position
from tracker.jit.schedule.buffer_coalescing import BufferAccess
from tracker.jit.schedule.plan_data import (
    Buffer,
    Kernel,
    Location,
    Store,
    Unrolled,
    is_in_memory,
    memory_of,
)
from tracker.ops.shape.memory_order import c_strides

if TYPE_CHECKING:
    from tracker.jit.codegen.loop_nest import KernelWriter
    from tracker.jit.codegen.reductions import Accumulator

LoopIndex = tuple[Any, ...]  # per axis: a formula or a number; None before its loop has begun
_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)


class LoopBody:
    """The innermost code: every store and reduction at one index."""

    def __init__(
        self, writer: KernelWriter, ranges: dict[int, tuple[int, int]], index: LoopIndex
    ) -> None:
        self.writer = writer
        self.e: Emitter = writer.e
        self.index = index
        self.tools: IndexEmitter = writer.tools(ranges)
        self.done: dict[Any, ScalarValue] = {}
        self.loaded: dict[str, Any] = {}  # names -> buffers and positions
        self.casts: dict[tuple[str, Any], ScalarValue] = {}
        self.access = BufferAccess()
        writer.bodies.append(self.access)

    def emit(self) -> None:
        for eqn in self.writer.kernel.members:  # in order, which keeps the recursion shallow
            self.value(eqn.out, self.index)
        if self.writer.overwritten:
            self._load_all()
        for store in self.writer.kernel.stores:
            self._store(store)
        for accumulator in self.writer.own_accumulators:
            operand = accumulator.eqn.operands[0]
            accumulator.add(self.cast(self.value(operand, self.index), accumulator.dtype), self)
        for kernel, accumulators in self.writer.fused:
            self._fused_reductions(kernel, accumulators)

    def _load_all(self) -> None:
        """Load everything that is read before anything is written."""
        reduced = [accumulator.eqn.operands[0] for accumulator in self.writer.own_accumulators]
        for atom in (*(store.value for store in self.writer.kernel.stores), *reduced):
            if atom is not None:
                self.value(atom, self._index_of(self.index, atom))

    def _fused_reductions(self, kernel: Kernel, accumulators: list[Accumulator]) -> None:
        """Reductions over a space that ends before the loops do."""
        positions = [
            self.tools.within(i, 0, 1, n) for i, n in zip(self.index, kernel.space, strict=True)
        ]
        index = tuple(i for i, _ in positions)
        inside = self.tools.every([within for _, within in positions])
        if inside is False:
            return
        for eqn in kernel.members:
            self.value(eqn.out, index)
        for accumulator in accumulators:
            x = self.cast(self.value(accumulator.eqn.operands[0], index), accumulator.dtype)
            if inside is not True:
                x = self.e.select(ScalarValue(inside, _BOOL), x, accumulator.identity())
            accumulator.add(x, self)

    def _store(self, store: Store) -> None:
        if self._is_there(store):
            return
        dtype = memory_of(store.location).type.dtype
        x = literal(0, dtype)
        if store.value is not None:
            x = self.cast(self.value(store.value, self._index_of(self.index, store.value)), dtype)
        if scatter_stores.accumulates(store) and x.name == literal(0, dtype).name:
            return
        if store.eqn is not None:
            self.writer.effects += 1
            scatter_stores.emit_store(self, store, store.eqn, x)
            return
        at = self._position(store.location, self.index)
        self.add_write(store.location, at)
        if not store.adds and self._was_loaded(x, *self._place(store.location, at)):
            return  # what is there: in a part of a loop that a mask leaves alone
        self.writer.effects += 1
        where = self.writer.target(store.location, at, self.tools)
        if store.adds:
            x = self.e.add(self.e.load(where, dtype), x)
        self.e.store(x, where)

    def _is_there(self, store: Store) -> bool:
        """Whether memory holds an element already, because the array shares it with its copy."""
        if not isinstance(store.value, Var) or store.eqn is not None or store.adds:
            return False
        have, to = self.writer.plan.locations[store.value], store.location
        if isinstance(have, Unrolled) or not is_in_memory(have, self.writer.kernel.level):
            return False
        shared, index = self.writer.shared_buffer, self._index_of(self.index, store.value)
        return (
            store.value not in self.writer.members
            and shared(memory_of(have)) is shared(memory_of(to))
            and self._position(have, index) + have.start
            == self._position(to, self.index) + to.start
        )

    def _was_loaded(self, x: ScalarValue, buffer: Buffer, position: Any) -> bool:
        """Whether a number is what was loaded from a place that nothing else writes."""
        is_first = self.access.written[buffer] == position
        return is_first and self.loaded.get(x.name) == (buffer, position)

    def add_write(self, location: Location, at: Any) -> None:
        """Record that an element is written, at this position in a location."""
        self.access.add_write(*self._place(location, at))

    def _place(self, location: Location, at: Any) -> tuple[Buffer, Any]:
        """The memory that an element is in, and its position there."""
        return self.writer.shared_buffer(memory_of(location)), at + location.start

    def _position(self, location: Location, index: Sequence[Any]) -> Any:
        """The position of an element within a location."""
        if self.writer.flat:
            return index[0]
        return linear_position(index, location.strides)

    def cast(self, x: ScalarValue, dtype: Any) -> ScalarValue:
        if x.dtype == dtype:
            return x
        key = (x.name, dtype)
        if key not in self.casts:
            self.casts[key] = self.e.cast(x, dtype)
        return self.casts[key]

    def value(self, atom: Atom, index: Sequence[Any]) -> ScalarValue:
        """The element of a value at an index."""
        if isinstance(atom, Const):
            return literal(atom.value, atom.type.dtype)
        key = (atom, tuple(index))
        element = self.done.get(key)
        if element is None:
            element = self.done[key] = self._value(atom, tuple(index))
        return element

    def _value(self, var: Var, index: tuple[Any, ...]) -> ScalarValue:
        location = self.writer.plan.locations[var]
        if isinstance(location, Unrolled):
            return self._unrolled_element(var, index)
        known = self._known_element(var, index)
        if known is not None:
            return known
        is_own = var in self.writer.members and index == self.index
        if not is_own and is_in_memory(location, self.writer.kernel.level):
            return self._load(var, location, index)
        eqn = self.writer.plan.definitions[var]
        if self.writer.flat and isinstance(eqn.op.lower, View):  # one element, broadcast
            return self.value(eqn.operands[0], (0,) * eqn.operands[0].type.ndim)
        return expression_element(
            self.e, self.tools, eqn, index, self.value, self.cast, self._index_of
        )

    def _known_element(self, var: Var, index: tuple[Any, ...]) -> ScalarValue | None:
        """An element that is a literal in the part of the loop that is emitted."""
        if self.writer.flat and var.type.ndim > 1:
            return None
        split_values, is_before = self.writer.driver.split_values, self.writer.is_before
        return split_values.literal(var, index, self._index_of, is_before)

    def _index_of(self, index: Sequence[Any], operand: Atom) -> tuple[Any, ...]:
        if self.writer.flat:
            return tuple(index) if operand.type.size != 1 else (0,) * operand.type.ndim
        return broadcast_index(index, operand)

    def _unrolled_element(self, var: Var, index: tuple[Any, ...]) -> ScalarValue:
        is_scalar = var.type.size == 1
        flat = 0 if is_scalar else linear_position(index, c_strides(var.type.shape))
        if isinstance(flat, int):
            return self.writer.number(var, flat)
        pointer = self.writer.spilled(var)
        where = self.e.address(pointer, var.type.dtype, self.tools.name(flat))
        return self.e.load(where, var.type.dtype)

    def _load(self, var: Var, location: Location, index: tuple[Any, ...]) -> ScalarValue:
        at = self._position(location, index)
        place = self._place(location, at)
        self.access.add_read(*place)
        where = self.writer.source(location, at, self.tools)
        loaded = self.e.load(where, var.type.dtype, memory_of(location).is_ours)
        self.loaded[loaded.name] = place
        return loaded

    def reader(self, eqn: Eqn) -> Callable[[int, Sequence[Any]], str]:
        """A function that emits the integers of operands that an equation's formulas read."""
        return lambda which, at: self.cast(self.value(eqn.operands[which], at), _INT64).name


def broadcast_index(index: Sequence[Any], operand: Atom) -> tuple[Any, ...]:
    """The index into an operand that is broadcast to where `index` points."""
    lead = len(index) - operand.type.ndim
    return tuple(0 if n == 1 else index[lead + i] for i, n in enumerate(operand.type.shape))


def expression_element(
    e: Emitter,
    tools: IndexEmitter,
    eqn: Eqn,
    index: tuple[Any, ...],
    value: Callable[[Atom, Sequence[Any]], ScalarValue],
    cast: Callable[[ScalarValue, Any], ScalarValue],
    index_of: Callable[[Sequence[Any], Atom], tuple[Any, ...]] = broadcast_index,
) -> ScalarValue:
    """One element of an expression; `value` emits the elements of its operands."""
    lower, dtype = eqn.op.lower, eqn.out.type.dtype
    if isinstance(lower, Iota):
        return index_value(tools, index[eqn.params["axis"]], dtype)
    types = [o.type for o in eqn.operands]
    if isinstance(lower, Before):
        at = index_value(tools, index[eqn.params["axis"]], _INT64)
        return e.compare("<", at, cast(value(eqn.operands[0], ()), _INT64))
    if isinstance(lower, View):
        alternatives = tools.reading(
            lambda which, at: cast(value(eqn.operands[which], at), _INT64).name,
            lambda: lower.source(tools, index, *types, **eqn.params),
        )
        return select_alternative(e, alternatives, eqn, value, cast)
    assert isinstance(lower, Map)
    xs = [
        cast(value(o, index_of(index, o)), kind)
        for o, kind in zip(eqn.operands, lower.dtypes(*types), strict=True)
    ]
    return cast(lower.body(e, *xs, **eqn.params), dtype)


def index_value(tools: IndexEmitter, i: Any, dtype: Any) -> ScalarValue:
    """An index as a number."""
    return literal(i, dtype) if isinstance(i, int) else ScalarValue(tools.name(i), dtype)


def select_alternative(
    e: Emitter,
    alternatives: Any,
    eqn: Eqn,
    value: Callable[[Atom, Sequence[Any]], ScalarValue],
    cast: Callable[[ScalarValue, Any], ScalarValue],
) -> ScalarValue:
    """The first of a view's alternatives that is inside; zero if none is."""
    dtype = eqn.out.type.dtype
    candidates: list[tuple[Any, ScalarValue]] = []
    for which, source, inside in alternatives if isinstance(alternatives, list) else [alternatives]:
        if inside is False:
            continue
        candidates.append((inside, cast(value(eqn.operands[which], source), dtype)))
        if inside is None or inside is True:
            break
    else:
        candidates.append((True, literal(0, dtype)))
    y = candidates[-1][1]
    for inside, x in reversed(candidates[:-1]):
        y = e.select(ScalarValue(inside, _BOOL), x, y)
    return y
