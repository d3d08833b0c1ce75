"""What observes recording in each thread (tracers, stop-gradient scopes, observers), and which
derivatives are running.

`record.apply` looks at one global list, `observers`. While it is empty, recording does nothing
else; if not, `thread_state` says what is active in this thread. `RunningDerivative` registers the
leaves of a derivative while it runs its function. `ObserversSuspended` deactivates all of it while
compiled code calls back into Python.

Invariant: `observers` holds whatever is active in any thread.
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
    """A context manager that is notified, in this thread, of every recorded value (`on_recorded`)
    and every backward pass (`on_backward`). `backward_depth`: how many backward passes are
    running."""

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
    """What is active in a thread: tracers, the innermost stop-gradient scope and observer, and for
    each derivative that is running its function the leaves and what it was given, as (tracked
    array, leaf, the caller's array)."""

    stages: list[Tracer]
    cut: StopGradient | None = None
    watch: RecordingObserver | None = None

    def __init__(self) -> None:
        self.deriving: list[Sequence[Value]] = []
        self.given: list[Sequence[tuple[Any, Value, Any]]] = []


thread_state = ThreadState()


def current_tracer() -> Tracer | None:
    """The innermost tracer of this thread."""
    if not observers:
        return None
    stack: list[Tracer] = getattr(thread_state, "stages", [])
    return stack[-1] if stack else None


def active_tracers() -> tuple[Tracer, ...]:
    """The tracers of this thread, innermost last."""
    return tuple(getattr(thread_state, "stages", ())) if observers else ()


def current_stop_gradient() -> StopGradient | None:
    """The innermost stop-gradient scope of this thread."""
    return thread_state.cut if observers else None


def current_observer() -> RecordingObserver | None:
    """The innermost observer of this thread."""
    return thread_state.watch if observers else None


class ObserversSuspended:
    """Within it, in this thread, nothing observes and no derivative is running: for callbacks from
    compiled code."""

    def __enter__(self) -> None:
        self.saved = dict(thread_state.__dict__)
        thread_state.__dict__.update(stages=[], cut=None, watch=None, deriving=[], given=[])

    def __exit__(self, *_: object) -> None:
        thread_state.__dict__.clear()
        thread_state.__dict__.update(self.saved)


class CallbackMismatch(Exception):
    """A callback returned something of another type than while it was traced, or raised: the trace
    does not hold, as if a guard had failed, and the next one is told."""


class RunningDerivative:
    """While a derivative runs its function. A stop-gradient scope around the derivative does not
    apply inside."""

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
    """Whether a tracer is active, so that ops without a derivative are recorded, too."""
    return current_tracer() is not None
