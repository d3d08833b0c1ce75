"""Laps: the time of each step of a program that is compiled for `f.profile`.

The driver, and each body that has more than unrolled code, calls `@tk.lap(row)` after each step: it
adds the nanoseconds since the last lap to the step's row. So the rows of a call add up to the time
of the plan. Two laps at the start of a plan take the time outside of it, and the least time of a
lap itself.

`Stopwatch` writes the calls and knows the step of each row; `tk.laps` are its cells: the time of
the last lap, then a count and the nanoseconds of each row.
"""

from __future__ import annotations

import time
from typing import Any

from tracker.jit.codegen.artifact import LAPS
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.schedule.plan_data import ControlFlow, Plan, Store

OUTSIDE, CLOCK = "outside", "clock"  # the first rows
DECLARATIONS = {f"@{LAPS} = external global i64", "declare i32 @clock_gettime(i32, ptr)"}


class Stopwatch:
    """The rows of one program: what they time is a step, or the plan whose unrolled code it is."""

    def __init__(self) -> None:
        self.steps: list[Any] = [OUTSIDE, CLOCK]
        self._rows = {id(step): row for row, step in enumerate(self.steps)}

    def lap(self, step: Any) -> str:
        """The line that counts the time since the last lap as that of a step."""
        row = self._rows.get(id(step))
        if row is None:
            row = self._rows[id(step)] = len(self.steps)
            self.steps.append(step)
        return f"  call void @tk.lap(i64 {row})"

    @property
    def text(self) -> str:
        """The function that laps call."""
        c = FunctionWriter("tk.lap", ["i64 %row"], attributes="noinline nounwind")
        at = c.array("[2 x i64]")
        c.emit(f"call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr {at})")
        now = c.add(c.mul(c.load(at), 10**9), c.load(at, 1))
        taken = c.sub(now, c.load(f"@{LAPS}"))
        c.store(now, f"@{LAPS}")
        count = c.address(f"@{LAPS}", c.add(c.mul("%row", 2), 1))
        c.store(c.add(c.load(count), 1), count)
        total = c.load(count, 1)
        least = c.select(c.let(f"icmp ult i64 {taken}, {total}"), taken, total)
        is_clock = c.compare("eq", "%row", 1)
        c.store(c.select(is_clock, least, c.add(total, taken)), count, 1)
        c.ret()
        return c.text()


def has_steps(plan: Plan) -> bool:
    """Whether a body does more than a lap takes."""
    writes = (step for steps in plan.writes.values() for step in steps)
    return bool(
        plan.kernels
        or any(plan.products.values())
        or any(plan.calls.values())
        or any(not isinstance(step, Store) for step in writes)
        or any(is_open(control) for controls in plan.controls.values() for control in controls)
    )


def is_open(control: ControlFlow) -> bool:
    """Whether the steps of a loop or branch are timed one by one."""
    return any(map(has_steps, control.bodies.values()))
