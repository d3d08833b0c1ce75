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

from collections.abc import Container, Mapping, Sequence
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    has_side_effects,
    may_bail_out,
)
from tracker.ir.lowering import Map, Reduce
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import without_unused_functions
from tracker.ir.passes.loops.added_zeros import hoist_added_zeros
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.passes.simplify import simplify
from tracker.ir.types import Bundle
from tracker.support.structs import replace

_MAX_SIZE = 1 << 22  # elements
_CACHED_SIZE = 1 << 15  # elements, of all values of a loop
_SMALL_ROW = 32  # elements of a value, which the body would compute one by one
_SIZE_OF_SMALL_GATHERS = 1 << 20  # elements, of all values of a loop over small rows


@as_pass(then=(common_subexpressions, simplify, hoist_added_zeros))
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
    totals = _partial_sums(body, consts, carries)
    if totals is None or keep or not is_constant:
        return None
    if not _is_worthwhile(body, totals, length, consts + carries):
        return None
    batch = _BatchWriter(length)
    batch.where = new.where
    for at, (inner, outer) in enumerate(zip(body.inputs, operands, strict=True)):
        (batch.fixed if at < consts + carries else batch.rows)[inner] = outer
    for step in body.body:
        if isinstance(step, Guard):
            is_written = batch.check(step)
        elif step.out in totals:
            is_written = batch.add_all(step, totals[step.out])
        else:
            is_written = batch.write(step)
        if not is_written:
            return None
    results = [batch.fixed[atom] for atom in body.outputs[:carries]]
    results += [batch.row(atom, batch) for atom in body.outputs[carries:]]
    new.body += batch.body
    return results


def _partial_sums(body: Function, consts: int, carries: int) -> dict[Var, Atom] | None:
    """The results of what adds to carries, and of which sum each is the next; None if a step does
    anything else with a carry than to keep it."""
    carried = body.inputs[consts : consts + carries]
    sums: dict[Atom, Var] = {carry: carry for carry in carried}
    totals: dict[Var, Atom] = {}
    for eqn in body.eqns:
        total = next((o for o in eqn.operands if o in sums), None)
        if total is not None and body.uses[total] == 1 and _adds_to(total, eqn):
            totals[eqn.out], sums[eqn.out] = total, sums[total]
    for carry, out in zip(carried, body.outputs, strict=False):
        if sums.get(out) is not carry or (out is not carry and body.uses[out] > 1):
            return None
    return totals


def _adds_to(total: Atom, eqn: Eqn) -> bool:
    """Whether an equation adds to a total, or to elements of it."""
    type = eqn.out.type
    if eqn.op.name == "add":
        is_sum = all(operand.type == type for operand in eqn.operands)
    else:
        is_sum = eqn.op.name == "scattered_added" and eqn.operands[0] is total
    return is_sum and type.dtype.kind in "fc"


def _is_worthwhile(body: Function, totals: Container[Var], length: int, rows: int) -> bool:
    """Whether all rows (the inputs from number `rows` on) stay in the cache; or they are small and
    gather, which a body does element by element; or a sum is a matrix product, of which the rows'
    factors broadcast."""
    if any(isinstance(eqn.out.type, Bundle) for eqn in body.eqns):
        return False
    moving: set[Atom] = {*body.inputs[rows:]}
    products: set[Atom] = set()
    size = most = 0
    for eqn in body.eqns:
        factors = [operand for operand in eqn.operands if operand in moving]
        if factors and eqn.out not in totals:
            moving.add(eqn.out)
            size += eqn.out.type.size
            most = max(most, eqn.out.type.size)
        if eqn.op.name == "multiply" and all(o.type.size < eqn.out.type.size for o in factors):
            products.add(eqn.out)
    gathers = most <= _SMALL_ROW and any(_gathers(eqn, moving) for eqn in body.eqns)
    if length * size <= (_SIZE_OF_SMALL_GATHERS if gathers else _CACHED_SIZE):
        return True
    terms = [eqn.operands[0] for eqn in body.eqns if eqn.op.name == "sum"]
    terms += [o for e in body.eqns if e.out in totals and e.op.name == "add" for o in e.operands]
    return any(term in products for term in terms)


