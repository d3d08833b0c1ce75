"""Subscripts in canonical form.

Invariant: a basic index on the tape has one entry per axis (and None for a new axis), no ellipsis,
non-negative ints, and slices with explicit non-negative starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.errors import message
from tracker.ops.indexing.gather_scatter import HOLE, Index, canonical_entry
from tracker.ops.shape.create import to_discrete
from tracker.support.array_likes import array_of_labelled
from tracker.tape.observers import is_tracing, observers
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracing.loop_index import (
    IterationIndex,
    grows,
    moves,
    plain_entry,
    reversed_slice,
    subscript_of,
)
from tracker.tape.tracing.tracer import note_of_this_iteration
from tracker.tape.tracked import Tracked

_INT = np.dtype(np.intp)


def split_subscript(key: Any, shape: tuple[int, ...]) -> tuple[Index, tuple[Any, ...]]:
    """The index with a `HOLE` for every array, and these arrays. Without arrays, the index is
    canonical."""
    parts = key if isinstance(key, tuple) else (key,)
    if observers and moves(key):
        return _moving_index(parts, shape), ()
    arrays: list[Any] = []
    index: list[Any] = []
    for part in parts:
        entry, array = _split_entry(part)
        index.append(entry)
        if array is not None:
            arrays.append(array)
    if arrays:
        return tuple(index), tuple(arrays)
    return canonical_index(tuple(index), shape), ()


def _moving_index(parts: tuple[Any, ...], shape: tuple[int, ...]) -> IterationIndex:
    """The canonical index of a subscript that moves with a loop."""
    index = canonical_index(tuple(map(plain_entry, parts)), shape)
    extents = iter(shape)
    subscripts = [
        None if part is None else subscript_of(part, next(extents))
        for part in _one_entry_per_axis(parts, len(shape))
    ]
    known = all(
        subscript is not None or entry is None
        for subscript, entry in zip(subscripts, index, strict=True)
    )
    if not known:
        note_of_this_iteration()
    return IterationIndex.of(index, tuple(subscripts) if known else None)


def turned_around(key: Any, shape: tuple[int, ...]) -> tuple[Any, Any] | None:
    """A subscript that moves with a loop and steps backwards, as one that steps forwards, and one
    that reverses what that gives; None of any other."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(type(part) is slice and part.step == -1 for part in parts) or not moves(key):
        return None
    forwards, reverse = [], []
    extents = iter(shape)
    for part in _one_entry_per_axis(parts, len(shape)):
        extent = 1 if part is None else next(extents)
        is_reversed = type(part) is slice and part.step == -1
        turned = reversed_slice(part, extent) if is_reversed else part
        if turned is None:
            return None
        forwards.append(turned)
        if part is None or type(part) is slice:
            reverse.append(slice(None, None, -1 if is_reversed else None))
    return tuple(forwards), tuple(reverse)


def index_of_growing(x: Any, key: Any, index: Index) -> Index:
    """The index of a subscript; of a value that may grow, with its entries."""
    if not grows(x):
        return index
    made = index if type(index) is IterationIndex else IterationIndex.of(index, None)
    parts = _one_entry_per_axis(key if type(key) is tuple else (key,), np.ndim(aval_of(x)))
    subscripts = made.subscripts or (None,) * len(parts)
    entries = [
        part if _is_plain(part) else subscript
        for part, subscript in zip(parts, subscripts, strict=True)
    ]
    if not any(
        entry is None and part is not None for entry, part in zip(entries, parts, strict=True)
    ):
        made.entries = tuple(entries)
    return made


def _is_plain(part: Any) -> bool:
    """Whether an entry is a plain int, a new axis, or a slice between plain ints."""
    if type(part) is slice:
        return all(x is None or type(x) is int for x in (part.start, part.stop, part.step))
    return part is None or type(part) is int


def _split_entry(part: Any) -> tuple[Any, Any]:
    """(entry, None) for a basic entry, (HOLE, array) for an array."""
    if type(part) is np.ndarray and part.ndim:
        return HOLE, part
    if type(part) is int or part is None or part is Ellipsis:
        return part, None
    if isinstance(part, slice):
        return _plain_slice(part), None
    data = aval_of(part)
    if isinstance(data, (bool, np.bool_)):
        return HOLE, np.asarray(bool(part))  # guarded, if traced
    can_index = hasattr(data, "dtype") or isinstance(data, int)  # Python floats cannot index
    if type(part) is Tracked and np.ndim(data) == 0 and can_index and is_tracing():
        return HOLE, part if hasattr(data, "dtype") else apply(
            to_discrete, (part,), {"dtype": _INT}
        )
    if isinstance(data, (int, np.integer)):
        return _plain_int(part), None
    if isinstance(data, (list, tuple)):
        array = np.asarray(part)
        if array.dtype.kind == "U":
            raise _index_error("a list of str", _NAMES_HINT)
        return HOLE, array.astype(np.intp) if array.size == 0 else array
    if isinstance(data, np.ndarray):
        return HOLE, part
    numbers = array_of_labelled(data)
    if numbers is not None:
        return _split_entry(numbers)
    if hasattr(data, "__index__"):
        return data_of(part).__index__(), None
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):  # a range
        return _split_entry(list(data))
    raise _index_error(type(data).__name__, _NAMES_HINT if isinstance(data, str) else "")


_NAMES_HINT = (
    "For names, as of a pandas Series, differentiate with respect to a dict: x.to_dict(); for a "
    "table of data, with respect to the other arguments: argnums=0"
)


def _index_error(given: str, hint: str) -> IndexError:
    text = (
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        f"boolean arrays are valid indices, not {given}"
    )
    return IndexError(message(text, hint) if hint else text)


def _plain_slice(part: slice) -> slice:
    """A slice with plain bounds."""
    start, stop, step = _plain_int(part.start), _plain_int(part.stop), _plain_int(part.step)
    if start is part.start and stop is part.stop and step is part.step:
        return part
    return slice(start, stop, step)


def _plain_int(x: Any) -> int | None:
    """A bound or position as an int, which is guarded if it is traced."""
    if x is None or type(x) is int:
        return x
    if not hasattr(data_of(x), "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return int(x.__index__())


def canonical_index(index: Index, shape: tuple[int, ...]) -> Index:
    """A basic index in canonical form; raises IndexError as NumPy does."""
    out: list[Any] = []
    axis = 0
    for part in _one_entry_per_axis(index, len(shape)):
        if part is None:
            out.append(None)
            continue
        out.append(canonical_entry(part, shape[axis], axis))
        axis += 1
    return tuple(out)


def _one_entry_per_axis(index: Index, ndim: int) -> Index:
    """A basic index without ellipsis."""
    used = sum(1 for part in index if part is not None and part is not Ellipsis)
    dots = sum(1 for part in index if part is Ellipsis)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise IndexError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed"
        )
    fill = (slice(None),) * (ndim - used)
    if dots:
        at = next(i for i, part in enumerate(index) if part is Ellipsis)
        return index[:at] + fill + index[at + 1 :]
    return index + fill


def indexed_shape(index: Index, shape: tuple[int, ...]) -> tuple[int, ...]:
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
