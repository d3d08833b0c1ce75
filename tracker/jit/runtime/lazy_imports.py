"""Lazy imports: functions whose module is imported at their first call.

The first call of a process spends more time on importing modules than on compiling a small
function, so kernels and compiler stages that not all programs need are imported late. Only calls
within a room or to a lower one go this way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tracker.jit.llvm.signals import SIGNALS_DEFERRED


def later(module: str, name: str) -> Callable[..., Any]:
    """A function that imports its module when it is first called."""

    @functools.cache
    def found() -> Callable[..., Any]:
        with SIGNALS_DEFERRED:
            function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    def call(*args: Any) -> Any:
        return found()(*args)

    call.found = found  # type: ignore[attr-defined]
    return call


# The way from a function to text, which may be known from an earlier time
executor = later("tracker.jit.pipeline.executor", "executor")
lower = later("tracker.jit.codegen.lower", "lower")
planned = later("tracker.jit.pipeline.loop_carried", "planned")
host_call = later("tracker.jit.pipeline.partition", "host_call")
optimise = later("tracker.jit.pipeline.passes", "optimise")
partition = later("tracker.jit.pipeline.partition", "partition")

# Planning
gathered = later("tracker.jit.kernels.tall_matmul", "gathered")
plan_callback = later("tracker.jit.kernels.python_callbacks", "plan_callback")
plan_call = later("tracker.jit.lapack.plan", "plan_call")
plan_choice = later("tracker.jit.kernels.selection", "plan_choice")
plan_loan = later("tracker.jit.kernels.ufunc_calls", "plan_loan")
plan_lookup = later("tracker.jit.kernels.binary_search", "plan_lookup")
plan_order = later("tracker.jit.kernels.sort", "plan_order")
plan_rows = later("tracker.jit.kernels.tall_matmul", "plan_rows")
plan_scan = later("tracker.jit.schedule.scan", "plan_scan")
plan_source = later("tracker.jit.kernels.selection", "plan_source")
roll = later("tracker.ir.passes.loops.reroll", "roll")
why_no_callback = later("tracker.jit.kernels.python_callbacks", "why_no_callback")
why_no_call = later("tracker.jit.kernels.matmul", "why_no_call")
why_no_product = later("tracker.jit.kernels.matmul", "why_no_product")
why_no_routine = later("tracker.jit.lapack.routines", "why_no_routine")

# Writing
journal = later("tracker.jit.kernels.python_callbacks", "journal")
write_call = later("tracker.jit.lapack.driver_calls", "write_call")
write_control = later("tracker.jit.codegen.control_flow", "write_control")
write_product = later("tracker.jit.kernels.matmul", "write_product")
bound_callbacks = later("tracker.jit.kernels.python_callbacks", "bound_callbacks")
routine_address = later("tracker.jit.lapack.routines", "routine_address")
