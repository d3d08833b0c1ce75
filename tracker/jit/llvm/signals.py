"""Where signals wait: code that must not be left half done (LLVM's bookkeeping, what puts back what
stood at the places, imports: CPython's own lock may stay taken).

Owns: `SIGNALS_DEFERRED`, and `enter_all`, contexts that are entered and left in it.
Invariant: a signal that Python code handles (Ctrl-C, a timer's), and that comes while the main
thread is within, is handled when it leaves, and is never lost. Other threads hear of no signals.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # C: `signal` makes enums, 20 us of Python for all
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

# What interrupts a program, or tells it the time. SIGINT is the first to be put off.
_NAMES = ["SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2"]
_SIGNALS = [int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)]


class _DeferredSignals:
    """A context, in itself as often as you like."""

    def __init__(self) -> None:
        self._depth = 0
        self._handlers: dict[int, Any] = {}  # which are put off
        self._pending: list[int] = []  # signals, meanwhile
        self._raised: list[BaseException] = []  # by handlers that were not put off yet

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            if not self._depth:
                self._install()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
            if not self._depth:
                self._restore_and_deliver()

    def _install(self) -> None:
        """Who comes in to tidy up comes in, whatever handlers raise."""
        for each in (*_SIGNALS, *_SIGNALS):  # again, where one raised
            try:
                handler = _signal.getsignal(each)
                if callable(handler) and handler != self._on_signal:
                    self._handlers[each] = handler
                    _signal.signal(each, self._on_signal)
            except BaseException as error:
                self._raised.append(error)

    def _restore_and_deliver(self) -> None:
        """Signals are handled at once from here on, and those that have come. What one handler
        raises keeps no other from its turn."""
        try:
            while self._handlers:
                each = next(reversed(self._handlers))
                _signal.signal(each, self._handlers[each])
                del self._handlers[each]
            while self._pending:
                signal.raise_signal(self._pending.pop(0))
            if self._raised:
                raise self._raised.pop(0)
        finally:
            if self._handlers or self._pending or self._raised:
                self._restore_and_deliver()

    def _on_signal(self, number: int, _: object) -> None:
        self._pending.append(number)


SIGNALS_DEFERRED = _DeferredSignals()


@contextmanager
def enter_all(*contexts: AbstractContextManager[Any]) -> Iterator[None]:
    """Within all of them. None is left half entered, or half left, by a signal."""
    within: list[AbstractContextManager[Any]] = []
    try:
        with SIGNALS_DEFERRED:
            for each in contexts:
                each.__enter__()
                within.append(each)
        yield
    finally:
        with SIGNALS_DEFERRED:
            while within:
                within.pop().__exit__(None, None, None)
