"""NumPy's constructors (`array`, `full`, `arange`, ...) with tracked arguments or a tracked
`like=`.

What they return can hold gradients. `tracker.numpy` calls the same functions.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tracker.ir.op import NUMPY
from tracker.ops.declare.casting import cast_for_store
from tracker.ops.shape.create import as_tracked_array as joined
from tracker.ops.shape.create import buffer, identity
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.conversions import plain_integers
from tracker.tape.labels import LABELS, is_frame
from tracker.tape.observers import is_tracing
from tracker.tape.record import apply, as_numeric, aval_of, holds_tracked, sequence_items, value_of
from tracker.tape.tracing.loop_index import active_iterations, affine_form
from tracker.tape.tracked import Tracked


def tracked_array(
    given: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = None, ndmin: int = 0
) -> Any:
    """`numpy.array` of a tracked value, or of nested lists that hold some."""
    if LABELS and type(given) is Tracked and is_frame(value_of(given)):
        given = apply(identity, (given,))  # an array, whose methods have NumPy's defaults
    y = _copied(given, dtype, copy)
    if y is not given or order not in ("K", "k", "A", "a"):  # else the array itself, in its layout
        y = in_memory_order(y, order, given if type(given) is Tracked else None)
    missing = operator.index(ndmin) - np.ndim(y)
    return np.reshape(y, (1,) * missing + np.shape(y)) if missing > 0 else y


def _copied(given: Any, dtype: Any, copy: bool | None) -> Any:
    if type(given) is not Tracked:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        array = joined(given)  # raises for ragged lists
        has_limits = dtype is not None and np.dtype(dtype).kind in "iu"
        return _checked(given, np.dtype(dtype)) if has_limits else in_dtype(array, dtype)
    if not isinstance(aval_of(given), np.ndarray):
        return np.copy(given if dtype is None else cast_for_store(given, np.dtype(dtype)))
    changed = in_dtype(given, dtype)
    return np.copy(given) if copy and changed is given else changed


def _checked(given: Any, dtype: np.dtype[Any]) -> Any:
    """Nested sequences as an array of integers, each of which must fit."""
    items = sequence_items(given)
    if items is None:
        return cast_for_store(given, dtype)
    return np.stack([_checked(x, dtype) for x in items])


def in_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None or x.dtype == np.dtype(dtype) else np.astype(x, dtype)


def array(given: Any, dtype: Any = None, **options: Any) -> Any:
    """`numpy.array`. A plain array is copied, as its owner may write to it."""
    numbers = as_numeric(given)
    given = numbers if type(numbers) is Tracked else given
    if holds_tracked(given):
        options.pop("subok", None)
        return tracked_array(given, dtype, **options)
    copied = np.array(given, dtype, **{**options, "copy": True})
    if type(given) is np.ndarray and is_tracing() and copied.dtype.kind in "biufc":
        # of its contents at the time of the call
        return in_memory_order(np.copy(in_dtype(buffer(given), copied.dtype)), "K", copied)
    return copied


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None
) -> Any:
    order = "K" if order in (None, "A", "a") else order
    return array(a, dtype, copy=copy, order=order)


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """`numpy.require` of a tracked value."""
    c_example = np.require(np.empty((2, 2)), None, requirements)  # raises as NumPy does
    f_example = np.require(np.empty((2, 2), order="F"), None, requirements)
    needs_order = c_example.flags.fnc or f_example.flags.c_contiguous
    return asarray(a, dtype, ("F" if c_example.flags.fnc else "C") if needs_order else "K")


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1) -> Any:
    """`numpy.fromiter`."""
    items = list(iter) if count < 0 else [x for x, _ in zip(iter, range(count), strict=False)]
    return array(items, dtype) if holds_tracked(items) else np.fromiter(items, dtype, count)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **options: Any) -> Any:
    """`numpy.full`; the value may be tracked."""
    if not holds_tracked(fill_value):
        return np.full(shape, fill_value, dtype, order, **options)
    if type(aval_of(fill_value)) is int and dtype is not None:
        value = cast_for_store(fill_value, np.dtype(dtype))
    else:  # NumPy casts others unchecked
        value = in_dtype(array(fill_value), dtype)
    return np.copy(np.broadcast_to(value, shape), order)


def arange(*args: Any, **options: Any) -> Any:
    """`numpy.arange`; its ends and its step may be tracked."""
    if active_iterations() and (moving := _moving_arange(*args, **options)) is not None:
        return moving
    args = plain_integers(args)
    options = {name: plain_integers(x) for name, x in options.items()}
    bounds = {**dict(zip(("start", "stop", "step"), args, strict=False)), **options}
    if not any(type(x) is Tracked and x.dtype.kind == "f" for x in bounds.values()):
        return np.arange(*args, **options)
    start, stop, step = bounds["start"], bounds.get("stop"), bounds.get("step", 1)
    if stop is None:
        start, stop = 0, start
    kinds: list[Any] = [np.ones((), np.result_type(aval_of(x))) for x in (start, stop, step)]
    kind = np.arange(*kinds, dtype=bounds.get("dtype")).dtype
    count = max(int(np.ceil((stop - start) / step)), 0)
    # As in NumPy, the step is the difference of the first two elements in the final dtype.
    start, second = (in_dtype(array(x), kind) for x in (start, start + step))
    return in_dtype(start + (second - start) * np.arange(count, dtype=kind), kind)


def _moving_arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **options: Any
) -> Any:
    """A range of integers whose ends move with loops, as a part of the longest one; None of any
    other."""
    start, stop = (0, start) if stop is None else (start, stop)
    is_float = float in map(type, (start, stop, step))
    start, stop = (int(x) if type(x) is float and x.is_integer() else x for x in (start, stop))
    first, end = affine_form(start), affine_form(stop)
    is_unit = type(step) in (int, float) and abs(step) == 1
    if first is None or end is None or not is_unit or options:
        return None
    count = end.minus(first).times(int(step))
    if not (first.terms or end.terms) or count.low < 0:
        return None
    kind = np.arange(1.0 if is_float else 1, dtype=dtype).dtype
    part = buffer(np.arange(count.high, dtype=kind))[: (stop - start) * int(step)]
    return in_dtype(start + part * kind.type(step), kind)


def _buffer_constructor(function: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor whose results are tracked constants, which can be written into."""

    def call(*args: Any, like: Any = None, **options: Any) -> Any:
        return buffer(function(*args, **options))

    return call


_CONSTRUCTORS: dict[Any, Callable[..., Any]] = {
    np.array: array,
    np.asarray: asarray,
    np.asanyarray: asarray,
    np.ascontiguousarray: functools.partial(array, copy=None, order="C", ndmin=1),
    np.asfortranarray: functools.partial(array, copy=None, order="F", ndmin=1),
    np.require: require,
    np.fromiter: fromiter,
    np.full: full,
    np.arange: arange,
}
for _function in (np.zeros, np.ones, np.empty, np.eye, np.identity):
    NUMPY[_function] = _buffer_constructor(_function)
NUMPY.update((theirs, _buffer_constructor(ours)) for theirs, ours in _CONSTRUCTORS.items())
