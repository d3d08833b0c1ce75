"""What is computed again where it is read, and what is stored first.

Owns: `CostModel`, the planner's questions about an expression: how long it takes to compute it once
more (`recompute_cost`, `view_cost`), and whether a loop that did so would take longer than one that
reads it (the rest).

Invariant: a question changes nothing, and costs no more than the operations that it counts.

What the body of an elementwise op does, asked of the body itself: it is run on stand-ins.

Owns: `is_math`, `is_slow`, `is_sum`, each asked once per op. A `_OpProbe` stands for the emitter
and for the numbers alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.ir.lowering import Contract, Map, View
from tracker.ir.op import Op
from tracker.jit.schedule.placement import MATH_COST, RECOMPUTE_LIMIT, Placement
from tracker.jit.schedule.plan_data import UnrollLimits
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.tape.value import Value

_probes: dict[Op, _OpProbe] = {}
_sum_ops: dict[Op, bool] = {}


def is_math(eqn: Eqn | Value) -> bool:
    """Whether the body calls a function that costs much."""
    return _probe(eqn).calls_math


def is_slow(eqn: Eqn) -> bool:
    """Whether it takes several times as long as an addition: a division, a root."""
    return _probe(eqn).is_slow


def _probe(eqn: Eqn | Value) -> _OpProbe:
    known = _probes.get(eqn.op)
    if known is None:
        known = _OpProbe()
        lower = eqn.op.lower
        if isinstance(lower, Map):
            lower.body(known, *(known for _ in eqn.operands), **eqn.params)
        _probes[eqn.op] = known  # not before: other threads compile, too
    return known


def is_sum(op: Op) -> bool:
    """Whether an elementwise op adds its two operands."""
    known = _sum_ops.get(op)
    if known is None:
        assert isinstance(op.lower, Map)
        a, b = _OpProbe(), _OpProbe()
        found = op.lower.body(_OpProbe(), a, b) if op.arity == 2 else None
        known = _sum_ops[op] = isinstance(found, _OpProbe) and found.terms == (a, b)
    return known


class _OpProbe:
    """Emitter and numbers in one; notices calls of functions. `terms`: what it is the sum of."""

    value = None
    dtype = np.dtype(np.float64)

    def __init__(self, *terms: Any) -> None:
        self.calls_math = self.is_slow = False
        self.terms = terms

    def add(self, a: Any, b: Any) -> Any:
        return _OpProbe(a, b)

    def math(self, name: str, *_: Any) -> Any:
        self.calls_math = self.calls_math or name != "sqrt"
        self.is_slow = True
        return self

    def div(self, *_: Any) -> Any:
        self.is_slow = True
        return self

    def borrow(self, *_: Any) -> Any:
        self.calls_math = True
        return self

    def power(self, *_: Any) -> Any:
        self.calls_math = True
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


SLOW_OPS_LIMIT = 2  # divisions and roots that take longer than reading an operand once more
_GATHER_COST = (
    RECOMPUTE_LIMIT  # for which one waits for a number from anywhere: what is made of it is stored
)
_MIN_REPEATS = 8  # elements for each of an operand, for which a division or root is not made again
_LARGE_SCRATCH = 1 << 20  # bytes of scratch that is worth to be freed soon
_MAX_MATH_DEPTH = 2  # functions of one another in a loop over what is near
_MIN_CHAIN_SIZE, _MAX_CHAIN_SIZE = (
    256,
    1 << 17,
)  # elements; fewer are soon done, more do not stay in the cache


def view_cost(eqn: Eqn) -> int:
    """How many operations a view counts as: more, if arrays of positions say what it reads."""
    view = eqn.op.lower
    if not isinstance(view, View) or view.writes is not None:
        return 1
    return _GATHER_COST if any(o.type.dtype.kind in "iu" for o in eqn.operands[1:]) else 1


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


class CostModel(Placement):
    """Says what it would take to compute a value where it is read."""

    def __init__(
        self, function: Function, wanted: Sequence[MemoryOrder], tiny: UnrollLimits, body: bool
    ) -> None:
        super().__init__(function, wanted, tiny, body)
        self.slow_ops: Counter[Var] = Counter()  # how many divisions and roots an expression has
        self.forced_stores: set[Atom] = set()  # what is read from memory once it is made

    def recompute_cost(self, o: Var, level: int, most: int) -> int:
        """How many operations it takes to compute an expression at a level of what is in memory by
        then; where it is more than `most`, any number that is."""
        place = self.places[o]
        if place.kind != "expression" or (place.stored and place.ready <= level):
            return 0
        eqn = self.plan.definitions[o]
        found = MATH_COST if is_math(eqn) else view_cost(eqn)
        for operand in eqn.operands:
            if found > most:
                break
            if isinstance(operand, Var):
                found += self.recompute_cost(operand, level, most - found)
        return found

    def is_mask_of_gather(self, o: Var) -> bool:
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
            if (
                buffer is not None
                and buffer.role == "scratch"
                and buffer.type.nbytes >= _LARGE_SCRATCH
            ):
                return True
        return False

    def is_forced_store(self, o: Var) -> bool:
        """Whether an expression is one that others are to read from memory."""
        return o in self.forced_stores and self.places[o].kind == "expression"

    def repeats_slow_op(self, o: Var, eqn: Eqn) -> bool:
        """Whether a division or a root would be made again for many elements of a result. Storing
        it puts the result off by a level: it does not pay for only one where others of its shape
        are made already, for it would read again what they read."""
        if not self.slow_ops[o] or eqn.out.type.size < _MIN_REPEATS * o.type.size:
            return False
        home = self.places[o].home
        if home is None:
            return False
        return (
            self.slow_ops[o] >= SLOW_OPS_LIMIT
            or (eqn.out.type.shape, home.level) not in self.kernels
        )

    def math_depth(self, o: Var) -> int:
        """How many functions that take long are computed of one another, where a value is read."""
        place = self.places[o]
        return 0 if place.stored else place.chain

    def exceeds_math_depth(self, o: Var, eqn: Eqn) -> bool:
        """Whether a function of what is many functions of one another already would hold up its
        loop: each waits for the one before, and a processor looks only so far ahead for more to do.
        What is near is soon stored and read."""
        near = _MIN_CHAIN_SIZE < eqn.out.type.size <= _MAX_CHAIN_SIZE
        return near and is_math(eqn) and self.math_depth(o) >= _MAX_MATH_DEPTH
