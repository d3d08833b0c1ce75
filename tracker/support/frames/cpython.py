"""Frames and slots of CPython: local names of a running frame, what follows its instruction, and
errors of `__float__` that reach the user from `array[i] = x`.

From Python 3.13 on, `frame.f_locals` writes through (PEP 667). Before, it is a copy that the C API
puts back.

NumPy replaces any error of `__float__` by "setting an array element with a sequence" if the class
of `x` has the slot `sq_item`, which Python fills in for `__getitem__`. So the slot is empty from
the failure of `__float__` until the instruction is done that called NumPy (`hide_items`).
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

C_DATA = ctypes.c_void_p.__mro__[-2]  # the class of all that `ctypes` gives
_WRITES_THROUGH = sys.version_info >= (3, 13)


def frame_locals(frame: FrameType) -> dict[str, Any]:
    """The names of a frame that are bound, closure variables included."""
    found = dict(frame.f_locals)
    _release_copy(frame)
    return found


def set_frame_locals(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Bind names of a frame that is suspended in a call."""
    frame.f_locals.update(values)
    if _locals_to_fast is not None:
        _locals_to_fast(frame, 0)
    _release_copy(frame)


def _release_copy(frame: FrameType) -> None:
    """Empty the copy, which would keep objects alive until the frame ends. Modules and class bodies
    have none."""
    if not _WRITES_THROUGH and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()


def _put_back() -> Callable[[FrameType, int], None]:
    function = ctypes.pythonapi.PyFrame_LocalsToFast
    function.argtypes = ctypes.py_object, ctypes.c_int
    function.restype = None
    return function


_locals_to_fast = _put_back() if not _WRITES_THROUGH else None


def after_instruction(frame: FrameType, action: Callable[[str], None]) -> None:
    """Call `action` when the instruction is done that a frame executes, before the next one: with
    "exception" if it has raised. What the action raises, the frame raises. A tracer (of a debugger)
    goes on afterwards."""
    outer, local, has_opcodes = sys.gettrace(), frame.f_trace, frame.f_trace_opcodes

    def trace(current: FrameType, event: str, arg: Any) -> Any:
        if current is not frame:  # a function that the instruction calls
            return None
        sys.settrace(outer)
        frame.f_trace, frame.f_trace_opcodes = local, has_opcodes
        action(event)
        if local is None or (event == "opcode" and not has_opcodes):
            return local
        return local(frame, event, arg)

    frame.f_trace_opcodes = True  # before `settrace`, which looks at it
    frame.f_trace = trace
    sys.settrace(trace)


_TP_AS_SEQUENCE = 10  # the field's number in a type object, after its header
_SQ_ITEM = 3  # in a table of sequence methods
_SQ_ITEM_SLOT = 44  # for `PyType_GetSlot`


def hide_items(cls: type, caller: FrameType) -> None:
    """Empty the slot of a class until the caller's instruction is done."""
    slot = _item_slot(cls)
    if slot is None or not slot.value:
        return
    method = slot.value

    def show_items(_: str) -> None:
        slot.value = method

    after_instruction(caller, show_items)
    slot.value = None


@functools.cache
def _item_slot(cls: type) -> Any:
    """The slot in memory; None if this Python has other type objects."""
    if sys.implementation.name != "cpython":
        return None
    pointer = ctypes.sizeof(ctypes.c_void_p)
    header = object.__basicsize__ + pointer  # the count of items follows
    start, size = id(cls), type.__dict__["__basicsize__"].__get__(type)
    at = ctypes.c_void_p.from_address(start + header + _TP_AS_SEQUENCE * pointer).value
    if at is None or not start < at < start + size - pointer * (_SQ_ITEM + 1):
        return None
    slot = ctypes.c_void_p.from_address(at + _SQ_ITEM * pointer)
    ctypes.pythonapi.PyType_GetSlot.restype = ctypes.c_void_p
    ctypes.pythonapi.PyType_GetSlot.argtypes = (ctypes.py_object, ctypes.c_int)
    known = ctypes.pythonapi.PyType_GetSlot(cls, _SQ_ITEM_SLOT)
    return slot if known and slot.value == known else None
