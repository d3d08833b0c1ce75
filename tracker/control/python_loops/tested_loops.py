"""Loops that are no `for` statements: `while` statements, which go on as long as tests of values
have the same outcome.

`at_test` is called when traced code is about to test a tracked value. The iterations of a loop are
counted from one test to the next at the same instruction; what is tested is carried like a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.iteration_state import IterationState
from tracker.control.python_loops.loop_code import LoopAround, TestedLoop, leaves, tested_loop
from tracker.control.python_loops.rolling import UNBOUNDED, LoopRoller
from tracker.ops.shape.create import buffer
from tracker.support.frames.cpython import frame_locals, set_frame_locals
from tracker.tape.observers import has_other_observers
from tracker.tape.record import aval_of, data_of, value_of
from tracker.tape.tracing.tracer import Tracer, is_constant_in_traces
from tracker.tape.tracked import Tracked

_NUMBERS = (int, float)
_MAX_BOUND = 2  # times that a loop gets tracked constants in vain: it has too few iterations, say


def at_test(tracer: Tracer, tested: Any, frame: FrameType) -> Any:
    """What the frame is to test in place of a tracked value: the same, or what the loop around this
    test has made of it."""
    if not np.ndim(aval_of(tested)):
        tested = _test_of_loop(tracer, tested, frame)
        where, outcome = frame.f_lasti, bool(data_of(tested))
        tracer.tested_loops[:] = [
            running
            for running in tracer.tested_loops
            if running.frame is not frame or not leaves(running.loop.code, where, outcome)
        ]
    for iteration in tracer.iterations:
        iteration.tests[value_of(tested)] = frame.f_code, frame.f_lasti
    return tested


def _test_of_loop(tracer: Tracer, tested: Any, frame: FrameType) -> Any:
    """The same, where `at_test` notes where it is tested."""
    loop = tested_loop(frame.f_code, frame.f_lasti)
    if loop is None:
        return tested
    if has_other_observers():
        return tested
    running = _running_loop(tracer, frame, loop)
    if running is None:
        tracer.tested_loops.append(running := _RunningLoop(tracer, frame, loop))
    return running.at_test(tested, loop)


def _running_loop(tracer: Tracer, frame: FrameType, loop: TestedLoop) -> _RunningLoop | None:
    """What is known of a loop that a frame is in."""
    known = tracer.tested_loops
    return next((x for x in known if x.frame is frame and x.loop.first == loop.first), None)


def bind_numbers(tracer: Tracer, frame: FrameType, around: LoopAround) -> bool:
    """Make the plain numbers on which a loop's tests depend tracked constants, until the next test;
    returns whether the loop may be followed."""
    loop = around.test
    assert loop is not None
    if _running_loop(tracer, frame, loop) is not None or tracer.bound_loops[loop.code] > _MAX_BOUND:
        return False
    names = frame_locals(frame)
    numbers = {name: names[name] for name in around.numbers if type(names.get(name)) in _NUMBERS}
    if not numbers or IterationState.before(frame, names, loop.code, ()) is None:
        return False
    tracer.bound_loops[loop.code] += 1
    set_frame_locals(frame, {name: buffer(x) for name, x in numbers.items()})
    tracer.tested_loops.append(_RunningLoop(tracer, frame, loop, loop.code.bound))
    return True


class _RunningLoop:
    """A loop that a frame is in, and the test between two of its iterations. `bound`: names that
    have tracked constants for plain numbers."""

    def __init__(
        self, tracer: Tracer, frame: FrameType, loop: TestedLoop, bound: Iterable[str] = ()
    ) -> None:
        self.frame, self.loop, self.at, self.bound = frame, loop, 0, bound
        self.roller = LoopRoller(tracer, loop.code, UNBOUNDED, outcomes=loop.outcomes)

    def at_test(self, tested: Any, loop: TestedLoop) -> Any:
        """What the frame is to test."""
        roller = self.roller
        if self.bound:
            tested = self._with_plain_numbers(tested)
        if roller.run is None:
            roller.paths = None  # a plain iteration may have changed what they depend on
        elif loop is self.loop:
            is_plain = roller.run.plain_test is not None
            rolled = roller.end(self.frame, value_of(tested))
            self.at = self.at + 1 if rolled is None else rolled.at + rolled.count
            if rolled is not None:
                tested = rolled.test
                self.roller.tracer.bound_loops[loop.code] = 0
            elif is_plain:
                tested = buffer(data_of(tested))
        goes_on = bool(data_of(tested)) in loop.outcomes
        if goes_on and roller.run is None and roller.may_begin(self.at):
            if not roller.paths:
                self.loop, roller.code, roller.outcomes = loop, loop.code, loop.outcomes
            if loop is self.loop:
                roller.begin(self.frame, self.at, value_of(tested))
        return tested

    def _with_plain_numbers(self, tested: Any) -> Any:
        """Give names plain numbers again; returns what is tested, as a constant that is no longer
        computed from them."""
        held = frame_locals(self.frame).items()
        tracked = {name: x._value for name, x in held if type(x) is Tracked}
        plain = {
            name: value.data
            for name, value in tracked.items()
            if name in self.bound and type(value.aval) in _NUMBERS and is_constant_in_traces(value)
        }
        set_frame_locals(self.frame, plain)
        self.bound = ()
        is_plain = is_constant_in_traces(value_of(tested))
        return buffer(data_of(tested)) if is_plain else tested
