"""Loops that carry at most sums, and what never changes, as their bodies on all rows at once.

That is one loop nest, or one matrix product, instead of many: a convolution that is written as
loops multiplies a slice by the weights and adds up, at each position, which is a row of a product
that `contractions.py` finds once the loop is gone. Where a loop sums no products, this is done only
if all that it computes stays in the cache, as the body on one row would.

Invariants: results differ only by the order of the sums that are carried; linear in the equations;
a loop with an equation that has no rule here, or with more than `_MAX_SIZE` elements in a value,
stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Var,
    has_side_effects,
    may_bail_out,
)
from tracker.ir.lowering import Map, Reduce
from tracker.ir.passes.dead_code import without_unused_functions
from tracker.ir.passes.loops.added_zeros import hoist_added_zeros
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.passes.simplify import simplify
from tracker.ir.types import Bundle

_MAX_SIZE = 1 << 22  # elements
_CACHED_SIZE = 1 << 15  # elements, of all values of a loop


@as_pass(then=(simplify, hoist_added_zeros))
def batch_loops(function: Function) -> Function:
    """Write the bodies of loops that carry at most sums on all rows, where that is quicker."""
    if not function.has_op("loop"):
        return function
    bundles: dict[Atom, list[Atom]] = {}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool | Atom:
        if eqn.op.name == "pick" and eqn.operands[0] in bundles:
            picked: Atom = bundles[eqn.operands[0]][eqn.params["at"]]
            return picked
        rows = _batch_loop(new, eqn) if eqn.op.name == "loop" else None
        if rows is not None:
            bundles[eqn.out] = rows
        return rows is not None

    return without_unused_functions(rewrite_equations(function, rewrite))


def _batch_loop(new: BodyWriter, loop: Eqn) -> list[Atom] | None:
    """Write a loop's body on all rows, and return its results; None if it stays a loop."""
    body, length, consts, carries, keep = (
        loop.params[name] for name in ("body", "length", "consts", "carries", "keep")
    )
    count, *operands = loop.operands
    is_constant = isinstance(count, Const) and count.value == length
    terms = _terms(body, consts, carries)
    if terms is None or keep or not is_constant:
        return None
    if not _is_worthwhile(body, terms, length, consts + carries):
        return None
    batch = _BatchWriter(length)
    batch.where = new.where
    for at, (inner, outer) in enumerate(zip(body.inputs, operands, strict=True)):
        (batch.fixed if at < consts + carries else batch.rows)[inner] = outer
    totals = {out for out, term in zip(body.outputs, terms, strict=False) if term is not None}
    for step in body.body:
        if isinstance(step, Eqn) and step.out in totals:
            continue
        if not isinstance(step, Eqn) or not batch.write(step):
            return None
    results: list[Atom] = []
    for start, term in zip(operands[consts:], terms, strict=False):
        if term is None:
            results.append(start)
            continue
        total = batch.emit("sum", batch.row(term, batch), axis=(0,), keepdims=False)
        results.append(batch.emit("add", start, total))
    results += [batch.row(atom, batch) for atom in body.outputs[carries:]]
    new.body += batch.body
    return results


def _terms(body: Function, consts: int, carries: int) -> list[Atom | None] | None:
    """What a step adds to each carry, None to one that stays; None if a step does anything else
    with one."""
    defined = {eqn.out: eqn for eqn in body.eqns}
    terms: list[Atom | None] = []
    for carry, out in zip(body.inputs[consts : consts + carries], body.outputs, strict=False):
        if out is carry:
            terms.append(None)
            continue
        eqn = defined.get(out) if isinstance(out, Var) else None
        if eqn is None or eqn.op.name != "add" or carry not in eqn.operands:
            return None
        term = eqn.operands[eqn.operands[0] is carry]
        is_sum = body.uses[carry] == body.uses[out] == 1 and term.type == carry.type
        if not is_sum or carry.type.dtype.kind not in "fc":
            return None
        terms.append(term)
    return terms


