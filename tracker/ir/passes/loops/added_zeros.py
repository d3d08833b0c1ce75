"""Zeros that a loop adds to what it carries, in each step, so that it holds no -0.0.

`scatter.py` makes `a + scattered_sum(x, i)` an update of `a + 0.0`. A step that only updates a few
elements of a carry would add zeros to all of it. If the carry then holds no -0.0 after a step that
finds none in it, it is enough to add zeros before the loop:

    loop c: d = c + 0.0; e = scattered_added d x i    ->    c + 0.0, and loop c: e = ... c x i

Invariant: values stay, to the sign of each zero.
"""

from __future__ import annotations

from collections.abc import Container

from tracker.ir.graph import Atom, Eqn, Function, Var, unused_name
from tracker.ir.lowering import Loop, Pick
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.passes.scatter import adds_zero, has_no_negative_zero, positive_zero
from tracker.support.structs import field, record, replace


@as_pass(requires=(EXPANDED,))
def hoist_added_zeros(function: Function) -> Function:
    """Add zeros to carries before loops rather than in each step."""
    if not any(map(_adds_zeros, function.eqns)):
        return function
    functions = dict(function.functions)
    unsigned = _Unsigned()

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        free = _free_carries(eqn) if _adds_zeros(eqn) else set()
        if free:
            _write_without_zeros(new, eqn, free, unsigned.atoms, functions)
        unsigned.see(eqn, free)
        return bool(free)

    written = rewrite_equations(function, rewrite)
    return function if written is function else replace(written, functions=functions)


def _adds_zeros(eqn: Eqn) -> bool:
    """Whether an equation is a loop whose steps add zeros."""
    return isinstance(eqn.op.lower, Loop) and any(map(adds_zero, eqn.params["body"].eqns))


@record(eq=False)
class _Unsigned:
    """What holds no -0.0, of the equations seen.

    picks: loops, and which of their carries hold none at the end
    """

    atoms: set[Atom] = field(default_factory=set)
    picks: set[tuple[Atom, int]] = field(default_factory=set)

    def see(self, eqn: Eqn, free: Container[Var] = ()) -> None:
        """Add the result of an equation that may hold no -0.0; `free` carries begin without."""
        if isinstance(eqn.op.lower, Loop):
            body = eqn.params["body"]
            given = zip(body.inputs, eqn.operands[1:], strict=True)
            start = {var for var, atom in given if var in free or atom in self.atoms}
            carried = _carried(eqn)
            kept = _kept(body, carried, start)
            self.picks.update((eqn.out, at) for at, var in enumerate(carried) if var in kept)
        elif isinstance(eqn.op.lower, Pick):
            if (eqn.operands[0], eqn.params["at"]) in self.picks:
                self.atoms.add(eqn.out)
        elif has_no_negative_zero(eqn, self.atoms):
            self.atoms.add(eqn.out)


def _carried(loop: Eqn) -> dict[Var, Atom]:
    """The carries at the start of a step, and at its end."""
    body, first, count = (loop.params[name] for name in ("body", "consts", "carries"))
    return dict(zip(body.inputs[first : first + count], body.outputs, strict=False))


def _unsigned_in(body: Function, inputs: set[Var]) -> set[Atom]:
    """What holds no -0.0 in a step that finds none in these inputs."""
    unsigned = _Unsigned({*inputs})
    for eqn in body.eqns:
        unsigned.see(eqn)
    return unsigned.atoms


def _kept(body: Function, carried: dict[Var, Atom], start: set[Var]) -> set[Var]:
    """The inputs that hold no -0.0 in any step, if these hold none in the first."""
    while True:
        unsigned = _unsigned_in(body, start)
        left = {var for var in start if var not in carried or carried[var] in unsigned}
        if left == start:
            return left
        start = left


def _free_carries(loop: Eqn) -> set[Var]:
    """The carries that stay without -0.0, and that the step adds zeros to."""
    body, carried = loop.params["body"], _carried(loop)
    arrays = {var for var in carried if var.type.shape and var.type.dtype.kind in "fc"}
    kept = _kept(body, carried, arrays)
    zeros = _added_zeros(body, kept)
    return {var for var in kept if _added_zeros(body, kept - {var}) != zeros}


def _added_zeros(body: Function, carries: set[Var]) -> set[Var]:
    """The sums with 0.0 that change nothing."""
    unsigned = _unsigned_in(body, carries)
    return {eqn.out for eqn in body.eqns if adds_zero(eqn) and eqn.operands[0] in unsigned}


def _write_without_zeros(
    new: BodyWriter,
    loop: Eqn,
    carries: set[Var],
    unsigned: set[Atom],
    functions: dict[str, Function],
) -> None:
    """Write a loop whose step adds no zeros to these carries, which hold no -0.0 before it."""
    body = loop.params["body"]
    zeros = _added_zeros(body, carries)
    name = unused_name(f"{body.name}_", functions)
    functions[name] = replace(
        rewrite_equations(body, lambda _, eqn: eqn.out in zeros and eqn.operands[0]), name=name
    )
    operands = [
        new.emit("add", given, positive_zero(given))
        if var in carries and given not in unsigned
        else given
        for var, given in zip(body.inputs, loop.operands[1:], strict=True)
    ]
    params = {**loop.params, "body": functions[name]}
    new.body.append(replace(loop, operands=(loop.operands[0], *operands), params=params))
