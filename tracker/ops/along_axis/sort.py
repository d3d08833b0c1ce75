"""`sort` and `argsort`, and what they are compiled to.

Numbers become unsigned integer keys of the same order (`sort_key`), and rows of keys are sorted
(`order`): stable, NaNs last, and zeros of both signs equal, as in NumPy. `sort` uses keys that can
be inverted (`value_key`), in which -0.0 precedes 0.0. Complex numbers have several keys and are
sorted by one after the other (`lexicographic_order`). `argsort` of traced values is stable for
every `kind`; NumPy guarantees that for "stable" only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.ir.lowering import Expand, Map, Sort, no_positions
from tracker.ir.types import Type
from tracker.ops.declare.arguments import array_and_axis, refuse_keywords
from tracker.ops.declare.declare import declare, implements, nondiff_op
from tracker.ops.elementwise.binary import add, multiply
from tracker.ops.elementwise.unary import imag, isnan, real
from tracker.ops.indexing.gather_scatter import HOLE, taken
from tracker.ops.indexing.subscripts import add_into_zeros
from tracker.ops.indexing.take_repeat import index_along_axis
from tracker.ops.shape.create import astype, iota
from tracker.ops.shape.shape import transpose
from tracker.tape.record import apply


def _sort_key(x: Any, keep_zero_sign: bool = False) -> Any:
    x = np.asarray(x)
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    bits, key_dtype = 8 * x.dtype.itemsize, _key_dtype(x)
    if x.dtype.kind in "bu":
        return x.astype(key_dtype)[()]
    if x.dtype.kind == "i":
        return (x.view(key_dtype) ^ key_dtype.type(2 ** (bits - 1)))[()]
    raw = (x if keep_zero_sign else np.where(x == 0, x.dtype.type(0), x)).view(f"i{bits // 8}")
    mask = (raw >> (bits - 1)) | np.iinfo(raw.dtype).min
    return np.where(np.isnan(x), key_dtype.type(2**bits - 1), (raw ^ mask).view(key_dtype))[()]


def _key_value(key: Any, *, dtype: Any) -> Any:
    key = np.asarray(key)
    bits = 8 * key.dtype.itemsize
    if dtype.kind in "bu":
        return key.astype(dtype)[()]
    if not dtype.isnative:
        return np.asarray(_key_value(key, dtype=dtype.newbyteorder("="))).astype(dtype)[()]
    top = key.dtype.type(2 ** (bits - 1))
    if dtype.kind == "i":
        return (key ^ top).view(dtype)[()]
    return np.where(key & top, key ^ top, ~key).view(dtype)[()]


def _key_dtype(x: Any) -> np.dtype[Any]:
    return np.dtype(f"u{x.dtype.itemsize}")


sort_key = nondiff_op(
    "sort_key",
    infer=lambda x: Type(x.shape, _key_dtype(x)),
    evaluate=_sort_key,
    lower=Map(lambda e, x: e.order_key(x), lambda x: (x.dtype,), "biuf"),
)
# The same, but zeros of both signs differ, so that the key determines the number.
value_key = nondiff_op(
    "value_key",
    infer=lambda x: Type(x.shape, _key_dtype(x)),
    evaluate=lambda x: _sort_key(x, keep_zero_sign=True),
    lower=Map(lambda e, x: e.order_key(x, zeros=True), lambda x: (x.dtype,), "biuf"),
)
key_value = nondiff_op(
    "key_value",
    infer=lambda key, *, dtype: Type(key.shape, dtype),
    evaluate=_key_value,
    lower=Map(lambda e, key, *, dtype: e.from_order_key(key, dtype), lambda key: (key.dtype,), "u"),
)
ordered = nondiff_op(
    "ordered",
    infer=lambda keys: keys,
    evaluate=lambda keys: np.sort(keys, axis=-1),
    lower=Sort(values=True),
)
order = nondiff_op(
    "order",
    infer=lambda keys: Type(keys.shape, np.dtype(np.intp)),
    evaluate=lambda keys: np.argsort(keys, axis=-1, kind="stable"),
    lower=Sort(),
)


def on_last_axis(b: Any, work: Any, x: Any, axis: int) -> Any:
    """Apply `work` along another axis, transposed to the last."""
    last = x.type.ndim - 1
    if axis == last:
        return work(x)
    axes = (*(i for i in range(last + 1) if i != axis), axis)
    inverse = tuple(int(i) for i in np.argsort(axes))
    return b(transpose, work(b(transpose, x, axes=axes)), axes=inverse)


def sort_parts(b: Any, x: Any) -> list[Any]:
    """The keys that order numbers, the most significant last. Complex ones are ordered by real
    part, then imaginary part; those with a NaN come last, ordered by their other part."""
    if x.type.dtype.kind != "c":
        return [x]
    re, im = b(real, x), b(imag, x)
    nan_flags = (b(astype, b(isnan, part), dtype=np.dtype(np.uint8)) for part in (im, re))
    return [im, re, b(add, next(nan_flags), b(multiply, next(nan_flags), np.uint8(2)))]


def take_in_rows(b: Any, x: Any, positions: Any) -> Any:
    """x[..., positions], row by row along the last axis."""
    shape = x.type.shape
    row_positions = [b(iota, shape=shape, axis=i) for i in range(len(shape) - 1)]
    return b(taken, x, *row_positions, positions, index=(HOLE,) * len(shape))


def lexicographic_order(b: Any, keys: list[Any]) -> Any:
    """The order along the last axis by the last key, ties by the one before, and so on."""
    found = None
    for part in (part for key in keys for part in sort_parts(b, key)):
        if found is None:
            found = b(order, b(sort_key, part))
        else:
            found = take_in_rows(b, found, b(order, b(sort_key, take_in_rows(b, part, found))))
    return found


def _sort_build(b: Any, x: Any, *, axis: int) -> Any:
    if x.type.dtype.kind == "c":
        return on_last_axis(
            b, lambda rows: take_in_rows(b, rows, lexicographic_order(b, [rows])), x, axis
        )
    keys = on_last_axis(b, lambda rows: b(ordered, rows), b(value_key, x), axis)
    return b(key_value, keys, dtype=x.type.dtype)


argsort = nondiff_op(
    "argsort",
    infer=lambda x, *, axis: Type(x.shape, np.dtype(np.intp)),
    evaluate=lambda x, *, axis: np.argsort(x, axis=axis, kind="stable"),
    lower=Expand(
        lambda b, x, *, axis: on_last_axis(b, lambda rows: lexicographic_order(b, [rows]), x, axis),
        order="K",
        checked_positions=no_positions,
        position_bound=lambda x, *, axis: x.shape[axis],
    ),
)


def _apply_argsort(x: Any, axis: int) -> Any:
    return apply(argsort, (x,), {"axis": axis})


sort = declare(
    "sort",
    infer=lambda x, *, axis: x,
    evaluate=lambda x, *, axis: np.sort(x, axis, kind="stable"),
    jvp=[lambda t, y, x, *, axis: np.take_along_axis(t, _apply_argsort(x, axis), axis)],
    vjp=[
        lambda g, y, x, *, axis: add_into_zeros(
            np.shape(x), index_along_axis(x, _apply_argsort(x, axis), axis), g
        )
    ],
    lower=Expand(_sort_build, order="K", checked_positions=no_positions),
)


def _check_kind(kind: Any, stable: Any) -> None:
    """NumPy's error for an unknown kind, or for `kind=` beside `stable=`."""
    if kind is not None or stable is not None:
        np.sort(np.empty(0), kind=kind, stable=stable)


@implements(np.sort)
def sort_(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, **rest: Any) -> Any:
    _check_kind(kind, rest.pop("stable", None))
    refuse_keywords("np.sort", order=order, **rest)
    if axis is None:
        a, axis = np.ravel(a), 0
    return apply(sort, (a,), {"axis": normalize_axis_index(axis, np.ndim(a))})


@implements(np.argsort, method="argsort")
def argsort_(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, **rest: Any
) -> Any:
    _check_kind(kind, rest.pop("stable", None))
    refuse_keywords("np.argsort", order=order, **rest)
    a, axis = array_and_axis(a, axis)
    return apply(argsort, (a,), {"axis": axis})
