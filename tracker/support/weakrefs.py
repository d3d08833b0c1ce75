"""Weak references that remove an entry from a table when their object dies.

Invariant: no Python function runs when an object dies. If an interrupt (Ctrl-C) arrives in such a
callback, it is lost, with the rest of the callback: Python prints both and goes on. The weak
containers of the standard library have callbacks in Python; these have one in C (`dict.pop`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial, wraps
from typing import Any, TypeVar

_Known = TypeVar("_Known")


def removing_ref(x: Any, table: dict[int, Any]) -> weakref.ref[Any]:
    """A weak reference to an object. When that dies, its id is removed from the table."""
    return weakref.ref(x, partial(table.pop, id(x)))  # `pop(id, reference)`: no KeyError


class WeakIdentityDict(MutableMapping[Any, _Known]):
    """A dict keyed by object identity; an entry lives as long as its object."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], _Known]] = {}

    def __setitem__(self, x: Any, known: _Known) -> None:
        self._found[id(x)] = (removing_ref(x, self._found), known)

    def __getitem__(self, x: Any) -> _Known:
        return self._found[id(x)][1]

    def __contains__(self, x: Any) -> bool:
        return id(x) in self._found

    def __delitem__(self, x: Any) -> None:
        del self._found[id(x)]

    def __iter__(self) -> Iterator[Any]:
        found = [alive() for alive, _ in list(self._found.values())]
        return iter([x for x in found if x is not None])

    def __len__(self) -> int:
        return len(self._found)


def weak_cache(compute: Callable[[Any], _Known]) -> Callable[[Any], _Known]:
    """`functools.cache` for a function of one object, a class for instance: a result is kept as
    long as its object lives."""
    known: WeakIdentityDict[_Known] = WeakIdentityDict()

    @wraps(compute)
    def lookup(x: Any) -> _Known:
        found = known.get(x)
        if found is None:
            found = known[x] = compute(x)
        return found

    return lookup
