"""The numbers of values that were put off, computed by NumPy when nobody will ask for others.

Owns: `LastUses`, which computes the numbers of some values, and of what these are made of in as
little memory as it can: an array goes, or is overwritten by what is computed of it, when it serves
for the last time. Fresh memory takes longer to come by than most of what is computed in it. Start
at `LastUses.compute`.

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

from tracker.ir.lowering import View, Writes
from tracker.ir.types import Type, type_of
from tracker.support.array_copies import own_copy
from tracker.tape.value import Value, fill, is_due, is_given, is_met, lent, put_off_again

_WORTH = 1 << 16  # bytes of an array that is worth overwriting
_UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.neg: np.negative,
}


def due_for(values: Iterable[Value]) -> Iterator[Value]:
    """The values without numbers among these and those that they are made of, each once."""
    seen, stack = set(), [value for value in values if is_due(value)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            yield value
            stack += [] if is_given(value) else [o for o in value.operands if is_due(o)]


def let_go(value: Value) -> None:
    """Put the numbers of a value off again, if they can be had again."""
    if can_go(value):
        put_off_again(value)


def can_go(value: Value) -> bool:
    """Whether the numbers of a value can be had again."""
    return is_met(value) and not any(map(_is_gone, (value, *value.operands)))


def _is_gone(operand: Any) -> bool:
    """Whether an array was let go, so that nothing can be made of it any more."""
    return type(operand) is Value and type(operand.form) is Type


class LastUses:
    """`due`: all values that are to be computed. `uses`: of how many of these a value is an
    operand still, and one more for each time it is wanted. `given`: what the function was given."""

    def __init__(self, wanted: Sequence[Value]) -> None:
        self.wanted = wanted
        self.due = set(due_for(wanted))
        self.uses = Counter(wanted)
        self.given = [lent(value) for value in self.due if is_given(value)]
        for value in self.due:
            if not is_given(value) or value in wanted:
                self.uses.update(_operands(value))

    def compute(self) -> None:
        """Give those that are wanted their numbers."""
        for value in self.wanted:
            fill(value, self._one, last=True)
        for value in self.due:
            if not is_due(value) and any(np.may_share_memory(value.form, x) for x in self.given):
                value.form = own_copy(value.form)

    def _one(
        self, value: Value, evaluate: Callable[..., Any], given: Sequence[Any], params: Any
    ) -> Any:
        """The numbers of one value, after those of its operands."""
        room = self._room(value, evaluate, given)
        if room is not None and isinstance(value.op.lower, View):
            result = room
            for number, index in _writes(value, given).parts:
                room[index] = given[number]
        elif room is not None and evaluate is np.where:
            result = _chosen(given, room)
        elif room is not None:
            result = _UFUNCS.get(evaluate, evaluate)(*given, out=room, **params)
        else:
            result = evaluate(*given, **params)
        for operand in _operands(value):
            self.uses[operand] -= 1
            if not self.uses[operand]:
                let_go(operand)
        return result

    def _room(self, value: Value, evaluate: Callable[..., Any], given: Sequence[Any]) -> Any:
        """An operand's array that the result can take the place of; None if there is none."""
        for at in _candidates(value, evaluate, given):
            last = self._is_last(value.operands[at]) and _is_alone(given, at)
            if last and _fits(value.form, given[at]):
                return given[at]
        return None

    def _is_last(self, operand: Any) -> bool:
        if type(operand) is not Value or operand not in self.due:
            return False
        return self.uses[operand] == 1 and can_go(operand)


def _operands(value: Value) -> set[Value]:
    return {operand for operand in value.operands if type(operand) is Value}


def _candidates(value: Value, evaluate: Callable[..., Any], given: Sequence[Any]) -> Iterable[int]:
    """The operands whose arrays the result could take the place of."""
    if value.op is not None and isinstance(value.op.lower, View):
        base = None if value.op.lower.writes is None else _writes(value, given).base
        return () if base is None else (base,)
    if evaluate is np.where:
        return (1, 2)
    ufunc = _UFUNCS.get(evaluate, evaluate)
    return range(len(given)) if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 else ()


def _chosen(given: Sequence[Any], room: Any) -> Any:
    """`np.where(*given)` in the memory of one of its sides."""
    takes = np.asarray(given[0], bool)
    other, where = (given[2], ~takes) if given[1] is room else (given[1], takes)
    np.copyto(room, other, where=where)
    return room


def _is_alone(given: Sequence[Any], at: int) -> bool:
    """Whether the array is an operand's only: no other array lies in it, and nobody else has it."""
    return sys.getrefcount(given[at]) <= _ALONE and given[at].base is None


def _writes(value: Value, given: Sequence[Any]) -> Writes:
    """What a view that is put together of pieces is made of."""
    found: Writes = value.op.lower.writes(*map(type_of, given), **value.params)
    return found


def _fits(form: Any, array: Any) -> bool:
    return (
        type(form) is type(array) is np.ndarray
        and array.nbytes >= _WORTH
        and (form.shape, form.dtype, form.strides) == (array.shape, array.dtype, array.strides)
    )


def _references_if_alone() -> int:
    """How many references there are to the array of an operand that nobody else has."""
    operand = Value(np.zeros(1), None, (), {})
    given = [operand.form]
    return sys.getrefcount(given[0])


_ALONE = _references_if_alone()
