"""Who listens to the gate in a thread: stages, cuts, watches; and which derivatives are running.

Owns: `listeners`, and the state of each thread (`thread`): its stages (`tracer.py`), the innermost
`Cut` and `Watch`, and the leaves of each derivative that is running its function (`Deriving`).

`Aside` sets all that aside for code that a trace calls back; such a call which cannot give what it
gave while it was traced says so (`Unheard`).

Invariant: `listeners` holds whatever listens, in all threads together; while it is empty the gate
asks nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.tape.tracer import Cut, Stage

listeners: list[object] = []


class Watch:
    """Within it, in this thread, `made` is told of every value that is recorded, and `swept` of
    every backward pass; `passing`: how many such passes are under way."""

    passing = 0

    def __enter__(self) -> Watch:
        self.outer, thread.watch = thread.watch, self
        listeners.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread.watch = self.outer
        listeners.remove(self)

    def made(self, value: Value) -> None: ...

    def swept(self, visited: dict[Value, Any], leaves: Iterable[tuple[Value, Any]]) -> None:
        """`visited`: the cotangents of the values on the way, consumers first."""


class Thread(threading.local):
    """What goes on in this thread: stages, the innermost cut and watch, and the leaves of each
    derivative that is running its function; what of these it is `given`, as (handle, leaf, the
    caller's array)."""

    stages: list[Stage]
    cut: Cut | None = None
    watch: Watch | None = None

    def __init__(self) -> None:
        self.deriving: list[Sequence[Value]] = []
        self.given: list[Sequence[tuple[Any, Value, Any]]] = []


thread = Thread()


def current_stage() -> Stage | None:
    """The innermost stage of this thread."""
    if not listeners:
        return None
    stack: list[Stage] = getattr(thread, "stages", [])
    return stack[-1] if stack else None


def stages() -> tuple[Stage, ...]:
    """The stages of this thread, innermost last."""
    return tuple(getattr(thread, "stages", ())) if listeners else ()


def current_cut() -> Cut | None:
    """The innermost cut of this thread."""
    return thread.cut if listeners else None


def current_watch() -> Watch | None:
    """The innermost watch of this thread."""
    return thread.watch if listeners else None


class Aside:
    """Within it, in this thread, nobody listens, and no derivative is running: as in a call back
    out of machine code."""

    def __enter__(self) -> None:
        self.kept = dict(thread.__dict__)
        thread.__dict__.update(stages=[], cut=None, watch=None, deriving=[], given=[])

    def __exit__(self, *_: object) -> None:
        thread.__dict__.clear()
        thread.__dict__.update(self.kept)


class Unheard(Exception):
    """A call back gives something of another kind than while it was traced, or raises: the trace
    does not hold, like one with a condition that fails, and the next one hears of it."""


class Deriving:
    """While a derivative runs its function: a cut around it does not reach inside."""

    __slots__ = ("cut", "given", "leaves")

    def __init__(
        self, leaves: Sequence[Value] = (), given: Sequence[tuple[Any, Value, Any]] = ()
    ) -> None:
        self.leaves, self.given = leaves, given

    def __enter__(self) -> None:
        thread.deriving.append(self.leaves)
        thread.given.append(self.given)
        self.cut: Cut | None = None
        if listeners:
            self.cut, thread.cut = thread.cut, None

    def __exit__(self, *_: object) -> None:
        thread.deriving.pop()
        thread.given.pop()
        if self.cut is not None:
            thread.cut = self.cut


def is_deriving() -> bool:
    """Whether a derivative is running its function in this thread."""
    return bool(thread.deriving)


def running_leaves() -> set[Value]:
    """The leaves of all derivatives that are running their functions in this thread."""
    return {leaf for leaves in thread.deriving for leaf in leaves}


def is_following() -> bool:
    """Whether a function is being differentiated or traced in this thread."""
    return bool(thread.deriving) or current_stage() is not None


def is_recording() -> bool:
    """Whether ops without a derivative are recorded, too, because somebody is tracing."""
    return current_stage() is not None
