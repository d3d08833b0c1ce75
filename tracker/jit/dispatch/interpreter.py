"""Interprets a trace, op by op with NumPy, while its machine code is compiled in the background;
and estimates what that, and other ways to serve a call, cost.

A call that is like a traced one need not wait for the compiler (`interpreted_calls` says how many
do not): that a function is called twice costs about what two plain calls cost. Loops are taken to
be as long as in the traced call; a call that has longer ones stops, and waits for machine code.

Invariants: whether a call is interpreted depends on the trace and on the numbers of calls and
iterations, never on the clock, so that a program computes the same numbers in every run. A guard
that does not hold, or an error, leaves nothing behind: the plain function meets it again, at the
user's line.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Eqn, Function, nested_functions
from tracker.ir.lowering import Branch, Loop, Pick, While
from tracker.jit.tracing.trace import GuardFailed, Trace
from tracker.ops.shape.memory_order import in_memory_order
from tracker.random.draw_ops import RollbackLog, has_lasting_effect
from tracker.tape.observers import CALL_FAILURES, Stepper, thread_state
from tracker.tape.record import ReplayDiverged, replay

_MAX_CALLS = 8
_MAX_SHARE = 2  # interpreted calls take at most half of the time for compiling,
_MAX_NS = 100_000_000  # and together no longer than this, unless it is one call
_COMPILE_NS, _COMPILE_NS_PER_EQUATION = 10_000_000, 200_000
_TRACE_NS, _TRACE_NS_PER_EQUATION = 2_000_000, 30_000
_NS_PER_EQUATION, _NS_PER_LOOPED_EQUATION, _NS_PER_ELEMENT = 2_000, 500, 2
_PLAIN_CALL = 3  # takes so many times as long as one that is interpreted
_NATIVE_LOOP = 16  # times as fast as one that is


def interpreted_calls(trace: Trace) -> int:
    """How many calls are interpreted before one waits for machine code."""
    if _has_lasting_effects(trace.function):
        return 0
    call_ns = _call_ns(trace, _NS_PER_LOOPED_EQUATION, trace.native_loops) + 1
    return min(_MAX_CALLS, _budget_ns(trace) // call_ns, max(1, _MAX_NS // call_ns))


def is_faster_untraced(trace: Trace) -> bool:
    """Whether to run the plain function takes less time than to trace it once more, with arrays of
    other extents."""
    to_trace = _TRACE_NS + _TRACE_NS_PER_EQUATION * trace.function.text_length
    return _PLAIN_CALL * _call_ns(trace, _NS_PER_EQUATION) < to_trace


class TakesTooLong(Exception):
    """The loops of an interpreted call take more iterations than it has the time for."""


def interpret(trace: Trace) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function of the values of a trace's inputs and captures, with the results of machine code;
    it raises `GuardFailed` where that would leave the call to the plain function."""

    orders = trace.output_orders

    def run(values: Sequence[Any]) -> Sequence[Any]:
        outer = thread_state.make_stepper
        thread_state.make_stepper = _LimitedSteps(_budget_ns(trace)).make_stepper
        try:
            with np.errstate(all="ignore"), RollbackLog() as log:
                results = replay(trace.function, values)
        except TakesTooLong:
            log.roll_back()
            raise
        except (ReplayDiverged, *CALL_FAILURES) as error:
            log.roll_back()
            raise GuardFailed from error
        finally:
            thread_state.make_stepper = outer
        results[: len(orders)] = map(in_memory_order, results, orders)
        return results

    return run


class _LimitedSteps:
    """Runs the steps of loops, and compiles none: machine code for the whole call is on its way."""

    def __init__(self, ns: int) -> None:
        self.ns_left = ns
        self.steppers: dict[Function, Stepper] = {}

    def make_stepper(self, body: Function, run: Stepper) -> Stepper:
        if body not in self.steppers:
            ns = _function_ns(body, _is_branch, _NS_PER_LOOPED_EQUATION)
            self.steppers[body] = functools.partial(self._step, run, ns)
        return self.steppers[body]

    def _step(self, run: Stepper, ns: int, values: Sequence[Any]) -> Sequence[Any]:
        self.ns_left -= ns
        if self.ns_left < 0:
            raise TakesTooLong
        return run(values)


def _has_lasting_effects(function: Function) -> bool:
    """Whether an equation has an effect that cannot be rolled back."""
    nested = any(map(_has_lasting_effects, function.functions.values()))
    return nested or any(map(has_lasting_effect, function.ops))


def _budget_ns(trace: Trace) -> int:
    """How long interpreted calls may take, beside compiling."""
    to_compile = _COMPILE_NS + _COMPILE_NS_PER_EQUATION * trace.function.text_length
    return to_compile // _MAX_SHARE


def _call_ns(trace: Trace, ns_in_loops: int, native: Collection[Function] = ()) -> int:
    """About how long it takes to interpret a call like the traced one; `ns_in_loops`: for an
    equation of a loop's body; `native`: of loops that have native code of their own."""
    function, trip_count = trace.function, functools.partial(_trip_count, trace.trip_counts, native)
    straight = (_NS_PER_EQUATION - ns_in_loops) * len(function.body)
    return straight + _function_ns(function, trip_count, ns_in_loops)


def _function_ns(function: Function, trip_count: Callable[[Eqn], int], ns: int) -> int:
    """`ns`: for an equation on scalars."""
    total = ns * len(function.body)
    for step in function.eqns:
        if isinstance(step.op.lower, Loop | While | Branch):
            nested = nested_functions((step,)).values()
            total += trip_count(step) * sum([_function_ns(f, trip_count, ns) for f in nested])
        elif not isinstance(step.op.lower, Pick):
            shapes = (step.out.type.shape, *(operand.type.shape for operand in step.operands))
            total += _NS_PER_ELEMENT * sum([math.prod(shape) for shape in shapes if shape])
    return total


def _trip_count(known: Mapping[Function, int], native: Collection[Function], step: Eqn) -> int:
    """About how often a step runs the functions nested in it, or takes as long as that many runs
    of them."""
    if _is_branch(step):
        return 1
    most: int = step.params["capacity" if isinstance(step.op.lower, While) else "length"]
    body = step.params["body"]
    count = known.get(body, most)
    return -(-count // _NATIVE_LOOP) if body in native else count


def _is_branch(step: Eqn) -> bool:
    return isinstance(step.op.lower, Branch)
