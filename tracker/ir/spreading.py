"""Sums over what is scattered, and its place in a chain of sums: an array of zeros is not made.

Owns: the pass `scattered_last`. The pullback of a read by arrays of places is zero but for these
places. That of a cross entropy (`z[rows, labels]`) adds to it, and sums over it, step by step:

    v = scattered_sum x at i, j;  s = sum v over j;  k = v + a;  t = sum k over j;  z = k + b
    ->  s = scattered_sum x at i;  t = s + sum a over j;  z = (a + b) + v

Its rows' sums are scattered themselves, into a vector; what is scattered comes last, where
`scattering.py` adds it to the other term, in its memory.

Invariants: types stay; the same numbers but for the order in which terms are added up; linear in
the equations. What anybody needs as it is stays as it is: chains end there.
"""

from __future__ import annotations

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, operands_of
from tracker.ir.passes import Writer, as_pass, substitute, with_body
from tracker.records import field, record

_FEWER = 4  # so many times as many elements as are scattered: adding up zeros takes longer
_LONGEST = 16  # terms of a chain
_HOLE = "_"  # in an index: an array of places

_Readers = dict[Atom, list[Eqn | None]]


@record(eq=False)
class _Chain:
    """`scattered` is added to by `adds`, one after the other; `sums`: of each equation that sums
    over it, or over the result of one of these but the last: whether over its negative, and how
    many were added by then. `negatives` are what only such sums read."""

    scattered: Eqn
    adds: list[Var] = field(default_factory=list)
    sums: dict[Var, tuple[bool, int]] = field(default_factory=dict)
    negatives: list[Var] = field(default_factory=list)


@as_pass
def scattered_last(function: Function) -> Function:
    """Add what is scattered after all other terms, and sum over it by scattering."""
    if not (function.has("scattered_sum") and function.has("sum")):
        return function
    chains = _chains(function)
    return _Rewriter(chains).run(function) if chains else function


# Chains -------------------------------------------------------------------------------------------


def _chains(function: Function) -> list[_Chain]:
    readers = _readers(function)
    taken: set[Var] = set()
    found = []
    for eqn in function.eqns:
        if eqn.op.name == "scattered_sum" and _is_wide(eqn):
            chain = _chain(eqn, readers, taken)
            if chain.sums:
                taken.update(chain.adds)
                found.append(chain)
    return found


def _readers(function: Function) -> _Readers:
    """Who reads each atom (None: a guard, or who called)."""
    readers: _Readers = {}
    for step in function.body:
        for atom in operands_of(step):
            readers.setdefault(atom, []).append(step if isinstance(step, Eqn) else None)
    for atom in function.outputs:
        readers.setdefault(atom, []).append(None)
    return readers


def _chain(eqn: Eqn, readers: _Readers, taken: set[Var]) -> _Chain:
    """The chain from here. Its last value is read as it is, or by nobody."""
    chain, now = _Chain(eqn), eqn.out
    while len(chain.adds) < _LONGEST:
        adds, sums, negatives = [], {}, []
        for reader in readers.get(now, ()):
            if reader is None:
                return chain
            if reader.op.name == "add":
                adds.append(reader)
                continue
            negative = reader.op.name == "negative"
            if negative:
                negatives.append(reader.out)
            for step in readers.get(reader.out, ()) if negative else (reader,):
                if step is None or step.op.name != "sum" or not _is_along(eqn, step):
                    return chain
                sums[step.out] = negative, len(chain.adds)
        if len(adds) > 1 or not all(_adds_all(add, taken) for add in adds):
            return chain
        chain.sums.update(sums)
        chain.negatives += negatives
        if not adds:
            return chain
        now = adds[0].out
        chain.adds.append(now)
    return chain


def _adds_all(add: Eqn, taken: set[Var]) -> bool:
    a, b = add.operands
    return a is not b and a.type == b.type == add.out.type and add.out not in taken


