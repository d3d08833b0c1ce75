"""Who listens to the gate in a thread: stages, cuts, watches; and which derivatives are running.

Owns: `observers`, and the state of each thread (`thread_state`): its stages (`tracer.py`), the
innermost `StopGradient` and `RecordingObserver`, and the leaves of each derivative that is running
its function (`RunningDerivative`).

`ObserversSuspended` sets all that aside for code that a trace calls back; such a call which cannot
give what it gave while it was traced says so (`CallbackMismatch`).

Invariant: `observers` holds whatever listens, in all threads together; while it is empty the gate
asks nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.tape.tracer import StopGradient, Tracer

observers: list[object] = []


class RecordingObserver:
    """Within it, in this thread, `on_recorded` is told of every value that is recorded, and
    `on_backward` of every backward pass; `backward_depth`: how many such passes are under way.
    """

    backward_depth = 0

    def __enter__(self) -> RecordingObserver:
        self.outer, thread_state.watch = thread_state.watch, self
        observers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread_state.watch = self.outer
        observers.remove(self)

    def on_recorded(self, value: Value) -> None: ...

    def on_backward(self, visited: dict[Value, Any], leaves: Iterable[tuple[Value, Any]]) -> None:
        """`visited`: the cotangents of the values on the way, consumers first."""


class ThreadState(threading.local):
    """What goes on in this thread: stages, the innermost cut and watch, and the leaves of each
    derivative that is running its function; what of these it is `given`, as (handle, leaf, the
    caller's array)."""

    stages: list[Tracer]
    cut: StopGradient | None = None
    watch: RecordingObserver | None = None

    def __init__(self) -> None:
        self.deriving: list[Sequence[Value]] = []
        self.given: list[Sequence[tuple[Any, Value, Any]]] = []


thread_state = ThreadState()


def current_tracer() -> Tracer | None:
    """The innermost stage of this thread."""
    if not observers:
        return None
    stack: list[Tracer] = getattr(thread_state, "stages", [])
    return stack[-1] if stack else None


def active_tracers() -> tuple[Tracer, ...]:
    """The stages of this thread, innermost last."""
    return tuple(getattr(thread_state, "stages", ())) if observers else ()


def current_stop_gradient() -> StopGradient | None:
    """The innermost cut of this thread."""
    return thread_state.cut if observers else None


def current_observer() -> RecordingObserver | None:
    """The innermost watch of this thread."""
    return thread_state.watch if observers else None


class ObserversSuspended:
    """Within it, in this thread, nobody listens, and no derivative is running: as in a call back
    out of machine code."""

    def __enter__(self) -> None:
        self.saved = dict(thread_state.__dict__)
        thread_state.__dict__.update(stages=[], cut=None, watch=None, deriving=[], given=[])

    def __exit__(self, *_: object) -> None:
        thread_state.__dict__.clear()
        thread_state.__dict__.update(self.saved)


class CallbackMismatch(Exception):
    """A call back gives something of another kind than while it was traced, or raises: the trace
    does not hold, like one with a condition that fails, and the next one hears of it."""


class RunningDerivative:
    """While a derivative runs its function: a cut around it does not reach inside."""

    __slots__ = ("cut", "given", "leaves")

    def __init__(
        self, leaves: Sequence[Value] = (), given: Sequence[tuple[Any, Value, Any]] = ()
    ) -> None:
        self.leaves, self.given = leaves, given

    def __enter__(self) -> None:
        thread_state.deriving.append(self.leaves)
        thread_state.given.append(self.given)
        self.cut: StopGradient | None = None
        if observers:
            self.cut, thread_state.cut = thread_state.cut, None

    def __exit__(self, *_: object) -> None:
        thread_state.deriving.pop()
        thread_state.given.pop()
        if self.cut is not None:
            thread_state.cut = self.cut


def is_deriving() -> bool:
    """Whether a derivative is running its function in this thread."""
    return bool(thread_state.deriving)


def running_leaves() -> set[Value]:
    """The leaves of all derivatives that are running their functions in this thread."""
    return {leaf for leaves in thread_state.deriving for leaf in leaves}


def has_active_transform() -> bool:
    """Whether a function is being differentiated or traced in this thread."""
    return bool(thread_state.deriving) or current_tracer() is not None


def is_tracing() -> bool:
    """Whether ops without a derivative are recorded, too, because somebody is tracing."""
    return current_tracer() is not None
