"""Python's cyclic collector comes seldom while the compiler works.

Owns: `infrequent_gc`. Tracing and compiling make many objects, which stay, and hardly a cycle;
the first compile of a process imports modules: the collector would go through everything in the
process, again and again, to find nothing (of a trace of 20,000 equations that is half the time).

Invariant: whether the collector is on is the program's own affair, whose other threads run
meanwhile. Only the threshold is raised, to the highest that those within want; the last to leave
puts back what the program has set, whenever that was.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

from tracker.jit.llvm.signals import SIGNALS_DEFERRED

_COMPILER_THRESHOLD = 200_000  # objects made, less those freed, from one collection to the next
USER_CODE_THRESHOLD = 20_000  # where code of the user's runs, whose cycles may hold arrays


class _Threshold:
    """`requests`: what those want who are within, each by a key. `program_value`: what the program
    has set; `raised_value`: what was set here, if that is another.
    """

    def __init__(self) -> None:
        self.requests: dict[object, int] = {}
        self.program_value = 0
        self.raised_value: int | None = None

    def apply(self) -> None:
        """Set what is wanted now."""
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
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextlib.contextmanager
def infrequent_gc(threshold: int = _COMPILER_THRESHOLD) -> Iterator[None]:
    """The collector comes only after so many objects within, if it would come at all."""
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
