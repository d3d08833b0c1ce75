"""Dead store elimination, for overwritten and for cleared parts of arrays.

    put(put(x, v, i), w, i), put(x + embed(v, i), w, i)    ->  put(x, w, i)
    (put(g, 0.0, i) + a) + embed(v, i)                     ->  put(g, v, i) + a, or g + a for g[i]

The first comes from loops that update a row many times (`c[k] += ...`; reads are forwarded), the
second from pullbacks of `x[i] = f(x[i])`: the write clears a part of the cotangent of x, and the
read of the old content adds a new cotangent. In between, other readers of x may have added theirs.

Data: a `_ClearedPart` is a part that was cleared and not filled yet; a sum has those of its terms
that have no other readers. Invariants: types stay; linear in the equations, as the parts of a sum
are limited; results of the second differ by the order of sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.passes.manager import as_pass, resolve, substitute, with_body

_MAX_CLEARED = 4  # parts of a sum; further ones are not followed


class _ClearedPart(NamedTuple):
    """`cleared` is `original` except at an index, where it is zero; `user`: the sum that it is a
    term of."""

    cleared: Var
    original: Atom
    basic_index: tuple[Any, ...]
    user: Var | None = None


@as_pass()
def eliminate_dead_stores(function: Function) -> Function:
    """Leave out writes whose elements are never read."""
    if not function.has_op("put"):
        return function
    sweep = _DeadStoreSweep(function)
    for each in function.body:
        sweep.visit(each)
    if not sweep.replaced and not sweep.rewired:
        return function
    delayed = {write.out for writes in sweep.delayed.values() for write in writes}
    body: list[Eqn | Guard] = []
    by: dict[Var, Atom] = {}
    for old in function.body:
        step = old
        if isinstance(old, Eqn):
            if old.out in delayed:
                continue
            body += [substitute(write, by) for write in sweep.delayed.get(old.out, ())]
            step = sweep.rewired.get(old.out, old)
        replacement = sweep.replaced.get(step.out) if isinstance(step, Eqn) else None
        if replacement is None:
            body.append(substitute(step, by))
        else:
            assert isinstance(step, Eqn)
            by[step.out] = resolve(replacement, by)
    return with_body(function, body, by)


class _DeadStoreSweep:
    """Finds the writes that change.

    rewired: writes of another value, or to an earlier version of their array. delayed: writes of a
    value that is made after its part was cleared, by the sum in front of which they are made.
    replaced: for sums that filled a part, their other term; for a part that is filled with what
    it was, the array before.
    """

    def __init__(self, function: Function) -> None:
        self.uses = function.uses
        self.eqns: dict[Atom, Eqn] = {}
        self.position: dict[Atom, int] = {}  # the number of the step
        self.rewired: dict[Var, Eqn] = {}
        self.delayed: dict[Var, list[Eqn]] = {}
        self.replaced: dict[Var, Atom] = {}
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
        if under.type == eqn.out.type and self.is_zero(value):
            self.cleared_parts[eqn.out] = (_ClearedPart(eqn.out, under, index),)
        return eqn

    def _live_base(self, base: Atom, index: tuple[Any, ...]) -> Atom:
        """An array before writes of, and additions to, parts that are overwritten now."""
        while self.uses[base] == 1 and (before := self.eqns.get(base)) is not None:
            if (replacement := self.replaced.get(before.out)) is not None:
                base = replacement
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
        broadcast = self.eqns.get(atom)
        if broadcast is not None and broadcast.op.name == "broadcast_to":
            atom = broadcast.operands[0]
        return isinstance(atom, Const) and bool(atom.value == 0)

    def add(self, eqn: Eqn) -> None:
        regions: tuple[_ClearedPart, ...] = ()
        for total, term in (eqn.operands, eqn.operands[::-1]):
            found = self.cleared_parts.get(total, ()) if self.uses[total] == 1 else ()
            if not found or total.type != eqn.out.type:
                continue
            if found[0].user is None:
                found = (found[0]._replace(user=eqn.out),)
            for region in found:
                if self.is_overwritten_by(term, region, eqn):
                    self.replaced[eqn.out] = total
                    found = tuple([other for other in found if other is not region])
                    break
            regions += found
        if regions:
            self.cleared_parts[eqn.out] = regions[:_MAX_CLEARED]

    def is_overwritten_by(self, term: Atom, region: _ClearedPart, total: Eqn) -> bool:
        """Whether a term is zero outside of a cleared part, and available when the part was
        cleared, or when the array was first used."""
        embedded = self._embedded(term)
        if (
            embedded is None
            or embedded.params["index"] != region.basic_index
            or term.type != region.cleared.type
        ):
            return False
        value, cleared = embedded.operands[0], self.eqns[region.cleared]
        if self._is_read_of(value, region):  # what was cleared is there again
            self.replaced[region.cleared] = region.original
            return True
        write = Eqn(
            cleared.op, (region.original, value), cleared.params, cleared.out, cleared.where
        )
        made = self.position.get(value, 0)
        if made <= self.position[region.cleared]:
            self.rewired[region.cleared] = write
            return True
        user = region.user or total.out
        if user is not total.out and made > self.position[user]:
            return False
        self.delayed.setdefault(user, []).append(write)
        return True

    def _is_read_of(self, value: Atom, region: _ClearedPart) -> bool:
        """Whether a value is what a part was before it was cleared."""
        read = self.eqns.get(value)
        if read is None or read.op.name != "getitem":
            return False
        return read.operands[0] is region.original and read.params["index"] == region.basic_index
