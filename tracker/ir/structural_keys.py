"""Hashable keys of literals and params: equal exactly where type and bits are.

Python's `==` confuses values that ops tell apart (`0.0 == -0.0`, `1 == True`, `nan != nan`), and
lists have no hash.

Invariants: 1. no op can tell values with equal keys apart; 2. an opaque value (a callable, a
generator, an array: it may hold state) has no key, so its equation is neither merged nor evaluated.
`identity_key` is for equations that stay apart: there the same opaque object is enough.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from tracker.ir.graph import Const, Function
from tracker.ir.types import Type

_double = struct.Struct("<d").pack
_doubles = struct.Struct("<dd").pack


class Opaque(Exception):
    """A value of which equality cannot be decided."""


def const_key(const: Const) -> Hashable:
    """Equal for two literals of the same type and the same bits."""
    value = const.value
    return const.type, _double(value) if value.__class__ is float else value_key(value)


def params_key(params: dict[str, Any]) -> Hashable | None:
    """Equal for two sets of params that no op can tell apart; None if one of them is opaque."""
    try:
        return tuple([(name, value_key(value)) for name, value in params.items()])
    except Opaque:
        return None


def identity_key(params: dict[str, Any]) -> Hashable:
    """Equal for two sets of params that are equal, or the same objects where they are opaque."""
    return tuple([(name, _identity_key_of_value(value)) for name, value in params.items()])


def _identity_key_of_value(value: Any) -> Hashable:
    if value.__class__ is dict:
        return (dict, identity_key(value))
    try:
        return value_key(value)
    except Opaque:
        return value if isinstance(value, Type) else ("object", id(value))


def value_key(value: Any) -> Hashable:
    """The key of one value, which `marshal` can write if there is no function in it."""
    cls = value.__class__
    if cls in _PLAIN_TYPES:
        return value  # type: ignore[no-any-return]
    make = _KEYS.get(cls)
    if make is not None:
        return make(value)
    if isinstance(value, np.generic):
        if value.dtype.char in "gG":  # a long double has padding, which may hold anything
            return "numpy", dtype_key(value.dtype), str(value.real), str(value.imag)
        return "numpy", dtype_key(value.dtype), value.tobytes()
    if isinstance(value, np.dtype):
        return "dtype", dtype_key(value)
    raise Opaque


def dtype_key(dtype: np.dtype[Any]) -> Hashable:
    return dtype if dtype.hasobject or dtype.fields is not None else (dtype.str, dtype.char)


_PLAIN_TYPES = frozenset({int, str, NoneType, EllipsisType, Function})
_KEYS: dict[type, Callable[[Any], Hashable]] = {
    bool: lambda v: ("bool", v),
    float: _double,
    complex: lambda v: _doubles(v.real, v.imag),
    tuple: lambda v: ("tuple", *map(value_key, v)),
    list: lambda v: ("list", *map(value_key, v)),
    slice: lambda v: ("slice", *map(value_key, (v.start, v.stop, v.step))),
}
