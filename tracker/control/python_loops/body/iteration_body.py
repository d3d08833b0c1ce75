"""The body of a loop, from the equations of one iteration.

`IterationBody` takes the equations that the next iteration needs, in three kinds: what depends on
neither index nor carries is computed once, before the loop; reads of such arrays at subscripts that
move are rows; the rest is the body. Arrays that the iteration writes are in `moving_arrays.py`.
Start at `IterationBody.run`.

Invariant: anything that is not of a known kind raises `NotRollable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.control.body import BodyBuilder, TracedBody
from tracker.control.python_loops.body.affine_subscripts import NotRollable, stack_rows
from tracker.control.python_loops.body.growing_values import GrowingValues
from tracker.control.python_loops.body.moving_arrays import MovingArray
from tracker.control.python_loops.body.ragged_slices import RaggedSlices
from tracker.control.python_loops.body.selections import Selections
from tracker.control.python_loops.body.shrinking_arrays import ShrinkingArrays
from tracker.ir.graph import Atom
from tracker.ir.lowering import Host, Loop, Map, Pick
from tracker.ir.op import has_effect
from tracker.ir.types import type_of
from tracker.ops.elementwise.binary import add
from tracker.ops.elementwise.comparison import equal, logical_and, not_equal
from tracker.ops.indexing.getitem import getitem, put
from tracker.ops.shape.create import constant
from tracker.support.structs import field, record
from tracker.tape.record import apply, wrap
from tracker.tape.tracing.loop_index import (
    Affine,
    IterationIndex,
    LoopVariable,
    SymbolicIteration,
    bounds_of,
    number_of,
)
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.value import CLOSED, NO_PARAMS, Value, operand_aval

_NUMBERS = (int, float, complex)

Equation = tuple[Value, Any, int]


@record(eq=False)
class Carry:
    """What goes from iteration to iteration: its value before and after the iteration, and
    `origin`, what it was before a symbolic number stood for it."""

    start: Value
    end: Any
    origin: Any


@record(eq=False)
class Symbol:
    """A number that the loop gives to each iteration: `first + step * iteration`."""

    value: Value
    first: Any
    step: int


@record(eq=False)
class Iteration:
    """An iteration that has run: its equations, from number `begin` of the recording on.

    appended    the values to stack
    conditions  values that Python has branched on, with what `bool` of them is in iterations that
                take the same branches
    """

    symbolic: SymbolicIteration
    tracer: Tracer
    begin: int
    symbols: list[Symbol]
    carries: list[Carry] = field(default_factory=list)
    appended: Sequence[Value] = ()
    conditions: dict[Value, bool] = field(default_factory=dict)

    @property
    def equations(self) -> list[Equation]:
        return self.tracer.recording.equations[self.begin :]


class IterationBody:
    """The body of an iteration, written as new values. If the iteration has branched on values, the
    loop ends before the first iteration that branches otherwise.

    substitutes  the values of the iteration -> those of the body
    equations    of the body, with their positions in the recording
    starts       carried inputs, with what they are before the first iteration; `ends`: in the next
    rows         inputs with one element per iteration, with the stacks of these
    """

    def __init__(self, iteration: Iteration, counts: Affine) -> None:
        self.iteration, self.variable = iteration, iteration.symbolic.variable
        self.counts, self.count = counts, counts.now  # in all iterations of outer loops, and now
        self.substitutes: dict[Value, Any] = {}
        self.equations: list[Equation] = []
        self.positions: list[int] = []
        self.carried_versions: set[Value] = set()
        self.at = (0, None, 0)  # position, code and line of the equation that is written
        self.starts: dict[Value, Any] = {}
        self.ends: dict[Value, Any] = {}
        self.rows: dict[Value, Any] = {}
        self.outputs: list[Any] = []
        self.known_rows: dict[Any, Value] = {}
        self.symbols = {symbol.value: symbol for symbol in iteration.symbols}
        self.moving: dict[Value, MovingArray] = {}
        self.stacked: dict[Value, int] = {}  # what is appended, with the numbers of outputs
        self.growing = GrowingValues(self)
        self.shrinking = ShrinkingArrays(self)
        self.selections = Selections(self)
        self.ragged = RaggedSlices(self)
        all_equations = iteration.equations
        self.made = {value: at for at, (value, _, _) in enumerate(all_equations)}
        self.carried = {carry.start for carry in iteration.carries}
        self.needed = self._needed(all_equations)
        self.dependent = self._dependent()

    def _needed(self, equations: list[Equation]) -> list[Equation]:
        """The equations that the ends of carries, what is appended, and branches depend on."""
        found: set[Value] = set()
        stack = [*(carry.end for carry in self.iteration.carries), *self.iteration.appended]
        stack += self.iteration.conditions
        while stack:
            operand = stack.pop()
            value = self.original(operand) if type(operand) is Value else None
            if value in self.made and value not in found and value not in self.symbols:
                found.add(value)
                stack += value.operands
                stack += bounds_of(value)
        return [equation for equation in equations if equation[0] in found]

    def original(self, value: Value) -> Value:
        """The value of the iteration whose data a detached value has; another value unchanged."""
        found = self.iteration.tracer.recording.aliases.get(value, value)
        if not (found in self.made or found in self.carried or found in self.symbols):
            return value
        if found is not value and (value.op is not CLOSED or value.operands):
            raise NotRollable("derivatives use a value that stands for another one")
        return found

    def _dependent(self) -> set[Value]:
        """The values that differ from iteration to iteration."""
        found = self.carried.union(self.symbols)
        for value, _, _ in self.needed:
            operands = [o for o in (*value.operands, *bounds_of(value)) if type(o) is Value]
            found.update(o for o in operands if self.original(o) in found)
            if not found.isdisjoint(operands) or self._moves(value):
                found.add(value)
        return found

    def _moves(self, value: Value) -> bool:
        """Whether a value is read or written at a subscript that moves with this loop."""
        index = value.params.get("index")
        if not isinstance(index, IterationIndex) or index.bounds:
            return False
        if index.subscripts is None and index.entries is not None:
            return False
        if index.subscripts is None:
            raise NotRollable("a position wraps around, or a slice changes its length")
        return any(
            subscript is not None and (subscript.start.factor(self.variable) or subscript.grows)
            for subscript in index.subscripts
        )

    def size(self) -> tuple[int, bool]:
        """How many equations an iteration takes, and whether most arrays are large."""
        count, small, large = 0, 0, 0
        for value, _, _ in self.needed:
            if value in self.dependent and isinstance(value.op.lower, Loop):
                counts = self.iteration.symbolic.counts.get(value.operands[0])
                length = value.params["length"] if counts is None else counts.high
                count += length * len(value.params["body"].body)
            elif value in self.dependent and type(value.aval) is not tuple:
                size = np.size(value.aval)
                count, small, large = count + 1, small + (1 < size <= 16), large + (size > 16)
        return count, large > small

    # The body

    def write(self) -> TracedBody:
        """Write the body: the results are the carries, what is stacked and, if the iteration has
        branched, whether another one branches like this."""
        arrays = {
            c.start: MovingArray(self, c)
            for c in self.iteration.carries
            if type(c.start.aval) is np.ndarray
        }
        self.moving = {start: array for start, array in arrays.items() if not array.is_whole}
        version_of = {version: a for a in self.moving.values() for version in a.versions}
        whole = [c for c in self.iteration.carries if c.start not in self.moving]
        for carry in whole:
            self.substitutes[carry.start] = self.carry_input(carry.origin, carry.start.aval)
            if carry.start in arrays:
                self.carried_versions |= self._versions(carry.start)
        for array in self.moving.values():
            array.enter()
        if self.iteration.conditions:  # all paths through an iteration carry the same
            for symbol in self.symbols:
                self.read(symbol)
        for value, code, line in self.needed:
            if value not in self.dependent:
                continue
            self.at = self.iteration.begin + self.made[value], code, line
            if has_effect(value.op) or isinstance(value.op.lower, Host):
                raise NotRollable("an iteration has side effects")
            base = value.operands[0] if value.operands else None
            if type(base) is Value and base in version_of and value.op in (getitem, put):
                version_of[base].access(value)
            else:
                self.substitutes[value] = self._written(value)
        for carry in whole:
            self.end_carry(self.substitutes[carry.start], self._end(carry))
        for array in self.moving.values():
            array.leave()
        if any(self.growing.is_growing(self.original(x)) for x in self.iteration.appended):
            raise NotRollable("an array is appended whose length moves")
        self.stacked = {
            x: self.output(self.read(x))
            for x in self.iteration.appended
            if x in self.dependent or self.iteration.conditions  # another path appends another one
        }
        return self._build()

    def after(self, found: Sequence[Any]) -> tuple[list[Any], dict[Value, Any]]:
        """From the results of the loop, what the carries have after it, and the stacks of what is
        appended."""
        inputs = list(self.starts)

        def results(of: Value | int) -> Any:
            return found[inputs.index(of) if isinstance(of, Value) else len(inputs) + of]

        after = []
        for carry in self.iteration.carries:
            if carry.start in self.moving:
                after.append(self.moving[carry.start].result(results))
            else:
                made = results(self.substitutes[carry.start])
                shrinks = carry.start in self.shrinking.extents
                after.append(self.shrinking.after(carry.start, made) if shrinks else made)
        return after, {value: results(number) for value, number in self.stacked.items()}

    def _end(self, carry: Carry) -> Any:
        """What the next iteration finds of a carry."""
        if carry.start in self.shrinking.extents:
            return self.shrinking.next(carry.start, carry.end)
        if type(carry.end) is Value and self.growing.is_growing(self.original(carry.end)):
            raise NotRollable("an array is carried whose length moves")
        return self.read(carry.end)

    def _versions(self, start: Value) -> set[Value]:
        """A carried array, and what it is after each write."""
        found = {start}
        for value, _, _ in self.needed:
            in_loop = isinstance(value.op.lower, (Loop, Pick))
            operands = value.operands if in_loop else value.operands[:1]
            is_read = any(type(o) is Value and o in found for o in operands)
            if is_read and (in_loop or value.op is put):
                found.add(value)
        return found

    def _add_symbol(self, symbol: Symbol) -> Value:
        """A number that counts the iterations is carried, if anything reads it."""
        made = self.carry_input(symbol.first, symbol.value.aval)
        self.substitutes[symbol.value] = made
        self.end_carry(made, self.emit(add, (made, symbol.step), NO_PARAMS, made.aval))
        return made

    @property
    def may_be_empty(self) -> bool:
        """Whether this loop, or one around it, may take no iteration."""
        outer = self.iteration.tracer.iterations
        return self.counts.low <= 0 or any(each.variable.last.low < 0 for each in outer)

    def iteration_number(self, variable: LoopVariable) -> Any:
        """The number of the iteration of this loop, or of one around it; of a variable that is the
        width of a slice, this."""
        if variable in self.ragged.widths:
            return self.ragged.widths[variable]
        for iteration in (*self.iteration.tracer.iterations, self.iteration.symbolic):
            if iteration.variable is variable:
                return self.read(iteration.number)
        raise NotRollable("a position counts the iterations of a loop that is over")

    def _written(self, value: Value) -> Any:
        if self.selections.concerns(value):
            return self.selections.write(value)
        if bounds_of(value):
            return self.ragged.read(value)
        index = value.params.get("index")
        if isinstance(index, IterationIndex) and index.subscripts is not None:
            subscripts = list(filter(None, index.subscripts))
            grows = any(subscript.grows for subscript in subscripts)
            if value.op is getitem and value.operands[0] not in self.dependent and not grows:
                return self.row(value.operands[0], index, value.aval)
            if grows or any(subscript.start.terms for subscript in subscripts):
                read = value.op is getitem
                return (self.growing.read_part if read else self.growing.write_part)(value)
        if any(map(self.growing.is_growing, value.operands)):
            return self.growing.write(value)
        if value.op is put and value.operands[0] in self.carried_versions:
            return self.growing.write_part(value)
        operands = tuple(map(self.read, value.operands))
        if isinstance(value.aval, np.generic) and self._is_stackable(value, operands):
            stacks = [self.rows.get(o, wrap(o)) if type(o) is Value else o for o in operands]
            return self.row_input(apply(value.op, tuple(stacks)), value.aval)
        return self.emit(value.op, operands, value.params, value.aval)

    def _is_stackable(self, value: Value, operands: tuple[Any, ...]) -> bool:
        """Whether a number is computed from rows and what all iterations have alone: it can be
        computed for all iterations at once, before the loop."""
        is_row = [
            type(o) is Value and o in self.rows and isinstance(o.aval, np.generic) for o in operands
        ]
        others = [
            (operand_aval(o), given)
            for o, given, row in zip(operands, value.operands, is_row, strict=True)
            if not row
        ]
        return (
            any(is_row)
            and not self.iteration.conditions  # it may have no number after the loop
            and isinstance(value.op.lower, Map)
            and not value.params
            and all(type(aval) in _NUMBERS or isinstance(aval, np.generic) for aval, _ in others)
            and not any(type(given) is Value and given in self.dependent for _, given in others)
        )

    def read(self, operand: Any) -> Any:
        """What the body reads for an operand of the iteration."""
        if type(operand) is not Value:
            return operand
        if operand in self.symbols and operand not in self.substitutes:
            return self._add_symbol(self.symbols[operand])
        original = self.original(operand)
        if original in self.selections.masks:
            raise NotRollable("what a mask selects is carried, or made a part of something")
        if original is not operand and operand not in self.substitutes:
            if self.growing.is_growing(original):
                raise NotRollable("a detached array changes its length")
            read = self.read(original)
            if type(operand.aval) is not tuple:  # else, what is picked of it is detached, too
                read = self.emit(constant, (read,), NO_PARAMS, operand.aval)
            self.substitutes[operand] = read
        return self.substitutes.get(operand, operand)

    def emit(self, op: Any, operands: tuple[Any, ...], params: dict[str, Any], aval: Any) -> Value:
        """Write an equation of the body, whose result is like `aval`."""
        made = Value(aval, op, operands, params)
        self.equations.append((made, *self.at[1:]))
        self.positions.append(self.at[0])
        return made

    def carry_input(self, start: Any, aval: Any) -> Value:
        """An input that is carried, with what it is before the first iteration."""
        made = Value(aval, None, (), NO_PARAMS)
        self.starts[made] = start
        return made

    def end_carry(self, carried: Value, end: Any) -> None:
        """Say what a carried input is in the next iteration."""
        if _type(end) != _type(carried):
            raise NotRollable("what is carried changes its type")
        self.ends[carried] = end

    def row(self, array: Value, index: IterationIndex, aval: Any) -> Value:
        """An input that is a part of an array which moves."""
        assert index.subscripts is not None
        key = array, index.subscripts
        if key not in self.known_rows:
            stack = stack_rows(array, index.subscripts, self.variable, self.counts)
            self.known_rows[key] = self.row_input(stack, aval)
        return self.known_rows[key]

    def row_input(self, stack: Any, aval: Any) -> Value:
        made = Value(aval, None, (), NO_PARAMS)
        self.rows[made] = stack
        return made

    def output(self, value: Any) -> int:
        """Stack a value of each iteration; returns the number of the output."""
        self.outputs.append(value)
        return len(self.outputs) - 1

    def count_operand(self) -> Any:
        """The trip count, as a number of the iteration of the loop around this one."""
        total, outer = number_of(self.counts), self.iteration.tracer.iterations
        if type(total) is not int:
            outer[-1].counts[total._value] = self.counts
            outer[-1].growing.add(total._value)  # the extent of what is stacked
        return total

    def _drop_unread(self, results: Sequence[Any]) -> None:
        """Forget equations and rows that nothing reads: others were computed from them."""
        read = {x for x in results if type(x) is Value}
        kept: list[int] = []
        for at in reversed(range(len(self.equations))):
            made = self.equations[at][0]
            if made in read:
                kept.append(at)
                read.update(o for o in made.operands if type(o) is Value)
        kept.reverse()
        self.equations = [self.equations[at] for at in kept]
        self.positions = [self.positions[at] for at in kept]
        self.rows = {made: stack for made, stack in self.rows.items() if made in read}

    def _is_alike(self) -> Value | None:
        """Whether an iteration branches as the one that has run; None if it does not branch."""
        found = None
        for value, expected in self.iteration.conditions.items():
            x, same = self.read(value), not_equal if expected else equal
            holds = self.emit(same, (x, type_of(value.aval).dtype.type(0)), NO_PARAMS, np.True_)
            both = found, holds
            found = holds if found is None else self.emit(logical_and, both, NO_PARAMS, np.True_)
        return found

    def _build(self) -> TracedBody:
        is_alike = self._is_alike()
        ends = [*map(self.ends.get, self.starts), *self.outputs]
        if is_alike is not None:
            ends.append(is_alike)
        self._drop_unread(ends)
        tracer = Tracer(1)
        tracer.recording.equations = self.equations
        tracer.recording.plain_arrays = self.iteration.tracer.recording.plain_arrays
        builder = _IterationBodyBuilder(tracer, [*self.starts, *self.rows], self.positions)
        return builder.build("iteration", ends)


class _IterationBodyBuilder(BodyBuilder):
    """Reads plain arrays as they were at the equations of the iteration."""

    def __init__(self, tracer: Tracer, inputs: list[Value], positions: Sequence[int]) -> None:
        super().__init__(tracer, inputs)
        self.positions = positions

    def _array_atom(self, array: Any) -> Atom:
        at = self.positions[min(self.position, len(self.positions) - 1)]
        if self.tracer.recording.plain_arrays.at(array, at) is not array:
            raise NotRollable("an iteration writes into a plain array")
        return self._hoist(array, array, id(array))


def _type(x: Any) -> Any:
    aval = operand_aval(x)
    return type(aval) is np.ndarray, type_of(aval)
