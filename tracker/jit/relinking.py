"""Loops that were compiled for another shape, linked again.

Owns: `link`. Which loops of a program make a module of their own, and in what order they stand in
it, follows from how many elements each has (`modules.py`), so another shape may have the same loops
in other modules. A loop's text without its sizes and its name tells which it is; where all loops of
a module are part of some object code of this process, that code is linked with this shape's tables.

Data: `_places`, from the text of a loop (see `_loops`) to the modules that it was compiled in and
its name there; a module is a text with its level, as `cache.recent` has it.
Invariants: a loop that is urgent is taken from a module compiled at least as well as the one that
is asked for; a link of a module has one table for each function, so it serves one loop for each of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tracker.jit import cache, engine, lifting, native
from tracker.jit.lowered import Loops
from tracker.records import field, record

_MOST = 1000  # loops that are remembered
_EACH = 4  # modules for each
_TABLE = re.compile(rf"\n@({re.escape(lifting.table_of(''))}[\w.]+) = external")
_NOWHERE = 8  # an address for the table of a loop that nobody calls

_Module = tuple[str, int]
_places: dict[str, list[tuple[_Module, str]]] = {}


@record()
class _Link:
    """A module that is linked, and whom its loops stand for: name there -> name here."""

    module: _Module
    names: dict[str, str] = field(default_factory=dict)


def link(
    loops: Loops, loans: Mapping[str, int]
) -> tuple[dict[str, int], list[engine.Module], list[Any]]:
    """The addresses of a module's functions, the modules that they are in, and what these need."""
    text, tables = native.without_sizes(loops.text)
    module = text, loops.level
    is_known = cache.recent(*module) is not None
    parts = {} if loans or is_known else _loops(text)
    links = None if is_known else _found(parts, loops)
    if links is None:
        bound = {**native.addresses(tables), **loans}
        made = cache.compile_or_load(text, level=loops.level, symbols=bound)
        _remember(parts, module)
        return {name: made.address(name) for name in loops.exports}, [made], [*tables.values()]
    modules = [_linked(each, native.addresses(tables)) for each in links]
    home = {
        here: (linked, there)
        for linked, each in zip(modules, links, strict=True)
        for there, here in each.names.items()
    }
    addresses = {}
    for name in loops.exports:
        linked, there = home[_loop_of(name)]
        addresses[name] = linked.address(there + name[len(_loop_of(name)) :])
    return addresses, modules, [*tables.values()]


def _loop_of(function: str) -> str:
    """k5 of k5, k5.far and k5.task."""
    return function.partition(".")[0]


def _loops(text: str) -> dict[str, str]:
    """The loops of a module of these, by name: the texts of their functions, without that name."""
    found: dict[str, str] = {}
    for name, part in lifting.functions(text):
        if name is not None:
            loop = _loop_of(name)
            nameless = re.sub(rf"@((?:{re.escape(lifting.table_of(''))})?){loop}\b", r"@\1", part)
            found[loop] = found.get(loop, "") + nameless
    return found


def _found(parts: Mapping[str, str], loops: Loops) -> list[_Link] | None:
    """Modules of this process that have all of the loops; None if there are none."""
    links: list[_Link] = []
    urgent = set(map(_loop_of, loops.urgent))
    for name, text in parts.items():
        level = loops.level if name in urgent else 0
        places = [
            place
            for place in _places.get(text, ())
            if place[0][1] >= level and cache.recent(*place[0])
        ]
        if not places:
            return None
        _take(name, places, links)
    return links or None


def _take(name: str, places: list[tuple[_Module, str]], links: list[_Link]) -> None:
    """Let a link serve a loop: one that is there already, if it has a place for it."""
    for module, there in places:
        for link in links:
            if link.module == module and there not in link.names:
                link.names[there] = name
                return
    module, there = places[0]
    links.append(_Link(module, {there: name}))


def _linked(link: _Link, tables: Mapping[str, int]) -> engine.Module:
    text, level = link.module
    symbols = {}
    for symbol in _TABLE.findall(f"\n{text}"):
        function = symbol[len(lifting.table_of("")) :]
        loop = _loop_of(function)
        here = link.names.get(loop, "") + function[len(loop) :]
        symbols[symbol] = tables.get(lifting.table_of(here), _NOWHERE)
    return cache.compile_or_load(text, level=level, symbols=symbols)


def _remember(parts: Mapping[str, str], module: _Module) -> None:
    for name, text in parts.items():
        places = _places.setdefault(text, [])
        places[:] = [(module, name), *(each for each in places if each[0] != module)][:_EACH]
    while len(_places) > _MOST:
        _places.pop(next(iter(_places), ""), None)
