"""From a trace to something callable.

A program that can be lowered completely, and whose arguments can be read in place, becomes one
native entry (`link.py`); any other runs by the executor (`executor.py`). A long program is compiled
quickly first, and optimised when it is called often (`CompiledTrace.optimised`).
"""

from __future__ import annotations

import functools
import time
from typing import Any

from tracker.jit.codegen.artifact import Bodies
from tracker.jit.guards import signature
from tracker.jit.guards.signature import ArrayOut, Outputs, array_out
from tracker.jit.llvm.engine import KERNELS_OPTIMISED, OPTIMISED, QUICK
from tracker.jit.pipeline import lowered_cache
from tracker.jit.pipeline.link import CompiledTrace, bind
from tracker.jit.pipeline.program import CallingLayout, Program
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.runtime.progress import compile_stage
from tracker.jit.schedule.cost import operation_count
from tracker.jit.schedule.plan_data import FrameSlots
from tracker.jit.tracing.trace import Trace

_MAX_QUICK_OPERATIONS = 10**9  # in one call; more are worth waiting for optimised code

# Operations in a call for each line of the program, from which kernels are optimised at once: that
# takes 15 us for a line, and gains 0.2 ns for an operation.
_MIN_OPERATIONS_OF_LINE = 300
_MAX_OPERATIONS_OF_LINE = 1500  # from which on everything is, unless a call waits for the code

_SECONDS_TO_OPTIMISE_LINE = 5e-5  # in programs of 2,500 to 13,000 lines

_executor = lazy_import("tracker.jit.pipeline.executor", "executor")
_host_call = lazy_import("tracker.jit.pipeline.partition", "host_call")


def compile_call(
    trace: Trace,
    lengths_vary: bool = False,
    *,
    can_be_quick: bool = False,
    is_awaited: bool = False,
) -> CompiledTrace:
    """Compile a trace for the calls that it is valid for. `lengths_vary`: short arrays came in
    other lengths, too, and code for any length is reused. `can_be_quick`: a long program may be
    compiled quickly. `is_awaited`: a call waits for the code."""
    started = time.perf_counter()
    done = None
    if can_be_native(trace):
        done = _compile_native(trace, lengths_vary, can_be_quick, is_awaited)
    if done is None:
        done = _executor(Program(trace.function), trace.output_orders, lengths_vary)
    passes = done.program.seconds
    done.seconds = {"passes": passes, "code": time.perf_counter() - started - passes}
    return done


def _compile_native(
    trace: Trace, lengths_vary: bool, can_be_quick: bool, is_awaited: bool
) -> CompiledTrace | None:
    """One native call; None if NumPy must compute a part."""
    layout, outputs, arrays = calling_layout(trace, lengths_vary)
    program = Program(trace.function, layout)
    first = Bodies.KNOWN_APART if can_be_quick else Bodies.INSIDE
    lowered = lowered_cache.load_or_lower(program, first)
    if lowered is None:
        return None
    hosts = list(map(_host_call, lowered.callbacks))

    def compiled(level: int) -> CompiledTrace:
        relowered = level == OPTIMISED and bool(lowered.bodies)
        text = lowered_cache.load_or_lower(program, Bodies.INSIDE) if relowered else lowered
        assert text is not None
        with compile_stage("compiling with LLVM"):
            linked = bind(program, text, trace.signature, outputs, arrays, level)
        return CompiledTrace(program, [linked], hosts, entry=linked.entry)

    if not (can_be_quick and lowered.is_long):
        return compiled(OPTIMISED)
    operations = operation_count(trace.function)
    of_line = operations / lowered.line_count
    computes_much = of_line > _MAX_OPERATIONS_OF_LINE and not is_awaited
    if operations > _MAX_QUICK_OPERATIONS or computes_much:
        return compiled(OPTIMISED)
    quick = compiled(KERNELS_OPTIMISED if of_line > _MIN_OPERATIONS_OF_LINE else QUICK)
    quick.optimised = functools.partial(compiled, OPTIMISED)
    quick.optimising_seconds = lowered.line_count * _SECONDS_TO_OPTIMISE_LINE
    return quick


def can_be_native(trace: Trace) -> bool:
    """Whether one native entry can serve: no parameters to read, arrays readable in place, results
    with dtypes that a frame has slots for."""
    return (
        trace.signature.is_native
        and not any(trace.owners)
        and all(map(_is_readable, trace.captures))
        and all(atom.type.dtype in signature.NATIVE_DTYPES for atom in trace.function.outputs)
    )


def _is_readable(array: Any) -> bool:
    return isinstance(array, int) or isinstance(signature.array_leaf(array), signature.ArrayLeaf)


def calling_layout(trace: Trace, lengths_vary: bool) -> tuple[CallingLayout, Outputs, list[Any]]:
    """The calling layout of a native call, its outputs, and the captured arrays."""
    call = trace.signature
    leaves = [call.leaves[number] for number in trace.inputs]
    out_leaves = [out.leaf for out in trace.outputs]
    orders = trace.output_orders
    shown = [i for i, out in enumerate(trace.outputs) if out.atom is not None]
    rest = zip(trace.function.outputs[len(shown) :], orders[len(shown) :], strict=True)
    written_leaves = [array_out(atom.type, order) for atom, order in rest]
    written = tuple(zip(trace.writes, written_leaves, strict=True))
    outputs = Outputs(
        trace.structure,
        tuple(out_leaves),
        writes=written,
        no_alias=trace.no_alias,
        conditions=trace.conditions,
        state_writes=trace.state_writes,
    )
    inputs = call.offsets
    first = inputs[-1]
    arrays = [array for array in trace.captures if not isinstance(array, int)]
    fresh = iter(range(first, first + len(arrays)))
    out_first = first + len(arrays)
    slots = FrameSlots(
        inputs=tuple(inputs[number] for number in trace.inputs),
        input_is_array=tuple(isinstance(leaf, signature.ArrayLeaf) for leaf in leaves),
        captures=tuple(inputs[c] if isinstance(c, int) else next(fresh) for c in trace.captures),
        capture_is_array=tuple(
            not isinstance(c, int) or isinstance(call.leaves[c], signature.ArrayLeaf)
            for c in trace.captures
        ),
        outputs=(
            *(out_first + outputs.offsets[i] for i in shown),
            *(out_first + outputs.offsets[-1] + i for i in range(len(written))),
        ),
        output_is_array=(
            *(isinstance(out_leaves[i], ArrayOut) for i in shown),
            *(True for _ in written),
        ),
    )
    sources = (*trace.inputs, *trace.captures)
    strides = tuple(
        signature.leaf_strides(call.leaves[s] if isinstance(s, int) else s) for s in sources
    )
    return CallingLayout(slots, strides, tuple(orders), lengths_vary), outputs, arrays
