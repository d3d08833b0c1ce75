"""Labels of plain operands: which axes arrays of pandas and xarray objects had.

Beside tracked values such objects count as their arrays, matched by position. Where pandas or
xarray would match the labels of two of them otherwise, an error is raised; and methods of a result
have pandas' defaults where pandas would have its own class. Both are read from the history of a
value, and only where such objects are used.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tracker.errors import ConversionError, message
from tracker.ir.op import UFUNCS, Op
from tracker.support.weakrefs import removing_ref
from tracker.tape.value import Value

# By the id of an array, beside a weak reference to it: the indexes of a Series or DataFrame, or the
# dimensions of an xarray object.
LABELS: dict[int, tuple[Any, tuple[Any, ...]]] = {}
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
        LABELS[id(array)] = removing_ref(array, LABELS), found
    return array


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
        if type(at) is np.ndarray and id(at) in LABELS:
            yield at
        if type(at) is not Value or at in seen:
            continue
        seen.add(at)
        if type(at.op) is not Op:
            todo.append(at.aval)
        elif id(at.op) in keeping or at.op.name in _KEEPING_OPS:
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
    for value in others:
        for found in labelled_ancestors(value, _MAX_LOOKED_AT):
            has_shape = found.shape == np.shape(value.aval)
            if has_shape and not _match(labels, LABELS[id(found)][1]):
                raise ConversionError(
                    message(
                        f"{op.name} of a {type(x).__name__} and a tracked array with other labels, "
                        "which would be matched by label",
                        "Align them before, or give x.to_numpy() to match them by position",
                    )
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
