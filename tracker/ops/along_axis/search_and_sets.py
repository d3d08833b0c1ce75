"""Searching, membership, unique values, sets, `partition` and `lexsort`.

Positions are found by ops without a derivative (`searchsorted`, `argpartition`, `lexsort`, `isin`,
`unique_order`); values are then picked by indexing, which has one. Compiled, all of them consist of
sorting and binary search.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.lowering import Expand, Search
from tracker.ir.types import Type
from tracker.ops.along_axis.cumulative import cumsum
from tracker.ops.along_axis.partition import keys_at
from tracker.ops.along_axis.sort import argsort, lexicographic_order, on_last_axis, sort, sort_key
from tracker.ops.along_axis.sort import order as sort_order
from tracker.ops.declare.arguments import as_array, refuse_keywords
from tracker.ops.declare.declare import declare_nondiff, implements, implements_nondiff, nondiff_op
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.elementwise.binary import add, minimum
from tracker.ops.elementwise.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    logical_and,
    logical_or,
    not_equal,
)
from tracker.ops.elementwise.unary import isnan, logical_not
from tracker.ops.indexing.gather_scatter import HOLE, taken
from tracker.ops.indexing.getitem import getitem
from tracker.ops.shape.create import astype, table, to_discrete
from tracker.ops.shape.shape import (
    broadcast_to,
    concatenate,
    in_memory_order,
    reshape,
    reshape_if_needed,
    stack,
    transpose,
)
from tracker.tape.record import apply

_INTP = np.dtype(np.intp)
_MANY = 16  # keys; with more, NumPy sorts
_SORTED = 64  # elements; shorter rows are sorted instead of partitioned
_SORTED_TOGETHER = 256  # the same for many rows
_FEW = 8  # ranks of a compiled `argpartition`
_COMPARED = 24  # members; larger sets are searched instead of compared one by one

# Searching ----------------------------------------------------------------------------------------

key_places = nondiff_op(  # insertion positions of keys in a sorted row
    "key_places",
    infer=lambda row, keys, *, right: Type(keys.shape, _INTP),
    evaluate=lambda row, keys, *, right: np.searchsorted(row, keys, "right" if right else "left"),
    operands=2,
    lower=Search(),
)


def _search_build(b: Any, a: Any, v: Any, *, side: str = "left") -> Any:
    common = np.promote_types(a.type.dtype, v.type.dtype)
    if a.type.ndim != 1 or side not in ("left", "right"):
        return "NumPy raises"
    row, keys = (_cast_if_needed(b, x, common) for x in (a, v))
    if common.kind == "c":
        return _merged_places(b, row, keys, right=side == "right")
    return b(key_places, b(sort_key, row), b(sort_key, keys), right=side == "right")


def _merged_places(b: Any, row: Any, keys: Any, *, right: bool) -> Any:
    """Insertion positions of complex numbers, which have no single key: sort both together and
    count the elements of the row before each key."""
    n, many = row.type.size, keys.type.size
    flat_keys = reshape_if_needed(b, keys, (keys.type.size,))
    found = lexicographic_order(
        b, [b(concatenate, *((row, flat_keys) if right else (flat_keys, row)), axis=0)]
    )
    of_row = b(less, found, np.intp(n)) if right else b(greater_equal, found, np.intp(many))
    before = b(cumsum, b(astype, of_row, dtype=_INTP), axis=0)
    first = n if right else 0
    positions = b(getitem, lexicographic_order(b, [found]), index=(slice(first, first + many, 1),))
    return b(reshape, b(taken, before, positions, index=(HOLE,)), shape=keys.type.shape)


def _cast_if_needed(b: Any, x: Any, dtype: Any) -> Any:
    return x if x.type.dtype == dtype and not x.type.weak else b(to_discrete, x, dtype=dtype)


def _isin_build(
    b: Any, element: Any, among: Any, *, invert: bool = False, kind: Any = None, **_: Any
) -> Any:
    """Compare with each member of a small set; in a larger one, with the element at the insertion
    position. NaN equals nothing."""
    n = among.type.size
    common = np.promote_types(element.type.dtype, among.type.dtype)
    if kind is not None:
        return "an algorithm chosen by kind="
    if n == 0:
        return b(broadcast_to, np.bool_(invert), shape=element.type.shape)
    element, among = (
        _cast_if_needed(b, element, common),
        _cast_if_needed(b, reshape_if_needed(b, among, (among.type.size,)), common),
    )
    if n <= _COMPARED:
        each = [b(equal, element, b(getitem, among, index=(k,))) for k in range(n)]
        found = reduce(lambda one, other: b(logical_or, one, other), each)
        return b(logical_not, found) if invert else found
    row = b(sort, among, axis=0)
    position = b(minimum, _search_build(b, row, element), np.intp(n - 1))
    found = b(taken, row, position, index=(HOLE,))
    return b(not_equal if invert else equal, found, element)


def _lexsort_build(b: Any, keys: Any, *, axis: int = -1) -> Any:
    if keys.type.ndim != 2 or not 0 < keys.type.shape[0] <= _MANY:
        return f"an order by {keys.type}"
    return lexicographic_order(b, [_row(b, keys, k) for k in range(keys.type.shape[0])])


def _row(b: Any, x: Any, k: int) -> Any:
    """x[k] of an array of two axes."""
    return b(getitem, x, index=(k, slice(0, x.type.shape[1], 1)))


def _argpartition_build(
    b: Any, a: Any, *, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None
) -> Any:
    """Elements less than the one of a `kth` rank, equal, greater; each group in its
    original order."""
    if axis is None or not a.type.ndim:
        a, axis = reshape_if_needed(b, a, (a.type.size,)), 0
    axis = normalize_axis_index(axis, a.type.ndim)
    n = a.type.shape[axis]
    ranks = sorted({operator.index(k) % n for k in np.ravel(kth)}) if n else []
    is_short = n <= (_SORTED if a.type.size < 8 * n else _SORTED_TOGETHER)
    if a.type.dtype.kind == "c" or is_short or not 0 < len(ranks) <= _FEW:
        return b(argsort, a, axis=axis)
    return on_last_axis(b, lambda rows: _partition_rows(b, rows, ranks), a, axis)


def _partition_rows(b: Any, rows: Any, ranks: list[int]) -> Any:
    """The order of rows by how each element compares with those at some ranks."""
    shape = rows.type.shape
    keys = b(reshape, b(sort_key, rows), shape=(math.prod(shape[:-1]), shape[-1]))
    rank_row = b(reshape, b(table, values=tuple(ranks), dtype=_INTP), shape=(1, len(ranks)))
    chosen = b(keys_at, keys, rank_row)
    group = None
    for at in range(len(ranks)):
        pivot = b(getitem, chosen, index=(slice(0, keys.type.shape[0], 1), slice(at, at + 1, 1)))
        for compare in (greater_equal, greater):
            is_beyond = b(astype, b(compare, keys, pivot), dtype=np.dtype(np.uint8))
            group = is_beyond if group is None else b(add, group, is_beyond)
    return b(reshape, b(sort_order, group), shape=shape)


searchsorted = declare_nondiff(
    np.searchsorted, "a v", "side", numpy=False, lower=Expand(_search_build)
)
argpartition = declare_nondiff(
    np.argpartition,
    "a",
    "kth axis kind order",
    method="argpartition",
    lower=Expand(_argpartition_build),
)
lexsort = declare_nondiff(np.lexsort, "keys", "axis", lower=Expand(_lexsort_build))
isin = declare_nondiff(
    np.isin, "element test_elements", "assume_unique invert kind", lower=Expand(_isin_build)
)


@implements_nondiff(np.searchsorted, method="searchsorted")
def searchsorted_(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    a, v = as_array(a), as_array(v)
    if sorter is not None:
        sorter = as_array(sorter)
        if sorter.dtype.kind not in "iu":
            raise TypeError("sorter must only contain integers")
        if np.shape(sorter) != np.shape(a):
            raise ValueError("sorter.size must equal a.size")
        if type(sorter) is np.ndarray and np.any((sorter < 0) | (sorter >= sorter.size)):
            raise ValueError("Sorter index out of range.")
    return apply(searchsorted, (a if sorter is None else a[sorter], v), {"side": side})


@implements_nondiff(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    x, bins = as_array(x), as_array(bins)
    if x.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if np.ndim(bins) != 1:
        raise ValueError("object of too small depth for desired array")
    side = "left" if right else "right"
    if _rising(bins):
        return searchsorted_(bins, x, side)
    return np.size(bins) - searchsorted_(bins[::-1], x, side)


def _rising(bins: Any) -> bool:
    """Whether bin edges increase. If one is NaN, the first two different edges decide, as
    in NumPy."""
    before, after = bins[:-1], bins[1:]
    if np.all(before <= after):
        return True
    if np.all(before >= after):
        return False
    first = np.argmax(before != after)
    rising = bool(before[first] < after[first])
    if np.any(before > after if rising else before < after):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return rising


@implements(np.partition)
def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    refuse_keywords("np.partition", order=order)
    a = as_array(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    return in_memory_order(np.take_along_axis(a, np.argpartition(a, kth, axis, kind), axis), "K", a)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Any:
    a = np.sort(as_array(a))
    if np.iscomplexobj(a):
        return a
    return np.astype(a, {"b": "F", "h": "F", "B": "F", "H": "F", "g": "G"}.get(a.dtype.char, "D"))


# Unique values ------------------------------------------------------------------------------------


def _unique_order(x: Any, axis: int, equal_nan: bool) -> Any:
    """Two rows: a stable order along an axis, and where in it a new value starts (1)."""
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


def _unique_order_build(b: Any, x: Any, *, axis: int, equal_nan: bool) -> Any:
    shape, n = x.type.shape, x.type.shape[axis]
    many = x.type.size // max(n, 1)
    if n == 0:
        return b(broadcast_to, np.intp(0), shape=(2, 0))
    if many == 0 or many > _MANY:
        return f"an order of {x.type}"
    axes = (axis, *(i for i in range(len(shape)) if i != axis))
    rows = b(reshape, b(transpose, x, axes=axes), shape=(n, many))
    columns = b(transpose, rows, axes=(1, 0))
    lines = [_row(b, columns, k) for k in reversed(range(many))]
    order = lexicographic_order(b, lines)
    differs = None
    for line in lines:
        ordered = b(taken, line, order, index=(HOLE,))
        before = b(getitem, ordered, index=(slice(0, n - 1, 1),))
        after = b(getitem, ordered, index=(slice(1, n, 1),))
        differs_here = b(not_equal, after, before)
        if equal_nan and x.type.dtype.kind in "fc":
            both = b(logical_and, b(isnan, after), b(isnan, before))
            differs_here = b(logical_and, differs_here, b(logical_not, both))
        differs = differs_here if differs is None else b(logical_or, differs, differs_here)
    one_first = b(broadcast_to, np.intp(1), shape=(1,))
    first = b(concatenate, one_first, b(to_discrete, differs, dtype=_INTP), axis=0)
    return b(stack, order, first, axis=0)


unique_order = declare_nondiff(
    _unique_order,
    "x",
    "axis equal_nan",
    numpy=False,
    name="unique_order",
    lower=Expand(_unique_order_build),
)


class UniqueResult(NamedTuple):
    values: Any
    indices: Any
    inverse: Any
    counts: Any


def _unique(ar: Any, axis: int | None, equal_nan: bool) -> UniqueResult:
    shape: tuple[int, ...] = np.shape(ar)
    if axis is None:
        ar, axis = np.ravel(ar), 0
    else:
        axis = normalize_axis_index(axis, np.ndim(ar))
        shape = (shape[axis],)
        equal_nan = equal_nan and np.ndim(ar) == 1  # NumPy compares rows with NaN as different
    both = apply(unique_order, (ar,), {"axis": axis, "equal_nan": bool(equal_nan)})
    order, first = both[0], both[1]
    group = np.cumsum(first) - 1
    indices = order[first == 1]
    inverse = np.reshape(group[np.argsort(order, kind="stable")], shape)
    return UniqueResult(np.take(ar, indices, axis), indices, inverse, np.bincount(group))


def _unique_values(ar: Any, equal_nan: bool) -> Any:
    """The first of each run of equal numbers, without their positions."""
    ordered = np.sort(np.ravel(ar))
    before, after = ordered[:-1], ordered[1:]
    first = before != after
    if equal_nan and ordered.dtype.kind in "fc":
        first = first & ~(np.isnan(before) & np.isnan(after))
    return ordered[np.concatenate([np.ones(min(np.size(ar), 1), bool), first])]


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
    ar = as_array(ar)
    if axis is None and not (return_index or return_inverse or return_counts):
        return _unique_values(ar, equal_nan)
    found = _unique(ar, axis, equal_nan)
    results = [found.values]
    results += [found.indices] if return_index else []
    results += [found.inverse] if return_inverse else []
    results += [found.counts] if return_counts else []
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.unique_values)
def unique_values(x: Any) -> Any:
    return _unique_values(as_array(x), equal_nan=False)


run_as_written(np.unique_all, np.unique_counts, np.unique_inverse)

# Sets ---------------------------------------------------------------------------------------------


run_as_written(np.intersect1d, np.union1d)


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    values = np.ravel(as_array(ar1)) if assume_unique else np.unique(ar1)
    return values[np.isin(values, ar2, invert=True)]


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    one, two = np.unique(as_array(ar1)), np.unique(as_array(ar2))
    alone = [one[np.isin(one, two, invert=True)], two[np.isin(two, one, invert=True)]]
    return np.sort(np.concatenate(alone))
