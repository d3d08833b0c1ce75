"""Arguments of NumPy functions: arrays, dtypes, orders, axes, and keywords that are not
supported."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.errors import UnsupportedError
from tracker.support.array_likes import array_of_labelled
from tracker.tape.record import as_numeric, aval_of, holds_tracked, sequence_items
from tracker.tape.tracked import Tracked

NO_VALUE: Any = np._NoValue


def as_array(x: Any) -> Any:
    """The argument as an array, tracked or plain; sequences may hold tracked values."""
    if type(x) is Tracked or isinstance(x, (np.ndarray, np.generic)):
        return x
    if hasattr(x, "dtype"):
        numbers = array_of_labelled(x)
        return x if numbers is None else numbers
    if holds_tracked(x):
        return np.stack([as_array(e) for e in sequence_items(x) or ()])
    try:
        return np.asarray(x)
    except ValueError:  # an object whose `__array__` returns a tracked array
        converted = as_numeric(x)
        if converted is None:
            raise
        return converted


def as_strong_array(x: Any) -> Any:
    """`as_array`; a Python number becomes a 0-d array, so that its dtype takes part in
    promotion."""
    x = as_array(x)
    return np.reshape(x, ()) if type(aval_of(x)) in (int, float, complex) else x


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """The dtype that a `dtype=` argument names; NumPy's dtype classes are allowed."""
    is_class = isinstance(dtype, type) and issubclass(dtype, np.dtype)
    found: np.dtype[Any] = np.dtype(dtype() if is_class else dtype)
    return found


def order_of(order: Any) -> str:
    """An `order=` argument as one capital letter."""
    if not isinstance(order, (str, type(None))):
        raise TypeError(f"order must be str, not {type(order).__name__}")
    letter = "C" if order is None else order.upper()
    if letter not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return letter


def array_and_axis(a: Any, axis: Any) -> tuple[Any, int]:
    """An array and a non-negative axis. Without an axis, the array is flattened in C order; a 0-d
    array counts as a vector of one element."""
    if axis is None or (np.ndim(a) == 0 and axis in (0, -1)):
        return np.ravel(a), 0
    return a, normalize_axis_index(axis, np.ndim(a))


def refuse_keywords(function: str, **given: Any) -> None:
    """Raise `UnsupportedError` for a keyword that is not at its default."""
    for keyword, value in given.items():
        if value is not None and value is not NO_VALUE:
            raise UnsupportedError(
                f"{function} with {keyword}={value!r} is not supported on tracked values",
                f"Leave {keyword}= out, or use tracker.data(x) where no gradient is wanted",
            )
