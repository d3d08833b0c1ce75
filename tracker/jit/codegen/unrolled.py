"""Unrolled equations: an instruction for each element of a small value.

`UnrolledCode` also emits single elements of cheap expressions over large arrays
(`expression_element`). Start at `emit_unrolled`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Guard
from tracker.ir.lowering import Before, Contract, Iota, Map, Reduce, Scan, View
from tracker.ir.types import Type
from tracker.jit.codegen.loop_body import expression_element
from tracker.jit.codegen.registers import Registers
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import ScalarValue, literal
from tracker.jit.schedule.plan_data import Unrolled, is_in_memory
from tracker.ops.shape.memory_order import c_strides

_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)


class UnrolledCode(Registers):
    """One function: the steps that run in registers."""

    def emit_guard(self, guard: Guard) -> None:
        self.require(guard_condition(self.e, self.atom(guard.operand, 0), guard))

    def emit_unrolled(self, eqn: Eqn) -> None:
        lowering = eqn.op.lower
        if isinstance(lowering, Map):
            self.elements[eqn.out] = self._map(eqn, lowering)
        elif isinstance(lowering, (View, Before)):
            self.elements[eqn.out] = [
                self.expression_element(eqn, index) for index in np.ndindex(*eqn.out.type.shape)
            ]
        elif isinstance(lowering, Reduce):
            self.elements[eqn.out] = self._reduce(eqn, lowering)
        elif isinstance(lowering, Scan):
            self.elements[eqn.out] = self._scan(eqn, lowering)
        elif isinstance(lowering, Iota):
            axis, dtype = eqn.params["axis"], eqn.out.type.dtype
            self.elements[eqn.out] = [
                literal(index[axis], dtype) for index in np.ndindex(*eqn.out.type.shape)
            ]
        else:
            assert isinstance(lowering, Contract)
            self.elements[eqn.out] = self._contract(eqn)

    def _map(self, eqn: Eqn, lowering: Map) -> list[ScalarValue | None]:
        shape = eqn.out.type.shape
        dtypes = lowering.dtypes(*(o.type for o in eqn.operands))
        maps = [_broadcast_positions(o.type.shape, shape) for o in eqn.operands]
        out: list[ScalarValue | None] = []
        for i in range(eqn.out.type.size):
            xs = [
                self.e.cast(self.atom(o, m[i]), dtype)
                for o, m, dtype in zip(eqn.operands, maps, dtypes, strict=True)
            ]
            y = lowering.body(self.e, *xs, **eqn.params)
            if eqn.out.type.weak:
                self._check_python_number(eqn, lowering, xs, y)
            out.append(self.e.cast(y, eqn.out.type.dtype))
        return out

    def _check_python_number(
        self, eqn: Eqn, lowering: Map, xs: list[ScalarValue], y: ScalarValue
    ) -> None:
        """Python's numbers: fail where Python raises, or where an int outgrows 64 bits."""
        if lowering.defined is not None:
            self.require_later(lowering.defined(self.e, y, *xs))
        if eqn.out.type.dtype.kind == "i" and "f" in lowering.kinds:
            wide = [self.e.cast(x, _FLOAT64) for x in xs]
            size = self.e.abs(lowering.body(self.e, *wide, **eqn.params))
            self.require_later(self.e.compare("<", size, literal(2.0**62, _FLOAT64)))

    def element_at(self, atom: Atom, index: Sequence[Any]) -> ScalarValue:
        """One element of any value."""
        if isinstance(atom, Const):
            return literal(atom.value, atom.type.dtype)
        location = self.plan.locations[atom]
        if isinstance(location, Unrolled) or is_in_memory(location, self.level):
            if not all(isinstance(i, int) for i in index):
                return self._fetch_at(atom, index)
            flat = self.tools.flatten(index, atom.type.shape)
            return (
                self.element(atom, flat)
                if isinstance(location, Unrolled)
                else self._fetch(atom, flat)
            )
        return self.expression_element(self.plan.definitions[atom], tuple(index))

    def expression_element(self, eqn: Eqn, index: tuple[Any, ...]) -> ScalarValue:
        """One element of a view, or of a cheap expression over large arrays."""
        return expression_element(self.e, self.tools, eqn, index, self.element_at, self.e.cast)

    def _reduce(self, eqn: Eqn, lowering: Reduce) -> list[ScalarValue | None]:
        x = eqn.operands[0]
        dtype = eqn.out.type.dtype
        axis = eqn.params["axis"]
        groups = _reduction_groups(x.type.shape, axis)
        out: list[ScalarValue | None] = []
        for group in groups:
            acc: ScalarValue | None = None
            for at in group:
                item = self.e.cast(self.atom(x, at), dtype)
                acc = item if acc is None else lowering.combine(self.e, acc, item)
            if acc is None:
                acc = literal(lowering.identity(dtype), dtype)
            out.append(acc if lowering.finish is None else lowering.finish(self.e, acc, len(group)))
        return out

    def _scan(self, eqn: Eqn, lowering: Scan) -> list[ScalarValue | None]:
        dtype, axis = eqn.out.type.dtype, eqn.params["axis"]
        step = c_strides(eqn.out.type.shape)[axis]
        out: list[Any] = []
        for at, index in enumerate(np.ndindex(*eqn.out.type.shape)):
            items = [self.e.cast(self.atom(o, at), dtype) for o in eqn.operands]
            previous = out[at - step] if index[axis] else None
            out.append(lowering.combine(self.e, previous, *items) if previous else items[0])
        return out

    def _contract(self, eqn: Eqn) -> list[ScalarValue | None]:
        a, b = eqn.operands
        dtype = eqn.out.type.dtype
        out: list[ScalarValue | None] = []
        for pairs in _product_positions(a.type, b.type):
            acc: ScalarValue | None = None
            for i, j in pairs:
                term = self.e.mul(
                    self.e.cast(self.atom(a, i), dtype), self.e.cast(self.atom(b, j), dtype)
                )
                acc = term if acc is None else self.e.add(acc, term)
            out.append(acc or literal(0, dtype))
        return out


