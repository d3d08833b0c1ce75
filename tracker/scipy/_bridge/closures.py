"""Tracked values in the closures of functions, and functions with other values in their place.

Functions and tuples in closures are opened, too. A function that assigns to a name outside of it is
not: it would assign to a copy.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType
from typing import Any

from tracker.support.instances import cell_contents
from tracker.tape.tracked import Tracked

CellPath = tuple[int, ...]  # positions of cells, of functions in closures and their values

_STORE_DEREF = dis.opmap["STORE_DEREF"]


def tracked_cells(f: Any) -> dict[CellPath, Any]:
    """The tracked values in the closure of a function, by path."""
    return dict(_walk(f, (), ())) if type(f) is FunctionType else {}


def _walk(x: Any, path: CellPath, above: tuple[Any, ...]) -> Iterator[tuple[CellPath, Any]]:
    if type(x) is Tracked:
        yield path, x
    elif not any(x is outer for outer in above):
        for i, content in enumerate(_contents(x)):
            yield from _walk(content, (*path, i), (*above, x))


def _contents(x: Any) -> list[Any]:
    if isinstance(x, tuple):
        return list(x)
    if type(x) is not FunctionType or _STORE_DEREF in x.__code__.co_code[::2]:
        return []
    return list(map(cell_contents, x.__closure__ or ()))


def with_cells(x: Any, values: Mapping[CellPath, Any]) -> Any:
    """The function with these values in its closure."""
    if () in values:
        return values[()]
    before = _contents(x)
    contents = [*before]
    changed = {path[0] for path in values}
    for i in changed:
        below = {path[1:]: value for path, value in values.items() if path[0] == i}
        contents[i] = with_cells(contents[i], below)
    if isinstance(x, tuple):
        return x._make(contents) if hasattr(x, "_make") else tuple(contents)
    cells = [
        CellType(contents[i]) if i in changed else x.__closure__[i] for i in range(len(contents))
    ]
    made = FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, tuple(cells))
    made.__kwdefaults__ = x.__kwdefaults__
    made.__dict__.update(x.__dict__)
    for i in changed:
        if x.__dict__.get("__wrapped__") is before[i]:
            made.__dict__["__wrapped__"] = contents[i]
    return made
