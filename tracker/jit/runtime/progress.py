"""What long compilations are at, on stderr, with the setting `progress`.

`compile_stage` marks a part of a compilation. A thread looks at the running stages; what has gone
on for a second is shown as a status of `rich`, if that is installed and there is a terminal or a
notebook; else as a line per stage.

Invariants: without the setting nothing happens; one thread writes, for the stages of all threads;
when the last stage ends, also by an exception, nothing of a status is left and the thread has
ended.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tracker.config import current
from tracker.support.forks import register_at_fork

SHOWN_AFTER = 1.0  # seconds of a compilation
_INTERVAL = 0.1  # seconds between two looks
_OFF = nullcontext()


def compile_stage(what: str, name: str = "") -> AbstractContextManager[Any]:
    """A context in which this thread is at a stage of the compilation of a function; inside another
    one, of the same function."""
    return _Stage(what, name) if current().progress else _OFF


class _Stage:
    """A stage; the stages inside of it are of the same compilation."""

    def __init__(self, what: str, name: str) -> None:
        self.what, self.name = what, name

    def __enter__(self) -> None:
        _reporter.enter(self)

    def __exit__(self, *_: object) -> None:
        _reporter.leave(self)


class _Reporter:
    """The running stages of each thread, outermost first, and the thread that shows them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[int, list[tuple[_Stage, float]]] = {}
        self.thread: threading.Thread | None = None
        self.idle = threading.Event()

    def enter(self, stage: _Stage) -> None:
        with self.lock:
            stages = self.running.setdefault(threading.get_ident(), [])
            stages.append((stage, time.perf_counter()))
            if self.thread is None:
                self.idle.clear()
                self.thread = threading.Thread(target=self.report, daemon=True)
                self.thread.start()

    def leave(self, stage: _Stage) -> None:
        with self.lock:
            me = threading.get_ident()
            stages = [each for each in self.running.pop(me, ()) if each[0] is not stage]
            if stages:
                self.running[me] = stages
            if self.running or self.thread is None:
                return
            thread, self.thread = self.thread, None
            self.idle.set()
        thread.join()

    def report(self) -> None:
        display: _Status | _Log | None = None
        idle = self.idle
        while not idle.wait(_INTERVAL):
            with self.lock:
                now = time.perf_counter()
                jobs = [
                    (now - stages[0][1], f"{stages[0][0].name}: {stages[-1][0].what}")
                    for stages in self.running.values()
                ]
            seconds, text = max(jobs, default=(0.0, ""))
            if seconds >= SHOWN_AFTER:
                display = display or _new_display()
                others = f" (and {len(jobs) - 1} more)" if len(jobs) > 1 else ""
                display.show(f"tracker: {text}{others}", seconds)
        if display is not None:
            display.clear()


class _Status:
    """A status of `rich`."""

    def __init__(self, console: Any) -> None:
        self.status = console.status("tracker")
        self.status.start()

    def show(self, text: str, seconds: float) -> None:
        self.status.update(f"{text}, {seconds:.0f} s")

    def clear(self) -> None:
        self.status.stop()


class _Log:
    """A line for each stage."""

    last = ""

    def show(self, text: str, seconds: float) -> None:
        if text != self.last:
            self.last = text
            print(f"{text}, {seconds:.1f} s", file=sys.stderr)

    def clear(self) -> None: ...


def _new_display() -> _Status | _Log:
    try:
        console = importlib.import_module("rich.console").Console(stderr=True)
        if console.is_interactive or console.is_jupyter:
            return _Status(console)
    except Exception:  # not installed, or busy with a display of the user's
        pass
    return _Log()


_reporter = _Reporter()


def _forget_parent() -> None:
    """This is a forked child, which has none of these threads."""
    global _reporter
    _reporter = _Reporter()


register_at_fork(after_in_child=_forget_parent)
