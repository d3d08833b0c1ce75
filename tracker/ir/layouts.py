"""One layout for an array that products take both as it is and with its last two axes exchanged.

Owns: the pass `common_layouts`. A product's operand that is computed is laid out in memory for it,
once per order of its axes; but BLAS reads a matrix from either side. The pullback of an einsum
takes the same array from both:

    u = transpose x {axes=(1, 2, 0)}        u = transpose x {axes=(1, 2, 0)}
    v = transpose x {axes=(1, 0, 2)}   ->   v = transpose u {axes=(0, 2, 1)}

so only `u` is laid out. It runs after `simplify`, which would make two transposes one again.
Invariants: values stay; linear in the equations.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.op import Contract
from tracker.ir.passes import as_pass, with_body
from tracker.records import replace


@as_pass
def common_layouts(function: Function) -> Function:
    if not (function.has("transpose") and any(isinstance(o.lower, Contract) for o in function.ops)):
        return function
    taken = {
        operand
        for eqn in function.eqns
        if isinstance(eqn.op.lower, Contract)
        for operand in eqn.operands
    }
    computed = {eqn.out for eqn in function.eqns}
    first: dict[tuple[Atom, tuple[int, ...]], Var] = {}
    body: list[Eqn | Guard] = []
    for step in function.body:
        axes = _axes(step) if isinstance(step, Eqn) else None
        if isinstance(step, Eqn) and axes and step.out in taken and step.operands[0] in computed:
            source = step.operands[0]
            other = first.get((source, (*axes[:-2], axes[-1], axes[-2])))
            if other is None:
                first.setdefault((source, axes), step.out)
            else:
                kept = range(len(axes) - 2)
                params = {"axes": (*kept, len(axes) - 1, len(axes) - 2)}
                step = replace(step, operands=(other,), params=params)
        body.append(step)
    return with_body(function, body) if body != list(function.body) else function


def _axes(eqn: Eqn) -> tuple[int, ...] | None:
    """The order of a transpose of three axes or more; of two, there is nothing to share."""
    if eqn.op.name != "transpose" or (ndim := eqn.out.type.ndim) < 3:
        return None
    axes = eqn.params.get("axes")
    return tuple(range(ndim))[::-1] if axes is None else tuple(axis % ndim for axis in axes)
