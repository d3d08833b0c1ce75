"""Where a trace learns of a Python loop: `start_loop` is called when one is about to iterate.

`control/python_loops` hands in what follows its turns; without it, and outside of traces, a loop is
the plain one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from tracker.tape.tracer import current_tracer
from tracker.tape.value import Value

Starter = Callable[[str, tuple[Any, ...], FrameType], Any]
_starters: list[Starter] = []


def set_loop_starter(starter: Starter) -> None:
    """Set the function that follows loops (called once, at import)."""
    _starters[:] = [starter]


def start_loop(kind: str, given: tuple[Any, ...], frame: FrameType) -> Any:
    """The iterator for a loop over `range`, `zip` or `enumerate` of what is given, or over the
    `rows` of an array, if the running instruction of the frame is the head of one that may be
    followed; None if not."""
    tracer = current_tracer()
    if not _starters or tracer is None or tracer.is_body_trace or tracer.abort_reason:
        return None
    return _starters[0](kind, given, frame)


def note_extents(value: Value) -> None:
    """The code asks for extents of a value: one that grows has them in the turn that runs alone."""
    tracer = current_tracer()
    for turn in () if tracer is None else tracer.turns:
        turn.has_learned |= value in turn.growing
