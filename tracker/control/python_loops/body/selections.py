"""Selections by masks that differ from iteration to iteration: `x[mask]`, and `x[mask] = v`.

How many elements a mask selects differs, too. In a body, a selection has all elements of `x`, of
which those that are not selected mean nothing: elementwise ops read 1 there, and sums and means
read 0, as for other values whose extents move (`growing_values.py`); a write selects what it
writes.

Invariant: any other op on a selection raises `NotRollable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.ir.lowering import Map
from tracker.ops.elementwise.comparison import where
from tracker.ops.indexing.gather_scatter import HOLE, mask_count
from tracker.ops.indexing.getitem import gather, scatter
from tracker.ops.reduce.reduce import mean_, sum_
from tracker.tape.value import NO_PARAMS, Value, operand_aval

if TYPE_CHECKING:
    from tracker.control.python_loops.body.iteration_body import IterationBody


class Selections:
    """The selections of an iteration, with their `masks`, and what stands for them in the body."""

    def __init__(self, body: IterationBody) -> None:
        self.body = body
        self.masks: dict[Value, Value] = {}
        self.whole: dict[Value, Any] = {}
        self.filled: dict[tuple[Value, int], Value] = {}

    def concerns(self, value: Value) -> bool:
        """Whether an equation reads a selection, or selects by a mask that differs."""
        masks = value.operands[1:] if "counts" in value.params else ()
        return any(
            type(o) is Value and (o in self.masks or (o in masks and o in self.body.dependent))
            for o in value.operands
        )

    def write(self, value: Value) -> Any:
        """Write such an equation."""
        op = value.op
        if op is gather:
            made = self._read(value)
        elif op is scatter:
            return self._write_part(value)
        elif op is sum_ or op is mean_:
            return self._fold(value)
        elif isinstance(op.lower, Map) and set(value.params) <= {"dtype"}:
            made = self._write_elementwise(value)
        else:
            raise NotRollable(f"{op.name} of what a mask selects")
        self.whole[value] = made
        return made

    def _read(self, value: Value) -> Any:
        x, mask = self._with_mask(value, 2)
        self.masks[value] = mask
        return self.body.read(x)

    def _with_mask(self, value: Value, count: int) -> tuple[Any, Value]:
        """What a mask selects of, and the mask."""
        x, mask = value.operands[0], value.operands[-1]
        is_mask = len(value.operands) == count and value.params["index"] == (HOLE,)
        if not is_mask or np.shape(operand_aval(x)) != np.shape(mask.aval):
            raise NotRollable("a mask of some axes, or beside other subscripts")
        if self.body.growing.spans_of(x) or self.body.growing.spans_of(mask):
            raise NotRollable("a mask selects of a slice whose extent moves")
        return x, mask

    def _write_part(self, value: Value) -> Value:
        base, mask = self._with_mask(value, 3)
        part = value.operands[1]
        if type(part) is Value and part in self.masks:
            self._check_same(self.masks[part], mask)
            given = self.whole[part]
        elif np.ndim(operand_aval(part)) == 0:
            given = self.body.read(part)
        else:
            raise NotRollable("a mask selects where an array is written")
        operands = self.body.read(mask), given, self.body.read(base)
        return self.body.emit(where, operands, NO_PARAMS, value.aval)

    def _write_elementwise(self, value: Value) -> Value:
        masks = [self.masks[o] for o in value.operands if type(o) is Value and o in self.masks]
        for mask in masks[1:]:
            self._check_same(mask, masks[0])
        operands = tuple([self._operand(o) for o in value.operands])
        self.masks[value] = masks[0]
        aval = np.zeros(np.shape(masks[0].aval), value.aval.dtype)
        return self.body.emit(value.op, operands, value.params, aval)

    def _operand(self, x: Any) -> Any:
        if type(x) is Value and x in self.masks:
            return self._filled(x, 1)
        if np.ndim(operand_aval(x)):
            raise NotRollable("a selection and an array that is none")
        return self.body.read(x)

    def _filled(self, x: Value, number: int) -> Value:
        """A selection, with a number where nothing is selected."""
        if (x, number) not in self.filled:
            mask, whole = self.body.read(self.masks[x]), self.whole[x]
            other = operand_aval(whole).dtype.type(number)
            aval = np.zeros(np.shape(operand_aval(whole)), other.dtype)
            made = self.body.emit(where, (mask, whole, other), NO_PARAMS, aval)
            self.filled[x, number] = made
        return self.filled[x, number]

    def _fold(self, value: Value) -> Value:
        (x,) = value.operands
        if not self.body.iteration.symbolic.may_grow:
            raise NotRollable("code that may ask how many elements a mask selects")
        if value.params["keepdims"]:
            raise NotRollable("the sum of what a mask selects, as an array")
        terms, mask = self._filled(x, 0), self.body.read(self.masks[x])
        params = {"axis": tuple(range(terms.aval.ndim)), "keepdims": False}
        total = np.sum(terms.aval)
        made = self.body.emit(sum_, (terms,), params, total)
        if value.op is mean_:
            count = self.body.emit(mask_count, (mask,), NO_PARAMS, np.intp(0))
            made = self.body.growing.mean(made, count, np.result_type(value.aval))
        return made

    def _check_same(self, a: Value, b: Value) -> None:
        if not _are_same(a, b):
            raise NotRollable("selections by several masks")


def _are_same(a: Any, b: Any) -> bool:
    """Whether two masks, or numbers they are made of, are the same expressions of the same."""
    if a is b:
        return True
    if type(a) is not Value or type(b) is not Value:
        return type(a) is type(b) and type(a) in (int, float) and a == b
    is_same = isinstance(getattr(a.op, "lower", None), Map) and a.op is b.op and not a.params
    return is_same and not b.params and all(map(_are_same, a.operands, b.operands))
