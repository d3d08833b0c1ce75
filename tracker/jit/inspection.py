"""What is seen of an object from outside, without running any code of the user's.

Owns: small questions that `reads.py` asks of functions, cells, descriptors, namespaces and modules.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from tracker.jit.libraries import OURS
from tracker.jit.places import attributes_of, children_of, has_dict, lent

_NAMESPACES = {("types", "SimpleNamespace"), ("argparse", "Namespace"), ("_thread", "_local")}


def package_of(function: Any) -> str:
    """The first name of the module of the user's function: its package is not a library."""
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
            return "" if first in OURS else first


def is_jitted(x: Any) -> bool:
    return hasattr(type(x), "_tracker_derive")


def has_attributes(x: Any) -> bool:
    """Whether an object of a library's holds what the user's code may have put there: a namespace,
    a model. Only what the code names is looked at."""
    if isinstance(x, (type, types.ModuleType)) or not has_dict(x):
        return False
    return type(x).__module__.partition(".")[0] != OURS[0]


def lists_in(x: Any, above: tuple[int, ...]) -> Iterator[Any]:
    """All lists in what stands at a place."""
    if type(x) is list:
        yield x
    parts = children_of(x) if id(x) not in above else None
    for child in () if parts is None else parts[1]:
        yield from lists_in(child, (*above, id(x)))


def contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def is_data_descriptor(raw: Any) -> bool:
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")


def and_inside(xs: list[Any]) -> list[Any]:
    """Some objects, and what the dicts among them hold."""
    return xs + [value for x in xs if isinstance(x, dict) for value in x.values()]


def is_data(name: str, x: Any) -> bool:
    """Whether a global is what code may read by a name that is not in it, and not a tool."""
    return (
        not name.startswith("_") and not isinstance(x, (types.ModuleType, type)) and not callable(x)
    )


def is_namespace(x: Any) -> bool:
    return (
        isinstance(x, types.FunctionType) or (type(x).__module__, type(x).__name__) in _NAMESPACES
    )


def is_function_of(x: Any, module: types.ModuleType) -> bool:
    """Whether it is a function of a module's package."""
    first = module.__name__.partition(".")[0]
    return isinstance(x, types.FunctionType) and (x.__module__ or "").partition(".")[0] == first


def is_absent(x: Any, name: str) -> bool:
    """Whether there is no such attribute, without running code of the user's."""
    if isinstance(lent(type(x), name), types.MemberDescriptorType):  # a slot, maybe empty
        return not hasattr(x, name)
    return name not in attributes_of(x) and not hasattr(type(x), name)
