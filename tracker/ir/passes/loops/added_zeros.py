"""Zeros that a loop adds to what it carries, in each step, so that it holds no -0.0.

`scatter.py` makes `a + scattered_sum(x, i)` an update of `a + 0.0`. A step that only updates a few
elements of a carry would add zeros to all of it. If the carry then holds no -0.0 after a step that
finds none in it, it is enough to add zeros before the loop:

    loop c: d = c + 0.0; e = scattered_added d x i    ->    c + 0.0, and loop c: e = ... c x i

Invariant: values stay, to the sign of each zero.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, unused_name
from tracker.ir.lowering import Loop, Pick
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, as_pass, substitute, with_body
from tracker.ir.passes.scatter import adds_zero, has_no_negative_zero, positive_zero
from tracker.support.structs import replace


@as_pass(requires=(EXPANDED,))
def hoist_added_zeros(function: Function) -> Function:
    """Add zeros to carries before loops rather than in each step."""
    if not any(isinstance(eqn.op.lower, Loop) for eqn in function.eqns):
        return function
    functions = dict(function.functions)
    unsigned: set[Atom] = set()
    carries: dict[Var, tuple[int, ...]] = {}  # loops -> those that hold no -0.0 at the end
    new, changed = BodyWriter(), False
    for step in function.body:
        if isinstance(step, Guard):
            new.body.append(step)
            continue
        new.where = step.where
        if isinstance(step.op.lower, Loop):
            found = _free_carries(step)
            body = _without_zeros(step, found)
            if body is not None:
                changed = True
                name = unused_name(f"{body.name}_", functions)
                functions[name] = replace(body, name=name)
                step = _started_unsigned(step, found, unsigned, new)
                step = replace(step, params={**step.params, "body": functions[name]})
                carries[step.out] = found
        elif isinstance(step.op.lower, Pick):
            if step.params["at"] in carries.get(step.operands[0], ()):  # type: ignore[arg-type]
                unsigned.add(step.out)
        elif has_no_negative_zero(step, unsigned):
            unsigned.add(step.out)
        new.body.append(step)
    return replace(with_body(function, new.body), functions=functions) if changed else function


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


def _added_zeros(loop: Eqn, carries: tuple[int, ...]) -> dict[Var, Atom]:
    """The sums with 0.0 that change nothing -> what they add it to."""
    unsigned = _unsigned_in(loop, carries)
    eqns = [eqn for eqn in loop.params["body"].eqns if adds_zero(eqn)]
    return {eqn.out: eqn.operands[0] for eqn in eqns if eqn.operands[0] in unsigned}


def _without_zeros(loop: Eqn, carries: tuple[int, ...]) -> Function | None:
    body = loop.params["body"]
    replaced: dict[Var, Atom] = {}
    for out, total in _added_zeros(loop, carries).items() if carries else ():
        replaced[out] = replaced.get(total, total)  # type: ignore[arg-type]
    if not replaced:
        return None
    steps = [step for step in body.body if isinstance(step, Guard) or step.out not in replaced]
    return with_body(body, [substitute(step, replaced) for step in steps], replaced)


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
