"""Constants of a specialisation, as keys that can be hashed and compared.

`ConstantKey` compares an object by value or by identity, `StructuralKey` by its parts.
`has_structural_key` says which objects are compared by their parts wherever they are found: sets,
slices, dates, methods. Lists, tuples and dicts are flattened into leaves, unless they are large.

Invariants: no key keeps an object alive that it compares by identity, if that object can be
referenced weakly (an exception: the contents of containers at sources). A comparison runs no user
code.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.types import PYTHON_DTYPES
from tracker.support.pickling import MadeMethod

PYTHON_SCALARS: dict[type, np.dtype[Any]] = {**PYTHON_DTYPES, bool: np.dtype(np.bool_)}
NUMBER_TYPE_CODES = "? b B h H i I l L q Q e f d F D"
NUMPY_SCALARS: dict[type, np.dtype[Any]] = {
    np.dtype(code).type: np.dtype(code) for code in NUMBER_TYPE_CODES.split()
}
SCALARS = PYTHON_SCALARS | NUMPY_SCALARS
_VALUE_COMPARED_CLASSES = (str, bytes, int)
BIT_COMPARED_CLASSES = {float, complex, *NUMPY_SCALARS} - {np.bool_}
BUILTIN_CONTAINERS = (tuple, list, dict)
# Mutable containers that signatures do not flatten.
_DICT_ITEMS: Any = type({}.items())
MAPPING_VIEWS: tuple[Any, ...] = (
    types.MappingProxyType,
    type({}.keys()),
    type({}.values()),
    _DICT_ITEMS,
)
_BUFFER_CLASSES = {
    ("builtins", "memoryview"),
    ("builtins", "bytearray"),
    ("array", "array"),
    ("mmap", "mmap"),
}
_MUTABLE_CLASSES = (set, deque, *MAPPING_VIEWS)
_PATH_CLASSES = ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")
# Immutable values of the standard library: each literal creates a new object.
_VALUE_CLASSES = {
    "builtins": ("slice", "range"),
    "fractions": ("Fraction",),
    "decimal": ("Decimal",),
    "datetime": ("date", "datetime", "time", "timedelta"),
    **dict.fromkeys(("pathlib", "pathlib._local"), _PATH_CLASSES),  # the second on Python 3.13
}


_NUMBERS_AND_TEXT = frozenset({int, float, str, type(None)})


def is_constant_tuple(x: Any) -> bool:
    """Whether an object is a tuple of numbers and text, as the rows of a table: nothing in it can
    change, or lead further."""
    return type(x) is tuple and _NUMBERS_AND_TEXT.issuperset(map(type, x))


class ConstantKey:
    """An object as part of a specialisation: text and integers are compared by type and value,
    other numbers by type and bits, everything else by identity (through a weak reference where
    possible)."""

    __slots__ = ("_hash", "_ref", "value_key")

    def __init__(self, value: Any) -> None:
        cls = type(value)
        self._ref: Callable[[], Any]
        self.value_key: Any = None
        if cls in _VALUE_COMPARED_CLASSES or cls in BIT_COMPARED_CLASSES:
            self.value_key = (cls, bits_of(value) if cls in BIT_COMPARED_CLASSES else value)
            self._ref = lambda: value
        else:
            self._ref = _reference(value)
        self._hash = hash(self.value_key) if self.value_key is not None else id(value)

    @property
    def value(self) -> Any:
        """The object, or None once it has been freed."""
        return self._ref()

    @property
    def is_by_value(self) -> bool:
        return self.value_key is not None

    @property
    def is_weak(self) -> bool:
        """Whether the object may be freed, and its address reused."""
        return isinstance(self._ref, weakref.ref)

    @property
    def is_dead(self) -> bool:
        return self.is_weak and self.value is None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantKey):
            return NotImplemented
        if self.value_key is not None or other.value_key is not None:
            return bool(self.value_key == other.value_key)
        return self is other or (
            self._hash == other._hash
            and (self.value is other.value is not None or self._hash == id(None))
        )  # two freed objects are not equal; None is itself

    def __repr__(self) -> str:
        return f"ConstantKey({self.value!r})"


def bits_of(x: Any) -> bytes:
    """The bits of a number other than Python's int and bool."""
    return np.asarray(x, SCALARS[type(x)]).tobytes()


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class StructuralKey:
    """An object compared by its class and parts: plain values, objects by identity, or nested keys.

    `immutable_object` is the object itself, if nothing in it can change.
    """

    def __init__(self, x: Any) -> None:
        self.cls: type = type(x)
        if is_constant_tuple(x):
            self.parts: tuple[Any, ...] = x
            self.immutable_object: Any = x
            return
        is_method = self.cls in _METHODS
        self.parts = tuple(
            [
                StructuralKey(i)
                if type(i) in BUILTIN_CONTAINERS
                else ConstantKey(i)
                if is_method
                else i
                for i in _parts_of(x)
            ]
        )
        fixed = not any(type(i) is StructuralKey and i.immutable_object is None for i in self.parts)
        never_changes = self.cls is tuple or is_value_class(self.cls)
        self.immutable_object = x if fixed and never_changes else None

    @property
    def is_dead(self) -> bool:
        """Whether an object that a bound method belongs to has been freed."""
        return any(type(i) in (ConstantKey, StructuralKey) and i.is_dead for i in self.parts)

    def holds(self, x: Any) -> bool:
        """Whether an object has this class and these parts."""
        if type(x) is not self.cls:
            return False
        items = _parts_of(x)
        return len(items) == len(self.parts) and all(map(_part_matches, self.parts, items))

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.cls, len(self.parts), *map(_part_hash, self.parts[:_HASHED_PARTS])))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructuralKey):
            return NotImplemented
        return (self.immutable_object is other.immutable_object is not None) or (
            self.cls is other.cls
            and len(self.parts) == len(other.parts)
            and all(map(_parts_equal, self.parts, other.parts))
        )


