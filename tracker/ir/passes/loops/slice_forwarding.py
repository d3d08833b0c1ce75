"""Slice forwarding, undone: each reader of a slice of a written array reads it for itself.

A slice of an array that an iteration wrote may be read by the next iteration, too. One equation for
both would be carried besides the array. A slice is read again in front of each reader, as long as
the array is alive anyway.

Invariants: linear in the operands; each reader reads the same content.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, operands_of
from tracker.ir.passes.manager import substitute, with_body

_MIN_SIZE = 32  # elements; smaller slices may as well be carried


def reread_slices(function: Function) -> Function:
    """Read slices of arrays that are written again for each reader."""
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

    def read_for(operand: Atom, at: int) -> Atom:
        """What a reader at a step reads: a slice is read in front of it."""
        part = parts.get(operand)
        if part is None:
            return operand
        before = newest.get(part.out)
        if before is None or at <= last[part.operands[0]]:
            array = read_for(part.operands[0], at)  # may be a part itself
            out = part.out if before is None else Var(part.out.type)
            body.append(Eqn(part.op, (array, *part.operands[1:]), part.params, out, part.where))
            newest[part.out] = out
        return newest[part.out]

    for at, step in enumerate(function.body):
        if isinstance(step, Eqn) and is_part(step):
            parts[step.out] = step
            continue
        by = {
            parts[operand].out: read_for(operand, at)
            for operand in dict.fromkeys(operands_of(step))
            if operand in parts
        }
        body.append(substitute(step, by))
    return with_body(function, body) if parts else function
