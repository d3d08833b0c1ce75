"""Subscripts as ops: `x[key]`, `x[key] = v`, and scatter-add.

Each function splits a subscript (`canonical.py`) and applies the op for it (`getitem.py`);
`views_and_writes.py` builds NumPy's subscripts and assignment from them. `write_in_place` is
`x[key] = v` without a copy of x, where nothing else can see the old array: it compares reference
counts with those of a tracked array that nothing else refers to (`_unshared_counts`).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.op import LINEAR, Op
from tracker.ir.types import Type, type_of
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.casting import cast_for_item, cast_for_store
from tracker.ops.elementwise.comparison import where
from tracker.ops.indexing.canonical import (
    canonical_index,
    index_of_growing,
    indexed_shape,
    split_subscript,
)
from tracker.ops.indexing.gather_scatter import Index
from tracker.ops.indexing.getitem import (
    apply_gather,
    as_view,
    embed,
    gather,
    getitem,
    guarded_mask_count,
    index_params,
    put,
    scatter,
    scatter_add,
)
from tracker.tape.observers import is_tracing, observers
from tracker.tape.record import apply, aval_of, data_of, recorded_operand, value_of, wrap
from tracker.tape.tracing.loop_index import (
    AffineSubscript,
    IterationIndex,
    Subscripts,
    ragged_index,
)
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value, current_epoch


def read_subscript(x: Any, key: Any) -> tuple[Any, Index, tuple[Any, ...]]:
    """x[key], and the index and arrays of the subscript."""
    index, arrays = split_subscript(key, np.shape(aval_of(x)))
    if arrays:
        _guard_mask_counts(arrays)
        return apply_gather(x, arrays, index), index, arrays
    if observers:
        index = index_of_growing(x, key, ragged_index(key, index))
    part = _read(x, index)
    if type(aval_of(part)) is not np.ndarray and _has_ellipsis(key):
        part = apply(as_view, (part,))
    return part, index, ()


def _read(x: Any, index: Index) -> Any:
    """x[index], by a basic index."""
    if type(index) is IterationIndex and index.subscripts is not None and index.entries is None:
        return _read_moving(x, index, index.subscripts)
    return apply(getitem, (x,), {"index": index})


def _read_moving(x: Any, index: IterationIndex, of_all: Subscripts) -> Any:
    """x[index], without new axes, which are added afterwards, and with positions in place of slices
    of one position that moves: loops know each for more arrays."""
    entries, subscripts = list[Any](), list[AffineSubscript]()
    axes: list[slice | None] = []
    for entry, subscript in zip(index, of_all, strict=True):
        if subscript is None:
            axes.append(None)
        elif subscript.width == 1 and subscript.start.terms:
            entries.append(entry.start)
            subscripts.append(AffineSubscript(subscript.start))
            axes.append(None)
        else:
            entries.append(entry)
            subscripts.append(subscript)
            axes += [slice(None)] if isinstance(entry, slice) else []
    if None not in axes:
        return apply(getitem, (x,), {"index": index})
    moving = IterationIndex.of(tuple(entries), tuple(subscripts))
    part = apply(getitem, (x,), {"index": moving})
    key = tuple(axes)
    return _read(part, index_of_growing(part, key, canonical_index(key, np.shape(aval_of(part)))))


def _has_ellipsis(key: Any) -> bool:
    if type(key) is not tuple:
        return key is Ellipsis
    return any(part is Ellipsis for part in key)


def is_view(arrays: tuple[Any, ...]) -> bool:
    """Whether a read with these index arrays is a view in NumPy: they are traced integers, none of
    them an array, not even a 0-d one."""
    for a in arrays:  # noqa: SIM110 (on every subscript; a generator is slower)
        if type(a) is not Tracked or type(aval_of(a)) is np.ndarray:
            return False
    return True


def read_view(x: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """Read a view again; of a plain array (a result), the view itself."""
    if type(x) is np.ndarray and not arrays:
        return x[(*index, Ellipsis)]
    part = apply_gather(x, arrays, index) if arrays else _read(x, index)
    return apply(as_view, (part,)) if np.ndim(part) == 0 else part


def write_view(x: Any, part: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """The value of x after a write to one of its views."""
    if arrays:
        return apply(scatter, (x, part, *arrays), index_params(index, arrays))
    return apply(put, (x, part), {"index": index})


def with_subscript_set(x: Any, key: Any, v: Any) -> Any:
    """The value of x after x[key] = v; v is cast to x's dtype, as assignment does."""
    index, arrays = split_subscript(key, np.shape(aval_of(x)))
    if len(arrays) == len(index) == 1 and np.ndim(v) == 0 and _is_mask_of(arrays[0], x):
        return apply(where, (arrays[0], _cast_value(v, x), x))
    if arrays:
        _guard_mask_counts(arrays)
        return apply(scatter, (x, _cast_value(v, x), *arrays), index_params(index, arrays))
    if observers:
        index = index_of_growing(x, key, index)
    return apply(put, (x, _fit_value(_cast_value(v, x, cast_for_item), index, x)), {"index": index})


def try_overwrite(x: Tracked, key: Any, v: Any) -> bool:
    """x[key] = v in the buffer of x, if the index is basic and nothing else can observe the
    buffer."""
    if is_tracing():
        return False
    index, arrays = split_subscript(key, np.shape(aval_of(x)))
    return not arrays and write_in_place(
        put, x, _fit_value(_cast_value(v, x, cast_for_item), index, x), index
    )


_RECENT = 8  # writes that a read searches


