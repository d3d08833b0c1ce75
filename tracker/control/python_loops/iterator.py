"""Iterators that follow the iterations of a Python loop (see the folder's docstring).

`start` makes one where `range`, `zip`, `enumerate` or an array is iterated by a `for` statement of
traced code. Between two iterations it has the frame of the loop; `_begin` makes the next iteration
a symbolic one, and `_end` rolls the rest of the loop if that iteration can stand for it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.affine_subscripts import NotRollable
from tracker.control.python_loops.constants import ConstantValues
from tracker.control.python_loops.growing_lists import GrowingLists, with_plain_numbers
from tracker.control.python_loops.iteration_body import Carry, Iteration, IterationBody, Symbol
from tracker.control.python_loops.iteration_state import IterationState
from tracker.control.python_loops.loop_code import LoopCode, loop_code
from tracker.ir.op import NUMPY
from tracker.ir.types import type_of
from tracker.jit.tracing import calls_unmonitored
from tracker.ops.elementwise.unary import positive
from tracker.ops.indexing.getitem import getitem
from tracker.ops.indexing.views_and_writes import write_value
from tracker.ops.shape.create import item
from tracker.support.cpython import frame_locals, set_frame_locals
from tracker.support.structs import record
from tracker.tape.loop_index import (
    Affine,
    AffineSubscript,
    IterationIndex,
    SymbolicIteration,
    affine_form,
    note_unknown_subscript,
)
from tracker.tape.observers import thread_state
from tracker.tape.record import apply, data_of, record_result, value_of, wrap
from tracker.tape.tracer import Tracer, current_tracer
from tracker.tape.tracked import Tracked, view_root
from tracker.tape.value import CLOSED, NO_PARAMS, Value

_MIN_TRIP_COUNT = 6  # of a loop that is followed
_ATTEMPTS = 3  # symbolic iterations; what is carried may have settled on a type by then
_MIN_EQUATIONS = 2_000  # of a loop over numbers and small arrays; a shorter one is faster unrolled
_MIN_EQUATIONS_OF_LARGE = 150  # the same, over other arrays
_NUMBERS = (int, float, complex)

_running: list[weakref.ref[LoopIterator]] = []


def start(kind: str, given: tuple[Any, ...], frame: FrameType) -> Any:
    """The iterator of a loop over what is given; None if the loop is not followed."""
    called = None if kind == "rows" else kind
    code = loop_code(frame.f_code, frame.f_lasti, called)
    state = thread_state
    if code is None or state.observer is not None or state.stop_gradient is not None:
        return None
    source = _source(kind, given)
    tracer = current_tracer()
    if source is None or tracer is None:
        return None
    if source.count < (1 if source.counts.terms else _MIN_TRIP_COUNT):
        return None
    made = LoopIterator(tracer, code, source)
    _running[:] = [ref for ref in _running if ref() is not None]
    _running.append(weakref.ref(made))
    return made


# What is iterated ---------------------------------------------------------------------------------


@record(frozen=True, eq=False)
class _Source:
    """What a loop goes through. `item(at)` is what the plain loop gets (`at` may be tracked),
    `symbolic(iteration, at)` the same with tracked numbers, and `symbols` the numbers that count.

    counts  how many items there are in every iteration of the loops around it
    """

    counts: Affine
    item: Callable[[Any], Any]
    symbolic: Callable[[SymbolicIteration, int, list[Symbol]], Any]

    @property
    def count(self) -> int:
        """How many items there are now."""
        return self.counts.const


def _source(kind: str, given: tuple[Any, ...]) -> _Source | None:
    if kind == "range":
        moves = any(type(x) is Tracked for x in given)
        return _moving_range_source(*given) if moves else _plain_range_source(range(*given))
    if kind == "rows":
        return _rows_source(*given)
    if kind == "enumerate":
        numbers = range(given[1] if len(given) > 1 else 0, sys.maxsize)
        given = (numbers, given[0])
    parts = [part for x in given if (part := _part_source(x)) is not None]
    if not parts or len(parts) < len(given):
        return None
    return _Source(
        Affine(min(part.count for part in parts)),
        lambda at: tuple([part.item(at) for part in parts]),
        lambda iteration, at, symbols: tuple(
            [part.symbolic(iteration, at, symbols) for part in parts]
        ),
    )


def _part_source(x: Any) -> _Source | None:
    if type(x) is range:
        return _plain_range_source(x)
    if type(x) is Tracked or (type(x) is np.ndarray and x.dtype.kind in "biufc"):
        return _rows_source(x) if np.ndim(x) else None
    return None


def _plain_range_source(numbers: range) -> _Source:
    return _range_source(numbers.start, Affine(numbers.start), numbers.step, Affine(len(numbers)))


def _moving_range_source(first: Any, stop: Any = None, step: Any = 1) -> _Source | None:
    """A range whose bounds move with the loops around it, by the same form in all iterations."""
    first, stop = (0, first) if stop is None else (first, stop)
    low, high = affine_form(first), affine_form(stop)
    if low is None or high is None or type(step) is not int or abs(step) != 1:
        return None
    counts = high.minus(low).times(step)
    return None if counts.low < 0 else _range_source(first, low, step, counts)


def _range_source(first: Any, low: Affine, step: int, counts: Affine) -> _Source:
    """A range from a number, which has a form."""

    def symbolic(iteration: SymbolicIteration, at: int, symbols: list[Symbol]) -> Any:
        made = iteration.index(low.plus(Affine(step * at)), step)
        symbols.append(Symbol(made._value, first + step * at, step))  # type: ignore[arg-type]
        return made

    return _Source(counts, lambda at: low.const + step * at, symbolic)


def _rows_source(array: Any) -> _Source:
    def symbolic(iteration: SymbolicIteration, at: int, symbols: list[Symbol]) -> Any:
        index = iteration.index(Affine(at), 1)
        symbols.append(Symbol(index._value, at, 1))  # type: ignore[arg-type]
        if type(array) is Tracked:
            return array[index]
        subscripts = (
            AffineSubscript(Affine.of(at, [(iteration.variable, 1)])),
            *(AffineSubscript(Affine(0), n) for n in array.shape[1:]),
        )
        plain = (at, *(slice(0, n, 1) for n in array.shape[1:]))
        params = {"index": IterationIndex.of(plain, subscripts)}
        return record_result(getitem, (array,), params, array[at])

    def item_at(at: Any) -> Any:
        return NUMPY[np.take](array, at, axis=0) if type(at) is Tracked else array[at]

    return _Source(Affine(len(array)), item_at, symbolic)


# Iterations ---------------------------------------------------------------------------------------


@record(eq=False)
class _SymbolicRun:
    """A symbolic iteration that is running: what it started from.

    names      the local names that the loop carries, with what was put there
    originals  what the plain loop has in those that hold a symbolic number
    starts     the values of those that are tracked
    marks      how much the tracer had noted
    """

    symbolic: SymbolicIteration
    iteration: Iteration
    at: int
    state: IterationState
    names: dict[str, Any]
    originals: dict[str, Any]
    starts: dict[str, Value]
    marks: tuple[int, ...]
    guards: int


class LoopIterator:
    """Gives a `for` statement its items. `at`: the number of the next iteration; `tracked_at`: the
    same number, where it depends on what the iterations before have computed."""

    def __init__(self, tracer: Tracer, code: LoopCode, source: _Source) -> None:
        self.tracer, self.code, self.source = tracer, code, source
        self.at = 0
        self.tracked_at: Any = None
        self.attempts = _ATTEMPTS
        self.run: _SymbolicRun | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        frame = sys._getframe(1)
        run, self.run = self.run, None
        rolled_to, self.tracked_at = self.tracked_at, None
        if run is not None:
            with calls_unmonitored():
                self._end(run, frame)
        at, count = self.at, self.source.count
        if at >= count:
            raise StopIteration
        self.at = at + 1
        if self.tracked_at is not None:
            return self.source.item(self.tracked_at)
        if rolled_to is not None:
            int(rolled_to)  # from here on the trace is for this number of iterations
        moves = bool(self.source.counts.terms)
        if self.attempts and (at == 0 if moves else count - at >= _MIN_TRIP_COUNT):
            self.attempts -= 1
            self.run = self._begin(frame, at)
            if self.run is not None:
                return self.source.symbolic(self.run.symbolic, at, self.run.iteration.symbols)
        if moves:
            note_unknown_subscript()  # how many iterations there are
        return self.source.item(at)

    def _begin(self, frame: FrameType, at: int) -> _SymbolicRun | None:
        """Make the next iteration a symbolic one, if what it may change can be compared."""
        tracer = self.tracer
        if current_tracer() is not tracer or tracer.abort_reason:
            return None
        names = frame_locals(frame)
        state = IterationState.before(frame, names, self.code)
        if state is None:
            return None
        carried = {name: names[name] for name in self.code.carried if name in names}
        if any(_is_shared_array(x, state) for x in carried.values()):
            return None
        symbolic = SymbolicIteration(
            self.source.counts.minus(Affine(1 + at)), len(tracer.iterations), state.may_grow
        )
        found = {name: _own_number(x, state) for name, x in carried.items()}
        put = {name: x for name, x in found.items() if x is not None}
        begin = len(tracer.recording.equations)
        run = _SymbolicRun(
            symbolic,
            Iteration(symbolic, tracer, begin, [Symbol(symbolic.number, 0, 1)]),
            at,
            state,
            {**carried, **put},
            {name: carried[name] for name in put},
            {name: value_of(x) for name, x in {**carried, **put}.items() if type(x) is Tracked},
            _marks(tracer),
            len(tracer.guards.conversions),
        )
        if put:
            set_frame_locals(frame, put)
        tracer.iterations.append(symbolic)
        return run

    def _end(self, run: _SymbolicRun, frame: FrameType) -> None:
        """A symbolic iteration has ended: roll the loop, or go on with plain iterations."""
        iterations = self.tracer.iterations
        del iterations[iterations.index(run.symbolic) :]
        names = frame_locals(frame)
        plain = [name for name, x in run.originals.items() if type(x) is not Tracked]
        constants = ConstantValues(run.iteration, [run.names[name]._value for name in plain])
        try:
            rolled = self._roll(run, names, constants, frame)
        except Exception:  # what a later iteration raises, the plain loop raises at that iteration
            rolled = False
            del self.tracer.errors[run.marks[0] :]
        if not rolled:
            with_plain_numbers(run.state, constants)
            self._restore(run, names, constants, frame)

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
    ) -> bool:
        """Record the loop, and give names and arrays their values after it."""
        tracer, state = self.tracer, run.state
        if current_tracer() is not tracer or tracer.abort_reason or _marks(tracer) != run.marks:
            return False
        if run.symbolic.has_learned or not state.is_unchanged():
            return False
        carries = _IterationCarries(run, names)
        lists = GrowingLists(state, run.names, names)
        conditions = self._conditions(run, {carry.start for carry in carries.all})
        if conditions is None:
            return False
        peeled = bool(conditions or self.code.read_after - self.code.carried)
        counts = self.source.counts.minus(Affine(run.at + peeled))
        if counts.terms and (peeled or lists.values):
            return False  # there may be no last iteration
        if conditions and lists.values:
            return False
        run.symbolic.variable.last = counts.minus(Affine(1))
        run.iteration.carries, run.iteration.appended = carries.all, lists.values
        run.iteration.conditions = conditions
        body = IterationBody(run.iteration, counts)
        least = self._least_count(body)
        if counts.high < least:
            self.attempts = 0
            return False
        count = counts.const
        exact: list[Any] = [None] * len(carries.all)
        numbers: dict[Value, list[Any]] = {}
        if not counts.terms and not conditions:
            exact, numbers = constants.after(count, carries.all, lists.values)
        if len(numbers) == len(lists.values) and exact and all(data is not None for data in exact):
            return False  # the plain loop is as fast
        run.iteration.appended = [value for value in lists.values if value not in numbers]
        results, stacks, rolled = body.run()
        if conditions:
            count = int(data_of(rolled))
            if count < least:
                return False
            self.tracked_at = run.at + apply(item, (rolled,))
            guards = self.tracer.guards.conversions
            guards[run.guards :] = [g for g in guards[run.guards :] if g[1] not in conditions]
        found = [
            data if data is not None else made for data, made in zip(exact, results, strict=True)
        ]
        carries.assign(found, frame)
        lists.extend(count, stacks, numbers, frame_locals(frame))
        self.at = run.at + count
        self.attempts = 0
        return True

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
            if outer is not None and outer is not self:
                equations *= outer.source.counts.high
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


def _own_number(x: Any, state: IterationState) -> Any:
    """A tracked number with a value of its own for a number that is carried; None for anything
    else."""
    if type(x) in _NUMBERS or (isinstance(x, np.number) and type(x).__module__ == "numpy"):
        return wrap(Value(x, CLOSED, (), NO_PARAMS))
    if type(x) is Tracked and type(x._value) is Value and _is_number(x._value.aval):
        shared = sum(value is x._value for _, value in state.handles.values())
        return apply(positive, (x,)) if max(shared, state.slots[id(x)]) > 1 else None
    return None


def _is_shared_array(x: Any, state: IterationState) -> bool:
    """Whether an array that is carried has other names, from which it could not be told apart."""
    return type(x) is Tracked and not _is_number(x._value.aval) and state.slots[id(x)] > 1


def _is_number(aval: Any) -> bool:
    return type(aval) in _NUMBERS or isinstance(aval, np.number)


class _IterationCarries:
    """What an iteration has given other values: names, and arrays that it has written into."""

    def __init__(self, run: _SymbolicRun, names: dict[str, Any]) -> None:
        self.names: list[str] = []
        self.handles: list[Tracked] = []
        self.kept: dict[str, Any] = {}  # names that go on with what they had
        self.all: list[Carry] = []  # of names, then of handles
        self.run = run
        handles = {id(x) for x, _ in run.state.handles.values()}
        for name, before in run.names.items():
            after = names.get(name)
            if after is before:
                if name in run.originals:
                    self.kept[name] = run.originals[name]
                continue
            if type(before) is not Tracked:
                raise NotRollable(f"{name} changes")
            if id(view_root(after)) in handles and not _is_number(value_of(after).aval):
                raise NotRollable(f"{name} is an array that has another name")
            self.names.append(name)
            end = value_of(after) if type(after) is Tracked else after
            start = run.starts[name]
            origin = run.originals.get(name, before)
            given = wrap(start) if type(origin) is Tracked else origin
            self.all.append(_carry(start, end, given))
        for handle, value in run.state.written():
            if getattr(handle, "_view", None) is not None:
                raise NotRollable("a view is written, or what it shows")
            self.handles.append(handle)
            self.all.append(_carry(value, handle._value, wrap(value)))
        self._refuse_shared(run, names)

    def _refuse_shared(self, run: _SymbolicRun, names: dict[str, Any]) -> None:
        """Refuse where one value may stand for two things, of which an iteration changes one."""
        starts = [carry.start for carry in self.all]
        if len(set(starts)) < len(starts):
            raise NotRollable("an array is written, and its name bound to another")
        reached = [value for _, value in run.state.handles.values()]
        reached += [run.starts[name] for name in run.originals]
        for start in starts:
            if sum(value is start for value in reached) > 1:
                raise NotRollable("two arrays or names have the same value")
        arrays = [
            id(view_root(names[name]))
            for name in self.names
            if type(names[name]) is Tracked and not _is_number(value_of(names[name]).aval)
        ]
        if len(set(arrays)) < len(arrays):
            raise NotRollable("two names have one array")

    def assign(self, results: Sequence[Any], frame: FrameType) -> None:
        """Give names and arrays their values after the loop."""
        count = len(self.names)
        set_frame_locals(
            frame, {**self.kept, **dict(zip(self.names, results[:count], strict=True))}
        )
        for handle, result in zip(self.handles, results[count:], strict=True):
            write_value(handle, result)


def _carry(start: Value | None, end: Any, origin: Any) -> Carry:
    if type(start) is not Value:
        raise NotRollable("a view is carried")
    aval = end.aval if type(end) is Value else end
    if not (_is_number(aval) or type(aval) is np.ndarray):
        raise NotRollable(f"a {type(aval).__name__} is carried")
    if (type(aval) is np.ndarray) != (type(start.aval) is np.ndarray):
        raise NotRollable("a number becomes an array")
    if type(aval) is np.ndarray and not aval.ndim:
        raise NotRollable("a 0-d array is carried")
    if type_of(aval) != type_of(start.aval):
        raise NotRollable("what is carried changes its type")
    return Carry(start, end, origin)
