"""Loops that are found while they run: those over lists, tuples and arrays that are not tracked
(also with a progress bar), and `while` statements whose tests are on plain numbers.

`at_sample` is called with the user's frame each time that so many more equations are recorded. A
loop that is around two of these in turn is a long one. A `for` statement gets an iterator that
follows it (`iterator.py`), for the rest of what it goes through. In `while` statements the numbers
that end them become tracked constants until the next test, so that it is noticed
(`tested_loops.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from tracker.control.python_loops.iterator import rest_of
from tracker.control.python_loops.loop_code import LoopAround, loops_around
from tracker.control.python_loops.tested_loops import bind_numbers
from tracker.jit.tracing import calls_unmonitored, elements_of
from tracker.support.frames.value_stack import on_stack, replace_on_stack
from tracker.tape.observers import has_other_observers
from tracker.tape.tracing.tracer import Tracer
from tracker.user_frames import is_own

_ARGUMENT = ".0"  # the iterator of a comprehension that has a frame of its own


def at_sample(tracer: Tracer, frame: FrameType) -> None:
    """Follow the innermost loop around the running instruction that may be, if it was running when
    the last sample was taken."""
    if tracer.iterations or has_other_observers():
        return
    with calls_unmonitored():
        around = list(_around(frame))
        before, tracer.sampled_loops = tracer.sampled_loops, {each.code for _, each in around}
        for inner, each in around:
            if each.code in before and not each.at_head and _follow(tracer, inner, each):
                return


def _around(frame: FrameType | None) -> Iterator[tuple[FrameType, LoopAround]]:
    """The loops around it that are understood, with their frames, innermost first."""
    while frame is not None and (_is_shim(frame.f_code) or not is_own(frame.f_code)):
        for each in loops_around(frame.f_code, frame.f_lasti):
            if each.code is not None:
                yield frame, each
        frame = frame.f_back


def _is_shim(code: CodeType) -> bool:
    """Whether code is that of a builtin's shim, which calls the user's."""
    return code.co_filename == elements_of.__code__.co_filename


def _follow(tracer: Tracer, frame: FrameType, loop: LoopAround) -> bool:
    """Follow a loop from its next iteration on; returns whether it may be."""
    assert loop.code is not None
    if loop.slot is None:
        return bind_numbers(tracer, frame, loop)
    iterator = on_stack(frame, loop.slot)
    if sys.getrefcount(iterator) > 3 + (_ARGUMENT in loop.code.code.co_varnames):
        return False  # other code may read it, too
    following = rest_of(iterator, tracer, loop.code, frame)
    if following is not None:
        replace_on_stack(frame, loop.slot, following)
    return following is not None
