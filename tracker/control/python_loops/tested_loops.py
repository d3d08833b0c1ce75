"""Loops that are no `for` statements: `while` statements, which go on as long as tests of values
have the same outcome.

`at_test` is called when traced code is about to test a tracked value. The iterations of a loop are
counted from one test to the next at the same instruction; what is tested is carried like a name.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.loop_code import TestedLoop, leaves, tested_loop
from tracker.control.python_loops.rolling import UNBOUNDED, LoopRoller
from tracker.tape.observers import thread_state
from tracker.tape.record import aval_of, data_of, value_of
from tracker.tape.tracing.tracer import Tracer


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
    if thread_state.observer is not None or thread_state.stop_gradient is not None:
        return tested
    known = tracer.tested_loops
    running = next((x for x in known if x.frame is frame and x.loop.first == loop.first), None)
    if running is None:
        known.append(running := _RunningLoop(tracer, frame, loop))
    return running.at_test(tested, loop)


class _RunningLoop:
    """A loop that a frame is in, and the test between two of its iterations."""

    def __init__(self, tracer: Tracer, frame: FrameType, loop: TestedLoop) -> None:
        self.frame, self.loop, self.at = frame, loop, 0
        self.roller = LoopRoller(tracer, loop.code, UNBOUNDED, outcomes=loop.outcomes)

    def at_test(self, tested: Any, loop: TestedLoop) -> Any:
        """What the frame is to test."""
        roller = self.roller
        if roller.run is None:
            roller.paths = None  # a plain iteration may have changed what they depend on
        elif loop is self.loop:
            rolled = roller.end(self.frame, value_of(tested))
            tested = tested if rolled is None else rolled.test
            self.at += 1
        goes_on = bool(data_of(tested)) in loop.outcomes
        if goes_on and roller.run is None and roller.may_begin(self.at):
            if not roller.paths:
                self.loop = loop
            if loop is self.loop:
                roller.begin(self.frame, self.at, value_of(tested))
        return tested
