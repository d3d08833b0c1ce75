"""Scattered results of branches: the branches give what is scattered, and it is scattered after
them.

The pullback of a branch that reads some elements of an array gives an array of zeros but for these;
that of a branch which does not read it gives zeros. A loop that branches in each iteration would
make such an array, and add it to another one, each time:

    a = branch s {v = scattered_sum x at i; give v} {give zeros};  d = c + a
    ->  x, i = branch s {give x, i} {give 0.0, 0};  a = scattered_sum x at i;  d = c + a

which `scatter.py` makes an update of `c`. Results that are zeros in all branches are no results of
theirs. Additions of basic slices (`embed`) are hoisted likewise.

Invariant: results differ only by the order of sums, and by the signs of zeros where all that is
added are zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tracker.ir.graph import Atom, Const, Eqn, Function, Var, unused_name
from tracker.ir.lowering import Branch, Pick
from tracker.ir.passes.dead_code import needed_steps, without_unused_functions
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.passes.scatter import MAX_TERMS, MIN_RATIO
from tracker.ir.passes.simplify import simplify
from tracker.ir.types import Bundle, Type
from tracker.support.structs import record, replace


@as_pass(requires=(EXPANDED,), then=(simplify,))  # which writes sums with zeros as plain ones
def hoist_branch_scatters(function: Function) -> Function:
    """Scatter after branches what they would scatter into zeros."""
    branchings = [eqn for eqn in function.eqns if isinstance(eqn.op.lower, Branch)]
    hoists = {eqn.out: hoist for eqn in branchings if (hoist := _Hoist.of(eqn)).terms}
    if not hoists:
        return function
    functions = dict(function.functions)

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool | Atom:
        if eqn.out in hoists:
            return hoists[eqn.out].write_branch(new, eqn, functions)
        if isinstance(eqn.op.lower, Pick) and eqn.operands[0] in bundles:
            return bundles[eqn.operands[0]].write_pick(new, eqn.params["at"])
        return False

    bundles = {hoist.bundle: hoist for hoist in hoists.values()}
    written = replace(rewrite_equations(function, rewrite), functions=functions)
    return without_unused_functions(written)


@record(eq=False)
class _Hoist:
    """The terms of the results that are scattered after a branching, by the numbers of these; each
    with the number of the branch that it is from. `places`: where the others are, and where the
    operands of the terms begin. `results`: the types of all; `bundle`: the new results."""

    terms: dict[int, list[tuple[int, Eqn]]]
    places: dict[int, int]
    results: list[Type]
    bundle: Var

    @classmethod
    def of(cls, branching: Eqn) -> _Hoist:
        branches = _branches(branching)
        assert isinstance(branching.out.type, Bundle)
        parts = list(branching.out.type.parts)
        defined = [{eqn.out: eqn for eqn in branch.eqns} for branch in branches]
        terms = {}
        for at, part in enumerate(parts):
            found = [_terms(b.outputs[at], d) for b, d in zip(branches, defined, strict=True)]
            added = [(n, term) for n, each in enumerate(found) for term in each or ()]
            size = sum(term.operands[0].type.size for _, term in added)
            if None not in found and len(added) <= MAX_TERMS and size * MIN_RATIO <= part.size:
                terms[at] = added
        stays = [at for at in range(len(parts)) if at not in terms]
        places, types = {at: n for n, at in enumerate(stays)}, [parts[at] for at in stays]
        for at, added in terms.items():
            places[at] = len(types)
            types += [operand.type for _, term in added for operand in term.operands]
        return cls(terms, places, parts, Var(Bundle.of(types), branching.out.name))

    def write_branch(self, new: BodyWriter, eqn: Eqn, functions: dict[str, Function]) -> Var:
        params = dict(eqn.params)
        for number, branch in enumerate(_branches(eqn)):
            name = unused_name(f"{branch.name}_", functions)
            params[f"branch{number}"] = functions[name] = self._branch(branch, number, name)
        new.body.append(Eqn(eqn.op, eqn.operands, params, self.bundle, eqn.where))
        return self.bundle

    def _branch(self, branch: Function, number: int, name: str) -> Function:
        """A branch that gives the operands of all terms, zeros for those of other branches."""
        writer = BodyWriter()
        writer.body += branch.body
        outputs = [atom for at, atom in enumerate(branch.outputs) if at not in self.terms]
        for added in self.terms.values():
            for owner, term in added:
                is_own = owner == number
                outputs += [o if is_own else writer.zeros(o.type) for o in term.operands]
        body = tuple(needed_steps(writer.body, outputs))
        return replace(branch, name=name, body=body, outputs=tuple(outputs))

    def write_pick(self, new: BodyWriter, at: int) -> Atom:
        place = self.places[at]
        if at not in self.terms:
            return new.emit("pick", self.bundle, at=place)
        if not self.terms[at]:
            return new.zeros(self.results[at])
        scattered: list[Var] = []
        for _, term in self.terms[at]:
            last = place + len(term.operands)
            operands = [new.emit("pick", self.bundle, at=n) for n in range(place, last)]
            scattered.append(new.emit(term.op.name, *operands, **term.params))
            place = last
        return functools.reduce(functools.partial(new.emit, "add"), scattered)


def _branches(eqn: Eqn) -> list[Function]:
    return [eqn.params[f"branch{number}"] for number in range(len(eqn.params))]


def _terms(result: Atom, defined: Mapping[Var, Eqn]) -> list[Eqn] | None:
    """The scattered terms of which a result is the sum; none of zeros; None if it is another."""
    terms: list[Eqn] = []
    left = [result]
    for _ in range(2 * MAX_TERMS):
        atom = left.pop()
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None:
            return None
        if eqn.op.name in ("scattered_sum", "embed"):
            terms.append(eqn)
        elif eqn.op.name == "add" and all(o.type == eqn.out.type for o in eqn.operands):
            left += eqn.operands
        elif not (eqn.op.name == "broadcast_to" and _is_zero(eqn.operands[0])):
            return None
        if not left:
            return terms
    return None


def _is_zero(atom: Atom) -> bool:
    return isinstance(atom, Const) and atom.value == 0
