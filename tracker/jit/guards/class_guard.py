"""Class guards: a specialisation is valid while the classes of the objects it reads are unchanged.

A specialisation inlines methods, properties and class attributes, found through the MRO. CPython
gives every class a version tag, and drops the tags of a class and its subclasses when the class is
modified. The native entry compares tags, one load per class; on a mismatch Python compares the
attributes by identity and, if they are equal, stores the new tag.

Invariants: attributes are compared by identity; of numbers and other data on a class only the names
count, since each such value has a source of its own (`jit/discovery/captured_state.py`). Classes
are referenced weakly. No user code runs.
"""

from __future__ import annotations

import ctypes
import functools
import types
from typing import Any

from tracker.jit.guards.constants import ConstantKey
from tracker.support.numpy_version import unsupported_interpreter

VERSION_TAG_OFFSET = 384  # in CPython's type object
_NO_TAG = 2**32 - 1
# These keep their class alive, so they are compared by class.
_C_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class ClassGuard:
    """The MRO of a class, its special methods, and its attributes under `names` (None: all of
    them)."""

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
        """Whether `cls` is this class, with the same attributes."""
        if cls is None or self.cls.value is not cls:
            return False
        tag = ensure_version_tag(cls)
        if tag and tag == self._version_tag:
            return True
        if _class_snapshot(cls, self.names) != self.snapshot:
            return False
        self._version_tag = tag  # read before the comparison
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
    """Called by machine code when the version tag differs from that in `tag`, the one that the
    class had when it was last compared: compares the attributes."""

    def __init__(self, leaf: ClassGuard) -> None:
        self.guard = leaf
        self.tag = ctypes.c_uint32(_NO_TAG)

    def __call__(self, cls: type) -> bool:
        if not self.guard.holds(cls):
            return False
        self.tag.value = ensure_version_tag(cls) or _NO_TAG
        return True


def version_tag(cls: type) -> int:
    """The version tag of a class; 0 if none was assigned since the last change."""
    return ctypes.c_uint32.from_address(id(cls) + VERSION_TAG_OFFSET).value


def ensure_version_tag(cls: type) -> int:
    """The version tag of a class, assigned if need be; 0 if tags are not reliable here."""
    if not has_reliable_version_tags():
        return 0
    type.__getattribute__(cls, "__init__")  # a lookup assigns a tag
    return version_tag(cls)


@functools.cache
def has_reliable_version_tags() -> bool:
    """Whether this interpreter keeps a version tag at `VERSION_TAG_OFFSET`, assigns one on
    attribute lookup, and drops it when the class changes."""
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
    """Whether a class is implemented in C: classes defined in Python share one deallocator."""
    return not cls.__flags__ & HEAP_TYPE_FLAG or type_slot(cls, _TP_DEALLOC) != type_slot(
        ClassGuard, _TP_DEALLOC
    )


HEAP_TYPE_FLAG = 1 << 9  # in `tp_flags`: created at run time
_TP_DEALLOC = 52
type_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
    ("PyType_GetSlot", ctypes.pythonapi)
)


def _class_snapshot(cls: type, names: frozenset[str] | None) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in cls.__mro__:
        found.append(ConstantKey(each))
        own = vars(each) if each is not object else {}
        for name in sorted(own):
            raw = own[name]
            if name.startswith("__") and name.endswith("__"):
                is_compared = hasattr(type(raw), "__get__") or raw is None
            else:
                is_compared = names is None or name in names
            if is_compared:
                found.append((name, *_attribute_key(raw)))
    return tuple(found)


def _attribute_key(raw: Any) -> tuple[Any, ...]:
    """How an attribute is compared: by identity, wrappers by the functions they wrap (they have no
    weak references), data by nothing."""
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
