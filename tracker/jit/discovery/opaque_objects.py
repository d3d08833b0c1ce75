"""Objects of which nobody can tell what they give next: iterators, random bits, pointers, queues.

Owns: `is_opaque`. What they give is told by what they have given, or by memory and objects that
they lead to and do not show. No trace can know them again, so calls that meet one run in plain
Python.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from tracker.random.draw_ops import is_bit_source

_OPAQUE_CLASSES = {  # what is in them shows to nobody, or to too many
    ("_queue", "SimpleQueue"),
    ("decimal", "Context"),
    ("_contextvars", "Context"),
}


def is_opaque(x: Any) -> bool:
    """Whether it is an iterator, of the library or a generator, or what random numbers are drawn
    from, or hides what it gives. (Of an iterator of the user's class, the code says what it
    reads.)"""
    if is_bit_source(x) or _hides_contents(x):
        return True
    step = getattr(type(x), "__next__", None)
    return step is not None and not isinstance(step, types.FunctionType)


def _hides_contents(x: Any) -> bool:
    cls = type(x)
    if (cls.__module__, cls.__name__) in _OPAQUE_CLASSES:
        return True
    if cls is np.ufunc:  # which `numpy.frompyfunc` has made of a function
        return all(set(kind) <= set("O->") for kind in x.types)
    return _holds_pointer(x)


def _holds_pointer(x: Any) -> bool:
    """Whether it is a pointer of `ctypes`, or has one in it, or a Python object."""
    module = sys.modules.get("_ctypes")
    if module is None:
        return False
    if isinstance(x, module._Pointer):
        return True
    is_data = isinstance(x, (module._SimpleCData, module.Array, module.Structure, module.Union))
    return is_data and bool(x._objects)
