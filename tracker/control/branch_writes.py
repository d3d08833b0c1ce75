"""Writes of branches, made after them: the branches give what is written, and where.

A branch that writes into an array would give a copy of all of it, in each iteration of a loop:

    d = branch s {b = scatter a x at i; give b} {give a}
    ->  x, i = branch s {give x, i} {y = gather a at 0; give y, 0};  d = scatter a x at i

So the loop writes in place, and its pullback can undo the writes (`undo_log.py`). Branches with
fewer writes than others begin with some that leave everything as it is.

Invariant: the array is the same after the writes, whatever branch was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker.control.body import renamed
from tracker.control.undo_log import READS
from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.manager import BodyWriter
from tracker.ir.types import Type
from tracker.ops.shape.create import copy
from tracker.support.structs import record, replace
from tracker.tape.record import apply

_Chain: TypeAlias = tuple[int, list[Eqn]]


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
    for at, chains in enumerate(zip(*(body.chains for body in bodies), strict=True)):
        writes = _common_writes(chains)
        if writes is not None:
            found[at] = writes
    return [body.without(found) for body in bodies] if found else list(branches), found


def _common_writes(chains: Sequence[_Chain | None]) -> BranchWrites | None:
    """What branches write into an array; None if it is not the same one, if they write nothing,
    different parts, or nearly all of it."""
    known = [chain for chain in chains if chain is not None]
    sources = {source for source, _ in known}
    if len(known) < len(chains) or len(sources) != 1:
        return None
    writes = max((writes for _, writes in known), key=len)
    if not writes:
        return None  # an array that none writes into is a result of its own: others may write there
    for _, others in known:
        last = writes[len(writes) - len(others) :]
        if any(_place(own) != _place(other) for own, other in zip(last, others, strict=True)):
            return None
    for write in writes:
        if len(writes) * 2 * _part_of(write).nbytes > write.out.type.nbytes:
            return None
    return BranchWrites(sources.pop(), tuple(writes))


def _part_of(write: Eqn) -> Type:
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
    """A branch, and what its results are: `chains` has, for each, the number of the operand that it
    is after some writes, and these; None if it is not, or if something else reads the array in
    between."""

    def __init__(self, function: Function) -> None:
        self.function = function
        made: dict[Atom, Eqn] = {eqn.out: eqn for eqn in function.eqns}
        uses = function.uses
        self.chains = [self._chain(atom, made, uses) for atom in function.outputs]

    def _chain(
        self, atom: Atom, made: Mapping[Atom, Eqn], uses: Mapping[Atom, int]
    ) -> _Chain | None:
        writes: list[Eqn] = []
        while atom in made:
            eqn = made[atom]
            read_elsewhere, atom = uses[atom] > 1, eqn.operands[0]
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

    def without(self, hoisted: Mapping[int, BranchWrites]) -> Function:
        """The branch that gives what is written."""
        function = self.function
        before, after = BodyWriter(), BodyWriter()
        outputs = [atom for at, atom in enumerate(function.outputs) if at not in hoisted]
        for at, all_writes in hoisted.items():
            chain = self.chains[at]
            assert chain is not None
            _, own = chain
            for write in all_writes.writes[: len(all_writes.writes) - len(own)]:
                outputs += _no_write(before, write, function.inputs[all_writes.source])
            for write in own:
                _, value, *positions = write.operands
                shape = _part_of(write).shape
                if value.type.shape != shape:
                    value = after.emit("broadcast_to", value, shape=shape)
                outputs += [value, *positions]
        body = (*before.body, *function.body, *after.body)
        return renamed(dead_code(replace(function, body=body, outputs=tuple(outputs))))


def _no_write(writer: BodyWriter, write: Eqn, array: Var) -> list[Atom]:
    """Value and positions of a write that leaves an array as it is: what is there at 0."""
    positions = [writer.zeros(position.type) for position in write.operands[2:]]
    read = READS[write.op].name
    return [writer.emit(read, array, *positions, index=write.params["index"]), *positions]
