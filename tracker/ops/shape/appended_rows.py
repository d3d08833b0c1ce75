"""Rows of an array that nobody else has, each read when it is used: what a loop has appended to a
list. `joined_rows` puts those that are neighbours together again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked, register_view
from tracker.tape.value import Value

_PYTHON_NUMBERS = (bool, int, float, complex)


class RowView:
    """The row at a place of its base (see `ops/indexing/views_and_writes.py` for views);
    `is_python`: a Python number."""

    __slots__ = ("at", "base", "is_python")

    def __init__(self, base: Tracked, at: int, is_python: bool) -> None:
        self.base, self.at, self.is_python = base, at, is_python

    def cut(self, base: Any) -> Any:
        row = base[self.at]
        return row.item() if self.is_python else row

    def paste(self, base: Any, new: Any) -> Any:
        changed = np.copy(base)
        changed[self.at] = new
        return changed

    def read(self, part: Tracked) -> Value:
        value = value_of(self.cut(self.base))
        register_view(self.base, part)
        return value


def rows_of(base: Tracked, like: Any) -> list[Any]:
    """The rows of an array, each like a number or array."""
    is_python = type(like) in _PYTHON_NUMBERS
    return [_row(base, at, is_python) for at in range(len(base))]


def _row(base: Tracked, at: int, is_python: bool) -> Any:
    made = wrap(value_of(base))
    made._value, made._view = None, RowView(base, at, is_python)
    return made


def joined_rows(parts: Sequence[Any]) -> list[tuple[Any, bool, bool]]:
    """Parts of a stack, of which neighbouring rows of an array are one part: (part, whether it has
    several rows, whether these are Python numbers)."""
    found: list[tuple[Any, bool, bool]] = []
    for _, run in itertools.groupby(enumerate(parts), _place):
        rows = [part for _, part in run]
        if len(rows) > 1 and is_row(rows[0]):
            view = rows[0]._view
            found.append((view.base[view.at : view.at + len(rows)], True, view.is_python))
        else:
            found += [(row, False, False) for row in rows]
    return found


def _place(numbered: tuple[int, Any]) -> tuple[int, int]:
    """The same for neighbouring rows of one array."""
    number, part = numbered
    return (id(part._view.base), part._view.at - number) if is_row(part) else (0, 0)


def is_row(x: Any) -> bool:
    """Whether a value is a row that may have neighbours."""
    return type(x) is Tracked and type(getattr(x, "_view", None)) is RowView
