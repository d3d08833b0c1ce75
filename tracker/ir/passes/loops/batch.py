"""Loops that carry nothing and sum products, as their bodies on all rows at once.

A convolution that is written as loops multiplies a slice by the weights and adds up, at each
position: that is a row of one matrix product, and `contract.py` finds it once the loop is gone.
Other loops that carry nothing are left alone, for a body on one row stays in the cache.

Invariants: values stay; linear in the equations; a loop with an equation that has no rule here, or
with more than `_MAX_SIZE` elements in a value, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker.ir.graph import Atom, Const, Eqn, Function, Var
from tracker.ir.lowering import Map, Reduce
from tracker.ir.passes.manager import BodyWriter, as_pass, substitute, with_body
from tracker.support.structs import replace

_MAX_SIZE = 1 << 22  # elements


@as_pass()
def batch_loops(function: Function) -> Function:
    """Write the bodies of loops that add up products, and carry nothing, on all rows."""
    if not function.has_op("loop"):
        return function
    new = BodyWriter()
    bundles: dict[Atom, list[Var]] = {}
    stacks: dict[Var, Atom] = {}
    for step in function.body:
        step = substitute(step, stacks)
        if isinstance(step, Eqn):
            new.where = step.where
            rows = _batch_loop(new, step) if step.op.name == "loop" else None
            if rows is not None:
                bundles[step.out] = rows
                continue
            if step.op.name == "pick" and step.operands[0] in bundles:
                stacks[step.out] = bundles[step.operands[0]][step.params["at"]]
                continue
        new.body.append(step)
    if not bundles:
        return function
    used = {f for s in new.body if isinstance(s, Eqn) for f in s.params.values() if _is_body(f)}
    functions = {name: body for name, body in function.functions.items() if body in used}
    return with_body(replace(function, functions=functions), new.body, stacks)


def _is_body(param: object) -> bool:
    return isinstance(param, Function)


def _batch_loop(new: BodyWriter, loop: Eqn) -> list[Var] | None:
    """Write a loop's body on all rows, and return the stacks; None if it stays a loop."""
    body, length, consts = (loop.params[name] for name in ("body", "length", "consts"))
    count, *operands = loop.operands
    is_constant = isinstance(count, Const) and count.value == length
    if loop.params["carries"] or not is_constant or not _adds_products(body):
        return None
    batch = _BatchWriter(length)
    batch.where = new.where
    for at, (inner, outer) in enumerate(zip(body.inputs, operands, strict=True)):
        (batch.fixed if at < consts else batch.rows)[inner] = outer
    for step in body.body:
        if not isinstance(step, Eqn) or not batch.write(step):
            return None
    new.body += batch.body
    return [batch.row(atom, new) for atom in body.outputs]


def _adds_products(body: Function) -> bool:
    """Whether a body sums a product of arrays."""
    products = {eqn.out for eqn in body.eqns if eqn.op.name == "multiply"}
    return any(eqn.op.name == "sum" and eqn.operands[0] in products for eqn in body.eqns)


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
        if not any(operand in self.rows for operand in eqn.operands):
            operands = [self.fixed.get(o, o) for o in eqn.operands]
            if eqn.op.name == "pick":
                return False
            self.fixed[eqn.out] = self.emit(eqn.op.name, *operands, **eqn.params)
            return True
        if self.length * eqn.out.type.size > _MAX_SIZE:
            return False
        params = self._batched_params(eqn)
        if params is None:
            return False
        rank = eqn.out.type.ndim if isinstance(eqn.op.lower, Map) else 0
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
        if name in ("concatenate", "stack"):
            return {**params, "axis": params["axis"] + 1}
        if name in ("reshape", "embed"):
            params = {**params, "shape": (self.length, *params["shape"])}
        if name in ("getitem", "embed"):
            return {**params, "index": (slice(0, self.length, 1), *params["index"])}
        if name == "transpose":
            return {"axes": (0, *(axis + 1 for axis in params["axes"]))}
        return params if name == "reshape" else None
