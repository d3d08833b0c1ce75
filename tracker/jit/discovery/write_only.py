"""State that code writes but does not read, which needs no source for each part of it.

`append_only_sources` finds lists that are only appended to, `ReplacedDataclasses` dataclasses that
are each replaced by another. Both need all names to be known (`captured_state.py`), so the walk
leaves the items of `UnreadLists` to the end.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tracker.jit.discovery.bytecode import Names
from tracker.jit.guards.source import (
    AttributeSource,
    CellSource,
    ItemSource,
    Source,
    is_plain_dataclass,
    source_children,
)


def append_only_sources(
    sources: Iterable[Source], names: Names, objects: Iterable[Any]
) -> set[Source]:
    """The sources of lists, and of dicts of lists, that code with these names only appends to.
    `objects`: those whose attributes it may read."""
    found = {source: source.read() for source in sources if _is_appended_to(source, names)}
    if names.reads_any_attribute or names.reads_any_global or "locals" in names.globals:
        shown = _namespaces_without_module(objects) if not names.looks_up_modules else set()
        found = {p: x for p, x in found.items() if _is_named_in_code(p, names, shown)}
    if "__self__" in names.attributes:  # of a bound `append`, this is its list
        return set()
    if not found:
        return set()
    times = Counter(id(x) for source in sources for x in _iter_lists(source.read(), ()))
    return {
        p for p, x in found.items() if (own := lists_at(x)) and all(times[id(y)] == 1 for y in own)
    }


class UnreadLists:
    """Lists that the code is only known to append to, so far: it reads none of their items."""

    def __init__(self) -> None:
        self._by_id: dict[int, Any] = {}
        self._read_ids: set[int] = set()

    def add(self, x: Any, source: Source, names: Names) -> None:
        """Note the lists in the value that was found at a source."""
        if _is_appended_to(source, names):
            new = {id(each): each for each in lists_at(x)}
            self._by_id |= {key: each for key, each in new.items() if key not in self._read_ids}

    def __contains__(self, x: Any) -> bool:
        return id(x) in self._by_id

    def pop_read(self, append_only: Iterable[Source]) -> list[Any]:
        """Remove and return the lists at no source of these."""
        kept = {id(each) for source in append_only for each in lists_at(source.read())}
        read = {key: x for key, x in self._by_id.items() if key not in kept}
        self._by_id = {key: x for key, x in self._by_id.items() if key in kept}
        self._read_ids |= read.keys()
        return [*read.values()]


def _is_appended_to(source: Source, names: Names) -> bool:
    """Whether the code that names a source appends to the list there, and does nothing else."""
    is_target = source.name in names.append_targets and source.name not in names.loaded
    return is_target or _is_bound_append(source)


def _is_named_in_code(source: Source, names: Names, shown: set[int]) -> bool:
    """Whether code that reads some names known only at run time reads this value, if at all, under
    a name that is in the code. `shown`: the ids of globals that are attributes of no object."""
    if names.reads_any_global:
        return False
    if isinstance(source, CellSource):  # `locals()` and `vars()` have closure variables
        return not names.lists_attributes and "locals" not in names.globals
    return isinstance(source, ItemSource) and id(source.holder.value) in shown


def _namespaces_without_module(objects: Iterable[Any]) -> set[int]:
    """The ids of the globals of functions, except for those of the modules among these objects."""
    functions = [x for x in objects if isinstance(x, types.FunctionType)]
    modules = {id(vars(x)) for x in objects if isinstance(x, types.ModuleType)}
    return {id(f.__globals__) for f in functions} - modules


def _iter_lists(x: Any, above: tuple[int, ...]) -> Iterator[Any]:
    """All lists in the value at a source."""
    if type(x) is list:
        yield x
    parts = source_children(x) if id(x) not in above else None
    for child in () if parts is None else parts[1]:
        yield from _iter_lists(child, (*above, id(x)))


def _is_bound_append(source: Source) -> bool:
    """Whether a source has the list of a kept bound method `append`."""
    method = source.holder.value
    return source.name == "__self__" and getattr(method, "__name__", "") == "append"


def lists_at(x: Any) -> list[Any]:
    """The list at a source, or the lists in the dict there."""
    if type(x) is list:
        return [x]
    return [y for y in x.values() if type(y) is list] if type(x) is dict else []


class ReplacedDataclasses:
    """Dataclasses that are found at sources, and nowhere else but inside each other."""

    def __init__(self) -> None:
        self._sources_by_id: dict[int, set[Source]] = {}  # by id of a dataclass
        self._reached_elsewhere: set[int] = set()  # ids of objects

    def add(self, x: Any, source: Source | None) -> None:
        """Note an object that the code can reach at a source, or in another way."""
        if source is None or not isinstance(source, (CellSource, ItemSource, AttributeSource)):
            self._reached_elsewhere.add(id(x))
        elif is_plain_dataclass(x):
            self._sources_by_id.setdefault(id(x), set()).add(source)

    def find(self, sources: Iterable[Source], stored: set[str]) -> tuple[set[Source], set[int]]:
        """The sources where the code stores such dataclasses, each time another, and the ids of all
        that are found only there or inside of these: their attributes are no sources of their own.
        `stored`: the names under which the code stores something."""
        held = self._sources_by_id
        odd = {
            id(p.holder.value)
            for p in sources
            if id(p.holder.value) in held
            and isinstance(p, AttributeSource)
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
