"""Errors of `__float__` that reach the user from `array[i] = x`.

NumPy replaces any such error by "setting an array element with a sequence" if the class of `x` has
the slot `sq_item`, which Python fills in for `__getitem__`. Nothing else of NumPy reads that slot,
and indexing uses another. So it is emptied when `__float__` fails, and filled again when the length
of an object is asked for: what reads elements through it (`bisect`) asks for the length first.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

_TP_AS_SEQUENCE = 10  # the field's number in a type object, after its header
_SQ_ITEM = 3  # in a table of sequence methods
_SQ_ITEM_SLOT = 44  # for `PyType_GetSlot`

hidden: list[tuple[Any, int]] = []  # emptied slots, and what they held


def hide_items(cls: type) -> None:
    """Empty the slot of a class."""
    slot = _item_slot(cls)
    if slot is not None and slot.value:
        hidden.append((slot, slot.value))
        slot.value = None


def show_items() -> None:
    """Fill the slots again."""
    while hidden:
        slot, method = hidden.pop()
        slot.value = method


@functools.cache
def _item_slot(cls: type) -> Any:
    """The slot in memory; None if this Python has other type objects."""
    import ctypes

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
