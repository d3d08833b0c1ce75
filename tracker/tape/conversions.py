"""Conversions of tracked values to Python and plain NumPy: `bool`, `int`, `float`, `round`, `hash`,
`np.asarray`, ...

Each either lets a trace know (`tracing/value_guards.py`) or goes through `escape.escape_as_plain`.
`guarded_data` and `plain_integers` are for arguments without a derivative: tolerances, counts.

Invariant: a conversion that would lose a gradient raises (`conversion_errors.py`).
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tracker import tree
from tracker.errors import ConversionError, UnsupportedError, message
from tracker.ir.op import NUMPY
from tracker.support.frames.cpython import hide_items
from tracker.tape.conversion_errors import conversion_text
from tracker.tape.live_leaves import depends_on_live_leaf
from tracker.tape.observers import is_deriving, observers
from tracker.tape.record import data_of, value_of
from tracker.tape.tracing.escape import (
    NO_ESCAPE,
    call_on_plain,
    escape_as_plain,
    export_array,
    has_no_derivative,
    is_arange_length,
    is_inspected,
)
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import at_loop_test, current_tracer, record_error
from tracker.tape.tracing.value_guards import guard_value
from tracker.tape.tracked import (
    Tracked,
    install,
    install_property,
    numpy_class_name,
    restore_leaf,
)
from tracker.tape.tracked_targets import marks_for_store
from tracker.tape.value import is_constant
from tracker.user_frames import user_line

_Converted = TypeVar("_Converted")
_NUMPY_TESTING = os.sep + os.path.join("numpy", "testing", "")
_NEEDS_MEMORY = {inspect.unwrap(f).__code__ for f in (np.lib.stride_tricks.as_strided, np.require)}
_AS_KEY_TEXTS = (
    "unhashable: a tracked number as a key (of a dict, a set, functools.lru_cache) would be taken "
    "for an equal one that depends on something else",
    "Use tracker.data(t) as the key, or call the function without its cache (f.__wrapped__)",
)


@install("__hash__")
def _hash(tracked: Any) -> int:
    value = value_of(tracked)
    if isinstance(value.aval, np.ndarray):
        raise TypeError("unhashable type: a tracked array; use id(x) or tracker.Params")
    has_history = tracked.dtype.kind in "fc" and (is_deriving() or current_tracer() is None)
    if has_history and not (
        is_constant(value)
        or has_no_derivative(value)
        or is_arange_length(value)
        or is_inspected(tracked)
    ):
        raise ConversionError(*_AS_KEY_TEXTS, user_line())
    guard_value(tracked, "hash")
    return hash(value.data)


def _pickled_text() -> str:
    return message(
        "pickling a tracked value, as for another process, gives one that does not follow it",
        "Copy it with copy.deepcopy, or pickle tracker.data(t)",
    )


def _identity(x: Any) -> Any:
    return x


@install("__reduce__")
def _reduce(tracked: Any) -> Any:
    plain = resolve_placeholder(tracked)
    if plain is not tracked:
        return np.array, (plain,)
    value = value_of(tracked)
    if current_tracer() is not None:  # unpickled, it would be a constant of the trace
        plain = call_on_plain(_identity, (tracked,), {}, _pickled_text)
        if plain is NO_ESCAPE:
            raise UnsupportedError(_pickled_text())
        return _identity, (plain,)
    if depends_on_live_leaf(value, params=is_deriving() and value.op is not None):
        raise ConversionError(_pickled_text())
    return restore_leaf, (value.data, tracked.grad)


def plain_key(x: Any) -> Any:
    """What looks up a tracked number in plain code: an error, or the guarded number; anything else
    unchanged."""
    x = resolve_placeholder(x)
    if type(x) is not Tracked:
        return x
    hash(x)
    return data_of(x)


@install("__bool__")
def _bool(tracked: Any) -> bool:
    if observers:
        tracked = at_loop_test(tracked, sys._getframe(1))
    return _guarded_conversion(tracked, "bool", bool)


def _install_conversion(name: str, kind: str, convert: Callable[[Any], Any]) -> None:
    install(name)(lambda tracked: _guarded_conversion(tracked, kind, convert))


_install_conversion("__int__", "int", int)
_install_conversion("__index__", "int", operator.index)
_install_conversion("__floor__", "floor", math.floor)
_install_conversion("__ceil__", "ceil", math.ceil)
_install_conversion("__trunc__", "int", math.trunc)


@install("__bytes__")
def _bytes(tracked: Any) -> bytes:
    """The bytes in memory; of an integer n, as in Python, n zero bytes."""
    aval = value_of(tracked).aval
    if np.ndim(aval) == 0 and np.asarray(aval).dtype.kind in "iu":
        return bytes(int(tracked))
    found: bytes = tracked.tobytes()
    return found


@install("__float__")
def _float(tracked: Any) -> float:
    value = value_of(tracked)
    if is_constant(value) or is_arange_length(value):
        guard_value(tracked, "hash")
        return float(value.data)
    if is_inspected(tracked):
        return float(value.data)
    frame = sys._getframe(1)
    marks = marks_for_store(tracked, frame)
    try:
        return float(_escape_or_raise(tracked, "float(t)") if marks is None else marks)
    except ConversionError:
        hide_items(Tracked, frame)
        raise


@install("__complex__")
def _complex(tracked: Any) -> complex:
    if is_constant(value_of(tracked)):
        guard_value(tracked, "hash")
        return complex(value_of(tracked).data)
    marks = marks_for_store(tracked, sys._getframe(1))
    return complex(_escape_or_raise(tracked, "complex(t)") if marks is None else marks)


@install("__array__")
def _array(tracked: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    if resolve_placeholder(tracked) is not tracked:
        return np.asarray(resolve_placeholder(tracked), dtype=dtype, copy=copy)
    frame = sys._getframe(1)
    caller = frame.f_code
    if caller in _NEEDS_MEMORY:
        raise ConversionError(
            f"{caller.co_name} needs the memory of a tracked value of shape {tracked.shape}",
            "Use np.lib.stride_tricks.sliding_window_view, or index with integer arrays",
            user_line(),
        )
    kinds = {tracked.dtype.kind, np.dtype(tracked.dtype if dtype is None else dtype).kind}
    if not kinds.isdisjoint("biu") or is_constant(value_of(tracked)):
        guard_elements(tracked)
        return export_array(tracked, dtype, copy)
    if current_tracer() is None and _NUMPY_TESTING in caller.co_filename:
        # np.testing compares, and returns nothing
        return np.array(value_of(tracked).data, dtype=dtype)
    marks = marks_for_store(tracked, frame)
    if marks is not None:
        return marks
    _escape_or_raise(tracked, "np.asarray(t)")
    return export_array(tracked, dtype, copy)


def _torch_function(function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """PyTorch calls this instead of a function of its own that is given a tracked value."""
    given = tree.leaves((args, kwargs))
    raise ConversionError(conversion_text(next(x for x in given if type(x) is Tracked), "torch"))


install("__torch_function__")(staticmethod(_torch_function))


def _as_parameter(tracked: Any) -> Any:
    """What `ctypes` passes to a function in C."""
    return _escape_or_raise(tracked, "ctypes") if tracked.dtype.kind in "fc" else int(tracked)


install_property("_as_parameter_", _as_parameter)


def _escape_or_raise(tracked: Any, converter: str) -> Any:
    """The plain data of a value, if it may escape."""
    plain = escape_as_plain(tracked, lambda: conversion_text(tracked, converter)())
    if plain is NO_ESCAPE:
        raise ConversionError(conversion_text(tracked, converter))
    return plain


@install("__round__")
def _round(tracked: Any, digits: int | None = None) -> Any:
    kind = type(value_of(tracked).aval)
    if not hasattr(kind, "__round__"):
        raise TypeError(f"type {numpy_class_name(kind)} doesn't define __round__ method")
    if digits is None:
        return _guarded_conversion(tracked, "round", round)
    data = value_of(tracked).data
    if type(data) is float or type(data) is int:  # Python rounds decimals correctly, NumPy does not
        guard_value(tracked, "hash")
        return round(data, digits)
    return NUMPY[np.round](tracked, digits)


_MAX_ELEMENT_GUARDS = 16  # elements with a guard each; more are compared all at once


def guard_elements(tracked: Tracked) -> None:
    """Python is about to depend on every element."""
    if current_tracer() is not None:
        kind = {"b": "bool", "i": "int", "u": "int"}.get(tracked.dtype.kind, "hash")
        if tracked.size > _MAX_ELEMENT_GUARDS and kind != "hash":
            guard_value(NUMPY[np.all](tracked == np.array(data_of(tracked))), "bool")
            return
        for element in NUMPY[np.ravel](tracked) if tracked.ndim else (tracked,):
            guard_value(element, kind)


def guarded_data(x: Any) -> Any:
    """The plain data of an argument without a derivative (a tolerance); a trace guards it."""
    if type(x) is not Tracked:
        return x
    guard_elements(x)
    return data_of(x)


def plain_integers(x: Any) -> Any:
    """Tracked integers and bools as plain ones, also those in a list."""
    if type(x) is Tracked and x.dtype.kind in "biu":
        return np.asarray(x) if x.ndim or x.dtype.kind == "b" else int(x)
    return type(x)(map(plain_integers, x)) if type(x) in (list, tuple) else x


def _guarded_conversion(
    tracked: Tracked, kind: str, convert: Callable[[Any], _Converted]
) -> _Converted:
    """Convert a value: a trace guards the result, and records an error."""
    data = data_of(tracked)
    try:
        answer = convert(data)
    except (ValueError, OverflowError) as error:
        if np.size(data) == 1:  # else the shape is the reason
            record_error(error)
        raise
    guard_value(tracked, kind)
    return answer
