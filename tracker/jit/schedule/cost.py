"""The cost model: when an expression is computed again, and when it is stored and read.

`CostModel` counts the operations that computing an expression once more takes, and compares loops
that recompute with loops that load. What an elementwise op costs (`is_math`, `is_slow`, `is_sum`)
is found by running the op's body once on a probe that records which emitter methods it calls.
`operation_count` estimates a whole function.

Invariant: a query changes nothing, and takes no longer than the operations that it counts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Var, nested_functions
from tracker.ir.lowering import Branch, Contract, Loop, Map, Pick, Scatter, View, While
from tracker.ir.op import Op
from tracker.jit.schedule.affine import AffineIndex, linear_position, loop_index, view_index
from tracker.jit.schedule.placement import MATH_COST, RECOMPUTE_LIMIT, Placement
from tracker.jit.schedule.plan_data import Expression, is_in_memory
from tracker.ops.shape.memory_order import c_strides
from tracker.tape.value import Value

_probes: dict[Op, _OpProbe] = {}
_combining_ops: dict[Op, bool] = {}
SLOW_OPS_LIMIT = 2  # divisions and roots that take longer than loading an operand once more
_GATHER_COST = RECOMPUTE_LIMIT  # a load from a computed address: its users are stored
# Elements of a result per element of an operand; from here on its functions, or its divisions and
# roots, are not repeated.
_MIN_MATH_REPEATS, _MIN_REPEATS = 2, 8
_MAX_MATH_DEPTH = 2  # transcendental functions of one another in a loop over cached values
_MIN_CHAIN_SIZE, _MAX_CHAIN_SIZE = 256, 1 << 17  # elements; more leave the cache


def operation_count(function: Function, is_body: bool = False) -> int:
    """About how many elements a function computes; loops that end by a condition count once. The
    body of a loop writes parts of arrays in place."""
    return sum([_operations(eqn, is_body) for eqn in function.eqns])


def _operations(eqn: Eqn, is_body: bool) -> int:
    lower = eqn.op.lower
    if isinstance(lower, Loop | While | Branch):
        once = sum([operation_count(f, True) for f in nested_functions((eqn,)).values()])
        return once * eqn.params["length"] if isinstance(lower, Loop) else once
    if isinstance(lower, Pick):
        return 0
    if isinstance(lower, View | Scatter):
        parts = _written_parts(eqn) if is_body else None
        return eqn.out.type.size if parts is None else sum(part.type.size for part in parts)
    return max(atom.type.size for atom in (eqn.out, *eqn.operands))


def _written_parts(eqn: Eqn) -> list[Atom] | None:
    """The operands that are written into a copy of another; None if there is no such copy."""
    lower = eqn.op.lower
    if isinstance(lower, Scatter):
        return None if lower.base is None else [eqn.operands[lower.value]]
    assert isinstance(lower, View)
    types = [operand.type for operand in eqn.operands]
    writes = None if lower.writes is None else lower.writes(*types, **eqn.params)
    if writes is None or writes.base is None:
        return None
    return [eqn.operands[number] for number, _ in writes.parts]


def is_math(eqn: Eqn | Value) -> bool:
    """Whether the body calls a transcendental (or foreign) function."""
    return _probe(eqn).calls_math


def is_slow(eqn: Eqn) -> bool:
    """Whether the body takes several times as long as an addition: a division, a root."""
    return _probe(eqn).is_slow


def _probe(eqn: Eqn | Value) -> _OpProbe:
    probe = _probes.get(eqn.op)
    if probe is None:
        probe = _OpProbe()
        lower = eqn.op.lower
        if isinstance(lower, Map):
            lower.body(probe, *(probe for _ in eqn.operands), **eqn.params)
        _probes[eqn.op] = probe  # only when complete: other threads compile, too
    return probe


def is_sum(op: Op) -> bool:
    """Whether an elementwise op adds its two operands."""
    return op.arity == 2 and _combines_operands(op)


def is_selection(op: Op) -> bool:
    """Whether an elementwise op selects one of two operands by another one."""
    return op.arity == 3 and _combines_operands(op)


def _combines_operands(op: Op) -> bool:
    """Whether the body of an op is one addition or selection, of all operands in order."""
    found = _combining_ops.get(op)
    if found is None:
        assert isinstance(op.lower, Map)
        xs = tuple(_OpProbe() for _ in range(op.arity or 0))
        result = op.lower.body(_OpProbe(), *xs)
        found = _combining_ops[op] = isinstance(result, _OpProbe) and result.terms == xs
    return found


class _OpProbe:
    """Emitter and operand in one; records which methods the body of an op calls. `terms`: the
    operands of the addition or selection that gave this value."""

    value = None
    dtype = np.dtype(np.float64)

    def __init__(self, *terms: Any) -> None:
        self.calls_math = self.is_slow = False
        self.terms = terms

    def add(self, a: Any, b: Any) -> Any:
        return _OpProbe(a, b)

    def select(self, c: Any, a: Any, b: Any) -> Any:
        return _OpProbe(c, a, b)

    def math(self, name: str, *_: Any) -> Any:
        self.calls_math = self.calls_math or name != "sqrt"
        self.is_slow = True
        return self

    def div(self, *_: Any) -> Any:
        self.is_slow = True
        return self

    def power(self, *_: Any) -> Any:
        self.calls_math = True
        return self

    call_ufunc = power

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


def view_cost(eqn: Eqn) -> int:
    """The operations that a view counts as: a gather by arrays of positions counts as many."""
    view = eqn.op.lower
    if not isinstance(view, View) or view.writes is not None:
        return 1
    return _GATHER_COST if any(o.type.dtype.kind in "iu" for o in eqn.operands[1:]) else 1


def rows_of_loop(eqn: Eqn) -> set[Atom]:
    """The operands of which a loop's steps read one row each, and nothing else."""
    if not isinstance(eqn.op.lower, Loop):
        return set()
    first = 1 + eqn.params["consts"] + eqn.params["carries"]
    return {*eqn.operands[first:]}.difference(eqn.operands[:first])


