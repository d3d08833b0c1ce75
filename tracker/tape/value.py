"""The values of the tape, and those of a trace whose numbers have not been computed.

Owns: `Value` (one SSA value: its data and the equation that made it), leaves, epochs, and the door
through which data is read: `Value.data`. Start at `Value`, then `postpone`.

While a function is traced, the numbers of large arrays are put off: machine code will compute them
(`lazy.py` says which). Such a value has a *form* only: an array in NumPy's layout, of memory
that nobody has written. `Value.form` and `Value.data` are two names of one slot. As long as there
is a value without numbers, a `_Door` stands in the place of the second name, and computes the
numbers of a value that is asked for them: its equation and those before it, through NumPy.

Invariants
1. Whoever wants numbers reads `data`; `form` is for type, shape, dtype, layout and sharing only.
2. The numbers are those that NumPy would have given when the equation was recorded: operands are
   values, or arrays that nobody changes.
3. Nothing is in the way where nothing is put off: then `data` is the slot itself.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.support.structs import record
from tracker.support.weakrefs import WeakTable, weak

NO_PARAMS: dict[str, Any] = {}
_epoch = 0


class Value:
    """One SSA value: `data`, made by `op(*operands, **params)`.

    An operand is a Value, or plain data. A leaf has `op` None; what `params` holds then is its
    owner's business (a `Leaf` for `param`). `grad` is unset until a `back` reaches the value, and
    `origin` until somebody asks for it (`reachability.py`). `form` is `data`, for those who do not
    look at the numbers (see the file's header).
    """

    __slots__ = ("__weakref__", "data", "epoch", "grad", "op", "operands", "origin", "params")
    data: Any
    form: Any
    grad: Any
    origin: Any

    def __init__(self, data: Any, op: Any, operands: tuple[Any, ...], params: Any) -> None:
        self.form = data
        self.op = op
        self.operands = operands
        self.params = params
        self.epoch = _epoch


_slot: Any = Value.__dict__["data"]
Value.form = _slot


def new_epoch() -> int:
    """Start an epoch: leaves made from now on are out of reach of older values."""
    global _epoch
    _epoch += 1
    return _epoch


CLOSED: Any = "closed"  # the op of a leaf whose derivative has finished running the function


def leaf(data: Any) -> Value:
    """A fresh leaf."""
    return Value(data, None, (), NO_PARAMS)


def made_of(root: Value, known: Container[Value] = ()) -> Iterator[Value]:
    """A value and all that it was made of, each once; nothing beyond those that are `known`."""
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        if value in known:
            continue
        yield value
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)


_constants: WeakTable[bool] = WeakTable()  # found to be constant, and so for good


def is_constant(value: Value) -> bool:
    """Whether a value is made of nothing but arrays that were allocated to be filled: there is no
    gradient to lose."""
    for at in made_of(value, _constants):
        if at.op is not CLOSED and not any(type(o) is Value for o in at.operands):
            return False
    _constants[value] = True
    return True


# Values whose numbers are put off -----------------------------------------------------------------


@record()
class _Due:
    """How the numbers of a value are computed, while it lives; and the trace that has put them
    off, as long as it goes on. `number`: what was put off before has a smaller one. `operands` is
    the value's own tuple, so that nothing is held for longer than by the value (see
    `liveness.py`); `arrays` are copies of the arrays in it; `form` is what the value has as long
    as it has no numbers; `lent`: the array that the trace was given (or a view of it), whose
    numbers they are; `again`: whether it had some before."""

    number: int
    alive: weakref.ref[Value]
    form: Any
    lent: Any
    evaluate: Callable[..., Any]
    operands: tuple[Any, ...]
    arrays: Sequence[Any]
    params: dict[str, Any]
    trace: weakref.ref[Postponed]
    again: bool = False


class Postponed:
    """What a trace does about the values that it has put off."""

    def asked(self) -> None:
        """Somebody needs numbers."""

    def kept(self, result: Any) -> Any:
        """What an equation gave that may have read what the trace was given."""
        return result

    def computed(self, nbytes: int, wanted: Value) -> None:
        """So many bytes of them are there now: of a value that is wanted, or of what it is made
        of."""


_numbers = itertools.count()
_due: dict[int, _Due] = {}  # by the id of the value
_met: dict[int, _Due] = {}  # those that have their numbers now, for the first time
_lock = threading.RLock()  # of whether the door stands
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class _Door:
    """`Value.data` while there are values without numbers."""

    def __get__(self, value: Value | None, _: type) -> Any:
        if value is not None and id(value) in _due:
            _fill(value)
        elif not _due:
            _close()
        return _slot.__get__(value, Value)

    def __set__(self, value: Value, data: Any) -> None:
        _settle(id(value))
        value.form = data


_door: Any = _Door()


def is_anything_due() -> bool:
    """Whether there are values without numbers."""
    return bool(_due)


def is_due(value: Any) -> bool:
    """Whether the numbers of a value have yet to be computed."""
    return id(value) in _due


def is_met(value: Any) -> bool:
    """Whether numbers were put off, and are there now, and may be put off again."""
    return id(value) in _met


def lent(value: Value) -> Any:
    """The numbers of a value for somebody who only reads them, and only now: of what a trace was
    given there need not be a copy for that."""
    return _due[id(value)].lent if is_given(value) else value.data


def is_given(value: Any) -> bool:
    """Whether a value is to be a copy of what a trace was given, or of a view of it."""
    due = _due.get(id(value))
    return due is not None and due.lent is not None


def put_off_again(value: Value) -> None:
    """Free the numbers of a value: they are computed anew if somebody asks for them, and then they
    stay, so that a long chain of values is not computed over and over."""
    due = _met.pop(id(value))
    due.again = True
    due.alive = weak(value, _due)
    value.form = due.form
    _put_off(id(value), due)


def forget(trace: Postponed) -> None:
    """A trace is over: the numbers that are there stay."""
    for key in [key for key, due in list(_met.items()) if due.trace() in (trace, None)]:
        _met.pop(key, None)
    _close()


def put_off_by(trace: Postponed) -> list[Value]:
    """The values that a trace has put off, and that are alive and without numbers."""
    found = [due.alive() for due in list(_due.values()) if due.trace() is trace]
    return [value for value in found if value is not None]


def awaited_by(trace: Postponed) -> set[int]:
    """The ids of the values that those are made of which a trace has put off."""
    dues = [due for due in list(_due.values()) if due.trace() is trace]
    return {id(o) for due in dues for o in due.operands}


def postpone(
    value: Value,
    evaluate: Callable[..., Any],
    operands: tuple[Any, ...],
    arrays: Sequence[Any],
    params: dict[str, Any],
    trace: Postponed,
    lent: Any = None,
) -> None:
    """The numbers of a value, whose form it has, are those of `evaluate(*operands, **params)`, and
    are computed when they are asked for; of `arrays`, which nobody changes, in the places of those
    operands that are arrays. `lent`: see `lent`."""
    alive, number = weak(value, _due), next(_numbers)
    form, of = value.form, weakref.ref(trace)
    due = _Due(number, alive, form, lent, evaluate, operands, arrays, params, of)
    _put_off(id(value), due)


def _number(value: Any) -> int:
    return _due[id(value)].number


def _put_off(key: int, due: _Due) -> None:
    with _lock:
        _due[key] = due
        if Value.__dict__["data"] is not _door:
            Value.data = _door  # type: ignore[misc]


def _given(due: _Due) -> Iterator[Any]:
    """The operands, all of which have their numbers, or are given."""
    arrays = iter(due.arrays)
    for operand in due.operands:
        if type(operand) is Value:
            yield lent(operand) if is_given(operand) else operand.form
        else:
            yield next(arrays) if type(operand) is np.ndarray else operand


def _settle(key: int) -> None:
    """A value has its numbers, for good."""
    _met.pop(key, None)
    if _due.pop(key, None) is not None and not _due:
        _close()


def _close() -> None:
    """Take the door away if no value is without numbers: the last has got its own, or is gone."""
    with _lock:
        if not _due:
            Value.data = _slot  # type: ignore[misc]


def _fill(value: Value) -> None:
    """Compute the numbers of a value that somebody asks for."""
    first = _due.get(id(value))
    if first is None:
        return
    trace = first.trace()
    if trace is not None:
        trace.asked()
    kept = Postponed().kept if trace is None else trace.kept
    fill(value, lambda at, evaluate, given, params: kept(evaluate(*given, **params)))


def fill(
    value: Value,
    one: Callable[[Value, Callable[..., Any], Sequence[Any], Any], Any],
    *,
    last: bool = False,
) -> None:
    """Compute the numbers of a value, and of those that it is made of. `one` gives those of one
    value: of its function, the operands' numbers, and the parameters. `last`: nobody is going to
    ask for them again, so they need not stay. Of several operands, the one that was recorded first
    is computed first: the pieces of a long sum wait for their turn, and do not lie about."""
    todo = [value]
    with np.errstate(all="ignore"):
        while todo:
            at = todo[-1]
            due = _due.get(id(at))
            before = [o for o in due.operands if is_due(o) and not is_given(o)] if due else ()
            if before:
                todo += sorted(before, key=_number, reverse=True)
                continue
            if due is not None:
                at.form = one(at, due.evaluate, list(_given(due)), due.params)
                _settle(id(at))
                trace = due.trace()
                if trace is not None:
                    if last or not due.again:
                        due.alive = weak(at, _met)
                        _met[id(at)] = due
                    trace.computed(getattr(at.form, "nbytes", 0), value)
            todo.pop()
