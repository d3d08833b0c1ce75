"""What the steps of a loop overwrite in an array that they carry.

The pullback of a loop needs what a step began with. A copy of a large array for each step, of which
steps replace small parts, would take most of the time and all of the memory. Instead, a step gives
what it overwrites as further outputs (`with_overwritten`), and the reverse loop carries the array,
and puts back what each step replaced (`restore`). Writes of nested loops are undone by loops.

Invariant: `WriteFinder` finds all that a step changes in the array, or returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker.control.body import renamed, trace_body
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.lowering import Loop, Pick
from tracker.ir.types import Bundle
from tracker.ops.declare.bundle import pick
from tracker.ops.indexing.getitem import gather, getitem, put, scatter
from tracker.support.structs import record, replace
from tracker.tape.record import apply, data_of

READS = {put: getitem, scatter: gather}  # what reads the part that an op replaces


@record(frozen=True)
class PartWrite:
    """A part that a step replaces: at `index` with these arrays, numbers of outputs or constants.
    `old`: the number of the output with what was there."""

    op: Any
    index: tuple[Any, ...]
    arrays: tuple[int | Const, ...]
    old: int


@record(frozen=True)
class LoopWrites:
    """The writes of a nested loop, whose own outputs are `outputs` of the step, stacked.

    count: its number of steps, the number of an output or a constant.
    """

    writes: tuple[Write, ...]
    outputs: tuple[int, ...]
    count: int | Const
    length: int
    reverse: bool


Write: TypeAlias = PartWrite | LoopWrites
Recorder: TypeAlias = Callable[..., list[Any]]


def with_overwritten(
    function: Function, consts: int, carries: int, written: Sequence[int]
) -> tuple[Function, list[int]]:
    """A body with further outputs, such that writes into its carries can be undone, into those of
    `written` where that is less than copies; returns the numbers of these carries, too."""
    found, undone = function, []
    for at in written:
        if not function.inputs[consts + at].type.shape:
            continue
        more = WriteFinder(found, consts, carries).add_outputs(at)
        if more is not None:
            found = more
            undone.append(at)
    return found if found is function else renamed(found), undone


class WriteFinder:
    """Finds what a step writes into the arrays that it carries."""

    def __init__(self, function: Function, consts: int, carries: int) -> None:
        self.function, self.consts, self.carries = function, consts, carries
        self.made: dict[Atom, Eqn] = {eqn.out: eqn for eqn in function.eqns}
        self.number = {atom: at for at, atom in enumerate(function.outputs) if at >= carries}

    def _chain(self, at: int) -> list[Eqn] | None:
        """The equations that write into a carry, in order: `put`, `scatter`, or the `pick` of the
        array from a loop."""
        chain: list[Eqn] = []
        atom = self.function.outputs[at]
        while atom is not self.function.inputs[self.consts + at]:
            eqn = self.made.get(atom)
            if eqn is None:
                return None
            if eqn.op in READS:
                if any(a.type.dtype == np.bool_ for a in eqn.operands[2:]):
                    return None
                base = eqn.operands[0]
            elif isinstance(eqn.op.lower, Pick):
                loop, k = self.made.get(eqn.operands[0]), eqn.params["at"]
                if loop is None or not isinstance(loop.op.lower, Loop):
                    return None
                if k >= loop.params["carries"]:
                    return None
                base = loop.operands[1 + loop.params["consts"] + k]
            else:
                return None
            chain.append(eqn)
            atom = base
        return chain[::-1]

    def versions(self, at: int) -> list[Atom]:
        """What carry `at` is after each write of a step."""
        return [eqn.out for eqn in self._chain(at) or ()]

    def writes(self, at: int) -> tuple[Write, ...] | None:
        """The writes of a step into carry `at`, in order; None if something else changes it, or if
        the outputs do not give what is overwritten."""
        chain = self._chain(at)
        if not chain:
            return None
        found = [write for eqn in chain if (write := self._write(eqn)) is not None]
        return tuple(found) if len(found) == len(chain) else None

    def _output(self, atom: Atom) -> int | Const | None:
        return atom if isinstance(atom, Const) else self.number.get(atom)

    def _write(self, eqn: Eqn) -> Write | None:
        if isinstance(eqn.op.lower, Pick):
            return self._loop_writes(self.made[eqn.operands[0]], eqn.params["at"])
        read = READS[eqn.op]
        base, _, *arrays = eqn.operands
        old = next(
            (
                at
                for atom, at in self.number.items()
                if (made := self.made.get(atom)) is not None
                and made.op is read
                and made.operands == (base, *arrays)
                and made.params["index"] == eqn.params["index"]
            ),
            None,
        )
        places = [at for a in arrays if (at := self._output(a)) is not None]
        if old is None or len(places) < len(arrays):
            return None
        return PartWrite(eqn.op, eqn.params["index"], tuple(places), old)

    def _loop_writes(self, loop: Eqn, at: int) -> LoopWrites | None:
        params = loop.params
        writes = WriteFinder(params["body"], params["consts"], params["carries"]).writes(at)
        count = self._output(loop.operands[0])
        picks = {
            self.made[a].params["at"]: number
            for a, number in self.number.items()
            if a in self.made and self.made[a].operands[:1] == (loop.out,)
        }
        ys = range(params["carries"], len(params["body"].outputs))
        if writes is None or count is None or not all(y in picks for y in outputs_read(writes)):
            return None
        outputs = tuple([picks.get(y, -1) for y in ys])
        made = [_moved(write, -params["carries"]) for write in writes]
        return LoopWrites(tuple(made), outputs, count, params["length"], params["reverse"])

    def add_outputs(self, at: int) -> Function | None:
        """The function with outputs for what it overwrites; None if that is not less than the
        array, or not known."""
        chain = self._chain(at)
        if not chain:
            return None
        outputs = list(self.function.outputs)
        before: dict[int, Eqn] = {}
        after: dict[int, list[Eqn]] = {}
        added: list[Atom] = []
        for eqn in chain:
            if eqn.op in READS:
                base, _, *arrays = eqn.operands
                params = {"index": eqn.params["index"]}
                read = READS[eqn.op]
                operands = (base, *arrays)
                out = Var(read.infer(*(o.type for o in operands), **params))
                before[id(eqn)] = Eqn(read, operands, params, out, eqn.where)
                added += [*arrays, out]
                continue
            loop = self.made[eqn.operands[0]]
            p = loop.params
            finder = WriteFinder(p["body"], p["consts"], p["carries"])
            writes = finder.writes(eqn.params["at"])
            if writes is None:
                return None
            assert isinstance(loop.out.type, Bundle)
            more = []
            for y in outputs_read(writes):
                part = Var(loop.out.type.parts[y])
                more.append(Eqn(pick, (loop.out,), {"at": y}, part, loop.where))
            after.setdefault(id(loop), []).extend(more)
            added += [loop.operands[0], *(eqn.out for eqn in more)]
        size = sum(atom.type.nbytes for atom in added if isinstance(atom, Var))
        if 2 * size > self.function.outputs[at].type.nbytes:
            return None
        body: list[Eqn | Guard] = []
        for step in self.function.body:
            body += [before[id(step)]] if id(step) in before else []
            body += [step, *after.get(id(step), ())]
        outputs += [a for a in dict.fromkeys(added) if isinstance(a, Var) and a not in self.number]
        return replace(self.function, body=tuple(body), outputs=tuple(outputs))


def outputs_read(writes: Sequence[Write]) -> list[int]:
    """The numbers of the outputs that are needed to undo writes."""
    found: list[int | Const] = []
    for write in writes:
        if isinstance(write, PartWrite):
            found += [*write.arrays, write.old]
        else:
            found += [write.count, *(at for at in write.outputs if at >= 0)]
    return [at for at in dict.fromkeys(found) if isinstance(at, int)]


def _moved(write: Write, by: int) -> Write:
    """A write with other numbers of outputs."""

    def moved(at: int | Const) -> int | Const:
        return at if isinstance(at, Const) or at < 0 else at + by

    if isinstance(write, PartWrite):
        arrays = tuple(map(moved, write.arrays))
        return replace(write, arrays=arrays, old=write.old + by)
    outputs = tuple([at + by if at >= 0 else at for at in write.outputs])
    return replace(write, outputs=outputs, count=moved(write.count))


def restore(
    array: Any, writes: Sequence[Write], given: Callable[[int], Any], loop: Recorder
) -> list[Any]:
    """An array after all writes, before the last one, and so on to before the first; `given`: the
    outputs by number, `loop`: records a loop."""
    versions = [array]

    def value(at: int | Const) -> Any:
        return at.value if isinstance(at, Const) else given(at)

    for write in reversed(writes):
        if isinstance(write, PartWrite):
            places = tuple(map(value, write.arrays))
            params = {"index": write.index}
            array = apply(write.op, (array, value(write.old), *places), params)
        else:
            array = _restore_loop(array, write, value, loop)
        versions.append(array)
    return versions


def _restore_loop(
    array: Any, write: LoopWrites, value: Callable[[int | Const], Any], loop: Recorder
) -> Any:
    read = outputs_read(write.writes)
    stacks = [value(write.outputs[at]) for at in read]

    def step(x: Any, *rows: Any) -> list[Any]:
        given = dict(zip(read, rows, strict=True)).__getitem__
        return [restore(x, write.writes, given, loop)[-1]]

    traced = trace_body("undo", step, [array, *map(sample_of_none, stacks)])
    found = loop(traced, value(write.count), [array], stacks, write.length, not write.reverse)
    return found[0]


def sample_of_none(stack: Any) -> Any:
    """A row to trace with where there may have been no step: what is in the stack may be anything,
    and no position."""
    return np.zeros_like(data_of(stack)[0])[()]
