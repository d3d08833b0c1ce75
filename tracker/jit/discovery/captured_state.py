"""Finds the captured state of a function: all that it can read besides its arguments.

Follows the names in the code (`bytecode.py`), without running it, through closure cells, globals,
attributes, context variables, the environment, and the code of other functions. Start at
`find_captured_state`.

Invariants
1. Every source that user code reads by name is found; a superfluous source is merely read on each
   call.
2. Library code is not followed and its state is taken as fixed, except for lists and dicts that
   user code names, and for installed packages: all attributes of their objects are sources, since
   their methods may read and change them, and so are the numbers and arrays in the modules of their
   functions.
3. Of an object, its class, the class attributes it uses (`jit/guards/class_guard.py`), and the
   absence of instance attributes that shadow these are sources, too.
4. No user code runs.
"""

from __future__ import annotations

import abc
import builtins
import functools
import os
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from tracker import tree
from tracker.autodiff.custom_rules import functions_with_rules, rule_functions
from tracker.jit.discovery.builtin_shims import SHIMMED_NAMES, ShimmedGlobals
from tracker.jit.discovery.bytecode import (
    Names,
    operator_names,
    referenced_names,
    reflection_names,
    written_names,
)
from tracker.jit.discovery.impure_calls import PurityCheck
from tracker.jit.discovery.inspection import (
    is_absent,
    is_data_global,
    is_function_of_package,
    is_jitted,
    is_namespace,
    lookup_path,
    may_be_argument,
    may_hold_user_attributes,
    package_of,
)
from tracker.jit.discovery.library_contents import contents_check, is_view_of_labelled, state_of
from tracker.jit.discovery.lru_caches import clear_counter
from tracker.jit.discovery.purity_table import NONE_VOUCHED, VouchedCallables
from tracker.jit.discovery.stdlib_objects import (
    hidden_sources,
    is_opaque,
    referenced_objects,
    wrapped_objects,
)
from tracker.jit.discovery.user_code import (
    INTERNAL_PACKAGES,
    PLAIN_CLASSES,
    LibraryObjects,
    UserCode,
)
from tracker.jit.discovery.write_only import (
    ReplacedDataclasses,
    UnreadLists,
    append_only_sources,
)
from tracker.jit.guards.class_guard import HEAP_TYPE_FLAG
from tracker.jit.guards.constants import ConstantKey, is_constant_tuple
from tracker.jit.guards.source import (
    C_DESCRIPTORS,
    AttributeSource,
    CellSource,
    ClassGuardSource,
    ContentsSource,
    ContextVarSource,
    FunctionSource,
    ItemSource,
    NamespaceSource,
    ShadowSource,
    Source,
    TokenSource,
    TypeSource,
    has_instance_dict,
    is_data_descriptor,
    source_children,
)
from tracker.rebinding.class_shims import is_shim
from tracker.support.instances import (
    cell_contents,
    class_attribute,
    instance_dict,
    is_namespace_class,
)
from tracker.support.pickling import MadeFunction
from tracker.support.structs import replace

