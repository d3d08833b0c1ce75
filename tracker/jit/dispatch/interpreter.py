"""Interprets a trace, op by op with NumPy, while its machine code is compiled in the background;
and estimates what that, and other ways to serve a call, cost.

A call that is like a traced one need not wait for the compiler (`interpreted_calls` says how many
do not): that a function is called twice costs about what two plain calls cost.

Invariants: whether a call is interpreted depends on the trace and on the number of calls, never on
the clock, so that a program computes the same numbers in every run. A guard that does not hold, or
an error, leaves nothing behind: the plain function meets it again, at the user's line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.graph import Eqn, Function, nested_functions
from tracker.ir.lowering import Branch, Loop, While
from tracker.jit.tracing.trace import GuardFailed, Trace
from tracker.ops.shape.memory_order import in_memory_order
from tracker.tape.observers import CallbackMismatch
from tracker.tape.record import ReplayDiverged, replay

_MAX_CALLS = 8
_MAX_SHARE = 3  # interpreted calls take at most a third of the time for compiling,
_MAX_NS = 100_000_000  # and together no longer than this
_COMPILE_NS, _COMPILE_NS_PER_EQUATION = 10_000_000, 60_000
_TRACE_NS, _TRACE_NS_PER_EQUATION = 2_000_000, 30_000
_NS_PER_EQUATION, _NS_PER_ELEMENT = 2_000, 2
_PLAIN_CALL = 3  # takes so many times as long as one that is interpreted


def interpreted_calls(trace: Trace) -> int:
    """How many calls are interpreted before one waits for machine code."""
    function = trace.function
    if function.has_side_effects or _has_unknown_length(function):
        return 0
    to_compile = _COMPILE_NS + _COMPILE_NS_PER_EQUATION * len(function.body)
    budget = min(_MAX_NS, to_compile // _MAX_SHARE)
    return min(_MAX_CALLS, budget // (_interpretation_ns(function) + 1))


def is_faster_untraced(trace: Trace) -> bool:
    """Whether to run the plain function takes less time than to trace it once more, with arrays of
    other extents."""
    function = trace.function
    if _has_unknown_length(function):
        return False
    to_trace = _TRACE_NS + _TRACE_NS_PER_EQUATION * len(function.body)
    return _PLAIN_CALL * _interpretation_ns(function) < to_trace


def interpret(trace: Trace) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function of the values of a trace's inputs and captures, with the results of machine code;
    it raises `GuardFailed` where that would leave the call to the plain function."""

    orders = trace.output_orders

    def run(values: Sequence[Any]) -> Sequence[Any]:
        try:
            with np.errstate(all="ignore"):
                results = replay(trace.function, values)
        except (ReplayDiverged, CallbackMismatch, *EVALUATION_ERRORS) as error:
            raise GuardFailed from error
        results[: len(orders)] = map(in_memory_order, results, orders)
        return results

    return run


def _has_unknown_length(function: Function) -> bool:
    """Whether only running the function tells how long it takes."""
    loops = any(isinstance(op.lower, While) for op in function.ops)
    return loops or any(map(_has_unknown_length, function.functions.values()))


def _interpretation_ns(function: Function) -> int:
    """About how long it takes to interpret a function."""
    total = _NS_PER_EQUATION * len(function.body)
    for step in function.body:
        if isinstance(step, Eqn):
            shapes = (step.out.type.shape, *(operand.type.shape for operand in step.operands))
            total += _NS_PER_ELEMENT * sum([math.prod(shape) for shape in shapes if shape])
            if isinstance(step.op.lower, Loop | Branch):
                trip_count = step.params["length"] if isinstance(step.op.lower, Loop) else 1
                total += trip_count * sum(
                    map(_interpretation_ns, nested_functions((step,)).values())
                )
    return total
