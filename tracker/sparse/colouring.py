"""Colours of columns: columns of one colour are computed together, and their entries told apart.

`colour_columns` gives columns that share a row different colours. A symmetric matrix needs fewer
(`colour_symmetric`), because each entry is there twice, and only one of the two must be alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize._numdiff import group_columns

_MOST_ENTRIES = 1_000_000  # for star colourings, which take some seconds for so many


def colour_columns(pattern: Any) -> Any:
    """The colour of each column: by SciPy's greedy grouping, from left to right."""
    if not pattern.shape[1]:
        return np.zeros(0, dtype=np.intp)
    return group_columns(sp.csc_matrix(pattern, dtype=np.int8), np.arange(pattern.shape[1]))


def count_colours(colours: Any) -> int:
    return int(np.max(colours, initial=-1)) + 1


def recovery(pattern: Any, colours: Any) -> Any:
    """Where each entry is in the flat compressed matrix, (colours, rows)."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return colours[pattern.indices] * pattern.shape[0] + rows


def colour_symmetric(pattern: Any) -> tuple[Any, Any]:
    """The colours of the columns of a symmetric matrix, and where each entry is.

    Where columns of one colour meet in a row, its entries are read from their mirror images.
    """
    plain = colour_columns(pattern)
    both = (pattern + pattern.T).tocsr()  # what is in one half only is zero, but not known to be
    stars = (True, False) if pattern.nnz <= _MOST_ENTRIES else ()
    colours = min([plain, *(_star_colours(both, ahead) for ahead in stars)], key=count_colours)
    if colours is plain:
        return plain, recovery(pattern, plain)
    n, count = pattern.shape[0], count_colours(colours)
    rows_of_both = np.repeat(np.arange(n), np.diff(both.indptr))
    meeting = np.bincount(rows_of_both * count + colours[both.indices], minlength=n * count)
    rows, columns = np.repeat(np.arange(n), np.diff(pattern.indptr)), pattern.indices
    is_alone = meeting[rows * count + colours[columns]] == 1
    where = np.where(is_alone, colours[columns] * n + rows, colours[rows] * n + columns)
    return colours, where


def _star_colours(pattern: Any, ahead: bool) -> Any:
    """A star colouring of the graph of a symmetric pattern: neighbours differ, and no path over
    four vertices has only two colours. Greedy, from the vertex with most neighbours down.

    ahead: neighbours of a vertex without a colour differ, too: fewer colours in the end for random
    graphs and for blocks (bundle adjustment), more for grids.

    Sets of colours are the bits of integers. For each vertex: `around` are the colours of its
    neighbours, `twice` those of two or more of them, and `centres` those of the neighbours that
    have another neighbour of the vertex's own colour.
    """
    n = pattern.shape[0]
    ends = pattern.indptr.tolist()
    neighbours = pattern.indices.tolist()
    colours = [-1] * n
    around, twice, centres = [0] * n, [0] * n, [0] * n
    first: dict[tuple[int, int], int] = {}  # the neighbour of a vertex that had a colour first
    for v in np.argsort(-np.diff(pattern.indptr), kind="stable").tolist():
        near = [w for w in neighbours[ends[v] : ends[v + 1]] if w != v]
        taken = 0
        for w in near:
            if (own := colours[w]) < 0:
                taken |= around[w] if ahead else 0
            else:
                taken |= 1 << own | centres[w]
                if twice[v] >> own & 1:
                    taken |= around[w]
        free = ~taken & (taken + 1)
        colours[v] = colour = free.bit_length() - 1
        for w in near:
            own = colours[w]
            if own >= 0 and twice[v] >> own & 1:
                centres[w] |= free
            if not around[w] & free:
                around[w] |= free
                first[w, colour] = v
                continue
            twice[w] |= free
            if own >= 0:
                centres[v] |= 1 << own
                centres[first[w, colour]] |= 1 << own
    return np.array(colours, dtype=np.intp)
