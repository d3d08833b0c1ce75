"""Raises the threshold of Python's cyclic collector while a function is traced or compiled.

Tracing and compiling allocate many objects that stay alive, and hardly a cycle; the collector would
scan the whole process repeatedly and find nothing: half the time of a trace of 20,000 equations.

Invariant: whether the collector is enabled is up to the program. Only the threshold changes, to the
highest value requested; the last context to exit restores what the program has set, whenever it was
set.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.support.forks import register_at_fork

_COMPILER_THRESHOLD = 200_000  # allocations less frees between two collections
USER_CODE_THRESHOLD = 20_000  # while user code runs: its cycles may hold arrays


class _Threshold:
    """`requests` are the values requested by active contexts, `program_value` what the program has
    set; `raised_value` is what was set here, None if nothing was."""

    def __init__(self) -> None:
        self.requests: dict[object, int] = {}
        self.program_value = 0
        self.raised_value: int | None = None

    def apply(self) -> None:
        """Set the threshold that is requested now."""
        threshold, *older = gc.get_threshold()
        if threshold != self.raised_value:
            self.program_value = threshold
        highest = max(self.requests.values(), default=0)
        wanted = highest if 0 < self.program_value < highest else self.program_value
        if wanted != threshold:
            gc.set_threshold(wanted, *older)
        self.raised_value = wanted if wanted != self.program_value else None


_lock = threading.Lock()
_threshold = _Threshold()
register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextlib.contextmanager
def infrequent_gc(threshold: int = _COMPILER_THRESHOLD) -> Iterator[None]:
    """Context in which the collector, if enabled, runs only after so many new objects."""
    key = object()
    try:
        with SIGNALS_DEFERRED, _lock:
            _threshold.requests[key] = threshold
            _threshold.apply()
        yield
    finally:
        with SIGNALS_DEFERRED, _lock:
            _threshold.requests.pop(key, None)
            _threshold.apply()