def _is_wide(eqn: Eqn) -> bool:
    """Whether little is scattered, to places that arrays give along all axes."""
    x, out = eqn.operands[0].type, eqn.out.type
    few = x.ndim > 0 and out.size >= _FEWER * x.size
    return few and out.dtype.kind in "fc" and eqn.params["index"] == (_HOLE,) * out.ndim


def _is_along(eqn: Eqn, step: Eqn) -> bool:
    """Whether a sum leaves axes whose arrays have all places of what is scattered, or none."""
    left = _left(eqn, step.params["axis"])
    whole = not left or np.broadcast_shapes(*(o.type.shape for o in left)) == _batch(eqn)
    return whole and step.out.type.dtype == eqn.out.type.dtype


def _batch(eqn: Eqn) -> tuple[int, ...]:
    return eqn.operands[0].type.shape


def _left(eqn: Eqn, axes: tuple[int, ...]) -> list[Atom]:
    """The arrays of places along the other axes."""
    return [o for at, o in enumerate(eqn.operands[1:]) if at not in axes]


# The new body -------------------------------------------------------------------------------------


class _Rewriter(Writer):
    """`cores`: what was added up in the place of each value of a chain, without what is scattered;
    `by`: what stands for sums; `along`: sums of what is scattered, by the axes."""

    def __init__(self, chains: list[_Chain]) -> None:
        super().__init__()
        self.adds = {out: (chain, at) for chain in chains for at, out in enumerate(chain.adds)}
        self.sums = {out: chain for chain in chains for out in chain.sums}
        self.gone = {out for chain in chains for out in chain.negatives}
        self.cores: dict[Var, Atom] = {}
        self.by: dict[Var, Atom] = {}
        self.along: dict[tuple[Var, tuple[int, ...]], Var] = {}

    def run(self, function: Function) -> Function:
        for given in function.body:
            step = substitute(given, self.by)
            self.where = step.where
            if isinstance(step, Guard):
                self.body.append(step)
            elif step.out in self.adds:
                self._add(step, *self.adds[step.out])
            elif step.out in self.sums:
                self.by[step.out] = self._sum(step, self.sums[step.out])
            elif step.out not in self.gone:
                self.body.append(step)
        return with_body(function, self.body, self.by)

    def _add(self, step: Eqn, chain: _Chain, at: int) -> None:
        """One more term; what is scattered comes after the last."""
        scattered = chain.scattered.out
        before = chain.adds[at - 1] if at else scattered
        core = step.operands[step.operands[0] is before]
        if at:
            core = self.make("add", self.cores[before], core)
        self.cores[step.out] = core
        if step.out is chain.adds[-1]:
            self.make("add", core, scattered, out=step.out)

    def _sum(self, step: Eqn, chain: _Chain) -> Atom:
        negative, count = chain.sums[step.out]
        axes = step.params["axis"]
        key = chain.scattered.out, axes
        if key not in self.along:
            self.along[key] = self._scattered(chain.scattered, axes)
        total = self.along[key]
        if total.type.shape != step.out.type.shape:
            total = self.make("reshape", total, shape=step.out.type.shape)
        if count:
            core = self.make("sum", self.cores[chain.adds[count - 1]], **step.params)
            total = self.make("add", core, total)
        if negative:  # of a sum, which is never -0.0
            total = self.make("subtract", Const.of(total.type.dtype.type(0)), total)
        return total

    def _scattered(self, eqn: Eqn, axes: tuple[int, ...]) -> Var:
        """The sum of what is scattered, along some axes."""
        x, left = eqn.operands[0], _left(eqn, axes)
        if not left:
            return self.make("sum", x, axis=tuple(range(x.type.ndim)), keepdims=False)
        shape = tuple(n for at, n in enumerate(eqn.out.type.shape) if at not in axes)
        return self.make("scattered_sum", x, *left, index=(_HOLE,) * len(left), shape=shape)
