"""Small inspections of functions, cells, descriptors, namespaces and modules. No user code runs."""

from __future__ import annotations

import builtins
import enum
import functools
import threading
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.discovery.user_code import INTERNAL_PACKAGES
from tracker.jit.guards.source import (
    MISSING,
    has_instance_dict,
    instance_attributes,
)
from tracker.support.instances import cell_contents, class_attribute, is_namespace_class


def package_of(function: Any) -> str:
    """The top-level package of the user's function, which does not count as a library."""
    while True:
        if is_jitted(function):
            function = function._jitted.function
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(getattr(function, "__wrapped__", None), types.FunctionType):
            function = function.__wrapped__
        else:
            name: str = getattr(function, "__module__", None) or ""
            first = name.partition(".")[0]
            return "" if first in INTERNAL_PACKAGES else first


def is_jitted(x: Any) -> bool:
    """Whether `jit` has made it; `functools.wraps` copies the attribute to other functions."""
    return hasattr(type(x), "_jitted")


def may_hold_user_attributes(x: Any) -> bool:
    """Whether a library's object may have attributes that user code has set: a namespace, a model.
    Only those that the code names are read."""
    if isinstance(x, (type, types.ModuleType)) or not has_instance_dict(x):
        return False
    return type(x).__module__.partition(".")[0] != INTERNAL_PACKAGES[0]


def is_data_global(name: str, x: Any) -> bool:
    """Whether a global is data that code may read by a computed name."""
    return (
        not name.startswith("_") and not isinstance(x, (types.ModuleType, type)) and not callable(x)
    )


def is_namespace(x: Any) -> bool:
    cls = type(x)
    return isinstance(x, types.FunctionType) or cls is threading.local or is_namespace_class(cls)


def is_function_of_package(x: Any, module: types.ModuleType) -> bool:
    """Whether an object is a function of the package that a module belongs to."""
    first = module.__name__.partition(".")[0]
    return isinstance(x, types.FunctionType) and (x.__module__ or "").partition(".")[0] == first


def is_absent(x: Any, name: str) -> bool:
    """Whether an object has no such attribute; runs no user code."""
    if isinstance(class_attribute(type(x), name), types.MemberDescriptorType):  # maybe empty
        return not hasattr(x, name)
    return name not in instance_attributes(x) and not hasattr(type(x), name)


def lookup_path(f: types.FunctionType, path: Sequence[str]) -> Any:
    """What a name in the code of a function, and attributes of classes and modules from there,
    refer to; MISSING if that cannot be told."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    if path[0] in cells:
        found = cell_contents(cells[path[0]], MISSING)
    else:
        found = f.__globals__.get(path[0], vars(builtins).get(path[0], MISSING))
    for name in path[1:]:
        if isinstance(found, enum.EnumMeta):
            found = found.__members__.get(name, MISSING)
        elif isinstance(found, type):
            found = next((vars(c)[name] for c in found.__mro__ if name in vars(c)), MISSING)
        else:
            found = vars(found).get(name, MISSING) if type(found) is types.ModuleType else MISSING
    return found


def may_be_argument(x: Any) -> bool:
    """Whether an object may be an argument that traces compare by its contents, not by identity: an
    array, a float, a container."""
    held = (np.ndarray, np.generic, float, complex)
    return x is MISSING or isinstance(x, held) or tree.children_of(x) is not None
