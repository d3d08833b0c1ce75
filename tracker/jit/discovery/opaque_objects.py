"""Objects with state that no guard can compare: iterators, bit generators, pointers, queues.

A call that reaches one runs in plain Python.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from tracker.random.draw_ops import is_bit_source

_OPAQUE_CLASSES = {  # their contents cannot be read, or are shared too widely
    ("_queue", "SimpleQueue"),
    ("decimal", "Context"),
    ("_contextvars", "Context"),
}


def is_opaque(x: Any) -> bool:
    """Whether an object is an iterator in C, a generator, a source of random bits, or hides its
    contents. (An iterator of a user class shows in its code what it reads.)"""
    if is_bit_source(x) or _hides_contents(x):
        return True
    step = getattr(type(x), "__next__", None)
    return step is not None and not isinstance(step, types.FunctionType)


def _hides_contents(x: Any) -> bool:
    cls = type(x)
    if (cls.__module__, cls.__name__) in _OPAQUE_CLASSES:
        return True
    if cls is np.ufunc:  # made by `numpy.frompyfunc`
        return all(set(kind) <= set("O->") for kind in x.types)
    return _holds_pointer(x)


def _holds_pointer(x: Any) -> bool:
    """Whether an object is a `ctypes` pointer, or contains one, or a Python object."""
    module = sys.modules.get("_ctypes")
    if module is None:
        return False
    if isinstance(x, module._Pointer):
        return True
    is_data = isinstance(x, (module._SimpleCData, module.Array, module.Structure, module.Union))
    return is_data and bool(x._objects)
