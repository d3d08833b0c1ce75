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
        return f"""define internal void @tk.lap(i64 %row) noinline nounwind {{
  %at = alloca [2 x i64], align 16
  %status = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %at)
  %seconds = load i64, ptr %at
  %rest.at = getelementptr i64, ptr %at, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %last = load i64, ptr @{LAPS}
  store i64 %now, ptr @{LAPS}
  %taken = sub i64 %now, %last
  %twice = shl i64 %row, 1
  %first = add i64 %twice, 1
  %count.at = getelementptr i64, ptr @{LAPS}, i64 %first
  %count = load i64, ptr %count.at
  %more = add i64 %count, 1
  store i64 %more, ptr %count.at
  %sum.at = getelementptr i64, ptr %count.at, i64 1
  %sum = load i64, ptr %sum.at
  %total = add i64 %sum, %taken
  %is.less = icmp ult i64 %taken, %sum
  %least = select i1 %is.less, i64 %taken, i64 %sum
  %is.clock = icmp eq i64 %row, 1
  %new = select i1 %is.clock, i64 %least, i64 %total
  store i64 %new, ptr %sum.at
  ret void
}}"""


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
