"""Objects with state that no guard can compare: iterators, bit generators, pointers, queues.

A call that reaches one runs in plain Python.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from tracker.jit.guards.constants import is_ctypes_data
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
    # A `ctypes` pointer, or what contains one, or a Python object.
    return is_ctypes_data(x, "_Pointer") or (is_ctypes_data(x) and bool(x._objects))
