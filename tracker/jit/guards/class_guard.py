"""What a class lends its objects: methods, properties, special methods, by which classes in turn.

Owns: `ClassGuard`, the leaf of a signature that says it, and `ClassGuardCheck`, by which machine
code asks whether it is so still; `is_c_class`, whether a class is written in C.

A class that is changed, and those below it, get another version tag from CPython:
machine code, and `ClassGuard` itself, compare the tag with that of the last look, and only where
they differ does Python look again. So methods that a function calls cost it one comparison for each
class.

Invariants: what is lent is known by identity, numbers and other data that a class has only by their
names (these are places of their own, `jit/discovery/discovery.py`); no class is kept alive; no code
of the user's runs. Start at `ClassGuard`.
"""

from __future__ import annotations

import ctypes
import functools
import types
from collections.abc import Callable
from typing import Any

from tracker.jit.guards.constants import ConstantKey
from tracker.support.numpy_version import unsupported_interpreter

VERSION_TAG_OFFSET = (
    384  # of a class, in CPython's struct: another number when it, or a base, has changed
)
_C_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)  # they keep their class alive


class ClassGuard:
    """What a class and its bases have under `names` and as special methods; None: all they have."""

    slots = 0

    def __init__(self, cls: type, names: frozenset[str] | None) -> None:
        self.cls = ConstantKey(cls)
        self.names = names
        self._version_tag = ensure_version_tag(cls)
        self.snapshot = _class_snapshot(cls, names)
        self._hash = hash(self.snapshot)

    @property
    def is_dead(self) -> bool:
        return self.cls.is_dead

    def holds(self, cls: Any) -> bool:
        """Whether it is this class, and lends the same."""
        if cls is None or self.cls.value is not cls:
            return False
        tag = ensure_version_tag(cls)
        if tag and tag == self._version_tag:
            return True
        if _class_snapshot(cls, self.names) != self.snapshot:
            return False
        self._version_tag = tag  # of before the look
        return True

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ClassGuard)
            and self.cls == other.cls
            and self.snapshot == other.snapshot
        )


class ClassGuardCheck:
    """Asked where the version tag is another: whether the class lends the same nevertheless.
    `store_version_tag` notes the tag that the class has by now (`jit/abi/loader.py`)."""

    def __init__(self, leaf: ClassGuard) -> None:
        self.guard = leaf
        self.store_version_tag: Callable[[type], None]

    def __call__(self, cls: type) -> bool:
        if not self.guard.holds(cls):
            return False
        self.store_version_tag(cls)
        return True


def version_tag(cls: type) -> int:
    """The version tag of a class; 0 until somebody has looked, and if it cannot have one."""
    return ctypes.c_uint32.from_address(id(cls) + VERSION_TAG_OFFSET).value


def ensure_version_tag(cls: type) -> int:
    """The version tag of a class, which is given one if it can have one; 0 if tags tell nothing."""
    if not has_reliable_version_tags():
        return 0
    type.__getattribute__(cls, "__init__")  # to look something up gives the class a tag
    return version_tag(cls)


@functools.cache
def has_reliable_version_tags() -> bool:
    """Whether a class has a version tag, where it is looked for, when something has been looked up,
    and none when it has changed."""
    if unsupported_interpreter():
        return False

    class Probe:
        pass

    Probe.__init__  # noqa: B018
    before = version_tag(Probe)
    Probe.x = 1  # type: ignore[attr-defined]
    after = version_tag(Probe)
    Probe.__init__  # noqa: B018
    return before != 0 == after and version_tag(Probe) not in (0, before)


def is_c_class(cls: type) -> bool:
    """Whether a class is written in C: those of Python code free their objects alike."""
    return not cls.__flags__ & _HEAP_TYPE_FLAG or _type_slot(cls, _TP_DEALLOC) != _type_slot(
        ClassGuard, _TP_DEALLOC
    )


_HEAP_TYPE_FLAG = 1 << 9  # the flag of classes that are made while a program runs
_TP_DEALLOC = 52
_type_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
    ("PyType_GetSlot", ctypes.pythonapi)
)


def _class_snapshot(cls: type, names: frozenset[str] | None) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in cls.__mro__:
        found.append(ConstantKey(each))
        if each is not object:
            found += sorted(_namespace_snapshot(vars(each), names), key=_attribute_name)
    return tuple(found)


def _namespace_snapshot(
    namespace: types.MappingProxyType[str, Any], names: frozenset[str] | None
) -> list[Any]:
    found: list[Any] = []
    for name, raw in namespace.items():
        if name.startswith("__") and name.endswith("__"):
            if hasattr(type(raw), "__get__") or raw is None:
                found.append((name, *_attribute_key(raw)))
        elif names is None or name in names:
            found.append((name, *_attribute_key(raw)))
    return found


def _attribute_name(item: tuple[Any, ...]) -> str:
    name: str = item[0]
    return name


def _attribute_key(raw: Any) -> tuple[Any, ...]:
    """A function by itself; what wraps functions by these, for it cannot be referred to weakly."""
    if isinstance(raw, types.FunctionType):
        return (ConstantKey(raw),)
    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw), ConstantKey(raw.__func__)
    if isinstance(raw, property):
        return property, ConstantKey(raw.fget), ConstantKey(raw.fset), ConstantKey(raw.fdel)
    if isinstance(raw, _C_DESCRIPTORS):
        return (type(raw),)
    if hasattr(type(raw), "__get__"):
        return (ConstantKey(raw),)
    return (None,) if raw is None else ()
