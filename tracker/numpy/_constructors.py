"""NumPy's constructors, with results that tracked values can be written into.

While a function is differentiated or traced in this thread, what they return can hold gradients;
else it is NumPy's own. An array that NumPy would return itself (`asarray`) is returned itself, as
writes to it must reach its owner. Integers and bools have no gradient: such arrays stay NumPy's,
except allocations under a trace, which compiled code fills.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import ConversionError, is_caused_by
from tracker.numpy._trackable import trackable
from tracker.ops.declare.casting import cast_for_store
from tracker.ops.shape import constructors
from tracker.ops.shape.constructors import in_dtype, tracked_array
from tracker.ops.shape.create import buffer, filled_buffer, ones_like, zeros_like
from tracker.ops.shape.shape import memory_axes
from tracker.tape.conversions import plain_integers
from tracker.tape.observers import has_active_transform, is_tracing
from tracker.tape.record import as_numeric, aval_of, holds_tracked
from tracker.tape.tracked import Tracked

NAMES = (
    *("arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray"),
    *("asfortranarray", "c_", "empty", "fromiter", "full", "kaiser", "mgrid", "ogrid", "ones"),
    *("r_", "require", "zeros"),
)
# Arrays from existing data ------------------------------------------------------------------------


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    like: Any = None,
    **kwargs: Any,
) -> Any:
    """`numpy.array`; numbers and arrays in nested lists may be tracked."""
    if not has_active_transform():  # plain numbers are the rule
        try:
            return np.array(object, dtype, copy=copy, ndmin=ndmin, **kwargs)
        except (TypeError, ValueError) as error:
            if not is_caused_by(error, ConversionError):
                raise
    numbers = as_numeric(object)
    object = numbers if type(numbers) is Tracked else object
    if not holds_tracked(object):
        return _of_plain(object, np.array(object, dtype, copy=copy, ndmin=ndmin, **kwargs))
    copies = _copies(copy)
    return tracked_array(object, dtype, copy=copies, order=kwargs.get("order"), ndmin=ndmin)


def _copies(copy: Any) -> bool | None:
    """`copy=` without NumPy's enumeration, which SciPy uses: always, never, or None if needed."""
    if not isinstance(copy, np._CopyMode):
        return copy  # type: ignore[no-any-return]
    return None if copy is np._CopyMode.IF_NEEDED else bool(copy)


def _of_plain(given: Any, result: Any) -> Any:
    """The result of a constructor on plain data, trackable if it is a new array."""
    if not has_active_transform() or (
        hasattr(type(given), "__array__") and np.may_share_memory(np.asarray(given), result)
    ):
        return result  # the argument itself, or a view of it
    if type(given) is np.ndarray and is_tracing() and result.dtype.kind in "fc":
        return _recorded_copy(given, result.dtype)
    return trackable(result)


def _recorded_copy(given: Any, dtype: Any) -> Any:
    """A copy under a trace: compiled code copies the contents that the array has then."""
    return np.copy(np.astype(buffer(given), dtype))


def asarray(a: Any, dtype: Any = None, order: Any = None, **kwargs: Any) -> Any:
    """`numpy.asarray`: an array that needs no conversion is returned itself, tracked or not."""
    copy = _copies(kwargs.pop("copy", None))
    kwargs.pop("device", None)
    if holds_tracked(a) and not copy and order in ("A", "a"):
        order = "K"  # any order is allowed
    return array(a, dtype, copy=copy, order=order or "K", **kwargs)


asanyarray = asarray


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`numpy.ascontiguousarray`."""
    return array(a, dtype, copy=None, order="C", ndmin=1)


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`numpy.asfortranarray`."""
    return array(a, dtype, copy=None, order="F", ndmin=1)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """`numpy.asarray_chkfinite`."""
    y = asarray(a, dtype, order)
    if not np.all(np.isfinite(y)):
        raise ValueError("array must not contain infs or NaNs")
    return y


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """`numpy.require`."""
    if holds_tracked(a):
        return constructors.require(a, dtype, requirements)
    return _of_plain(a, np.require(a, dtype, requirements))


