"""Writes of branches, made after them: the branches give what is written, and where.

A branch that writes into an array would give a copy of all of it, in each iteration of a loop:

    d = branch s {b = scatter a x at i; give b} {give a}
    ->  x, i = branch s {give x, i} {y = gather a at 0; give y, 0};  d = scatter a x at i

So the loop writes in place, and its pullback can undo the writes (`undo_log.py`). Branches with
fewer writes than others begin with some that leave everything as it is.

Invariant: the array is the same after the writes, whatever branch was taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.control.body import body_counter
from tracker.control.undo_log import READS
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, name_variables
from tracker.ir.op import Op
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.types import Type
from tracker.ops.shape.create import copy
from tracker.ops.shape.shape import broadcast_to
from tracker.support.structs import record, replace
from tracker.tape.record import apply


@record(frozen=True)
class BranchWrites:
    """Writes into the array that operand `source` of all branches is: these equations, each of one
    of the branches, but with operands that the branches give."""

    source: int
    writes: tuple[Eqn, ...]

    def apply(self, array: Any, given: Iterator[Any]) -> Any:
        """The array after the writes of what the branches have given."""
        for write in self.writes:
            written = [next(given) for _ in write.operands[1:]]
            array = apply(write.op, (array, *written), {"index": write.params["index"]})
        return array


def with_writes(
    results: Sequence[Any], writes: Mapping[int, BranchWrites], operands: Sequence[Any]
) -> list[Any]:
    """The results of branches whose writes come after them, made of what these give."""
    taken = sum(len(write.operands) - 1 for each in writes.values() for write in each.writes)
    others, given = iter(results[: len(results) - taken]), iter(results[len(results) - taken :])
    count = len(results) - taken + len(writes)
    return [
        writes[at].apply(operands[writes[at].source], given) if at in writes else next(others)
        for at in range(count)
    ]


def hoist_writes(branches: Sequence[Function]) -> tuple[list[Function], dict[int, BranchWrites]]:
    """The branches without those writes that may come after them, by the numbers of the results
    which are arrays that they are made into. What these take comes after the other results."""
    bodies = [_Branch(branch) for branch in branches]
    found = {}
    for at in range(len(branches[0].outputs)):
        chains = [body.chain(at) for body in bodies]
        writes = _common_writes([chain for chain in chains if chain is not None])
        if None not in chains and writes is not None:
            found[at] = writes
    return [body.without(found) for body in bodies] if found else list(branches), found


def _common_writes(chains: Sequence[tuple[int, list[Eqn]]]) -> BranchWrites | None:
    """What branches write into an array; None if it is not the same one, if they write nothing,
    different parts, or nearly all of it."""
    sources = {source for source, _ in chains}
    writes = max((writes for _, writes in chains), key=len, default=[])
    if len(sources) != 1 or not writes:
        return None  # an array that none writes into is a result of its own: others may write there
    for _, others in chains:
        last = writes[len(writes) - len(others) :]
        if any(_place(own) != _place(other) for own, other in zip(last, others, strict=True)):
            return None
    for write in writes:
        if len(writes) * 2 * part_of(write).nbytes > write.out.type.nbytes:
            return None
    return BranchWrites(sources.pop(), tuple(writes))


def part_of(write: Eqn) -> Type:
    """The part of an array that is written."""
    array, _, *positions = (operand.type for operand in write.operands)
    found = READS[write.op].infer(array, *positions, index=write.params["index"])
    assert isinstance(found, Type)
    return found


def _place(write: Eqn) -> Any:
    """The same for writes of which one can take the operands of the other."""
    shapes = [position.type.shape for position in write.operands[2:]]
    return write.op, write.params["index"], shapes


class _Branch:
    """A branch, and how often it reads each of its values."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.made: dict[Atom, Eqn] = {eqn.out: eqn for eqn in function.eqns}
        self.reads = Counter[Atom](function.outputs)
        for step in function.body:
            self.reads.update([step.operand] if isinstance(step, Guard) else step.operands)

    def chain(self, at: int) -> tuple[int, list[Eqn]] | None:
        """The operand that a result is after some writes, and these; None if it is not, or if
        something else reads the array in between."""
        atom, writes = self.function.outputs[at], list[Eqn]()
        while atom in self.made:
            eqn = self.made[atom]
            read_elsewhere, atom = self.reads[atom] > 1, eqn.operands[0]
            if eqn.op is copy:
                continue
            if eqn.op not in READS or read_elsewhere:
                return None
            if any(operand.type.dtype == np.bool_ for operand in eqn.operands[2:]):
                return None
            writes.append(eqn)
        if atom not in self.function.inputs or not atom.type.shape:
            return None
        return self.function.inputs.index(atom), writes[::-1]

    def without(self, hoisted: dict[int, BranchWrites]) -> Function:
        """The branch that gives what is written."""
        function = self.function
        before, after = _Equations(), _Equations()
        outputs = [atom for at, atom in enumerate(function.outputs) if at not in hoisted]
        for at, all_writes in hoisted.items():
            found = self.chain(at)
            assert found is not None
            source, own = found
            for write in all_writes.writes[: len(all_writes.writes) - len(own)]:
                outputs += before.emit_no_write(write, function.inputs[source])
            for write in own:
                _, value, *positions = write.operands
                outputs += [after.emit_broadcast(value, part_of(write).shape), *positions]
        name = f"{function.name}_{next(body_counter)}"
        body = (*before.eqns, *function.body, *after.eqns)
        made = dead_code(replace(function, name=name, body=body, outputs=tuple(outputs)))
        name_variables(made)
        return made


class _Equations:
    """Equations of a branch."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []

    def _emit(self, op: Op, operands: tuple[Atom, ...], params: dict[str, Any]) -> Var:
        out = Var(op.infer(*(operand.type for operand in operands), **params))
        self.eqns.append(Eqn(op, operands, params, out))
        return out

    def emit_broadcast(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        return x if x.type.shape == shape else self._emit(broadcast_to, (x,), {"shape": shape})

    def emit_no_write(self, write: Eqn, array: Var) -> list[Atom]:
        """Value and positions of a write that leaves an array as it is: what is there at 0."""
        positions = [
            self.emit_broadcast(Const.of(o.type.dtype.type(0)), o.type.shape)
            for o in write.operands[2:]
        ]
        index = {"index": write.params["index"]}
        return [self._emit(READS[write.op], (array, *positions), index), *positions]
