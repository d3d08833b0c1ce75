"""What the pullback of a body reads of its inputs.

The reverse step of a loop runs the body again, at the carries that the step began with. Carries of
which it reads no numbers need not be saved. Of a large one it may read small parts alone, as
elimination does, which takes products of a row and a column from a matrix: then these are outputs
of the body (`with_parts_read`), and saved instead of the matrix.

Invariant: with other numbers in inputs that are not read, and the same in parts that are, the
pullback gives the same cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tracker.control.body import renamed
from tracker.control.undo_log import READS
from tracker.ir.graph import Atom, Const, Eqn, Function, Var, operands_of
from tracker.ir.lowering import Host
from tracker.ops.elementwise.binary import divide, multiply
from tracker.support.structs import replace

_MIN_SAVED = 1 << 21  # bytes of a carry in all steps; fewer stay in the cache, and cost less
_PART_READS = frozenset(READS.values())


def read_by_pullback(body: Function) -> list[bool]:
    """Per input of a body, whether a pullback of it may read its numbers. The others are arrays of
    floats that are only added, moved, selected, and scaled by literals: any numbers will do."""
    read = _atoms_read(body, lambda eqn: False)
    return [
        var in read or not var.type.shape or var.type.dtype.kind not in "fc" for var in body.inputs
    ]


def carries_read_by_pullback(body: Function, consts: int, carries: int) -> tuple[int, ...]:
    """The positions of the carries whose numbers a pullback of the body may read."""
    read = read_by_pullback(body)[consts : consts + carries]
    return tuple(at for at, is_read in enumerate(read) if is_read)


def with_parts_read(
    function: Function, consts: int, carries: Sequence[int], length: int
) -> tuple[Function, list[int]]:
    """The body of a loop of this length with further outputs: what its pullback reads of these
    carries, where that is less than copies; returns the numbers of these carries, too."""
    saved, outputs = [], list(function.outputs)
    for at in carries:
        carry = function.inputs[consts + at]
        if length * carry.type.nbytes < _MIN_SAVED:
            continue
        parts = _parts_read(function, carry)
        if parts is not None and 2 * sum(p.type.nbytes for p in parts) <= carry.type.nbytes:
            saved.append(at)
            outputs += [part for part in parts if part not in outputs]
    if len(outputs) > len(function.outputs):
        function = renamed(replace(function, outputs=tuple(outputs)))
    return function, saved


def parts_read(function: Function, consts: int, carries: int, at: int) -> list[int]:
    """The numbers of the outputs that are all a pullback reads of a carry that is not saved."""
    parts = _parts_read(function, function.inputs[consts + at])
    assert parts is not None, "the pullback reads a carry that was not saved"
    return [function.outputs.index(part, carries) for part in parts]


def _parts_read(function: Function, carry: Var) -> list[Var] | None:
    """The parts of a carry, or of what it is later in the body, that a pullback reads; None if it
    reads others of its numbers."""
    if not carry.type.shape or carry.type.dtype.kind not in "fc":
        return None
    made_of = _made_of(function, carry)
    found: list[Var] = []

    def is_part(eqn: Eqn) -> bool:
        if eqn.op not in _PART_READS or eqn.operands[0] not in made_of:
            return False
        if 2 * eqn.out.type.nbytes > carry.type.nbytes:
            return False
        found.append(eqn.out)
        return True

    return None if carry in _atoms_read(function, is_part) else found[::-1]


def _made_of(function: Function, x: Var) -> Collection[Atom]:
    """The atoms that depend on an input."""
    found: set[Atom] = {x}
    for eqn in function.eqns:
        if not found.isdisjoint(operands_of(eqn)):
            found.add(eqn.out)
    return found


def _atoms_read(function: Function, is_known: Callable[[Eqn], bool]) -> Collection[Atom]:
    """The atoms whose numbers a pullback may read, if the results of equations that are known, of
    those that it reads, need no computation."""
    read: set[Atom] = set()
    for eqn in reversed(tuple(function.eqns)):
        is_read = eqn.out in read or _pullback_reads(eqn)
        if is_read and not (eqn.out in read and is_known(eqn)):
            read.update(operands_of(eqn))
        else:  # indices and conditions
            read.update(x for x in eqn.operands if x.type.dtype.kind not in "fc")
    return read


def _pullback_reads(eqn: Eqn) -> bool:
    """Whether a derivative rule of an equation may read numbers of its float operands, or its
    result may index or branch, as floats cannot."""
    if eqn.out.type.dtype.kind not in "fc":
        return True
    a, b = eqn.operands if eqn.op is multiply or eqn.op is divide else (None, None)
    is_scaled = isinstance(b, Const) or (eqn.op is multiply and isinstance(a, Const))
    runs_python = isinstance(eqn.op.lower, Host)  # the user's code may refuse other numbers
    return not (eqn.op.linear or is_scaled or (eqn.op.constant and not runs_python))
