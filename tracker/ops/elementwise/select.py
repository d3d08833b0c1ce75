"""`select`, `choose`, `compress`, `piecewise`, and `apply_along_axis`: composed of `where`, masks
and stacking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.op import METHODS
from tracker.ops.declare.arguments import array_and_axis, as_array, as_strong_array
from tracker.ops.declare.casting import cast_error, store_out
from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.record import aval_of


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    for i, condition in enumerate(condlist):
        if np.result_type(aval_of(as_array(condition))) != np.bool_:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    kind = _joint_dtype((*choicelist, default))
    y = np.astype(as_array(default), kind)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        choice = as_array(choice)
        given = np.result_type(aval_of(as_strong_array(choice)))
        if not np.can_cast(given, kind, "same_kind"):
            raise cast_error(given, kind, "same_kind")
        y = np.where(as_array(condition), np.astype(choice, kind), y)
    return in_memory_order(y, "C")


def _joint_dtype(options: Sequence[Any]) -> np.dtype[Any]:
    """The common dtype of the options; Python numbers are weak."""
    numbers = (int, float, complex)
    avals = (aval_of(x) for x in options)
    return np.result_type(*(x if type(x) in numbers else aval_of(as_array(x)) for x in avals))


@implements(np.choose, method="choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    kind = _joint_dtype(choices)
    indices, options = as_array(a), [np.astype(as_array(c), kind) for c in choices]
    n = len(options)
    np.choose(0, [0], mode=mode)  # type: ignore[call-overload]  # checks it
    if not np.can_cast(indices.dtype, np.intp):
        raise TypeError(
            f"Cannot cast array data from {indices.dtype!r} to dtype('int64') according to the "
            "rule 'safe'"
        )
    if mode == "raise" and not np.all((indices >= 0) & (indices < n)):
        raise ValueError("invalid entry in choice array")
    indices = indices % n if mode == "wrap" else np.clip(indices, 0, n - 1)
    y = options[-1]
    for at in range(n - 2, -1, -1):
        y = np.where(indices == at, options[at], y)
    shape = np.broadcast_shapes(np.shape(indices), *(np.shape(c) for c in options))
    result = np.copy(np.broadcast_to(y, shape), "C")  # a new array, also with one option
    return store_out(out, result[()], "unsafe")


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    a = as_array(a)
    a, axis = array_and_axis(a, axis)
    return store_out(out, np.take(a, np.nonzero(as_array(condition))[0], axis), "unsafe")


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    return np.ravel(as_array(arr))[np.nonzero(np.ravel(as_array(condition)))[0]]


# Functions of lines -------------------------------------------------------------------------------


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    arr = as_array(arr)
    axis = normalize_axis_index(axis, np.ndim(arr))
    lines = np.moveaxis(arr, axis, -1)
    rest = np.shape(lines)[:-1]
    if 0 in rest:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    found = [as_array(func1d(lines[position], *args, **kwargs)) for position in np.ndindex(rest)]
    shape = np.shape(found[0])
    y = np.reshape(np.stack(found), rest + shape)
    ends = tuple(range(len(rest), len(rest) + len(shape)))
    return np.moveaxis(y, ends, tuple(range(axis, axis + len(shape)))) if shape else y


run_as_written(np.apply_over_axes, np.piecewise)
METHODS["compress"] = lambda a, condition, axis=None, out=None: compress(condition, a, axis, out)
