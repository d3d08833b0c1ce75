"""The lock that every call into LLVM holds, and what is made once under it.

Owns: `LOCK` and `locked_cache`.
Invariant: signals wait while the main thread holds the lock (`signals.py`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tracker.jit.llvm.signals import SIGNALS_DEFERRED

_Result = TypeVar("_Result")


class _LlvmLock:
    """A lock under which signals wait: what a handler raises while llvmlite does its bookkeeping
    would leave that half done, and its lock taken."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        SIGNALS_DEFERRED.__enter__()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        SIGNALS_DEFERRED.__exit__()


LOCK = _LlvmLock()


def locked_cache(make: Callable[..., _Result]) -> Callable[..., _Result]:
    """A function whose result for some arguments is made once in a process. Two threads that ask
    at the same time would otherwise make two, of which the one that is not kept is freed, though
    its asker may have handed the addresses of its code on."""
    made: dict[tuple[Any, ...], _Result] = {}

    @functools.wraps(make)
    def ask(*key: Any) -> _Result:
        if key not in made:
            with LOCK:
                if key not in made:
                    made[key] = make(*key)
        return made[key]

    return ask
