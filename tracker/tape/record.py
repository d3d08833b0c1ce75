"""Recording: the dispatch point that every op on tracked arrays goes through.

`apply` evaluates an op on the plain data of its operands and makes a `Value` (`value.py`) that
refers to the operands' values. `apply_unary` and `apply_binary` are its fast versions. If anything
observes recording (`observers.py`), the equation goes through `_apply_observed`, where a trace may
make the result lazy (`tracing/lazy.py`). `replay` runs an `ir.Function` step by step, on plain
data or recorded again.

There is no global tape. A value holds the values it was made from, so history lives exactly as long
as something can reach it. A leaf is a value whose `op` is None. When the derivative that made the
leaf has run its function, the leaf is closed (`op` becomes `CLOSED`), and is a constant for every
other derivative.

Invariants
1. `Value.data` is always plain (a number or an array), whatever derivatives are being taken.
2. A value does not change after it was made, except that leaves close, a backward pass may free
   history (`reverse.sweep`), and a write may reuse the array of a value that nothing else can read
   (`ops/indexing/subscripts.py`).
3. A plain array on the tape is a private copy, so that later writes by its owner cannot reach it;
   while tracing it is kept by reference, since compiled code reads it afresh on every call.
4. `epoch` never decreases: a value cannot depend on a leaf of a later epoch.
5. Without observers, recording pays nothing for them but the look at one list.
6. A replay does what the traced code did; if a guard does not hold for these values, or a Python
   number becomes complex, `ReplayDiverged` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import mul
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError, message
from tracker.ir.graph import Atom, Const, Function, Guard, Var
from tracker.ir.lowering import Branch, Host, Iota, Loop, While
from tracker.ir.op import Op
from tracker.support.array_copies import snapshot
from tracker.support.array_likes import array_of_labelled
from tracker.support.errstate import warn_at_user_line
from tracker.tape.labels import DIFFERING, check_alike, check_labels, note_labels
from tracker.tape.observers import observers, thread_state
from tracker.tape.tracing.lazy import lies_in, may_overlap
from tracker.tape.tracing.placeholders import PLACEHOLDERS, may_need_resolving, resolve_placeholder
from tracker.tape.tracing.tracer import (
    Tracer,
    UnsupportedInBody,
    at_origins,
    current_stop_gradient,
    current_tracer,
    notify_observers,
    record_op_failure,
)
from tracker.tape.value import CLOSED, NO_PARAMS, Value, has_lazy_values, is_lazy

_ndarray = np.ndarray
_new = object.__new__
_Tracked: Any = object


def set_tracked_class(cls: type) -> None:
    """Set the class of tracked arrays (`Tracked` calls this once, at import)."""
    global _Tracked
    _Tracked = cls


def wrap(value: Value) -> Any:
    """A tracked array with this value."""
    tracked: Any = _new(_Tracked)
    tracked._value = value
    return tracked


def value_of(tracked: Any) -> Value:
    """The current value of a tracked array (a view is first read again from its base)."""
    value: Value = tracked._value or tracked._refresh()
    return value


def data_of(x: Any) -> Any:
    """The plain data of a tracked array; anything else as it is."""
    if PLACEHOLDERS and may_need_resolving():
        x = resolve_placeholder(x)
    return value_of(x).data if type(x) is _Tracked else x


def has_lazy_data(x: Any) -> bool:
    """Whether the numbers of a tracked array have yet to be computed."""
    return type(x) is _Tracked and is_lazy(value_of(x))


def aval_of(x: Any) -> Any:
    """As `data_of`, where only class, shape, dtype or strides matter."""
    if PLACEHOLDERS and may_need_resolving():
        x = resolve_placeholder(x)
    return value_of(x).aval if type(x) is _Tracked else x


def shares_memory(part: Any, whole: Any) -> bool:
    """Whether an array lies in the memory of another, as far as its bounds tell."""
    if type(part) is _Tracked and type(whole) is _Tracked:
        return lies_in(value_of(part), value_of(whole))
    return may_overlap(aval_of(part), aval_of(whole))


def shape_of(x: Any) -> tuple[int, ...]:
    """`np.shape(x)`, fast: derivative rules call it at every step."""
    aval = aval_of(x)
    return aval.shape if type(aval) is _ndarray else np.shape(aval)


def apply_unary(op: Op, a: Any) -> Any:
    """Record `op(a)` for a tracked `a`: the fast way for an elementwise op without params."""
    if PLACEHOLDERS and may_need_resolving() and resolve_placeholder(a) is not a:
        return op.evaluate(resolve_placeholder(a))
    value = a._value or a._refresh()
    if observers:
        return _apply_observed(op, (value,), NO_PARAMS)
    try:
        data = op.evaluate(value.data)
    except RuntimeWarning as warning:
        data = warn_at_user_line(warning, op.evaluate, (value.data,), NO_PARAMS)
    made = Value(data, op, (value,), NO_PARAMS)
    tracked: Any = _new(_Tracked)
    tracked._value = made
    return tracked


def apply_binary(op: Op, a: Any, b: Any) -> Any:
    """Record `op(a, b)`, at least one of them tracked: as `apply_unary`."""
    if PLACEHOLDERS and may_need_resolving():
        a, b = resolve_placeholder(a), resolve_placeholder(b)
        if type(a) is not _Tracked and type(b) is not _Tracked:
            return op.evaluate(a, b)
    if observers:
        taken = (recorded_operand(a, op, (b,)), recorded_operand(b, op, (a,)))
        if DIFFERING and type(taken[0]) is type(taken[1]) is Value:
            check_alike(op, *taken)
        return _apply_observed(op, taken, NO_PARAMS)
    if type(a) is _Tracked:
        left = a._value or a._refresh()
        x = left.data
    else:
        left = x = _plain_operand(a, op, (b,))
    if type(b) is _Tracked:
        right = b._value or b._refresh()
        y = right.data
    else:
        right = y = b if type(b) is float else _plain_operand(b, op, (a,))
    if DIFFERING and type(left) is type(right) is Value:
        check_alike(op, left, right)
    try:
        data = op.evaluate(x, y)
    except RuntimeWarning as warning:
        data = warn_at_user_line(warning, op.evaluate, (x, y), NO_PARAMS)
    value = Value(data, op, (left, right), NO_PARAMS)
    tracked: Any = _new(_Tracked)
    tracked._value = value
    return tracked


def apply(op: Op, operands: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Evaluate `op`, and record it where that can matter.

    Nothing is recorded, and the result is plain, where no operand is tracked, or the op has no
    derivative and no tracer is active.
    """
    if PLACEHOLDERS and may_need_resolving():
        operands = tuple(map(resolve_placeholder, operands))
    taken: list[Any] = []
    data: list[Any] = []
    tracked = False
    if (
        observers
        and (not op.constant or current_tracer() is not None)
        and _Tracked in map(type, operands)
    ):
        return _apply_observed(
            op, tuple([recorded_operand(operand, op, operands) for operand in operands]), params
        )
    for operand in operands:
        if type(operand) is _Tracked:
            value = operand._value or operand._refresh()
            taken.append(value)
            data.append(value.data)
            tracked = True
        else:
            taken.append(operand)
            data.append(operand)
    plain = op.constant or not tracked
    if not plain:
        for i, operand in enumerate(taken):
            if type(operand) is not Value:
                taken[i] = data[i] = _plain_operand(operand, op, operands)
    try:
        result = op.evaluate(*data, **params)
    except RuntimeWarning as warning:
        result = warn_at_user_line(warning, op.evaluate, data, params)
    return result if plain else wrap(Value(result, op, tuple(taken), params))


