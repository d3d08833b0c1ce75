"""Run an `ir.Function` step by step, on plain data or recorded again on tracked values.

Invariant: a replay does what the traced code did; if a guard does not hold for these values, or a
Python number becomes complex, `ReplayDiverged` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Function, Guard, Var
from tracker.tape.record import apply
from tracker.tape.tracer import at_origins

GUARD_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "hash": lambda x: x.item() if hasattr(x, "item") else x,
    "floor": lambda x: int(np.floor(x)),
    "ceil": lambda x: int(np.ceil(x)),
    "round": lambda x: int(np.rint(x)),
}


class ReplayDiverged(Exception):
    """A guard of the function does not hold for these values."""

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__("" if guard is None else f"the guard at {guard.where} does not hold")
        self.guard = guard


def replay(function: Function, values: Sequence[Any]) -> list[Any]:
    """The results of a function, given values for its inputs and captures."""
    table: dict[Var, Any] = dict(zip((*function.inputs, *function.captures), values, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Const) else table[atom]

    with at_origins() as tracer:
        for step in function.body:
            if isinstance(step, Guard):
                if GUARD_CONVERSIONS[step.kind](read(step.operand)) != step.expected:
                    raise ReplayDiverged(step)
                continue
            if tracer is not None:
                tracer.origin = step.where or None
            out = step.out
            x = table[out] = apply(step.op, tuple(map(read, step.operands)), step.params)
            if type(x) is complex and out.type.weak and out.type.dtype.kind != "c":
                raise ReplayDiverged  # Python takes the root of a negative number
    return [read(atom) for atom in function.outputs]
