"""State of standard-library objects that code reads without naming an attribute.

A read-only view of a mapping shows a dict, an exception its arguments, an enumeration member its
value; a `defaultdict` calls its factory. This state can change, so it is found here. Of some
objects no guard can compare the state: iterators, bit generators, pointers, queues. A call that
reaches one (`is_opaque`) runs in plain Python. No user code runs.
"""

from __future__ import annotations

import enum
import functools
import gc
import types
import weakref
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from tracker.jit.discovery.user_code import PLAIN_CLASSES
from tracker.jit.guards.constants import MAPPING_VIEWS, container_contents, is_ctypes_data
from tracker.jit.guards.source import AttributeSource, CellSource, ItemSource, Source
from tracker.random.draw_ops import is_bit_source

_DATA_ATTRIBUTES = {  # the attribute with the contents
    ("collections", "UserDict"): "data",
    ("collections", "UserList"): "data",
    ("weakref", "WeakValueDictionary"): "data",
    ("weakref", "WeakKeyDictionary"): "data",
    ("_weakrefset", "WeakSet"): "data",
    ("collections", "ChainMap"): "maps",
    ("queue", "Queue"): "queue",
    ("queue", "LifoQueue"): "queue",
    ("queue", "PriorityQueue"): "queue",
}
_WRAPPERS: dict[type, tuple[str, ...]] = {  # with the attributes that they are made of
    types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("dispatcher", "func"),
    np.vectorize: ("pyfunc",),  # its `_ufunc` is a cache, of a class that hides its contents
}


_OPAQUE_CLASSES = {  # their contents cannot be read, or are shared too widely
    ("_queue", "SimpleQueue"),
    ("decimal", "Context"),
    ("_contextvars", "Context"),
}


def wrapped_objects(x: Any) -> list[Any] | None:
    """What a method, a descriptor or a weak reference is made of; None for anything else."""
    if isinstance(x, weakref.ref):
        return [x()]
    names = next((names for cls, names in _WRAPPERS.items() if isinstance(x, cls)), None)
    return None if names is None else [getattr(x, name) for name in names]


def hidden_sources(x: Any) -> Iterator[tuple[type[Source], Any, Any]]:
    """The (kind, holder, name) of each source that an object keeps state at."""
    if isinstance(x, defaultdict):
        yield AttributeSource, x, "default_factory"
    elif isinstance(x, BaseException):
        yield AttributeSource, x, "args"
    elif isinstance(x, types.CellType):
        yield CellSource, x, ""
    elif isinstance(x, enum.Enum):
        yield AttributeSource, x, "_value_"
    elif isinstance(x, np.vectorize):
        yield AttributeSource, x, "pyfunc"
    elif isinstance(x, MAPPING_VIEWS):
        viewed = _viewed_dict(x)
        for name, value in viewed.items():
            if not isinstance(value, PLAIN_CLASSES) or isinstance(value, np.ndarray):
                yield ItemSource, viewed, name
    for cls in type(x).__mro__:
        name = _DATA_ATTRIBUTES.get((cls.__module__, cls.__name__))
        if name is not None:
            yield AttributeSource, x, name


def referenced_objects(x: Any) -> tuple[Any, ...]:
    """Other objects that an object leads to."""
    if isinstance(x, (set, frozenset, *MAPPING_VIEWS)):
        return container_contents(x)
    if isinstance(x, enum.EnumType):
        return tuple(x._member_map_.values())
    if isinstance(x, dict):
        # (One of SciPy's sparse arrays is a dict that makes new arrays when it is iterated.)
        return tuple(key for key in dict.keys(x) if not isinstance(key, PLAIN_CLASSES))
    if isinstance(x, super):
        return x.__self__, x.__thisclass__  # type: ignore[attr-defined]
    if isinstance(x, types.GenericAlias) or type(x).__module__ == "typing":
        return (getattr(x, "__origin__", None), *getattr(x, "__args__", ()))
    return ()


def _viewed_dict(view: Any) -> dict[Any, Any]:
    """The dict that a view shows; {} for that of a class, which only the class can write to."""
    found = next((d for d in gc.get_referents(view) if isinstance(d, dict)), {})
    return {} if "__module__" in found and "__doc__" in found else found


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