def recorded_operand(operand: Any, op: Op, others: Sequence[Any] = ()) -> Any:
    """What an equation keeps of an operand: its value, or plain data."""
    return value_of(operand) if type(operand) is _Tracked else _plain_operand(operand, op, others)


def _apply_observed(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Record `op(*operands)` while something observes; a trace may make the result lazy."""
    tracer = current_tracer()
    if tracer is None or tracer.unmonitored is nullcontext or may_call_user_code(op):
        return _apply_in_trace(op, operands, params, tracer)
    with tracer.unmonitored():
        return _apply_in_trace(op, operands, params, tracer)


def may_call_user_code(op: Any) -> bool:
    """Whether an op or its rules may run code of the user's: a rule in Python, a body."""
    return isinstance(op, Op) and isinstance(op.lower, (Branch, Host, Loop, While))


def _apply_in_trace(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], tracer: Tracer | None
) -> Any:
    scheduler = None if tracer is None else tracer.active_scheduler()
    value, used = None, params
    try:
        if tracer is not None and scheduler is not None:
            value = scheduler.defer(op, operands, params, tracer.snapshot_operand)
            if value is None and not thread_state.derivative_leaves:
                used = scheduler.without_saved(op, params)
        if value is None:
            value = Value(_evaluate(op, operands, used, tracer), op, operands, params)
    except Exception:
        if tracer is not None:  # shapes that do not fit may fit where a mask selects other numbers
            tracer.guards.reads_extents |= bool(tracer.guards.mask_counts)
        raise
    if used is not params and tracer is not None and scheduler is not None:
        scheduler.defer_saved(value, tracer.snapshot_operand)
    notify_observers(value)
    if tracer is not None and tracer.tests_identity_with_bool and type(value.aval) is bool:
        return bool(wrap(value))
    return wrap(value)


