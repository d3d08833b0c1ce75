"""Stores: `out=` arguments, and values that are cast to the dtype of an array they are written
into.

Errors are NumPy's. Invariant: no tracked float is stored into a plain array, which would lose its
gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ops.declare.arguments import NO_VALUE, as_array
from tracker.tape.conversion_errors import store_error
from tracker.tape.record import aval_of, data_of, holds_tracked
from tracker.tape.tracked import Tracked
from tracker.tape.tracked_targets import tracked_target


def store_out(out: Any, y: Any, casting: Any = "same_kind", ufunc: str = "") -> Any:
    """NumPy's `out=`: store the result and return the target; without a target, return the
    result."""
    if out is None or out is NO_VALUE:
        return y
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    is_plain = not isinstance(out, Tracked)
    holds_integers = type(out) is np.ndarray and out.dtype.kind in "biu"  # no gradient to lose
    if is_plain and isinstance(y, Tracked) and not holds_integers:
        out, is_plain = _tracked_target("out=", out, y), False
    both_plain = is_plain and not isinstance(y, Tracked)
    out[...] = y if both_plain else cast_to_out(y, out, casting, ufunc)
    return out


def in_dtype_of_fold(a: Any, dtype: Any, out: Any) -> Any:
    """An array in the dtype in which NumPy adds it up (multiplies, ...): that of `dtype=`, or the
    wider one of its own and that of `out=`, if that is a float or complex one."""
    if dtype is not None:
        return np.astype(as_array(a), dtype)
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None or out is NO_VALUE:
        return a
    a = as_array(a)
    kind = np.result_type(a.dtype, out.dtype)
    return a if kind == a.dtype or kind.kind not in "fc" else np.astype(a, kind)


def writable_target(name: str, target: Any, values: Any) -> Any:
    """The target of a write, or the tracked array in its place. `ConversionError` if a value to be
    stored is tracked, and the target cannot be; tracked indices and masks are allowed
    (`plain_integers`)."""
    if isinstance(target, Tracked) or not holds_tracked(values):
        return target
    return _tracked_target(name, target, values)


def _tracked_target(name: str, target: Any, values: Any) -> Any:
    found = tracked_target(name, target, values)
    if found is None:
        raise store_error(values, target, name)
    return found


def broadcast_to_out(y: Any, out: Any) -> Any:
    """The result of a ufunc, broadcast to the shape of its `out=`."""
    if not isinstance(out, (np.ndarray, Tracked)) or np.shape(y) == np.shape(out):
        return y
    both = np.broadcast_shapes(np.shape(y), np.shape(out))
    if both != np.shape(out):
        raise ValueError(
            f"non-broadcastable output operand with shape {np.shape(out)} doesn't match the "
            f"broadcast shape {both}"
        )
    return np.broadcast_to(y, both)


def cast_to_out(y: Any, out: Any, casting: Any = "same_kind", ufunc: str = "") -> Any:
    """A ufunc's result in the dtype of its `out=`; shapes must be equal and the casting rule must
    allow it."""
    if np.shape(y) != out.shape:
        raise ValueError(f"output array has shape {out.shape}, the result has shape {np.shape(y)}")
    kind = np.result_type(aval_of(y))
    if kind == out.dtype:
        return y
    if not np.can_cast(kind, out.dtype, casting):
        raise TypeError(
            f"Cannot cast {f'ufunc {ufunc!r} ' * bool(ufunc)}output from {kind!r} to "
            f"{out.dtype!r} with casting rule {casting!r}"
        )
    return np.astype(as_array(y), out.dtype)


def cast_error(given: Any, want: Any, rule: str, *, is_array: Any = True) -> TypeError:
    """NumPy's error for a cast that a casting rule forbids."""
    what = "array data" if is_array else "scalar"
    return TypeError(
        f"Cannot cast {what} from {given!r} to {want!r} according to the rule {rule!r}"
    )


def cast_for_store(x: Any, dtype: np.dtype[Any]) -> Any:
    """A value in the dtype of an array it is written into. NumPy raises for Python numbers, also in
    a list, that are out of range of an integer dtype; it casts everything else."""
    if type(x) in (list, tuple) and dtype.kind in "iu":
        return (
            np.stack([cast_for_item(e, dtype) for e in x])
            if holds_tracked(x)
            else np.array(x, dtype)
        )
    kind = type(aval_of(x))
    return (
        cast_for_item(x, dtype) if kind is int or kind is float else np.astype(as_array(x), dtype)
    )


def cast_for_item(x: Any, dtype: np.dtype[Any]) -> Any:
    """`cast_for_store` for a write to a single element: NumPy's own scalars are checked too, if the
    dtype is signed."""
    aval = aval_of(x)
    checked_types = (int, float, np.integer, np.floating) if dtype.kind == "i" else (int, float)
    is_numpy_unsigned = isinstance(aval, np.generic) and dtype.kind == "u"  # np.float64 is a float
    if (
        dtype.kind in "iu"
        and isinstance(aval, checked_types)
        and type(aval) is not bool
        and not is_numpy_unsigned
    ):
        fits = isinstance(x, Tracked) and np.can_cast(np.result_type(aval), dtype)
        if not (fits or _fits_integer_dtype(x, dtype)):
            np.array(np.asarray(data_of(x)).item(), dtype)  # raises
    return cast_for_store(x, dtype) if type(x) in (list, tuple) else np.astype(as_array(x), dtype)


def _fits_integer_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """Whether a number, truncated, is in the range of an integer dtype."""
    bounds: Any = np.iinfo(dtype)
    aval = aval_of(x)
    if isinstance(aval, (int, np.integer)):
        limits = np.iinfo(np.result_type(aval)) if isinstance(x, Tracked) else bounds
        return (x >= max(bounds.min, limits.min)) & (x <= min(bounds.max, limits.max))
    if isinstance(aval, np.floating):
        x = np.astype(as_array(x), np.float64)
    return (x > float(bounds.min) - 1) & (x < float(bounds.max) + 1)
