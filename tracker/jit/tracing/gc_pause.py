"""Python's cyclic collector comes seldom while the compiler works.

Owns: `collecting_seldom`. Tracing and compiling make many objects, which stay, and hardly a cycle;
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

from tracker.jit.llvm.signals import UNDISTURBED

_SELDOM = 200_000  # objects made, less those freed, from one collection to the next
USERS = 20_000  # where code of the user's runs, whose cycles may hold arrays


class _Threshold:
    """`within`: what those want who are within, each by a key. `own`: what the program has set;
    `raised`: what was set here, if that is another."""

    def __init__(self) -> None:
        self.within: dict[object, int] = {}
        self.own = 0
        self.raised: int | None = None

    def settle(self) -> None:
        """Set what is wanted now."""
        threshold, *older = gc.get_threshold()
        if threshold != self.raised:
            self.own = threshold
        highest = max(self.within.values(), default=0)
        wanted = highest if 0 < self.own < highest else self.own
        if wanted != threshold:
            gc.set_threshold(wanted, *older)
        self.raised = wanted if wanted != self.own else None


_lock = threading.Lock()
_threshold = _Threshold()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextlib.contextmanager
def collecting_seldom(most: int = _SELDOM) -> Iterator[None]:
    """The collector comes only after so many objects within, if it would come at all."""
    key = object()
    try:
        with UNDISTURBED, _lock:
            _threshold.within[key] = most
            _threshold.settle()
        yield
    finally:
        with UNDISTURBED, _lock:
            _threshold.within.pop(key, None)
            _threshold.settle()