def _evaluate(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], tracer: Tracer | None
) -> Any:
    """What `op` gives; a trace's arguments are read where they lie."""
    scheduler = None if tracer is None or not has_lazy_values() else tracer.scheduler
    if scheduler is None:
        data = [o.data if type(o) is Value else o for o in operands]
    else:
        data = [scheduler.readonly_operand(o) for o in operands]
    try:
        result = op.evaluate(*data, **params)
    except RuntimeWarning as warning:
        result = warn_at_user_line(warning, op.evaluate, data, params)
    except Exception as error:
        record_op_failure(error, op, operands, data, params)
        raise
    return result if scheduler is None else scheduler.own_result(result)


def record_result(op: Op, operands: tuple[Any, ...], params: dict[str, Any], data: Any) -> Any:
    """Record that `op(*operands)` gave `data`, even if no operand is tracked."""
    if PLACEHOLDERS and may_need_resolving():
        operands = tuple(map(resolve_placeholder, operands))
    value = Value(data, op, tuple([recorded_operand(o, op) for o in operands]), params)
    if observers:
        notify_observers(value)
    return wrap(value)


# Plain operands ---------------------------------------------------------------------------------

_NUMBERS: tuple[Any, ...] = (int, float, complex)
_ARITHMETIC = ("__add__", "__radd__", "__mul__", "__rmul__")


def _plain_operand(x: Any, op: Op, others: Sequence[Any] = ()) -> Any:
    """What the tape keeps of a plain operand."""
    cls = type(x)
    if cls is _ndarray:
        tracing = observers and current_tracer() is not None
        return snapshot(x) if op.needs_operand_values and not tracing else x
    if cls is int or cls is float or isinstance(x, np.generic) or cls is complex or cls is bool:
        return x
    for number in _NUMBERS:  # of a subclass, such as a member of an IntEnum
        if isinstance(x, number) and all(
            getattr(cls, name) is getattr(number, name) for name in _ARITHMETIC
        ):  # its dtype counts as an array's
            arrays = any(isinstance(aval_of(other), (_ndarray, np.generic)) for other in others)
            return np.asarray(number(x))[()] if arrays else number(x)
    if isinstance(x, (list, tuple)):
        # a list times a count repeats the list; to convert tracked values would end a trace
        if op.evaluate is mul or holds_tracked(x):
            raise ConversionError(message(f"{op.name} got a {cls.__name__} beside a tracked value"))
        return np.asarray(x)
    if isinstance(x, np.memmap):
        return snapshot(np.asarray(x))
    numbers = array_of_labelled(x)
    if numbers is not None:
        taken = note_labels(_plain_operand(numbers, op), x)
        check_labels(op, taken, x, [value_of(y) for y in others if type(y) is _Tracked])
        return taken
    raise UnsupportedError(
        f"{op.name} got a {cls.__name__} beside a tracked value",
        "Give np.asarray(x), if plain numbers are what is meant"
        if isinstance(x, np.ndarray)
        else "Give numbers or NumPy arrays",
    )


