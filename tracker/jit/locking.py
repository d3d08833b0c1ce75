"""The lock that every call into LLVM holds, and what is made once under it.

Owns: `LOCK` and `once`.
Invariant: a signal that Python code handles (Ctrl-C, a timer's), and that comes while the main
thread holds the lock, is handled when it is released, and is never lost.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

# What interrupts a program, or tells it the time. SIGINT is the first to be put off.
_NAMES = ["SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2"]
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
_Result = TypeVar("_Result")


class _Lock:
    """A lock that puts signals off, too: what a handler raises (KeyboardInterrupt, a time that is
    out) while llvmlite does its own bookkeeping would leave that half done, and its lock taken."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # the main thread's holds
        self._handlers: dict[signal.Signals, Any] = {}  # which are put off
        self._came: list[int] = []  # signals, meanwhile
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._put_off()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if not self._depth:
                self._let_come()

    def _put_off(self) -> None:
        if not self._depth:
            try:
                for each in _SIGNALS:
                    handler = signal.getsignal(each)
                    if callable(handler):
                        self._handlers[each] = handler
                        signal.signal(each, self._note)
            except BaseException:  # of a handler that is not put off yet
                self._let_come()
                raise
        self._depth += 1

    def _let_come(self) -> None:
        """Signals are handled at once from here on, and those that have come. What one handler
        raises keeps no other from its turn."""
        try:
            while self._handlers:
                each = next(reversed(self._handlers))
                signal.signal(each, self._handlers[each])
                del self._handlers[each]
            while self._came:
                signal.raise_signal(self._came.pop(0))
        finally:
            if self._handlers or self._came:
                self._let_come()

    def _note(self, number: int, _: object) -> None:
        self._came.append(number)


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
