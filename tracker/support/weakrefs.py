"""What is known of objects while they live, and what happens when they die.

Owns: `WeakIdentityDict`, what is known of objects, by identity, and `removing_ref`, a weak
reference that takes an entry out of a dict when the object is gone.

Invariant: no Python function runs where an object dies. An interrupt (Ctrl-C) that comes while one
does is lost, as is what the function was to do: Python prints both and goes on. The weak
containers of the standard library have such functions, so these stand in their place.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from functools import partial
from typing import Any, TypeVar

_Known = TypeVar("_Known")


def removing_ref(x: Any, table: dict[int, Any]) -> weakref.ref[Any]:
    """A weak reference to an object. When that is gone, its id is taken out of the table."""
    return weakref.ref(x, partial(table.pop, id(x)))  # `pop(id, reference)`: no KeyError


class WeakIdentityDict(MutableMapping[Any, _Known]):
    """What is known of objects, by identity, for as long as each of them lives."""

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
