"""Timing of a compiled program, step by step, for `f.profile`.

A `Meter` compiles programs with a stopwatch (`jit/codegen/stopwatch.py`) and times the NumPy calls
between them. Its readings are the nanoseconds of each step since `reset`, without those of the
clock itself. Start at `compile_metered`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.jit.codegen.lower import lower
from tracker.jit.codegen.stopwatch import Stopwatch
from tracker.jit.guards.signature import Outputs, Signature
from tracker.jit.llvm import object_cache
from tracker.jit.pipeline import link
from tracker.jit.pipeline.compile import calling_layout, can_be_native
from tracker.jit.pipeline.executor import executor
from tracker.jit.pipeline.program import Program
from tracker.jit.tracing.trace import Trace
from tracker.support.structs import record


@record(frozen=True)
class Reading:
    """A step (`plan_data.py`, a `HostCall`, or the plan of unrolled code), how often it ran, and
    for how long."""

    step: Any
    count: int
    nanoseconds: float


_LEAST_LAP = 4  # the cell of the nanoseconds of the second row


class Meter:
    """The programs and calls that are timed."""

    def __init__(self) -> None:
        self.programs: list[tuple[Stopwatch, np.ndarray[Any, Any]]] = []
        self.calls: list[tuple[Any, np.ndarray[Any, Any]]] = []
        self.compiling = 0  # nanoseconds

    def bind(
        self, program: Program, call: Signature, outputs: Outputs, captures: Sequence[Any] = ()
    ) -> link.LinkedProgram:
        """Machine code that times its steps; it is not kept on disk."""
        started, layout = time.perf_counter_ns(), program.layout
        assert layout is not None
        stopwatch = Stopwatch()
        lowered = lower(program.plan, layout.slots, stopwatch=stopwatch)
        laps = np.zeros(1 + 2 * len(stopwatch.steps), np.int64)
        laps[_LEAST_LAP] = np.iinfo(np.int64).max
        self.programs.append((stopwatch, laps))
        with object_cache.override_disk_cache(False):
            linked = link.bind(program, lowered, call, outputs, captures, laps=laps)
        self.compiling += time.perf_counter_ns() - started
        return linked

    def timed(self, step: Any, run: Callable[[Any], None]) -> Callable[[Any], None]:
        """A Python function that times its calls."""
        cells = np.zeros(2, np.int64)
        self.calls.append((step, cells))

        def timed(table: Any) -> None:
            started = time.perf_counter_ns()
            run(table)
            cells[:] += 1, time.perf_counter_ns() - started

        return timed

    def reset(self) -> None:
        """Forget what was counted."""
        self.compiling = 0
        for _, cells in (*self.programs, *self.calls):
            cells[:_LEAST_LAP] = cells[_LEAST_LAP + 1 :] = 0

    def readings(self) -> tuple[list[Reading], float]:
        """What was counted, and the nanoseconds that reading the clock has taken."""
        found = [Reading(step, int(count), float(ns)) for step, (count, ns) in self.calls]
        clock = 0.0
        for stopwatch, laps in self.programs:
            counts, sums = laps[1::2], laps[2::2]
            each = int(laps[_LEAST_LAP]) if counts[0] else 0
            clock += each * int(np.sum(counts))
            rows = zip(stopwatch.steps[2:], counts[2:], sums[2:], strict=True)
            found += [
                Reading(step, int(count), max(int(ns) - int(count) * each, 0.0))
                for step, count, ns in rows
            ]
        return found, clock


def compile_metered(trace: Trace, meter: Meter) -> link.CompiledTrace:
    """What `compile_call` gives, optimised and timed."""
    if can_be_native(trace):
        layout, outputs, arrays = calling_layout(trace, False)
        program = Program(trace.function, layout)
        if program.is_whole:
            linked = meter.bind(program, trace.signature, outputs, arrays)
            return link.CompiledTrace(program, [linked], [], entry=linked.entry)
    return executor(Program(trace.function), trace.output_orders, meter=meter)
