"""What subscripts do: x[key], x[key] = v and their kin, as ops (`getitem.py`).

Owns: `read`, `written`, `overwritten`, `added`, and what views need: `is_view`, `cut`, `paste`.
`inplace.py` turns them into NumPy's subscripts and assignments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.types import Type, type_of
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.casting import as_item, as_stored
from tracker.ops.elementwise.comparison import where
from tracker.ops.indexing.canonical import lengths, split
from tracker.ops.indexing.gather_scatter import Index
from tracker.ops.indexing.getitem import (
    as_view,
    embed,
    gather,
    gathered,
    getitem,
    place_params,
    put,
    scatter,
    scatter_add,
)
from tracker.tape.inplace_write import overwrite
from tracker.tape.observers import is_recording
from tracker.tape.record import apply, data_of, form_of, value_of, wrap
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value


def read(x: Any, key: Any) -> tuple[Any, Index, tuple[Any, ...]]:
    """x[key], and the index and arrays of the subscript."""
    index, arrays = split(key, np.shape(form_of(x)))
    if arrays:
        _fix_masks(arrays)
        return gathered(x, arrays, index), index, arrays
    part = apply(getitem, (x,), {"index": index})
    if type(form_of(part)) is not np.ndarray and _has_ellipsis(key):
        part = apply(as_view, (part,))
    return part, index, ()


def _has_ellipsis(key: Any) -> bool:
    if type(key) is not tuple:
        return key is Ellipsis
    return any(part is Ellipsis for part in key)


def is_view(arrays: tuple[Any, ...]) -> bool:
    """Whether what was read with these arrays is a view in NumPy: they are traced integers, and
    none is an array, not even one without dimensions."""
    for a in arrays:  # noqa: SIM110 (every subscript asks; a generator costs more)
        if type(a) is not Tracked or type(form_of(a)) is np.ndarray:
            return False
    return True


def cut(x: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """Read a part that is a view again; of a plain array, which is a result's, the view."""
    if type(x) is np.ndarray and not arrays:
        return x[(*index, Ellipsis)]
    part = gathered(x, arrays, index) if arrays else apply(getitem, (x,), {"index": index})
    return apply(as_view, (part,)) if np.ndim(part) == 0 else part


def paste(x: Any, part: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """The value of x after a part that is a view was written into."""
    if arrays:
        return apply(scatter, (x, part, *arrays), place_params(index, arrays))
    return apply(put, (x, part), {"index": index})


def written(x: Any, key: Any, v: Any) -> Any:
    """The value of x after x[key] = v; v is cast to x's dtype, as assignment does."""
    index, arrays = split(key, np.shape(form_of(x)))
    if len(arrays) == len(index) == 1 and np.ndim(v) == 0 and _is_mask_of(arrays[0], x):
        return apply(where, (arrays[0], _cast(v, x), x))
    if arrays:
        _fix_masks(arrays)
        return apply(scatter, (x, _cast(v, x), *arrays), place_params(index, arrays))
    return apply(put, (x, _fit(_cast(v, x, as_item), index, x)), {"index": index})


def overwritten(x: Tracked, key: Any, v: Any) -> bool:
    """x[key] = v in the array of x itself, if the index is basic and nobody else can see it."""
    if is_recording():
        return False
    index, arrays = split(key, np.shape(form_of(x)))
    return not arrays and overwrite(put, x, _fit(_cast(v, x, as_item), index, x), index)


_RECENT = 8  # how many writes back a read looks


def stored(x: Tracked, place: Index) -> Any:
    """What one of the last writes put at one place of x, as a tracked number; or None.

    A loop that reads what it has just written needs no read, then, and keeps no old array alive.
    """
    value = value_of(x)
    for _ in range(_RECENT):
        if type(value) is not Value or value.op is not put:
            return None
        at, v = value.params["index"], value.operands[1]
        if at == place:
            kept = type(v) is Value and type(v.form) is value.form.dtype.type
            return wrap(v) if kept and not is_recording() else None
        if not all(type(part) is int for part in at):
            return None
        value = value.operands[0]
    return None


def added(shape: tuple[int, ...], key: Any, v: Any) -> Any:
    """Zeros to which v was added at key; a place named twice gets both."""
    index, arrays = split(key, shape)
    if not arrays:
        v = np.broadcast_to(as_array(v), lengths(index, shape))
        return apply(embed, (v,), {"index": index, "shape": shape})
    _fix_masks(arrays)
    params = place_params(index, arrays)
    place = gather.infer(Type(shape, np.dtype(bool)), *map(type_of, map(form_of, arrays)), **params)
    v = np.broadcast_to(as_array(v), place.shape)
    return apply(scatter_add, (v, *arrays), {**params, "shape": shape})


def _is_mask_of(array: Any, x: Any) -> bool:
    data = data_of(array)
    return bool(data.dtype == np.bool_ and data.shape == np.shape(x) != ())


def _fix_masks(arrays: tuple[Any, ...]) -> None:
    """A traced mask decides the shape of the result: the trace holds for this many places."""
    if not is_recording():
        return
    for array in arrays:
        if isinstance(array, Tracked) and array.dtype == np.bool_:
            int(np.count_nonzero(array))


def _cast(v: Any, x: Any, as_kept: Callable[..., Any] = as_stored) -> Any:
    want, given = np.result_type(form_of(x)), form_of(v)
    if type(given) is complex and want.kind != "c":
        kinds = "a string" if want.kind == "f" else "a string, a bytes-like object"
        name = "float" if want.kind == "f" else "int"
        raise TypeError(f"{name}() argument must be {kinds} or a real number, not 'complex'")
    if want.kind in "iu" and np.result_type(given) != want:
        return as_kept(v, want)
    v = as_array(v)
    if np.result_type(form_of(v)) == want:
        return v
    return np.astype(v, want)  # of complex numbers the real parts, with NumPy's warning


def _fit(v: Any, index: Index, x: Any) -> Any:
    """Drop leading axes of extent 1 that assignment ignores; raise if v does not fit."""
    place = lengths(index, np.shape(form_of(x)))
    if np.shape(form_of(v)) in ((), place):
        return v
    while np.ndim(v) > len(place) and np.shape(v)[0] == 1:
        v = np.reshape(v, np.shape(v)[1:])
    given = np.shape(v)
    if len(given) > len(place) or any(
        n not in (1, room) for n, room in zip(reversed(given), reversed(place), strict=False)
    ):
        one, other = (str(shape).replace(" ", "") for shape in (given, place))
        raise ValueError(f"could not broadcast input array from shape {one} into shape {other}")
    return v
