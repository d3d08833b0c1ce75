"""Traces: what a `Tracer` records while a function is traced, and the stop-gradient scope.

`notify_observers` is called for every recorded value. `Tracer.observe` appends an equation, with
the user's line; `Tracer.add_guard` notes that Python has branched on a value. The functions
`record_error`, `check_write`, ... tell the current tracer what else matters to it.

`start_loop` is called when a Python loop is about to iterate: `control/python_loops` hands in what
follows its iterations.

Invariant: a plain array that is an operand is kept by reference, since the compiled code reads it
afresh on every call; a copy of what it held is kept beside it (`Tracer.snapshot_operand`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import numpy as np

from tracker.errors import (
    EVALUATION_ERRORS,
    ConversionError,
    TrackerError,
    UnsupportedError,
    message,
)
from tracker.ir.graph import Function
from tracker.ir.op import Op
from tracker.ir.types import type_of
from tracker.support import errstate
from tracker.support.array_copies import ArrayHistory
from tracker.support.structs import field, record
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.observers import has_other_observers, observers, thread_state
from tracker.tape.tracing.lazy import LARGE, LazyScheduler
from tracker.tape.tracing.liveness import dead_values
from tracker.tape.value import (
    CLOSED,
    NO_PARAMS,
    Value,
    history_of,
    is_constant,
    is_lazy,
    new_epoch,
)
from tracker.user_frames import is_own, user_frame, user_line

_ndarray = np.ndarray
_ERRORS_OF_VALUES = (ArithmeticError, ValueError, LookupError, RuntimeError)

_MIN_BYTE_LIMIT = 1 << 24  # bytes that a trace may compute before it looks for dead arrays
_SAMPLED = 64  # equations from one look for long loops to the next
_BYTES_PER_EQUATION = (
    1 << 13
)  # bytes that NumPy writes in about the time it takes to look at one equation


@record(eq=False)
class Recording:
    """The equations of a trace, and what is needed to read them.

    equations     (value, code, line) of each, in order
    plain_arrays  what plain operands held; times are numbers of equations
    aliases       values that no equation computes -> the values with the same data that traces use
    inner_values  values made by the traces of loop and branch bodies within this one
    closed_at     the id of each closed leaf -> how many equations came before
    known         values, or (bundle, number of an entry) -> equal values, which are read instead
    renewed       values -> older ones that are equal, and no longer read from there on
    trip_counts   bodies of loops -> the most iterations that a loop has taken
    native_loops  bodies of loops that ran natively
    """

    equations: list[tuple[Value, Any, int]] = field(default_factory=list)
    plain_arrays: ArrayHistory = field(default_factory=ArrayHistory)
    aliases: dict[Value, Value] = field(default_factory=dict)
    inner_values: set[Value] = field(default_factory=set)
    closed_at: dict[int, int] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    renewed: dict[Value, list[Value]] = field(default_factory=dict)
    trip_counts: dict[Function, int] = field(default_factory=dict)
    native_loops: set[Function] = field(default_factory=set)

    def operand_of(self, array: Any, value: Value) -> Any:
        """A plain operand as it was when the value was made."""
        if not self.plain_arrays.has_changed(array):
            return array  # found without a search through all equations
        for time, (made, _, _) in enumerate(self.equations):
            if made is value:
                return self.plain_arrays.at(array, time)
        return array  # another tracer recorded the value


@record(eq=False)
class Guards:
    """The conditions under which a trace holds.

    conversions    (how many equations came before, value, kind, (code, line), what it is assumed to
                   be, or None) for each `kind(value)` that Python depends on
    by_value       values that depend on captures only and are guarded to be unchanged
    no_alias       leaves of arguments that are written into: they must share memory with no other
    alias_queries  ids of tracked arguments for which the code asks whether they share memory
    flag_queries   ids of tracked arguments -> mask of the flags that the code asks for
    mask_counts    how many elements masks select of which selections were made
    reads_extents  whether the code may know one of these numbers from an array's extents
    """

    conversions: list[tuple[int, Value, str, tuple[Any, int], Any]] = field(default_factory=list)
    by_value: set[Value] = field(default_factory=set)
    no_alias: set[Value] = field(default_factory=set)
    alias_queries: set[int] = field(default_factory=set)
    flag_queries: dict[int, int] = field(default_factory=dict)
    mask_counts: set[int] = field(default_factory=set)
    reads_extents: bool = False


@record(eq=False)
class Escapes:
    """The arrays that plain NumPy was given to read.

    arrays  the exported arrays, read-only while tracing
    owners  the id of each -> the tracked array whose memory it has in a plain call
    values  the values of the owners, which must not be written into
    """

    arrays: list[np.ndarray[Any, Any]] = field(default_factory=list)
    owners: dict[int, Any] = field(default_factory=dict)
    values: set[Value] = field(default_factory=set)


class Tracer:
    """A trace in progress: observes recording in this thread, between `with` and its end.

    since            0, or the epoch in which the traced loop or branch body began
    scheduler        of lazy values, where there may be any
    arguments        the leaves of the function's arguments, and `captures` of captured arrays
    original_arrays  the id of each tracked argument or capture -> the caller's array
    instances        by id, objects of the user's classes that the trace made: arguments with
                     tracked values in them, gradients
    errors           errors raised because of values: a function that goes on has branched on them
    iterations       symbolic ones, of loops that are running, innermost last (`loop_index.py`)
    tested_loops     running loops that are no `for` statements; they hold frames
    sampled_loops    those around the running instruction at the last look for long ones
    bound_loops      how often loops got tracked constants in vain, for the numbers that end them
    first_symbolic   (loop within another, classes of what it carries) -> its first iteration that
                     may be symbolic
    short_loops      loop -> how many iterations it had, where these were too few to be rolled
    not_vectorised   inner loops that stay loops, as those around them cannot be rolled otherwise
    abort_reason     why the trace cannot be used; the call goes on as plain Python
    fills_caches     whether code that is not traced filled caches: the next call finds them full
    origin           what the next equations derive from: a recorded value, or a line as text
    unmonitored      a context for code that calls none of the user's
    drops_history    whether recorded values have lost their history, after the trace was aborted
    new_bytes        computed since dead arrays were last looked for; at most `byte_limit`
    tests_identity   whether the code tests `x is y`; `tests_identity_with_bool`: `x is True`, so
                     that comparisons of Python numbers must give plain bools, under a guard
    has_other_paths  whether a call like the traced one has branched differently
    """

    def __init__(
        self,
        since: int = 0,
        scheduler: LazyScheduler | None = None,
        *,
        tests_identity_with_bool: bool = False,
        tests_identity: bool = False,
    ) -> None:
        self.since = since
        self.tests_identity_with_bool = tests_identity_with_bool
        self.tests_identity = tests_identity
        self.scheduler = scheduler
        self.recording = Recording()
        self.guards = Guards()
        self.escapes = Escapes()
        self.arguments: frozenset[Value] = frozenset()
        self.captures: frozenset[Value] = frozenset()
        self.original_arrays: Mapping[int, Any] = {}
        self.instances: dict[int, Any] = {}
        self.errors: list[Exception] = []
        self.iterations: list[Any] = []
        self.tested_loops: list[Any] = []
        self.sampled_loops: set[Any] = set()
        self.bound_loops: Counter[Any] = Counter()
        self.first_symbolic: dict[Any, int] = {}
        self.short_loops: dict[Any, int] = {}
        self.not_vectorised: set[Any] = set()
        self.has_other_paths = False
        self.abort_reason = ""
        self.fills_caches = False
        self.drops_history = False
        self.new_bytes = 0
        self.byte_limit = _MIN_BYTE_LIMIT
        self._errstate: Any = None  # NumPy's settings at the last equation
        self.origin: Value | str | None = None
        self.unmonitored: Callable[[], AbstractContextManager[Any]] = nullcontext
        self._places: dict[Value, tuple[Any, int]] = {}  # of the first equations of this list
        self._placed: list[Any] = []

    @property
    def is_body_trace(self) -> bool:
        """Whether this traces the body of a loop or branch, to run on other values."""
        return self.since > 0

    def __enter__(self) -> Tracer:
        thread_state.tracers.append(self)
        observers.append(self)
        if self.scheduler is not None:
            self.scheduler.on_allocated = self.add_bytes
        return self

    def __exit__(self, *_: object) -> None:
        if self.scheduler is not None:
            self.scheduler.on_allocated = None
        self.tested_loops.clear()
        thread_state.tracers.remove(self)
        observers.remove(self)

    @contextmanager
    def at_origins(self) -> Iterator[Tracer]:
        """Within it, equations are recorded at the line of their `origin`, as derivatives and
        replays set it."""
        before = self.origin
        try:
            yield self
        finally:
            self.origin = before

    @contextmanager
    def at_users_lines(self) -> Iterator[None]:
        """Within it, equations are recorded at the line of the user's frame."""
        with self.at_origins():
            self.origin = None
            yield

    def place_of(self, value: Value) -> tuple[Any, int] | None:
        """The code and line of a value's equation, if this has recorded it."""
        equations = self.recording.equations
        if equations is not self._placed:
            self._placed = equations
            self._places.clear()
        for made, code, line in equations[len(self._places) :]:
            self._places[made] = code, line
        return self._places.get(self.recording.aliases.get(value, value))

    def abort(self, reason: str) -> None:
        """Say why the trace cannot be used; the first reason counts."""
        self.abort_reason = self.abort_reason or reason

    def active_scheduler(self) -> LazyScheduler | None:
        """The scheduler, where results may be lazy now."""
        if self.scheduler is None or has_other_observers():
            return None
        self._check_errstate()
        return None if self.abort_reason else self.scheduler

    def observe(self, value: Value, depth: int) -> None:
        """Record an equation. An aborted trace does not: the function goes on as plain Python, and
        memory must not grow."""
        if self.abort_reason and self._drops_history_of(value):
            return
        self._check_errstate()
        recording = self.recording
        for operand in value.operands:
            if type(operand) is _ndarray:
                recording.plain_arrays.snapshot(operand, len(recording.equations))
        place = None if self.origin is None else _place_of(self.origin)
        if place is None:
            frame = user_frame(depth - 1)
            place = (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
            if not len(recording.equations) % _SAMPLED and frame is not None:
                sample_loops(self, frame)
        recording.equations.append((value, *place))
        for iteration in self.iterations:
            iteration.note_growth(value)
        aval = value.aval
        if type(aval) is _ndarray and not is_lazy(value):
            self.add_bytes(aval.nbytes)

    def _drops_history_of(self, value: Value) -> bool:
        """Whether nothing will pull back through a value, and its history was dropped. The first
        time, all recorded values lose theirs: a question about a long chain would otherwise walk
        through all of it."""
        if thread_state.derivative_leaves or self.is_body_trace or len(thread_state.tracers) > 1:
            return False
        if not self.drops_history:
            self.drops_history = True
            kept = [e for e in self.recording.equations if not self._make_constant(e[0])]
            self.recording.equations = kept
            self._places, self._placed = {}, []
            self.guards.conversions.clear()
        return self._make_constant(value)

    def _make_constant(self, value: Value) -> bool:
        """Make a value a constant if it depends on constants and arguments only; returns whether it
        is one now. Not lazy values, nor what depends on the leaf of a derivative whose backward
        pass may still come."""
        if value.op is None or is_lazy(value):
            return False
        for o in value.operands:
            if type(o) is Value and not self._needs_no_pullback(o):
                return False
        value.op, value.operands, value.params = CLOSED, (), NO_PARAMS
        return True

    def _needs_no_pullback(self, operand: Value) -> bool:
        """Whether nothing pulls back through an operand: a constant that is no leaf of a
        derivative, or an argument or capture."""
        if operand.op is CLOSED:
            return id(operand) not in self.recording.closed_at
        return operand in self.arguments or operand in self.captures

    def add_bytes(self, nbytes: int) -> None:
        """The trace has computed so many bytes more."""
        self.new_bytes += nbytes
        if self.scheduler is not None:
            self.scheduler.computed_bytes += nbytes
        if self.new_bytes > self.byte_limit:
            self.release_dead()

    def release_after_run(self) -> None:
        """The function has run: free dead arrays before the rest is computed."""
        enough = max(LARGE, _BYTES_PER_EQUATION * len(self.recording.equations))
        if self.scheduler is not None and self.new_bytes > enough:
            self.release_dead()

    def release_dead(self) -> None:
        """Free the arrays that nothing can read any more."""
        derivatives, equations = thread_state.derivative_leaves, self.recording.equations
        is_innermost = len(thread_state.tracers) == 1
        if equations and is_innermost and not self.is_body_trace and all(derivatives):
            running = [leaf for leaves in derivatives for leaf in leaves]
            inputs, closed_at = self.arguments | self.captures, self.recording.closed_at
            found = set(dead_values(equations, inputs, running, closed_at))
            for value in found - self._needed(found):
                value.data = type_of(value.aval)  # nothing can read its numbers any more
            if self.scheduler is not None:
                self.scheduler.evict_unneeded([value for value, _, _ in equations])
        self.new_bytes = 0
        self.byte_limit = max(_MIN_BYTE_LIMIT, _BYTES_PER_EQUATION * len(self.recording.equations))

    def _needed(self, dead: Container[Value]) -> set[Value]:
        """The operands of lazy values that may still be computed."""
        needed: set[Value] = set()
        if self.scheduler is not None:
            for value, _, _ in reversed(self.recording.equations):
                if is_lazy(value) and (value not in dead or value in needed):
                    needed.update(o for o in value.operands if type(o) is Value)
        return needed

    def _check_errstate(self) -> None:
        settings = errstate.VARIABLE.get()
        if settings is self._errstate:
            return
        self._errstate = settings
        if not self.abort_reason and "raise" in np.geterr().values():
            self.abort_reason = message(
                "np.errstate raises floating-point errors, which compiled code does not",
                "Test for them (if np.any(x == 0)), or use errstate outside of jit",
                user_line(),
            )

    def snapshot_operand(self, array: Any) -> Any:
        """A copy of what a plain operand holds now, which nothing changes."""
        recording = self.recording
        return recording.plain_arrays.snapshot(array, len(recording.equations))

    def add_guard(self, value: Value, kind: str, expected: Any = None) -> None:
        """Python is about to depend on `kind(value)`, which is, or is assumed to be, `expected`."""
        if not self.drops_history:
            self.guards.conversions.append(
                (len(self.recording.equations), value, kind, _user_location(4), expected)
            )


class UnsupportedInBody(Exception):
    """A loop or branch body, traced once for all steps, does what one trace cannot express."""


class StopGradient:
    """Within it, in this thread, what is computed is a constant for every derivative.

    since         the epoch in which the scope began
    outer_values  values from before it that were used in it and may have a derivative, in order
    """

    def __init__(self) -> None:
        self.outer_values: dict[Value, None] = {}
        self.outer: StopGradient | None = None
        self._walked: WeakIdentityDict[bool] = WeakIdentityDict()

    def __enter__(self) -> StopGradient:
        self.since = new_epoch()
        self.outer, thread_state.stop_gradient = thread_state.stop_gradient, self
        observers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread_state.stop_gradient = self.outer
        observers.remove(self)

    def make_constant(self, value: Value) -> None:
        """Drop the history of a value made in the scope; a current tracer keeps it."""
        tracer = current_tracer()
        if tracer is not None and value not in tracer.recording.aliases:
            if tracer.is_body_trace:
                raise UnsupportedInBody("the body ignores derivatives")
            recorded = Value(value.data, value.op, value.operands, value.params)
            tracer.observe(recorded, 5)
            tracer.recording.aliases[value] = recorded
        stack = [o for o in value.operands if type(o) is Value]
        while stack:
            operand = stack.pop()
            if operand.epoch < self.since:
                if operand.op is not CLOSED:
                    self.outer_values[operand] = None
            elif operand.operands and operand not in self._walked:
                self._walked[operand] = True  # made in the scope, by a derivative taken there
                stack.extend(o for o in operand.operands if type(o) is Value)
        value.op, value.operands, value.params = CLOSED, (), NO_PARAMS


@contextmanager
def stop_gradient_suspended() -> Iterator[None]:
    """Within it, a stop-gradient scope that is active does not apply: for a body that is traced in
    it, and recorded as one value, which the scope makes constant."""
    outer, thread_state.stop_gradient = thread_state.stop_gradient, None
    try:
        yield
    finally:
        thread_state.stop_gradient = outer


def current_tracer() -> Tracer | None:
    """The innermost tracer of this thread."""
    return thread_state.tracers[-1] if observers and thread_state.tracers else None


def active_tracers() -> tuple[Tracer, ...]:
    """The tracers of this thread, innermost last."""
    return tuple(thread_state.tracers) if observers else ()


def is_constant_in_traces(value: Value) -> bool:
    """Whether a value is a constant for derivatives, and the same in all calls of the functions
    that are being traced: no gradient was stopped that depends on their arguments."""
    aliases = [tracer.recording.aliases for tracer in active_tracers()]
    seen, todo = {value}, [value]
    while todo:
        current = todo.pop()
        if not is_constant(current):
            return False
        originals = {known[v] for v in history_of(current) for known in aliases if v in known}
        todo += originals - seen
        seen |= originals
    return True


def current_stop_gradient() -> StopGradient | None:
    """The innermost stop-gradient scope of this thread."""
    return thread_state.stop_gradient if observers else None


def operand_when_recorded(operand: Any, value: Value) -> Any:
    """A plain operand of a value, for derivative rules: in a trace it is kept by reference, and the
    code may have changed it since."""
    if observers and type(operand) is _ndarray:
        for tracer in active_tracers():
            seen = tracer.recording.operand_of(operand, value)
            if seen is not operand:
                return seen
    return operand


def notify_observers(value: Value) -> None:
    """A value was recorded."""
    observer = thread_state.observer
    if observer is not None:
        observer.on_recorded(value)
    cut = thread_state.stop_gradient
    if cut is not None:
        cut.make_constant(value)
        return
    tracer = current_tracer()
    if tracer is not None:
        tracer.observe(value, 4)


def require_no_alias(value: Value) -> None:
    """A derivative found that an argument is written into: the trace holds only while that argument
    shares memory with no other."""
    tracer = current_tracer()
    if tracer is not None:
        tracer.guards.no_alias.add(value)


def record_error(error: Exception) -> None:
    """An error was raised because of a value: if the function goes on, it has branched on the
    value."""
    tracer = current_tracer()
    if tracer is not None:
        tracer.errors.append(error)


def record_op_failure(
    error: Exception, op: Op, operands: Sequence[Any], data: Sequence[Any], params: dict[str, Any]
) -> None:
    """An op has raised: record the error, unless operands of these types always make it raise, or
    these operands, which are constants."""
    if current_tracer() is not None and _may_depend_on_values(error, operands):
        try:
            op.infer(*map(type_of, data), **params)
        except EVALUATION_ERRORS:
            return
        record_error(error)


def record_call_failure(error: Exception, operands: Sequence[Any]) -> None:
    """A function that is no op has raised for these operands, of types that it takes."""
    if current_tracer() is not None and _may_depend_on_values(error, operands):
        record_error(error)


def _may_depend_on_values(error: Exception, operands: Sequence[Any]) -> bool:
    """Whether other operands than these, of the same types, may not raise an error."""
    caused = isinstance(error, _ERRORS_OF_VALUES) and not isinstance(error, TrackerError)
    return caused and any(
        type(o) is _ndarray or (type(o) is Value and not is_constant_in_traces(o)) for o in operands
    )


def dismiss_error(error: Exception) -> None:
    """What an op raised was handled: the result is being computed in another way."""
    tracer = current_tracer()
    if tracer is not None and error in tracer.errors:
        tracer.errors.remove(error)


def check_write(old: Value) -> None:
    """A tracked array is about to get another value. Raises where the old one is outside of a loop
    body or a stop-gradient scope, or was exported to plain NumPy."""
    tracer = current_tracer()
    if tracer is not None and old.epoch < tracer.since:
        raise UnsupportedInBody("the body writes into an array outside of it")
    if tracer is not None and old in tracer.escapes.values:
        raise ConversionError(
            "a write into an array after np.asarray(x) or the like has made it plain",
            "Write before that, or let np.array(x) make a copy",
            user_line(),
        )
    if current_stop_gradient() is not None and old.op is not CLOSED:
        raise UnsupportedError(
            "a write inside ignore_derivatives or checkpoint, into a tracked value from "
            "outside, which would lose its gradient",
            "Write into a copy, or outside",
        )


def note_trip_count(body: Function, count: int) -> None:
    """Note how many iterations a loop has taken, for estimates of how long the trace takes."""
    tracer = current_tracer()
    if tracer is not None:
        known = tracer.recording.trip_counts
        known[body] = max(count, known.get(body, 0))


def note_native_loop(body: Function) -> None:
    """Note that a loop has run natively, likewise."""
    tracer = current_tracer()
    if tracer is not None:
        tracer.recording.native_loops.add(body)


def at_origins() -> AbstractContextManager[Tracer | None]:
    """`Tracer.at_origins` of the current tracer, which it gives; None if there is none."""
    tracer = current_tracer()
    return nullcontext() if tracer is None else tracer.at_origins()


def _place_of(origin: Value | str) -> tuple[Any, int] | None:
    """The line that an origin stands for, if a tracer of this thread has recorded it."""
    if isinstance(origin, str):
        return origin, 0
    for tracer in reversed(thread_state.tracers):
        place: tuple[Any, int] | None = tracer.place_of(origin)
        if place is not None:
            return place
    return None


def _user_location(depth: int) -> tuple[Any, int]:
    frame = user_frame(depth)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lineno)


