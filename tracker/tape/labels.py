"""Labels of plain operands: which axes arrays of pandas and xarray objects had.

Beside tracked values such objects count as their arrays, matched by position. Where pandas or
xarray would match the labels of two operands otherwise (`e[1:] * e[:-1]`), an error is raised; and
methods of a result have pandas' defaults where pandas would have its own class. Both are read from
the history of a value, and only where such objects are used.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tracker.errors import ConversionError
from tracker.ir.op import UFUNCS, Op
from tracker.support.weakrefs import removing_ref
from tracker.tape.value import Value

# By the id of an array, beside a weak reference to it: the indexes of a Series or DataFrame, or the
# dimensions of an xarray object.
LABELS: dict[int, tuple[Any, tuple[Any, ...]]] = {}
DIFFERING: dict[int, Any] = {}  # those of them whose labels may differ from others'
_LATEST: dict[tuple[int, ...], tuple[Any, ...]] = {}  # by shape
_MAX_SHAPES = 64
# Methods that have other defaults where pandas would have its own class.
FRAME_METHODS: dict[str, Any] = {}
# What pandas gives for its objects is one of them again after ufuncs, and after these ops.
_KEEPING_OPS = {"getitem", "gather", "transpose", "astype", "copy"}
_KEEPING_OPS |= {"sum", "mean", "prod", "max", "min"}
_MAX_LOOKED_AT = 256  # in a loop, each operation looks


def note_labels(array: Any, x: Any) -> Any:
    """Note that an array stands for a pandas or xarray object; returns the array."""
    found = tuple(x.axes) if hasattr(type(x), "iloc") else getattr(x, "dims", None)
    if type(found) is tuple and found:
        if len(_LATEST) >= _MAX_SHAPES:
            _LATEST.clear()
        latest = _LATEST.setdefault(array.shape, found)
        _note(array, found, differs=not _match(latest, found))
        _LATEST[array.shape] = found
    return array


def _note(array: Any, labels: tuple[Any, ...], differs: bool) -> None:
    LABELS[id(array)] = removing_ref(array, LABELS), labels
    if differs:
        DIFFERING[id(array)] = removing_ref(array, DIFFERING)


def labelled_ancestors(value: Value, limit: float = math.inf) -> Iterator[Any]:
    """The arrays with labels that a value would have its labels from, the nearest first; not beyond
    so many values."""
    if not LABELS:
        return
    todo: deque[Any] = deque([value])
    seen: set[Any] = set()
    keeping = _ufunc_ops(len(UFUNCS))
    while todo and len(seen) < limit:
        at = todo.popleft()
        array = at.aval if type(at) is Value else at
        if type(array) is np.ndarray and id(array) in LABELS:
            yield array
            continue
        if type(at) is not Value or at in seen:
            continue
        seen.add(at)
        if type(at.op) is not Op:
            continue
        if id(at.op) in keeping or at.op.name in _KEEPING_OPS:
            todo += at.operands
        elif at.op.name in ("cumsum", "cumprod"):  # of a flattened array
            todo += getattr(at.operands[0], "operands", ())


@functools.cache
def _ufunc_ops(count: int) -> frozenset[int]:
    """The ids of the ops of ufuncs, of which there are so many by now."""
    return frozenset(map(id, UFUNCS.values()))


def is_frame(value: Value) -> bool:
    """Whether pandas would have a Series or DataFrame in the place of a value."""
    return any(not _are_names(LABELS[id(x)][1]) for x in labelled_ancestors(value))


def check_labels(op: Op, array: Any, x: Any, others: Iterable[Value]) -> None:
    """Raise if an operand's labels would not be matched by position with those of the others."""
    if id(array) not in LABELS or op.name == "matmul":
        return
    labels = LABELS[id(array)][1]
    if not all(_match(labels, found) for value in others for found in _labels_of(value)):
        raise _mismatch(f"{op.name} of a {type(x).__name__} and a tracked array")


def check_alike(op: Op, a: Value, b: Value) -> None:
    """Raise if the labels of two values would not be matched by position."""
    if op.name == "matmul":
        return
    others = list(_labels_of(b))
    if not all(_match(labels, found) for labels in _labels_of(a) for found in others):
        raise _mismatch(f"{op.name} of two tracked arrays")


def _mismatch(what: str) -> ConversionError:
    return ConversionError(
        f"{what} with other labels, which would be matched by label",
        "Align them before, or give x.to_numpy() to match them by position",
    )


def _labels_of(value: Value) -> Iterator[tuple[Any, ...]]:
    """The labels that a value has from the objects that it was computed from."""
    for found in labelled_ancestors(value, _MAX_LOOKED_AT):
        if found.shape == np.shape(value.aval):
            yield LABELS[id(found)][1]


def note_part(value: Value, key: Any, part: Value) -> None:
    """Note the labels of `part`, which is `value[key]`, if pandas would have them."""
    keys = key if type(key) is tuple else (key,)
    if not all(type(k) is slice or type(k) is np.ndarray for k in keys):
        return
    for labels in _labels_of(value):
        if _are_names(labels) or len(keys) > len(labels):
            return
        kept = [index[k] for index, k in zip(labels, keys, strict=False)]
        _note(part.aval, (*kept, *labels[len(keys) :]), differs=True)
        return


def check_position(value: Value, at: int) -> None:
    """Raise if pandas would take a subscript of a Series for another element's label."""
    for labels in _labels_of(value):
        if _are_names(labels) or len(labels) > 1 or at < 0:
            continue
        if labels[0].dtype.kind in "iu" and labels[0][at] != at:
            raise ConversionError(
                f"x[{at}] of a tracked array is the element at this position, and of a Series "
                "with such labels the one with this label",
                "Use x.to_numpy(), and positions",
            )


def _are_names(labels: tuple[Any, ...]) -> bool:
    return not hasattr(labels[0], "equals")


def _match(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether the labels of the last axes agree."""
    if _are_names(a) != _are_names(b):
        return True
    pairs = list(zip(reversed(a), reversed(b), strict=False))
    if _are_names(a):
        return all(one == other for one, other in pairs)
    return all(one.equals(other) for one, other in pairs)
