"""Objects of the user's own classes: their attributes, and copies with other attributes.

A class counts as the user's if its module is neither the standard library's nor of an installed
package, and its objects hold nothing but attributes.

Invariant: no code of the class runs: no `__init__`, `__setattr__` or `__reduce__`.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Sequence
from typing import Any

from tracker.support.weakrefs import weak_cache
from tracker.user_frames import is_library_file

_NAMESPACES = {("types", "SimpleNamespace"), ("argparse", "Namespace")}


def cell_contents(cell: types.CellType, empty: Any = None) -> Any:
    """The contents of a closure cell; `empty` if there are none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return empty


def class_attribute(cls: type, name: str, default: Any = None) -> Any:
    """The raw attribute of a class or its bases, without binding; `default` if there is none."""
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), default)


def is_namespace_class(cls: type) -> bool:
    """Whether a class of Python's takes attributes of any name as keyword arguments."""
    return (cls.__module__, cls.__name__) in _NAMESPACES


@weak_cache
def is_user_class(cls: type) -> bool:
    """Whether a class is the user's, and its objects are no more than their attributes."""
    if is_namespace_class(cls):
        return True
    if is_library_class(cls) or issubclass(cls, enum.Enum):
        return False
    try:
        _new_empty(cls)
    except TypeError:  # its objects hold data in C
        return False
    return True


def is_library_class(cls: type) -> bool:
    """Whether a class belongs to Python, an installed package, or this package."""
    module = cls.__module__ or ""
    if module in sys.builtin_module_names or module.partition(".")[0] == "tracker":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and is_library_file(file)


def _new_empty(cls: type) -> Any:
    is_namespace = issubclass(cls, types.SimpleNamespace)
    return types.SimpleNamespace.__new__(cls) if is_namespace else object.__new__(cls)


def slots(cls: type) -> dict[str, Any]:
    """The descriptors of a class's slots, by name."""
    return {
        name: raw
        for base in reversed(cls.__mro__)
        for name, raw in vars(base).items()
        if isinstance(raw, types.MemberDescriptorType) and not name.startswith("__")
    }


def attributes(x: Any) -> dict[str, Any]:
    """The attributes of an object, by name; without those of `functools.cached_property`, which are
    computed from the rest."""
    found = {
        name: value for name, value in instance_dict(x).items() if not _is_cached(type(x), name)
    }
    for name, slot in slots(type(x)).items():
        try:
            found[name] = slot.__get__(x)
        except AttributeError:  # the slot is unset
            continue
    return found


def instance_dict(x: Any) -> dict[str, Any]:
    """The `__dict__` of an object, or {}; no code of the user's class runs."""
    try:
        found: dict[str, Any] = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}
    return found


def _is_cached(cls: type, name: str) -> bool:
    return any(isinstance(vars(base).get(name), functools.cached_property) for base in cls.__mro__)


def new_with_attributes(cls: type, names: Sequence[str], values: Sequence[Any]) -> Any:
    """An object of a class with these attributes and no others."""
    made = _new_empty(cls)
    by_name = slots(cls)
    for name, value in zip(names, values, strict=True):
        if name in by_name:
            by_name[name].__set__(made, value)
        else:
            instance_dict(made)[name] = value
    return made


def drop_cached_properties(copy: Any) -> None:
    """Delete the cached properties of a copy; they are computed again when read."""
    own = instance_dict(copy)
    for name in [name for name in own if _is_cached(type(copy), name)]:
        del own[name]
