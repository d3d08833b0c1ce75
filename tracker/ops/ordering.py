"""Order and membership: partial sorts, searching, unique values, sets.

Places are found by ops without a derivative (`searchsorted`, `digitize`, `argpartition`, `lexsort`,
`isin`, `unique_order`); values are then picked by indexing, which has one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ops.declare import as_array, constant, discrete, implements, refuse
from tracker.tape import apply

searchsorted = discrete(np.searchsorted, "a v", "side", numpy=False)
digitize = discrete(np.digitize, "x bins", "right")
argpartition = discrete(np.argpartition, "a", "kth axis kind order", method="argpartition")
lexsort = discrete(np.lexsort, "keys", "axis")
isin = discrete(np.isin, "element test_elements", "assume_unique invert kind")


@constant(np.searchsorted, method="searchsorted")
def searchsorted_(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    a, v = as_array(a), as_array(v)
    return apply(searchsorted, (a if sorter is None else a[sorter], v), {"side": side})


@implements(np.partition)
def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    refuse("np.partition", order=order)
    a = as_array(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    return np.take_along_axis(a, np.argpartition(a, kth, axis, kind), axis)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Any:
    a = np.sort(as_array(a), axis=0)
    return a if np.iscomplexobj(a) else a + 0j


# Unique values ------------------------------------------------------------------------------------


def _unique_order(x: Any, axis: int, equal_nan: bool) -> Any:
    """In two rows: a stable order along an axis, and where in it a new value begins (1)."""
    rows = np.moveaxis(x, axis, 0)
    rows = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    keys = rows[:, ::-1].T if rows.shape[1] else np.zeros((1, len(rows)))
    order = np.lexsort(keys)
    ordered = rows[order]
    differs = ordered[1:] != ordered[:-1]
    if equal_nan:
        differs &= ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    first = np.ones(len(rows), np.intp)
    first[1:] = np.any(differs, axis=1)
    return np.stack([order, first])


unique_order = discrete(_unique_order, "x", "axis equal_nan", numpy=False, name="unique_order")


class Unique(NamedTuple):
    values: Any
    indices: Any
    inverse: Any
    counts: Any


def _unique(ar: Any, axis: int | None, equal_nan: bool) -> Unique:
    shape: tuple[int, ...] = np.shape(ar)
    if axis is None:
        ar, axis = np.ravel(ar), 0
    else:
        axis = normalize_axis_index(axis, np.ndim(ar))
        shape = (shape[axis],)
    both = apply(unique_order, (ar,), {"axis": axis, "equal_nan": bool(equal_nan)})
    order, first = both[0], both[1]
    group = np.cumsum(first) - 1
    indices = order[first == 1]
    inverse = np.reshape(group[np.argsort(order, kind="stable")], shape)
    return Unique(np.take(ar, indices, axis), indices, inverse, np.bincount(group))


@implements(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    found = _unique(as_array(ar), axis, equal_nan)
    asked = [found.values]
    asked += [found.indices] if return_index else []
    asked += [found.inverse] if return_inverse else []
    asked += [found.counts] if return_counts else []
    return asked[0] if len(asked) == 1 else tuple(asked)


def _result_of(function: Any) -> Any:
    """NumPy's class for the result of one of its `unique_*` functions."""
    return type(function(np.zeros(1)))


@implements(np.unique_values)
def unique_values(x: Any) -> Any:
    return _unique(as_array(x), None, equal_nan=False).values


@implements(np.unique_counts)
def unique_counts(x: Any) -> Any:
    found = _unique(as_array(x), None, equal_nan=False)
    return _result_of(np.unique_counts)(found.values, found.counts)


@implements(np.unique_inverse)
def unique_inverse(x: Any) -> Any:
    found = _unique(as_array(x), None, equal_nan=False)
    return _result_of(np.unique_inverse)(found.values, found.inverse)


@implements(np.unique_all)
def unique_all(x: Any) -> Any:
    return _result_of(np.unique_all)(*_unique(as_array(x), None, equal_nan=False))


# Sets ---------------------------------------------------------------------------------------------


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    return np.unique(np.concatenate([as_array(ar1), as_array(ar2)], axis=None))


@implements(np.intersect1d)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    first, second = np.ravel(as_array(ar1)), np.ravel(as_array(ar2))
    one, two = (_unique(a, None, equal_nan=True) for a in (first, second))
    common = np.isin(one.values, two.values)
    values = one.values[common]
    if not return_indices:
        return values
    return values, one.indices[common], two.indices[np.isin(two.values, one.values)]


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    values = np.ravel(as_array(ar1)) if assume_unique else np.unique(ar1)
    return values[np.isin(values, ar2, invert=True)]


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    one, two = np.unique(as_array(ar1)), np.unique(as_array(ar2))
    alone = [one[np.isin(one, two, invert=True)], two[np.isin(two, one, invert=True)]]
    return np.sort(np.concatenate(alone))