def recently_stored(x: Tracked, position: Index) -> Any:
    """The tracked number that one of the last writes stored at a position of x, or None.

    A loop that reads back what it has just written then needs no read, and keeps no old array
    alive. A derivative that began after the write depends on the array, wherever it reads it.
    """
    value = value_of(x)
    for _ in range(_RECENT):
        if type(value) is not Value or value.op is not put or value.epoch < current_epoch():
            return None
        index, v = value.params["index"], value.operands[1]
        if index == position:
            is_scalar = type(v) is Value and type(v.aval) is value.aval.dtype.type
            return wrap(v) if is_scalar and not is_tracing() else None
        if not all(type(part) is int for part in index):
            return None
        value = value.operands[0]
    return None


def add_into_zeros(shape: tuple[int, ...], key: Any, v: Any) -> Any:
    """Zeros with v added at key; repeated positions accumulate."""
    index, arrays = split_subscript(key, shape)
    if not arrays:
        v = np.broadcast_to(as_array(v), indexed_shape(index, shape))
        return apply(embed, (v,), {"index": index, "shape": shape})
    _guard_mask_counts(arrays)
    params = index_params(index, arrays)
    target = gather.infer(
        Type(shape, np.dtype(bool)), *map(type_of, map(aval_of, arrays)), **params
    )
    v = np.broadcast_to(as_array(v), target.shape)
    return apply(scatter_add, (v, *arrays), {**params, "shape": shape})


def _is_mask_of(array: Any, x: Any) -> bool:
    data = data_of(array)
    return bool(data.dtype == np.bool_ and data.shape == np.shape(x) != ())


def _guard_mask_counts(arrays: tuple[Any, ...]) -> None:
    """A traced mask decides the shape of the result: guard its number of true elements."""
    if not is_tracing():
        return
    for array in arrays:
        if isinstance(array, Tracked) and array.dtype == np.bool_:
            guarded_mask_count(array)


def _cast_value(v: Any, x: Any, as_kept: Callable[..., Any] = cast_for_store) -> Any:
    want, given = np.result_type(aval_of(x)), aval_of(v)
    if type(given) is complex and want.kind != "c":
        kinds = "a string" if want.kind == "f" else "a string, a bytes-like object"
        name = "float" if want.kind == "f" else "int"
        raise TypeError(f"{name}() argument must be {kinds} or a real number, not 'complex'")
    if want.kind in "iu" and np.result_type(given) != want:
        return as_kept(v, want)
    v = as_array(v)
    if np.result_type(aval_of(v)) == want:
        return v
    return np.astype(v, want)  # drops imaginary parts with NumPy's warning


def _fit_value(v: Any, index: Index, x: Any) -> Any:
    """A value without leading axes of extent 1, which assignment ignores; raises if it does not
    fit."""
    target = indexed_shape(index, np.shape(aval_of(x)))
    if np.shape(aval_of(v)) in ((), target):
        return v
    while np.ndim(v) > len(target) and np.shape(v)[0] == 1:
        v = np.reshape(v, np.shape(v)[1:])
    given_shape = np.shape(v)
    if len(given_shape) > len(target) or any(
        n not in (1, extent)
        for n, extent in zip(reversed(given_shape), reversed(target), strict=False)
    ):
        have, want = (str(shape).replace(" ", "") for shape in (given_shape, target))
        raise ValueError(f"could not broadcast input array from shape {have} into shape {want}")
    return v


class InPlaceParams(dict[str, Any]):
    """Params of a write that was made in its first operand's own array, of which it overwrote a
    part.

    `holders`: how many values of the history share the array. Each of them is an operand of the
    next and of nothing else, so nothing can read what a later write overwrote. Derivative rules of
    such a write use the operand's shape and dtype only.
    """

    __slots__ = ("holders",)

    def __init__(self, params: dict[str, Any], holders: int) -> None:
        super().__init__(params)
        self.holders = holders


def write_in_place(op: Op, tracked: Any, part: Any, index: Any) -> bool:
    """As `tracked._value = op(tracked, part)` for the op `x[index] = part` on a copy of x, but
    without the copy. Returns False, and does nothing, where something else can see the array."""
    if observers or not tracked._value or part is tracked:  # x[::-1] = x reads what it overwrites
        return False
    params = tracked._value.params
    holders = params.holders if type(params) is InPlaceParams else 1
    if _reference_counts(tracked) != (_unshared_counts[0], _unshared_counts[1] + holders - 1):
        return False
    value = tracked._value
    if value.op is not op and not _rules_allow_overwrite(value.op):
        return False
    array = value.data
    if type(array) is not np.ndarray or array.base is not None or not array.flags.writeable:
        return False
    operand = recorded_operand(part, op)
    array[index] = operand.data if type(operand) is Value else operand
    made = Value(array, op, (value, operand), InPlaceParams({"index": index}, holders + 1))
    tracked._value = made
    return True


def _rules_allow_overwrite(op: Any) -> bool:
    """Whether the derivative rules of the op that made a value read its elements elementwise at
    most: no cotangent reaches an overwritten element, and no tangent leaves it. The rules of an
    inverse or of a maximum, say, need all of them."""
    if not isinstance(op, Op):
        return op is None or op is CLOSED
    return op.partials is not None or op.jvp == LINEAR


def _reference_counts(tracked: Any) -> tuple[int, int]:
    """How many references the value of a tracked array has, and the value's array."""
    value = tracked._value
    array = value.data
    return sys.getrefcount(value), sys.getrefcount(array)


_probe = types.SimpleNamespace(_value=Value(np.zeros(1), None, (), NO_PARAMS))
_unshared_counts = _reference_counts(_probe)  # of a tracked array that nothing else refers to