def _trackable_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor whose result is trackable while a derivative or a trace is running."""

    @functools.wraps(function)
    def call(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        return trackable(y) if has_active_transform() else y

    return call


fromiter = _trackable_result(constructors.fromiter)
full = _trackable_result(constructors.full)
arange = _trackable_result(constructors.arange)


# Allocation ---------------------------------------------------------------------------------------


def _allocator(function: Callable[..., Any], fill: Any) -> Callable[..., Any]:
    def call(
        shape: Any, dtype: Any = float, order: Any = "C", *, like: Any = None, **kwargs: Any
    ) -> Any:
        if not has_active_transform():
            return function(shape, dtype, order, **kwargs)
        kind = np.dtype(float if dtype is None else dtype)
        if kind.kind not in "biufc":
            return function(shape, dtype, order, **kwargs)
        extent = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
        axes = memory_axes(np.empty((0,) * len(extent)), order)
        if is_tracing():  # compiled code fills it
            return filled_buffer(fill, buffer(0.0), extent, kind, axes)
        y = np.asarray(fill.evaluate(0.0, shape=extent, dtype=kind))
        return trackable(y if axes is None else y.copy("F"))

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`numpy.{function.__name__}`."
    return call


zeros = _allocator(np.zeros, zeros_like)
ones = _allocator(np.ones, ones_like)
empty = _allocator(np.empty, zeros_like)


class _NdarrayMeta(type):
    """The metaclass of the stand-in for `numpy.ndarray`: a call allocates; else it is NumPy's
    class."""

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        own = tuple(np.ndarray if type(x) is cls else x for x in bases)
        if all(x is y for x, y in zip(own, bases, strict=True)):
            return super().__new__(cls, name, bases, space)
        return types.new_class(name, own, exec_body=lambda made: made.update(space))

    def __call__(cls, shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
        if args or not kwargs.keys() <= {"order"}:  # a view of existing memory
            return np.ndarray(shape, dtype, *args, **kwargs)
        return empty(shape, dtype)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, np.ndarray)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is np.ndarray

    def __hash__(cls) -> int:
        return hash(np.ndarray)


def _ndarray_method(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(np.ndarray, name))
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is Tracked:
            return getattr(self, name)(*args, **kwargs)
        return getattr(np.ndarray, name)(self, *args, **kwargs)

    return call


class ndarray(np.ndarray, metaclass=_NdarrayMeta):
    """`numpy.ndarray` while a function is differentiated: `np.ndarray(n)` can hold gradients."""

    __module__ = "tracker.numpy"
    __slots__ = ()


for _name in dir(np.ndarray):
    if not _name.startswith("_") and callable(getattr(np.ndarray, _name)):
        setattr(ndarray, _name, _ndarray_method(_name))


# r_ and c_ ----------------------------------------------------------------------------------------


class _Joiner:
    """`np.r_` and `np.c_`: NumPy's own, or the same with tracked parts."""

    def __init__(self, own: Any) -> None:
        self._numpy = own

    def __getitem__(self, key: Any) -> Any:
        key = _plain_slices(key)
        parts = key if isinstance(key, tuple) else (key,)
        if any(map(holds_tracked, parts)):
            return self._join(list(parts))
        made = self._numpy[_plain_slices(key)]
        return trackable(made) if has_active_transform() else made

    def __len__(self) -> int:
        return 0

    def _join(self, parts: list[Any]) -> Any:
        axis, ndmin, first = self._numpy.axis, self._numpy.ndmin, self._numpy.trans1d
        if isinstance(parts[0], str):
            given = [int(n) for n in parts.pop(0).split(",")]
            axis, ndmin, first = given + [axis, ndmin, first][len(given) :]
        made = [_joined_part(x, ndmin, first) for x in parts]
        kind = np.result_type(*map(_result_type_operand, parts, made))
        pairs = zip(parts, made, strict=True)
        return np.concatenate([_cast_part(part, y, kind) for part, y in pairs], axis)


def _is_number(x: Any) -> bool:
    return type(aval_of(x)) in (bool, int, float, complex)


def _result_type_operand(part: Any, array: Any) -> Any:
    """A part's operand of `np.result_type`: Python numbers are weak."""
    return aval_of(part) if _is_number(part) else np.result_type(aval_of(array))


def _cast_part(part: Any, array: Any, kind: np.dtype[Any]) -> Any:
    """A part in the common dtype; a Python integer must fit."""
    if not _is_number(part):
        return in_dtype(array, kind)
    return np.reshape(cast_for_store(part, kind), np.shape(array))


def _plain_slices(key: Any) -> Any:
    """Slices between tracked integers as plain slices."""
    if isinstance(key, tuple):
        return tuple(map(_plain_slices, key))
    return (
        slice(*plain_integers((key.start, key.stop, key.step))) if isinstance(key, slice) else key
    )


def _joined_part(x: Any, ndmin: int, first: int) -> Any:
    """One part of `np.r_[...]` with at least `ndmin` dimensions, its own starting at dimension
    `first`."""
    if isinstance(x, slice):
        x = np.r_[x]
    x = array(x)
    have = np.ndim(x)
    missing = ndmin - have
    if missing <= 0:
        return x
    before = min(first if first >= 0 else first + missing + 1, missing)
    return np.reshape(x, (1,) * before + np.shape(x) + (1,) * (missing - before))


r_ = _Joiner(np.r_)
c_ = _Joiner(np.c_)


def kaiser(M: Any, beta: Any) -> Any:
    """`numpy.kaiser`, of a tracked beta, too."""
    if not holds_tracked([beta]):
        window = np.kaiser(plain_integers(M), beta)
        return trackable(window) if has_active_transform() else window
    count = plain_integers(M)
    half = (count - 1) / 2
    positions = (np.arange(count) - half) / (half or 1.0)
    return np.i0(beta * np.sqrt(1 - positions**2)) / np.i0(beta)


class _Mesh:
    """`np.mgrid` and `np.ogrid`."""

    def __init__(self, own: Any) -> None:
        self._numpy = own

    def __getitem__(self, key: Any) -> Any:
        made = self._numpy[_plain_slices(key)]
        return trackable(made) if has_active_transform() else made


mgrid = _Mesh(np.mgrid)
ogrid = _Mesh(np.ogrid)