def as_numeric(x: Any) -> Any:
    """The numbers, tracked or not, of an object that NumPy takes for an array. None for numbers,
    arrays and lists, for sequences of tracked values, for arrays of objects, and for classes with
    their own `__array_ufunc__` (but not those of arrays with labels)."""
    if isinstance(x, _KNOWN) or type(x) is _Tracked or holds_tracked(x):
        return None
    if hasattr(type(x), "__array_ufunc__"):
        return array_of_labelled(x)
    convert = getattr(type(x), "__array__", None)
    value = np.asarray(x) if convert is None else convert(x)
    return value if type(value) is _Tracked or value.dtype.kind in "biufc" else None


_KNOWN = (np.ndarray, np.generic, *_NUMBERS, list, tuple, str, bytes)


_NO_SEQUENCES = (Mapping, bytearray, memoryview, range)  # that may hold tracked values
_SCALARS = frozenset((int, float, complex, bool, np.float64))


def holds_tracked(x: Any) -> bool:
    """Whether `x` is tracked, or a sequence with a tracked value in it."""
    if type(x) is _Tracked:
        return True
    items = sequence_items(x)
    return items is not None and any(
        type(e) is _Tracked or (type(e) not in _SCALARS and holds_tracked(e)) for e in items
    )


def sequence_items(x: Any) -> Sequence[Any] | None:
    """The items of a list, of a tuple, or of another class that NumPy reads as a sequence; None of
    anything else."""
    if isinstance(x, (list, tuple)):
        return x
    cls = type(x)
    if cls is _Tracked or isinstance(x, _KNOWN) or not hasattr(cls, "__getitem__"):
        return None
    if hasattr(cls, "__array__") or isinstance(x, _NO_SEQUENCES):
        return None
    try:
        return list(x) if len(x) else []
    except (TypeError, LookupError):  # a dtype, a sparse matrix, a mapping without its base class
        return None


def alias_to_primal(value: Value, original: Any) -> Any:
    """A tracked array for `value`, which was recorded without `apply` and has the data of
    `original` (tracked or plain): traces use the original, derivatives the value."""
    tracer = current_tracer()
    if tracer is not None:
        if tracer.is_body_trace:  # other values that run through the body would not use the rule
            raise UnsupportedInBody("the body has a derivative rule of its own")
        known = type(original) is _Tracked
        tracer.recording.aliases[value] = (
            value_of(original) if known else Value(original, CLOSED, (), NO_PARAMS)
        )
    cut = current_stop_gradient()
    if cut is not None:
        cut.make_constant(value)
    return wrap(value)


GUARD_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "hash": lambda x: x.item() if hasattr(x, "item") else x,
    "floor": lambda x: int(np.floor(x)),
    "ceil": lambda x: int(np.ceil(x)),
    "round": lambda x: int(np.rint(x)),
}


class ReplayDiverged(Exception):
    """A guard of the function does not hold for these values."""

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__("" if guard is None else f"the guard at {guard.where} does not hold")
        self.guard = guard


def replay(function: Function, values: Sequence[Any]) -> list[Any]:
    """The results of a function, given values for its inputs and captures."""
    table: dict[Var, Any] = dict(zip((*function.inputs, *function.captures), values, strict=True))

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Const) else table[atom]

    with at_origins() as tracer:
        for step in function.body:
            if isinstance(step, Guard):
                if GUARD_CONVERSIONS[step.kind](read(step.operand)) != step.expected:
                    raise ReplayDiverged(step)
                continue
            if tracer is not None:
                tracer.origin = step.where or None
            out = step.out
            if tracer is not None and isinstance(step.op.lower, Iota):  # no array of its own
                data = step.op.evaluate(**step.params)
                table[out] = record_result(step.op, (), step.params, data)
                continue
            x = table[out] = apply(step.op, tuple(map(read, step.operands)), step.params)
            if type(x) is complex and out.type.weak and out.type.dtype.kind != "c":
                raise ReplayDiverged  # Python takes the root of a negative number
    return [read(atom) for atom in function.outputs]
