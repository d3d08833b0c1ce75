"""What a call gives that has just been traced: numbers of the trace, of NumPy, or of machine code.

Owns: `is_ahead`, whether NumPy computes what the trace has put off, while nobody has compiled yet;
`by_numpy` and `by_machine_code`, which give the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tracker.ir.lowering import Expand, Scan
from tracker.jit.abi import native_callable as native
from tracker.jit.dispatch.specialization import NONE, Special
from tracker.jit.runtime.c_symbols import in_our_blocks
from tracker.jit.schedule.cost import is_math
from tracker.jit.tracing.trace import GuardFailed, Staged
from tracker.tape.value import Value

SOON = 1 << 29  # bytes that NumPy adds up in less time than machine code takes to make
APIECE = 1 << 22  # the same for each kind of equation of a long program
EACH = 1 << 17  # the same for each equation
_MATH = 8  # sums are made while one function is computed that is not arithmetic
_SLOW = 16  # or numbers are put in order, or gathered


def is_ahead(staged: Staged, waits: bool) -> bool:
    """Whether all that the call gives and writes is there, or will be before machine code is.
    `waits`: the call waits for machine code anyhow."""
    return staged.is_ahead(_weight, _nothing if waits else _soon)


def _nothing(count: int, kinds: int) -> int:
    return 0


def _soon(count: int, kinds: int) -> int:
    """How many bytes NumPy adds up while so many equations are compiled, of so many kinds."""
    return max(SOON, APIECE * kinds + EACH * count)


def _weight(value: Value) -> int:
    if isinstance(value.op.lower, Expand | Scan):
        return _SLOW
    return _MATH if is_math(value) else 1


def by_numpy(staged: Staged) -> Any:
    """The result, as the plain function has it. Fresh memory takes longer than most of what is
    computed in it: so NumPy works in memory that is used again."""
    if not staged.is_left:
        return staged.finish()
    with in_our_blocks():
        return staged.finish()


def by_machine_code(
    special: Special, staged: Staged, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The result: machine code computes what the trace has put off, if it can without NumPy, and
    if the trace holds."""
    compiled, result = special.compiled, NONE
    if compiled.hosts:
        return by_numpy(staged)
    staged.effects.detach()
    if compiled.entry is not None:
        result = native.once(compiled.entry, lambda *_, **__: NONE, args, kwargs)
    else:
        with suppress(GuardFailed):
            result = special.call(staged.leaves, (*args, *kwargs.values()))
    return by_numpy(staged) if result is NONE else result
