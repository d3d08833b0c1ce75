"""The lock that every call into LLVM holds, and values that are computed once under it.

Invariant: signals are deferred while the main thread holds the lock (`deferred_signals.py`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tracker.support.deferred_signals import SIGNALS_DEFERRED

_Result = TypeVar("_Result")


class _LlvmLock:
    """A lock under which signals are deferred: an exception of a signal handler inside llvmlite
    would leave its bookkeeping half done and its own lock taken."""

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
    """`functools.cache` under `LOCK`: one result per arguments and process. With two results, one
    would be freed although another thread may already use addresses of its code."""
    results: dict[tuple[Any, ...], _Result] = {}

    @functools.wraps(make)
    def lookup(*key: Any) -> _Result:
        if key not in results:
            with LOCK:
                if key not in results:
                    results[key] = make(*key)
        return results[key]

    return lookup
