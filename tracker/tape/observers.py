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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.graph import Function
from tracker.tape.value import CLOSED, Value

observers: list[object] = []

Stepper = Callable[[Sequence[Any]], Sequence[Any]]


class RecordingObserver:
    """A context manager that is notified, in this thread, of every recorded value (`on_recorded`)
    and every backward pass (`on_backward`). `backward_depth`: how many backward passes are
    running."""

    backward_depth = 0

    def __enter__(self) -> RecordingObserver:
        self.outer, thread_state.observer = thread_state.observer, self
        observers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread_state.observer = self.outer
        observers.remove(self)

    def on_recorded(self, value: Value) -> None: ...

    def on_backward(self, visited: dict[Value, Any], leaves: Iterable[tuple[Value, Any]]) -> None:
        """`visited`: the cotangents of the values on the way, consumers first."""

    def nonfinite_data(self) -> tuple[str, str] | None:
        """Which op was the first to get data that is not finite, and on which line, if one did."""
        return None


class ThreadState(threading.local):
    """What is active in this thread.

    tracers               innermost last
    stop_gradient         the innermost stop-gradient scope
    observer              the innermost observer
    derivative_leaves     the leaves of each derivative that is running its function
    derivative_arguments  what each was given: (tracked array, leaf, the caller's array)
    make_stepper          what runs the steps of a loop's body, of plain values, if not
                          `control/step_runner.py`
    put_back              puts plain arrays back where tracked ones have taken their places
                          (`tracked_targets.py`)
    """

    def __init__(self) -> None:
        self.tracers: list[Any] = []
        self.stop_gradient: Any = None
        self.observer: RecordingObserver | None = None
        self.derivative_leaves: list[Sequence[Value]] = []
        self.derivative_arguments: list[Sequence[tuple[Any, Value, Any]]] = []
        self.make_stepper: Callable[[Function, Stepper], Stepper] | None = None
        self.put_back: list[Callable[[], None]] = []


thread_state = ThreadState()


def has_other_observers() -> bool:
    """Whether what is computed now is not for a trace alone: a derivative is stopped, say."""
    return thread_state.observer is not None or thread_state.stop_gradient is not None


def current_observer() -> RecordingObserver | None:
    """The innermost observer of this thread."""
    return thread_state.observer if observers else None


class ObserversSuspended:
    """Within it, in this thread, nothing observes and no derivative is running: for callbacks from
    compiled code."""

    def __enter__(self) -> None:
        self.saved = dict(thread_state.__dict__)
        ThreadState.__init__(thread_state)

    def __exit__(self, *_: object) -> None:
        thread_state.__dict__.update(self.saved)


class CallbackMismatch(Exception):
    """A callback returned something of another type than while it was traced, or raised: the trace
    does not hold, as if a guard had failed, and the next one is told."""


# Of a call back into Python: the plain function tells what happens then, which may catch the error.
CALL_FAILURES = (CallbackMismatch, RuntimeError, *EVALUATION_ERRORS)


class RunningDerivative:
    """While a derivative runs its function. A stop-gradient scope around the derivative does not
    apply inside.

    A signal may come between any two steps of `with`, so whoever enters it also calls `restore` in
    a `finally` around it.
    """

    __slots__ = ("arguments", "before", "leaves")

    def __init__(
        self, leaves: Sequence[Value] = (), arguments: Sequence[tuple[Any, Value, Any]] = ()
    ) -> None:
        self.leaves, self.arguments = leaves, arguments
        state = thread_state
        self.before = state.derivative_leaves, state.derivative_arguments, state.stop_gradient

    def __enter__(self) -> None:
        outer_leaves, outer_arguments, _ = self.before
        thread_state.derivative_leaves = [*outer_leaves, self.leaves]
        thread_state.derivative_arguments = [*outer_arguments, self.arguments]
        thread_state.stop_gradient = None

    def __exit__(self, *_: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Set what was there before, and make the leaves constants; once more does no harm."""
        state = thread_state
        state.derivative_leaves, state.derivative_arguments, state.stop_gradient = self.before
        for leaf in self.leaves:
            close_leaf(leaf)
        while state.put_back and not state.derivative_leaves:
            state.put_back[-1]()
            state.put_back.pop()


def close_leaf(value: Value) -> None:
    """Make a leaf a constant for everything but the backward pass that owns it."""
    if value.op is None:
        value.op = CLOSED
    if thread_state.tracers:
        recording = thread_state.tracers[-1].recording
        recording.closed_at[id(value)] = len(recording.equations)


def is_deriving() -> bool:
    """Whether a derivative is running its function in this thread."""
    return bool(thread_state.derivative_leaves)


def running_derivative_count() -> int:
    """How many derivatives, one within the other, are running their functions in this thread."""
    return len(thread_state.derivative_leaves)


def running_leaves() -> set[Value]:
    """The leaves of all derivatives that are running their functions in this thread."""
    return {leaf for leaves in thread_state.derivative_leaves for leaf in leaves}


def has_active_transform() -> bool:
    """Whether a function is being differentiated or traced in this thread."""
    return bool(thread_state.derivative_leaves or thread_state.tracers)


def is_tracing() -> bool:
    """Whether a tracer is active, so that ops without a derivative are recorded, too."""
    return bool(thread_state.tracers)
