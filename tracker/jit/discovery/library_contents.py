"""The contents of captured pandas and xarray objects, and of sparse arrays.

Such an object is a constant of a trace, valid while its contents stay as they were: on each call
its arrays are compared with copies, and the attributes that lead to them by identity. Its methods
are not looked into, which would take a tenth of a second for a data frame.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.support.array_likes import is_labelled_class
from tracker.support.instances import instance_dict
from tracker.support.weakrefs import WeakIdentityDict, weak_cache

# Where arrays of pandas keep their numbers.
_EXTENSION_ARRAY_PARTS = (
    *("_ndarray", "_data", "_mask", "_pa_array", "_sparse_values", "_sparse_index"),
    *("_left", "_right", "_dtype"),
)
_NOT_RESTORED = {"__weakref__", "_cache", "_close", "_flags"}


class Contents:
    """What an object holds at one time.

    It keeps a copy; attributes (of an object in it, or of itself: None) and containers, with what
    was there; and the arrays, with copies that later looks compare.
    """

    __slots__ = ("__weakref__", "arrays", "attributes", "containers", "copy", "owner")

    def __init__(self, x: Any) -> None:
        self.attributes: list[tuple[Any, str, Any]] = []
        self.containers: list[tuple[Any, Sequence[Any]]] = []
        self.arrays: list[tuple[Any, Any]] = []
        self.copy = _deep_copy(x)
        self.owner: Any = x
        _SURVEYS[_kind(type(x))](self, x)
        self.owner = None  # which must not be kept alive

    def are_those_of(self, x: Any) -> bool:
        for holder, name, known in self.attributes:
            if getattr(x if holder is None else holder, name, None) is not known:
                return False
        for container, known in self.containers:
            found = _items(container)
            if len(found) != len(known) or any(a is not b for a, b in zip(found, known)):  # noqa: B905
                return False
        return all(_is_unchanged(*pair) for pair in self.arrays)

    def add_attribute(self, holder: Any, name: str) -> Any:
        """Note an attribute, and what it holds."""
        found = getattr(holder, name, None)
        self.attributes.append((None if holder is self.owner else holder, name, found))
        if type(found) is np.ndarray:
            self.add_array(found)
        elif type(found) in (list, dict):
            self.add_container(found)
        elif _kind(type(found)) == "extension array":
            self.add_extension_array(found)
        return found

    def add_array(self, x: Any) -> None:
        self.arrays.append((x, _held_copy(x)))

    def add_container(self, container: Any) -> None:
        self.containers.append((container, _items(container)))

    def add_extension_array(self, array: Any) -> None:
        for name in _EXTENSION_ARRAY_PARTS:
            if hasattr(array, name):
                self.add_attribute(array, name)

    def add_index(self, index: Any) -> None:
        for name in ("_name", "_names"):
            self.add_attribute(index, name)

    def add_variables(self, variables: dict[Any, Any]) -> None:
        self.add_container(variables)
        for variable in variables.values():
            for name in ("_dims", "_data", "_attrs"):
                self.add_attribute(variable, name)


class ContentsCheck:
    """Called without arguments, it gives a `Contents` object: the same while nothing changes."""

    def __init__(self, x: Any) -> None:
        self._object = weakref.ref(x)
        self._latest = Contents(x)

    def __call__(self) -> Contents:
        x = self._object()
        if x is not None and not self._latest.are_those_of(x):
            self._latest = Contents(x)
        return self._latest

    def restore(self, contents: Contents) -> None:
        """Put back what the object held."""
        x = self._object()
        if x is not None and contents.copy is not None and not contents.are_those_of(x):
            for name, value in state_of(_deep_copy(contents.copy)).items():
                if name not in _NOT_RESTORED:
                    object.__setattr__(x, name, value)


_checks: WeakIdentityDict[ContentsCheck] = WeakIdentityDict()


def contents_check(x: Any) -> ContentsCheck | None:
    """The check of an object, one for each; None if it is of another kind."""
    if x in _checks:
        return _checks[x]
    if isinstance(x, type) or not _kind(type(x)):
        return None
    _checks[x] = found = ContentsCheck(x)
    return found


def is_view_of_labelled(x: Any) -> bool:
    """Whether an object of pandas or xarray only refers to others of these: groups, windows,
    locators. (A `Variable` of xarray, which holds numbers, has no weak references.)"""
    cls = type(x)
    return is_labelled_class(cls) and not _kind(cls) and cls.__weakrefoffset__ > 0


@weak_cache
def _kind(cls: type) -> str:
    """What a class of pandas, xarray or `scipy.sparse` holds; "" if it is none of these."""
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and issubclass(cls, (sparse.sparray, sparse.spmatrix)):
        return "sparse"
    marks = {
        "frame": ("iloc", "axes"),
        "index": ("get_indexer",),
        "extension array": ("_from_sequence",),
        "data set": ("data_vars",),
        "data array": ("coords", "variable"),
    }
    found = (kind for kind, names in marks.items() if all(hasattr(cls, name) for name in names))
    return next(found, "") if is_labelled_class(cls) else ""


def _survey_frame(to: Contents, x: Any) -> None:
    manager = to.add_attribute(x, "_mgr")
    for name in ("_name", "_attrs"):
        to.add_attribute(x, name)
    to.add_container(manager.axes)
    for index in manager.axes:
        to.add_index(index)
    for block in to.add_attribute(manager, "blocks"):
        to.add_attribute(block, "_mgr_locs")
        to.add_attribute(block, "values")


def _survey_data_array(to: Contents, x: Any) -> None:
    to.add_attribute(x, "_name")
    to.add_variables({None: to.add_attribute(x, "_variable")})
    to.add_variables(to.add_attribute(x, "_coords"))


def _survey_data_set(to: Contents, x: Any) -> None:
    to.add_attribute(x, "_attrs")
    to.add_variables(to.add_attribute(x, "_variables"))


def _survey_sparse(to: Contents, x: Any) -> None:
    for name in vars(x):
        found = to.add_attribute(x, name)
        if type(found) is tuple and found and type(found[0]) is np.ndarray:  # coordinates
            for part in found:
                to.add_array(part)
    if x.format == "lil":
        for row in (*x.rows, *x.data):
            to.add_container(row)


_SURVEYS = {
    "frame": _survey_frame,
    "index": Contents.add_index,
    "extension array": Contents.add_extension_array,
    "data set": _survey_data_set,
    "data array": _survey_data_array,
    "sparse": _survey_sparse,
}


def _items(container: Any) -> Sequence[Any]:
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


_MAX_BYTES = 1 << 16  # of arrays that are compared as `bytes`, which is faster for small ones


def _held_copy(x: Any) -> Any:
    """What `_is_unchanged` compares an array with."""
    return x.tobytes() if _is_held_as_bytes(x) else _words(x).copy()


def _is_unchanged(x: Any, held: Any) -> bool:
    if _is_held_as_bytes(x):
        return bool(x.tobytes() == held)
    return bool(np.array_equal(_words(x), held))


def _is_held_as_bytes(x: Any) -> bool:
    """Objects are compared by identity: the bytes are their addresses."""
    return bool(x.nbytes <= _MAX_BYTES or x.dtype.hasobject)


def _words(x: Any) -> Any:
    """The memory of an array as integers."""
    return x.ravel("K").view(f"u{math.gcd(x.itemsize, 8)}")


def state_of(x: Any) -> dict[str, Any]:
    """The attributes that are stored on an object, also in slots."""
    slots = [name for cls in type(x).__mro__ for name in vars(cls).get("__slots__", ())]
    found = {name: getattr(x, name) for name in slots if hasattr(x, name)}
    return found | instance_dict(x)


def _deep_copy(x: Any) -> Any:
    kind = _kind(type(x))
    if kind == "index":  # immutable, but for its name
        return None
    return x.copy() if kind in ("sparse", "extension array") else x.copy(deep=True)
