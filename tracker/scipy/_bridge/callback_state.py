"""The state that a host callback reads, as it was when the call was recorded.

Compiled code calls SciPy, and SciPy the user's functions, when the objects that these read have
become those of a later moment, or of another call. `CallbackState` restores them for the run, with
the numbers of the call where values of the trace were. What a function reads elsewhere is refused
(`HiddenValues`), and so is what it writes.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.leaves import plain_data
from tracker.errors import UnsupportedError
from tracker.jit.tracing import StateSnapshot, find_captured_state, handles_within
from tracker.support.array_copies import same_bytes
from tracker.support.structs import record
from tracker.tape.observers import observers
from tracker.tape.record import value_of
from tracker.tape.tracing.tracer import active_tracers, is_constant_in_traces
from tracker.tape.tracked import Tracked

_MAX_PARTS = 100_000  # of what functions hold, in which values of the trace are looked for


@record()
class _Place:
    """In a snapshot, the place of an operand."""

    operand: int


class CallbackState:
    """The state that functions capture, at the time of recording a call of theirs.

    operands              the values of the trace in it; constants are numbers
    captured              those that the trace has not read from captured state itself
    has_changed           whether the last run has changed the state
    changed_names         of attributes and variables, those that it has
    has_only_filled_gaps  whether it has only filled caches
    """

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = functions
        self.operands: list[Tracked] = []
        self.has_changed = self.has_only_filled_gaps = self._has_run = False
        self.changed_names: list[str] = []
        found = [find_captured_state(f) for f in functions if callable(f)]
        self._sources = [x for each in found for x in each.sources if not x.is_read_only]
        self._numbers: dict[int, int] = {}  # by id of a tracked value, which operand it is
        self._recorded = StateSnapshot(self._sources, arrays=True).with_leaves(self._as_place)
        self._arrays = self._recorded.arrays or []
        inputs = frozenset[Any]().union(*(tracer.captures for tracer in active_tracers()))
        self.captured = [x for x in self.operands if value_of(x) not in inputs]
        self._own_ids = set(map(id, self.captured))
        self._tracers = [weakref.ref(tracer) for tracer in active_tracers()]
        self._lock = threading.RLock()  # functions of all threads read the same sources

    def _as_place(self, x: Any) -> Any:
        if type(x) is not Tracked:
            return x
        if is_constant_in_traces(value_of(x)):
            return plain_data(x)
        if id(x) not in self._numbers:
            self._numbers[id(x)] = len(self.operands)
            self.operands.append(x)
        return _Place(self._numbers[id(x)])

    @contextlib.contextmanager
    def restored(self, copies: Sequence[Any], numbers: Sequence[Any]) -> Iterator[None]:
        """Within it, the functions read the state with these copies of numbers as operands.
        Afterwards they read what they have read before, but for caches that the first run fills."""
        with self._lock:
            is_first, self._has_run = not self._has_run, True
            self.has_changed = self.has_only_filled_gaps = False
            before = StateSnapshot(self._sources)
            before.arrays = [(x, x.copy("K")) for x, was in self._arrays if not same_bytes(x, was)]
            try:
                self._recorded.with_leaves(
                    lambda x: copies[x.operand] if type(x) is _Place else x
                ).restore()
                during = StateSnapshot(self._sources)
                yield
                self._compare(during, copies, numbers)
            finally:
                self._without_trace(before).restore(is_first and self.has_only_filled_gaps)

    def _compare(
        self, during: StateSnapshot, copies: Sequence[Any], numbers: Sequence[Any]
    ) -> None:
        """Find out what a run has changed."""
        arrays = (*zip(copies, numbers, strict=True), *self._arrays)
        writes = not all(same_bytes(*both) for both in arrays if type(both[0]) is np.ndarray)
        self.has_changed = writes or during.has_changed
        self.changed_names = during.changed_names
        self.has_only_filled_gaps = not writes and during.has_only_filled_gaps

    def _without_trace(self, before: StateSnapshot) -> StateSnapshot:
        """After the trace, with numbers: its values keep all that they were computed from."""
        if not self._own_ids or any(each() in observers for each in self._tracers):
            return before
        own = self._own_ids
        self._own_ids = set()
        return before.with_leaves(lambda x: plain_data(x) if id(x) in own else x)


class HiddenValues:
    """Values of the trace in objects that functions hold, and that nothing has found to be operands
    or captured state. Compiled code would call the functions with the values of the first call:
    within it, reading one is an error."""

    def __init__(self, name: str, functions: Sequence[Any]) -> None:
        self.name = name
        self.functions = functions
        self.held: list[tuple[Tracked, Any]] = []

    def __enter__(self) -> None:
        self.is_read = False
        found = itertools.chain.from_iterable(handles_within(f, _MAX_PARTS) for f in self.functions)
        unique = {id(x): x for x in found if not is_constant_in_traces(value_of(x))}
        self.held = [(x, x._value) for x in unique.values()]
        for x, _ in self.held:
            x._value = _Unreadable(self)  # type: ignore[assignment]

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for x, value in self.held:
            x._value = value
        is_failure = isinstance(error, Exception) and bool(self.held)
        if self.is_read or is_failure:  # the function, or SciPy, may have caught our error
            raise self.error() from None

    def error(self) -> UnsupportedError:
        text = f"the function that {self.name} gets under jit reads an object that holds a value"
        fix = "Let it read the numbers themselves, and make the object within it"
        return UnsupportedError(f"{text} of the jitted function", fix)


class _Unreadable:
    """In place of a value that must not be read."""

    def __init__(self, hidden: HiddenValues) -> None:
        object.__setattr__(self, "hidden", hidden)

    def __getattribute__(self, name: str) -> Any:
        hidden: HiddenValues = object.__getattribute__(self, "hidden")
        hidden.is_read = True
        raise hidden.error()
