"""Zeros that a loop adds to what it carries, in each step, so that it holds no -0.0.

`scatter.py` makes `a + scattered_sum(x, i)` an update of `a + 0.0`. A step that only updates a few
elements of a carry would add zeros to all of it. If the carry then holds no -0.0 after a step that
finds none in it, it is enough to add zeros before the loop:

    loop c: d = c + 0.0; e = scattered_added d x i    ->    c + 0.0, and loop c: e = ... c x i

Invariant: values stay, to the sign of each zero.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function, Var, unused_name
from tracker.ir.lowering import Loop, Pick
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.passes.scatter import adds_zero, has_no_negative_zero, positive_zero
from tracker.support.structs import replace


@as_pass(requires=(EXPANDED,))
def hoist_added_zeros(function: Function) -> Function:
    """Add zeros to carries before loops rather than in each step."""
    if not any(isinstance(eqn.op.lower, Loop) for eqn in function.eqns):
        return function
    functions = dict(function.functions)
    unsigned: set[Atom] = set()
    carries: dict[Atom, tuple[int, ...]] = {}  # loops -> those that hold no -0.0 at the end

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if isinstance(eqn.op.lower, Loop):
            carries[eqn.out] = found = _free_carries(eqn)
            if not found:
                return False
            body = _without_zeros(eqn, found)
            name = unused_name(f"{body.name}_", functions)
            functions[name] = replace(body, name=name)
            eqn = _started_unsigned(eqn, found, unsigned, new)
            new.body.append(replace(eqn, params={**eqn.params, "body": functions[name]}))
            return True
        if isinstance(eqn.op.lower, Pick):
            is_unsigned = eqn.params["at"] in carries.get(eqn.operands[0], ())
        else:
            is_unsigned = has_no_negative_zero(eqn, unsigned)
        if is_unsigned:
            unsigned.add(eqn.out)
        return False

    written = rewrite_equations(function, rewrite)
    return function if written is function else replace(written, functions=functions)


def _first_carry(loop: Eqn) -> int:
    first: int = loop.params["consts"]
    return first


def _unsigned_in(loop: Eqn, carries: tuple[int, ...]) -> set[Atom]:
    """What holds no -0.0 in a step that finds none in these carries."""
    body, first = loop.params["body"], _first_carry(loop)
    unsigned: set[Atom] = {body.inputs[first + at] for at in carries}
    for eqn in body.eqns:
        if has_no_negative_zero(eqn, unsigned):
            unsigned.add(eqn.out)
    return unsigned


def _free_carries(loop: Eqn) -> tuple[int, ...]:
    """The carries that stay without -0.0, and that the step adds zeros to."""
    body, first = loop.params["body"], _first_carry(loop)
    types = [var.type for var in body.inputs[first : first + loop.params["carries"]]]
    found = tuple([at for at, t in enumerate(types) if t.shape and t.dtype.kind in "fc"])
    while True:
        unsigned = _unsigned_in(loop, found)
        left = tuple([at for at in found if body.outputs[at] in unsigned])
        if left == found:
            break
        found = left
    zeros = _added_zeros(loop, found)
    return tuple([at for at in found if _added_zeros(loop, tuple(set(found) - {at})) != zeros])


def _added_zeros(loop: Eqn, carries: tuple[int, ...]) -> set[Var]:
    """The sums with 0.0 that change nothing."""
    unsigned = _unsigned_in(loop, carries)
    eqns = [eqn for eqn in loop.params["body"].eqns if adds_zero(eqn)]
    return {eqn.out for eqn in eqns if eqn.operands[0] in unsigned}


def _without_zeros(loop: Eqn, carries: tuple[int, ...]) -> Function:
    zeros = _added_zeros(loop, carries)
    return rewrite_equations(
        loop.params["body"], lambda _, eqn: eqn.out in zeros and eqn.operands[0]
    )


def _started_unsigned(
    loop: Eqn, carries: tuple[int, ...], unsigned: set[Atom], new: BodyWriter
) -> Eqn:
    """The loop with carries that hold no -0.0 before the first step."""
    operands = list(loop.operands)
    for at in carries:
        start = operands[1 + _first_carry(loop) + at]
        if start not in unsigned:
            operands[1 + _first_carry(loop) + at] = new.emit("add", start, positive_zero(start))
    return replace(loop, operands=tuple(operands))
