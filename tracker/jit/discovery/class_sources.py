"""Sources for classes: which class an object has, what the class defines, what shadows it.

An attribute that code reads of an object may come from its class, unless the object has one of its
own. So each call checks the class of the object, a class guard over the attributes that the code
names (`jit/guards/class_guard.py`), and that no instance attribute shadows them. Start at
`ClassSources.sources`, which needs all names to be known (`discovery.py`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tracker import tree
from tracker.jit.discovery.names import Names
from tracker.jit.guards.class_guard import HEAP_TYPE_FLAG
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.guards.source import (
    ClassGuardSource,
    ShadowSource,
    Source,
    TypeSource,
    class_attribute,
    has_instance_dict,
    is_data_descriptor,
)
from tracker.support.instances import instance_dict


class ClassSources:
    """`is_user_defined` says whether an object's class, or a class, is user code."""

    def __init__(self, names: Names, is_user_defined: Callable[[Any], bool]) -> None:
        self._names = names
        self._is_user_defined = is_user_defined
        self._names_by_class: dict[tuple[type, bool], list[str]] = {}

    def sources(self, objects: Iterable[Any]) -> Iterator[Source]:
        """The sources for the classes of objects whose attributes may be read."""
        classes: dict[type, None] = {}
        for x in objects:
            if isinstance(x, types.ModuleType):
                continue
            yield from self._shadowing_source(x, type(x))
            if isinstance(x, type) and self._is_user_defined(x):
                classes.setdefault(x)
            cls = type(x)
            if cls.__flags__ & HEAP_TYPE_FLAG and self._is_user_defined(cls):
                classes.setdefault(cls)
                if not tree.is_namedtuple(cls):  # the signature has its class
                    yield TypeSource(ConstantKey(x), "", f"class of a {cls.__name__}")
        names = self._names
        named = frozenset(names.attributes | names.maybe_missing)
        every = None if names.reads_any_attribute else named
        for cls in classes:
            yield ClassGuardSource(ConstantKey(cls), every, f"what {cls.__name__} lends")

    def _shadowing_source(self, x: Any, cls: type) -> Iterator[Source]:
        """The source that says which instance attributes shadow attributes of the class."""
        own = instance_dict(x)
        is_hidden = isinstance(cls.__getattribute__, types.FunctionType)
        if isinstance(x, type) or is_hidden or not has_instance_dict(x):
            return
        found = tuple(
            n for n in self._shadowing_names(cls, self._is_user_defined(x)) if n not in own
        )
        if found:
            yield ShadowSource(
                ConstantKey(x), found, f"what a {cls.__name__} has in front of its class"
            )

    def _shadowing_names(self, cls: type, is_user_defined: bool) -> list[str]:
        """The names, sorted, that an instance attribute could shadow. Cached by class: a program
        has many objects of few classes."""
        if (cls, is_user_defined) in self._names_by_class:
            return self._names_by_class[cls, is_user_defined]
        has_getattr, names = hasattr(cls, "__getattr__"), self._names.attributes
        if self._names.reads_any_attribute:
            names = names.union(*map(vars, cls.__mro__))
        found: list[str] = []
        for name in sorted(names):
            raw = class_attribute(cls, name)
            if name.startswith("__"):
                continue
            if is_user_defined:
                is_method = hasattr(type(raw), "__get__") and not is_data_descriptor(raw)
                can_shadow = is_method or (has_getattr and raw is None)
            else:
                can_shadow = name in self._names.maybe_missing
            if can_shadow:
                found.append(name)
        return self._names_by_class.setdefault((cls, is_user_defined), found)
