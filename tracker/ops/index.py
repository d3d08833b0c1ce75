"""Reading and writing by index, as pure functions.

Ops come in adjoint pairs: `getitem`/`embed` for basic indices (ints, slices, new axes, ellipsis),
and `gather`/`scatter_add` for integer and boolean arrays. `put` and `scatter` give a copy with
elements replaced; `mutation.py` turns them into NumPy's assignment.

An index travels as a param: a tuple of slices, ints, None, and `HOLE` where an operand array goes.
Invariant: a stored basic index is canonical: one entry per axis (and None), no ellipsis, ints
non-negative, slices with explicit non-negative starts (see `canonical`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.op import LINEAR, Expand, Op, View, Writes
from tracker.ir.types import Type
from tracker.listening import is_recording
from tracker.ops.binary import equal, where
from tracker.ops.create import iota, to_discrete
from tracker.ops.declare import as_array, declare, project
from tracker.ops.places import (
    HOLE,
    Index,
    Piece,
    canonical_part,
    filled,
    normal,
    result_shape,
    scattered,
    scattered_sum,
    taken,
)
from tracker.ops.shape import broadcast_to, reshape
from tracker.overwriting import overwrite
from tracker.tape import apply, data_of, form_of, value_of, wrap
from tracker.tracked import Tracked
from tracker.values import Value

_INT = np.dtype(np.intp)


# Reading an index as users write it ---------------------------------------------------------------


def split(key: Any, shape: tuple[int, ...]) -> tuple[Index, tuple[Any, ...]]:
    """(index with holes, arrays for the holes) of a subscript; no arrays: the index is basic."""
    parts = key if isinstance(key, tuple) else (key,)
    arrays: list[Any] = []
    index: list[Any] = []
    for part in parts:
        entry, array = _entry(part)
        index.append(entry)
        if array is not None:
            arrays.append(array)
    if arrays:
        return tuple(index), tuple(arrays)
    return canonical(tuple(index), shape), ()


def _entry(part: Any) -> tuple[Any, Any]:
    """(entry, None) for a basic part, (HOLE, array) for an array."""
    if type(part) is np.ndarray and part.ndim:
        return HOLE, part
    if type(part) is int or part is None or part is Ellipsis:
        return part, None
    if isinstance(part, slice):
        return _plain_slice(part), None
    data = data_of(part)
    if isinstance(data, (bool, np.bool_)):
        return HOLE, np.asarray(bool(part))  # of a traced one: a guard
    if type(part) is Tracked and np.ndim(data) == 0 and is_recording():
        return HOLE, part if hasattr(data, "dtype") else apply(
            to_discrete, (part,), {"dtype": _INT}
        )
    if isinstance(data, (int, np.integer)):
        return _plain_int(part), None
    if isinstance(data, (list, tuple)):
        array = np.asarray(data)
        return HOLE, array.astype(np.intp) if array.size == 0 else array
    if isinstance(data, np.ndarray):
        return HOLE, part
    if hasattr(data, "__index__"):
        return data.__index__(), None
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):  # a range, as a list
        return _entry(list(data))
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        f"boolean arrays are valid indices, not {type(data).__name__}"
    )


def _plain_slice(part: slice) -> slice:
    """A slice with plain bounds."""
    start, stop, step = _plain_int(part.start), _plain_int(part.stop), _plain_int(part.step)
    if start is part.start and stop is part.stop and step is part.step:
        return part
    return slice(start, stop, step)


def _plain_int(x: Any) -> int | None:
    """A bound or position as an int; a traced one becomes a guard."""
    if x is None or type(x) is int:
        return x
    return int(x.__index__())


def canonical(index: Index, shape: tuple[int, ...]) -> Index:
    """A basic index with one entry per axis; raises IndexError as NumPy does."""
    used = sum(1 for part in index if part is not None and part is not Ellipsis)
    dots = sum(1 for part in index if part is Ellipsis)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed"
        )
    fill = (slice(None),) * (len(shape) - used)
    if dots:
        at = next(i for i, part in enumerate(index) if part is Ellipsis)
        index = index[:at] + fill + index[at + 1 :]
    else:
        index = index + fill
    out: list[Any] = []
    axis = 0
    for part in index:
        if part is None:
            out.append(None)
            continue
        out.append(canonical_part(part, shape[axis], axis))
        axis += 1
    return tuple(out)


def lengths(index: Index, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of x[index] for a canonical index."""
    out = []
    axis = 0
    for part in index:
        if part is None:
            out.append(1)
            continue
        if isinstance(part, slice):
            out.append(len(range(*part.indices(shape[axis]))))
        axis += 1
    return tuple(out)


