"""Repetition in a trace rolled back into loops.

Owns: `roll`, which gives the pass. A Python loop leaves a copy of its equations per step, and its
pullback as many again. `repeat_detection.py` finds them, `recurrences.py` asks what they read from
one repetition to the next; here the windows that are left become `loop` equations. Start at
`_Emitter.run`.

What later steps want of a loop is stacked; where that is a carry, it is kept as the steps find it.
A loop goes in the direction in which most of what it reads lies (a pullback reads what the forward
loop left from the last step to the first).

Invariants: linear in the steps; the equations of a body are those of the repetitions, so that
results keep their bits; what does not fit stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    acts,
    name_variables,
    nested_functions,
    operands_of,
)
from tracker.ir.lowering import Host
from tracker.ir.op import OPS
from tracker.ir.passes import loop_limits
from tracker.ir.passes.loop_limits import LEAST
from tracker.ir.passes.loops.candidates import (
    Before,
    Chain,
    Fixed,
    Link,
    Part,
    Place,
    Residual,
    Source,
    Table,
    Window,
    Within,
)
from tracker.ir.passes.loops.live_outs import Need, Needs
from tracker.ir.passes.loops.recurrences import Analysis
from tracker.ir.passes.loops.repeat_detection import find_runs
from tracker.ir.passes.loops.slice_forwarding import reread
from tracker.ir.passes.loops.stacking import Rows, axis_of
from tracker.ir.passes.manager import Pass
from tracker.ir.structural_keys import objects_key
from tracker.ir.types import Type
from tracker.support.structs import replace

_SHRUNK = 0.9  # of its length; a round that leaves a body longer than that is taken back


class _Emitter(Rows):
    """The new body; loops stand where their windows began."""

    def __init__(self, function: Function, analysis: Analysis) -> None:
        super().__init__()
        self.function = function
        self.analysis = analysis
        self.stands: dict[Atom, Atom] = {}
        self.loops: dict[Window, _Loop] = {}
        self.functions = dict(function.functions)
        self.known = {_key(nested): nested for nested in function.functions.values()}

    def run(self) -> Function:
        needs = Needs(self.function, self.analysis).of
        inside = self.analysis.inside
        for at, step in enumerate(self.function.body):
            window = inside.get(at)
            if window is None:
                self.outside(step)
            elif at == window.start:
                self.where = step.where
                self.loops[window] = _Loop(self, window, needs[window])
                self.chains(window)
        outputs = tuple([self.atom(atom) for atom in self.function.outputs])
        return Function(
            self.function.name,
            self.function.inputs,
            self.function.captures,
            tuple(self.body),
            outputs,
            self.functions,
        )

    def outside(self, step: Eqn | Guard) -> None:
        """A step that stays."""
        if isinstance(step, Guard):
            self.body.append(Guard(self.atom(step.operand), step.kind, step.expected, step.where))
            return
        self.where = step.where
        operands = step.operands
        if step.op.name == "concatenate" and step.params["axis"] == 0:
            operands = tuple(self.together(operands))
        else:
            operands = tuple([self.atom(o) for o in operands])
        self.body.append(Eqn(step.op, operands, step.params, step.out, step.where))

    def chains(self, window: Window) -> None:
        """The arrays that the steps of a loop only put pieces into: made here, so that loops like
        it, and what follows them, are alike for the next round."""
        last = self.function.body[window.end - window.period : window.end]
        for slot in window.chains:
            self.atom(last[slot].out)  # type: ignore[union-attr]

    def atom(self, atom: Atom) -> Atom:
        """What stands for a value."""
        found = self.analysis.of(atom)
        if found is None:
            return atom
        window, slot, step = found
        if slot in window.chains:  # what may be read of it before is the same at the end
            atom = self.analysis.body[window.end - window.period + slot].out  # type: ignore[union-attr]
        known = self.stands.get(atom)
        if known is None:
            known = self.stands[atom] = self.loops[window].value(slot, step)
        return known

    def together(self, operands: Sequence[Atom]) -> Iterator[Atom]:
        """The operands of a concatenation, where those that a loop left one after the other are
        one operand."""
        at = 0
        while at < len(operands):
            length, by = self.stretch(operands, at)
            if length < LEAST:
                yield self.atom(operands[at])
                at += 1
                continue
            found = self.analysis.of(operands[at])
            assert found is not None
            window, slot, step = found
            stack = self.loops[window].rows(slot, step, by, length)
            shape = (length * stack.type.shape[1], *stack.type.shape[2:])
            yield self.make("reshape", stack, shape=shape)
            at += length

    def stretch(self, operands: Sequence[Atom], at: int) -> tuple[int, int]:
        """How many operands from `at` on are what one slot gave in step after step, and whether
        these go up or down."""
        places: list[tuple[Window, int, int]] = []
        for operand in operands[at:]:
            found = self.analysis.of(operand)
            if found is None or not self.loops[found[0]].has_row(found[1], found[2]):
                break
            if len(places) > 1:
                by = places[1][2] - places[0][2]
                if found != (*places[-1][:2], places[-1][2] + by):
                    break
            elif places and (found[:2] != places[0][:2] or abs(found[2] - places[0][2]) != 1):
                break
            places.append(found)
        return len(places), places[1][2] - places[0][2] if len(places) > 1 else 1

    def written(self, total: Atom, link: Link, loop: _Loop) -> Var:
        """`total` with the pieces of a link written or added, all at once."""
        shape, count = total.type.shape, loop.window.count
        by = max(link.place.by, key=abs, default=0)
        if by == 0:
            stack = loop.pieces(link.piece, 0, 1)
            summed = self.make("sum", stack, axis=(0,), keepdims=False)
            added = self.make("embed", summed, index=link.place.index, shape=shape)
            return self.make("add", total, added)
        found = link.place.along(shape)
        assert found is not None
        entry, _ = found
        at = 0 if by > 0 else count - 1
        stack = loop.pieces(link.piece, at, 1 if by > 0 else -1)
        width = link.place.width(entry)
        for column in range(width):
            place, rows = link.place, stack
            if width > 1:
                place = place.column(entry, column)
                rows = self.sliced(stack, 1 + axis_of(place.index, entry), column, 1, 1)
            index = list(place.at(at))
            start = place.start(entry) + by * at
            index[entry] = slice(start, start + abs(by) * (count - 1) + 1, abs(by))
            rows = self.fitted(rows, index, entry, replace(link, place=place))
            if link.adds:
                added = self.make("embed", rows, index=tuple(index), shape=shape)
                total = self.make("add", total, added)
            else:
                total = self.make("put", total, rows, index=tuple(index))
        assert isinstance(total, Var)
        return total

    def nested(self, function: Function) -> Function:
        """The function; or one like it, if there is one."""
        name_variables(function)
        key = _key(function)
        known = self.known.get(key)
        if known is None:
            number = 1
            while f"rolled{number}" in self.functions:
                number += 1
            known = self.known[key] = replace(function, name=f"rolled{number}")
            self.functions[known.name] = known
        return known


def _key(function: Function) -> Hashable:
    """Equal for two functions that do the same: what Python runs must be the same object."""
    called = [eqn for eqn in function.eqns if isinstance(eqn.op.lower, Host)]
    return str(function), *((eqn.op, objects_key(eqn.params)) for eqn in called)


class _Loop:
    """The loop of a window, and its results."""

    def __init__(self, emitter: _Emitter, window: Window, need: Need) -> None:
        self.e = emitter
        self.window = window
        self.period = [emitter.analysis.body[window.start + slot] for slot in range(window.period)]
        self.reverse = self._reverse()
        self.keep = [
            slot for slot in window.carries if need.stacks.get(slot) is False or slot in need.found
        ]
        self.ys = [s for s in need.stacks if s not in window.carries or need.stacks[s]]
        self.inputs: dict[Any, tuple[Var, Atom]] = {}  # of the body, and what each is given
        self.stacks: dict[Source, Var] = {}
        self.rowed: dict[Var, Var] = {}  # stack -> the body's input
        self.carried = {slot: Var(first.type) for slot, first in window.carries.items()}
        self.body: list[Eqn | Guard] = []
        self.made: dict[int, Var] = {}
        self.items: dict[Var, Var] = {}
        for slot, step in enumerate(self.period):
            if slot not in window.gone:
                self._slot(slot, step)
        if self.body:  # else every step only puts what is always the same
            self._write()

    def _reverse(self) -> bool:
        """Whether steps go down along the rows: as most of what is read asks; what acts does so in
        the order in which it stands."""
        balance = 0
        window = self.window
        if any(isinstance(step, Eqn) and acts(step) for step in self.period):
            return False
        sources: dict[Source, None] = dict.fromkeys(window.parts.values())
        for slot, found in enumerate(window.sources):
            if slot not in window.gone:
                sources.update(dict.fromkeys(found))
        for source in sources:
            if isinstance(source, Residual):
                made = self.e.analysis.body[source.window.start + source.slot]
                assert isinstance(made, Eqn)
                type = made.out.type
                down = (source.by < 0) != self.e.loops[source.window].reverse
                balance += -type.size if down else type.size
            elif isinstance(source, Part):
                down = any(by < 0 for by in source.place.by)
                balance += -source.type.size if down else source.type.size
        return balance < 0

    # The body

    def _slot(self, slot: int, step: Eqn | Guard) -> None:
        part = self.window.parts.get(slot)
        if part is not None:
            self.made[slot] = self._row(part, part.type)
            return
        pairs = zip(self.window.sources[slot], operands_of(step), strict=True)
        operands = tuple([self._operand(source, operand.type) for source, operand in pairs])
        if isinstance(step, Guard):
            self.body.append(Guard(operands[0], step.kind, step.expected, step.where))
            return
        out = self.made[slot] = Var(step.out.type)
        self.body.append(Eqn(step.op, operands, step.params, out, step.where))

    def _operand(self, source: Source, type: Type) -> Atom:
        if isinstance(source, Within):
            return self.made[source.slot]
        if isinstance(source, Before):
            return self.carried[source.slot]
        if not isinstance(source, Fixed):
            return self._row(source, type)
        if isinstance(source.atom, Const):
            return source.atom
        known = self.inputs.get(source.atom)
        if known is None:
            known = self.inputs[source.atom] = Var(type), self.e.atom(source.atom)
        return known[0]

    def _row(self, source: Table | Residual | Part, type: Type) -> Var:
        """This step's element of a stack."""
        stack = self.stacks.get(source)
        if stack is None:
            stack = self.stacks[source] = self._stack(source)
        row = self.rowed.get(stack)
        if row is None:
            row = self.rowed[stack] = Var(Type(stack.type.shape[1:], stack.type.dtype))
        if not type.weak:
            return row
        if row not in self.items:
            item = OPS["item"]
            out = self.items[row] = Var(item.infer(row.type))
            self.body.append(Eqn(item, (row,), {}, out, self.e.where))
        return self.items[row]

    def _standing(self, part: Part) -> Part:
        """The same part of what stands for its array."""
        array = self.e.atom(part.array)
        assert isinstance(array, Var)
        return replace(part, array=array)

    def _stack(self, source: Table | Residual | Part) -> Var:
        count = self.window.count
        if isinstance(source, Table):
            return self.e.table(source.values[::-1] if self.reverse else source.values)
        if isinstance(source, Part):
            return self.e.part_rows(self._standing(source), count, self.reverse)
        at, by = source.at, source.by
        if self.reverse:
            at, by = at + by * (count - 1), -by
        return self.e.loops[source.window].rows(source.slot, at, by, count)

    def _write(self) -> None:
        """The equation, and its results."""
        window = self.window
        carried = list(window.carries)
        inputs = [var for var, _ in self.inputs.values()]
        inputs += [self.carried[slot] for slot in carried]
        inputs += self.rowed.values()
        outputs = [self.made[slot] for slot in (*carried, *self.ys)]
        body = Function(
            "rolled",
            tuple(inputs),
            (),
            tuple(self.body),
            tuple(outputs),
            nested_functions(self.body),
        )
        operands = [Const.of(window.count), *(given for _, given in self.inputs.values())]
        operands += [self.e.atom(first) for first in window.carries.values()]
        operands += self.rowed
        self.bundle = self.e.make(
            "loop",
            *operands,
            body=self.e.nested(body),
            consts=len(self.inputs),
            carries=len(carried),
            length=window.count,
            reverse=self.reverse,
            keep=tuple(carried.index(slot) for slot in self.keep),
        )
        self.picked: dict[int, Var] = {}
        self.stack_of = {slot: len(carried) + at for at, slot in enumerate(self.ys)}
        after = len(carried) + len(self.ys)
        self.kept = {slot: after + at for at, slot in enumerate(self.keep)}
        self.finals = {slot: at for at, slot in enumerate(carried)}

    # What it gives

    def pick(self, at: int) -> Var:
        if at not in self.picked:
            self.picked[at] = self.e.make("pick", self.bundle, at=at)
        return self.picked[at]

    def rows(self, slot: int, at: int, by: int, count: int) -> Var:
        """What the slot gave in the steps at, at + by, ..., stacked. Step -1 is what the first one
        found."""
        found = min(at, at + by * (count - 1)) < 0
        if slot in self.window.parts and not found:
            part = self.window.parts[slot]
            place = Place.of(part.place.at(at), tuple(n * by for n in part.place.by))
            return self.e.part_rows(replace(self._standing(part), place=place), count, False)
        whole = slot in self.stack_of and not found
        stack = self.pick(self.stack_of[slot] if whole else self.kept[slot])
        row = self._number(at if whole else at + 1)
        return self.e.sliced(stack, 0, row, -by if self.reverse else by, count)

    def pieces(self, piece: Fixed | Within | Before, at: int, by: int) -> Var:
        """What a chain is given in all steps, from step `at` on, stacked."""
        count = self.window.count
        if isinstance(piece, Fixed):
            shape = (count, *piece.atom.type.shape)
            return self.e.make("broadcast_to", self.e.atom(piece.atom), shape=shape)
        return self.rows(piece.slot, at - isinstance(piece, Before), by, count)

    def has_row(self, slot: int, step: int) -> bool:
        """Whether there is a stack with what the slot gave in this step."""
        return slot in self.stack_of or (slot in self.kept and step < self.window.count - 1)

    def value(self, slot: int, step: int) -> Atom:
        """What the slot gave in a step."""
        type = self.period[slot].out.type  # type: ignore[union-attr]
        if slot in self.window.parts:
            part = self.window.parts[slot]
            return self.e.make("getitem", self.e.atom(part.array), index=part.place.at(step))
        if slot in self.window.chains:
            return self._chained(self.window.chains[slot])
        if step == self.window.count - 1 and slot in self.finals:
            return self.pick(self.finals[slot])
        whole = slot in self.stack_of
        stack = self.pick(self.stack_of[slot] if whole else self.kept[slot])
        row = self._number(step if whole else step + 1)
        index = (row, *(slice(0, n, 1) for n in type.shape))
        found = self.e.make("getitem", stack, index=index)
        return self.e.make("item", found) if type.weak else found

    def _chained(self, chain: Chain) -> Atom:
        """The array after the last step. Where several links that move alike reach one place, the
        one goes first that reached it first; others go as in each step."""

        def turn(link: Link) -> float:
            by = max(link.place.by, key=abs, default=0)
            found = link.place.along(chain.first.type.shape)
            return -link.place.start(found[0]) / by if found is not None else 0.0

        total = chain.first if isinstance(chain.first, Const) else self.e.atom(chain.first)
        alike = chain.links[0].adds or len({link.place.by for link in chain.links}) == 1
        for link in sorted(chain.links, key=turn) if alike else chain.links:
            total = self.e.written(total, link, self)
        return total

    def _number(self, step: int) -> int:
        """The row of a step."""
        return self.window.count - 1 - step if self.reverse else step


def roll(fits: Callable[[Eqn], bool]) -> Pass:
    """The pass that makes loops of what repeats itself; equations that do not fit stay outside."""

    def body(function: Function) -> Function:
        while len(function.body) >= loop_limits.SHORT:
            function = reread(function)
            analysis = Analysis(function)
            for run in find_runs(function.body, fits):
                analysis.visit(run)
            if not analysis.windows:
                break
            made = _Emitter(function, analysis).run()
            if len(made.body) > _SHRUNK * len(function.body):
                break  # a loop whose steps are read one by one saves nothing, and is found again
            function = made
        return function

    return Pass("roll", body)
