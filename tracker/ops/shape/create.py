"""Casts, copies, allocation, and queries of shape and dtype.

`buffer` makes the tracked constants that users allocate and fill. Shape and dtype queries are
answered without recording.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError
from tracker.ir.lowering import Before, Iota, LiteralTable, Map, View
from tracker.ir.op import LINEAR, METHODS, NUMPY
from tracker.ir.types import Type, type_of
from tracker.ops.declare.arguments import as_array, dtype_of, order_of
from tracker.ops.declare.casting import cast_error, cast_for_store
from tracker.ops.declare.declare import declare, implements, nondiff_op
from tracker.ops.declare.rule_helpers import project
from tracker.ops.shape.appended_rows import is_row
from tracker.ops.shape.shape import in_memory_order, memory_axes
from tracker.tape.live_leaves import is_followed
from tracker.tape.observers import observers
from tracker.tape.record import apply, aval_of, holds_tracked, sequence_items, value_of, wrap
from tracker.tape.tracing.alias_queries import share_memory
from tracker.tape.tracing.tracer import note_extents, note_extents_read
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value
from tracker.user_frames import caller_of_numpy


def _cast(x: Any, *, dtype: Any) -> Any:
    """A cast; scalars stay scalars and 0-d arrays stay arrays."""
    y = np.asarray(x).astype(dtype)
    return y if type(x) is np.ndarray else y[()]


def _astype_vjp(g: Any, y: Any, x: Any, *, dtype: Any) -> Any:
    have = np.result_type(x)
    if have.kind != "c" and np.iscomplexobj(g):
        g = np.real(g)
    return np.astype(g, have) if have.kind in "fc" else g


astype = declare(
    "astype",
    infer=lambda x, *, dtype: Type(x.shape, np.dtype(dtype)),
    evaluate=_cast,
    jvp=LINEAR,
    vjp=[_astype_vjp],
    lower=Map(lambda e, x, *, dtype: e.cast(x, dtype), lambda x: (x.dtype,), "biufc", order="K"),
)
# A cast from floats to integers or bools, which has no derivative.
to_discrete = nondiff_op(
    "to_discrete",
    infer=lambda x, *, dtype: Type(x.shape, np.dtype(dtype)),
    evaluate=_cast,
    lower=Map(lambda e, x, *, dtype: e.cast(x, dtype), lambda x: (x.dtype,), "biufc", order="K"),
)


_HOLDERS = {"V": "records", "O": "an array of objects"}


@implements(np.astype)
def astype_(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    want = dtype_of(dtype)
    aval = aval_of(x)
    if hasattr(aval, "dtype") and aval.dtype == want:
        return _separately_writable(x) if copy and type(aval) is np.ndarray else x
    if want.kind in "VO":
        raise UnsupportedError(
            f"astype({want}) would put tracked numbers into {_HOLDERS[want.kind]}, and lose "
            "their gradient",
            "Keep one array for each field, in a dict, a named tuple or a dataclass, objects "
            "in a list; or use tracker.data(t) where no gradient is wanted",
        )
    if want.kind not in "fc" and not (want.kind in "iu" and np.result_type(aval).kind in "iub"):
        return apply(to_discrete, (x,), {"dtype": want})
    return apply(astype, (x,), {"dtype": want})


def _separately_writable(x: Any) -> Any:
    """An array that can be written to independently of `x`. Values are immutable, so another
    tracked array of the same value will do, except for an argument: writes to it reach the caller's
    array."""
    value = value_of(x)
    return wrap(value) if value.operands else copy_(x)


def _astype_method(
    x: Any,
    dtype: Any,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    want = dtype_of(dtype)
    if casting != "unsafe" and not np.can_cast(x.dtype, want, casting):
        raise cast_error(x.dtype, want, casting, is_array=np.ndim(x))
    if x.dtype != want:
        return in_memory_order(astype_(x, want), order, x)
    return METHODS["copy"](x, order) if copy else in_memory_order(x, order)


METHODS["astype"] = _astype_method

identity = declare(  # marks the arguments of a derivative
    "identity",
    infer=lambda x: x,
    evaluate=lambda x: x,
    jvp=LINEAR,
    vjp=[lambda g, y, x: g],
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)

constant = nondiff_op(  # the same data, without a derivative
    "constant",
    infer=lambda x: x,
    evaluate=lambda x: x,
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)


def _item_infer(x: Type) -> Type:
    example = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[x.dtype.kind]
    return type_of(example)


item = declare(  # a NumPy scalar as a Python number
    "item",
    infer=_item_infer,
    evaluate=lambda x: np.asarray(x).item(),
    jvp=LINEAR,
    vjp=[lambda g, y, x: as_array(project(g, x))],  # what rules of NumPy's values may index
    lower=View(lambda e, index, x: (0, (), None)),
)
copy = declare(
    "copy",
    infer=lambda x: Type(x.shape, x.dtype),
    evaluate=np.copy,
    jvp=LINEAR,
    vjp=[lambda g, y, x: g],
    lower=View(lambda e, index, x: (0, index, None), order="K"),
)


@implements(np.copy)
def copy_(a: Any, order: str = "K", subok: bool = False) -> Any:
    copied = apply(copy, (a,))
    order = order_of(order)
    return copied if order == "K" else in_memory_order(copied, order, a)


# The method returns a NumPy scalar itself.
METHODS["copy"] = lambda a, order="C": copy_(a, order) if isinstance(aval_of(a), np.ndarray) else a


def _declare_fill(name: str, function: Any, value: int) -> Any:
    return nondiff_op(
        name,
        infer=lambda x, *, shape, dtype: Type(shape, dtype),
        evaluate=lambda x, *, shape, dtype: function(shape, dtype),
        lower=Map(
            lambda e, x, *, shape, dtype: e.literal(value, dtype),
            lambda x: (x.dtype,),
            "biufc",
            order="C",
        ),
    )


def _positions(shape: tuple[int, ...], axis: int) -> Any:
    """The index of every element along an axis, as a row along it."""
    rows = np.arange(shape[axis], dtype=np.intp)
    return rows.reshape(-1, *(1,) * (len(shape) - 1 - axis))


# Every element is its own index along an axis; used in expansions.
iota = declare(
    "iota",
    infer=lambda *, shape, axis: Type(shape, np.dtype(np.intp)),
    evaluate=lambda *, shape, axis: np.broadcast_to(_positions(shape, axis), shape).copy(),
    jvp=[],
    vjp=[],
    lower=Iota(),
)
# Whether elements are before a position along an axis, which may move with a loop.
before = nondiff_op(
    "before",
    infer=lambda n, *, shape, axis: Type(shape, np.dtype(bool)),
    evaluate=lambda n, *, shape, axis: np.broadcast_to(_positions(shape, axis) < n, shape).copy(),
    lower=Before(),
)
# Literals that expansions write.
table = declare(
    "table",
    infer=lambda *, values, dtype: Type((len(values),), dtype),
    evaluate=lambda *, values, dtype: np.array(values, dtype),
    jvp=[],
    vjp=[],
    lower=LiteralTable(),
)
zeros_like = _declare_fill("zeros_like", np.zeros, 0)
ones_like = _declare_fill("ones_like", np.ones, 1)


def _like(op: Any) -> Any:
    def call(
        a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
    ) -> Any:
        aval = aval_of(a)
        want = dtype_of(dtype) if dtype is not None else np.result_type(aval)
        if shape is not None and observers and type(a) is Tracked:
            note_extents(value_of(a))  # the shape may be of this iteration, that of others is not
        extent = np.shape(a) if shape is None else _shape_tuple(shape)
        if len(extent) != np.ndim(aval):  # "K" and "A" refer to axes of another array
            fortran = order_of(order) == "A" and type(aval) is np.ndarray and aval.flags.fnc
            order = "F" if fortran or order_of(order) == "F" else "C"
            aval = np.empty((0,) * len(extent))
        return filled_buffer(op, a, extent, want, memory_axes(aval, order))

    return call


def filled_buffer(
    op: Any, a: Any, shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...] | None = None
) -> Any:
    """A buffer of zeros or ones, whose axes lie in this order in memory."""
    memory_shape = shape if axes is None else tuple(shape[axis] for axis in axes)
    array = buffer(apply(op, (a,), {"shape": memory_shape, "dtype": dtype}))
    return array if axes is None else np.transpose(array, np.argsort(axes))


def _shape_tuple(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)


def buffer(x: Any) -> Any:
    """A tracked constant, which can be written into."""
    if isinstance(x, Tracked):
        return x
    return wrap(Value(x, CLOSED, (), NO_PARAMS))


NUMPY[np.zeros_like] = NUMPY[np.empty_like] = _like(zeros_like)
NUMPY[np.ones_like] = _like(ones_like)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *rest: Any, **kwargs: Any) -> Any:
    zeros = np.zeros_like(a, dtype, *rest, **kwargs)
    if type(aval_of(fill_value)) is int:
        fill = cast_for_store(fill_value, zeros.dtype)
    else:  # a float is cast unsafely
        fill = np.astype(as_array(fill_value), zeros.dtype)
    y = np.broadcast_to(fill, np.shape(zeros)) + zeros
    return y if np.ndim(zeros) else np.copy(y)  # a 0-d array, not a scalar


def join_tracked_list(x: Any) -> Any:
    """A sequence that holds tracked values as one tracked array; anything else unchanged."""
    return as_tracked_array(x) if type(x) is not Tracked and holds_tracked(x) else x


def as_tracked_array(a: Any, dtype: Any = None) -> Any:
    """A tracked copy, also of nested sequences of tracked values."""
    if isinstance(a, Tracked):
        return np.copy(a) if dtype is None else np.astype(a, dtype)
    if holds_tracked(a):
        try:
            y = _stack_nested(a, dtype)
        except ValueError:
            np.array(_untracked(a), dtype)  # raises NumPy's error for ragged lists
            raise
        return y if dtype in (None, y.dtype) else np.astype(y, dtype)
    return buffer(np.array(a, dtype))


def _stack_nested(a: Any, dtype: Any = None) -> Any:
    """Nested sequences that hold tracked values as one array."""
    if type(a) is not Tracked and holds_tracked(a):
        return np.stack([e if is_row(e) else _stack_nested(e) for e in sequence_items(a) or ()])
    return np.copy(a) if isinstance(a, Tracked) else buffer(np.array(a, dtype))


def _untracked(a: Any) -> Any:
    """Nested sequences with the abstract values of their tracked elements."""
    items = sequence_items(a)
    return aval_of(a) if items is None else list(map(_untracked, items))


# Queries of shape and dtype, not recorded ---------------------------------------------------------


def _unrecorded(function: Any) -> Any:
    return lambda a, *args, **kwargs: function(aval_of(a), *args, **kwargs)


def _extents_read(function: Any) -> Any:
    """A query that tells extents to the code that calls it."""

    def query(a: Any, *args: Any, **kwargs: Any) -> Any:
        if observers and type(a) is Tracked:
            note_extents_read(value_of(a), caller_of_numpy(sys._getframe(1)))
        return function(aval_of(a), *args, **kwargs)

    return query


NUMPY.update((f, _unrecorded(f)) for f in (np.ndim, np.iscomplexobj, np.isrealobj))
NUMPY.update((f, _extents_read(f)) for f in (np.shape, np.size))
NUMPY[np.result_type] = lambda *args: np.result_type(*(aval_of(a) for a in args))
NUMPY[np.can_cast] = lambda a, *rest, **kw: np.can_cast(aval_of(a), *rest, **kw)
for _ask in (np.may_share_memory, np.shares_memory):
    NUMPY[_ask] = functools.partial(share_memory, _ask)


def _item(a: Any, *index: Any) -> Any:
    """`t.item()`: a Python number that stays tracked."""
    if len(index) == 1 and type(index[0]) is tuple:
        index = index[0]
    if not is_followed(value_of(a)):
        return np.asarray(value_of(a).data).item(*index)
    if not index:
        if np.size(a) != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return _as_python(np.ravel(a)[0] if isinstance(aval_of(a), np.ndarray) else a)
    if len(index) == 1:
        return _as_python(np.ravel(a)[index[0]])
    if len(index) != np.ndim(a):
        raise ValueError("incorrect number of indices for array")
    return _as_python(a[index])


def _as_python(number: Any) -> Any:
    aval = aval_of(number)
    if not isinstance(aval, np.generic) or isinstance(aval, (np.longdouble, np.clongdouble)):
        return number
    return apply(item, (number,))


METHODS["item"] = _item


def _tolist(a: Any) -> Any:
    if not is_followed(value_of(a)):
        return value_of(a).data.tolist()
    return _item(a) if np.ndim(a) == 0 else [_tolist(row) for row in a]


METHODS["tolist"] = _tolist
