"""The numbers of values that were put off, computed by NumPy when nobody will ask for others.

Owns: `LastUseSchedule`, which computes the numbers of some values, and of what these are made of in
as little memory as it can: an array goes, or is overwritten by what is computed of it, when it
serves for the last time. Fresh memory takes longer to come by than most of what is computed in it.
Start at `LastUseSchedule.compute`.

Invariants
1. What a function was given is read where it lies; nothing that stays lies there.
2. The numbers of a value that can be had again are put off again; others stay (see `value.py`).
"""

from __future__ import annotations

import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.ir.lowering import SliceWrites, View
from tracker.ir.types import Type, type_of
from tracker.support.array_copies import copy_with_layout
from tracker.tape.value import (
    Value,
    compute_lazy,
    evict,
    is_evictable,
    is_lazy,
    is_lazy_copy,
    readonly_data,
)

_WORTH = 1 << 16  # bytes of an array that is worth overwriting
_UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.neg: np.negative,
}


def lazy_history(values: Iterable[Value]) -> Iterator[Value]:
    """The values without numbers among these and those that they are made of, each once."""
    seen, stack = set(), [value for value in values if is_lazy(value)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            yield value
            stack += [] if is_lazy_copy(value) else [o for o in value.operands if is_lazy(o)]


def evict_if_possible(value: Value) -> None:
    """Put the numbers of a value off again, if they can be had again."""
    if can_evict(value):
        evict(value)


def can_evict(value: Value) -> bool:
    """Whether the numbers of a value can be had again."""
    return is_evictable(value) and not any(map(_is_freed, (value, *value.operands)))


def _is_freed(operand: Any) -> bool:
    """Whether an array was let go, so that nothing can be made of it any more."""
    return type(operand) is Value and type(operand.aval) is Type


class LastUseSchedule:
    """`pending`: all values that are to be computed. `uses`: of how many of these a value is an
    operand still, and one more for each time it is wanted. `argument_arrays`: what the function was
    given."""

    def __init__(self, wanted: Sequence[Value]) -> None:
        self.requested = wanted
        self.pending = set(lazy_history(wanted))
        self.uses = Counter(wanted)
        self.argument_arrays = [
            readonly_data(value) for value in self.pending if is_lazy_copy(value)
        ]
        for value in self.pending:
            if not is_lazy_copy(value) or value in wanted:
                self.uses.update(_operands(value))

    def compute(self) -> None:
        """Give those that are wanted their numbers."""
        for value in self.requested:
            compute_lazy(value, self._compute_one, is_last_read=True)
        for value in self.pending:
            if not is_lazy(value) and any(
                np.may_share_memory(value.aval, x) for x in self.argument_arrays
            ):
                value.aval = copy_with_layout(value.aval)

    def _compute_one(
        self, value: Value, evaluate: Callable[..., Any], data: Sequence[Any], params: Any
    ) -> Any:
        """The numbers of one value, after those of its operands."""
        room = self._reusable_buffer(value, evaluate, data)
        if room is not None and isinstance(value.op.lower, View):
            result = room
            for number, index in _view_writes(value, data).parts:
                room[index] = data[number]
        elif room is not None and evaluate is np.where:
            result = _where_into(data, room)
        elif room is not None:
            result = _UFUNCS.get(evaluate, evaluate)(*data, out=room, **params)
        else:
            result = evaluate(*data, **params)
        for operand in _operands(value):
            self.uses[operand] -= 1
            if not self.uses[operand]:
                evict_if_possible(operand)
        return result

    def _reusable_buffer(
        self, value: Value, evaluate: Callable[..., Any], data: Sequence[Any]
    ) -> Any:
        """An operand's array that the result can take the place of; None if there is none."""
        for at in _reuse_candidates(value, evaluate, data):
            last = self._is_last_use(value.operands[at]) and _is_unshared(data, at)
            if last and _has_same_layout(value.aval, data[at]):
                return data[at]
        return None

    def _is_last_use(self, operand: Any) -> bool:
        if type(operand) is not Value or operand not in self.pending:
            return False
        return self.uses[operand] == 1 and can_evict(operand)


def _operands(value: Value) -> set[Value]:
    return {operand for operand in value.operands if type(operand) is Value}


def _reuse_candidates(
    value: Value, evaluate: Callable[..., Any], data: Sequence[Any]
) -> Iterable[int]:
    """The operands whose arrays the result could take the place of."""
    if value.op is not None and isinstance(value.op.lower, View):
        base = None if value.op.lower.writes is None else _view_writes(value, data).base
        return () if base is None else (base,)
    if evaluate is np.where:
        return (1, 2)
    ufunc = _UFUNCS.get(evaluate, evaluate)
    return range(len(data)) if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 else ()


def _where_into(data: Sequence[Any], buffer: Any) -> Any:
    """`np.where(*argument_arrays)` in the memory of one of its sides."""
    takes = np.asarray(data[0], bool)
    other, where = (data[2], ~takes) if data[1] is buffer else (data[1], takes)
    np.copyto(buffer, other, where=where)
    return buffer


def _is_unshared(data: Sequence[Any], index: int) -> bool:
    """Whether the array is an operand's only: no other array lies in it, and nobody else has it."""
    return sys.getrefcount(data[index]) <= _UNSHARED_REFCOUNT and data[index].base is None


def _view_writes(value: Value, data: Sequence[Any]) -> SliceWrites:
    """What a view that is put together of pieces is made of."""
    found: SliceWrites = value.op.lower.writes(*map(type_of, data), **value.params)
    return found


def _has_same_layout(aval: Any, array: Any) -> bool:
    return (
        type(aval) is type(array) is np.ndarray
        and array.nbytes >= _WORTH
        and (aval.shape, aval.dtype, aval.strides) == (array.shape, array.dtype, array.strides)
    )


def _measure_unshared_refcount() -> int:
    """How many references there are to the array of an operand that nobody else has."""
    operand = Value(np.zeros(1), None, (), {})
    given = [operand.aval]
    return sys.getrefcount(given[0])


_UNSHARED_REFCOUNT = _measure_unshared_refcount()
