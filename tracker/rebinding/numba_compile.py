"""numba compiles functions of the user's modules while a derivative may be running: it finds NumPy
there as it is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_known: list[Any] = []


class _Suspended(threading.local):
    """The contexts of the compilations that run in this thread."""

    def __init__(self) -> None:
        self.contexts: list[AbstractContextManager[None]] = []


def watch_numba(suspended: Callable[[], AbstractContextManager[None]]) -> None:
    """Have numba, if it is imported, compile within such a context."""
    event: Any = sys.modules.get("numba.core.event")
    if event is None or _known:
        return
    thread = _Suspended()

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            thread.contexts.append(suspended())
            thread.contexts[-1].__enter__()

        def on_end(self, event: Any) -> None:
            thread.contexts.pop().__exit__(None, None, None)

    _known.append(Listener())
    event.register("numba:compile", _known[0])
