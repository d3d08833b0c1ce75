"""With the setting `progress`, what long compilations are at is shown on stderr."""

import sys
import threading
import types

import numpy as np
import pytest

import tracker
from tracker.jit.runtime import progress
from tracker.jit.runtime.compile_queue import drain

X = np.linspace(0.1, 1.0, 50)


class Seen:
    """A display; `stages` wait until theirs is shown, so that no test depends on the time."""

    def __init__(self):
        self.texts, self.is_clear, self.shown = [], False, threading.Event()

    def show(self, text, seconds):
        self.texts.append(text)
        self.shown.set()

    def clear(self):
        self.is_clear = True


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    display = Seen()
    monkeypatch.setattr(progress, "_new_display", lambda: display)
    yield display
    assert progress._reporter.thread is None and not progress._reporter.running


def wait(display):
    display.shown.clear()
    assert display.shown.wait(10)


def test_stages_are_shown_and_cleared(seen):
    with tracker.config(progress=True):
        with progress.compile_stage("planning", "value_and_grad of f"):
            wait(seen)
            with progress.compile_stage("compiling with LLVM"):
                wait(seen), wait(seen)
        assert seen.is_clear
    shown = list(dict.fromkeys(seen.texts))
    assert shown == [
        "tracker: value_and_grad of f: planning",
        "tracker: value_and_grad of f: compiling with LLVM",
    ]


def test_an_exception_ends_the_display(seen):
    def interrupted():
        with progress.compile_stage("tracing", "f"):
            wait(seen)
            raise KeyboardInterrupt

    with tracker.config(progress=True), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen.is_clear


def test_threads_share_a_line(seen):
    ready, done = threading.Event(), threading.Event()

    def other():
        with tracker.config(progress=True), progress.compile_stage("planning", "g"):
            ready.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(10)
    with tracker.config(progress=True), progress.compile_stage("tracing", "f"):
        wait(seen), wait(seen)
    assert seen.texts[-1].endswith(" (and 1 more)") and not seen.is_clear
    done.set()
    thread.join()
    assert seen.is_clear


def test_compilations_have_stages(monkeypatch):
    entered = []
    monkeypatch.setattr(progress._reporter, "enter", lambda s: entered.append((s.name, s.what)))
    monkeypatch.setattr(progress._reporter, "leave", lambda s: entered.append("end"))
    with tracker.config(progress=True, threads=1):
        f = tracker.jit(lambda x: np.sum(np.sin(x)))
        f(X), f(X)
        drain()
    assert entered == [
        ("function", "tracing"),
        "end",
        ("function", "planning"),
        ("", "compiling with LLVM"),
        "end",
        "end",
    ]
    entered.clear()
    tracker.jit(lambda x: np.sum(np.cos(x)))(X)
    drain()
    assert not entered


def test_without_rich_there_is_a_line_per_stage(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)  # not installed
    display = progress._new_display()
    for text in ("tracker: f: tracing", "tracker: f: tracing", "tracker: f: planning"):
        display.show(text, 1.25)
    display.clear()
    assert capsys.readouterr().err == "tracker: f: tracing, 1.2 s\ntracker: f: planning, 1.2 s\n"


def test_rich_shows_a_status_where_it_is_installed(monkeypatch):
    told = []

    class Console:
        is_interactive, is_jupyter = True, False

        def __init__(self, stderr):
            assert stderr

        def status(self, text):
            return types.SimpleNamespace(
                start=lambda: told.append("start"),
                update=told.append,
                stop=lambda: told.append("stop"),
            )

    fake = types.ModuleType("rich.console")
    fake.Console = Console
    monkeypatch.setitem(sys.modules, "rich.console", fake)
    display = progress._new_display()
    display.show("tracker: f: tracing", 1.2)
    display.clear()
    assert told == ["start", "tracker: f: tracing, 1 s", "stop"]
