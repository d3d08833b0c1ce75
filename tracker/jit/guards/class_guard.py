"""What a class lends its objects: methods, properties, special methods, by which classes in turn.

Owns: `Lent`, the leaf of a signature that says it, and `Check`, by which machine code asks whether
it is so still; `is_in_c`, whether a class is written in C.

A class that is changed, and those below it, get another version tag from CPython:
machine code, and `Lent` itself, compare the tag with that of the last look, and only where they
differ does Python look again. So methods that a function calls cost it one comparison for each
class.

Invariants: what is lent is known by identity, numbers and other data that a class has only by their
names (these are places of their own, `jit/discovery/discovery.py`); no class is kept alive; no code
of the user's runs. Start at `Lent`.
"""

from __future__ import annotations

import ctypes
import functools
import types
from collections.abc import Callable
from typing import Any

from tracker.jit.guards.constants import Static
from tracker.support.numpy_version import unknown_interpreter

VERSION_TAG = 384  # of a class, in CPython's struct: another number when it, or a base, has changed
_PLAIN = (types.MemberDescriptorType, types.GetSetDescriptorType)  # they keep their class alive


class Lent:
    """What a class and its bases have under `names` and as special methods; None: all they have."""

    slots = 0

    def __init__(self, cls: type, names: frozenset[str] | None) -> None:
        self.cls = Static(cls)
        self.names = names
        self._tag = tag_given(cls)
        self.items = _items(cls, names)
        self._hash = hash(self.items)

    @property
    def is_gone(self) -> bool:
        return self.cls.is_gone

    def holds(self, cls: Any) -> bool:
        """Whether it is this class, and lends the same."""
        if cls is None or self.cls.value is not cls:
            return False
        tag = tag_given(cls)
        if tag and tag == self._tag:
            return True
        if _items(cls, self.names) != self.items:
            return False
        self._tag = tag  # of before the look
        return True

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lent) and self.cls == other.cls and self.items == other.items


class Check:
    """Asked where the version tag is another: whether the class lends the same nevertheless.
    `remember` notes the tag that the class has by now (`jit/abi/loader.py`)."""

    def __init__(self, leaf: Lent) -> None:
        self.leaf = leaf
        self.remember: Callable[[type], None]

    def __call__(self, cls: type) -> bool:
        if not self.leaf.holds(cls):
            return False
        self.remember(cls)
        return True


def tag_of(cls: type) -> int:
    """The version tag of a class; 0 until somebody has looked, and if it cannot have one."""
    return ctypes.c_uint32.from_address(id(cls) + VERSION_TAG).value


def tag_given(cls: type) -> int:
    """The version tag of a class, which is given one if it can have one; 0 if tags tell nothing."""
    if not tags_tell():
        return 0
    type.__getattribute__(cls, "__init__")  # to look something up gives the class a tag
    return tag_of(cls)


@functools.cache
def tags_tell() -> bool:
    """Whether a class has a version tag, where it is looked for, when something has been looked up,
    and none when it has changed."""
    if unknown_interpreter():
        return False

    class Probe:
        pass

    Probe.__init__  # noqa: B018
    before = tag_of(Probe)
    Probe.x = 1  # type: ignore[attr-defined]
    after = tag_of(Probe)
    Probe.__init__  # noqa: B018
    return before != 0 == after and tag_of(Probe) not in (0, before)


def is_in_c(cls: type) -> bool:
    """Whether a class is written in C: those of Python code free their objects alike."""
    return not cls.__flags__ & _HEAP or _slot(cls, _TP_DEALLOC) != _slot(Lent, _TP_DEALLOC)


_HEAP = 1 << 9  # the flag of classes that are made while a program runs
_TP_DEALLOC = 52
_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
    ("PyType_GetSlot", ctypes.pythonapi)
)


def _items(cls: type, names: frozenset[str] | None) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in cls.__mro__:
        found.append(Static(each))
        if each is not object:
            found += sorted(_held(vars(each), names), key=_name)
    return tuple(found)


def _held(own: types.MappingProxyType[str, Any], names: frozenset[str] | None) -> list[Any]:
    found: list[Any] = []
    for name, raw in own.items():
        if name.startswith("__") and name.endswith("__"):
            if hasattr(type(raw), "__get__") or raw is None:
                found.append((name, *_known(raw)))
        elif names is None or name in names:
            found.append((name, *_known(raw)))
    return found


def _name(item: tuple[Any, ...]) -> str:
    name: str = item[0]
    return name


def _known(raw: Any) -> tuple[Any, ...]:
    """A function by itself; what wraps functions by these, for it cannot be referred to weakly."""
    if isinstance(raw, types.FunctionType):
        return (Static(raw),)
    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw), Static(raw.__func__)
    if isinstance(raw, property):
        return property, Static(raw.fget), Static(raw.fset), Static(raw.fdel)
    if isinstance(raw, _PLAIN):
        return (type(raw),)
    if hasattr(type(raw), "__get__"):
        return (Static(raw),)
    return (None,) if raw is None else ()
