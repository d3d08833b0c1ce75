"""Deferred signals, for code that must not be interrupted half way: LLVM's bookkeeping, undoing a
trace's changes, imports (CPython's import lock could stay taken).

Invariant: a signal that arrives while the main thread is inside `SIGNALS_DEFERRED` is handled when
the thread leaves, and is never lost. Other threads receive no signals.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` builds enums: 20 us for all signals
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

# SIGINT is deferred first.
_NAMES = ["SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2"]
_SIGNALS = [int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)]


class _DeferredSignals:
    """A reentrant context."""

    def __init__(self) -> None:
        self._depth = 0
        self._handlers: dict[int, Any] = {}  # of the deferred signals
        self._pending: list[int] = []  # signal numbers
        self._raised: list[BaseException] = []  # by handlers before they were replaced

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
        """Replace the handlers; an exception of a handler meanwhile is kept for the exit."""
        try:
            for each in _SIGNALS:
                handler = _signal.getsignal(each)
                if callable(handler) and handler != self._on_signal:
                    self._handlers[each] = handler
                    _signal.signal(each, self._on_signal)
        except BaseException as error:  # at any line, the loop's own included
            self._raised.append(error)
            if len(self._raised) <= len(_SIGNALS):
                self._install()

    def _restore_and_deliver(self) -> None:
        """Restore the handlers and deliver what arrived. An exception of one handler does not keep
        the others from running."""
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
    """Inside all of the contexts. A signal leaves none half entered or half left."""
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
