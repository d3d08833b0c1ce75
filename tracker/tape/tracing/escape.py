"""Escape analysis: what happens when plain Python needs the numbers of a tracked or traced value.

A value escapes through `bool(x)`, `float(x)`, `np.asarray(x)`, formatting, or a NumPy function
without a rule. What happens depends on what it was computed from:

    captured arrays only    guard that it is unchanged, and return the plain data
    the arguments           abort the trace, and return the plain data: this call goes on as plain
                            Python (only while no derivative is running)
    a differentiated leaf   ConversionError, with the fix

Outside of a trace, what no derivative and no param follows any more (a loss in a list, say, when
the derivative is done) is plain data.

`escape_as_plain` decides; `export_array` gives out a read-only array; `escape_as_text` handles
formatting. (A conversion that the trace can check, such as `bool`, is guarded: `value_guards.py`.)

Invariant: nothing that a derivative follows becomes plain.
"""

from __future__ import annotations

import dis
import functools
import re
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tracker.errors import message
from tracker.tape.live_leaves import is_followed
from tracker.tape.observers import is_deriving
from tracker.tape.record import value_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import (
    Tracer,
    UnsupportedInBody,
    current_tracer,
    note_of_this_iteration,
)
from tracker.tape.tracing.value_guards import guard_array
from tracker.tape.value import CLOSED, Value, history_of
from tracker.user_frames import user_frame, user_line

NO_ESCAPE: Any = object()


def escape_as_plain(tracked: Any, reason: Callable[[], str]) -> Any:
    """The plain data of a tracked value, if it may escape; else NO_ESCAPE. `reason` says why the
    trace ends."""
    tracer = current_tracer()
    if resolve_placeholder(tracked) is not tracked:
        return resolve_placeholder(tracked)
    value = value_of(tracked)
    if not is_followed(value):
        return value.data
    if tracer is None or tracer.is_body_trace:
        return NO_ESCAPE
    origin = _origin_of(value, tracer)
    if origin is Origin.ARGUMENT and not is_deriving():
        tracer.abort(reason())
    elif origin is Origin.CAPTURES:
        guard_array(value, tracer)
    else:
        return NO_ESCAPE
    return value.data


def export_array(tracked: Any, dtype: Any, copy: bool | None) -> Any:
    """The data of a tracked array for plain NumPy, as an array of its own.

    In a plain call, that array may share memory with the tracked one, and each would see writes
    into the other. So while tracing the exported array is read-only, and the tracked one must not
    be written into any more (`check_write`); code that tries gets an error, and the call runs as
    plain Python (`is_escape_failure`).
    """
    data, tracer = value_of(tracked).data, current_tracer()
    array = np.array(data, dtype=dtype)
    if tracer is None or tracer.is_body_trace or copy or not isinstance(data, np.ndarray):
        return array
    if array.dtype == data.dtype:
        owner = tracked
        while getattr(owner, "_view", None) is not None:
            owner = owner._view.base
        tracer.escapes.values.add(value_of(owner))
        tracer.escapes.owners[id(array)] = owner
        _make_read_only(array, tracer)
    return array


def _make_read_only(array: Any, tracer: Tracer) -> None:
    array.flags.writeable = False
    tracer.escapes.arrays.append(array)


def export_owner(result: Any, tracer: Tracer) -> Any:
    """The tracked array whose memory a result shares in a plain call, if the result was exported;
    or None."""
    if type(result) is not np.ndarray:
        return None
    return tracer.escapes.owners.get(id(result), tracer.escapes.owners.get(id(result.base)))


def end_exports(tracer: Tracer, results: Sequence[Any]) -> None:
    """The trace is over: exported arrays, and results that are views of them, are writeable
    again."""
    for array in tracer.escapes.arrays:
        array.flags.writeable = True
    owners = {id(array) for array in tracer.escapes.arrays}
    for x in results:
        if type(x) is np.ndarray and id(x.base) in owners:
            x.flags.writeable = True


_NO_ARRAY_TEXT = "object __array__ method not producing an array"  # it returned a tracked array
_READ_ONLY_TEXT = re.compile("read-?only|writeable")


def is_escape_failure(error: Exception, tracer: Tracer) -> bool:
    """Whether an error arises because code was given a tracked value or a read-only export where a
    plain call has a plain array: C code that checks the type, or a write."""
    if isinstance(error, (TypeError, AttributeError, BufferError)) and "Tracked" in str(error):
        return True
    if isinstance(error, ValueError) and str(error) == _NO_ARRAY_TEXT:
        return True
    locked = isinstance(error, (ValueError, TypeError, BufferError))
    return bool(locked and tracer.escapes.arrays and _READ_ONLY_TEXT.search(str(error)))


def escape_as_text(tracked: Any) -> bool:
    """A value is about to become text. Returns whether that is the text of plain data.

    Text has no gradient. It is the same on each call where the value depends on captured arrays
    only, or consists of integers; both are guarded. Text of other numbers aborts the trace, unless
    it is only printed, which happens while tracing.
    """
    tracer = current_tracer()
    if tracer is None or resolve_placeholder(tracked) is not tracked:
        return False
    value = value_of(tracked)
    origin = _origin_of(value, tracer)
    is_plain = not is_deriving() or origin is not Origin.LEAF
    if _is_printed(user_frame()):
        note_of_this_iteration()
        return is_plain
    if tracer.is_body_trace:
        raise UnsupportedInBody("the body makes text of a value")
    if np.asarray(value.data).dtype.kind in "biu" or origin is Origin.CAPTURES:
        guard_array(value, tracer)
    else:
        tracer.abort(
            message(
                f"text is made of a value of shape {np.shape(value.aval)}",
                "Print or format what the function returns",
                user_line(),
            )
        )
    return is_plain