# Basic indices ------------------------------------------------------------------------------------


def _getitem_source(e: Any, at: Any, x: Type, *, index: Index) -> Any:
    position = iter(at)
    source = []
    for part in index:
        if part is None:
            next(position)
        elif isinstance(part, slice):
            source.append(e.affine(next(position), part.step, part.start))
        else:
            source.append(e.fixed(part))
    return 0, tuple(source), None


def _embed_source(e: Any, at: Any, g: Type, *, index: Index, shape: tuple[int, ...]) -> Any:
    """Where in `g` the element `at` of the embedded array comes from, and whether it does."""
    source = []
    conditions = []
    axis = 0
    for part in index:
        if part is None:
            source.append(e.zero)
            continue
        if isinstance(part, slice):
            n = len(range(*part.indices(shape[axis])))
            inner, inside = e.within(at[axis], part.start, part.step, n)
            source.append(inner)
        else:
            _, inside = e.within(at[axis], part, 1, 1)
        conditions.append(inside)
        axis += 1
    return 0, tuple(source), e.every(conditions)


def _embed(g: Any, *, index: Index, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, np.result_type(g))
    out[index] = g
    return out


getitem: Op = declare(
    "getitem",
    method=None,
    entry=None,
    infer=lambda x, *, index: Type(lengths(index, x.shape), x.dtype),
    evaluate=lambda x, *, index: x[index],
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, index: Piece(g, index, np.shape(x))],
    lower=View(_getitem_source, order="V"),
)
embed: Op = declare(
    "embed",
    method=None,
    entry=None,
    infer=lambda g, *, index, shape: Type(shape, g.dtype),
    evaluate=_embed,
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, index, shape: apply(getitem, (g,), {"index": index})],
    lower=View(_embed_source, lambda g, *, index, shape: Writes(None, ((0, index),)), "C"),
)


def _put(x: Any, v: Any, *, index: Index) -> Any:
    out = np.array(x)
    out[index] = v
    return out


def _put_vjp_value(g: Any, y: Any, x: Any, v: Any, *, index: Index) -> Any:
    return project(apply(getitem, (g,), {"index": index}), v)


def _put_vjp_base(g: Any, y: Any, x: Any, v: Any, *, index: Index) -> Any:
    hole = np.zeros_like(apply(getitem, (g,), {"index": index}))
    return apply(put, (g, hole), {"index": index})


def _broadcast_value(v: Any, index: Index, x: Any) -> Any:
    """A value to be written, in the shape and dtype of the place."""
    return np.astype(np.broadcast_to(as_array(v), lengths(index, np.shape(x))), np.result_type(x))


put: Op = declare(
    "put",
    method=None,
    entry=None,
    infer=lambda x, v, *, index: x,
    evaluate=_put,
    jvp=[
        lambda t, y, x, v, *, index: apply(
            put, (t, np.zeros_like(apply(getitem, (t,), {"index": index}))), {"index": index}
        ),
        lambda t, y, x, v, *, index: apply(
            embed, (_broadcast_value(t, index, y),), {"index": index, "shape": np.shape(x)}
        ),
    ],
    vjp=[_put_vjp_base, _put_vjp_value],
    lower=View(
        lambda e, at, x, v, *, index: e.either(
            _embed_source(e, at, v, index=index, shape=x.shape), v, at
        ),
        lambda x, v, *, index: Writes(0, ((1, index),)),
        "K",
    ),
)


# Array indices ------------------------------------------------------------------------------------


def _gather_infer(x: Type, *arrays: Type, index: Index, counts: tuple[int, ...] = ()) -> Type:
    samples = tuple(np.zeros(a.shape, a.dtype) for a in arrays)
    for mask, count in zip([m for m in samples if m.dtype == np.bool_], counts, strict=True):
        mask.flat[:count] = True
    return Type(np.broadcast_to(np.int8(0), x.shape)[filled(index, samples)].shape, x.dtype)


