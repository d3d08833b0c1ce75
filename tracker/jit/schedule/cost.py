"""What is computed again where it is read, and what is stored first.

Owns: `Weighing`, the planner's questions about an expression: how long it takes to compute it once
more (`again`, `reading`), and whether a loop that did so would take longer than one that reads it
(the rest).

Invariant: a question changes nothing, and costs no more than the operations that it counts.

What the body of an elementwise op does, asked of the body itself: it is run on stand-ins.

Owns: `is_math`, `is_slow`, `is_sum`, each asked once per op. A `_Probe` stands for the emitter and
for the numbers alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.ir.lowering import Contract, Map, View
from tracker.ir.op import Op
from tracker.jit.schedule.placement import CHEAP, DEAR, Storing
from tracker.jit.schedule.plan_data import Tiny
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.tape.value import Value

_probed: dict[Op, _Probe] = {}
_sums: dict[Op, bool] = {}


def is_math(eqn: Eqn | Value) -> bool:
    """Whether the body calls a function that costs much."""
    return _probe(eqn).heavy


def is_slow(eqn: Eqn) -> bool:
    """Whether it takes several times as long as an addition: a division, a root."""
    return _probe(eqn).slow


def _probe(eqn: Eqn | Value) -> _Probe:
    known = _probed.get(eqn.op)
    if known is None:
        known = _Probe()
        lower = eqn.op.lower
        if isinstance(lower, Map):
            lower.body(known, *(known for _ in eqn.operands), **eqn.params)
        _probed[eqn.op] = known  # not before: other threads compile, too
    return known


def is_sum(op: Op) -> bool:
    """Whether an elementwise op adds its two operands."""
    known = _sums.get(op)
    if known is None:
        assert isinstance(op.lower, Map)
        a, b = _Probe(), _Probe()
        found = op.lower.body(_Probe(), a, b) if op.arity == 2 else None
        known = _sums[op] = isinstance(found, _Probe) and found.terms == (a, b)
    return known


class _Probe:
    """Emitter and numbers in one; notices calls of functions. `terms`: what it is the sum of."""

    value = None
    dtype = np.dtype(np.float64)

    def __init__(self, *terms: Any) -> None:
        self.heavy = self.slow = False
        self.terms = terms

    def add(self, a: Any, b: Any) -> Any:
        return _Probe(a, b)

    def math(self, name: str, *_: Any) -> Any:
        self.heavy = self.heavy or name != "sqrt"
        self.slow = True
        return self

    def div(self, *_: Any) -> Any:
        self.slow = True
        return self

    def borrow(self, *_: Any) -> Any:
        self.heavy = True
        return self

    def power(self, *_: Any) -> Any:
        self.heavy = True
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


SEVERAL = 2  # divisions and roots that take longer than reading an operand once more
_GATHERED = CHEAP  # for which one waits for a number from anywhere: what is made of it is stored
_MANY = 8  # elements for each of an operand, for which a division or root is not made again
_LARGE = 1 << 20  # bytes of scratch that is worth to be freed soon
_LONGEST_CHAIN = 2  # functions of one another in a loop over what is near
_SHORT, _CACHED = 256, 1 << 17  # elements; fewer are soon done, more do not stay in the cache


def reading(eqn: Eqn) -> int:
    """How many operations a view counts as: more, if arrays of positions say what it reads."""
    view = eqn.op.lower
    if not isinstance(view, View) or view.writes is not None:
        return 1
    return _GATHERED if any(o.type.dtype.kind in "iu" for o in eqn.operands[1:]) else 1


def sliced_by_products(function: Function) -> set[Atom]:
    """What products read views of that have more elements together than it has itself, and its
    views: stored once, it serves all of them."""
    views = [e for e in function.eqns if isinstance(e.op.lower, View) and len(e.operands) == 1]
    read: Counter[Atom] = Counter()  # elements, of values or of views of them
    seen: Counter[Atom] = Counter()  # of views only
    for eqn in function.eqns:
        if isinstance(eqn.op.lower, Contract):
            read.update({o: o.type.size for o in eqn.operands})
    for eqn in reversed(views):
        read[eqn.operands[0]] += read[eqn.out]
        seen[eqn.operands[0]] += read[eqn.out]
    found = {base for base, size in seen.items() if size > base.type.size}
    for eqn in views:
        if eqn.operands[0] in found:
            found.add(eqn.out)
    return found


class Weighing(Storing):
    """Says what it would take to compute a value where it is read."""

    def __init__(
        self, function: Function, wanted: Sequence[MemoryOrder], tiny: Tiny, body: bool
    ) -> None:
        super().__init__(function, wanted, tiny, body)
        self.slow: Counter[Var] = Counter()  # how many divisions and roots an expression has
        self.apart: set[Atom] = set()  # what is read from memory once it is made

    def again(self, o: Var, level: int, most: int) -> int:
        """How many operations it takes to compute an expression at a level of what is in memory by
        then; where it is more than `most`, any number that is."""
        place = self.places[o]
        if place.kind != "expression" or (place.stored and place.ready <= level):
            return 0
        eqn = self.plan.definitions[o]
        found = DEAR if is_math(eqn) else reading(eqn)
        for operand in eqn.operands:
            if found > most:
                break
            if isinstance(operand, Var):
                found += self.again(operand, level, most - found)
        return found

    def is_asked_of_gathered(self, o: Var) -> bool:
        """Whether a value is a mask of what is gathered from a large array of scratch: once it is
        stored, in a fraction of the memory, the array is free."""
        if o.type.dtype.kind != "b" or self.places[o].kind != "expression":
            return False
        for gathered in self.plan.definitions[o].operands:
            eqn = self.plan.definitions.get(gathered) if isinstance(gathered, Var) else None
            if eqn is None or not isinstance(eqn.op.lower, View) or len(eqn.operands) == 1:
                continue
            base = eqn.operands[0]
            buffer = self.places[base].buffer if isinstance(base, Var) else None
            if buffer is not None and buffer.role == "scratch" and buffer.type.nbytes >= _LARGE:
                return True
        return False

    def is_apart(self, o: Var) -> bool:
        """Whether an expression is one that others are to read from memory."""
        return o in self.apart and self.places[o].kind == "expression"

    def is_spread(self, o: Var, eqn: Eqn) -> bool:
        """Whether a division or a root would be made again for many elements of a result. Storing
        it puts the result off by a level: it does not pay for only one where others of its shape
        are made already, for it would read again what they read."""
        if not self.slow[o] or eqn.out.type.size < _MANY * o.type.size:
            return False
        home = self.places[o].home
        if home is None:
            return False
        return self.slow[o] >= SEVERAL or (eqn.out.type.shape, home.level) not in self.kernels

    def chain(self, o: Var) -> int:
        """How many functions that take long are computed of one another, where a value is read."""
        place = self.places[o]
        return 0 if place.stored else place.chain

    def is_long(self, o: Var, eqn: Eqn) -> bool:
        """Whether a function of what is many functions of one another already would hold up its
        loop: each waits for the one before, and a processor looks only so far ahead for more to do.
        What is near is soon stored and read."""
        near = _SHORT < eqn.out.type.size <= _CACHED
        return near and is_math(eqn) and self.chain(o) >= _LONGEST_CHAIN
