"""Computes the result of a call that has just been traced: with NumPy, or with machine code.

Tracing leaves large arrays lazy. NumPy computes them if it is done before machine code would be
compiled (`is_numpy_soon_done`), otherwise the call waits for machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tracker.ir.lowering import Expand, Scan
from tracker.jit.abi import native_callable as native
from tracker.jit.dispatch.specialization import NO_RESULT, Specialization
from tracker.jit.runtime.c_symbols import use_block_allocator
from tracker.jit.schedule.cost import is_math
from tracker.jit.tracing.trace import GuardFailed, TracedRun
from tracker.tape.value import Value, is_lazy

BYTES_WHILE_COMPILING = 1 << 29  # bytes that NumPy adds up while machine code is compiled
BYTES_PER_OP_KIND = 1 << 22  # added for each kind of equation of a long program
BYTES_PER_EQUATION = 1 << 17  # added for each equation
_MATH_COST = 8  # sums in the time of one transcendental function
_SLOW_COST = 16  # sums in the time of a sort or gather


def is_numpy_soon_done(run: TracedRun, is_synchronous: bool) -> bool:
    """Whether all that the call returns and writes is computed, or will be before machine code is
    compiled. `is_synchronous`: the call waits for machine code anyway."""
    budget = (lambda *_: 0) if is_synchronous else _bytes_while_compiling
    return run.scheduler is None or run.scheduler.is_numpy_soon_done(
        run.result_values, _cost, budget
    )


def _bytes_while_compiling(count: int, kinds: int) -> int:
    """How many bytes NumPy adds up while so many equations of so many kinds are compiled."""
    return max(BYTES_WHILE_COMPILING, BYTES_PER_OP_KIND * kinds + BYTES_PER_EQUATION * count)


def _cost(value: Value) -> int:
    if isinstance(value.op.lower, Expand | Scan):
        return _SLOW_COST
    return _MATH_COST if is_math(value) else 1


def finish_with_numpy(run: TracedRun) -> Any:
    """The result, computed as by the plain function, but in reused memory: fresh memory takes
    longer than most of the computations."""
    if not any(map(is_lazy, run.result_values)):
        return run.finish()
    with use_block_allocator():
        return run.finish()


def finish_with_machine_code(
    specialization: Specialization, run: TracedRun, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The result: machine code computes the lazy values, if it needs no NumPy and the trace
    matches."""
    compiled, result = specialization.compiled, NO_RESULT
    if compiled.host_calls:
        return finish_with_numpy(run)
    run.effects.detach_lazy_values()
    if compiled.entry is not None:
        result = native.call_once(compiled.entry, lambda *_, **__: NO_RESULT, args, kwargs)
    else:
        with suppress(GuardFailed):
            result = specialization.call(run.leaves, (*args, *kwargs.values()))
    return finish_with_numpy(run) if result is NO_RESULT else result
