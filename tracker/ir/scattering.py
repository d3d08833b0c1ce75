"""Sums with what is scattered: the elements are added to the other term, in its memory.

Owns: the pass `add_in_place`. The pullback of several reads by arrays of places adds up arrays that
are zero but for these places:

    v = scattered_sum x at i;  z = a + v    ->    z = scattered_added (a + 0.0) x at i

Where the planner finds that nobody needs `a` afterwards, neither `v` nor its zeros are made.

Invariants: types stay; the same numbers, but that what is added to one place more than once is
added up in another order. Adding 0.0 makes -0.0 what it is in the sum; what has come of such a sum,
or of zeros, has no -0.0 any more. Linear in the equations.
"""

from __future__ import annotations

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function
from tracker.ir.passes import Writer, as_pass, with_body


@as_pass
def add_in_place(function: Function) -> Function:
    """a + scattered_sum(x, i) -> scattered_added(a, x, i)."""
    if not (function.has("scattered_sum") and function.has("add")):
        return function
    sums: dict[Atom, Eqn] = {
        eqn.out: eqn for eqn in function.eqns if eqn.op.name == "scattered_sum"
    }
    uses = function.uses
    positive: set[Atom] = set(sums)  # arrays without -0.0
    changed = False
    new = Writer()
    for step in function.body:
        part = _part(step, sums) if isinstance(step, Eqn) else None
        if part is None or uses[part] > 1:
            new.body.append(step)
            if isinstance(step, Eqn) and _stays_positive(step, positive):
                positive.add(step.out)
            continue
        assert isinstance(step, Eqn)
        new.where = step.where
        total = step.operands[step.operands[0] is part]
        if total not in positive and step.out.type.dtype.kind in "fc":
            total = new.make("add", total, Const.of(step.out.type.dtype.type(0)))
        x, *places = sums[part].operands
        index = sums[part].params["index"]
        changed = True
        new.make("scattered_added", total, x, *places, index=index, out=step.out)
        positive.add(step.out)
    return with_body(function, new.body) if changed else function


def _stays_positive(eqn: Eqn, positive: set[Atom]) -> bool:
    """Whether nothing in a result is -0.0: a number everywhere, or written where nothing is."""
    if eqn.op.name not in ("broadcast_to", "put", "scattered"):
        return False
    return all(atom in positive or _is_positive(atom) for atom in eqn.operands[:2])


def _is_positive(atom: Atom) -> bool:
    """Whether this is a number no part of which is -0.0, nor negative."""
    if not isinstance(atom, Const):
        return False
    x = atom.value
    return not (np.signbit(x.real) or np.signbit(x.imag))


def _part(eqn: Eqn, sums: dict[Atom, Eqn]) -> Atom | None:
    """What an equation adds to another array of its type, if it was scattered: the later of two."""
    if eqn.op.name != "add" or any(o.type != eqn.out.type for o in eqn.operands):
        return None
    a, b = eqn.operands
    if a is b or eqn.out.type.dtype.kind == "b":
        return None
    return b if b in sums else a if a in sums else None