Starter = Callable[[str, tuple[Any, ...], FrameType], Any]
_starters: list[Starter] = []
Tester = Callable[["Tracer", Any, FrameType], Any]
_testers: list[Tester] = []
Sampler = Callable[["Tracer", FrameType], None]
_samplers: list[Sampler] = []


def set_loop_followers(starter: Starter, tester: Tester, sampler: Sampler) -> None:
    """Set the functions that follow loops (called once, at import)."""
    _starters[:], _testers[:], _samplers[:] = [starter], [tester], [sampler]


def start_loop(kind: str, given: tuple[Any, ...], frame: FrameType) -> Any:
    """The iterator for a loop over `range`, `zip`, `enumerate` or `reversed` of what is given, or
    over the `rows` of an array, if the running instruction of the frame is the head of one that may
    be followed; None if not."""
    tracer = current_tracer()
    if not _starters or tracer is None or tracer.is_body_trace or tracer.abort_reason:
        return None
    return _starters[0](kind, given, frame)


def at_loop_test(tested: Any, frame: FrameType) -> Any:
    """What a frame is to test in place of a tracked value, if it ends a loop."""
    tracer = current_tracer()
    if not _testers or tracer is None or tracer.is_body_trace or tracer.abort_reason:
        return tested
    return _testers[0](tracer, tested, frame)


