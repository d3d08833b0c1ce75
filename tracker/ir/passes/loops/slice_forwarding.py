"""Every reader takes the part of an array that it reads for itself.

Owns: `reread_slices`. What one step of a loop reads of an array that it wrote, the next one may
read as well, and one equation serves both: the part would then be handed from step to step, besides
the array. A part is taken in front of whoever looks at it, as long as the array is there anyway.

Invariants: linear in the operands; each reader reads what it read.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, operands_of
from tracker.ir.passes.manager import substitute, with_body

_MIN_SIZE = 32  # elements; what is smaller may as well be handed on


def reread_slices(function: Function) -> Function:
    """The function, in which parts of arrays that it writes into are taken time and again."""
    if not (function.has_op("put") and function.has_op("getitem")):
        return function
    last: dict[Atom, int] = {}
    for at, step in enumerate(function.body):
        for operand in operands_of(step):
            last[operand] = at
    written: set[Atom] = set()
    for eqn in function.eqns:
        if eqn.op.name == "put":
            written.update((eqn.operands[0], eqn.out))
    results = set(function.outputs)
    parts: dict[Atom, Eqn] = {}

    def is_part(eqn: Eqn) -> bool:
        read = eqn.op.name == "getitem" and eqn.operands[0] in written
        small = eqn.out.type.size < _MIN_SIZE
        return read and not small and eqn.out in last and eqn.out not in results

    newest: dict[Var, Atom] = {}
    body: list[Eqn | Guard] = []

    def taken(operand: Atom, at: int) -> Atom:
        """What a reader at a step looks at: a part of an array is taken in front of it."""
        part = parts.get(operand)
        if part is None:
            return operand
        before = newest.get(part.out)
        if before is None or at <= last[part.operands[0]]:
            array = taken(part.operands[0], at)  # may be a part itself
            out = part.out if before is None else Var(part.out.type)
            body.append(Eqn(part.op, (array, *part.operands[1:]), part.params, out, part.where))
            newest[part.out] = out
        return newest[part.out]

    for at, step in enumerate(function.body):
        if isinstance(step, Eqn) and is_part(step):
            parts[step.out] = step
            continue
        by = {
            parts[operand].out: taken(operand, at)
            for operand in dict.fromkeys(operands_of(step))
            if operand in parts
        }
        body.append(substitute(step, by))
    return with_body(function, body) if parts else function
