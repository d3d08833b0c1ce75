"""What a function reads besides its arguments: the places that its code names.

Owns: `reads_of`. It follows the code's names (`bytecode.py`) from the function to the functions
and objects it can reach, without running anything: closure cells, globals, attributes that the code
mentions, context variables, the environment, and the code of functions itself.

Invariants: a place that the code reads by name is found (one too many does no harm, it is only
looked at); library code is not followed, and what it holds is taken to stay as it is, but for lists
and dicts that the user's code names, and for objects of packages that somebody has installed: of
these all attributes count, for their methods may read and change them, and of their functions the
numbers and arrays of their modules, so far as names lead; no code of the user's runs.
Of an object it counts, too, which class it has, what that lends it (methods, properties, special
methods: `jit/guards/class_guard.py`), and that it has nothing of its own in front of these. Start
at `reads_of`.
"""

from __future__ import annotations

import abc
import builtins
import functools
import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from tracker import tree
from tracker.jit.discovery.builtin_shims import QUESTIONS, Space
from tracker.jit.discovery.bytecode import Names, names_given, names_in, names_of
from tracker.jit.discovery.class_sources import Classes
from tracker.jit.discovery.impure_calls import Unproven
from tracker.jit.discovery.inspection import (
    and_inside,
    contents,
    has_attributes,
    is_absent,
    is_data,
    is_data_descriptor,
    is_function_of,
    is_jitted,
    is_namespace,
    may_be_given,
    named_in,
    package_of,
)
from tracker.jit.discovery.lru_caches import emptied
from tracker.jit.discovery.name_set import Mentioned
from tracker.jit.discovery.opaque_objects import goes_on
from tracker.jit.discovery.purity_table import NOTHING, Pure
from tracker.jit.discovery.site_packages import HEAP, PLAIN, Installed
from tracker.jit.discovery.stdlib_objects import hidden_in, reached_by
from tracker.jit.discovery.user_code import OURS, is_installed, is_library, is_library_code
from tracker.jit.discovery.write_only import Replaced, logs
from tracker.jit.guards.constants import Static
from tracker.jit.guards.source import OF_C, Kind, Place, children_of, has_dict, lent
from tracker.support.instances import own_dict
from tracker.support.structs import replace

_NEVER = {"__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
_BY_NAME = {"getattr", "__getattribute__", "__setattr__", "__delattr__"}
_PUTS = {"__setattr__", "__delattr__", "__set__", "__delete__"}
_MOST = 20_000  # places; to compare them takes milliseconds
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType, types.MethodType)
_OF_SLOTS = (types.MemberDescriptorType, types.WrapperDescriptorType)
_TOOLS = (type, types.BuiltinFunctionType, types.FunctionType, *_OF_SLOTS)
_LAYOUT = {"flags", "strides", "base"}
_BUILTIN = (list, dict, set, deque, bytearray)
_STATE = (list, dict, set, deque, ContextVar, type(os.environ))  # of libraries, that users change


class Reads(NamedTuple):
    """The places that a call can read; `asks`: whether it may call what is not known to be pure,
    `unknown`: why it surely does (`impure_calls.py`); the globals of code that asks what a value
    is, and how (`builtin_shims.py`). `stored`: the names under which it puts something; `fills`: it
    may put something elsewhere, too. `objects`: whose attributes it may read. `beyond`: why there
    is too much to look at, if there is. `compares`: it may ask whether two things are one object,
    `flags`: whether something is True; `caches`: of `functools.lru_cache`; `draws`: it may draw
    random numbers from a module; `remembered`: the names under which it puts something, but for
    objects being made; `layout`: it may ask how an array lies in memory."""

    places: list[Place]
    asks: bool
    unknown: str
    spaces: list[Space]
    stored: set[str]
    fills: bool
    objects: list[Any]
    beyond: str
    compares: bool
    flags: bool
    caches: list[Any]
    draws: bool
    remembered: set[str]
    layout: bool


def places_of(function: Callable[..., Any], values: Iterable[Any] = ()) -> list[Place]:
    """The places of `reads_of`."""
    return reads_of(function, values).places