def read_in_slices(function: Function) -> set[Atom]:
    """The values of which products and loops read views in memory with more elements in total than
    the value has, and these views: stored once, the value serves all of them."""
    views = [e for e in function.eqns if isinstance(e.op.lower, View) and len(e.operands) == 1]
    by_products: Counter[Atom] = Counter()  # elements read of a value or its views
    by_loops: Counter[Atom] = Counter()
    seen: Counter[Atom] = Counter()  # the same of its views only
    for eqn in function.eqns:
        if isinstance(eqn.op.lower, Contract):
            by_products.update({o: o.type.size for o in eqn.operands})
        by_loops.update({o: o.type.size for o in rows_of_loop(eqn)})
    for eqn in reversed(views):
        base, view = eqn.operands[0], eqn.out
        rows = by_loops[view] if by_loops[view] and _keeps_rows(eqn) else 0
        by_products[base] += by_products[view]
        by_loops[base] += rows
        seen[base] += by_products[view] + rows
    values = {base for base, size in seen.items() if size > base.type.size}
    for eqn in views:
        if eqn.operands[0] in values:
            values.add(eqn.out)
    return values


def _keeps_rows(eqn: Eqn) -> bool:
    """Whether the rows of a view are parts of rows of its operand, and no other elements."""
    shape = eqn.out.type.shape
    index = view_index(eqn, loop_index(shape), shape)
    if index is None:
        return False
    position = linear_position(index, c_strides(eqn.operands[0].type.shape))
    strides = dict(position.terms) if isinstance(position, AffineIndex) else {}
    return all(strides.get(axis) == s for axis, s in enumerate(c_strides(shape)) if axis)


class CostModel:
    """What it costs to compute a value where it is read."""

    def __init__(self, placement: Placement) -> None:
        self.locations = placement.locations
        self.definitions = placement.plan.definitions
        self.kernels = placement.kernels
        self.slow_ops: Counter[Var] = Counter()  # divisions and roots in an expression

    def recompute_cost(self, o: Var, level: int, limit: int) -> int:
        """The operations to compute an expression from values that are in memory at a level; if
        more than `limit`, any larger number."""
        location = self.locations[o]
        if is_in_memory(location, level) or not isinstance(location, Expression):
            return 0
        eqn = self.definitions[o]
        cost = MATH_COST if is_math(eqn) else view_cost(eqn)
        for operand in eqn.operands:
            if cost > limit:
                break
            if isinstance(operand, Var):
                cost += self.recompute_cost(operand, level, limit - cost)
        return cost

    def repeats_slow_op(self, o: Var, eqn: Eqn) -> bool:
        """Whether a slow operation would be recomputed for many elements of a result: a
        transcendental function, which loops over all values of it compute by vectors, or a division
        or root. Storing delays the result by a level; for a single division this does not pay if
        the result's kernel exists already, because the kernel would read its operands again."""
        location = self.locations[o]
        if not isinstance(location, Expression):
            return False
        repeats = eqn.out.type.size / max(o.type.size, 1)
        if self.math_depth(o) and repeats >= _MIN_MATH_REPEATS:
            return True
        if not self.slow_ops[o] or repeats < _MIN_REPEATS:
            return False
        space = (eqn.out.type.shape, location.kernel.level)
        return self.slow_ops[o] >= SLOW_OPS_LIMIT or space not in self.kernels

    def math_depth(self, o: Var) -> int:
        """The longest chain of transcendental functions behind a value, where it is read."""
        location = self.locations[o]
        if isinstance(location, Expression) and location.buffer is None:
            return location.math_depth
        return 0

    def exceeds_math_depth(self, o: Var, eqn: Eqn) -> bool:
        """Whether one more function would make a chain of transcendental functions that holds up
        its loop: each call waits for the one before, and a processor looks only so far ahead for
        other work. Values that stay in the cache are soon stored and read."""
        near = _MIN_CHAIN_SIZE < eqn.out.type.size <= _MAX_CHAIN_SIZE
        return near and is_math(eqn) and self.math_depth(o) >= _MAX_MATH_DEPTH