_IGNORED_SPECIAL_METHODS = {
    *("__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
}
_ATTRIBUTE_ACCESSORS = {"getattr", "__getattribute__", "__setattr__", "__delattr__"}
_ATTRIBUTE_WRITERS = {"__setattr__", "__delattr__", "__set__", "__delete__"}
_MAX_SOURCES = 20_000  # comparing so many takes milliseconds on each call
_BOUND_METHODS = (types.BuiltinMethodType, types.MethodWrapperType, types.MethodType)
_SLOT_DESCRIPTORS = (types.MemberDescriptorType, types.WrapperDescriptorType)
_REFLECTION_TYPES = (type, types.BuiltinFunctionType, types.FunctionType, *_SLOT_DESCRIPTORS)
_BUILTIN_CONTAINERS = (list, dict, set, deque, bytearray)
# State of libraries that users change.
_MUTABLE_STATE = (list, dict, set, deque, ContextVar, type(os.environ))


class CapturedState(NamedTuple):
    """The sources of a function, and what its code may do.

    sources          where it reads; a holder's own source comes before the sources on it
    names            the names in its code, and what the code may do
    may_be_impure    whether it may call what is not known to be pure
    impure_reason    why it certainly does so; "" if it does not (`impure_calls.py`)
    shimmed_globals  the globals of code that tests types (`builtin_shims.py`)
    compared_iterables  the names of `range`, `zip` and others that are not shimmed there
    objects          objects whose attributes it may read
    over_limit       why there is too much to look at; "" if there is not
    lru_caches       caches of `functools.lru_cache` that it may use
    """

    sources: list[Source]
    names: Names
    may_be_impure: bool
    impure_reason: str
    shimmed_globals: list[ShimmedGlobals]
    compared_iterables: dict[int, set[str]]
    objects: list[Any]
    over_limit: str
    lru_caches: list[Any]


def find_captured_state(
    function: Callable[..., Any],
    values: Iterable[Any] = (),
    vouched: VouchedCallables = NONE_VOUCHED,
) -> CapturedState:
    """What a call of `function` can read, also through functions and objects among its arguments'
    leaves (`values`). The user vouches for the callables in `vouched`."""
    walk = _Walker(package_of(function), vouched)
    walk.reach(function)
    for x in values:
        walk.reach(x)
    return CapturedState(
        sources=walk.run(),
        names=walk.names,
        may_be_impure=walk.purity.needs_monitor,
        impure_reason=walk.purity.refusal,
        shimmed_globals=list(walk.shimmed_globals.values()),
        compared_iterables=walk.compared_iterables,
        objects=walk.objects,
        over_limit=walk.over_limit,
        lru_caches=walk.lru_caches,
    )


def with_constant_arrays(captured: CapturedState, function: Callable[..., Any]) -> CapturedState:
    """The same captured state, where arrays in objects of libraries are constants."""
    installed = LibraryObjects(UserCode(package_of(function)))

    def is_of_library(source: Source) -> bool:
        return isinstance(source, AttributeSource) and installed.is_library_object(
            source.holder.value
        )

    fixed = [replace(p, is_constant=True) if is_of_library(p) else p for p in captured.sources]
    return captured._replace(sources=fixed)


class _Walker:
    """Walks over all objects that code can reach. An object is visited again only after more
    attribute names were met, so that a long chain of objects takes linear time."""

    def __init__(self, package: str, vouched: VouchedCallables) -> None:
        self.user_code = UserCode(package)
        self.purity = PurityCheck(self.user_code, vouched)
        self.vouched: list[Any] = []
        self.sources: dict[Source, None] = {}
        self.names = Names()
        self.string_values: set[str] = set()  # found at sources
        self.uses_abstract_classes = False
        self.looked_up: dict[int, tuple[dict[str, Any], set[str]]] = {}  # by id: a namespace, names
        self.shimmed_globals: dict[tuple[int, frozenset[str]], ShimmedGlobals] = {}
        self.compared_iterables: dict[int, set[str]] = {}
        self.seen: dict[int, Any] = {}
        self.replaced_dataclasses = ReplacedDataclasses()
        self.unread_lists = UnreadLists()
        self.objects: list[Any] = []
        self.lru_caches: list[Any] = []
        self.identity_operands: list[tuple[types.FunctionType, tuple[str, ...]]] = []
        self.libraries = LibraryObjects(self.user_code)
        self.todo: list[Any] = []

    def _follow_all(self) -> set[Source]:
        """Visit all that the code can read; the sources of lists that it only appends to."""
        self._follow_names()
        while True:
            appended = append_only_sources(self.sources, self.names, self.objects)
            read = self.unread_lists.pop_read(appended)
            if not read:
                return appended
            for x in read:
                self._reach_all(x)
            self._follow_names()

    def _follow_names(self) -> None:
        known, looked_at = self._name_counts(), 0
        while self.todo or looked_at < len(self.objects) or known != self._name_counts():
            while self.todo and not self.over_limit:
                self._visit(self.todo.pop())
                if not self.todo:  # rules of library functions, whose modules are not visited
                    self._reach_all(functions_with_rules(self.names.attributes))
            if self.over_limit:
                break  # calls are not guarded, so the rest does not matter
            if known != self._name_counts():
                known, looked_at = self._name_counts(), 0
            new, looked_at = self.objects[looked_at:], len(self.objects)
            for x in new:
                self._visit_object(x)

    def _name_counts(self) -> tuple[object, ...]:
        """Changes when there may be more sources."""
        names = self.names
        known = names.attributes, names.maybe_missing, names.environment_keys
        texts = self.string_values if names.reads_any_attribute else ()
        flags = names.reads_any_attribute, names.lists_attributes, names.reads_any_environment_key
        return *map(len, (*known, texts)), *flags

    def run(self) -> list[Source]:
        appended = self._follow_all()
        if self.vouched:
            self.purity.close()
            self.todo, self.vouched = self.vouched, []
            appended = self._follow_all()
        self._add_name_sources()
        names = self.names
        names.tests_identity |= any(
            self._may_be_argument(f, path) for f, path in self.identity_operands
        )
        flattened: set[Source] = set()
        inside: set[int] = set()
        if not names.tests_identity and not names.sets_frozen_attributes:  # a copy will do
            flattened, inside = self.replaced_dataclasses.find(self.sources, names.stored)
        marked = appended | flattened
        return [
            replace(s, is_append_only=s in appended, is_flattened=s in flattened)
            if s in marked
            else s
            for s in self.sources
            if id(s.holder.value) not in inside
        ]

    @property
    def over_limit(self) -> str:
        """Why a call cannot be guarded, if so: all sources are compared before each call."""
        if len(self.sources) > _MAX_SOURCES:
            return f"it can read more than {_MAX_SOURCES:,} names and attributes"
        return self.libraries.over_limit

    def _may_be_argument(self, f: types.FunctionType, path: tuple[str, ...]) -> bool:
        """Whether an identity test may involve an argument or state stored from one. An attribute
        of an unknown object is looked up at all sources of its name."""
        if not path or path[-1] in self.names.stored_after_init:
            return True
        if path[0]:
            return may_be_argument(lookup_path(f, path))
        named = [s for s in self.sources if s.name == path[-1] and not isinstance(s, TypeSource)]
        return not named or any(may_be_argument(source.read()) for source in named)

    def _add_name_sources(self) -> None:
        """Add sources for names in namespaces that hardly change, and for classes."""
        for space, which in self.looked_up.values():
            for name in sorted(which & self.names.stored):
                self.sources.setdefault(ItemSource(ConstantKey(space), name, f"global {name}"))
            if held := tuple(sorted(which - self.names.stored)):
                label = f"names in {space.get('__name__', 'globals')}"
                self.sources.setdefault(NamespaceSource(ConstantKey(space), held, label))
        if self.names.tests_classes and self.uses_abstract_classes:
            label = "what is registered with classes"
            self.sources.setdefault(TokenSource(ConstantKey(abc.get_cache_token), "", label))
        self._add_class_sources()

    def _add_class_sources(self) -> None:
        """Add sources for classes: an attribute of an object may come from its class, unless the
        object has one of its own."""
        names, classes = self.names, dict[type, None]()
        # A program has many objects of few classes.
        shadowing: dict[tuple[type, bool], list[str]] = {}
        for x in self.objects:
            if isinstance(x, types.ModuleType):
                continue
            cls, is_ours = type(x), self._is_user_defined(x)
            if not isinstance(x, type) and has_instance_dict(x) and not _overrides_lookup(cls):
                if (cls, is_ours) not in shadowing:
                    shadowing[cls, is_ours] = self._shadowing_names(cls, is_ours)
                own = instance_dict(x)
                if found := tuple(n for n in shadowing[cls, is_ours] if n not in own):
                    label = f"what a {cls.__name__} has in front of its class"
                    self.sources.setdefault(ShadowSource(ConstantKey(x), found, label))
            if isinstance(x, type) and is_ours:
                classes.setdefault(x)
            if cls.__flags__ & HEAP_TYPE_FLAG and self._is_user_defined(cls):
                classes.setdefault(cls)
                if not tree.is_namedtuple(cls):  # the signature has its class
                    label = f"class of a {cls.__name__}"
                    self.sources.setdefault(TypeSource(ConstantKey(x), "", label))
        named = frozenset(names.attributes | names.maybe_missing)
        every = None if names.reads_any_attribute else named
        for cls in classes:
            label = f"what {cls.__name__} lends"
            self.sources.setdefault(ClassGuardSource(ConstantKey(cls), every, label))

    def _shadowing_names(self, cls: type, is_ours: bool) -> list[str]:
        """The names, sorted, that an attribute of an object of this class could shadow."""
        names = self.names.attributes
        if self.names.reads_any_attribute:
            names = names.union(*map(vars, cls.__mro__))
        if not is_ours:
            names = names & self.names.maybe_missing
        has_getattr, found = hasattr(cls, "__getattr__"), []
        for name in sorted(name for name in names if not name.startswith("__")):
            raw = class_attribute(cls, name)
            is_method = hasattr(type(raw), "__get__") and not is_data_descriptor(raw)
            if not is_ours or is_method or (has_getattr and raw is None):
                found.append(name)
        return found

    def reach(self, x: Any, source: Source | None = None) -> None:
        """Visit an object that the code can get hold of, maybe as the value at a source."""
        if self._is_plain_data(x):
            return
        self.replaced_dataclasses.add(x, source)
        if isinstance(x, _REFLECTION_TYPES) and (source is None or source.name != x.__name__):
            self._add_reflection(x)
        elif x is os.environ and (source is None or source.name != "environ"):
            self.names.reads_any_environment_key = True
        self.purity.add(x, "" if source is None else source.name)
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        (self.vouched if self.purity.vouches(x) else self.todo).append(x)

    def _add_reflection(self, x: Any) -> None:
        """`getattr` and its like under another name: its arguments are not seen in the code."""
        if isinstance(x, _SLOT_DESCRIPTORS):
            self._visit_slot(x)
            return
        names = reflection_names(x)
        if names is not None:
            self.names.update(names)
            if names.reads_any_environment_key:
                self.reach(os.environ)

    def _is_plain_data(self, x: Any) -> bool:
        """Whether an object is a number, text, a tuple of these, or an array; of no user class."""
        if not isinstance(x, PLAIN_CLASSES):
            return is_constant_tuple(x)
        cls = type(x)
        is_static = cls in PLAIN_CLASSES or not cls.__flags__ & HEAP_TYPE_FLAG
        return is_static or not self._is_user_defined(cls)

    def _visit(self, x: Any) -> None:
        if x in self.unread_lists:
            return
        if isinstance(x, abc.ABCMeta):
            self._visit_abstract_class(x)
        if callable(x):
            self._reach_all(rule_functions(x))
        if is_jitted(x):
            self.reach(x._jitted.function)
            self.objects.append(x)  # it has attributes, like a function
        elif isinstance(x, types.FunctionType):
            self._visit_function(x)
        elif isinstance(x, MadeFunction):
            self._reach_all((x.func, *x.args))
        elif isinstance(x, _BOUND_METHODS) and (
            isinstance(x.__self__, _BUILTIN_CONTAINERS) or is_opaque(x.__self__)
        ):
            self._add_source(AttributeSource, x, "__self__", f"what {x.__name__} is a method of")
        elif isinstance(x, functools.partial):
            self._visit_partial(x)
        elif (wrapped := wrapped_objects(x)) is not None:
            self._reach_all(wrapped)
        elif isinstance(x, functools._lru_cache_wrapper):
            self.reach(x.__wrapped__)
            self.lru_caches.append(x)
            label = f"how often the cache of {getattr(x, '__name__', 'a function')} was emptied"
            self.sources.setdefault(TokenSource(ConstantKey(clear_counter(x)), "", label))
        elif (parts := source_children(x)) is not None:
            self._reach_all(parts[1])
            if type(x).__flags__ & HEAP_TYPE_FLAG and self._is_user_defined(x):
                self.objects.append(x)
        elif isinstance(x, ContextVar):
            self._add_source(ContextVarSource, x, "", f"context variable {x.name}")
        elif type(x).__module__ == "operator" and callable(x):
            self.names.add_attributes(operator_names(x))
        elif isinstance(x, types.ModuleType):
            self.objects.append(x)
        elif isinstance(x, _BOUND_METHODS) and not isinstance(x.__self__, types.ModuleType):
            self._visit_c_method(x)
        elif self.libraries.add(x) or self._is_user_defined(x) or may_hold_user_attributes(x):
            self.objects.append(x)
        if not isinstance(x, (types.FunctionType, types.ModuleType)):
            self._reach_all(referenced_objects(x))
            for kind, holder, name in hidden_sources(x):
                self._add_source(kind, holder, name, f"{type(x).__name__} of {name}")

    def _visit_abstract_class(self, cls: abc.ABCMeta) -> None:
        """Other classes can be registered with an abstract class; a runtime protocol tests for
        attributes."""
        self.uses_abstract_classes = True
        if getattr(cls, "_is_runtime_protocol", False):
            names = {n for c in cls.__mro__ for n in (*vars(c), *getattr(c, "__annotations__", ()))}
            names = {n for n in names if not n.startswith("_")}
            self.names.maybe_missing |= names
            self.names.attributes |= names

    def _reach_all(self, xs: Iterable[Any]) -> None:
        for x in xs:
            self.reach(x)

    def _add_source(self, kind: type[Source], holder: Any, name: Any, label: str) -> None:
        source = kind(ConstantKey(holder), name, label)
        value = source.read()
        if not self._is_library_module(value):
            self.sources.setdefault(source)
        if type(value) is str:
            self.string_values.add(value)
        self.unread_lists.add(value, source, self.names)
        self.reach(value, source)

    def _visit_function(self, f: types.FunctionType) -> None:
        if type(vars(f).get("registry")) is types.MappingProxyType:  # singledispatch
            self._add_source(AttributeSource, f, "registry", f"what {f.__name__} dispatches to")
            self.uses_abstract_classes = self.names.tests_classes = True
            return
        if not self.user_code.has_function(f):
            for held in map(cell_contents, f.__closure__ or ()):  # a wrapper may call user code
                inside = held.values() if isinstance(held, dict) else ()
                self._reach_all(filter(callable, (held, *inside)))
            if f is os.getenv:
                self.objects.append(os.environ)
            if self.user_code.is_installed(f.__module__):
                self._visit_library_function(f)
            if _is_generated(f):
                self._visit_defaults(f)
            return
        names = referenced_names(f.__code__)
        self.names.add_function(names, f.__name__, _is_generated(f))
        if not _is_generated(f):
            self.identity_operands += [(f, path) for path in names.identity_operands]
        self.purity.add_code(f.__code__, names)
        if questions := SHIMMED_NAMES & names.globals:
            self.shimmed_globals[id(f.__globals__), questions] = f.__globals__, questions
        if names.compared_iterables:
            known = self.compared_iterables.setdefault(id(f.__globals__), set())
            known |= names.compared_iterables
        self._add_source(FunctionSource, f, "__code__", f"code of {f.__name__}")
        for cell, name in zip(f.__closure__ or (), f.__code__.co_freevars, strict=True):
            self._add_source(CellSource, cell, name, f"closure variable {name}")
        for name in sorted(self._global_names(f, names)):
            self._add_source(ItemSource, f.__globals__, name, f"global {name}")
        self._visit_defaults(f)
        self.objects.append(f)

    def _visit_defaults(self, f: types.FunctionType) -> None:
        for name, given in (("__defaults__", f.__defaults__), ("__kwdefaults__", f.__kwdefaults__)):
            values = given.values() if isinstance(given, dict) else given or ()
            classes = tuple(map(type, values))  # that of a tracked value is none of the plain ones
            if any(not issubclass(c, PLAIN_CLASSES) or issubclass(c, np.ndarray) for c in classes):
                self._add_source(AttributeSource, f, name, f"{f.__name__}.{name}")
            elif given:
                self._add_source(FunctionSource, f, name, f"{f.__name__}.{name}")
            for each in given if isinstance(given, dict) else ():
                self._add_source(ItemSource, given, each, f"default {each} of {f.__name__}")

    def _global_names(self, f: types.FunctionType, names: Names) -> set[str]:
        """The globals that a function's code may read; visits the modules that it imports."""
        for level, name in names.imports:
            self._visit_import(f, level, name)
        missing = names.globals - f.__globals__.keys() - SHIMMED_NAMES
        libraries = {n for n in names.globals if self._is_library_module(f.__globals__.get(n))}
        self._add_looked_up(f.__globals__, missing | libraries)
        self._add_looked_up(vars(builtins), missing)
        for name in missing & vars(builtins).keys():
            self.purity.add(vars(builtins)[name], name)
        found = names.globals & f.__globals__.keys()
        found = {name for name in found if not is_shim(name, f.__globals__[name])}
        if names.reads_any_global:
            found |= {name for name, x in f.__globals__.items() if is_data_global(name, x)}
        return found

    def _is_library_module(self, x: Any) -> bool:
        """Whether a value is a library's module, which is hardly ever rebound."""
        return isinstance(x, types.ModuleType) and not self.user_code.has_module(x)

    def _add_looked_up(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        """Note names that are looked up in a namespace that hardly changes."""
        self.looked_up.setdefault(id(namespace), (namespace, set()))[1].update(names)

    def _visit_import(self, f: types.FunctionType, level: int, name: str) -> None:
        if level:
            package = f.__globals__.get("__package__") or ""
            name = ".".join(filter(None, [*package.split(".")[: 1 - level or None], name]))
        for which in {name, name.partition(".")[0]}:
            if which in sys.modules:
                self._add_source(ItemSource, sys.modules, which, f"module {which}")
            else:
                self.purity.needs_monitor = True  # its contents are unknown

    def _visit_environ(self) -> None:
        """Add the keys of the environment that the code names, or all of it."""
        if self.names.reads_any_environment_key:
            self._add_source(AttributeSource, os.environ, "_data", "the environment")
        for name in sorted(self.names.environment_keys):
            key, held = os.environ.encodekey(name), os.environ._data  # type: ignore[attr-defined]
            self._add_source(ItemSource, held, key, f"environment {name}")

    def _visit_c_method(self, x: Any) -> None:
        """A bound method in C: `o.__getattribute__`, or the getter and setter of a slot."""
        self.reach(x.__self__)
        self._visit_slot(x)
        if isinstance(x.__self__, C_DESCRIPTORS):
            self._visit_slot(x.__self__)

    def _visit_slot(self, x: Any) -> None:
        """Note what a slot descriptor or a method like `__getattribute__` allows by its name."""
        name = x.__name__
        self.names.reads_any_attribute |= name in _ATTRIBUTE_ACCESSORS
        self.names.writes_unknown |= name in _ATTRIBUTE_WRITERS
        self.names.sets_frozen_attributes |= name == "__setattr__"
        if isinstance(x, C_DESCRIPTORS):
            self.names.add_attributes({name})

    def _visit_partial(self, x: functools.partial[Any]) -> None:
        """Visit a partial's function and arguments. A string argument may name an attribute;
        without one, the attribute is known only in the call."""
        self.reach(x.func)
        texts = {given for given in (*x.args, *x.keywords.values()) if type(given) is str}
        self.names.add_attributes(texts)
        is_accessor = getattr(x.func, "__name__", "") in _ATTRIBUTE_ACCESSORS
        self.names.reads_any_attribute |= is_accessor and not texts
        for name in ("args", "keywords", *["func"] * tree.is_method(x.func)):
            self._add_source(AttributeSource, x, name, f"partial.{name}")
        self.objects.append(x)

    def _visit_object(self, x: Any) -> None:
        if isinstance(x, types.ModuleType):
            self._visit_module(x)
            return
        if x is os.environ:
            self._visit_environ()
            return
        every = self.names.reads_any_attribute and (is_namespace(x) or self._is_user_defined(x))
        own_classes = x.__mro__ if isinstance(x, type) else ()
        for cls in filter(self._is_user_defined, (*own_classes, *type(x).__mro__)):
            for name, raw in vars(cls).items():
                is_special = name.startswith("__") and name.endswith("__")
                if is_special and name not in _IGNORED_SPECIAL_METHODS:
                    if isinstance(raw, (types.FunctionType, staticmethod, classmethod)):
                        self.reach(raw)  # `__new__` is a static method
                elif name in self.names.attributes or (every and not name.startswith("__")):
                    self._visit_class_attribute(x, cls, name, raw)
        if _overrides_lookup(type(x)):
            self._visit_instance_dict(x)
            return
        keeps = has_instance_dict(x) and not isinstance(x, type)
        own = vars(x) if keeps else {}
        whole = every or is_namespace_class(type(x))  # no code names what its keywords set
        if (check := contents_check(x)) is not None:
            label = f"the contents of a {type(x).__name__}"
            self.sources.setdefault(ContentsSource(ConstantKey(check), "", label))
        elif is_view_of_labelled(x) and not self._is_user_defined(x):
            self._reach_all(state_of(x).values())
            return
        elif not self.libraries.over_limit and self.libraries.is_library_object(x):
            self._visit_library_object(x)
            whole = True
        for name in sorted(own.keys() if whole else self.names.attributes & own.keys()):
            label = f"{type(x).__name__}.{name}"
            if not is_data_descriptor(class_attribute(type(x), name)):
                self._add_source(AttributeSource, x, name, label)
            elif whole and not self._is_user_defined(x):  # behind a property of its class
                self._add_source(ItemSource, own, name, label)
        if every and self.names.lists_attributes and keeps:
            self._add_source(AttributeSource, x, "__dict__", f"{type(x).__name__}.__dict__")
        if not hasattr(type(x), "__getattr__"):
            for name in sorted(self.names.maybe_missing):
                is_local = type(x) is threading.local  # each thread has another dict
                if (is_local or self._is_user_defined(x)) and is_absent(x, name):
                    self._add_source(AttributeSource, x, name, f"{type(x).__name__}.{name}")

    def _visit_instance_dict(self, x: Any) -> None:
        """Add all instance attributes: only the code of the class knows what it returns under which
        name."""
        own = instance_dict(x)
        if self._is_user_defined(x) and not isinstance(x, type):
            for name in sorted({name for name in own if type(name) is str} | self.names.attributes):
                self._add_source(ItemSource, own, name, f"{type(x).__name__}.{name}")

    def _visit_library_object(self, x: Any) -> None:
        """Note what methods that are not followed may write, and add the slots of an object."""
        for f in self.libraries.new_methods(x):
            written = written_names(f.__code__)  # even of functions beyond the limit
            if written.may_write:
                self.names.update(written)
            self.reach(f)
        for name, label in self.libraries.filled_slots(x):
            self._add_source(AttributeSource, x, name, label)

    def _visit_library_function(self, f: types.FunctionType) -> None:
        self.names.stored |= written_names(f.__code__).stored
        own = vars(f)  # mostly empty
        for name in sorted(own.keys() & referenced_names(f.__code__).attributes if own else ()):
            self._add_source(AttributeSource, f, name, f"{f.__name__}.{name}")
        for name, value in self.libraries.module_globals(f):
            if isinstance(value, types.FunctionType):
                self.reach(value)
            else:
                self._add_source(ItemSource, f.__globals__, name, f"{f.__module__}.{name}")

    def _visit_module(self, x: types.ModuleType) -> None:
        """Of a library's module, add only state that users are known to change."""
        ours = self.user_code.has_module(x)
        if not ours:
            self._check_members(x)
        package = x.__name__.partition(".")[0]
        if package == INTERNAL_PACKAGES[0] or x.__name__.startswith("numpy.random"):
            return  # tracing patches `numpy.random`
        if not ours:
            names = (self.names.attributes & vars(x).keys()) | self.names.maybe_missing
            self._add_looked_up(vars(x), names)
            members = [vars(x).get(name) for name in names]
            self.uses_abstract_classes |= any(isinstance(m, abc.ABCMeta) for m in members)
            self._reach_all(m for m in members if isinstance(m, types.ModuleType))
        if package in INTERNAL_PACKAGES:
            return
        named = self.names.attributes | ({"__getattr__"} if ours else set())
        if self.names.reads_any_attribute:
            named |= self.string_values
        for name in sorted(named & vars(x).keys()):
            value = vars(x)[name]
            if ours or type(value) in _MUTABLE_STATE:
                self._add_source(ItemSource, vars(x), name, f"{x.__name__}.{name}")
            elif self.user_code.is_installed(type(value).__module__) or (
                is_function_of_package(value, x)
            ):
                self.reach(value)
            elif value is os.getenv:
                self.objects.append(os.environ)

    def _check_members(self, library: types.ModuleType) -> None:
        """Check the purity of the members that code names in a library's module. Our modules have
        the members of NumPy and SciPy."""
        like = sys.modules.get(library.__name__.removeprefix(f"{INTERNAL_PACKAGES[0]}."), library)
        for name in self.names.attributes & vars(like).keys():
            self.purity.add(vars(like)[name], name)

    def _visit_class_attribute(self, x: Any, cls: type, name: str, raw: Any) -> None:
        is_slot = isinstance(raw, types.MemberDescriptorType)
        if hasattr(type(raw), "__get__") and not is_slot:
            self.reach(raw)  # a method, a property, a user's descriptor
        elif not is_slot or (not isinstance(x, type) and hasattr(x, name)):
            self._add_source(AttributeSource, x, name, f"{cls.__name__}.{name}")

    def _is_user_defined(self, x: Any) -> bool:
        """Whether an object's class, or a class, is user code."""
        cls = x if isinstance(x, type) else type(x)
        return self.user_code.has_class(cls) and cls.__module__ != "builtins"


def _overrides_lookup(cls: type) -> bool:
    """Whether code of the user's says what the attributes of an object are."""
    return isinstance(cls.__getattribute__, types.FunctionType)


def _is_generated(f: types.FunctionType) -> bool:
    """Whether `dataclasses` or `namedtuple` generated a function: such code tests whether two
    objects have one class."""
    return f.__name__.startswith("__") and f.__code__.co_filename == "<string>"
