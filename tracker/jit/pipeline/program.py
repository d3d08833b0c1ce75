"""From an `ir.Function` to text, step by step; each step is taken when somebody asks for it.

Owns: `Program`, and `CallingLayout`, what the text depends on besides. Start at `Program.lowered`.
A program whose text is known from an earlier time (`program_cache.py`) takes no step, unless it is
to be explained.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracker.ir.graph import Function
from tracker.jit.runtime import lazy_imports
from tracker.jit.schedule.plan_data import FrameSlots, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.codegen.artifact import LoweredProgram
    from tracker.jit.pipeline.partition import Stage


@record(frozen=True)
class CallingLayout:
    """How values come and go: the slots of a frame, the strides of inputs and captures, and those
    that outputs are to have; whether short arrays are to be expected in other lengths, too."""

    slots: FrameSlots
    strides: tuple[tuple[int, ...], ...]
    output_orders: tuple[MemoryOrder, ...]
    lengths_vary: bool = False


class Program:
    """A traced function, and what becomes of it."""

    def __init__(self, traced: Function, form: CallingLayout | None = None) -> None:
        self.traced = traced
        self.layout = form
        self.seconds = 0.0  # that the passes took

    @staticmethod
    def optimised(function: Function, form: CallingLayout) -> Program:
        """A program that has been through the passes."""
        program = Program(function, form)
        program.function = function
        return program

    @cached_property
    def function(self) -> Function:
        """The function after all passes."""
        started = time.perf_counter()
        done: Function = lazy_imports.optimise(self.traced)
        self.seconds = time.perf_counter() - started
        return done

    @cached_property
    def stages(self) -> list[Stage]:
        """What runs natively, and what NumPy runs in between."""
        stages: list[Stage] = lazy_imports.partition(self.function)
        return stages

    @property
    def is_whole(self) -> bool:
        """Whether machine code can do all of it."""
        first: Any = self.stages[0] if self.stages else None
        return getattr(first, "function", None) is self.function

    @cached_property
    def plan(self) -> Plan:
        """Where each value lives, and which loops compute what."""
        form = self.layout
        assert form is not None
        plan: Plan = lazy_imports.planned(
            self.function, form.strides, form.output_orders, form.lengths_vary
        )
        return plan

    @property
    def lowered(self) -> LoweredProgram:
        """The text."""
        assert self.layout is not None
        lowered: LoweredProgram = lazy_imports.lower(self.plan, self.layout.slots)
        return lowered

    def drop_intermediates(self) -> None:
        """Let go what is made again for who asks: a program is compiled for each shape, and few of
        them are explained."""
        self.__dict__.pop("stages", None)
        self.__dict__.pop("plan", None)
