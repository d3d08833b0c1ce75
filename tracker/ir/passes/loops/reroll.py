"""Loop re-rolling: repetition in a trace becomes `loop` equations.

A Python loop leaves a copy of its equations per iteration, and its pullback as many again.
`repeat_detection.py` finds them and `recurrences.py` turns them into loop candidates, which are
written here. Start at `_LoopEmitter.run`.

Results that later steps read are stacked; carries are kept as they are at the start of each step. A
loop runs in the direction in which most of what it reads lies: a pullback reads the stacks of the
forward loop from the last row to the first.

Invariants: linear in the steps; the equations of a body are those of the repetitions, so that
results keep their bits; steps that do not fit stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    has_side_effects,
    name_variables,
    nested_functions,
    operands_of,
    unused_name,
)
from tracker.ir.lowering import Host
from tracker.ir.op import OPS
from tracker.ir.passes import loop_limits
from tracker.ir.passes.loops.live_outs import LiveOutAnalysis, LiveOuts
from tracker.ir.passes.loops.loop_candidates import (
    DeferredUpdate,
    DeferredUpdates,
    LiteralSequence,
    LoopCandidate,
    LoopInvariant,
    MovingSlice,
    OperandSource,
    OtherLoopResult,
    PreviousStep,
    SameStep,
)
from tracker.ir.passes.loops.recurrences import RecurrenceAnalysis
from tracker.ir.passes.loops.repeat_detection import find_runs
from tracker.ir.passes.loops.slice_forwarding import reread_slices
from tracker.ir.passes.loops.stacking import StackWriter, result_axis
from tracker.ir.passes.manager import Pass, substitute
from tracker.ir.structural_keys import identity_key
from tracker.ir.types import Type
from tracker.support.structs import replace

_MAX_LENGTH_RATIO = 0.9  # a round that shortens a body by less is taken back


class _LoopEmitter:
    """Writes the new body, with loops in place of the candidates."""

    def __init__(self, function: Function, analysis: RecurrenceAnalysis) -> None:
        self.new = StackWriter()
        self.function = function
        self.analysis = analysis
        self.values: dict[Atom, Atom] = {}
        self.loops: dict[LoopCandidate, _EmittedLoop] = {}
        self.functions = dict(function.functions)
        self.known = {_body_key(nested): nested for nested in function.functions.values()}

    def run(self) -> Function:
        needs = LiveOutAnalysis(self.function, self.analysis).by_candidate
        inside = self.analysis.candidate_at
        for at, step in enumerate(self.function.body):
            candidate = inside.get(at)
            if candidate is None:
                self.emit_step(step)
            elif at == candidate.start:
                self.new.where = step.where
                self.loops[candidate] = _EmittedLoop(self, candidate, needs[candidate])
                self.emit_deferred(candidate)
        outputs = tuple([self.atom(atom) for atom in self.function.outputs])
        body, functions = tuple(self.new.body), self.functions
        return replace(self.function, body=body, outputs=outputs, functions=functions)

    def emit_step(self, step: Eqn | Guard) -> None:
        """Write a step that is not in a loop."""
        self.new.where = step.where
        by = {atom: self.atom(atom) for atom in operands_of(step) if isinstance(atom, Var)}
        self.new.body.append(substitute(step, by))

    def emit_deferred(self, candidate: LoopCandidate) -> None:
        """Write the deferred updates of a loop right after it, so that loops like it, and the steps
        between them, are equal in the next round."""
        last = self.function.body[candidate.end - candidate.period : candidate.end]
        for slot in candidate.deferred:
            self.atom(last[slot].out)  # type: ignore[union-attr]

    def atom(self, atom: Atom) -> Atom:
        """The atom that replaces a value."""
        found = self.analysis.locate(atom)
        if found is None:
            return atom
        candidate, slot, step = found
        value = self.values.get(atom)
        if value is None:
            value = self.values[atom] = self.loops[candidate].value(slot, step)
        return value

    def emit_updates(self, total: Atom, update: DeferredUpdate, loop: _EmittedLoop) -> Var:
        """`total` after an update of all iterations at once."""
        shape, count = total.type.shape, loop.candidate.count
        by = max(update.index.by, key=abs, default=0)
        if by == 0:
            stack = loop.stacked_values(update.value, 0, 1)
            summed = self.new.emit("sum", stack, axis=(0,), keepdims=False)
            added = self.new.emit("embed", summed, index=update.index.first, shape=shape)
            return self.new.emit("add", total, added)
        found = update.index.moving_axis(shape)
        assert found is not None
        entry, _ = found
        at = 0 if by > 0 else count - 1
        stack = loop.stacked_values(update.value, at, 1 if by > 0 else -1)
        width = update.index.width(entry)
        for column in range(width):
            moving, rows = update.index, stack
            if width > 1:
                moving = moving.nth_position(entry, column)
                rows = self.new.strided_slice(
                    stack, 1 + result_axis(moving.first, entry), column, 1, 1
                )
            index = list(moving.at_step(at))
            start = moving.start(entry) + by * at
            index[entry] = slice(start, start + abs(by) * (count - 1) + 1, abs(by))
            rows = self.new.align_stack(rows, index, entry, replace(update, index=moving))
            if update.adds:
                added = self.new.emit("embed", rows, index=tuple(index), shape=shape)
                total = self.new.emit("add", total, added)
            else:
                total = self.new.emit("put", total, rows, index=tuple(index))
        assert isinstance(total, Var)
        return total

    def nested(self, function: Function) -> Function:
        """The function, or an equal one that is known."""
        name_variables(function)
        key = _body_key(function)
        known = self.known.get(key)
        if known is None:
            name = unused_name("rolled", self.functions)
            known = self.known[key] = replace(function, name=name)
            self.functions[known.name] = known
        return known


def _body_key(function: Function) -> Hashable:
    """Equal for equal functions; opaque params of what Python runs must be the same objects."""
    called = [eqn for eqn in function.eqns if isinstance(eqn.op.lower, Host)]
    return str(function), *((eqn.op, identity_key(eqn.params)) for eqn in called)


class _EmittedLoop:
    """The loop of a candidate, and its results."""

    def __init__(self, emitter: _LoopEmitter, candidate: LoopCandidate, need: LiveOuts) -> None:
        self.emitter = emitter
        self.new = emitter.new
        self.candidate = candidate
        self.period = [
            emitter.analysis.body[candidate.start + slot] for slot in range(candidate.period)
        ]
        self.reverse = self._reverse()
        self.kept_slots = [
            slot
            for slot in candidate.carries
            if need.stacks.get(slot) is False or slot in need.kept_carries
        ]
        self.ys = [s for s in need.stacks if s not in candidate.carries or need.stacks[s]]
        self.inputs: dict[Any, tuple[Var, Atom]] = {}  # inputs of the body, and their operands
        self.stacks: dict[OperandSource, Var] = {}
        self.row_inputs: dict[Var, Var] = {}  # the body's input for each stack
        self.carried = {slot: Var(first.type) for slot, first in candidate.carries.items()}
        self.body: list[Eqn | Guard] = []
        self.made: dict[int, Var] = {}
        self.items: dict[Var, Var] = {}
        for slot, step in enumerate(self.period):
            if slot not in candidate.removed_slots:
                self._slot(slot, step)
        if self.body:  # otherwise all updates are deferred, of loop invariants
            self._write()

    def _reverse(self) -> bool:
        """Whether to iterate downwards, as most reads go; never for steps with side effects."""
        balance = 0
        candidate = self.candidate
        if any(isinstance(step, Eqn) and has_side_effects(step) for step in self.period):
            return False
        sources: dict[OperandSource, None] = dict.fromkeys(candidate.slices.values())
        for slot, found in enumerate(candidate.sources):
            if slot not in candidate.removed_slots:
                sources.update(dict.fromkeys(found))
        for source in sources:
            if isinstance(source, OtherLoopResult):
                made = self.emitter.analysis.body[source.candidate.start + source.slot]
                assert isinstance(made, Eqn)
                type = made.out.type
                down = (source.by < 0) != self.emitter.loops[source.candidate].reverse
                balance += -type.size if down else type.size
            elif isinstance(source, MovingSlice):
                down = any(by < 0 for by in source.index.by)
                balance += -source.type.size if down else source.type.size
        return balance < 0

    # The body

    def _slot(self, slot: int, step: Eqn | Guard) -> None:
        moving = self.candidate.slices.get(slot)
        if moving is not None:
            self.made[slot] = self._row(moving, moving.type)
            return
        pairs = zip(self.candidate.sources[slot], operands_of(step), strict=True)
        operands = tuple([self._operand(source, operand.type) for source, operand in pairs])
        if isinstance(step, Guard):
            self.body.append(Guard(operands[0], step.kind, step.expected, step.where))
            return
        out = self.made[slot] = Var(step.out.type)
        self.body.append(Eqn(step.op, operands, step.params, out, step.where))

    def _operand(self, source: OperandSource, type: Type) -> Atom:
        if isinstance(source, SameStep):
            return self.made[source.slot]
        if isinstance(source, PreviousStep):
            return self.carried[source.slot]
        if not isinstance(source, LoopInvariant):
            return self._row(source, type)
        if isinstance(source.atom, Const):
            return source.atom
        known = self.inputs.get(source.atom)
        if known is None:
            known = self.inputs[source.atom] = Var(type), self.emitter.atom(source.atom)
        return known[0]

    def _row(self, source: LiteralSequence | OtherLoopResult | MovingSlice, type: Type) -> Var:
        """This step's element of a stack."""
        stack = self.stacks.get(source)
        if stack is None:
            stack = self.stacks[source] = self._stack(source)
        row = self.row_inputs.get(stack)
        if row is None:
            row = self.row_inputs[stack] = Var(Type(stack.type.shape[1:], stack.type.dtype))
        if not type.weak:
            return row
        if row not in self.items:
            item = OPS["item"]
            out = self.items[row] = Var(item.infer(row.type))
            self.body.append(Eqn(item, (row,), {}, out, self.new.where))
        return self.items[row]

    def _with_current_array(self, moving: MovingSlice) -> MovingSlice:
        """The same slice of the value that replaces its array."""
        array = self.emitter.atom(moving.array)
        assert isinstance(array, Var)
        return replace(moving, array=array)

    def _stack(self, source: LiteralSequence | OtherLoopResult | MovingSlice) -> Var:
        count = self.candidate.count
        if isinstance(source, LiteralSequence):
            return self.new.literal_table(source.values[::-1] if self.reverse else source.values)
        if isinstance(source, MovingSlice):
            return self.new.stack_slices(self._with_current_array(source), count, self.reverse)
        at, by = source.at, source.by
        if self.reverse:
            at, by = at + by * (count - 1), -by
        return self.emitter.loops[source.candidate].rows(source.slot, at, by, count)

    def _write(self) -> None:
        """Write the equation, and enter its results."""
        candidate = self.candidate
        carried = list(candidate.carries)
        inputs = [var for var, _ in self.inputs.values()]
        inputs += [self.carried[slot] for slot in carried]
        inputs += self.row_inputs.values()
        outputs = [self.made[slot] for slot in (*carried, *self.ys)]
        body = Function(
            "rolled",
            tuple(inputs),
            (),
            tuple(self.body),
            tuple(outputs),
            nested_functions(self.body),
        )
        operands = [Const.of(candidate.count), *(given for _, given in self.inputs.values())]
        operands += [self.emitter.atom(first) for first in candidate.carries.values()]
        operands += self.row_inputs
        self.bundle = self.new.emit(
            "loop",
            *operands,
            body=self.emitter.nested(body),
            consts=len(self.inputs),
            carries=len(carried),
            length=candidate.count,
            reverse=self.reverse,
            keep=tuple(carried.index(slot) for slot in self.kept_slots),
        )
        self.picked: dict[int, Var] = {}
        self.stack_of = {slot: len(carried) + at for at, slot in enumerate(self.ys)}
        after = len(carried) + len(self.ys)
        self.kept_at = {slot: after + at for at, slot in enumerate(self.kept_slots)}
        self.finals = {slot: at for at, slot in enumerate(carried)}

    # Results

    def pick(self, at: int) -> Var:
        if at not in self.picked:
            self.picked[at] = self.new.emit("pick", self.bundle, at=at)
        return self.picked[at]

    def rows(self, slot: int, at: int, by: int, count: int) -> Var:
        """The results of a slot in the steps at, at + by, ..., stacked; -1 is before the first."""
        found = min(at, at + by * (count - 1)) < 0
        if slot in self.candidate.slices and not found:
            moving = self.candidate.slices[slot]
            moving = replace(self._with_current_array(moving), index=moving.index.every(at, by))
            return self.new.stack_slices(moving, count, False)
        stack, row = self._stack_and_row(slot, at, is_kept=found)
        return self.new.strided_slice(stack, 0, row, -by if self.reverse else by, count)

    def stacked_values(
        self, value: LoopInvariant | SameStep | PreviousStep, at: int, by: int
    ) -> Var:
        """The values of an update in all steps, from step `at` on, stacked."""
        count = self.candidate.count
        if isinstance(value, LoopInvariant):
            shape = (count, *value.atom.type.shape)
            return self.new.emit("broadcast_to", self.emitter.atom(value.atom), shape=shape)
        return self.rows(value.slot, at - isinstance(value, PreviousStep), by, count)

    def value(self, slot: int, step: int) -> Atom:
        type = self.period[slot].out.type  # type: ignore[union-attr]
        if slot in self.candidate.slices:
            moving = self.candidate.slices[slot]
            return self.new.emit(
                "getitem", self.emitter.atom(moving.array), index=moving.index.at_step(step)
            )
        if slot in self.candidate.deferred:
            return self._deferred_result(self.candidate.deferred[slot])
        if step == self.candidate.count - 1 and slot in self.finals:
            return self.pick(self.finals[slot])
        stack, row = self._stack_and_row(slot, step, is_kept=False)
        index = (row, *(slice(0, n, 1) for n in type.shape))
        found = self.new.emit("getitem", stack, index=index)
        return self.new.emit("item", found) if type.weak else found

    def _deferred_result(self, deferred: DeferredUpdates) -> Atom:
        """The array after the last step.

        Where updates that move alike reach one position, the one that reached it first is written
        first; other updates are written in the order of a step.
        """

        def first_write(update: DeferredUpdate) -> float:
            by = max(update.index.by, key=abs, default=0)
            found = update.index.moving_axis(deferred.first.type.shape)
            return -update.index.start(found[0]) / by if found is not None else 0.0

        total = self.emitter.atom(deferred.first)
        moves_alike = (
            deferred.updates[0].adds or len({update.index.by for update in deferred.updates}) == 1
        )
        updates = sorted(deferred.updates, key=first_write) if moves_alike else deferred.updates
        for update in updates:
            total = self.emitter.emit_updates(total, update, self)
        return total

    def _stack_and_row(self, slot: int, step: int, is_kept: bool) -> tuple[Var, int]:
        """The stack that holds a slot's result in a step, and its row; `is_kept`: among the carries
        that are kept as they are at the start of the next step."""
        if is_kept or slot not in self.stack_of:
            at, step = self.kept_at[slot], step + 1
        else:
            at = self.stack_of[slot]
        return self.pick(at), self.candidate.count - 1 - step if self.reverse else step


def roll(fits: Callable[[Eqn], bool]) -> Pass:
    """The pass that makes loops of repetition; equations that do not fit stay outside."""

    def body(function: Function) -> Function:
        while len(function.body) >= loop_limits.MIN_BODY:
            function = reread_slices(function)
            analysis = RecurrenceAnalysis(function)
            for run in find_runs(function.body, fits):
                analysis.add_run(run)
            if not analysis.candidates:
                break
            made = _LoopEmitter(function, analysis).run()
            if len(made.body) > _MAX_LENGTH_RATIO * len(function.body):
                break  # its rows are read one by one: nothing is saved
            function = made
        return function

    return Pass("roll", body)