def _is_worthwhile(body: Function, terms: list[Atom | None], length: int, rows: int) -> bool:
    """Whether all rows (the inputs from number `rows` on) stay in the cache; or a sum is a matrix
    product, of which the rows' factors broadcast."""
    if any(isinstance(eqn.out.type, Bundle) for eqn in body.eqns):
        return False
    moving: set[Atom] = {*body.inputs[rows:]}
    products: set[Atom] = set()
    size = 0
    for eqn in body.eqns:
        factors = [operand for operand in eqn.operands if operand in moving]
        if factors:
            moving.add(eqn.out)
            size += eqn.out.type.size
        if eqn.op.name == "multiply" and all(o.type.size < eqn.out.type.size for o in factors):
            products.add(eqn.out)
    if length * size <= _CACHED_SIZE:
        return True
    sums = [eqn.operands[0] for eqn in body.eqns if eqn.op.name == "sum"]
    return any(term in products for term in (*sums, *terms))


class _BatchWriter(BodyWriter):
    """Writes equations on all rows. fixed: the values that are the same for all rows; rows: stacks
    of the others."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.fixed: dict[Atom, Atom] = {}
        self.rows: dict[Atom, Atom] = {}

    def row(self, atom: Atom, new: BodyWriter) -> Var:
        """The stack of a value, with all rows written out."""
        stack = self.rows.get(atom)
        if stack is None:
            stack = self.fixed.get(atom, atom)
            shape = (self.length, *stack.type.shape)
            stack = new.emit("broadcast_to", stack, shape=shape)
        assert isinstance(stack, Var)
        return stack

    def write(self, eqn: Eqn) -> bool:
        """Write an equation; False if there is no rule, or the result is too large."""
        if has_side_effects(eqn):
            return False
        if not any(operand in self.rows for operand in eqn.operands):
            operands = [self.fixed.get(o, o) for o in eqn.operands]
            self.fixed[eqn.out] = self.emit(eqn.op.name, *operands, **eqn.params)
            return True
        if may_bail_out(eqn) or self.length * eqn.out.type.size > _MAX_SIZE:
            return False
        params = self._batched_params(eqn)
        if params is None:
            return False
        aligned = isinstance(eqn.op.lower, Map) or eqn.op.name == "broadcast_to"
        rank = eqn.out.type.ndim if aligned else 0
        operands = [self._operand(o, rank) for o in eqn.operands]
        if eqn.op.name in ("concatenate", "stack"):
            operands = [self.row(o, self) for o in eqn.operands]
        self.rows[eqn.out] = self.emit(eqn.op.name, *operands, **params)
        return True

    def _operand(self, atom: Atom, rank: int) -> Atom:
        """An operand, with axes of one element after the first if its rows have fewer than `rank`
        axes."""
        stack = self.rows.get(atom)
        if stack is None:
            return self.fixed.get(atom, atom)
        missing = max(rank - atom.type.ndim, 0)
        assert isinstance(stack, Var)
        return self.reshape(stack, (self.length, *(1,) * missing, *atom.type.shape))

    def _batched_params(self, eqn: Eqn) -> Mapping[str, Any] | None:
        """The params on all rows."""
        name, params = eqn.op.name, eqn.params
        if isinstance(eqn.op.lower, Map):
            return params
        if isinstance(eqn.op.lower, Reduce):
            return {**params, "axis": tuple(axis + 1 for axis in params["axis"])}
        if name == "put":
            return {**params, "index": (slice(0, self.length, 1), *params["index"])}
        if name in ("concatenate", "stack"):
            return {**params, "axis": params["axis"] % eqn.out.type.ndim + 1}
        if name in ("reshape", "embed"):
            params = {**params, "shape": (self.length, *params["shape"])}
        if name in ("getitem", "embed"):
            return {**params, "index": (slice(0, self.length, 1), *params["index"])}
        if name == "broadcast_to":
            return {"shape": (self.length, *params["shape"])}
        if name == "transpose":
            return {"axes": (0, *(axis + 1 for axis in params["axes"]))}
        return params if name == "reshape" else None
