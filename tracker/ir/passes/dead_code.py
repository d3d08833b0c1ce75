"""Dead code: equations that no output or guard needs, and unused nested functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, has_side_effects, nested_functions
from tracker.ir.lowering import Map, Routine
from tracker.ir.passes.manager import as_pass, with_body
from tracker.support.structs import replace


@as_pass()
def dead_code(function: Function) -> Function:
    """Drop equations that no output or guard needs, and unused nested functions.

    Equations that may raise stay, and those with side effects.
    """
    kept = needed_steps(function.body, function.outputs)
    if len(kept) < len(function.body):
        function = with_body(function, kept)
    return without_unused_functions(function)


def needed_steps(body: Sequence[Eqn | Guard], outputs: Iterable[Atom]) -> list[Eqn | Guard]:
    """The steps of a body that are not dead."""
    live = set(outputs)
    kept: list[Eqn | Guard] = []
    for step in reversed(body):
        if isinstance(step, Eqn):
            if step.out not in live and not has_side_effects(step) and not _may_raise(step):
                continue
            live.update(step.operands)
        else:
            live.add(step.operand)
        kept.append(step)
    return kept[::-1]


def _may_raise(eqn: Eqn) -> bool:
    """Whether NumPy or Python raises for some operands: programs may rely on that alone."""
    lower = eqn.op.lower
    if isinstance(lower, Map):
        known = isinstance(eqn.operands[-1], Const)  # usually the divisor
        return lower.defined is not None and eqn.out.type.weak and not known
    if isinstance(lower, Routine):
        return lower.may_raise
    nested = nested_functions((eqn,)).values()
    return any(isinstance(s, Guard) or _may_raise(s) for v in nested for s in v.body)


def without_unused_functions(function: Function) -> Function:
    """The function with the nested functions only that its equations refer to."""
    if not function.functions:
        return function
    used = set(nested_functions(function.body).values())
    functions = {name: nested for name, nested in function.functions.items() if nested in used}
    if len(functions) == len(function.functions):
        return function
    return replace(function, functions=functions)
