"""Parameters of tests that are crossed: by default every pair of their values, in the deep profile
every combination.

`crossed(name=[...], dtype=[...], shape=[...])` takes the place of three stacked `parametrize`, and
leaves out what differs only in which three or more values meet.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

DEEP = os.environ.get("TRACKER_HYPOTHESIS") == "deep"
Row = tuple[int, ...]


def crossed(
    *, where: Callable[..., bool] = lambda *values: True, **columns: Iterable[Any]
) -> Callable[[Any], Any]:
    """Parametrize a test with combinations of the columns' values for which `where` holds."""
    values = [list(column) for column in columns.values()]
    rows = combinations(values, where)
    chosen = [
        tuple(column[i] for column, i in zip(values, row, strict=True))
        for row in (rows if DEEP else covering(rows))
    ]

    def decorate(test: Any) -> Any:
        return pytest.mark.crossed(pytest.mark.parametrize(list(columns), chosen)(test))

    return decorate


def combinations(values: Sequence[Sequence[Any]], where: Callable[..., bool]) -> list[Row]:
    """All of them, as positions in the columns: values need not be hashable."""
    return [
        row
        for row in itertools.product(*(range(len(column)) for column in values))
        if where(*(column[i] for column, i in zip(values, row, strict=True)))
    ]


def pairs(row: Row) -> set[tuple[tuple[int, int], ...]]:
    return set(itertools.combinations(enumerate(row), 2))


def covering(rows: Sequence[Row]) -> list[Row]:
    """Some of the rows, in which is every pair of values that is in any: always the one that adds
    most, of these one whose values are in the fewest rows yet."""
    left = set().union(*map(pairs, rows)) if rows else set()
    used: dict[tuple[int, int], int] = {}
    chosen = []
    while left:
        row = max(
            rows,
            key=lambda row: (len(pairs(row) & left), -sum(used.get(e, 0) for e in enumerate(row))),
        )
        left -= pairs(row)
        used.update((e, used.get(e, 0) + 1) for e in enumerate(row))
        chosen.append(row)
    return sorted(chosen)
