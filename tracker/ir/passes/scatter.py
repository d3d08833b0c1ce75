"""Sums with what is scattered: the elements are added to the other term, in its memory.

Owns: the pass `accumulate_scattered`. The pullback of several reads by arrays of places adds up
arrays that are zero but for these places:

    v = scattered_sum x at i;  z = a + v    ->    z = scattered_added (a + 0.0) x at i

Where the planner finds that nobody needs `a` afterwards, neither `v` nor its zeros are made.

Invariants: types stay; the same numbers, but that what is added to one place more than once is
added up in another order. Adding 0.0 makes -0.0 what it is in the sum; what has come of such a sum,
or of zeros, has no -0.0 any more. Linear in the equations.

Sums over what is scattered, and its place in a chain of sums: an array of zeros is not made.

Owns: the pass `sink_scatters`. The pullback of a read by arrays of places is zero but for these
places. That of a cross entropy (`z[rows, labels]`) adds to it, and sums over it, step by step:

    v = scattered_sum x at i, j;  s = sum v over j;  k = v + a;  t = sum k over j;  z = k + b
    ->  s = scattered_sum x at i;  t = s + sum a over j;  z = (a + b) + v

Its rows' sums are scattered themselves, into a vector; what is scattered comes last, where
`scatter.py` adds it to the other term, in its memory.

Invariants: types stay; the same numbers but for the order in which terms are added up; linear in
the equations. What anybody needs as it is stays as it is: chains end there.
"""

from __future__ import annotations

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, operands_of
from tracker.ir.passes.manager import BodyWriter, as_pass, substitute, with_body
from tracker.support.structs import field, record


@as_pass
def accumulate_scattered(function: Function) -> Function:
    """a + scattered_sum(x, i) -> scattered_added(a, x, i)."""
    if not (function.has_op("scattered_sum") and function.has_op("add")):
        return function
    sums: dict[Atom, Eqn] = {
        eqn.out: eqn for eqn in function.eqns if eqn.op.name == "scattered_sum"
    }
    uses = function.uses
    positive: set[Atom] = set(sums)  # arrays without -0.0
    changed = False
    new = BodyWriter()
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
            total = new.emit("add", total, Const.of(step.out.type.dtype.type(0)))
        x, *places = sums[part].operands
        index = sums[part].params["index"]
        changed = True
        new.emit("scattered_added", total, x, *places, index=index, out=step.out)
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


_FEWER = 4  # so many times as many elements as are scattered: adding up zeros takes longer
_LONGEST = 16  # terms of a chain
_HOLE = "_"  # in an index: an array of places

_Readers = dict[Atom, list[Eqn | None]]


@record(eq=False)
class _SumChain:
    """`scattered` is added to by `adds`, one after the other; `sums`: of each equation that sums
    over it, or over the result of one of these but the last: whether over its negative, and how
    many were added by then. `negatives` are what only such sums read."""

    scattered: Eqn
    adds: list[Var] = field(default_factory=list)
    sums: dict[Var, tuple[bool, int]] = field(default_factory=dict)
    negatives: list[Var] = field(default_factory=list)


@as_pass
def sink_scatters(function: Function) -> Function:
    """Add what is scattered after all other terms, and sum over it by scattering."""
    if not (function.has_op("scattered_sum") and function.has_op("sum")):
        return function
    chains = _chains(function)
    return _ScatterSinker(chains).run(function) if chains else function


# Chains -------------------------------------------------------------------------------------------


def _chains(function: Function) -> list[_SumChain]:
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


def _chain(eqn: Eqn, readers: _Readers, taken: set[Var]) -> _SumChain:
    """The chain from here. Its last value is read as it is, or by nobody."""
    chain, now = _SumChain(eqn), eqn.out
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


class _ScatterSinker(BodyWriter):
    """`partial_sums`: what was added up in the place of each value of a chain, without what is
    scattered; `replaced`: what stands for sums; `axis_sums`: sums of what is scattered, by the
    axes.
    """

    def __init__(self, chains: list[_SumChain]) -> None:
        super().__init__()
        self.adds = {out: (chain, at) for chain in chains for at, out in enumerate(chain.adds)}
        self.sums = {out: chain for chain in chains for out in chain.sums}
        self.removed = {out for chain in chains for out in chain.negatives}
        self.partial_sums: dict[Var, Atom] = {}
        self.replaced: dict[Var, Atom] = {}
        self.axis_sums: dict[tuple[Var, tuple[int, ...]], Var] = {}

    def run(self, function: Function) -> Function:
        for given in function.body:
            step = substitute(given, self.replaced)
            self.where = step.where
            if isinstance(step, Guard):
                self.body.append(step)
            elif step.out in self.adds:
                self._add(step, *self.adds[step.out])
            elif step.out in self.sums:
                self.replaced[step.out] = self._sum(step, self.sums[step.out])
            elif step.out not in self.removed:
                self.body.append(step)
        return with_body(function, self.body, self.replaced)

    def _add(self, step: Eqn, chain: _SumChain, at: int) -> None:
        """One more term; what is scattered comes after the last."""
        scattered = chain.scattered.out
        before = chain.adds[at - 1] if at else scattered
        core = step.operands[step.operands[0] is before]
        if at:
            core = self.emit("add", self.partial_sums[before], core)
        self.partial_sums[step.out] = core
        if step.out is chain.adds[-1]:
            self.emit("add", core, scattered, out=step.out)

    def _sum(self, step: Eqn, chain: _SumChain) -> Atom:
        negative, count = chain.sums[step.out]
        axes = step.params["axis"]
        key = chain.scattered.out, axes
        if key not in self.axis_sums:
            self.axis_sums[key] = self._scattered(chain.scattered, axes)
        total = self.axis_sums[key]
        if total.type.shape != step.out.type.shape:
            total = self.emit("reshape", total, shape=step.out.type.shape)
        if count:
            core = self.emit("sum", self.partial_sums[chain.adds[count - 1]], **step.params)
            total = self.emit("add", core, total)
        if negative:  # of a sum, which is never -0.0
            total = self.emit("subtract", Const.of(total.type.dtype.type(0)), total)
        return total

    def _scattered(self, eqn: Eqn, axes: tuple[int, ...]) -> Var:
        """The sum of what is scattered, along some axes."""
        x, left = eqn.operands[0], _left(eqn, axes)
        if not left:
            return self.emit("sum", x, axis=tuple(range(x.type.ndim)), keepdims=False)
        shape = tuple(n for at, n in enumerate(eqn.out.type.shape) if at not in axes)
        return self.emit("scattered_sum", x, *left, index=(_HOLE,) * len(left), shape=shape)