class Origin(Enum):
    """What a value was computed from; the last of these that it depends on."""

    CAPTURES = "captured arrays only"
    ARGUMENT = "an argument of the traced function"
    LEAF = "a leaf that a derivative follows, or may follow"


def has_no_derivative(value: Value) -> bool:
    """Whether no derivative follows a value. A traced one was then computed from captured arrays,
    and from arguments that none follows."""
    tracer = current_tracer()
    if tracer is None:
        return not is_followed(value)
    return _origin_of(value, tracer) is not Origin.LEAF


def _origin_of(root: Value, tracer: Tracer) -> Origin:
    found = Origin.CAPTURES
    for value in history_of(root, tracer.captures):
        if value in tracer.arguments:
            found = Origin.ARGUMENT
        elif value.op is None or (value.op is not CLOSED and value.op.name == "identity"):
            return Origin.LEAF
    return found


def call_on_plain(
    call: Callable[..., Any], args: Any, kwargs: Any, reason: Callable[[], str]
) -> Any:
    """The result of NumPy on plain data, if all tracked arguments may escape; else NO_ESCAPE."""
    escaped: list[tuple[Any, Any]] = []

    def plain(x: Any) -> Any:
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            return type(x)(plain(each) for each in x)
        if not hasattr(type(x), "_refresh"):
            return x
        data = escape_as_plain(x, reason)
        if data is not NO_ESCAPE and isinstance(data, np.ndarray):
            data = data.copy()
            tracer = current_tracer()
            if tracer is not None:  # a function that writes into it must fail
                _make_read_only(data, tracer)
        escaped.append((x, data))
        return data

    if kwargs.get("out") is not None:
        return NO_ESCAPE
    plain_args, plain_kwargs = plain(tuple(args)), {k: plain(v) for k, v in kwargs.items()}
    if any(data is NO_ESCAPE for _, data in escaped):
        return NO_ESCAPE
    return call(*plain_args, **plain_kwargs)


def _is_printed(frame: FrameType | None) -> bool:
    """Whether the running statement is a call that prints, and nothing else."""
    if frame is None:
        return False
    if frame.f_globals.get("__name__", "").partition(".")[0] in ("logging", "tqdm"):
        return True
    return _only_prints(frame.f_code, frame.f_lasti)


_PRINTING_FUNCTIONS = frozenset(
    (
        *("print", "write", "log", "debug", "info", "warning", "warn", "error", "exception"),
        *("critical", "set_description", "set_description_str", "set_postfix", "set_postfix_str"),
    )
)


@functools.lru_cache(1024)
def _only_prints(code: CodeType, at: int) -> bool:
    """Whether the statement at an offset only calls one of these and drops the result."""
    names: set[Any] = set()  # loaded by the statement, with that of the called function
    reached = False
    for step in dis.get_instructions(code):
        reached |= step.offset >= at  # which is behind the call of a function in Python
        if step.opname.startswith(("STORE_", "RETURN_", "POP_", "RESUME")) or "JUMP" in step.opname:
            if reached:
                return step.opname == "POP_TOP" and not names.isdisjoint(_PRINTING_FUNCTIONS)
            names.clear()
        elif step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
            names.add(step.argval)
    return False


# Lengths ------------------------------------------------------------------------------------------


def is_arange_length(value: Value) -> bool:
    """Whether `float(value)` is called by `np.arange`, which computes its length in floats, and the
    value depends on integers only. NumPy functions may be between."""
    frame = sys._getframe(2)  # the caller of `float`'s caller
    if not _is_call_of(frame.f_code, frame.f_lasti, "arange"):
        return False
    origins = (at for at in history_of(value) if not any(type(o) is Value for o in at.operands))
    return all(np.result_type(at.aval).kind in "biu" for at in origins)


@functools.lru_cache(1024)
def _is_call_of(code: CodeType, at: int, name: str) -> bool:
    """Whether the instruction at an offset of a code object calls something with this name."""
    instructions = list(dis.get_instructions(code))
    here = next((i.positions for i in instructions if i.offset == at), None)
    if here is None or here.col_offset is None:
        return False
    start = (here.lineno, here.col_offset)  # a call begins where the called expression does
    return any(
        i.argval == name
        and i.positions is not None
        and (i.positions.lineno, i.positions.col_offset) == start
        for i in instructions
    )


# Formatting and tests -----------------------------------------------------------------------------


def is_inspected(tracked: Any) -> bool:
    """Whether `float` of a value serves formatting (`"%g" % t`) or a test (`math.isnan(t)`):
    neither has a gradient. The trace is told."""
    frame = user_frame()
    if frame is None:
        return False
    code, at = frame.f_code, frame.f_lasti
    if _is_percent_format(code, at):
        escape_as_text(tracked)
        return True
    if any(_is_call_of(code, at, name) for name in ("isfinite", "isinf", "isnan")):
        for question in (np.isnan, np.isinf):
            bool(question(tracked))
        return True
    return False


@functools.lru_cache(1024)
def _is_percent_format(code: CodeType, at: int) -> bool:
    """Whether the instruction at an offset is `%`: between numbers it calls no `float`."""
    step = next((i for i in dis.get_instructions(code) if i.offset == at), None)
    return step is not None and step.opname == "BINARY_OP" and step.argrepr in ("%", "%=")
