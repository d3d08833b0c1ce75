"""What the code of a function puts at places, where that needs less than a place for all of it.

Owns: `logs`, the lists that are only appended to; `Replaced`, the dataclasses each of which is
put in the place of another. Both are asked once all names are known (`discovery.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tracker.jit.discovery.inspection import lists_in
from tracker.jit.guards.source import Place, is_record


def logs(places: Iterable[Place], appended: set[str], looked_at: set[str]) -> set[Place]:
    """The places of lists, and of dicts of lists, which the code appends to, and does nothing else
    with."""
    found = {
        place: place.read()
        for place in places
        if (place.name in appended and place.name not in looked_at) or _appends(place)
    }
    if not found:
        return set()
    times = Counter(id(x) for place in places for x in lists_in(place.read(), ()))
    return {
        p for p, x in found.items() if (own := _lists(x)) and all(times[id(y)] == 1 for y in own)
    }


def _appends(place: Place) -> bool:
    """Whether it is where a kept `h.append` has its list."""
    method = place.holder.value
    return place.name == "__self__" and getattr(method, "__name__", "") == "append"


def _lists(x: Any) -> list[Any]:
    """The list that stands at a place, or those in a dict there."""
    if type(x) is list:
        return [x]
    return [y for y in x.values() if type(y) is list] if type(x) is dict else []


class Replaced:
    """Which dataclasses stand at places, and at no others but inside of each other."""

    def __init__(self) -> None:
        self._held: dict[int, set[Place]] = {}  # ids of dataclasses: where they stand
        self._beside: set[int] = set()  # ids of what can be reached in another way

    def note(self, x: Any, place: Place | None) -> None:
        """Something that the code can get hold of, at a place or in another way."""
        if place is None or place.kind not in ("cell", "item", "attribute"):
            self._beside.add(id(x))
        elif is_record(x):
            self._held.setdefault(id(x), set()).add(place)

    def apart(self, places: Iterable[Place], stored: set[str]) -> tuple[set[Place], set[int]]:
        """The places where the code puts such objects, each another, and the ids of all that stand
        only there, or inside of these: their attributes are no places of their own. `stored`: the
        names under which the code puts something."""
        held = self._held
        odd = {
            id(p.holder.value)
            for p in places
            if id(p.holder.value) in held
            and p.kind == "attribute"
            and p.name not in type(p.holder.value).__dataclass_fields__
        }
        inside, before = held.keys() - self._beside - odd, -1
        while len(inside) != before:
            before = len(inside)
            out = {
                key
                for key in inside
                for p in held[key]
                if p.name not in stored and id(p.holder.value) not in inside
            }
            inside -= out
        found = {p for key in inside for p in held[key] if p.name in stored}
        return found, inside
