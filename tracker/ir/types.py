"""Types of IR values: shape, dtype and weakness.

A *weak* type is that of a plain Python number: it has no shape, and takes the dtype of its
neighbour in promotion (NEP 50). A `Bundle` is the type of several results of one equation (a loop);
only `pick` takes one apart. The text is `f64[3,4]`, `float`, `(f64[], i64[2])`.

Invariant: types are immutable, hashable, compared by value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from tracker.errors import IRError
from tracker.support.structs import record

DTYPE_NAMES = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.longdouble): "flong",
    np.dtype(np.complex64): "c64",
    np.dtype(np.complex128): "c128",
    np.dtype(np.clongdouble): "clong",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
PYTHON_DTYPES = {
    float: np.dtype(np.float64),
    int: np.dtype(np.int64),
    complex: np.dtype(np.complex128),
}
_WEAK_NAMES = {dtype: cls.__name__ for cls, dtype in PYTHON_DTYPES.items()}
_OBJECT_DTYPE = np.dtype(object)


def is_compilable_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype's numbers are of the machine: no text, dates, or long doubles."""
    return dtype.kind in "biufc" and dtype.char not in "gG"


@record(frozen=True)
class Type:
    """The type of one IR value.

    shape: the extents; dtype: NumPy's; weak: a Python `float`, `int` or `complex`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(shape, self.dtype)

    def __str__(self) -> str:
        if self.weak:
            return _WEAK_NAMES[self.dtype]
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


@record(frozen=True)
class Bundle(Type):
    """The type of several values that one equation gives; at run time they are a tuple."""

    parts: tuple[Type, ...] = ()

    @staticmethod
    def of(parts: Iterable[Type]) -> Bundle:
        return Bundle((), _OBJECT_DTYPE, False, tuple(parts))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The short name of a dtype, or NumPy's own string in quotes."""
    name = DTYPE_NAMES.get(dtype)
    return name if name is not None else f"'{dtype.str}'"


_PYTHON_TYPES: dict[type, Type] = {
    bool: Type((), np.dtype(np.bool_)),
    **{cls: Type((), dtype, True) for cls, dtype in PYTHON_DTYPES.items()},
}
_type_cache: dict[tuple[tuple[int, ...], np.dtype[Any]], Type] = {}
_MAX_CACHED_TYPES = 10_000


def type_of(x: Any) -> Type:
    """The type of a number, array, tuple of them, or of a type itself.

    Equal types are mostly one object: tracing calls this for every value.
    """
    cls = type(x)
    of_python = _PYTHON_TYPES.get(cls)
    if of_python is not None:
        return of_python
    if isinstance(x, (np.ndarray, np.generic)):
        key = x.shape, x.dtype
        found = _type_cache.get(key)
        if found is None:
            if len(_type_cache) > _MAX_CACHED_TYPES:
                _type_cache.clear()
            found = _type_cache[key] = Type(*key)
        return found
    if cls is tuple:
        return Bundle.of(map(type_of, x))
    if cls is Type:
        return cast(Type, x)
    raise IRError(f"{cls.__name__} has no IR type; only numbers and NumPy arrays have")
