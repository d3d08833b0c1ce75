"""The numbers of values that were put off, computed by NumPy when nobody will ask for others.

Owns: `LastUses`, which computes the numbers of some values, and of what these are made of in as
little memory as it can: an array goes, or is overwritten by what is computed of it, when it serves
for the last time. Fresh memory takes longer to come by than most of what is computed in it. Start
at `LastUses.compute`.

Invariants
1. What a function was given is read where it lies; nothing that stays lies there.
2. The numbers of a value that can be had again are put off again; others stay (see `values.py`).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.ir.types import Type
from tracker.snapshots import own_copy
from tracker.values import Value, fill, is_due, is_met, put_off_again

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
            stack += [o for o in value.operands if is_due(o)]


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
    operand still, and one more for each time it is wanted. `seen`: values whose memory others may
    lie in. `given`: what the function was given."""

    def __init__(self, wanted: Sequence[Value]) -> None:
        self.wanted = wanted
        self.due = set(due_for(wanted))
        self.uses = Counter(wanted)
        self.seen: set[Value] = set()
        self.given: list[np.ndarray[Any, Any]] = []
        for value in self.due:
            self.uses.update(_operands(value))

    def compute(self) -> None:
        """Give those that are wanted their numbers."""
        for value in self.wanted:
            fill(value, self._one)
        for value in self.due:
            if not is_due(value) and any(np.may_share_memory(value.form, x) for x in self.given):
                value.form = own_copy(value.form)

    def _one(
        self, value: Value, evaluate: Callable[..., Any], given: Sequence[Any], params: Any
    ) -> Any:
        """The numbers of one value, after those of its operands."""
        room = self._room(value, evaluate, given)
        if not value.operands:  # a leaf, whose numbers are a copy of an argument
            result = given[0]
            self.given.append(result)
            self.seen.add(value)
        elif room is not None:
            result = _UFUNCS.get(evaluate, evaluate)(*given, out=room, **params)
        else:
            result = evaluate(*given, **params)
            if isinstance(result, np.ndarray) and not _is_own(result, given):
                self.seen |= {value, *_operands(value)}
        for operand in _operands(value):
            self.uses[operand] -= 1
            if not self.uses[operand]:
                let_go(operand)
        return result

    def _room(self, value: Value, evaluate: Callable[..., Any], given: Sequence[Any]) -> Any:
        """An operand's array that the result can take the place of; None if there is none."""
        ufunc = _UFUNCS.get(evaluate, evaluate)
        if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1:
            return None
        for operand, array in zip(value.operands, given, strict=True):
            if type(operand) is Value and self._is_last(operand) and _fits(value.form, array):
                return array
        return None

    def _is_last(self, operand: Value) -> bool:
        free = self.uses[operand] == 1 and operand in self.due and operand not in self.seen
        return free and can_go(operand)


def _operands(value: Value) -> set[Value]:
    return {operand for operand in value.operands if type(operand) is Value}


def _is_own(result: Any, given: Sequence[Any]) -> bool:
    return result.base is None and all(result is not x for x in given)


def _fits(form: Any, array: Any) -> bool:
    return (
        type(form) is type(array) is np.ndarray
        and array.nbytes >= _WORTH
        and (form.shape, form.dtype, form.strides) == (array.shape, array.dtype, array.strides)
    )
