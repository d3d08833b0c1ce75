"""In-place writes: `x[index] = part` without a copy of x, where nothing else can see the old array.

`write_in_place` compares reference counts with those of a tracked array that nothing else refers to
(`_unshared_counts`). The equation's params are an `InPlaceParams`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tracker.ir.op import LINEAR, Op
from tracker.tape.observers import observers
from tracker.tape.record import recorded_operand
from tracker.tape.value import CLOSED, NO_PARAMS, Value

_ndarray = np.ndarray


class InPlaceParams(dict[str, Any]):
    """Params of a write that was made in its first operand's own array, of which it overwrote a
    part.

    `holders`: how many values of the history share the array. Each of them is an operand of the
    next and of nothing else, so nothing can read what a later write overwrote. Derivative rules of
    such a write use the operand's shape and dtype only.
    """

    __slots__ = ("holders",)

    def __init__(self, params: dict[str, Any], holders: int) -> None:
        super().__init__(params)
        self.holders = holders


def write_in_place(op: Op, tracked: Any, part: Any, index: Any) -> bool:
    """As `tracked._value = op(tracked, part)` for the op `x[index] = part` on a copy of x, but
    without the copy. Returns False, and does nothing, where something else can see the array."""
    if observers or not tracked._value or part is tracked:  # x[::-1] = x reads what it overwrites
        return False
    params = tracked._value.params
    holders = params.holders if type(params) is InPlaceParams else 1
    if _reference_counts(tracked) != (_unshared_counts[0], _unshared_counts[1] + holders - 1):
        return False
    value = tracked._value
    if value.op is not op and not _rules_allow_overwrite(value.op):
        return False
    array = value.data
    if type(array) is not _ndarray or array.base is not None or not array.flags.writeable:
        return False
    operand = recorded_operand(part, op)
    array[index] = operand.data if type(operand) is Value else operand
    made = Value(array, op, (value, operand), InPlaceParams({"index": index}, holders + 1))
    tracked._value = made
    return True


def _rules_allow_overwrite(op: Any) -> bool:
    """Whether the derivative rules of the op that made a value read its elements elementwise at
    most: no cotangent reaches an overwritten element, and no tangent leaves it. The rules of an
    inverse or of a maximum, say, need all of them."""
    if not isinstance(op, Op):
        return op is None or op is CLOSED
    return op.partials is not None or op.jvp == LINEAR


def _reference_counts(tracked: Any) -> tuple[int, int]:
    """How many references the value of a tracked array has, and the value's array."""
    value = tracked._value
    array = value.data
    return sys.getrefcount(value), sys.getrefcount(array)


class _RefcountProbe:
    def __init__(self) -> None:
        self._value = Value(np.zeros(1), None, (), NO_PARAMS)


_unshared_counts = _reference_counts(
    _RefcountProbe()
)  # of a tracked array that nothing else refers to
