"""The places that say of which class objects are, and what these lend them.

Owns: `Classes`. What the code reads as an attribute of an object may come from its class, unless
the object has one of its own in front of that. So three things are looked at: which class an object
has, what that lends it under the names that the code mentions (`jit/guards/class_guard.py`), and
that there is still nothing in front. Start at `Classes.places`, once all names are known
(`discovery.py`).
"""

from __future__ import annotations

import abc
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tracker import tree
from tracker.jit.discovery.inspection import is_data_descriptor
from tracker.jit.discovery.name_set import Mentioned
from tracker.jit.discovery.site_packages import HEAP
from tracker.jit.guards.constants import Static
from tracker.jit.guards.source import Place, has_dict, lent
from tracker.support.instances import own_dict


class Classes:
    """`is_ours`: whether an object's class, or a class, is the user's."""

    def __init__(self, names: Mentioned, is_ours: Callable[[Any], bool]) -> None:
        self._names = names
        self._is_ours = is_ours
        self._known: dict[tuple[type, bool], list[str]] = {}

    def places(self, objects: Iterable[Any]) -> Iterator[Place]:
        """What is looked at, of the objects whose attributes may be read."""
        if self._names.classifies and self._names.abstract:
            label = "what is registered with classes"
            yield Place("token", Static(abc.get_cache_token), "", label)
        classes: dict[type, None] = {}
        for x in objects:
            if isinstance(x, types.ModuleType):
                continue
            yield from self._own(x, type(x))
            if isinstance(x, type) and self._is_ours(x):
                classes.setdefault(x)
            cls = type(x)
            if cls.__flags__ & HEAP and self._is_ours(cls):
                classes.setdefault(cls)
                if not tree.is_namedtuple(cls):  # of which the signature says the class
                    yield Place("class", Static(x), "", f"class of a {cls.__name__}")
        names = self._names
        every = None if names.every else frozenset(names.attributes | names.tested)
        for cls in classes:
            yield Place("lent", Static(cls), every, f"what {cls.__name__} lends")

    def _own(self, x: Any, cls: type) -> Iterator[Place]:
        """An object may get attributes of its own in front of what its class lends it."""
        own = own_dict(x)
        if isinstance(x, type) or isinstance(cls.__getattribute__, types.FunctionType):
            return
        if not has_dict(x):
            return
        found = tuple(n for n in self._in_front(cls, self._is_ours(x)) if n not in own)
        if found:
            yield Place("own", Static(x), found, f"what a {cls.__name__} has in front of its class")

    def _in_front(self, cls: type, is_ours: bool) -> list[str]:
        """The names of what an object may have in front of its class, in order: the same for all
        objects of the class, and there are many functions."""
        if (cls, is_ours) in self._known:
            return self._known[cls, is_ours]
        asks, names = hasattr(cls, "__getattr__"), self._names.attributes
        if self._names.every:
            names = names.union(*map(vars, cls.__mro__))
        found: list[str] = []
        for name in sorted(names):
            raw = lent(cls, name)
            lends = is_ours and hasattr(type(raw), "__get__") and not is_data_descriptor(raw)
            is_tested = name in self._names.tested and not is_ours
            if not name.startswith("__") and (
                lends or is_tested or (asks and is_ours and raw is None)
            ):
                found.append(name)
        return self._known.setdefault((cls, is_ours), found)
