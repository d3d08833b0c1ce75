"""Sums with a scattered term: the elements are added in the memory of the other term.

The pullback of a read at arrays of positions is zero but for these positions. Two rewrites, in
this order:

1. That of a cross entropy (`z[rows, labels]`) adds to it and sums over it, step by step. Sums over
   it are scattered themselves, into a vector, and it is added after all other terms:

    v = scattered_sum x at i, j;  s = sum v over j;  k = v + a;  t = sum k over j;  z = k + b
    ->  s = scattered_sum x at i;  t = s + sum a over j;  z = (a + b) + v

2. A sum with a scattered term becomes an update of the other term. Where that has no later readers,
   the planner makes neither `v` nor its zeros:

    v = scattered_sum x at i;  z = a + v    ->    z = scattered_added (a + 0.0) x at i

   So do sums of scattered terms, one by one: those of several reads of an array.

Adding 0.0 turns -0.0 into 0.0, as the sum does; what such a sum gave, and zeros, hold no -0.0.

Invariants: types stay; linear in the equations; results differ only by the order of sums; a value
that anything but sums reads is made as it is, so that chains of sums end there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Readers, Var, readers_of
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.support.structs import field, record

MIN_RATIO = 4  # elements of the result per scattered element; below, adding zeros is quicker
MAX_TERMS = 16  # of a chain
_HOLE = "_"  # in an index: an array of positions


@as_pass(requires=(EXPANDED,))
def rewrite_scatters(function: Function) -> Function:
    """Add scattered terms last, in the memory of the other term."""
    return _accumulate(_sink(function)) if function.has_op("scattered_sum") else function


# -------------------------------------------------------------------------------- chains of sums


@record(eq=False)
class _SumChain:
    """A scattered term, the results of the additions to it in order, and the sums over axes.

    sums: of each equation that sums over the term or one of the results but the last, whether it
    sums over the negative, and how many additions came before. negatives: read by such sums only.
    """

    scattered: Eqn
    adds: list[Var] = field(default_factory=list)
    sums: dict[Var, tuple[bool, int]] = field(default_factory=dict)
    negatives: list[Var] = field(default_factory=list)


def _sink(function: Function) -> Function:
    """Add scattered terms after all other terms, and sum over them by scattering."""
    if not function.has_op("sum"):
        return function
    readers = readers_of(function)
    taken: set[Var] = set()
    chains = []
    for eqn in function.eqns:
        if eqn.op.name == "scattered_sum" and _is_wide(eqn):
            chain = _chain(eqn, readers, taken)
            if chain.sums:
                taken.update(chain.adds)
                chains.append(chain)
    if not chains:
        return function
    sinker = _ScatterSinker(chains)
    return rewrite_equations(function, sinker.rewrite, sinker)


def _chain(eqn: Eqn, readers: Readers, taken: set[Var]) -> _SumChain:
    """The chain of a scattered term; anything may read its last value."""
    chain, last = _SumChain(eqn), eqn.out
    while len(chain.adds) < MAX_TERMS:
        adds, sums, negatives = [], {}, []
        for reader in readers.get(last, ()):
            if reader is None:
                return chain
            if reader.op.name == "add":
                adds.append(reader)
                continue
            is_negative = reader.op.name == "negative"
            if is_negative:
                negatives.append(reader.out)
            for step in readers.get(reader.out, ()) if is_negative else (reader,):
                if step is None or step.op.name != "sum" or not _can_sum_scattered(eqn, step):
                    return chain
                sums[step.out] = is_negative, len(chain.adds)
        if len(adds) > 1 or not all(_adds_without_broadcast(add, taken) for add in adds):
            return chain
        chain.sums.update(sums)
        chain.negatives += negatives
        if not adds:
            return chain
        last = adds[0].out
        chain.adds.append(last)
    return chain


def _adds_without_broadcast(add: Eqn, taken: set[Var]) -> bool:
    a, b = add.operands
    return a is not b and a.type == b.type == add.out.type and add.out not in taken


def _is_wide(eqn: Eqn) -> bool:
    """Whether few elements are scattered, to positions that arrays give along all axes."""
    x, out = eqn.operands[0].type, eqn.out.type
    few = x.ndim > 0 and out.size >= MIN_RATIO * x.size
    return few and out.dtype.kind in "fc" and eqn.params["index"] == (_HOLE,) * out.ndim


def _can_sum_scattered(eqn: Eqn, step: Eqn) -> bool:
    """Whether the arrays of positions along the axes that a sum leaves have all positions."""
    left = _remaining_positions(eqn, step.params["axis"])
    shape = np.broadcast_shapes(*(o.type.shape for o in left))
    return (
        not left or shape == eqn.operands[0].type.shape
    ) and step.out.type.dtype == eqn.out.type.dtype


def _remaining_positions(eqn: Eqn, axes: tuple[int, ...]) -> list[Atom]:
    """The arrays of positions along the other axes."""
    return [o for axis, o in enumerate(eqn.operands[1:]) if axis not in axes]


class _ScatterSinker(BodyWriter):
    """Writes the body with the additions and sums of chains changed.

    partial_sums: by each result of a chain, the sum of the other terms so far; axis_sums: sums of
    scattered terms, by the axes; removed: negatives that only these read.
    """

    def __init__(self, chains: list[_SumChain]) -> None:
        super().__init__()
        self.adds = {out: (chain, at) for chain in chains for at, out in enumerate(chain.adds)}
        self.sums = {out: chain for chain in chains for out in chain.sums}
        self.removed = {out for chain in chains for out in chain.negatives}
        self.partial_sums: dict[Var, Atom] = {}
        self.axis_sums: dict[tuple[Var, tuple[int, ...]], Var] = {}

    def rewrite(self, _: BodyWriter, eqn: Eqn) -> bool | Atom:
        if eqn.out in self.sums:
            return self._sum(eqn, self.sums[eqn.out])
        if eqn.out in self.adds:
            self._add(eqn, *self.adds[eqn.out])
        return eqn.out in self.adds or eqn.out in self.removed

    def _add(self, step: Eqn, chain: _SumChain, number: int) -> None:
        """Add one more term; the scattered one after the last."""
        scattered = chain.scattered.out
        before = chain.adds[number - 1] if number else scattered
        total = step.operands[step.operands[0] is before]
        if number:
            total = self.emit("add", self.partial_sums[before], total)
        self.partial_sums[step.out] = total
        if step.out is chain.adds[-1]:
            self.emit("add", total, scattered, out=step.out)

    def _sum(self, step: Eqn, chain: _SumChain) -> Atom:
        is_negative, count = chain.sums[step.out]
        key = chain.scattered.out, step.params["axis"]
        if key not in self.axis_sums:
            self.axis_sums[key] = self._scattered_sum(chain.scattered, step.params["axis"])
        total = self.reshape(self.axis_sums[key], step.out.type.shape)
        if count:
            others = self.emit("sum", self.partial_sums[chain.adds[count - 1]], **step.params)
            total = self.emit("add", others, total)
        if is_negative:  # a sum is never -0.0, so that 0.0 - total has the sign of -total
            total = self.emit("subtract", Const.of(total.type.dtype.type(0)), total)
        return total

    def _scattered_sum(self, eqn: Eqn, axes: tuple[int, ...]) -> Var:
        """The sum of a scattered term over some axes."""
        x, left = eqn.operands[0], _remaining_positions(eqn, axes)
        if not left:
            return self.emit("sum", x, axis=tuple(range(x.type.ndim)), keepdims=False)
        shape = tuple(n for axis, n in enumerate(eqn.out.type.shape) if axis not in axes)
        return self.emit("scattered_sum", x, *left, index=(_HOLE,) * len(left), shape=shape)


# ------------------------------------------------------------------------------ updates in place


def _accumulate(function: Function) -> Function:
    """a + scattered_sum(x, i) -> scattered_added(a, x, i), and so with sums of scattered terms."""
    parts: dict[Atom, list[Eqn]] = {}  # the scattered terms that something is the sum of
    uses = function.uses
    updates: Counter[Atom] = Counter()  # uses by sums that can be updates
    for eqn in function.eqns:
        if eqn.op.name == "scattered_sum":
            parts[eqn.out] = [eqn]
        if (term := _scattered_term(eqn, parts)) is not None:
            few = MIN_RATIO * parts[term][0].operands[0].type.size <= term.type.size
            updates[term] += few or uses[term] == 1
            both = [*parts.get(_other_term(eqn, term), ()), *parts[term]]
            is_read_once = uses[eqn.out] == 1 and all(uses[o] == 1 for o in eqn.operands)
            if is_read_once and len(parts[term]) < len(both) <= MAX_TERMS:
                parts[eqn.out] = both
    no_negative_zero: set[Atom] = set()

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if eqn.op.name == "add" and eqn.out in parts and updates[eqn.out]:
            return True  # its terms are added to what it is added to
        term = _scattered_term(eqn, parts)
        is_update = term is not None and updates[term] == uses[term]
        if term is not None and is_update:
            total = _other_term(eqn, term)
            if total not in no_negative_zero and eqn.out.type.dtype.kind in "fc":
                total = new.emit("add", total, positive_zero(total))
            for part in parts[term]:
                out = eqn.out if part is parts[term][-1] else None
                index = part.params["index"]
                total = new.emit("scattered_added", total, *part.operands, index=index, out=out)
        if is_update or has_no_negative_zero(eqn, no_negative_zero):
            no_negative_zero.add(eqn.out)
        return is_update

    return rewrite_equations(function, rewrite)


def _other_term(eqn: Eqn, term: Atom) -> Atom:
    """The other operand of a sum."""
    return eqn.operands[eqn.operands[0] is term]


def has_no_negative_zero(eqn: Eqn, known: set[Atom]) -> bool:
    """Whether a result holds no -0.0, as far as its operands are known to hold none."""
    if eqn.op.name == "scattered_added":
        return eqn.operands[0] in known
    if eqn.op.name == "add" and not known.isdisjoint(eqn.operands):
        return True
    if eqn.op.name not in ("broadcast_to", "put", "scattered"):
        return eqn.op.name == "scattered_sum" or adds_zero(eqn)
    return all(atom in known or _is_unsigned(atom) for atom in eqn.operands[:2])


def positive_zero(atom: Atom) -> Const:
    return Const.of(atom.type.dtype.type(0))


def adds_zero(eqn: Eqn) -> bool:
    """Whether an equation adds 0.0, which leaves no -0.0."""
    if eqn.op.name != "add" or eqn.out.type != eqn.operands[0].type:
        return False
    zero = eqn.operands[1]
    return isinstance(zero, Const) and zero.value == 0 and _is_unsigned(zero)


def _is_unsigned(atom: Atom) -> bool:
    """Whether an atom is a literal without a minus sign."""
    return isinstance(atom, Const) and not np.signbit([atom.value.real, atom.value.imag]).any()


def _scattered_term(eqn: Eqn, scattered: Container[Atom]) -> Atom | None:
    """The scattered term of a sum without a broadcast; the right one, if both are scattered."""
    if eqn.op.name != "add" or any(o.type != eqn.out.type for o in eqn.operands):
        return None
    a, b = eqn.operands
    if a is b or eqn.out.type.dtype.kind == "b":
        return None
    return b if b in scattered else a if a in scattered else None
