"""The stack of a frame that is running, where CPython holds the iterators of `for` statements and
the lists that comprehensions make.

Where a slot lies is known for some versions of CPython, and tried out once, on a loop of our own.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_HEADER = object.__basicsize__
_FRAME = _HEADER + _POINTER  # in a frame object, after `f_back`: the interpreter's own frame
_SLOTS = 9 * _POINTER  # in that one: local names, cells, then the stack
_VERSIONS = ((3, 11), (3, 12), (3, 13))


def on_stack(frame: FrameType, slot: int) -> Any:
    """What a frame that is suspended in a call has there; None if this Python has other frames."""
    return _object_at(_address(frame, slot)) if _is_known_layout() else None


def replace_on_stack(frame: FrameType, slot: int, other: Any) -> None:
    """Put another object in place of what `on_stack` gives."""
    address = _address(frame, slot)
    held = _object_at(address)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(other))
    ctypes.c_void_p.from_address(address).value = id(other)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(held))


def _object_at(address: int) -> Any:
    return ctypes.cast(address, ctypes.POINTER(ctypes.py_object)).contents.value


def _address(frame: FrameType, slot: int) -> int:
    inner = ctypes.c_void_p.from_address(id(frame) + _FRAME).value
    assert inner is not None
    return inner + _SLOTS + _POINTER * (_count_names(frame.f_code) + slot)


def _count_names(code: CodeType) -> int:
    """How many slots local names and closure variables have."""
    cells = frozenset(code.co_cellvars) - frozenset(code.co_varnames)
    return code.co_nlocals + len(cells) + len(code.co_freevars)


@functools.cache
def _is_known_layout() -> bool:
    is_known = sys.implementation.name == "cpython" and sys.version_info[:2] in _VERSIONS
    if not is_known or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    items = iter((0,))
    for _ in items:
        address = _address(sys._getframe(), 0)
        return ctypes.c_void_p.from_address(address).value == id(items)
    return False