def reads_of(
    function: Callable[..., Any], values: Iterable[Any] = (), pure: Pure = NOTHING
) -> Reads:
    """What a call of `function` can read, by functions and objects among its arguments' leaves,
    too; a holder's own place comes before the places in it. `pure`: what the user vouches for."""
    walk = _Walk(package_of(function), pure)
    walk.reach(function)
    for x in values:
        walk.reach(x)
    places = walk.run()
    names = walk.names
    return Reads(
        places=places,
        asks=walk.unproven.watch,
        unknown=walk.unproven.refused,
        spaces=list(walk.spaces.values()),
        stored=names.stored,
        fills=names.fills,
        objects=walk.objects,
        beyond=walk.beyond,
        compares=names.compares,
        flags=names.flags,
        caches=walk.caches,
        draws=names.draws,
        remembered=names.remembered,
        layout=not _LAYOUT.isdisjoint(names.attributes),
    )


def with_fixed(reads: Reads, function: Callable[..., Any]) -> Reads:
    """The same, where arrays in objects of libraries are constants."""
    installed = Installed(package_of(function))

    def is_librarys(place: Place) -> bool:
        return place.kind == "attribute" and installed.has(place.holder.value)

    fixed = [replace(p, is_fixed=True) if is_librarys(p) else p for p in reads.places]
    return reads._replace(places=fixed)


