"""Compiled reductions to positions, searches, sorts and running extremes, against plain NumPy.

Run: python benchmarks/searching.py     (minimum of repeats; ratios are within this run)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import best

import tracker

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=100_000)
ROWS = X.reshape(1000, 100)
SORTED = np.sort(X)
HOLES = np.where(_RNG.random(X.size) < 0.1, np.nan, X)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "argmax": (lambda x: np.argmax(x), (X,)),
    "argmin of rows": (lambda x: np.argmin(x, axis=1), (ROWS,)),
    "argmax of columns": (lambda x: np.argmax(x, axis=0), (ROWS,)),
    "searchsorted of sorted keys": (np.searchsorted, (SORTED, np.sort(X + 0.1))),
    "searchsorted of any keys": (np.searchsorted, (SORTED, X)),
    "unique": (lambda x: np.unique(x), (np.round(X, 2),)),
    "maximum.accumulate": (lambda x: np.maximum.accumulate(x), (X,)),
    "maximum.accumulate of rows": (lambda x: np.maximum.accumulate(x, axis=1), (ROWS,)),
    "histogram": (lambda x: np.histogram(x, 50)[0], (X,)),
    "nanmax": (lambda x: np.nanmax(x), (HOLES,)),
    "max of where": (lambda x: np.max(np.where(np.isnan(x), -np.inf, x)), (HOLES,)),
    "partition": (lambda x: np.partition(x, 500)[500], (X[:1000],)),
    "sort": (lambda x: np.sort(x), (X[:1000],)),
}


def rows() -> dict[str, dict[str, float]]:
    """case -> who -> microseconds a call."""
    found: dict[str, dict[str, float]] = {}
    for name, (f, arguments) in CASES.items():
        compiled = tracker.jit(f)
        compiled(*arguments)
        found[name] = {
            "tracker": best(lambda f=compiled, a=arguments: f(*a)),
            "numpy": best(lambda f=f, a=arguments: f(*a)),
        }
    return found


if __name__ == "__main__":
    for case, times in rows().items():
        cells = "  ".join(f"{who} {us:10.2f} us" for who, us in times.items())
        print(f"{case:28}  {cells}  (numpy/tracker {times['numpy'] / times['tracker']:.2f})")
