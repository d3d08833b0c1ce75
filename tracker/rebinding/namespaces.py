"""The globals of user code: which names hold objects of NumPy's, and what the others lead to."""

from __future__ import annotations

import opcode
import operator
import types
import weakref
from functools import partial
from typing import Any

from tracker.rebinding.bindings import Binding, Exchanged, ItemBindings
from tracker.rebinding.class_shims import CLASS_SHIMS, KNOWN_SHIMS, is_shim
from tracker.rebinding.drop_in_lookup import ORIGINALS, PLAIN_CLASSES, drop_in_for, leads_further
from tracker.rebinding.reachable_objects import reachable
from tracker.rebinding.user_code import NAMESPACES, Packages
from tracker.support.weakrefs import WeakIdentityDict

_MAX_NAMES = 32  # exchanged whether they are used or not: `from numpy import *` gives hundreds
_ABSENT = None  # what `dict.get` gives for one of Python's own names
_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]


class Namespace(ItemBindings):
    """The globals of user code.

    version     how often it was looked at
    names       all names, when it was
    candidates  those that hold an object with a drop-in
    watched     names that lead to `bindings`, and their objects
    code        what the names lead to: see `reachable`
    known_code  what is executed with these globals, as far as is known
    used_names  by this code; some of Python's own have a shim
    imports     whether that code imports something when it runs
    """

    __slots__ = (
        *("__weakref__", "bindings", "candidates", "code", "get", "imports", "known_code"),
        *("names", "used_names", "version", "watched"),
    )

    def __init__(self, space: dict[str, Any]) -> None:
        self.get = space.get
        super().__init__(space, [])
        self.version = 0
        self.names: frozenset[str] = frozenset()
        self.candidates: Exchanged = []
        self.watched: list[tuple[str, Any]] = []
        self.code: list[Any] = []
        self.bindings: list[Binding] = []
        self.known_code: WeakIdentityDict[bool] = WeakIdentityDict()
        self.used_names: set[str] = set()
        self.imports = False

    def is_current(self) -> bool:
        """Whether nothing but drop-ins has been bound since the last look, here and in what the
        names lead to."""
        get = self.get
        return (
            self._length() == self.count
            and all(get(name) is x or get(name) is y for name, x, y in self.exchanged)
            and all(get(name) is x for name, x in self.watched)
            and all(binding.is_current() for binding in self.bindings)
        )

    def install(self) -> bool:
        """Put the drop-ins where the originals are, and return whether nothing else has been bound
        here, in one go."""
        get, space = self.get, self.holder
        is_current = self._length() == self.count
        for name, original, drop_in in self.exchanged:
            x = get(name)
            if x is original:
                space[name] = drop_in
            elif x is not drop_in:
                is_current = False
        for name, x in self.watched:
            if get(name) is not x:
                is_current = False
        return is_current

    def restore(self) -> None:
        get = self.get
        for name, original, drop_in in self.exchanged:
            if get(name) is drop_in and original is not _ABSENT:
                self.holder[name] = original
        for name, shim in CLASS_SHIMS.items():
            if get(name) is shim:
                del self.holder[name]
        if self._length() != self.count:  # `global np` in front of an import
            for name, x in [*self.holder.items()]:
                if name not in self.names and id(x) in ORIGINALS:
                    self.holder[name] = ORIGINALS[id(x)]

    def look(self, packages: Packages) -> None:
        """Look at all names."""
        held = {each[0]: each for each in self.candidates} if self.holders else {}
        items = [each for each in [*self.holder.items()] if not is_shim(*each)]
        self.candidates, self.watched, self.code, self.bindings = [], [], [], []
        for name, x in items:
            if type(x) in PLAIN_CLASSES or name == "__builtins__":
                continue
            if name in held and x is held[name][2]:
                self.candidates.append(held[name])
                continue
            drop_in = drop_in_for(x)
            if drop_in is not x:
                self.candidates.append((name, x, drop_in))
                if not leads_further(x):
                    continue
            _, code, bindings = reachable([x], packages)
            self.code += code
            if bindings:
                self.watched.append((name, x))
                self.bindings += bindings
        self.names = frozenset(name for name, _ in items)
        self.count = len(items)
        self.version += 1
        self._choose()

    def add_code(self, code: types.CodeType) -> None:
        """Note the names that code with these globals uses."""
        if code in self.known_code:
            return
        self.known_code[code] = True
        todo, count = [code], len(self.used_names)
        for each in todo:
            self.used_names.update(each.co_names)
            self.imports |= _IMPORT_NAME in each.co_code[::2]
            todo += [x for x in each.co_consts if type(x) is types.CodeType]
        if len(self.used_names) > count:
            self._choose()

    def _choose(self) -> None:
        """Choose the names that are exchanged."""
        found = self.candidates
        if len(found) > _MAX_NAMES:
            found = [each for each in found if each[0] in self.used_names]
        shimmed = CLASS_SHIMS.keys() & self.used_names - self.names
        self.exchanged = [*found, *((name, _ABSENT, CLASS_SHIMS[name]) for name in shimmed)]

    def _length(self) -> int:
        """How many names there are but for shims. (Each derivative asks twice.)"""
        found = map(self.get, KNOWN_SHIMS)
        return len(self.holder) - sum(map(operator.is_, found, KNOWN_SHIMS.values()))


def is_exchanged(space: dict[str, Any]) -> bool:
    """Whether a call holds the drop-ins in a dict of globals."""
    found = _known_namespace(space)
    return found is not None and bool(found.holders)


def _known_namespace(space: dict[str, Any]) -> Namespace | None:
    known = NAMESPACES.get(id(space))
    return None if known is None else known()


def namespace_of(space: dict[str, Any]) -> Namespace:
    """The namespace of a dict of globals."""
    found = _known_namespace(space)
    if found is None:
        found = Namespace(space)
        NAMESPACES[id(space)] = weakref.ref(found, partial(NAMESPACES.pop, id(space)))
    return found
