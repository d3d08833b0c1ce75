"""User code, which is followed, and library code, which is not.

All attributes of the objects of libraries are sources, since their methods may read and change
them. Of functions of installed packages, the numbers, text and arrays in their modules are sources
as far as names lead, but not lists and dicts: libraries cache there.

Invariants: no user code runs. At most `MAX_LIBRARY_OBJECTS` objects, and functions, of libraries
are looked into; `over_limit` says when there are more.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from tracker.jit.discovery.bytecode import named_globals
from tracker.jit.guards.class_guard import is_c_class
from tracker.jit.guards.constants import is_value_class
from tracker.rebinding.user_code import is_user_namespace
from tracker.user_frames import INSTALLED, is_internal, is_library_file

INTERNAL_PACKAGES = ("tracker", "numpy")
_KNOWN_PACKAGES = (*INTERNAL_PACKAGES, "scipy")
PLAIN_CLASSES = (
    *(str, bytes, int, float, complex, bool, type(None)),
    *(np.ndarray, np.generic, np.dtype),
)
MAX_LIBRARY_OBJECTS = 256  # frameworks have thousands
# Objects that are not looked into: our own; loggers, each of which leads to all others; sparse
# matrices, constants of linear maps; and the conditions and queues of threads, whose waiters a
# rollback would lose.
_SKIPPED_MODULES = (INTERNAL_PACKAGES[0], "logging", "scipy.sparse", "concurrent.futures.thread")
_SKIPPED_CLASSES = {("threading", "Condition")}


class UserCode:
    """Modules of `package` are the user's, wherever they are."""

    def __init__(self, package: str) -> None:
        self.package = package

    def has_module(self, module: types.ModuleType | None) -> bool:
        if module is None or module.__name__.partition(".")[0] == self.package:
            return True
        return is_user_namespace(_module_dict(module), frozenset())

    def has_class(self, cls: type) -> bool:
        return self.has_module(sys.modules.get(cls.__module__))

    def has_function(self, f: types.FunctionType) -> bool:
        if is_internal(f.__code__):  # a derivative has the names of its function
            return False
        module, path = f.__module__ or "", f.__code__.co_filename
        if module.partition(".")[0] == self.package:
            return True
        if path == "<string>" and not f.__name__.startswith("__"):  # of `exec`, not `dataclasses`
            return self.has_module(sys.modules.get(module))
        return not is_library_file(path)

    def is_installed(self, module: str | None) -> bool:
        """Whether a module belongs to an installed package, of which nothing is known: not the
        user's, nor Python's, NumPy's or SciPy's."""
        found = sys.modules.get(module or "")
        where = _module_dict(found).get("__file__")
        if where is None or (module or "").partition(".")[0] in _KNOWN_PACKAGES:
            return False
        return not self.has_module(found) and INSTALLED.search(where) is not None


def _module_dict(module: types.ModuleType | None) -> dict[str, Any]:
    """The `__dict__` of a module: its `__getattr__` would run user code."""
    own: dict[str, Any] = getattr(module, "__dict__", {})
    return own


class LibraryObjects:
    """The library objects that a walk has met."""

    def __init__(self, user_code: UserCode) -> None:
        self._user_code = user_code
        self._objects: list[Any] = []
        self._is_library_class: dict[type, bool] = {}
        self._known_classes: set[type] = set()
        self._function_count = 0

    def is_library_object(self, x: Any) -> bool:
        """Whether an object's class is a library's, or derived from a class of an installed
        package."""
        known = self._is_library_class.get(type(x))
        if known is None:
            cls = type(x)
            owned = self._is_python_library_class(cls) or any(map(self._is_installed, cls.__mro__))
            known = self._is_library_class[cls] = not isinstance(x, type) and owned
        return known

    def _is_installed(self, cls: type) -> bool:
        return self._user_code.is_installed(cls.__module__)

    def _library_classes(self, x: Any) -> list[type]:
        return [
            cls
            for cls in type(x).__mro__
            if self._is_installed(cls) or self._is_python_library_class(cls)
        ]

    def _is_python_library_class(self, cls: type) -> bool:
        """Whether a class of the standard library, NumPy or SciPy is written in Python: its
        instances may hold state that users change."""
        if (
            is_c_class(cls)
            or issubclass(cls, PLAIN_CLASSES)
            or is_value_class(cls)
            or _is_skipped(cls)
        ):
            return False
        return not self._user_code.has_class(cls)

    def add(self, x: Any) -> bool:
        """Add an object; return whether it is a library's."""
        found = self.is_library_object(x)
        if found:
            self._objects.append(x)
        return found

    @property
    def over_limit(self) -> str:
        """Which object holds more objects than are looked into; "" if there is none."""
        if len(self._objects) <= MAX_LIBRARY_OBJECTS:
            return ""
        name = type(self._objects[MAX_LIBRARY_OBJECTS]).__name__
        return f"a {name} that it reads holds too many other objects"

    def new_methods(self, x: Any) -> Iterator[types.FunctionType]:
        """The methods of an object, without those of classes that were asked for before."""
        for cls in self._library_classes(x):
            if cls not in self._known_classes:
                self._known_classes.add(cls)
                for raw in vars(cls).values():
                    found = (raw.fget, raw.fset) if isinstance(raw, property) else (raw,)
                    yield from (f for f in found if isinstance(f, types.FunctionType))

    def filled_slots(self, x: Any) -> Iterator[tuple[str, str]]:
        """The filled slots of an object, and their labels. (C's own slots have names like
        `__vectorcalloffset__`.)"""
        for cls in self._library_classes(x):
            for name, raw in vars(cls).items():
                is_slot = isinstance(raw, types.MemberDescriptorType)
                if is_slot and not name.startswith("__") and hasattr(x, name):
                    yield name, f"{cls.__name__}.{name}"

    def module_globals(self, f: types.FunctionType) -> Iterator[tuple[str, Any]]:
        """The functions, numbers, text and arrays that a function reads in its module."""
        self._function_count += 1
        if self._function_count > MAX_LIBRARY_OBJECTS:
            return
        for name in sorted(named_globals(f.__code__) & f.__globals__.keys()):
            value = f.__globals__[name]
            if isinstance(value, (types.FunctionType, *PLAIN_CLASSES)):
                yield name, value


def _is_skipped(cls: type) -> bool:
    names = cls.__module__.split(".")
    within = {".".join(names[:n]) for n in range(1, len(names) + 1)}
    return (
        not within.isdisjoint(_SKIPPED_MODULES)
        or (cls.__module__, cls.__name__) in _SKIPPED_CLASSES
    )
