"""A trace compiled once more, with a `Meter`, for `f.profile`."""

from __future__ import annotations

from tracker.jit.pipeline.compile import calling_layout, can_be_native
from tracker.jit.pipeline.executor import executor
from tracker.jit.pipeline.link import CompiledTrace
from tracker.jit.pipeline.meter import Meter
from tracker.jit.pipeline.program import Program
from tracker.jit.tracing.trace import Trace


def compile_metered(trace: Trace, lengths_vary: bool, meter: Meter) -> CompiledTrace:
    """What `compile_call` gives, optimised and timed."""
    if can_be_native(trace):
        layout, outputs, arrays = calling_layout(trace, lengths_vary)
        program = Program(trace.function, layout)
        if program.is_whole:
            linked = meter.bind(program, trace.signature, outputs, arrays)
            return CompiledTrace(program, [linked], [], entry=linked.entry)
    return executor(Program(trace.function), trace.output_orders, lengths_vary, meter=meter)
