"""Objects that a trace knows by what they hold: large containers, sets, slices, dates, methods.

Owns: `Static`, an object by value or by identity, and `Compared`, one by its parts. `comparable`
says which objects are known by their parts wherever they come from.

Invariants: both are hashable; they never keep alive an object that they know by identity, if that
object can be referred to weakly (but for what stands in containers of places); comparing runs no
Python code of the user's.
"""

from __future__ import annotations

import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

PYTHON_SCALARS: dict[type, np.dtype[Any]] = {
    float: np.dtype(np.float64),
    int: np.dtype(np.int64),
    bool: np.dtype(np.bool_),
    complex: np.dtype(np.complex128),
}
NUMBERS = "? b B h H i I l L q Q e f d F D"
NUMPY_SCALARS: dict[type, np.dtype[Any]] = {
    np.dtype(code).type: np.dtype(code) for code in NUMBERS.split()
}
SCALARS = PYTHON_SCALARS | NUMPY_SCALARS
_BY_VALUE = (str, bytes, int)
BY_BITS = {float, complex, *NUMPY_SCALARS} - {np.bool_}
NESTED = (tuple, list, dict)
# Containers that are not taken apart, and may change.
_PAIRS: Any = type({}.items())
PROXIES: tuple[Any, ...] = (types.MappingProxyType, type({}.keys()), type({}.values()), _PAIRS)
_BUFFERS = {
    ("builtins", "memoryview"),
    ("builtins", "bytearray"),
    ("array", "array"),
    ("mmap", "mmap"),
}
_CHANGING = (set, deque, *PROXIES)
_PATHS = ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")
# Values of the standard library, each made anew wherever it is written down.
_VALUES = {
    "builtins": ("slice", "range"),
    "fractions": ("Fraction",),
    "decimal": ("Decimal",),
    "datetime": ("date", "datetime", "time", "timedelta"),
    **dict.fromkeys(("pathlib", "pathlib._local"), _PATHS),  # the second on Python 3.13
}


class Static:
    """An object that is part of the specialisation: text and integers by type and value, other
    numbers by their bits, everything else by identity (referred to weakly where possible)."""

    __slots__ = ("_hash", "_ref", "key")

    slots = 0

    def __init__(self, value: Any) -> None:
        cls = type(value)
        self._ref: Callable[[], Any]
        self.key: Any = None
        if cls in _BY_VALUE or cls in BY_BITS:
            self.key = (cls, bits_of(value) if cls in BY_BITS else value)
            self._ref = lambda: value
        else:
            self._ref = _reference(value)
        self._hash = hash(self.key) if self.key is not None else id(value)

    @property
    def value(self) -> Any:
        """The object, or None once it is gone."""
        return self._ref()

    @property
    def by_value(self) -> bool:
        return self.key is not None

    @property
    def weak(self) -> bool:
        """Whether the object may die, and its address mean another."""
        return isinstance(self._ref, weakref.ref)

    @property
    def is_gone(self) -> bool:
        return self.weak and self.value is None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static):
            return NotImplemented
        if self.key is not None or other.key is not None:
            return bool(self.key == other.key)
        return self is other or (
            self._hash == other._hash
            and (self.value is other.value is not None or _both(self, other))
        )

    def __repr__(self) -> str:
        return f"Static({self.value!r})"


def bits_of(x: Any) -> bytes:
    """The bits of a number other than Python's int and bool."""
    return np.asarray(x, SCALARS[type(x)]).tobytes()