def guard_condition(e: Emitter, x: ScalarValue, guard: Guard) -> ScalarValue:
    """Whether a guard holds, as an i1."""
    if guard.kind == "bool":
        truth = e.truth(x)
        return truth if guard.expected else e.invert(truth)
    if x.dtype.kind == "f" and guard.kind != "hash":
        rounding = {"int": "trunc", "floor": "floor", "ceil": "ceil", "round": "roundeven"}
        x = e.intrinsic(rounding[guard.kind], x)
    return e.compare("==", x, literal(guard.expected, x.dtype))


@functools.lru_cache(maxsize=4096)
def _broadcast_positions(shape: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
    """For each element of the target shape, the position of its element in an operand."""
    if not shape:
        return [0] * math.prod(target)
    positions: list[int] = (
        np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), target).ravel().tolist()
    )
    return positions


@functools.lru_cache(maxsize=4096)
def _reduction_groups(shape: tuple[int, ...], axis: tuple[int, ...]) -> list[list[int]]:
    """The positions that each result of a reduction combines."""
    kept = [i for i in range(len(shape)) if i not in axis]
    count = math.prod([shape[i] for i in kept])
    positions = np.arange(math.prod(shape)).reshape(shape).transpose([*kept, *axis])
    return positions.reshape(count, -1 if positions.size else 0).tolist()


def _product_positions(a: Type, b: Type) -> list[list[tuple[int, int]]]:
    """For each element of a @ b, the pairs of positions whose products it sums."""
    left = np.arange(a.size).reshape(a.shape if a.ndim > 1 else (1, *a.shape))
    right = np.arange(b.size).reshape(b.shape if b.ndim > 1 else (*b.shape, 1))
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    terms = (*batch, left.shape[-2], right.shape[-1], left.shape[-1])
    rows = np.broadcast_to(left[..., :, None, :], terms)
    columns = np.broadcast_to(np.swapaxes(right, -1, -2)[..., None, :, :], terms)
    flat = (math.prod(terms[:-1]), terms[-1])
    return [
        list(zip(r, c, strict=True))
        for r, c in zip(rows.reshape(flat).tolist(), columns.reshape(flat).tolist(), strict=True)
    ]