def _gathers(eqn: Eqn, moving: set[Atom]) -> bool:
    """Whether an equation reads several elements at positions that differ from row to row."""
    return eqn.op.name == "taken" and any(o in moving and o.type.ndim for o in eqn.operands[1:])


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

    def check(self, guard: Guard) -> bool:
        """Write a guard; False if it is not one of a bool."""
        held = self.rows.get(guard.operand)
        if held is None:
            self.body.append(replace(guard, operand=self.fixed.get(guard.operand, guard.operand)))
            return True
        if guard.kind != "bool" or guard.operand.type.dtype != bool:
            return False
        of_all = self.emit("all" if guard.expected else "any", held, axis=(0,), keepdims=False)
        self.body.append(replace(guard, operand=of_all))
        return True

    def add_all(self, eqn: Eqn, total: Atom) -> bool:
        """Write a total with what an equation adds to it in all steps; False if there is no
        rule."""
        start = self.fixed[total]
        if eqn.op.name == "add":
            added = self.row(eqn.operands[eqn.operands[0] is total], self)
            made = self.emit("add", start, self.emit("sum", added, axis=(0,), keepdims=False))
        else:
            _, values, *arrays = eqn.operands
            found = self._arrays(arrays, eqn.params["index"])
            if found is None:
                return False
            made = self.emit(eqn.op.name, start, self.row(values, self), *found, **eqn.params)
        self.fixed[eqn.out] = made
        return True

    def write(self, eqn: Eqn) -> bool:
        """Write an equation; False if there is no rule, or the result is too large."""
        if has_side_effects(eqn):
            return False
        if not any(operand in self.rows for operand in eqn.operands):
            operands = [self.fixed.get(o, o) for o in eqn.operands]
            self.fixed[eqn.out] = self.emit(eqn.op.name, *operands, **eqn.params)
            return True
        if self.length * eqn.out.type.size > _MAX_SIZE:
            return False
        if eqn.op.name in ("item", "taken", "before"):
            made = self._element(eqn)
        else:
            made = None if may_bail_out(eqn) else self._on_all_rows(eqn)
        if made is None or made.type.dtype != eqn.out.type.dtype:
            return False
        self.rows[eqn.out] = made
        return True

    def _on_all_rows(self, eqn: Eqn) -> Var | None:
        """The stack of the results of an equation that is the same op on all rows."""
        params = self._batched_params(eqn)
        if params is None:
            return None
        aligned = isinstance(eqn.op.lower, Map) or eqn.op.name == "broadcast_to"
        rank = eqn.out.type.ndim if aligned else 0
        operands = [self._operand(o, rank) for o in eqn.operands]
        if eqn.op.name in ("concatenate", "stack"):
            operands = [self.row(o, self) for o in eqn.operands]
        return self.emit(eqn.op.name, *operands, **params)

    def _operand(self, atom: Atom, rank: int) -> Atom:
        """An operand, with axes of one element after the first if its rows have fewer than `rank`
        axes."""
        stack = self.rows.get(atom)
        if stack is None:
            return self.fixed.get(atom, atom)
        missing = max(rank - atom.type.ndim, 0)
        assert isinstance(stack, Var)
        return self.reshape(stack, (self.length, *(1,) * missing, *atom.type.shape))

    def _element(self, eqn: Eqn) -> Var | None:
        """The stack of what is at positions, or before one, or of a Python number."""
        first, *arrays = eqn.operands
        if eqn.op.name == "taken":
            found = None if first in self.rows else self._arrays(arrays, eqn.params["index"])
            if found is None:
                return None
            return self.emit("taken", self.fixed.get(first, first), *found, **eqn.params)
        stack = self.row(first, self)
        if eqn.op.name == "item":
            return stack
        shape, axis = (self.length, *eqn.params["shape"]), eqn.params["axis"] + 1
        ends = self.reshape(stack, (self.length, *(1,) * (len(shape) - 1)))
        return self.emit("less", self.emit("iota", shape=shape, axis=axis), ends)

    def _arrays(self, arrays: Sequence[Atom], index: tuple[Any, ...]) -> list[Atom] | None:
        """The arrays of an index, so that the rows are its first axis; None if other axes are
        before theirs, or all rows have the same index."""
        if index[0] != "_" or not any(array in self.rows for array in arrays):
            return None
        rank = max(array.type.ndim for array in arrays)
        return [self._operand(array, rank) for array in arrays]

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
