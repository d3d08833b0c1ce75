"""Writes that nobody sees: overwritten before anybody looks, or taken back.

Owns: the pass `eliminate_dead_stores`.

    put(put(x, v, i), w, i), put(x + embed(v, i), w, i)    ->  put(x, w, i)
    (put(g, 0.0, i) + a) + embed(v, i)                     ->  put(g, v, i) + a
    ((put(g, 0.0, i) + a) + b) + embed(g[i], i)            ->  (g + a) + b
    (put(g, v, i) + a) + embed(g[i], i)                    ->  (g + embed(v, i)) + a

A loop that updates a row many times (`c[k] += ...`) leaves the first: what it reads it has at
hand. The others are pullbacks, of `x[i] = f(x[i])` and of `x[i] -= v`: the write takes the part
away from the cotangent of x, the read of what was there adds what came of it, or brings it back,
and between the two other readers may have reported; one of these may have put what it had to say.

Data: a `_ClearedPart` is a part that was taken away, and has not come back; a sum has the holes of
the terms that nobody else reads. Invariants: types stay; linear in the equations, as a sum has few
holes; results of the last three differ by the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.passes.manager import BodyWriter, as_pass, resolve, substitute, with_body

_MAX_CLEARED = 4  # of a sum; more are not followed


class _ClearedPart(NamedTuple):
    """`cleared` is `original` but for the part at an index, where there is `value` (None: zero);
    `user` is the sum that it is a term of."""

    cleared: Var
    original: Atom
    basic_index: tuple[Any, ...]
    value: Atom | None
    user: Var | None = None


@as_pass()
def eliminate_dead_stores(function: Function) -> Function:
    """Leave out writes whose numbers nobody reads."""
    if not function.has_op("put"):
        return function
    sweep = _DeadStoreSweep(function)
    for each in function.body:
        sweep.visit(each)
    if not sweep.replaced and not sweep.rewired:
        return function
    put_off = {write.out for writes in sweep.delayed.values() for write in writes}
    new = BodyWriter()
    by: dict[Var, Atom] = {}
    for old in function.body:
        step = old
        if isinstance(old, Eqn):
            if old.out in put_off:
                continue
            new.body += [substitute(write, by) for write in sweep.delayed.get(old.out, ())]
            step = sweep.rewired.get(old.out, old)
        stands = sweep.replaced.get(step.out) if isinstance(step, Eqn) else None
        if stands is None:
            new.body.append(substitute(step, by))
            continue
        assert isinstance(step, Eqn)
        if isinstance(stands, _ClearedPart):
            new.where = step.where
            by[step.out] = _emit_restored(new, stands, by)
        else:
            by[step.out] = resolve(stands, by)
    return with_body(function, new.body, by)


def _emit_restored(new: BodyWriter, hole: _ClearedPart, by: Mapping[Var, Atom]) -> Atom:
    """What a cleared array is from the start, if the part comes back."""
    whole = resolve(hole.original, by)
    if hole.value is None:
        return whole
    value = resolve(hole.value, by)
    part = new.emit("embed", value, index=hole.basic_index, shape=hole.cleared.type.shape)
    return new.emit("add", whole, part)


class _DeadStoreSweep:
    """shorter: writes of another value, or to an earlier version of their array; late: writes of a
    value that is made after the part was taken away, by the sum in front of which they are made;
    by: what stands for the sums to which a part came back, and the holes of the arrays that were
    cleared for it."""

    def __init__(self, function: Function) -> None:
        self.uses = function.uses
        self.eqns: dict[Atom, Eqn] = {}
        self.position: dict[Atom, int] = {}  # the number of the step
        self.rewired: dict[Var, Eqn] = {}
        self.delayed: dict[Var, list[Eqn]] = {}
        self.replaced: dict[Var, Atom | _ClearedPart] = {}
        self.cleared_parts: dict[Atom, tuple[_ClearedPart, ...]] = {}

    def visit(self, step: Eqn | Guard) -> None:
        if not isinstance(step, Eqn):
            return
        if step.op.name == "put":
            step = self.put(step)
        elif step.op.name == "add":
            self.add(step)
        self.eqns[step.out] = step
        self.position[step.out] = len(self.position)

    def put(self, eqn: Eqn) -> Eqn:
        base, value = eqn.operands
        index = eqn.params["index"]
        under = self._live_base(base, index)
        if under is not base:
            eqn = Eqn(eqn.op, (under, value), eqn.params, eqn.out, eqn.where)
            self.rewired[eqn.out] = eqn
        zero = self.is_zero(value)
        if under.type == eqn.out.type and (zero or _is_part(value, eqn)):
            self.cleared_parts[eqn.out] = (
                _ClearedPart(eqn.out, under, index, None if zero else value),
            )
        return eqn

    def _live_base(self, base: Atom, index: tuple[Any, ...]) -> Atom:
        """An array as it was before parts of it were written, or added to, that are overwritten."""
        while self.uses[base] == 1 and (before := self.eqns.get(base)) is not None:
            stands = self.replaced.get(before.out)
            if isinstance(stands, Var):
                base = stands
                continue
            if before.op.name == "put" and before.params["index"] == index:
                base = before.operands[0]
                continue
            if before.op.name != "add":
                break
            for total, part in (before.operands, before.operands[::-1]):
                embedded = self._embedded(part)
                same = total.type == part.type == before.out.type
                if same and embedded is not None and embedded.params["index"] == index:
                    base = total
                    break
            else:
                break
        return base

    def _embedded(self, atom: Atom) -> Eqn | None:
        found = self.eqns.get(atom)
        return found if found is not None and found.op.name == "embed" else None

    def is_zero(self, atom: Atom) -> bool:
        spread = self.eqns.get(atom)
        if spread is not None and spread.op.name == "broadcast_to":
            atom = spread.operands[0]
        return isinstance(atom, Const) and bool(atom.value == 0)

    def add(self, eqn: Eqn) -> None:
        holes: tuple[_ClearedPart, ...] = ()
        for total, part in (eqn.operands, eqn.operands[::-1]):
            found = self.cleared_parts.get(total, ()) if self.uses[total] == 1 else ()
            if not found or total.type != eqn.out.type:
                continue
            if found[0].user is None:
                found = (found[0]._replace(user=eqn.out),)
            for hole in found:
                if self.is_restored_by(part, hole):
                    self.replaced[hole.cleared] = hole
                elif not self.is_overwritten_by(part, hole, eqn):
                    continue
                self.replaced[eqn.out] = total
                found = tuple([other for other in found if other is not hole])
                break
            holes += found
        if holes:
            self.cleared_parts[eqn.out] = holes[:_MAX_CLEARED]

    def is_restored_by(self, part: Atom, hole: _ClearedPart) -> bool:
        """Whether a term is what was taken away, and zero elsewhere."""
        embedded = self._embedded(part)
        if embedded is None:
            return False
        read = self.eqns.get(embedded.operands[0])
        return (
            read is not None
            and read.op.name == "getitem"
            and read.operands[0] is hole.original
            and read.params["index"] == embedded.params["index"] == hole.basic_index
            and part.type == hole.cleared.type
        )

    def is_overwritten_by(self, part: Atom, hole: _ClearedPart, total: Eqn) -> bool:
        """Whether a term of a sum is zero but for what was taken away, and there when that was, or
        when the rest was first looked at."""
        embedded = self._embedded(part)
        if (
            embedded is None
            or hole.value is not None
            or embedded.params["index"] != hole.basic_index
            or part.type != hole.cleared.type
        ):
            return False
        value, cleared = embedded.operands[0], self.eqns[hole.cleared]
        write = Eqn(cleared.op, (hole.original, value), cleared.params, cleared.out, cleared.where)
        made = self.position.get(value, 0)
        if made <= self.position[hole.cleared]:
            self.rewired[hole.cleared] = write
            return True
        user = hole.user or total.out
        if user is not total.out and made > self.position[user]:
            return False
        self.delayed.setdefault(user, []).append(write)
        return True


def _is_part(value: Atom, put: Eqn) -> bool:
    """Whether what is written has the shape and dtype of the part, so that `embed` takes it."""
    getitem = OPS["getitem"].infer(put.operands[0].type, index=put.params["index"])
    return value.type == getitem
