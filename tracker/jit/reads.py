"""What a function reads besides its arguments: the places that its code names.

Owns: `places_of`. It follows the code's names from the function to the functions and objects it can
reach, without running anything: closure cells, globals, attributes that the code mentions.

Invariants: a place that the code reads by name is found (one too many does no harm, it is only
looked at); library code is not followed, and what it holds is taken to stay as it is; no code of
the user's runs. Start at `places_of`.
"""

from __future__ import annotations

import dis
import functools
import os
import re
import sys
import sysconfig
import types
import weakref
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from tracker.errors import is_internal
from tracker.jit.compared import Static
from tracker.jit.places import Place, children_of
from tracker.records import record

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"}
_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, np.dtype)
_NEVER = {"__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
_OURS = ("tracker", "numpy")
_HELD: dict[type, str] = {UserDict: "data", UserList: "data", ChainMap: "maps"}
_LIBRARIES = tuple(
    {sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")  # of the user, or of the system


@record(frozen=True)
class Names:
    """The names that code mentions, its inner functions' included."""

    globals: frozenset[str]
    attributes: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """See `Names`."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for step in dis.get_instructions(code):
        if step.opname in _GLOBALS or step.opname in _ATTRIBUTES:
            name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
            found[step.opname in _GLOBALS].add(name)
    inner = [names_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return Names(
        frozenset(found[True]).union(*(n.globals for n in inner)),
        frozenset(found[False]).union(*(n.attributes for n in inner)),
    )


def places_of(function: Callable[..., Any], values: Iterable[Any] = ()) -> list[Place]:
    """The places that a call of `function` can read, those of functions and objects among its
    arguments' leaves included; a holder's own place comes before the places in it."""
    walk = _Walk(_package(function))
    walk.reach(function)
    for x in values:
        if not isinstance(x, _PLAIN):
            walk.reach(x)
    return walk.run()


class _Walk:
    """Follows names. An object is looked at again when more attribute names have been met, and then
    only; so a long chain of objects takes linear time."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.places: dict[Place, None] = {}
        self.attributes: set[str] = set()
        self.seen: dict[int, Any] = {}
        self.objects: list[Any] = []
        self.todo: list[Any] = []

    def run(self) -> list[Place]:
        known = looked_at = 0
        while self.todo or looked_at < len(self.objects) or known != len(self.attributes):
            while self.todo:
                self._visit(self.todo.pop())
            if known != len(self.attributes):
                known, looked_at = len(self.attributes), 0
            new, looked_at = self.objects[looked_at:], len(self.objects)
            for x in new:
                self._object(x)
        return list(self.places)

    def reach(self, x: Any) -> None:
        """Something that the code can get hold of."""
        if isinstance(x, _PLAIN) or id(x) in self.seen:
            return
        self.seen[id(x)] = x
        self.todo.append(x)

    def _visit(self, x: Any) -> None:
        if is_jitted(x):
            self.reach(x._jitted.function)
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self.reach(x.__func__)
            self.reach(x.__self__)
        elif isinstance(x, functools.partial):
            self._partial(x)
        elif isinstance(x, (staticmethod, classmethod)):
            self.reach(x.__func__)
        elif isinstance(x, property):
            self._all(filter(None, (x.fget, x.fset)))
        elif isinstance(x, functools._lru_cache_wrapper):
            self.reach(x.__wrapped__)
        elif isinstance(x, weakref.ref):
            self.reach(x())
        elif (parts := children_of(x)) is not None:
            self._all(parts[1])
        elif isinstance(x, (set, frozenset)):
            self._all(x)
        elif self._is_ours(x) or _has_attributes(x):
            self.objects.append(x)
            if type(x) in _HELD:
                name = _HELD[type(x)]
                self._place("attribute", x, name, f"{type(x).__name__}.{name}")

    def _all(self, xs: Iterable[Any]) -> None:
        for x in xs:
            self.reach(x)

    def _place(
        self, kind: Literal["cell", "item", "attribute"], holder: Any, name: str, label: str
    ) -> None:
        place = Place(kind, Static(holder), name, label)
        value = place.read()
        if isinstance(value, types.ModuleType) and self._is_library(value):
            return
        self.places.setdefault(place)
        self.reach(value)

    def _function(self, f: types.FunctionType) -> None:
        if self._is_library_code(f):
            for cell in f.__closure__ or ():  # what a library wraps may be the user's
                self._all(x for x in _contents(cell) if callable(x))
            return
        names = names_in(f.__code__)
        self.attributes |= names.attributes
        for cell, name in zip(f.__closure__ or (), f.__code__.co_freevars, strict=True):
            if _contents(cell):
                self._place("cell", cell, name, f"closure variable {name}")
        for name in sorted(names.globals & f.__globals__.keys()):
            self._place("item", f.__globals__, name, f"global {name}")
        for name, given in (("__defaults__", f.__defaults__), ("__kwdefaults__", f.__kwdefaults__)):
            values = given.values() if isinstance(given, dict) else given or ()
            if any(not isinstance(x, _PLAIN) or isinstance(x, np.ndarray) for x in values):
                self._place("attribute", f, name, f"{f.__name__}.{name}")
        if vars(f):
            self.objects.append(f)

    def _partial(self, x: functools.partial[Any]) -> None:
        self.reach(x.func)
        for name in ("args", "keywords"):
            self._place("attribute", x, name, f"partial.{name}")

    def _object(self, x: Any) -> None:
        if isinstance(x, types.ModuleType):
            for name in sorted(self.attributes & vars(x).keys()):
                self._place("item", vars(x), name, f"{x.__name__}.{name}")
            return
        classes = [c for c in (x if isinstance(x, type) else type(x)).__mro__ if self._is_ours(c)]
        for cls in classes:
            for name, raw in vars(cls).items():
                if name.startswith("__") and name.endswith("__") and name not in _NEVER:
                    if isinstance(raw, types.FunctionType):
                        self.reach(raw)
                elif name in self.attributes:
                    self._class_attribute(x, cls, name, raw)
        if isinstance(type(x).__getattribute__, types.FunctionType):
            return  # only its code can tell
        own = vars(x) if hasattr(x, "__dict__") and not isinstance(x, type) else {}
        for name in sorted(self.attributes & own.keys()):
            if not _is_data_descriptor(_raw(type(x), name)):
                self._place("attribute", x, name, f"{type(x).__name__}.{name}")

    def _class_attribute(self, x: Any, cls: type, name: str, raw: Any) -> None:
        label = f"{cls.__name__}.{name}"
        if isinstance(raw, types.FunctionType):
            self._place("attribute", cls, name, label)
        elif isinstance(raw, (staticmethod, classmethod, property, functools.cached_property)):
            self.reach(raw.func if isinstance(raw, functools.cached_property) else raw)
        elif isinstance(raw, types.MemberDescriptorType):
            if not isinstance(x, type) and hasattr(x, name):
                self._place("attribute", x, name, label)
        elif not hasattr(type(raw), "__get__"):
            self._place("attribute", x, name, label)

    def _is_ours(self, x: Any) -> bool:
        """Whether an object's class, a class or a module is the user's."""
        if isinstance(x, types.ModuleType):
            return not self._is_library(x)
        module = (x if isinstance(x, type) else type(x)).__module__
        return not self._is_library(sys.modules.get(module)) and module != "builtins"

    def _is_library(self, module: types.ModuleType | None) -> bool:
        first = "" if module is None else module.__name__.partition(".")[0]
        if module is None or first == self.package:
            return False
        where = getattr(module, "__file__", None)
        if first in _OURS:
            return True
        if where is None:
            return module.__name__ in sys.builtin_module_names or hasattr(module, "__path__")
        return is_library_file(where)

    def _is_library_code(self, f: types.FunctionType) -> bool:
        if is_internal(f.__code__):  # a derivative bears its function's name, and its module's
            return True
        if (f.__module__ or "").partition(".")[0] == self.package:
            return False
        return is_library_file(f.__code__.co_filename)


@functools.lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    prefixes = ("<frozen", "<string>", "<__array_function__", *_LIBRARIES)
    return path.startswith(prefixes) or _INSTALLED.search(path) is not None


def _package(function: Any) -> str:
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
            return "" if first in _OURS else first


def is_jitted(x: Any) -> bool:
    return hasattr(type(x), "_tracker_derive")


def _has_attributes(x: Any) -> bool:
    """Whether an object of a library's holds what the user's code may have put there: a namespace,
    a model. Only what the code names is looked at."""
    if isinstance(x, (type, types.ModuleType)) or not hasattr(x, "__dict__"):
        return False
    return type(x).__module__.partition(".")[0] != _OURS[0]


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _raw(cls: type, name: str) -> Any:
    """A class's attribute, as it was put there."""
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)


def _is_data_descriptor(raw: Any) -> bool:
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")
