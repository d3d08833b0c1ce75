"""Loops over strips of columns: for kernels in which one array lies along the rows, another across.

Owns: `is_crossed` and `may_be_cut`, which are asked before a kernel's loops are written so, and
`TILE`. No order of the loops is good for both arrays of `a + a.T`: the inner loop touches a cache
line of one of them at each step, and the line is gone when the next row wants its other numbers.
So the innermost two loops go over `TILE` columns of all rows, then over the next: `loops.py` writes
it. Half the time where a matrix is written across, and where rows are whole pages apart.

Invariants: points come in another order than by rows, which only kernels are asked for whose
points may; each point comes once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracker.jit.orders import WINDOW, Strides

TILE = 64  # columns of a strip: so many rows of what lies across stay in the cache
_TILES = 4  # strips; fewer columns are all in the cache
_PAGE = 512  # elements; rows so many (or twice, ...) apart share few places in a cache


def is_crossed(
    space: Sequence[int],
    accesses: Iterable[Strides],
    writes: Iterable[Strides],
    order: Sequence[int],
) -> bool:
    """Whether the innermost two loops shall go over strips of columns: what a row touches across
    is out of the cache when the next row comes. What is only read comes in time even so, except
    where the rows of it push each other out.
    """
    if len(space) < 2 or space[order[-1]] < _TILES * TILE or space[order[-2]] < TILE:
        return False
    outer, inner = order[-2:]

    def lies_across(strides: Strides) -> bool:
        return abs(strides.get(inner, 0)) > WINDOW and 0 < abs(strides.get(outer, 0)) < WINDOW

    return any(map(lies_across, writes)) or any(
        lies_across(strides) and strides[inner] % _PAGE == 0 for strides in accesses
    )


def may_be_cut(order: Sequence[int], parts: Sequence[Sequence[Any]], folds: Iterable[Any]) -> bool:
    """Whether no sum begins or ends with a row, and rows and columns are whole."""
    inner = {*order[-2:]}
    return all(len(parts[v]) == 1 for v in inner) and not any(
        fold.by_rows or (fold.in_register and inner & {*fold.kept}) for fold in folds
    )
