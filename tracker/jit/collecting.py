"""Python's cyclic collector comes seldom while the compiler works.

Owns: `collecting_seldom`. The compiler makes many objects and hardly a cycle, and the first compile
of a process imports modules: the collector would go through everything in the process, again and
again, to find nothing.

Invariant: whether the collector is on is the program's own affair, whose other threads run
meanwhile. Only the threshold is raised; the last to leave puts it back, unless somebody has set
another.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

_SELDOM = 200_000  # objects made, less those freed, from one collection to the next
_lock = threading.Lock()
_before: list[int] = []  # the threshold of each who came in, of which the first counts
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """The collector comes seldom within, if it would come at all."""
    with _lock:
        threshold, *older = gc.get_threshold()
        _before.append(threshold)
        if len(_before) == 1 and 0 < threshold < _SELDOM:
            gc.set_threshold(_SELDOM, *older)
    try:
        yield
    finally:
        with _lock:
            first = _before[0]
            _before.pop()
            threshold, *older = gc.get_threshold()
            if not _before and threshold == _SELDOM:
                gc.set_threshold(first, *older)
