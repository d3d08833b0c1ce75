"""The lock that every call into LLVM holds, and what is made once under it.

Owns: `LOCK` and `once`.
Invariant: an interrupt (Ctrl-C) that comes while the main thread holds the lock is raised when it
is released, and is never lost.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class _Lock:
    """A lock that puts interrupts off, too: one that came while llvmlite does its own bookkeeping
    would leave that half done, and its lock taken."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._putting_off: list[bool] = []  # of the main thread's holds, whether it is the first
        self._came = False
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        self._put_off()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._came_meanwhile():
            raise KeyboardInterrupt

    def _put_off(self) -> None:
        if threading.current_thread() is threading.main_thread():
            first = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if first:
                signal.signal(signal.SIGINT, self._note)
            self._putting_off.append(first)

    def _came_meanwhile(self) -> bool:
        """Interrupts come at once from here on, where they did before; whether one has come."""
        if threading.current_thread() is not threading.main_thread() or not self._putting_off.pop():
            return False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        came, self._came = self._came, False
        return came

    def _note(self, *_: object) -> None:
        self._came = True


LOCK = _Lock()


def once(make: Callable[..., _Result]) -> Callable[..., _Result]:
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