class _Walk:
    """Follows names. An object is looked at again when more attribute names have been met, and then
    only; so a long chain of objects takes linear time."""

    def __init__(self, package: str, pure: Pure) -> None:
        self.package = package
        self.unproven = Unproven(package, pure)
        self.vouched: list[Any] = []
        self.places: dict[Place, None] = {}
        self.names = Mentioned()  # by the code so far
        self.named: dict[int, tuple[dict[str, Any], set[str]]] = {}  # names looked up in a dict
        self.spaces: dict[tuple[int, frozenset[str]], Space] = {}
        self.seen: dict[int, Any] = {}
        self.replaced = Replaced()
        self.objects: list[Any] = []
        self.caches: list[Any] = []
        self.compared: list[tuple[types.FunctionType, tuple[str, ...]]] = []  # by whose code
        self.installed = Installed(package)
        self.todo: list[Any] = []

    def _follow(self) -> None:
        known, looked_at = self.names.extent(), 0
        while self.todo or looked_at < len(self.objects) or known != self.names.extent():
            while self.todo and not self.beyond:
                self._visit(self.todo.pop())
            if self.beyond:
                break  # calls are not looked at, so nobody asks what there is
            if known != self.names.extent():
                known, looked_at = self.names.extent(), 0
            new, looked_at = self.objects[looked_at:], len(self.objects)
            for x in new:
                self._object(x)

    def run(self) -> list[Place]:
        self._follow()
        if self.vouched:
            self.unproven.end()
            self.todo, self.vouched = self.vouched, []
            self._follow()
        self._others()
        names = self.names
        names.compares |= any(self._may_be_given(f, path) for f, path in self.compared)
        # by `__self__` code would come from the method that appends to the list
        unknown = names.every or names.whole or "__self__" in names.attributes
        appended = set() if unknown else logs(self.places, names.appended, names.looked_at)
        tells = names.compares or names.forces  # whether it is the very same, or a copy of it
        apart, inside = (set(), set()) if tells else self.replaced.apart(self.places, names.stored)
        marked = appended | apart
        return [
            replace(p, is_log=p in appended, is_apart=p in apart) if p in marked else p
            for p in self.places
            if id(p.holder.value) not in inside
        ]

    @property
    def beyond(self) -> str:
        """Why calls cannot be looked at, if so: before each, all places would be compared."""
        if len(self.places) > _MOST:
            return f"it can read more than {_MOST:,} names and attributes"
        return self.installed.beyond

    def _may_be_given(self, f: types.FunctionType, path: tuple[str, ...]) -> bool:
        """Whether what code compares with may be an argument, or what it has stored of one. Of an
        attribute of whatever it is, all that stands under its name is looked at."""
        if not path or path[-1] in self.names.remembered:
            return True
        if path[0]:
            return may_be_given(named_in(f, path))
        found = [p.read() for p in self.places if p.name == path[-1] and p.kind != "class"]
        return not found or any(map(may_be_given, found))

    def _others(self) -> None:
        """The places of what was named in dicts that hardly change, and of classes."""
        for space, which in self.named.values():
            for name in sorted(which & self.names.stored):
                self.places.setdefault(Place("item", Static(space), name, f"global {name}"))
            if held := tuple(sorted(which - self.names.stored)):
                label = f"names in {space.get('__name__', 'globals')}"
                self.places.setdefault(Place("names", Static(space), held, label))
        for place in Classes(self.names, self._is_ours).places(self.objects):
            self.places.setdefault(place)

    def reach(self, x: Any, place: Place | None = None) -> None:
        """Something that the code can get hold of; what stands at a place."""
        if self._is_plain(x):
            return
        self.replaced.note(x, place)
        if isinstance(x, _TOOLS) and (place is None or place.name != x.__name__):
            self._tool(x)
        elif x is os.environ and (place is None or place.name != "environ"):
            self.names.environment = self.names.environment[0], True
        self.unproven.note(x, "" if place is None else place.name)
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        (self.vouched if self.unproven.vouches(x) else self.todo).append(x)

    def _tool(self, x: Any) -> None:
        """`getattr` and its like by another name: what is said to it is not seen in the code."""
        if isinstance(x, _OF_SLOTS):
            self._of_slots(x)
            return
        names = names_of(x)
        if names is not None:
            self.names.note(names, x.__name__)
            self.names.compares |= names.compares
            if names.environment:
                self.reach(os.environ)

    def _is_plain(self, x: Any) -> bool:
        """Whether it is a number, text or an array, and of no class of the user's."""
        if not isinstance(x, PLAIN):
            return False
        cls = type(x)
        return cls in PLAIN or not cls.__flags__ & HEAP or not self._is_ours(cls)

    def _visit(self, x: Any) -> None:
        if isinstance(x, abc.ABCMeta):
            self._abstract(x)
        if is_jitted(x):
            self.reach(x._jitted.function)
            self.objects.append(x)  # which has attributes of its own, as a function has
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, _BOUND) and (isinstance(x.__self__, _BUILTIN) or goes_on(x.__self__)):
            self._place("attribute", x, "__self__", f"what {x.__name__} is a method of")
        elif isinstance(x, types.MethodType):
            self.reach(x.__func__)
            self.reach(x.__self__)
        elif isinstance(x, functools.partial):
            self._partial(x)
        elif isinstance(x, (staticmethod, classmethod)):
            self.reach(x.__func__)
        elif isinstance(x, property):
            self._all(filter(None, (x.fget, x.fset, x.fdel)))
        elif isinstance(x, functools._lru_cache_wrapper):
            self.reach(x.__wrapped__)
            self.caches.append(x)
            label = f"how often the cache of {getattr(x, '__name__', 'a function')} was emptied"
            self.places.setdefault(Place("token", Static(emptied(x)), "", label))
        elif isinstance(x, weakref.ref):
            self.reach(x())
        elif (parts := children_of(x)) is not None:
            self._all(parts[1])
            if type(x).__flags__ & HEAP and self._is_ours(x):
                self.objects.append(x)
        elif isinstance(x, functools.partialmethod):
            self._all((x.func, x.args, x.keywords))
        elif isinstance(x, functools.singledispatchmethod):
            self._all((x.dispatcher, x.func))
        elif isinstance(x, ContextVar):
            self._place("variable", x, "", f"context variable {x.name}")
        elif type(x).__module__ == "operator" and callable(x):
            self.names.attributes |= names_given(x)
            self.names.looked_at |= names_given(x)
        elif isinstance(x, types.ModuleType):
            self.objects.append(x)
        elif isinstance(x, _BOUND) and not isinstance(x.__self__, types.ModuleType):
            self._method(x)
        elif self.installed.note(x) or self._is_ours(x) or has_attributes(x):
            self.objects.append(x)
        if not isinstance(x, (types.FunctionType, types.ModuleType)):
            self._all(reached_by(x))
            for kind, holder, name in hidden_in(x):
                self._place(kind, holder, name, f"{type(x).__name__} of {name}")

    def _abstract(self, cls: abc.ABCMeta) -> None:
        """Others can be registered with the class; a protocol asks which attributes there are."""
        self.names.abstract = True
        if getattr(cls, "_is_runtime_protocol", False):
            names = {n for c in cls.__mro__ for n in (*vars(c), *getattr(c, "__annotations__", ()))}
            names = {n for n in names if not n.startswith("_")}
            self.names.tested |= names
            self.names.attributes |= names

    def _all(self, xs: Iterable[Any]) -> None:
        for x in xs:
            self.reach(x)

    def _place(self, kind: Kind, holder: Any, name: Any, label: str) -> None:
        place = Place(kind, Static(holder), name, label)
        value = place.read()
        if not self._is_library(value):
            self.places.setdefault(place)
        if type(value) is str:
            self.names.texts.add(value)
        self.reach(value, place)

    def _function(self, f: types.FunctionType) -> None:
        if type(vars(f).get("registry")) is types.MappingProxyType:  # of `functools.singledispatch`
            self._place("attribute", f, "registry", f"what {f.__name__} dispatches to")
            self.names.abstract = self.names.classifies = True
            return
        if is_library_code(f, self.package):
            for cell in f.__closure__ or ():  # what a library wraps may be the user's
                self._all(filter(callable, and_inside(contents(cell))))
            if f is os.getenv:
                self.objects.append(os.environ)
            if is_installed(f.__module__ or "", self.package):
                self._installed_function(f)
            if _is_generated(f):
                self._defaults(f)
            return
        names = names_in(f.__code__)
        if _is_generated(f):
            self.names.note(names, f.__name__)
        else:
            self.names.note_code(names, f.__name__)
            self.compared += [(f, path) for path in names.compared]
        self.unproven.note_code(f.__code__, names)
        if questions := QUESTIONS & names.globals:
            self.spaces[id(f.__globals__), questions] = f.__globals__, questions
        self._place("slot", f, "__code__", f"code of {f.__name__}")
        for cell, name in zip(f.__closure__ or (), f.__code__.co_freevars, strict=True):
            self._place("cell", cell, name, f"closure variable {name}")
        for name in sorted(self._globals(f, names)):
            self._place("item", f.__globals__, name, f"global {name}")
        self._defaults(f)
        self.objects.append(f)

    def _defaults(self, f: types.FunctionType) -> None:
        for name, given in (("__defaults__", f.__defaults__), ("__kwdefaults__", f.__kwdefaults__)):
            values = given.values() if isinstance(given, dict) else given or ()
            if any(not isinstance(x, PLAIN) or isinstance(x, np.ndarray) for x in values):
                self._place("attribute", f, name, f"{f.__name__}.{name}")
            elif given:
                self._place("slot", f, name, f"{f.__name__}.{name}")
            for each in given if isinstance(given, dict) else ():
                self._place("item", given, each, f"default {each} of {f.__name__}")

    def _globals(self, f: types.FunctionType, names: Names) -> set[str]:
        """The globals that a function's code may read; modules that it imports are reached."""
        for level, name in names.imports:
            self._import(f, level, name)
        missing = names.globals - f.__globals__.keys() - QUESTIONS
        libraries = {n for n in names.globals if self._is_library(f.__globals__.get(n))}
        self._name(f.__globals__, missing | libraries)
        self._name(vars(builtins), missing)
        for name in missing & vars(builtins).keys():
            self.unproven.note(vars(builtins)[name], name)
        data = [n for n, x in f.__globals__.items() if names.everywhere and is_data(n, x)]
        return {*data, *(n for n in names.globals if n in f.__globals__)}

    def _is_library(self, x: Any) -> bool:
        """Whether it is a module of a library, which hardly ever is another."""
        return isinstance(x, types.ModuleType) and is_library(x, self.package)

    def _name(self, space: dict[str, Any], names: Iterable[str]) -> None:
        """Note names that are looked up in a dict which hardly changes."""
        self.named.setdefault(id(space), (space, set()))[1].update(names)

    def _import(self, f: types.FunctionType, level: int, name: str) -> None:
        if level:
            package = f.__globals__.get("__package__") or ""
            name = ".".join(filter(None, [*package.split(".")[: 1 - level or None], name]))
        for which in {name, name.partition(".")[0]}:
            if which in sys.modules:
                self._place("item", sys.modules, which, f"module {which}")
            else:
                self.unproven.watch = True  # nobody knows what it has

    def _environ(self) -> None:
        """The keys of the environment that the code names, or all of it."""
        names, whole = self.names.environment
        if whole:
            self._place("attribute", os.environ, "_data", "the environment")
        for name in sorted(names):
            key, held = os.environ.encodekey(name), os.environ._data  # type: ignore[attr-defined]
            self._place("item", held, key, f"environment {name}")

    def _method(self, x: Any) -> None:
        """A method in C of an object: `o.__getattribute__`, what a slot is read and written by."""
        self.reach(x.__self__)
        self._of_slots(x)
        if isinstance(x.__self__, OF_C):
            self._of_slots(x.__self__)

    def _of_slots(self, x: Any) -> None:
        """What a slot is called, or `__getattribute__` and its like: what may be done with it."""
        name = x.__name__
        self.names.every |= name in _BY_NAME
        self.names.fills |= name in _PUTS
        self.names.forces |= name == "__setattr__"
        if isinstance(x, OF_C):
            self.names.attributes.add(name)
            self.names.looked_at.add(name)

    def _partial(self, x: functools.partial[Any]) -> None:
        """What it calls, and what it gives. A text among that may name an attribute; without
        one, which it is shows when it is called."""
        self.reach(x.func)
        texts = {given for given in (*x.args, *x.keywords.values()) if type(given) is str}
        self.names.attributes |= texts
        self.names.looked_at |= texts
        self.names.every |= not texts and getattr(x.func, "__name__", "") in _BY_NAME
        for name in ("args", "keywords", *["func"] * tree.is_method(x.func)):
            self._place("attribute", x, name, f"partial.{name}")
        self.objects.append(x)

    def _object(self, x: Any) -> None:
        if isinstance(x, types.ModuleType):
            self._module(x)
            return
        if x is os.environ:
            self._environ()
            return
        every = self.names.every and (is_namespace(x) or self._is_ours(x))
        own_classes = x.__mro__ if isinstance(x, type) else ()
        for cls in filter(self._is_ours, (*own_classes, *type(x).__mro__)):
            for name, raw in vars(cls).items():
                if name.startswith("__") and name.endswith("__") and name not in _NEVER:
                    if isinstance(raw, (types.FunctionType, staticmethod, classmethod)):
                        self.reach(raw)  # `__new__` is a static method
                elif name in self.names.attributes:
                    self._class_attribute(x, cls, name, raw)
                elif every and not name.startswith("__"):
                    self._any_attribute(x, cls, name, raw)
        if isinstance(type(x).__getattribute__, types.FunctionType):
            self._behind_code(x)
            return
        keeps = has_dict(x) and not isinstance(x, type)
        own = vars(x) if keeps else {}
        whole = every
        if not self.installed.beyond and self.installed.has(x):
            self._installed_object(x)
            whole = True
        for name in sorted(own.keys() if whole else self.names.attributes & own.keys()):
            label = f"{type(x).__name__}.{name}"
            if not is_data_descriptor(lent(type(x), name)):
                self._place("attribute", x, name, label)
            elif whole and not self._is_ours(x):  # where a property of its class has it
                self._place("item", own, name, label)
        if every and self.names.whole and keeps:
            self._place("attribute", x, "__dict__", f"{type(x).__name__}.__dict__")
        if not hasattr(type(x), "__getattr__"):
            for name in sorted(self.names.tested):
                if self._is_ours(x) and is_absent(x, name):
                    self._place("attribute", x, name, f"{type(x).__name__}.{name}")

    def _behind_code(self, x: Any) -> None:
        """All that an object has of its own, for only the code of its class can tell what it gives
        under which name."""
        own = own_dict(x)
        if self._is_ours(x) and not isinstance(x, type):
            for name in sorted({name for name in own if type(name) is str} | self.names.attributes):
                self._place("item", own, name, f"{type(x).__name__}.{name}")

    def _installed_object(self, x: Any) -> None:
        """Note what methods that nobody follows may put where, and look into slots."""
        for f, names in self.installed.functions(x):
            self.names.fills |= names.fills
            self.names.stored |= names.stored  # also of functions that are too many
            self.reach(f)
        for name, label in self.installed.slots(x):
            self._place("attribute", x, name, label)

    def _installed_function(self, f: types.FunctionType) -> None:
        names = names_in(f.__code__)
        self.names.stored |= names.stored
        for name in sorted(names.attributes & vars(f).keys()):
            self._place("attribute", f, name, f"{f.__name__}.{name}")
        for name, value in self.installed.globals_of(f):
            if isinstance(value, types.FunctionType):
                self.reach(value)
            else:
                self._place("item", f.__globals__, name, f"{f.__module__}.{name}")

    def _module(self, x: types.ModuleType) -> None:
        """Of a library, only what users are known to change."""
        ours = not is_library(x, self.package)
        if not ours:
            self._members(x)
        if x.__name__.partition(".")[0] == OURS[0] or x.__name__.startswith("numpy.random"):
            return  # while a function is traced, other functions stand in `numpy.random`
        if not ours:
            names = (self.names.attributes & vars(x).keys()) | self.names.tested
            self.names.abstract |= any(isinstance(vars(x).get(name), abc.ABCMeta) for name in names)
            self._name(vars(x), names)
            held = [vars(x).get(name) for name in names]
            self._all(module for module in held if isinstance(module, types.ModuleType))
        if x.__name__.partition(".")[0] in OURS:
            return
        named = (
            self.names.attributes | self.names.texts if self.names.every else self.names.attributes
        )
        named = named | {"__getattr__"} if ours else named
        for name in sorted(named & vars(x).keys()):
            value = vars(x)[name]
            if ours or type(value) in _STATE:
                self._place("item", vars(x), name, f"{x.__name__}.{name}")
            elif self.installed.owns(type(value)) or is_function_of(value, x):
                self.reach(value)
            elif value is os.getenv:
                self.objects.append(os.environ)

    def _members(self, library: types.ModuleType) -> None:
        """What the code names of a library's module; ours have what NumPy and SciPy have."""
        like = sys.modules.get(library.__name__.removeprefix(f"{OURS[0]}."), library)
        for name in self.names.attributes & vars(like).keys():
            self.unproven.note(vars(like)[name], name)

    def _any_attribute(self, x: Any, cls: type, name: str, raw: Any) -> None:
        """What the class of an object has, any of whose attributes may be read. What its methods
        read counts; that they are rebound does not."""
        if isinstance(raw, types.FunctionType):
            self.reach(raw)
        else:
            self._class_attribute(x, cls, name, raw)

    def _class_attribute(self, x: Any, cls: type, name: str, raw: Any) -> None:
        label = f"{cls.__name__}.{name}"
        if isinstance(raw, types.FunctionType):
            self.reach(raw)
        elif isinstance(raw, (staticmethod, classmethod, property, functools.cached_property)):
            self.reach(raw.func if isinstance(raw, functools.cached_property) else raw)
        elif isinstance(raw, types.MemberDescriptorType):
            if not isinstance(x, type) and hasattr(x, name):
                self._place("attribute", x, name, label)
        elif not hasattr(type(raw), "__get__"):
            self._place("attribute", x, name, label)
        else:
            self.reach(raw)  # the code of a descriptor of the user's

    def _is_ours(self, x: Any) -> bool:
        """Whether an object's class, a class or a module is the user's."""
        if isinstance(x, types.ModuleType):
            return not is_library(x, self.package)
        module = (x if isinstance(x, type) else type(x)).__module__
        return not is_library(sys.modules.get(module), self.package) and module != "builtins"


def _is_generated(f: types.FunctionType) -> bool:
    """Whether `dataclasses` wrote it, or `namedtuple`: such code asks whether two things have one
    class."""
    return f.__name__.startswith("__") and f.__code__.co_filename == "<string>"
