"""Chains of writes: runs of equations that are one array, written piece by piece.

Owns: `find_chains`. A loop such as `for i in range(n): t[i] = f(i)` is n equations, each a whole
new array; so is the gradient of reading t piece by piece, a sum of n arrays that are zero but for a
piece. Where nobody else looks at the arrays in between, the last is made in place: a copy of the
base, into which the pieces are written (or added) in order. The work is then linear in the pieces.

Invariants: an array in between has one use, the next equation of its chain; pieces are in order of
the equations; a short chain is left alone, for it is better fused with its neighbours.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.op import Map, Op, View
from tracker.records import field, record

_LONG = 5  # pieces; from here on a chain is written in place


@record(frozen=True)
class Piece:
    """`result[index] = atom`, or `result[index] += atom`; the atom broadcasts."""

    atom: Atom
    index: tuple[Any, ...]
    adds: bool


@record()
class Chain:
    """What the last equation of a chain gives. `base`: what is copied first; None: zeros.

    `covered`: the pieces leave nothing of the base. `between`: the results of the other equations.
    `sums`: every piece is added to zeros, so that the whole can be added to another array.
    """

    base: Atom | None
    covered: bool = False
    sums: bool = False
    pieces: list[Piece] = field(default_factory=list)
    between: list[Var] = field(default_factory=list)


def find_chains(function: Function, tiny: int) -> tuple[dict[Var, Chain], set[Var]]:
    """The long chains, by their last result, and the results in between, which are never made."""
    finder = _Finder(function)
    for eqn in function.eqns:
        if eqn.out.type.size > tiny:
            finder.visit(eqn)
    chains = {var: c for var, c in finder.open.items() if len(c.pieces) >= _LONG}
    return chains, {var for chain in chains.values() for var in chain.between}


class _Finder:
    """One sweep; `open` holds the chains found so far, by the result they end in."""

    def __init__(self, function: Function) -> None:
        self.open: dict[Var, Chain] = {}
        self.uses = Counter(a for a in function.outputs if isinstance(a, Var))
        for step in function.body:
            self.uses.update(
                o
                for o in ((step.operand,) if isinstance(step, Guard) else step.operands)
                if isinstance(o, Var)
            )

    def visit(self, eqn: Eqn) -> None:
        lower = eqn.op.lower
        if isinstance(lower, View) and lower.writes is not None:
            self.write(eqn, lower)
        elif isinstance(lower, Map) and is_sum(eqn.op):
            self.add(eqn)

    def write(self, eqn: Eqn, lower: View) -> None:
        assert lower.writes is not None
        writes = lower.writes(*(o.type for o in eqn.operands), **eqn.params)
        base = None if writes.base is None else eqn.operands[writes.base]
        chain = self.take(base)
        if chain is None:
            single = base is None and len(writes.parts) == 1
            chain = Chain(base, writes.covers, sums=single)
        else:
            chain.sums = False
        for which, index in writes.parts:
            chain.pieces.append(Piece(eqn.operands[which], index, chain.sums))
        self.open[eqn.out] = chain

    def add(self, eqn: Eqn) -> None:
        for total, part in (eqn.operands, eqn.operands[::-1]):
            if total is part or total.type != eqn.out.type or part.type != eqn.out.type:
                continue
            if not isinstance(part, Var) or self.uses[part] != 1:
                continue
            added = self.open.get(part)
            if added is None or not added.sums:
                continue
            self.take(part)
            chain = self.take(total) or Chain(total)
            chain.pieces += added.pieces
            chain.between += added.between
            self.open[eqn.out] = chain
            return

    def take(self, atom: Atom | None) -> Chain | None:
        """The chain that ends in a value which is used here only: it goes on."""
        if not isinstance(atom, Var) or self.uses[atom] != 1:
            return None
        chain = self.open.pop(atom, None)
        if chain is not None:
            chain.between.append(atom)
        return chain


_sums: dict[Op, bool] = {}


def is_sum(op: Op) -> bool:
    """Whether an elementwise op adds its two operands: asked of its body, once."""
    known = _sums.get(op)
    if known is None:
        probe = _Probe()
        assert isinstance(op.lower, Map)
        known = op.arity == 2 and op.lower.body(probe, "a", "b") == ("a", "b")
        _sums[op] = known
    return known


class _Probe:
    """An emitter on which only a sum gives (a, b)."""

    def add(self, a: Any, b: Any) -> Any:
        return a, b

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None
