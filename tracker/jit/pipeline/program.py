"""A program: from an IR function to text, each step on demand.

`CallingLayout` is what the text depends on besides the function. A program whose text is in the
cache (`lowered_cache.py`) runs no step, unless it is explained. Start at `Program.lower`.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracker.ir.graph import Function
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.schedule.cost import operation_count
from tracker.jit.schedule.plan_data import FrameSlots, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import record, replace

if TYPE_CHECKING:
    from tracker.jit.codegen.artifact import Bodies, LoweredProgram
    from tracker.jit.pipeline.partition import Stage

_optimise = lazy_import("tracker.jit.pipeline.pass_order", "optimise")
_partition = lazy_import("tracker.jit.pipeline.partition", "partition")
_planned = lazy_import("tracker.jit.pipeline.loop_carried", "planned")
_lower = lazy_import("tracker.jit.codegen.lower", "lower")


@record(frozen=True)
class CallingLayout:
    """How values are passed: the slots of a frame, the strides of inputs and captures, and the
    orders wanted of outputs; whether short arrays may come in other lengths, too."""

    slots: FrameSlots
    strides: tuple[tuple[int, ...], ...]
    output_orders: tuple[MemoryOrder, ...]
    lengths_vary: bool = False


class Program:
    """A traced function, and the stages of its compilation; `base` is the same program in another
    layout, or in none."""

    def __init__(
        self, traced: Function, layout: CallingLayout | None = None, base: Program | None = None
    ) -> None:
        self.traced = traced
        self.layout = layout
        self.base = base
        self.seconds = 0.0  # of the passes

    @staticmethod
    def of_segment(function: Function) -> Program:
        """The program of a native segment, which has been through the passes."""
        program = Program(function)
        program.function, program.is_whole = function, True
        return program

    def in_layout(self, layout: CallingLayout) -> Program:
        """This program in a calling layout; the passes run once for all layouts."""
        return Program(self.traced, layout, self)

    @cached_property
    def function(self) -> Function:
        """The function after all passes."""
        if self.base is not None:
            return self.base.function
        started = time.perf_counter()
        done: Function = _optimise(self.traced)
        self.seconds = time.perf_counter() - started
        return done

    @cached_property
    def stages(self) -> list[Stage]:
        """The native segments, and NumPy's calls between them."""
        stages: list[Stage] = _partition(self.function)
        return stages

    @cached_property
    def is_whole(self) -> bool:
        """Whether machine code can run all of it."""
        if self.base is not None:
            return self.base.is_whole
        first: Any = self.stages[0] if self.stages else None
        return getattr(first, "function", None) is self.function

    @cached_property
    def plan(self) -> Plan:
        """The location of each value, and the kernels."""
        form = self.layout
        assert form is not None
        plan: Plan = _planned(self.function, form.strides, form.output_orders, form.lengths_vary)
        return plan

    def lower(self, bodies: Bodies) -> LoweredProgram:
        """The text."""
        assert self.layout is not None
        lowered: LoweredProgram = _lower(self.plan, self.layout.slots, bodies)
        return replace(lowered, operations=operation_count(self.function))

    def drop_intermediates(self) -> None:
        """Drop stages and plan, which can be made again: a program is compiled for each shape, and
        few programs are explained."""
        self.__dict__.pop("stages", None)
        self.__dict__.pop("plan", None)
