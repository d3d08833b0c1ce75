"""Values: one result each, with the equation that made it; and lazy values.

A trace need not compute the numbers of large arrays: compiled code will (`lazy.py` decides). A
lazy value has an abstract value only, `Value.aval`: an array of the right class, shape, dtype and
strides over memory that is never written. `Value.aval` and `Value.data` are two names of one slot.
While any lazy value exists, the class attribute `data` is a `_LazyDescriptor`, which computes a
value's numbers when they are read, with those that it depends on; else `data` is the slot itself
and costs nothing extra.

Invariants
1. Code that needs numbers reads `data`; `aval` serves for class, shape, dtype, strides and memory
   overlap only.
2. The numbers are those that NumPy would have given when the equation was recorded: operands are
   values, or arrays that nothing changes.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.support import library_hooks
from tracker.support.forks import register_at_fork
from tracker.support.structs import record
from tracker.support.weakrefs import WeakIdentityDict, removing_ref

NO_PARAMS: dict[str, Any] = {}
LEAF_PARAMS: dict[str, Any] = {}  # of a leaf, also when it is closed: another dict
_epoch = 0


class Value:
    """One SSA value: `data` = `op(*operands, **params)`.

    An operand is a Value, or plain data. A leaf has `op` None; its `params` belong to its owner (a
    `ParamState` for `param`). `grad` is unset until `back` reaches the value, and `live_leaf` until
    `live_leaves.py` looks for a live leaf.
    """

    __slots__ = ("__weakref__", "data", "epoch", "grad", "live_leaf", "op", "operands", "params")
    data: Any
    aval: Any
    grad: Any
    live_leaf: Any

    def __init__(self, data: Any, op: Any, operands: tuple[Any, ...], params: Any) -> None:
        self.aval = data
        self.op = op
        self.operands = operands
        self.params = params
        self.epoch = _epoch


_slot: Any = Value.__dict__["data"]
Value.aval = _slot


def new_epoch() -> int:
    """Start an epoch. Values of older epochs cannot depend on leaves made from now on."""
    global _epoch
    _epoch += 1
    return _epoch


def current_epoch() -> int:
    """The epoch of the values that are made now."""
    return _epoch


class ParamState:
    """What a `param` owns: the gradient that `back` adds to, and its newest data, whose shape and
    dtype an untouched gradient has.

    It survives `update` of the data. Values and tracked arrays refer to it, and it to neither:
    without a cycle, a param's memory is free as soon as nothing refers to the param.
    """

    __slots__ = ("data", "grad")

    def __init__(self, data: Any) -> None:
        self.grad: Any = None
        self.data = data


CLOSED: Any = "closed"  # the op of a leaf whose derivative has run its function


def leaf(data: Any) -> Value:
    """A new leaf."""
    if len(sys.modules) != library_hooks.seen_count:
        library_hooks.run_hooks()
    return Value(data, None, (), LEAF_PARAMS)


def operand_aval(x: Any) -> Any:
    """The `aval` of an operand; a plain one itself."""
    return x.aval if type(x) is Value else x


def history_of(root: Value, stop: Container[Value] = ()) -> Iterator[Value]:
    """A value and all that it depends on, each once; not beyond the values in `stop`."""
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
    """Whether a value depends only on arrays that were allocated to be filled (`np.zeros_like(t)`):
    no gradient can be lost. To a closed leaf, a backward pass may still be on its way."""
    for current in history_of(value, _constants):
        is_leaf = current.op is not CLOSED or current.params is LEAF_PARAMS
        if is_leaf and not any(type(o) is Value for o in current.operands):
            return False
    _constants[value] = True
    return True


# Lazy values --------------------------------------------------------------------------------------


@record()
class _Thunk:
    """How to compute the numbers of one lazy value.

    sequence     smaller for values that became lazy earlier
    argument     the array that the trace was given, or a view of it, of which the value is a copy
    operands     the value's own tuple: it lives no longer (see `tracing/liveness.py`)
    arrays       copies of the plain arrays among the operands
    was_evicted  whether the numbers have been computed and freed once
    """

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
    """What a trace does when its lazy values are computed."""

    def before_read(self) -> None:
        """Lazy numbers are about to be read."""

    def own_result(self, result: Any) -> Any:
        """A result that may lie in the memory of an argument, as one that does not."""
        return result

    def on_computed(self, nbytes: int, requested: Value) -> None:
        """`nbytes` of numbers were computed, on the way to those of `requested`."""


_sequence_numbers = itertools.count()
_thunks: dict[int, _Thunk] = {}  # by the id of the value
_evictable: dict[int, _Thunk] = {}  # those that have their numbers now, for the first time
_lock = threading.RLock()  # of whether `Value.data` is the lazy descriptor
register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class _LazyDescriptor:
    """`Value.data` while there are lazy values."""

    def __get__(self, value: Value | None, _: type) -> Any:
        if value is not None and id(value) in _thunks:
            _compute(value)
        elif not _thunks:
            _remove_descriptor()
        return _slot.__get__(value, Value)

    def __set__(self, value: Value, data: Any) -> None:
        _drop_thunk(id(value))
        value.aval = data


_lazy_descriptor: Any = _LazyDescriptor()


def has_lazy_values() -> bool:
    """Whether there are lazy values, in any thread."""
    return bool(_thunks)


def is_lazy(value: Any) -> bool:
    """Whether the numbers of a value have yet to be computed."""
    return id(value) in _thunks


def is_evictable(value: Any) -> bool:
    """Whether a lazy value has been computed, once, and may be freed and computed again."""
    return id(value) in _evictable


def readonly_data(value: Value) -> Any:
    """The numbers of a value, to be read at once: for a lazy copy of an argument, the argument
    itself."""
    return _thunks[id(value)].argument if is_lazy_copy(value) else value.data


def is_lazy_copy(value: Any) -> bool:
    """Whether a value is a lazy copy of an argument of the trace, or of a view of one."""
    thunk = _thunks.get(id(value))
    return thunk is not None and thunk.argument is not None


def evict(value: Value) -> None:
    """Free the numbers of a value. They are computed again if something reads them, and then stay,
    so that a long chain of values is not computed over and over."""
    thunk = _evictable.pop(id(value))
    thunk.was_evicted = True
    thunk.reference = removing_ref(value, _thunks)
    value.aval = thunk.aval
    _add_thunk(id(value), thunk)


def keep_computed(scheduler: LazyCallbacks) -> None:
    """A trace has ended: the numbers that are there stay."""
    for key, thunk in _evictable.copy().items():  # unlike `list`, `copy` lets no value be collected
        if thunk.scheduler() in (scheduler, None):
            _evictable.pop(key, None)
    _remove_descriptor()


def lazy_values_of(scheduler: LazyCallbacks) -> list[Value]:
    """The lazy values of a trace that are alive."""
    found = [thunk.reference() for thunk in _thunks_of(scheduler)]
    return [value for value in found if value is not None]


def pending_operands(scheduler: LazyCallbacks) -> set[int]:
    """The ids of the operands of a trace's lazy values."""
    return {id(o) for thunk in _thunks_of(scheduler) for o in thunk.operands}