_METHODS = (types.MethodType, MadeMethod)
_HASHED_PARTS = 16  # parts that count for a hash


def _part_hash(item: Any) -> int:
    return hash(item if type(item) in (StructuralKey, ConstantKey) else ConstantKey(item))


def _part_matches(known: Any, x: Any) -> bool:
    if type(known) is StructuralKey:
        return known.immutable_object is x is not None or known.holds(x)
    if type(known) is ConstantKey:
        return bool(known == ConstantKey(x))
    return known is x or (type(known) is type(x) and ConstantKey(known) == ConstantKey(x))


def _parts_equal(a: Any, b: Any) -> bool:
    if type(a) is StructuralKey is type(b) or type(a) is ConstantKey is type(b):
        return bool(a == b)
    return ConstantKey(a) == ConstantKey(b)


def container_contents(x: Any) -> tuple[Any, ...]:
    """The contents of a container, buffer or array that is compared by its parts."""
    if isinstance(x, (dict, types.MappingProxyType)):
        return (*x, *x.values())
    if isinstance(x, _DICT_ITEMS):
        return tuple(itertools.chain.from_iterable(x))
    if _is_unsupported_array(x) or type(x) is np.ndarray:
        return _array_contents(x)
    if _is_buffer(x):
        seen = memoryview(x)
        return seen.format, str(seen.shape), seen.tobytes()
    return tuple(x)


def _array_contents(x: Any) -> tuple[Any, ...]:
    """The contents of an array, or of an item of an array, that cannot be an input."""
    plain, mask = np.asarray(x), getattr(x, "mask", None)
    held = plain.flat if plain.dtype.hasobject else (plain.tobytes(),)
    covered = mask.tobytes() if isinstance(mask, np.ndarray) else b""
    return repr(plain.dtype), str(plain.shape), covered, *held


def _parts_of(x: Any) -> tuple[Any, ...]:
    cls = type(x)
    if cls is MadeMethod:
        return x.func, *x.args
    if cls is types.MethodType:
        return x.__func__, x.__self__
    if is_value_class(cls):
        parts: tuple[Any, ...] = x.__reduce__()[1:]
        return parts
    return container_contents(x)


def is_value_class(cls: type) -> bool:
    """Whether instances are immutable values, compared by their parts."""
    return cls.__name__ in _VALUE_CLASSES.get(cls.__module__, ()) or issubclass(cls, np.dtype)


def is_mutable_leaf(x: Any) -> bool:
    """Whether an object is a mutable container that signatures do not flatten."""
    return isinstance(x, _MUTABLE_CLASSES) or _is_buffer(x) or _is_unsupported_array(x)


def _is_buffer(x: Any) -> bool:
    """Whether an object is memory that other code may write to: a buffer, or `ctypes` data."""
    cls = type(x)
    return (cls.__module__, cls.__name__) in _BUFFER_CLASSES or is_ctypes_data(x)


def is_ctypes_data(x: Any, *classes: str) -> bool:
    """Whether an object is a number, array, structure or union of `ctypes`, or of some classes."""
    module = sys.modules.get("_ctypes")
    if module is None:
        return False
    names = classes or ("_SimpleCData", "Array", "Structure", "Union")
    return isinstance(x, tuple(getattr(module, name) for name in names))


def _is_unsupported_array(x: Any) -> bool:
    """Whether an object is an array, or an item of an array, that native code cannot take."""
    cls = type(x)  # not `isinstance`: a tracked array claims to be an ndarray
    if issubclass(cls, np.ndarray):
        return cls is not np.ndarray or x.dtype.kind not in "biufc"
    return issubclass(cls, np.void)


def has_structural_key(x: Any) -> bool:
    """Whether an object is compared by its parts, not by identity."""
    return (
        type(x) in _METHODS or is_mutable_leaf(x) or is_value_class(type(x)) or type(x) is frozenset
    )


def holds_plain_values(x: Any) -> bool:
    """Whether all contents of a container are compared by value."""
    return all(
        i is None or ConstantKey(i).is_by_value or type(i) is bool for i in container_contents(x)
    )
