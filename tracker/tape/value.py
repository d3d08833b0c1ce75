"""The values of the tape, and those of a trace whose numbers have not been computed.

Owns: `Value` (one SSA value: its data and the equation that made it), leaves, epochs, and the door
through which data is read: `Value.data`. Start at `Value`, then `make_lazy`.

While a function is traced, the numbers of large arrays are put off: machine code will compute them
(`lazy.py` says which). Such a value has a *form* only: an array in NumPy's layout, of memory
that nobody has written. `Value.aval` and `Value.data` are two names of one slot. As long as there
is a value without numbers, a `_LazyDescriptor` stands in the place of the second name, and computes
the numbers of a value that is asked for them: its equation and those before it, through NumPy.

Invariants
1. Whoever wants numbers reads `data`; `aval` is for type, shape, dtype, layout and sharing only.
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
from tracker.support.weakrefs import WeakIdentityDict, removing_ref

NO_PARAMS: dict[str, Any] = {}
_epoch = 0


class Value:
    """One SSA value: `data`, made by `op(*operands, **params)`.

    An operand is a Value, or plain data. A leaf has `op` None; what `params` holds then is its
    owner's business (a `Leaf` for `param`). `grad` is unset until a `back` reaches the value, and
    `origin` until somebody asks for it (`reachability.py`). `aval` is `data`, for those who do not
    look at the numbers (see the file's header).
    """

    __slots__ = ("__weakref__", "data", "epoch", "grad", "op", "operands", "origin", "params")
    data: Any
    aval: Any
    grad: Any
    origin: Any

    def __init__(self, data: Any, op: Any, operands: tuple[Any, ...], params: Any) -> None:
        self.aval = data
        self.op = op
        self.operands = operands
        self.params = params
        self.epoch = _epoch


_slot: Any = Value.__dict__["data"]
Value.aval = _slot


def new_epoch() -> int:
    """Start an epoch: leaves made from now on are out of reach of older values."""
    global _epoch
    _epoch += 1
    return _epoch


CLOSED: Any = "closed"  # the op of a leaf whose derivative has finished running the function


def leaf(data: Any) -> Value:
    """A fresh leaf."""
    return Value(data, None, (), NO_PARAMS)


def history_of(root: Value, stop: Container[Value] = ()) -> Iterator[Value]:
    """A value and all that it was made of, each once; nothing beyond those that are `stop`."""
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        if value in stop:
            continue
        yield value
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)


_constants: WeakIdentityDict[bool] = WeakIdentityDict()  # found to be constant, and so for good


def is_constant(value: Value) -> bool:
    """Whether a value is made of nothing but arrays that were allocated to be filled: there is no
    gradient to lose."""
    for at in history_of(value, _constants):
        if at.op is not CLOSED and not any(type(o) is Value for o in at.operands):
            return False
    _constants[value] = True
    return True


# Values whose numbers are put off -----------------------------------------------------------------


@record()
class _Thunk:
    """How the numbers of a value are computed, while it lives; and the trace that has put them
    off, as long as it goes on. `sequence`: what was put off before has a smaller one. `operands` is
    the value's own tuple, so that nothing is held for longer than by the value (see
    `liveness.py`); `arrays` are copies of the arrays in it; `aval` is what the value has as long
    as it has no numbers; `readonly_data`: the array that the trace was given (or a view of it),
    whose numbers they are; `was_evicted`: whether it had some before."""

    sequence: int
    reference: weakref.ref[Value]
    aval: Any
    argument: Any
    evaluate: Callable[..., Any]
    operands: tuple[Any, ...]
    arrays: Sequence[Any]
    params: dict[str, Any]
    scheduler: weakref.ref[LazyCallbacks]
    was_evicted: bool = False


class LazyCallbacks:
    """What a trace does about the values that it has put off."""

    def before_read(self) -> None:
        """Somebody needs numbers."""

    def own_result(self, result: Any) -> Any:
        """What an equation gave that may have read what the trace was given."""
        return result

    def on_computed(self, nbytes: int, requested: Value) -> None:
        """So many bytes of them are there now: of a value that is wanted, or of what it is made
        of."""


_sequence_numbers = itertools.count()
_thunks: dict[int, _Thunk] = {}  # by the id of the value
_evictable: dict[int, _Thunk] = {}  # those that have their numbers now, for the first time
_lock = threading.RLock()  # of whether the door stands
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class _LazyDescriptor:
    """`Value.data` while there are values without numbers."""

    def __get__(self, value: Value | None, _: type) -> Any:
        if value is not None and id(value) in _thunks:
            _fill(value)
        elif not _thunks:
            _remove_descriptor()
        return _slot.__get__(value, Value)

    def __set__(self, value: Value, data: Any) -> None:
        _drop_thunk(id(value))
        value.aval = data


_lazy_descriptor: Any = _LazyDescriptor()


def has_lazy_values() -> bool:
    """Whether there are values without numbers."""
    return bool(_thunks)


def is_lazy(value: Any) -> bool:
    """Whether the numbers of a value have yet to be computed."""
    return id(value) in _thunks


def is_evictable(value: Any) -> bool:
    """Whether numbers were put off, and are there now, and may be put off again."""
    return id(value) in _evictable


def readonly_data(value: Value) -> Any:
    """The numbers of a value for somebody who only reads them, and only now: of what a trace was
    given there need not be a copy for that."""
    return _thunks[id(value)].argument if is_lazy_copy(value) else value.data


def is_lazy_copy(value: Any) -> bool:
    """Whether a value is to be a copy of what a trace was given, or of a view of it."""
    due = _thunks.get(id(value))
    return due is not None and due.argument is not None


def evict(value: Value) -> None:
    """Free the numbers of a value: they are computed anew if somebody asks for them, and then they
    stay, so that a long chain of values is not computed over and over."""
    due = _evictable.pop(id(value))
    due.was_evicted = True
    due.reference = removing_ref(value, _thunks)
    value.aval = due.aval
    _add_thunk(id(value), due)


def keep_computed(scheduler: LazyCallbacks) -> None:
    """A trace is over: the numbers that are there stay."""
    for key in [
        key for key, due in list(_evictable.items()) if due.scheduler() in (scheduler, None)
    ]:
        _evictable.pop(key, None)
    _remove_descriptor()


def lazy_values_of(scheduler: LazyCallbacks) -> list[Value]:
    """The values that a trace has put off, and that are alive and without numbers."""
    found = [due.reference() for due in list(_thunks.values()) if due.scheduler() is scheduler]
    return [value for value in found if value is not None]


def pending_operands(scheduler: LazyCallbacks) -> set[int]:
    """The ids of the values that those are made of which a trace has put off."""
    dues = [due for due in list(_thunks.values()) if due.scheduler() is scheduler]
    return {id(o) for due in dues for o in due.operands}


def make_lazy(
    value: Value,
    evaluate: Callable[..., Any],
    operands: tuple[Any, ...],
    arrays: Sequence[Any],
    params: dict[str, Any],
    scheduler: LazyCallbacks,
    argument: Any = None,
) -> None:
    """The numbers of a value, whose form it has, are those of `evaluate(*operands, **params)`, and
    are computed when they are asked for; of `arrays`, which nobody changes, in the places of those
    operands that are arrays. `readonly_data`: see `readonly_data`."""
    alive, number = removing_ref(value, _thunks), next(_sequence_numbers)
    form, of = value.aval, weakref.ref(scheduler)
    due = _Thunk(number, alive, form, argument, evaluate, operands, arrays, params, of)
    _add_thunk(id(value), due)


def _sequence_of(value: Any) -> int:
    return _thunks[id(value)].sequence


def _add_thunk(key: int, thunk: _Thunk) -> None:
    with _lock:
        _thunks[key] = thunk
        if Value.__dict__["data"] is not _lazy_descriptor:
            Value.data = _lazy_descriptor  # type: ignore[misc]


def _given(due: _Thunk) -> Iterator[Any]:
    """The operands, all of which have their numbers, or are given."""
    arrays = iter(due.arrays)
    for operand in due.operands:
        if type(operand) is Value:
            yield readonly_data(operand) if is_lazy_copy(operand) else operand.aval
        else:
            yield next(arrays) if type(operand) is np.ndarray else operand


def _drop_thunk(key: int) -> None:
    """A value has its numbers, for good."""
    _evictable.pop(key, None)
    if _thunks.pop(key, None) is not None and not _thunks:
        _remove_descriptor()


def _remove_descriptor() -> None:
    """Take the door away if no value is without numbers: the last has got its own, or is gone."""
    with _lock:
        if not _thunks:
            Value.data = _slot  # type: ignore[misc]


def _fill(value: Value) -> None:
    """Compute the numbers of a value that somebody asks for."""
    first = _thunks.get(id(value))
    if first is None:
        return
    trace = first.scheduler()
    if trace is not None:
        trace.before_read()
    kept = LazyCallbacks().own_result if trace is None else trace.own_result
    compute_lazy(value, lambda at, evaluate, given, params: kept(evaluate(*given, **params)))


def compute_lazy(
    value: Value,
    evaluate_one: Callable[[Value, Callable[..., Any], Sequence[Any], Any], Any],
    *,
    is_last_read: bool = False,
) -> None:
    """Compute the numbers of a value, and of those that it is made of. `evaluate_one` gives those
    of one value: of its function, the operands' numbers, and the parameters. `is_last_read`: nobody
    is going to ask for them again, so they need not stay. Of several operands, the one that was
    recorded first is computed first: the pieces of a long sum wait for their turn, and do not lie
    about."""
    todo = [value]
    with np.errstate(all="ignore"):
        while todo:
            at = todo[-1]
            due = _thunks.get(id(at))
            before = [o for o in due.operands if is_lazy(o) and not is_lazy_copy(o)] if due else ()
            if before:
                todo += sorted(before, key=_sequence_of, reverse=True)
                continue
            if due is not None:
                at.aval = evaluate_one(at, due.evaluate, list(_given(due)), due.params)
                _drop_thunk(id(at))
                trace = due.scheduler()
                if trace is not None:
                    if is_last_read or not due.was_evicted:
                        due.reference = removing_ref(at, _evictable)
                        _evictable[id(at)] = due
                    trace.on_computed(getattr(at.aval, "nbytes", 0), value)
            todo.pop()
