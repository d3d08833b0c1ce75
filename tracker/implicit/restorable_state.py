"""What a function reads outside its arguments, put back for a run that comes later.

A backward pass runs the function of an equation again, when the objects and variables that it reads
may have changed: an implicit step of a simulation stores its result where the next step reads it.

Invariant: arrays that are not tracked are not copied. What was written into them stays written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tracker import tree
from tracker.jit.tracing import StateSnapshot, find_captured_state
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked


class RestorableState:
    """The state that a function captures, as it is now."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._sources = find_captured_state(function).sources
        self._before = StateSnapshot(self._sources)
        held = [x for _, x, _ in self._before.entries]
        self._values = [(x, value_of(x)) for x in tree.leaves(held) if type(x) is Tracked]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Within it, the function reads what it read then."""
        moved = [(x, x._value, value) for x, value in self._values if value_of(x) is not value]
        if not (moved or self._before.has_changed):
            yield
            return
        now = StateSnapshot(self._sources)
        try:
            self._before.restore()
            for x, _, value in moved:
                x._value = value
            yield
        finally:
            for x, value, _ in moved:
                x._value = value
            now.restore()
