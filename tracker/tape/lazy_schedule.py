"""Compute lazy values in little memory, when nothing will read others afterwards.

`LastUseSchedule` frees an array after its last use, or writes the result into it: to get fresh
memory from the system takes longer than most elementwise ops. Start at `LastUseSchedule.compute`.

Invariants
1. Arguments are read where they lie; no result lies in their memory.
2. Numbers that can be computed again are evicted; others stay (see `value.py`).
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

_MIN_REUSED_BYTES = 1 << 16  # bytes of an array that is worth overwriting
_UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.neg: np.negative,
}


def lazy_history(values: Iterable[Value]) -> Iterator[Value]:
    """The lazy values among these and those that they depend on, each once."""
    seen, stack = set(), [value for value in values if is_lazy(value)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            yield value
            stack += [] if is_lazy_copy(value) else [o for o in value.operands if is_lazy(o)]


def evict_if_possible(value: Value) -> None:
    """Evict the numbers of a value, if they can be computed again."""
    if can_evict(value):
        evict(value)


def can_evict(value: Value) -> bool:
    """Whether the numbers of a value can be computed again."""
    return is_evictable(value) and not any(map(_is_freed, (value, *value.operands)))


def _is_freed(operand: Any) -> bool:
    """Whether an array was freed, so that nothing can be computed from it."""
    return type(operand) is Value and type(operand.aval) is Type


class LastUseSchedule:
    """Computes values, and frees or overwrites each array after its last use.

    requested  the values to be computed
    pending    all lazy values that these depend on
    uses       how many pending values still need a value, plus one where it is requested
    """

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
        """Compute the requested values."""
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
        """The numbers of one value, given those of its operands."""
        buffer = self._reusable_buffer(value, evaluate, data)
        if buffer is not None and isinstance(value.op.lower, View):
            result = buffer
            for number, index in _view_writes(value, data).parts:
                buffer[index] = data[number]
        elif buffer is not None and evaluate is np.where:
            result = _where_into(data, buffer)
        elif buffer is not None:
            result = _UFUNCS.get(evaluate, evaluate)(*data, out=buffer, **params)
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
        """An operand's array that the result may be written into, or None."""
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
    """The operands whose arrays the result could be written into."""
    if value.op is not None and isinstance(value.op.lower, View):
        base = None if value.op.lower.writes is None else _view_writes(value, data).base
        return () if base is None else (base,)
    if evaluate is np.where:
        return (1, 2)
    ufunc = _UFUNCS.get(evaluate, evaluate)
    return range(len(data)) if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 else ()


def _where_into(data: Sequence[Any], buffer: Any) -> Any:
    """`np.where(*data)` in the memory of one of its branches."""
    takes = np.asarray(data[0], bool)
    other, where = (data[2], ~takes) if data[1] is buffer else (data[1], takes)
    np.copyto(buffer, other, where=where)
    return buffer


def _is_unshared(data: Sequence[Any], index: int) -> bool:
    """Whether nothing else refers to an operand's array, or to its memory."""
    return sys.getrefcount(data[index]) <= _UNSHARED_REFCOUNT and data[index].base is None


def _view_writes(value: Value, data: Sequence[Any]) -> SliceWrites:
    """The base and the parts of a view that is assembled by writes."""
    found: SliceWrites = value.op.lower.writes(*map(type_of, data), **value.params)
    return found


def _has_same_layout(aval: Any, array: Any) -> bool:
    return (
        type(aval) is type(array) is np.ndarray
        and array.nbytes >= _MIN_REUSED_BYTES
        and (aval.shape, aval.dtype, aval.strides) == (array.shape, array.dtype, array.strides)
    )


def _measure_unshared_refcount() -> int:
    """The reference count of an operand's array that nothing else refers to."""
    operand = Value(np.zeros(1), None, (), {})
    holder = [operand.aval]
    return sys.getrefcount(holder[0])


_UNSHARED_REFCOUNT = _measure_unshared_refcount()