def _thunks_of(scheduler: LazyCallbacks) -> list[_Thunk]:
    return [thunk for thunk in list(_thunks.values()) if thunk.scheduler() is scheduler]


def make_lazy(
    value: Value,
    evaluate: Callable[..., Any],
    operands: tuple[Any, ...],
    arrays: Sequence[Any],
    params: dict[str, Any],
    scheduler: LazyCallbacks,
    argument: Any = None,
) -> None:
    """Make a value lazy: `evaluate(*operands, **params)` gives its numbers. It has its `aval`
    already.

    arrays    copies of the plain arrays among the operands
    argument  see `_Thunk`
    """
    reference, number = removing_ref(value, _thunks), next(_sequence_numbers)
    aval, scheduler_ref = value.aval, weakref.ref(scheduler)
    thunk = _Thunk(
        number, reference, aval, argument, evaluate, operands, arrays, params, scheduler_ref
    )
    _add_thunk(id(value), thunk)


def _add_thunk(key: int, thunk: _Thunk) -> None:
    with _lock:
        _thunks[key] = thunk
        if Value.__dict__["data"] is not _lazy_descriptor:
            Value.data = _lazy_descriptor  # type: ignore[misc]


def _operand_data(thunk: _Thunk) -> Iterator[Any]:
    """The numbers of the operands, all of which are computed or lazy copies of arguments."""
    arrays = iter(thunk.arrays)
    for operand in thunk.operands:
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
    """Make `Value.data` the plain slot again if no lazy value is left."""
    with _lock:
        if not _thunks:
            Value.data = _slot  # type: ignore[misc]


def _compute(value: Value) -> None:
    """Compute the numbers of a value that something reads."""
    first = _thunks.get(id(value))
    if first is None:
        return
    trace = first.scheduler()
    if trace is not None:
        trace.before_read()
    own_result = LazyCallbacks().own_result if trace is None else trace.own_result
    compute_lazy(
        value, lambda current, evaluate, data, params: own_result(evaluate(*data, **params))
    )


def compute_lazy(
    value: Value,
    evaluate_one: Callable[[Value, Callable[..., Any], Sequence[Any], Any], Any],
    *,
    is_last_read: bool = False,
) -> None:
    """Compute a value and the lazy values that it depends on.

    evaluate_one  gives the numbers of one value: called with the value, its function, the operands'
                  numbers, the parameters
    is_last_read  whether nothing will read these numbers again, so that they need not stay

    Of several operands, the one that was recorded first is computed first: the terms of a long sum
    are then not all in memory at once.
    """
    stack = [value]
    with np.errstate(all="ignore"):
        while stack:
            current = stack[-1]
            thunk = _thunks.get(id(current))
            pending = (
                [o for o in thunk.operands if is_lazy(o) and not is_lazy_copy(o)] if thunk else ()
            )
            if pending:
                stack += sorted(pending, key=lambda o: _thunks[id(o)].sequence, reverse=True)
                continue
            if thunk is not None:
                current.aval = evaluate_one(
                    current, thunk.evaluate, list(_operand_data(thunk)), thunk.params
                )
                _drop_thunk(id(current))
                trace = thunk.scheduler()
                if trace is not None:
                    if is_last_read or not thunk.was_evicted:
                        thunk.reference = removing_ref(current, _evictable)
                        _evictable[id(current)] = thunk
                    trace.on_computed(getattr(current.aval, "nbytes", 0), value)
            stack.pop()
