"""Foreign objects that are neither numbers nor NumPy arrays but may hold numbers: tensors, data
frames, quantities with units, containers of other libraries.

A derivative looks at each part of an argument that it does not know, so that no number is ignored
in silence: the object counts as the array that it offers (`array_from_object`), or is refused with
what to write instead (`Refusal`), or holds no numbers.
"""

from __future__ import annotations

import array
import collections
import enum
import functools
import numbers
import types
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tracker.support.instances import attributes, instance_dict, is_library_class, is_user_class
from tracker.support.weakrefs import weak_cache

_PROTOCOLS = ("__array__", "__array_struct__", "__array_interface__", "__dlpack__")
_UNITS = ("magnitude", "units")
_TEXT = (str, bytes, bytearray)
LABELLING_PACKAGES = frozenset(("pandas", "xarray"))
_CALLABLE = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(functools.partial, np.ufunc, np.vectorize, type, types.ModuleType),
)
_PLAIN = (type(None), enum.Enum, np.dtype, np.generic, range, slice, bool, *_TEXT, *_CALLABLE)
_COLLECTIONS = (
    *(set, frozenset, collections.deque, types.MappingProxyType),
    *(collections.UserDict, collections.UserList, *map(type, ({}.keys(), {}.values(), {}.items()))),
)


class Refusal(NamedTuple):
    """Why an object is not differentiated, and what to write instead."""

    why: str
    instead: str


def offers_array(x: Any) -> bool:
    """Whether an object of a foreign class can be converted to an array."""
    if isinstance(x, (np.ndarray, np.generic, *_TEXT, type)):
        return False
    return _has_attribute(x, _PROTOCOLS) or _has_buffer(x)


def _has_buffer(x: Any) -> bool:
    try:
        memoryview(x)
    except (TypeError, ValueError, BufferError):
        return False
    return True


def array_from_object(x: Any) -> Any:
    """A copy of the array of numbers that an object offers; a `Refusal` if the conversion would
    lose something; None if it offers no numbers.

    Integers count where the object has a dtype, or is an `array.array`: the bytes of an image or a
    buffer are not numbers to differentiate with respect to.
    """
    if not offers_array(x):
        return None
    if _has_attribute(x, _UNITS):
        return Refusal("has units, which its array would lose", _instead(x))
    try:
        found = _converted(x)
    except Exception as error:  # a tensor on another device
        return Refusal(f"says of its array: {str(error).rstrip('.')}", _instead(x))
    has_dtype = isinstance(x, array.array) or hasattr(x, "dtype") or hasattr(x, "dtypes")
    if found.dtype.kind in "fc" or (found.dtype.kind in "biu" and has_dtype):
        return found
    return _object_array_refusal(found, x) if found.shape or not is_library_class(type(x)) else None


def _converted(x: Any) -> Any:
    if hasattr(type(x), "__dlpack__") and not hasattr(type(x), "__array__"):
        return np.array(np.from_dlpack(x))
    return np.array(x, subok=False)


def _has_attribute(x: Any, names: Iterable[str]) -> bool:
    """Whether an object or its class has one of these attributes; `__getattr__` is not called."""
    own = instance_dict(x)
    return any(name in own or hasattr(type(x), name) for name in names)


def is_labelled(x: Any) -> bool:
    """Whether an object is of a class of pandas or xarray, or derived from one."""
    return is_labelled_class(type(x))


@weak_cache
def is_labelled_class(cls: type) -> bool:
    """Whether a class is of pandas or xarray, or derived from one."""
    packages = {each.__module__.partition(".")[0] for each in cls.__mro__}
    return not packages.isdisjoint(LABELLING_PACKAGES)


def array_of_labelled(x: Any) -> Any:
    """The array of numbers of a pandas or xarray object, without its labels; None if the object is
    of another class, or has no plain numbers, or numbers with units."""
    if not is_labelled(x) or not hasattr(type(x), "__array__"):
        return None
    dtype = getattr(x, "dtype", None)
    if not isinstance(dtype, (np.dtype, type(None))) and not is_labelled(dtype):
        return None
    if _has_attribute(getattr(x, "data", None), _UNITS):
        return None
    try:
        found = np.asarray(x)
    except TypeError:  # a data set: several arrays
        return None
    return found if found.dtype.kind in "biufc" else None


def hidden_numbers(x: Any) -> Refusal | None:
    """A `Refusal` if an object that is neither array nor container is or holds numbers; else
    None."""
    if isinstance(x, _PLAIN):
        return None
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return Refusal(
            "is more than its array of numbers",
            "Give np.asarray(x), if plain numbers are what is meant",
        )
    if isinstance(x, np.ndarray):
        return _object_array_refusal(x, x)
    if isinstance(x, numbers.Number) or hasattr(type(x), "__float__"):
        return Refusal("is a number of another library's arithmetic", "Give float(x)")
    if isinstance(x, _COLLECTIONS):
        kids: Any = x.values() if isinstance(x, Mapping) else x
        container = "dict(x)" if isinstance(x, Mapping) else "list(x)"
        return Refusal("holds numbers", f"Give {container}") if _contains_float(kids) else None
    if is_user_class(type(x)) or not _contains_float(attributes(x).values()):
        return None
    return Refusal("holds numbers, and its class is not yours", _instead(x))


def _object_array_refusal(found: Any, x: Any) -> Refusal | None:
    """The refusal of an array of Python objects, or of records, if some are numbers."""
    if found.dtype.kind == "V" and found.dtype.names:
        kinds = [found.dtype[name].base.kind for name in found.dtype.names]
        return (
            Refusal("is an array of records", "Give its fields: x['name']")
            if {*kinds} & {*"fc"}
            else None
        )
    if found.dtype.kind != "O" or not any(_is_number(e) for e in found.flat):
        return None
    if found is not x:
        return Refusal("has an array of Python objects, not of numbers", _instead(x))
    return Refusal(
        "is an array of Python objects, not of numbers",
        "Give x.astype(float), or tracker.collect(x) where these are tracked",
    )


def _is_number(x: Any) -> bool:
    """Whether it is a number or an array, tracked or not."""
    if isinstance(x, (bool, np.generic)):
        return isinstance(x, np.number)
    return isinstance(x, numbers.Number) or hasattr(type(x), "dtype")


def _contains_float(xs: Iterable[Any], depth: int = 3) -> bool:
    """Whether there is a float or complex number, or an array of them, also `depth` levels down in
    Python's own containers."""
    for x in xs if depth else ():
        if isinstance(x, (float, complex, np.inexact)):
            return True
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            return True
        if isinstance(x, (list, tuple)) and _contains_float(x, depth - 1):
            return True
        if type(x) is dict and _contains_float(x.values(), depth - 1):
            return True
    return False


_INSTEAD = {  # an attribute of the class -> what to write instead
    "magnitude": "Give x.magnitude, and put the units on the gradient",
    "toarray": "Give x.toarray(), or x.data for the entries that are stored",
    "detach": "Give x.detach().cpu().numpy()",
    "to_numpy": "Give x.to_numpy(dtype=float)",
}


def _instead(x: Any) -> str:
    for name, text in _INSTEAD.items():
        if _has_attribute(x, (name,)):
            return text
    return (
        "Give its numbers (np.asarray(x), x.to_numpy()), put them into a @dataclass, or say what "
        "it holds: tracker.tree.register"
    )