def sample_loops(tracer: Tracer, frame: FrameType) -> None:
    """A frame records one more equation, of so many: look for a long loop around it."""
    if _samplers and not tracer.is_body_trace and not tracer.abort_reason:
        _samplers[0](tracer, frame)


def note_of_this_iteration() -> None:
    """Something is of this iteration alone: what it prints, a position that wraps around."""
    tracer = current_tracer()
    for iteration in () if tracer is None else tracer.iterations:
        iteration.has_learned = True


def note_extents(value: Value) -> None:
    """The code asks for extents of a value: one that grows has them in this iteration alone."""
    tracer = current_tracer()
    for iteration in () if tracer is None else tracer.iterations:
        iteration.has_learned |= value in iteration.growing


def note_extents_read(value: Value, reader: FrameType) -> None:
    """A frame asks for extents of a value. Those of a selection by a mask, and of what is computed
    of it, depend on how many elements the mask selects."""
    tracer = current_tracer()
    if tracer is None or not tracer.guards.mask_counts or is_own(reader.f_code):
        return
    known = {n for given in (*tracer.arguments, *tracer.captures) for n in np.shape(given.aval)}
    extents = {*np.shape(value.aval)}
    is_count = not extents.isdisjoint(tracer.guards.mask_counts)
    tracer.guards.reads_extents |= is_count or not extents <= known | {1}