def _both(a: Static, b: Static) -> bool:
    """Whether both stand for None itself, not for an object that is gone."""
    return a._hash == b._hash == id(None)


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class Compared:
    """An object by its class and its parts: plain values, objects by identity, or `Compared`.

    `whole`: itself, if nobody can change it.
    """

    slots = 0

    def __init__(self, x: Any) -> None:
        self.cls: type = type(x)
        is_method = self.cls is types.MethodType
        self.items: tuple[Any, ...] = tuple(
            [Compared(i) if type(i) in NESTED else Static(i) if is_method else i for i in _items(x)]
        )
        fixed = not any(type(i) is Compared and i.whole is None for i in self.items)
        never_changes = self.cls is tuple or is_value(self.cls)
        self.whole: Any = x if fixed and never_changes else None
        self._hash = hash((self.cls, len(self.items), *map(_hash, self.items[:_FEW])))

    @property
    def is_gone(self) -> bool:
        """Whether an object of whose a method it is is gone."""
        return any(type(i) in (Static, Compared) and i.is_gone for i in self.items)

    def holds(self, x: Any) -> bool:
        """Whether an object has this class and these parts."""
        if type(x) is not self.cls:
            return False
        items = _items(x)
        return len(items) == len(self.items) and all(map(_is_same, self.items, items))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Compared)
            and self.cls is other.cls
            and len(self.items) == len(other.items)
            and all(map(_are_equal, self.items, other.items))
        )


_FEW = 16  # parts that a hash looks at


def _hash(item: Any) -> int:
    return hash(item if type(item) in (Compared, Static) else Static(item))


def _is_same(known: Any, x: Any) -> bool:
    if type(known) is Compared:
        return known.whole is x is not None or known.holds(x)
    if type(known) is Static:
        return bool(known == Static(x))
    return known is x or (type(known) is type(x) and Static(known) == Static(x))


def _are_equal(a: Any, b: Any) -> bool:
    if type(a) is Compared is type(b) or type(a) is Static is type(b):
        return bool(a == b)
    return Static(a) == Static(b)


def items_of(x: Any) -> tuple[Any, ...]:
    """What a container holds."""
    if isinstance(x, (dict, types.MappingProxyType)):
        return (*x, *x.values())
    if isinstance(x, _PAIRS):
        return tuple(itertools.chain.from_iterable(x))
    if _is_no_input(x) or type(x) is np.ndarray:
        return _items_of_array(x)
    if _is_buffer(x):
        seen = memoryview(x)
        return seen.format, str(seen.shape), seen.tobytes()
    return tuple(x)


def _items_of_array(x: Any) -> tuple[Any, ...]:
    """What an array holds, or an item of one that no input can be."""
    plain, mask = np.asarray(x), getattr(x, "mask", None)
    held = plain.flat if plain.dtype.hasobject else (plain.tobytes(),)
    covered = mask.tobytes() if isinstance(mask, np.ndarray) else b""
    return repr(plain.dtype), str(plain.shape), covered, *held


def _items(x: Any) -> tuple[Any, ...]:
    cls = type(x)
    if cls is types.MethodType:
        return x.__func__, x.__self__
    if is_value(cls):
        parts: tuple[Any, ...] = x.__reduce__()[1:]
        return parts
    return items_of(x)


def is_value(cls: type) -> bool:
    """Whether an object of a class is a value: immutable, and known by its parts."""
    return cls.__name__ in _VALUES.get(cls.__module__, ()) or issubclass(cls, np.dtype)


def is_changing(x: Any) -> bool:
    """Whether it is a container which is not taken apart, and which may change."""
    return isinstance(x, _CHANGING) or _is_buffer(x) or _is_no_input(x)


def _is_buffer(x: Any) -> bool:
    """Whether it is memory that others may write into: Python's, or that of `ctypes`."""
    cls = type(x)
    if (cls.__module__, cls.__name__) in _BUFFERS:
        return True
    module = sys.modules.get("_ctypes")
    if module is None:
        return False
    return isinstance(x, (module._SimpleCData, module.Array, module.Structure, module.Union))


def _is_no_input(x: Any) -> bool:
    """Whether it is an array, or an item of one, that native code cannot take."""
    cls = type(x)  # a tracked value says that it is an array
    if issubclass(cls, np.ndarray):
        return cls is not np.ndarray or x.dtype.kind not in "biufc"
    return issubclass(cls, np.void)


def comparable(x: Any) -> bool:
    """Whether an object is known by its parts, and not by itself."""
    return type(x) is types.MethodType or is_changing(x) or is_value(type(x)) or _is_frozen(x)


def _is_frozen(x: Any) -> bool:
    return type(x) is frozenset


def of_plain_values(x: Any) -> bool:
    """Whether what a container holds is known by value."""
    return all(i is None or Static(i).by_value or type(i) is bool for i in items_of(x))