def _gather_build(b: Any, x: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    found = normal(b, x.type.shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    shape, places, holes = found
    return b(taken, _shaped(b, x, shape), *holes, index=places)


def _shaped(b: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """In an expansion: x in another shape, or as it is."""
    return x if x.type.shape == shape else b(reshape, x, shape=shape)


def _scatter_add(
    g: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    out = np.zeros(shape, np.result_type(g))
    np.add.at(out, filled(index, arrays), g)
    return out


def _scatter_add_build(
    b: Any, g: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    found = normal(b, shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    merged, places, holes = found
    return _shaped(b, b(scattered_sum, g, *holes, index=places, shape=merged), shape)


gather: Op = declare(
    "gather",
    method=None,
    entry=None,
    infer=_gather_infer,
    evaluate=lambda x, *arrays, index, counts=(): x[filled(index, arrays)],
    jvp=[lambda t, y, x, *arrays, **params: apply(gather, (t, *arrays), params), None],
    vjp=[
        lambda g, y, x, *arrays, **params: apply(
            scatter_add, (g, *arrays), {**params, "shape": np.shape(x)}
        ),
        None,
    ],
    lower=Expand(_gather_build),
)
scatter_add: Op = declare(
    "scatter_add",
    method=None,
    entry=None,
    infer=lambda g, *arrays, index, shape, counts=(): Type(shape, g.dtype),
    evaluate=_scatter_add,
    jvp=[lambda t, y, g, *arrays, **params: apply(scatter_add, (t, *arrays), params), None],
    vjp=[lambda g, y, x, *arrays, index, **_: _gathered(g, arrays, index), None],
    lower=Expand(_scatter_add_build),
)


def _gathered(x: Any, arrays: tuple[Any, ...], index: Index) -> Any:
    return apply(gather, (x, *arrays), _places(index, arrays))


def _places(index: Index, arrays: tuple[Any, ...]) -> dict[str, Any]:
    """The params of an op with array indices: how many elements a mask lets through is part of the
    op, so that types are."""
    masks = [data for data in map(data_of, arrays) if data.dtype.kind == "b"]
    if not masks:
        return {"index": index}
    return {"index": index, "counts": tuple(int(np.count_nonzero(mask)) for mask in masks)}


def _scatter(x: Any, v: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    out = np.array(x)
    out[filled(index, arrays)] = v
    return out


def _scatter_build(b: Any, x: Any, v: Any, *arrays: Any, index: Index, counts: Any = ()) -> Any:
    found = normal(b, x.type.shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    shape, places, holes = found
    room = result_shape(shape, places, [a.type for a in holes])
    if v.type.ndim > len(room):
        v = b(reshape, v, shape=v.type.shape[v.type.ndim - len(room) :])
    return _shaped(b, b(scattered, _shaped(b, x, shape), v, *holes, index=places), x.type.shape)


def _winners(shape: tuple[int, ...], arrays: tuple[Any, ...], index: Index) -> Any:
    """Which written elements survive, where one place is written more than once (the last one)."""
    place = filled(index, tuple(data_of(a) for a in arrays))
    count = np.broadcast_to(np.int8(0), shape)[place].size
    turn = np.arange(count).reshape(np.broadcast_to(np.int8(0), shape)[place].shape)
    last = np.zeros(shape, np.intp)
    last[place] = turn
    return last[place] == turn


def _winners_build(
    b: Any, *arrays: Any, index: Index, shape: tuple[int, ...], counts: Any = ()
) -> Any:
    found = normal(b, shape, arrays, index, counts)
    if isinstance(found, str):
        return found
    merged, places, holes = found
    room = result_shape(merged, places, [a.type for a in holes])
    turn = _shaped(b, b(iota, shape=(int(np.prod(room)),), axis=0), room)
    none = b(broadcast_to, np.intp(0), shape=merged)
    last = b(scattered, none, turn, *holes, index=places)
    return b(equal, b(taken, last, *holes, index=places), turn)


def _scatter_vjp_base(g: Any, y: Any, x: Any, v: Any, *arrays: Any, index: Index, **_: Any) -> Any:
    zero = np.zeros_like(_gathered(g, arrays, index))
    return apply(scatter, (g, zero, *arrays), _places(index, arrays))


def _scatter_vjp_value(g: Any, y: Any, x: Any, v: Any, *arrays: Any, index: Index, **_: Any) -> Any:
    piece = _gathered(g, arrays, index)
    if all(np.result_type(form_of(a)) == np.bool_ for a in arrays):
        return project(piece, v)  # a mask writes nowhere twice
    alive = apply(winners, arrays, {**_places(index, arrays), "shape": np.shape(x)})
    return project(np.where(alive, piece, np.zeros_like(piece)), v)


winners: Op = declare(
    "winners",
    method=None,
    entry=None,
    infer=lambda *arrays, shape, **places: _gather_infer(
        Type(shape, np.dtype(bool)), *arrays, **places
    ),
    evaluate=lambda *arrays, index, shape, counts=(): _winners(shape, arrays, index),
    jvp=[None],
    vjp=[None],
    lower=Expand(_winners_build),
)


def _scatter_jvp_value(t: Any, y: Any, x: Any, v: Any, *arrays: Any, **params: Any) -> Any:
    return apply(scatter, (np.zeros_like(y), t, *arrays), params)


scatter: Op = declare(
    "scatter",
    method=None,
    entry=None,
    infer=lambda x, v, *arrays, index, counts=(): x,
    evaluate=_scatter,
    jvp=[
        lambda t, y, x, v, *arrays, **params: apply(
            scatter, (t, np.zeros_like(v), *arrays), params
        ),
        _scatter_jvp_value,
        None,
    ],
    vjp=[_scatter_vjp_base, _scatter_vjp_value, None],
    lower=Expand(_scatter_build),
)


# What subscripts do -------------------------------------------------------------------------------


def read(x: Any, key: Any) -> tuple[Any, Index, tuple[Any, ...]]:
    """x[key], and the index and arrays of the subscript."""
    index, arrays = split(key, np.shape(form_of(x)))
    if arrays:
        _fix_masks(arrays)
        return _gathered(x, arrays, index), index, arrays
    part = apply(getitem, (x,), {"index": index})
    if type(form_of(part)) is not np.ndarray and _has_ellipsis(key):
        part = apply(as_view, (part,))
    return part, index, ()


def _has_ellipsis(key: Any) -> bool:
    if type(key) is not tuple:
        return key is Ellipsis
    return any(part is Ellipsis for part in key)


as_view: Op = declare(  # a number as the array without dimensions that `x[0, ...]` is in NumPy
    "as_view",
    method=None,
    entry=None,
    infer=lambda x: Type(x.shape, x.dtype),
    evaluate=np.asarray,
    jvp=LINEAR,
    vjp=[lambda g, y, x: g],
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)


def is_view(arrays: tuple[Any, ...]) -> bool:
    """Whether what was read with these arrays is a view in NumPy: they are traced integers, and
    none is an array, not even one without dimensions."""
    for a in arrays:  # noqa: SIM110 (every subscript asks; a generator costs more)
        if type(a) is not Tracked or type(form_of(a)) is np.ndarray:
            return False
    return True


def cut(x: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """Read a part that is a view again."""
    part = _gathered(x, arrays, index) if arrays else apply(getitem, (x,), {"index": index})
    return apply(as_view, (part,)) if np.ndim(part) == 0 else part


def paste(x: Any, part: Any, index: Index, arrays: tuple[Any, ...]) -> Any:
    """The value of x after a part that is a view was written into."""
    if arrays:
        return apply(scatter, (x, part, *arrays), _places(index, arrays))
    return apply(put, (x, part), {"index": index})


def written(x: Any, key: Any, v: Any) -> Any:
    """The value of x after x[key] = v; v is cast to x's dtype, as assignment does."""
    index, arrays = split(key, np.shape(form_of(x)))
    if len(arrays) == len(index) == 1 and np.ndim(v) == 0 and _is_mask_of(arrays[0], x):
        return apply(where, (arrays[0], _cast(v, x), x))
    if arrays:
        _fix_masks(arrays)
        return apply(scatter, (x, _cast(v, x), *arrays), _places(index, arrays))
    return apply(put, (x, _fit(_cast(v, x), index, x)), {"index": index})


def overwritten(x: Tracked, key: Any, v: Any) -> bool:
    """x[key] = v in the array of x itself, if the index is basic and nobody else can see it."""
    if is_recording():
        return False
    index, arrays = split(key, np.shape(form_of(x)))
    return not arrays and overwrite(put, x, _fit(_cast(v, x), index, x), index)


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
    place = np.broadcast_to(np.int8(0), shape)[filled(index, tuple(map(data_of, arrays)))].shape
    _fix_masks(arrays)
    v = np.broadcast_to(as_array(v), place)
    return apply(scatter_add, (v, *arrays), {**_places(index, arrays), "shape": shape})


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


def _cast(v: Any, x: Any) -> Any:
    v = as_array(v)
    want, have = np.result_type(form_of(x)), np.result_type(form_of(v))
    if have == want:
        return v
    if have.kind == "c" != want.kind:
        raise TypeError(f"cannot write complex values into an array of dtype {want}")
    return np.astype(v, want)


def _fit(v: Any, index: Index, x: Any) -> Any:
    """Drop leading axes of extent 1 that assignment ignores; raise if v does not fit."""
    place = lengths(index, np.shape(form_of(x)))
    if np.shape(form_of(v)) in ((), place):
        return v
    while np.ndim(v) > len(place) and np.shape(v)[0] == 1:
        v = np.reshape(v, np.shape(v)[1:])
    if np.broadcast_shapes(place, np.shape(v)) != place:
        raise ValueError(
            f"could not broadcast input array from shape {np.shape(v)} into shape {place}"
        )
    return v
