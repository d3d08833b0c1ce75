"""What the code of a function puts at places, where that needs less than a place for all of it.

Owns: `append_only_sources`, the lists that are only appended to; `ReplacedDataclasses`, the
dataclasses each of which is put in the place of another. Both are asked once all names are known
(`discovery.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tracker.jit.discovery.inspection import iter_lists
from tracker.jit.guards.source import Source, is_plain_dataclass


def append_only_sources(
    sources: Iterable[Source], append_targets: set[str], loaded: set[str]
) -> set[Source]:
    """The places of lists, and of dicts of lists, which the code appends to, and does nothing else
    with."""
    found = {
        place: place.read()
        for place in sources
        if (place.name in append_targets and place.name not in loaded) or _is_bound_append(place)
    }
    if not found:
        return set()
    times = Counter(id(x) for place in sources for x in iter_lists(place.read(), ()))
    return {
        p for p, x in found.items() if (own := _lists_at(x)) and all(times[id(y)] == 1 for y in own)
    }


def _is_bound_append(source: Source) -> bool:
    """Whether it is where a kept `h.append` has its list."""
    method = source.holder.value
    return source.name == "__self__" and getattr(method, "__name__", "") == "append"


def _lists_at(x: Any) -> list[Any]:
    """The list that stands at a place, or those in a dict there."""
    if type(x) is list:
        return [x]
    return [y for y in x.values() if type(y) is list] if type(x) is dict else []


class ReplacedDataclasses:
    """Which dataclasses stand at places, and at no others but inside of each other."""

    def __init__(self) -> None:
        self._sources_by_id: dict[int, set[Source]] = {}  # ids of dataclasses: where they stand
        self._reached_elsewhere: set[int] = set()  # ids of what can be reached in another way

    def add(self, x: Any, source: Source | None) -> None:
        """Something that the code can get hold of, at a place or in another way."""
        if source is None or source.kind not in ("cell", "item", "attribute"):
            self._reached_elsewhere.add(id(x))
        elif is_plain_dataclass(x):
            self._sources_by_id.setdefault(id(x), set()).add(source)

    def find(self, sources: Iterable[Source], stored: set[str]) -> tuple[set[Source], set[int]]:
        """The places where the code puts such objects, each another, and the ids of all that stand
        only there, or inside of these: their attributes are no places of their own. `stored`: the
        names under which the code puts something."""
        held = self._sources_by_id
        odd = {
            id(p.holder.value)
            for p in sources
            if id(p.holder.value) in held
            and p.kind == "attribute"
            and p.name not in type(p.holder.value).__dataclass_fields__
        }
        inside, before = held.keys() - self._reached_elsewhere - odd, -1
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
