"""Rolling the iterations of a Python loop: `LoopRoller.begin` makes one symbolic, and `end` rolls
those after it, if it can stand for them.

A loop that branches on values ends before the first iteration that branches otherwise, which the
plain loop runs: it may be the last one.
"""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.constants import ConstantValues
from tracker.control.python_loops.growing_lists import GrowingLists, with_plain_numbers
from tracker.control.python_loops.iteration_body import Carry, Iteration, IterationBody, Symbol
from tracker.control.python_loops.iteration_carries import CarriedNames, IterationCarries
from tracker.control.python_loops.iteration_state import IterationState
from tracker.control.python_loops.loop_code import LoopCode
from tracker.ir.types import type_of
from tracker.jit.tracing import calls_unmonitored
from tracker.support.cpython import frame_locals, set_frame_locals
from tracker.support.structs import record
from tracker.tape.loop_index import Affine, SymbolicIteration
from tracker.tape.record import data_of, wrap
from tracker.tape.tracer import Tracer, current_tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

UNBOUNDED = Affine(1 << 30)  # the trip count of a loop that ends when a condition holds
_ATTEMPTS = 3  # symbolic iterations; what is carried may have settled on a type by then
_MIN_EQUATIONS = 2_000  # of a loop over numbers and small arrays; a shorter one is faster unrolled
_MIN_EQUATIONS_OF_LARGE = 150  # the same, over other arrays

_running: list[weakref.ref[LoopRoller]] = []


@record(eq=False)
class _SymbolicRun:
    """A symbolic iteration that is running: what it started from.

    test    what the loop has tested before it, if it is no `for` statement
    marks   how much the tracer had noted, and `guards` how many guards
    """

    symbolic: SymbolicIteration
    iteration: Iteration
    at: int
    state: IterationState
    carried: CarriedNames
    test: Value | None
    marks: tuple[int, ...]
    guards: int


@record(eq=False)
class RolledLoop:
    """A loop that was recorded: how many iterations it took; the same number, tracked, if it
    depends on values; and what the plain loop goes on to test."""

    count: int
    tracked_count: Any
    test: Any


