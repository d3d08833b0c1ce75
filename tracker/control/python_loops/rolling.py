"""Rolling the iterations of a Python loop: `LoopRoller.begin` makes one symbolic, and `end` rolls
those after it, if it can stand for them.

A loop that branches on values ends before the first iteration that branches otherwise, which the
plain loop runs: it may be the last one.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence, Set
from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.attempts import Attempts, IterationRange
from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.control.python_loops.body.constants import ConstantValues
from tracker.control.python_loops.body.iteration_body import Carry, Iteration, IterationBody, Symbol
from tracker.control.python_loops.body.vectorised_loop import vectorise
from tracker.control.python_loops.growing_lists import GrowingLists, with_plain_numbers
from tracker.control.python_loops.iteration_carries import (
    CarriedPlaces,
    IterationCarries,
    is_number,
    iterations_until_new,
)
from tracker.control.python_loops.iteration_state import IterationState, is_constant
from tracker.control.python_loops.loop_code import LoopCode, may_have_left
from tracker.control.python_loops.paths import (
    Path,
    PathsWithin,
    are_all,
    may_leave_loop,
    path_of,
    stands_for,
)
from tracker.control.python_loops.places import Place, Places, is_mutable_container
from tracker.control.python_loops.recorded_loop import RecordedLoop
from tracker.errors import TrackerError
from tracker.ir.types import type_of
from tracker.jit.tracing import calls_unmonitored
from tracker.ops.elementwise.comparison import equal, greater_equal
from tracker.ops.indexing.gather_scatter import mask_count
from tracker.ops.shape.create import buffer
from tracker.support.frames.cpython import frame_locals
from tracker.support.structs import record, replace
from tracker.tape.record import apply, aval_of, data_of, value_of, wrap
from tracker.tape.tracing.loop_index import (
    Affine,
    SymbolicIteration,
    affine_form,
    grows,
    note_learned,
    note_short_end,
)
from tracker.tape.tracing.tracer import (
    Tracer,
    UnsupportedInBody,
    current_tracer,
    is_constant_in_traces,
)
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value

UNBOUNDED = Affine(1 << 30)  # the trip count of a loop that ends when a condition holds
_MAX_PATHS = 8
_MAX_SEGMENTS = 16  # parts of a loop whose iterations branch alike, on plain numbers
_MIN_BRANCHES = 16  # iterations of which some branch; other calls will branch otherwise
_MAX_ALIKE = 1 << 22  # iterations that are looked through for one that branches otherwise
_TEST = -1  # the key of what a loop tests, among carries
_MIN_EQUATIONS = 500  # of a loop over numbers and small arrays; a shorter one compiles as quickly
_MIN_EQUATIONS_OF_LARGE = 150  # the same, over other arrays

# Why a loop is not rolled, or that one of its operations raises: the plain loop raises at the
# iteration that does.
_REFUSALS = (
    NotRollable,
    UnsupportedInBody,
    TrackerError,
    ArithmeticError,
    IndexError,
    TypeError,
    ValueError,
    Warning,
)

_running: list[weakref.ref[LoopRoller]] = []


@record(eq=False)
class _SymbolicRun:
    """A symbolic iteration that is running: what it started from.

    steps    by how much integers move in each iteration
    test     what the loop has tested before it, if it is no `for` statement
    marks    how much the tracer had noted, and `guards` how many guards
    tuples   those at places, with what the plain loop has there
    carries  once it has ended, and `lists`, what it has appended; `path`: what it has branched on;
             `may_leave`: whether some of its branches lead out of the loop, and `may_branch`:
             whether some do not; `is_plain`: whether all are on plain numbers; `divisors`: plain
             numbers that must not be zero
    """

    symbolic: SymbolicIteration
    iteration: Iteration
    at: int
    state: IterationState
    places: Places
    carried: CarriedPlaces
    steps: Mapping[Place, int]
    test: Value | None
    marks: tuple[int, ...]
    guards: int
    tuples: Sequence[tuple[Any, Any]] = ()
    carries: IterationCarries = None  # type: ignore[assignment]
    path: Path = ()
    may_leave: bool = False
    may_branch: bool = False
    is_plain: bool = False
    divisors: Sequence[Value] = ()
    lists: GrowingLists = None  # type: ignore[assignment]

    @property
    def plain_test(self) -> Value | None:
        """What the loop has tested, if that is no tracked value: a plain number stands for it."""
        test = self.test
        is_plain = test is not None and test.op is CLOSED and is_constant_in_traces(test)
        return test if is_plain else None

    @property
    def plain(self) -> list[Value]:
        """The values that stand for plain numbers."""
        test = self.plain_test
        return self.carried.plain if test is None else [*self.carried.plain, test]


@record(eq=False)
class _Paths:
    """Iterations of which each took another path, for a loop that begins with the iteration
    `first`. `end`: the number of the iteration that comes after the last one of them; `other`: of
    the next one that takes none of these paths, if that is known."""

    first: _SymbolicRun
    runs: list[_SymbolicRun]
    end: int
    other: int = 0

    def bodies(self, counts: Affine) -> list[IterationBody]:
        """The bodies of the iterations."""
        carries = self.first.carries.all
        bound = [run.carries.binds_arrays(carries) for run in self.runs]
        may_stay = [not all(each) for each in zip(*bound, strict=True)]
        for run, binds in zip(self.runs, bound, strict=True):
            run.symbolic.variable.last = counts.minus(Affine(1))
            flags = [_flag(b) for b, stays in zip(binds, may_stay, strict=True) if stays]
            run.iteration.carries = [
                replace(run.carries.all[key], origin=carry.origin) for key, carry in carries.items()
            ] + flags
            run.iteration.appended = run.lists.values
        return [IterationBody(run.iteration, counts) for run in self.runs]

    def iterations_until_new(self) -> int:
        """See `iteration_carries.py`."""
        return iterations_until_new([run.carries for run in self.runs])


@record(eq=False)
class RolledLoop:
    """A loop that was recorded, from iteration number `at` on: how many iterations it took; the
    same number, tracked, if it depends on values; and what the plain loop goes on to test."""

    at: int
    count: int
    tracked_count: Any
    test: Any


class LoopRoller:
    """Rolls one loop.

    range       the iterations that may be rolled
    over        the arrays and lists that it goes through
    outcomes    what a test between two iterations may be, if the loop goes on
    run         the symbolic iteration that is running
    paths       those before it that have taken different paths, without a plain one in between,
                which might change what they depend on
    conditions  what iterations since the first of these have branched on
    """

    def __init__(
        self,
        tracer: Tracer,
        code: LoopCode,
        counts: Affine,
        over: Sequence[Any] = (),
        outcomes: Collection[bool] = (),
    ) -> None:
        self.tracer, self.code, self.over, self.outcomes = tracer, code, over, outcomes
        first = 0 if tracer.iterations else tracer.short_loops.get(code, 0)
        self.range, self.attempts = IterationRange(counts), Attempts(first)
        self.run: _SymbolicRun | None = None
        self.paths: _Paths | None = None
        self.conditions: set[Value] = set()
        _running[:] = [ref for ref in _running if ref() is not None]
        _running.append(weakref.ref(self))

    def __del__(self) -> None:
        run, iterations = self.run, self.tracer.iterations
        if run is not None and run.symbolic in iterations:  # `break`, or an exception
            _leave(iterations, iterations.index(run.symbolic))

    def may_begin(self, at: int) -> bool:
        """Whether iteration number `at` may be made a symbolic one."""
        return self.attempts.allow(at) and self.range.allows(at)

    def begin(self, frame: FrameType, at: int, test: Value | None = None) -> Iteration | None:
        """Make iteration number `at` a symbolic one, if what it may change can be compared."""
        tracer = self.tracer
        self.attempts.left -= 1
        paths, self.paths = self.paths, None
        if current_tracer() is not tracer or tracer.abort_reason:
            return None
        names = frame_locals(frame)
        state = IterationState.before(frame, names, self.code, self.over)
        if state is None:
            return None
        stored = [x for x, _ in state.containers.values() if (id(x),) in self.attempts.places]
        places = Places(frame, self.code.carried, state.places, stored, self.attempts.places)
        at_places = places.read(frame)
        fixed = {place for place in at_places if places.is_fixed(place)}
        carried = CarriedPlaces.of(at_places, state, fixed)
        if carried is None:
            return None
        if test is not None and not all(
            type(x) is Tracked or is_mutable_container(x) or (place in fixed and is_constant(x))
            for place, x in carried.names.items()
        ):
            return None  # what it tests might change unseen, and the loop be left
        known = self.attempts.steps.items()
        steps = {x: step for x, step in known if step and type(carried.originals.get(x)) is int}
        if paths and paths.first.steps != steps:
            paths = None
        since = at - paths.first.at if paths else 0
        last = self.range.last(at, since)
        symbolic = SymbolicIteration(last, len(tracer.iterations), state.may_grow, since)
        for place, step in steps.items():
            form = Affine.of(carried.originals[place] - step * since, [(symbolic.variable, step)])
            symbolic.forms[carried.starts[place]] = form
        if state.may_grow:
            _note_extents(symbolic, carried, self.attempts.extents, since)
        begin = len(tracer.recording.equations)
        iteration = Iteration(symbolic, tracer, begin, [Symbol(symbolic.number, 0, 1)])
        guards = len(tracer.guards.conversions)
        self.run = _SymbolicRun(
            symbolic, iteration, at, state, places, carried, steps, test, _marks(tracer), guards
        )
        self.paths = paths
        originals = places.tuples(frame)
        if carried.originals:
            places.write(frame, carried.symbolic)
        self.run.tuples = _pairs(places.tuples(frame), originals)
        tracer.iterations.append(symbolic)
        return iteration

    @property
    def _binds(self) -> bool:
        """Whether the last iteration binds names that are read after the loop."""
        return bool(self.code.read_after - self.code.carried)

    def end(self, frame: FrameType, test: Value | None = None) -> RolledLoop | None:
        """The symbolic iteration, if there is one, has ended: roll the loop; None if plain
        iterations go on."""
        run, self.run = self.run, None
        iterations = self.tracer.iterations
        if run is None or run.symbolic not in iterations:
            self.paths = None  # a plain iteration may have changed what they depend on
            return None
        constants = ConstantValues(run.iteration, run.plain)
        self._check_steps(run, frame)
        begun = iterations.index(run.symbolic)
        _leave(iterations, begun + 1)
        del iterations[begun]
        run.places.take_back(frame)
        with calls_unmonitored():
            try:
                rolled = self._roll(run, constants, frame, test)
            except _REFUSALS:
                rolled = None
                del self.tracer.errors[run.marks[0] :]
            if rolled is None:
                self._learn(run, frame)
                self.attempts.left += self.range.learn_end(run.symbolic)
                self._learn_of_vectorised(run)
                with_plain_numbers(run.state, constants)
                self._restore(run, constants, frame)
        return rolled

    def _check_steps(self, run: _SymbolicRun, frame: FrameType) -> None:
        """Whether the integers that are said to move with the loop do."""
        ends = run.places.read(frame) if run.steps else {}
        for place, step in run.steps.items():
            start, end = affine_form(run.carried.starts[place]), affine_form(ends.get(place))
            assert start is not None
            if end != start.plus(Affine(step)):
                self.attempts.steps[place], run.symbolic.has_learned = 0, True

    def _learn(self, run: _SymbolicRun, frame: FrameType) -> None:
        """Know by their parts the lists, dicts and objects that the iteration has bound anew or
        stored into, as what changes the numbers in them that have changed, and by how much integers
        have moved, and the extents of arrays."""
        ends = run.places.read(frame)
        found = {
            place
            for place, x in run.carried.names.items()
            if ends.get(place, x) is not x
            and (is_mutable_container(x) or (is_number(x) and run.places.is_fixed(place)))
        }
        found |= {(id(x),) for x in run.state.changed_containers()}
        steps = {
            place: step
            for place, x in run.carried.originals.items()
            if type(x) is int and type(end := data_of(ends.get(place))) is int and (step := end - x)
        }
        starts = run.carried.starts.items()
        extents = {
            place: moved
            for place, value in starts
            if any(moved := _extents_moved(value.aval, aval_of(ends.get(place))))
        }
        self.attempts.learn(found, steps, extents)

    def _learn_of_vectorised(self, run: _SymbolicRun) -> None:
        """Have a last attempt, in which inner loops that were vectorised stay loops: that may be
        why this one has failed."""
        inner = run.symbolic.vectorised - self.tracer.not_vectorised
        if inner and not self.attempts.left:
            self.tracer.not_vectorised |= inner
            self.attempts.left = 1

    def _restore(self, run: _SymbolicRun, constants: ConstantValues, frame: FrameType) -> None:
        """Give names and attributes plain numbers again, and forget guards on them."""
        self._forget_guards(run, constants.values)
        attributes = [*run.state.places, *run.state.absent]
        places = Places(frame, self.code.bound, attributes)
        held = places.read(frame).items()
        tracked = ((place, x._value) for place, x in held if type(x) is Tracked)
        plain = {place: value.data for place, value in tracked if value in constants.values}
        if plain:
            places.write(frame, plain)

    def _roll(
        self,
        run: _SymbolicRun,
        constants: ConstantValues,
        frame: FrameType,
        test: Value | None,
    ) -> RolledLoop | None:
        """Record the loop, and give names and arrays their values after it."""
        tracer, state = self.tracer, run.state
        paths, self.paths = self.paths, None
        if paths is None:
            self.conditions.clear()
        if current_tracer() is not tracer or tracer.abort_reason or _marks(tracer) != run.marks:
            return None
        if test is not None and may_have_left(self.code, run.symbolic.outcomes(self.code.code)):
            return None
        run.places.check(frame, state.reached)
        if not state.is_unchanged(run.places.holders):
            return None
        ends = run.places.read(frame)
        run.carries = carries = IterationCarries(run.carried, state, ends, run.places.replaced)
        if run.test is not None and test is not None:
            if type_of(test.aval) != type_of(run.test.aval):
                return None
            origin = wrap(run.test) if run.plain_test is None else run.test.data
            carries.all[_TEST] = Carry(run.test, test, origin)
        starts = {each.start for each in carries.all.values()}
        run.lists = GrowingLists(state, run.carried.names, ends, run.places.replaced)
        conditions = self._conditions(run, starts)
        if conditions is None or len(starts) < len(carries.all):
            return None
        run.is_plain = constants.values.issuperset(conditions)
        if conditions and run.is_plain and not paths and not self.range.counts.terms:
            end = self._end_of_branches(run, constants, conditions)
            if end is None:
                return None
            if end > run.at + 1:
                self.range.start_segment(run.at, end)
                self._forget_guards(run, conditions)
                conditions = {}
        if conditions and not paths and self._are_settled(run, constants, conditions):
            self._forget_guards(run, conditions)
            conditions = {}
        if run.symbolic.has_learned:
            return None
        if conditions or paths:
            if self._extents(run) or run.symbolic.extents:
                return None
            # The plain loop runs an iteration that divides by zero.
            run.divisors = constants.divisors()
            run.iteration.conditions = conditions | dict.fromkeys(run.divisors, True)
            return self._roll_paths(self._with_new_path(paths, run), frame)
        return self._roll_all(run, constants, frame)

    def _end_of_branches(
        self, run: _SymbolicRun, constants: ConstantValues, outcomes: dict[Value, bool]
    ) -> int | None:
        """The iteration from which on others branch otherwise, all on plain numbers; the next one
        if they soon do; None if they do and this may have been the last one to do so."""
        if run.test is not None and run.plain_test is None:
            return None
        is_open = run.test is not None
        left = _MAX_ALIKE if is_open else self.range.all_from(run.at).const
        count = constants.count_alike(left, list(run.carries.all.values()), outcomes)
        if count is None or (is_open and count == left):
            return None
        least = _MIN_BRANCHES if is_open else max(_MIN_BRANCHES, left // _MAX_SEGMENTS)
        if count == left or count >= least:
            return run.at + count
        return None if self.attempts.left else run.at + 1

    def _are_settled(
        self, run: _SymbolicRun, constants: ConstantValues, outcomes: dict[Value, bool]
    ) -> bool:
        """Whether all iterations of a loop whose trip count moves branch alike, the last one, which
        stays plain, excepted."""
        variable = run.symbolic.variable
        if not self.range.counts.terms:
            return False
        # In any case there are more iterations than those before this one.
        has_more = self.range.counts.low > run.at
        if has_more and constants.are_equal_at_first(outcomes, variable):
            raise NotRollable("the first iteration branches otherwise than those after it")
        count = constants.others_at_end(outcomes, variable)
        if count is None or (count and not has_more):
            return False
        self.range.plain_at_end = count
        return True

    def _roll_all(
        self, run: _SymbolicRun, constants: ConstantValues, frame: FrameType
    ) -> RolledLoop | None:
        """Roll a loop whose iterations do not branch."""
        carries, lists = list(run.carries.all.values()), run.lists
        counts = self.range.rolled_from(run.at, self._binds)
        has_parts = lists.parts or run.symbolic.extents
        if counts.terms and (has_parts or self._binds or constants.doubtful):
            return None
        is_segment = self.range.is_segment(run.at)
        if is_segment:
            counts = Affine(min(self.range.alike_until - run.at, counts.const))
        run.symbolic.variable.last = counts.minus(Affine(1))
        run.iteration.carries, run.iteration.appended = carries, lists.values
        body = IterationBody(run.iteration, counts)
        has_more = is_segment and run.test is None
        left = self.range.all_from(run.at).high if has_more else counts.high
        if left < self._least_count(body):
            self.attempts.stop()
            return None
        count = counts.now
        if count < iterations_until_new([run.carries]):
            return None
        exact: list[Any] = [None] * len(carries)
        numbers: dict[Value, list[Any]] = {}
        if not counts.terms:
            exact, numbers = constants.after(count, carries, lists.values)
        if len(numbers) == len(lists.values) and exact and all(data is not None for data in exact):
            return None  # the plain loop is as fast
        run.iteration.appended = [value for value in lists.values if value not in numbers]
        results, stacks = self._vectorised(body), dict[Value, Any]()
        if results is None:
            results, stacks = body.after(RecordedLoop([body], takes_all=True).record())
        if any(type(x) is not Tracked for x in stacks.values()):
            return None  # nothing that it reads is tracked
        found = [
            data if data is not None else made for data, made in zip(exact, results, strict=True)
        ]
        self._forget_guards(run, self._extents(run, body.dependent))
        for condition in body.ragged.conditions:
            self.tracer.add_guard(condition, "bool")
        self._assign(run, dict(zip(run.carries.all, found, strict=True)), frame)
        lists.extend(count, [*map(stacks.get, lists.values)], numbers, run.places.read(frame))
        if is_segment:
            self.attempts.restart()
        else:
            self.attempts.stop()
        test = None if run.test is None else buffer(exact[-1])
        return RolledLoop(run.at, count, None, test)

    def _vectorised(self, body: IterationBody) -> list[Any] | None:
        """What the carries are after the loop, by operations on arrays, if that is possible."""
        results = None if self.code in self.tracer.not_vectorised else vectorise(body)
        if results is not None:
            for outer in self.tracer.iterations:
                outer.vectorised.add(self.code)
        return results

    def _assign(
        self, run: _SymbolicRun, found: Mapping[Place | int, Any], frame: FrameType
    ) -> None:
        """Give places and arrays their values after a loop that begins with this iteration."""
        ended = run.places.tuples(frame)
        run.carries.assign(found, run.places, frame)
        run.lists.know_tuples(run.tuples, _pairs(ended, run.places.tuples(frame)))

    def _roll_paths(self, paths: _Paths, frame: FrameType) -> RolledLoop | None:
        """Roll a loop whose iterations branch on values, from the first of these iterations to the
        next one that takes none of their paths; None if more iterations are to be symbolic first.
        """
        first, runs = paths.first, paths.runs
        if paths.end <= paths.other:
            self.paths = paths
            return None
        counts = self._counts_of_paths(paths)
        has_all_paths = first.test is None and are_all([run.path for run in runs])
        self.attempts.note_branch()
        if counts.terms and (counts != self.range.all_from(first.at) or first.lists.parts):
            return None  # there may be no last iteration
        if any(run.lists.form != first.lists.form for run in runs):
            return None  # paths append other things
        # Branches on plain numbers alone are the same in every call.
        is_plain = all(run.is_plain for run in runs)
        if is_plain and not has_all_paths:
            self.paths = paths if self.attempts.left and len(runs) < _MAX_PATHS else None
            return None
        bodies = paths.bodies(counts)
        # A trace for each way through the loop would take longer.
        least = 1 if self.tracer.has_other_paths else self._least_count(bodies[0])
        branches = any(run.may_branch for run in runs)
        is_better = branches and not is_plain and counts.high >= _MIN_BRANCHES
        if counts.high < least and not is_better:
            self.attempts.stop()
            return None
        if counts.terms or has_all_paths:
            rolled = self._roll_every(paths, bodies, counts, has_all_paths, frame)
            if rolled is not None or has_all_paths:
                return rolled
            counts, least = Affine(counts.now), 1
            bodies = paths.bodies(counts)
        return self._roll_until_other(paths, bodies, counts, least, frame)

    def _roll_every(
        self,
        paths: _Paths,
        bodies: list[IterationBody],
        counts: Affine,
        has_all_paths: bool,
        frame: FrameType,
    ) -> RolledLoop | None:
        """Roll a loop for all iterations; None if one takes none of the paths, of which not all
        are known."""
        first, count = paths.first, counts.now
        if count < max(1, paths.end - first.at, paths.iterations_until_new()):
            return None
        loop = RecordedLoop(bodies, takes_all=True, checks_paths=not has_all_paths)
        results, stacks = bodies[0].after(loop.record())
        if not has_all_paths and not data_of(loop.are_alike):
            return None
        if any(type(x) is not Tracked for x in stacks.values()):
            return None  # nothing that it reads is tracked
        self._forget_guards(first, self.conditions)
        if not has_all_paths:
            self._guard(loop.are_alike, paths)
        self._finish(paths, count, results, stacks, frame)
        self.attempts.stop()
        return RolledLoop(first.at, count, None, None)

    def _roll_until_other(
        self,
        paths: _Paths,
        bodies: list[IterationBody],
        counts: Affine,
        least: int,
        frame: FrameType,
    ) -> RolledLoop | None:
        """Roll a loop for the iterations before the first one that takes none of the paths."""
        first, runs = paths.first, paths.runs
        loop = RecordedLoop(bodies)
        count, done = int(data_of(loop.count)), paths.end - first.at
        takes_others = any(run.may_branch for run in runs) and len(runs) < _MAX_PATHS
        if takes_others and count < min(counts.high, done + self.attempts.left):
            paths.other = first.at + count
            self.paths = paths  # an iteration that comes soon takes another path
            return None
        takes_others &= len(runs) > 1 or count < counts.high
        until_new = paths.iterations_until_new()
        if count < max(1 if takes_others else least, done, until_new):
            if count < least and not takes_others:
                self._note_short(first.at + count, least)
            return None
        results, stacks = bodies[0].after(loop.record())
        if any(type(x) is not Tracked for x in stacks.values()):
            return None  # nothing that it reads is tracked
        self._forget_guards(first, self.conditions)
        self._guard_count(paths, loop.count, counts, until_new)
        if loop.length > count:
            stacks = {x: stack[:count] for x, stack in stacks.items()}
        found = self._finish(paths, count, results, stacks, frame)
        if first.test is None:
            is_left = count == counts.high or any(run.may_leave for run in runs)
        else:
            is_left = bool(data_of(found[_TEST])) not in self.outcomes
        if takes_others and not is_left:
            self.paths = paths  # the next iteration takes another path: roll with it, too
        else:
            self.attempts.stop()
        return RolledLoop(first.at, count, loop.count, found.get(_TEST))

    def _note_short(self, end: int, least: int) -> None:
        """The iterations up to this one are fewer than at least pay: others before it need not be
        tried, nor as many of the same loop when it runs again."""
        self.attempts.first = end
        if not self.tracer.iterations:
            self.tracer.short_loops[self.code] = min(end, least // 2)

    def _finish(
        self,
        paths: _Paths,
        count: int,
        results: Sequence[Any],
        stacks: Mapping[Value, Any],
        frame: FrameType,
    ) -> Mapping[Place | int, Any]:
        """Give places, arrays and lists what they have after so many iterations. `stacks`: by what
        the first of the paths has appended."""
        first = paths.first
        found = dict(zip(first.carries.all, results, strict=False))
        for flag in results[len(found) :]:
            self.tracer.add_guard(value_of(flag), "bool")
            self.conditions.add(value_of(flag))
        self._assign(first, found, frame)
        appended = [*map(stacks.get, paths.runs[0].lists.values)]
        first.lists.extend(count, appended, {}, first.places.read(frame))
        return found

    def _with_new_path(self, known: _Paths | None, last: _SymbolicRun) -> _Paths:
        """The iterations, and this one, without those that others stand for; all carry the same."""
        conditions = last.iteration.conditions
        self.conditions.update(conditions)
        last.path = path_of(last.symbolic, conditions)
        no_branches = {*last.divisors} if len(self.outcomes) > 1 else {*last.divisors, last.test}
        tests = [each for each in conditions.items() if each[0] not in no_branches]
        leaves = may_leave_loop(self.code, last.symbolic, tests)
        last.may_leave, last.may_branch = True in leaves, False in leaves
        first, runs, other = (known.first, known.runs, known.other) if known else (last, [], 0)
        together = {first: None, last: None, **dict.fromkeys(runs)}
        for run in together:
            for each in together:
                run.carries.add(each.carries)
        if not any(stands_for(run.path, last.path) for run in runs):
            runs = [*(run for run in runs if not stands_for(last.path, run.path)), last]
        return _Paths(first, runs, last.at + 1, other)

    def _counts_of_paths(self, paths: _Paths) -> Affine:
        """How many iterations may be rolled. The plain loop runs the last one of a `for` statement,
        if it may leave the loop, or binds names."""
        if paths.first.test is not None:
            return self.range.all_from(paths.first.at)
        is_last_plain = self._binds or any(run.may_leave for run in paths.runs)
        return self.range.rolled_from(paths.first.at, is_last_plain)

    def _guard_count(self, paths: _Paths, count: Any, counts: Affine, until_new: int) -> None:
        """Whether the loop takes all iterations is a branch, unless a plain iteration comes after
        it in any case; so is whether it takes enough of them that places have new arrays. How many
        it takes is the length of what it has appended."""
        first = paths.first
        if first.lists.parts:
            self._guard(apply(equal, (count, data_of(count))), paths, int(data_of(count)))
        elif first.test is None and counts == self.range.all_from(first.at):
            self._guard(apply(equal, (count, counts.const)), paths)
        if until_new > (first.test is not None):
            self._guard(apply(greater_equal, (count, until_new)), paths, until_new)

    def _forget_guards(self, run: _SymbolicRun, values: Container[Value]) -> None:
        guards = self.tracer.guards.conversions
        guards[run.guards :] = [g for g in guards[run.guards :] if g[1] not in values]

    def _guard(self, condition: Any, paths: _Paths, asked: str | int = "all") -> None:
        """Branch on how many iterations took these paths, if that may differ in other calls."""
        if type(condition) is not Tracked:
            return
        value = value_of(condition)
        self.tracer.add_guard(value, "bool")
        self.conditions.add(value)
        tests = [each for run in paths.runs for each in run.iteration.conditions.items()]
        known = frozenset([run.path for run in paths.runs])
        for outer in self.tracer.iterations:
            outer.paths_within[value] = PathsWithin(self.code, asked, known, tests)

    def _conditions(self, run: _SymbolicRun, starts: set[Value]) -> dict[Value, bool] | None:
        """What the iteration has branched on, with the branches it took; None if Python depends on
        its values in other ways."""
        made = {value for value, _, _ in run.iteration.equations}
        made.update(symbol.value for symbol in run.iteration.symbols)
        made.update(starts)
        found: dict[Value, bool] = {}
        extents = self._extents(run)
        for _, value, kind, _, expected in self.tracer.guards.conversions[run.guards :]:
            if value not in made or value in extents:
                continue
            if kind != "bool" or np.ndim(value.aval):
                return None
            found[value] = bool(value.data) if expected is None else expected
        return found

    def _extents(self, run: _SymbolicRun, of: Set[Value] | None = None) -> set[Value]:
        """The guarded numbers of elements that masks select, those among `of`, and bounds of slices
        that nothing else has read: each iteration has its own."""
        guards = self.tracer.guards.conversions[run.guards :]
        read = Counter(value for _, value, _, _, _ in guards)
        masks = {value for value in read if value.op is mask_count}
        bounds = {value for value, n in run.symbolic.bounds.items() if n == read[value]}
        if of is None:
            return masks | bounds
        return {each for each in masks if each.operands[0] in of} | (bounds & of)

    def _least_count(self, body: IterationBody) -> int:
        """From how many iterations on the loop pays."""
        equations, large = body.size()
        for ref in _running:
            outer = ref()
            if outer is not None and outer is not self and outer.range.counts is not UNBOUNDED:
                equations *= outer.range.counts.high
        least = _MIN_EQUATIONS_OF_LARGE if large else _MIN_EQUATIONS
        return -(-least // max(equations, 1))


def _leave(iterations: list[SymbolicIteration], begun: int) -> None:
    """Make loops that are left, from this symbolic iteration on, a part of the iteration around
    them: others must have as many iterations."""
    left = [iteration.variable for iteration in iterations[begun:]]
    del iterations[begun:]
    for variable in left:
        if variable.last.low < variable.now:
            note_learned(variable.last)
            note_short_end(variable.last)


def _extents_moved(start: Any, end: Any) -> tuple[int, ...]:
    """By how much each extent of an array has moved, if it may go on so: to fewer elements."""
    if type(start) is not np.ndarray or type(end) is not np.ndarray:
        return ()
    if start.ndim != end.ndim or start.dtype != end.dtype:
        return ()
    moved = tuple([n - m for m, n in zip(start.shape, end.shape, strict=True)])
    return moved if max(moved) <= 0 else ()


def _note_extents(
    symbolic: SymbolicIteration,
    carried: CarriedPlaces,
    moved: Mapping[Place, tuple[int, ...]],
    since: int,
) -> None:
    """Make the extents of arrays that are carried move with the loop."""
    for place, steps in moved.items():
        value = carried.starts.get(place)
        if value is None or np.ndim(value.aval) != len(steps):
            continue
        if grows(value):
            continue
        carried.extents[place] = steps
        symbolic.growing.add(value)
        symbolic.extents[value] = tuple(
            [
                Affine.of(n - step * since, [(symbolic.variable, step)])
                for n, step in zip(value.aval.shape, steps, strict=True)
            ]
        )


def _pairs(tuples: Mapping[Place, Any], others: Mapping[Place, Any]) -> list[tuple[Any, Any]]:
    """Tuples, with those in the same places."""
    return [(x, others[place]) for place, x in tuples.items()]


def _flag(is_bound: bool) -> Carry:
    """Whether some iteration has bound a name: if none has, it has the very array that it had."""
    start = Value(False, CLOSED, (), NO_PARAMS)
    return Carry(start, True if is_bound else start, False)


def _marks(tracer: Tracer) -> tuple[int, ...]:
    """How much a tracer has noted of what an iteration of a loop may not do."""
    recording, guards, escapes = tracer.recording, tracer.guards, tracer.escapes
    noted = (
        *(tracer.errors, recording.closed_at, escapes.arrays, escapes.values),
        *(guards.by_value, guards.no_alias, guards.alias_queries, guards.flag_queries),
    )
    return *map(len, noted), tracer.drops_history
