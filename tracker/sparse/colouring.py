"""Colours of columns: columns of one colour are computed together, and their entries told apart.

`colour_columns` gives columns that share a row different colours. A symmetric matrix needs fewer:
dense columns (`hubs`) have colours of their own, and their rows are read from them, so that these
rows separate no other columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize._numdiff import group_columns

_HUB_FACTORS = (3.0, 10.0)  # a column with so many times the median number of entries is a hub


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
    """The colours of the columns of a symmetric pattern, and where each entry is."""
    counts = np.diff(pattern.indptr)
    best = colour_columns(pattern)
    where = recovery(pattern, best)
    for factor in _HUB_FACTORS if counts.size else ():
        is_hub = counts > factor * max(float(np.median(counts)), 1.0)
        if not is_hub.any() or np.count_nonzero(is_hub) >= count_colours(best):
            continue
        kept = sp.diags_array((~is_hub).astype(np.int8), dtype=np.int8).tocsr()
        others = kept @ pattern.astype(np.int8) @ kept
        others.eliminate_zeros()
        colours = colour_columns(others)
        used = np.unique(colours[~is_hub], return_inverse=True)[1]
        colours[~is_hub] = used
        colours[is_hub] = count_colours(used) + np.arange(np.count_nonzero(is_hub))
        if count_colours(colours) < count_colours(best):
            best, n = colours, pattern.shape[0]
            rows = np.repeat(np.arange(n), counts)
            swapped = is_hub[rows] & ~is_hub[pattern.indices]
            where = np.where(
                swapped,
                best[rows] * n + pattern.indices,
                best[pattern.indices] * n + rows,
            )
    return best, where