class LoopRoller:
    """Rolls one loop. `counts`: its trip count; `attempts`: how many iterations may still be made
    symbolic; `run`: the one that is running."""

    def __init__(self, tracer: Tracer, code: LoopCode, counts: Affine) -> None:
        self.tracer, self.code, self.counts = tracer, code, counts
        self.attempts = _ATTEMPTS
        self.run: _SymbolicRun | None = None
        _running[:] = [ref for ref in _running if ref() is not None]
        _running.append(weakref.ref(self))

    def begin(self, frame: FrameType, at: int, test: Value | None = None) -> Iteration | None:
        """Make iteration number `at` a symbolic one, if what it may change can be compared."""
        tracer = self.tracer
        self.attempts -= 1
        if current_tracer() is not tracer or tracer.abort_reason:
            return None
        names = frame_locals(frame)
        state = IterationState.before(frame, names, self.code)
        if state is None:
            return None
        found = {name: names[name] for name in self.code.carried if name in names}
        carried = CarriedNames.of(found, state)
        if carried is None:
            return None
        if test is not None and any(type(x) is not Tracked for x in carried.names.values()):
            return None  # what it tests might change unseen, and the loop be left
        symbolic = SymbolicIteration(
            self.counts.minus(Affine(1 + at)), len(tracer.iterations), state.may_grow
        )
        begin = len(tracer.recording.equations)
        iteration = Iteration(symbolic, tracer, begin, [Symbol(symbolic.number, 0, 1)])
        guards = len(tracer.guards.conversions)
        self.run = _SymbolicRun(
            symbolic, iteration, at, state, carried, test, _marks(tracer), guards
        )
        if carried.originals:
            set_frame_locals(frame, carried.symbolic)
        tracer.iterations.append(symbolic)
        return iteration

    def end(self, frame: FrameType, test: Value | None = None) -> RolledLoop | None:
        """The symbolic iteration, if there is one, has ended: roll the loop; None if plain
        iterations go on."""
        run, self.run = self.run, None
        iterations = self.tracer.iterations
        if run is None or run.symbolic not in iterations:
            return None
        del iterations[iterations.index(run.symbolic) :]
        with calls_unmonitored():
            names = frame_locals(frame)
            constants = ConstantValues(run.iteration, run.carried.plain)
            try:
                rolled = self._roll(run, names, constants, frame, test)
            except Exception:  # the plain loop raises at the iteration that does
                rolled = None
                del self.tracer.errors[run.marks[0] :]
            if rolled is None:
                with_plain_numbers(run.state, constants)
                self._restore(run, names, constants, frame)
        return rolled

    def _restore(
        self,
        run: _SymbolicRun,
        names: dict[str, Any],
        constants: ConstantValues,
        frame: FrameType,
    ) -> None:
        """Give names plain numbers again, and forget guards on them."""
        guards = self.tracer.guards.conversions
        guards[run.guards :] = [g for g in guards[run.guards :] if g[1] not in constants.values]
        plain = {
            name: names[name]._value.data
            for name in self.code.bound
            if type(names.get(name)) is Tracked and names[name]._value in constants.values
        }
        if plain:
            set_frame_locals(frame, plain)

    def _roll(
        self,
        run: _SymbolicRun,
        names: dict[str, Any],
        constants: ConstantValues,
        frame: FrameType,
        test: Value | None,
    ) -> RolledLoop | None:
        """Record the loop, and give names and arrays their values after it."""
        tracer, state = self.tracer, run.state
        if current_tracer() is not tracer or tracer.abort_reason or _marks(tracer) != run.marks:
            return None
        if run.symbolic.has_learned or not state.is_unchanged():
            return None
        carries = IterationCarries(run.carried, state, names)
        if run.test is not None and test is not None:
            if type_of(test.aval) != type_of(run.test.aval):
                return None
            carries.all.append(Carry(run.test, test, wrap(run.test)))
        starts = {each.start for each in carries.all}
        lists = GrowingLists(state, run.carried.names, names)
        conditions = self._conditions(run, starts)
        if conditions is None or len(starts) < len(carries.all):
            return None
        if conditions and constants.values.issuperset(conditions):
            return None  # the branches are the same in every call
        # The last iteration of a `for` statement may have to be a plain one.
        binds_more = bool(conditions or self.code.read_after - self.code.carried)
        peeled = run.test is None and binds_more
        counts = self.counts.minus(Affine(run.at + peeled))
        if (lists.values and (conditions or counts.terms)) or (counts.terms and peeled):
            return None
        run.symbolic.variable.last = counts.minus(Affine(1))
        run.iteration.carries, run.iteration.appended = carries.all, lists.values
        run.iteration.conditions = conditions
        body = IterationBody(run.iteration, counts)
        least = self._least_count(body)
        if counts.high < least:
            self.attempts = 0
            return None
        count = counts.const
        exact: list[Any] = [None] * len(carries.all)
        numbers: dict[Value, list[Any]] = {}
        if not counts.terms and not conditions:
            exact, numbers = constants.after(count, carries.all, lists.values)
        if len(numbers) == len(lists.values) and exact and all(data is not None for data in exact):
            return None  # the plain loop is as fast
        run.iteration.appended = [value for value in lists.values if value not in numbers]
        results, stacks, tracked_count = body.run()
        if conditions:
            count = int(data_of(tracked_count))
            if count < least:
                return None
            guards = tracer.guards.conversions
            guards[run.guards :] = [g for g in guards[run.guards :] if g[1] not in conditions]
        found = [
            data if data is not None else made for data, made in zip(exact, results, strict=True)
        ]
        carries.assign(found, frame)
        lists.extend(count, stacks, numbers, frame_locals(frame))
        self.attempts = 0
        tested = None if run.test is None else found[-1]
        return RolledLoop(count, tracked_count if conditions else None, tested)

    def _conditions(self, run: _SymbolicRun, starts: set[Value]) -> dict[Value, bool] | None:
        """What the iteration has branched on, with the branches it took; None if Python depends on
        its values in other ways."""
        made = {value for value, _, _ in run.iteration.equations}
        made.update(symbol.value for symbol in run.iteration.symbols)
        made.update(starts)
        found: dict[Value, bool] = {}
        for _, value, kind, _, expected in self.tracer.guards.conversions[run.guards :]:
            if value not in made:
                continue
            if kind != "bool" or np.ndim(value.aval):
                return None
            found[value] = bool(value.data) if expected is None else expected
        return found

    def _least_count(self, body: IterationBody) -> int:
        """From how many iterations on the loop pays."""
        if body.iteration.conditions and self.tracer.has_other_paths:
            return 1  # a trace for each number of iterations would take longer
        equations, large = body.size()
        for ref in _running:
            outer = ref()
            if outer is not None and outer is not self and outer.counts is not UNBOUNDED:
                equations *= outer.counts.high
        least = _MIN_EQUATIONS_OF_LARGE if large else _MIN_EQUATIONS
        return -(-least // max(equations, 1))


def _marks(tracer: Tracer) -> tuple[int, ...]:
    """How much a tracer has noted of what an iteration of a loop may not do."""
    recording, guards, escapes = tracer.recording, tracer.guards, tracer.escapes
    noted = (
        *(tracer.errors, recording.aliases, recording.closed_at, escapes.arrays, escapes.values),
        *(guards.by_value, guards.no_alias, guards.alias_queries, guards.flag_queries),
    )
    return *map(len, noted), tracer.drops_history
