"""Ops that move elements without changing them: `reshape`, `transpose`, `broadcast_to`,
`concatenate` and `stack`. Every other NumPy function here is composed of these."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tracker.ir.lowering import SliceWrites, View
from tracker.ir.op import LINEAR, METHODS, Joint
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array, order_of
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.declare.rule_helpers import project, sum_to
from tracker.ops.shape.appended_rows import joined_rows
from tracker.tape.conversions import plain_integers
from tracker.tape.record import apply, aval_of, shape_of, shares_memory
from tracker.tape.tracked import Tracked

# reshape ------------------------------------------------------------------------------------------

reshape = declare(
    "reshape",
    infer=lambda x, *, shape: Type(shape, x.dtype),
    evaluate=lambda x, *, shape: np.reshape(x, shape),
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, shape: reshaped(g, shape_of(x))],
    lower=View(
        lambda e, index, x, *, shape: (0, e.unflatten(e.flatten(index, shape), x.shape), None),
        order="V",
    ),
)


@implements(np.reshape)
def reshape_(a: Any, /, shape: Any = None, order: str = "C", *, copy: Any = None) -> Any:
    if copy is not None:
        reshaped = reshape_(a, shape, order)
        if copy:
            return np.copy(reshaped)
        if not shares_memory(reshaped, a):
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return reshaped
    if order != "C":
        order = order_of(order)
        if order == "K":
            raise ValueError("order 'K' is not permitted for reshaping")
    aval = aval_of(a)
    if order == "F" or (order == "A" and type(aval) is np.ndarray and aval.flags.fnc):
        return np.transpose(reshape_(np.transpose(a), tuple(reversed(_full_shape(a, shape)))))
    return apply(reshape, (a,), {"shape": _full_shape(a, shape)})


def reshaped(a: Any, shape: tuple[int, ...]) -> Any:
    """`np.reshape(a, shape)` for rules: not registered as a view of `a`, as rules do not write."""
    return apply(reshape, (a,), {"shape": shape}) if type(a) is Tracked else np.reshape(a, shape)


def reshape_if_needed(b: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """In an expansion: x in another shape."""
    return x if x.type.shape == shape else b(reshape, x, shape=shape)


def _full_shape(a: Any, shape: Any) -> tuple[int, ...]:
    """A target shape with -1 resolved."""
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0) > 0
    given = tuple(map(operator.index, shape if several else (shape,)))
    size = aval_of(a).size if isinstance(a, Tracked) and a.ndim else np.size(a)
    if -1 in given:
        known = -math.prod(given)
        if known > 0 and size % known == 0 and given.count(-1) == 1:
            return tuple(size // known if n == -1 else n for n in given)
    elif math.prod(given) == size and min(given, default=0) >= 0:
        return given
    return np.empty(np.shape(a), np.bool_).reshape(given).shape  # raises as NumPy does


def contiguous(a: Any) -> Any:
    """A new array in C order unless `a` is in C order, as in NumPy; a reshape of it is then
    a view."""
    aval = aval_of(a)
    if type(aval) is not np.ndarray or aval.flags.c_contiguous:
        return a
    flat = apply(reshape, (a,), {"shape": (aval.size,)})
    copied = apply(reshape, (flat,), {"shape": aval.shape})
    # the reshapes may be views: of strided vectors, or of one broadcast element
    return copied if aval_of(copied).flags.c_contiguous else np.copy(copied)


def memory_axes(aval: Any, order: str) -> tuple[int, ...] | None:
    """The axes, longest stride first, of an array that NumPy creates in this order ("K": as the
    given array; "A": Fortran if the given array is); None for C order."""
    natural, order = tuple(range(np.ndim(aval))), order_of(order)
    if order == "A":
        order = "F" if type(aval) is np.ndarray and aval.flags.fnc else "C"
    axes = natural[::-1] if order == "F" else natural
    if order == "K" and type(aval) is np.ndarray and not aval.flags.c_contiguous:
        axes = tuple(sorted(natural, key=lambda axis: -abs(aval.strides[axis])))
    return None if axes == natural else axes


def in_memory_order(a: Any, order: str | None, like: Any = None) -> Any:
    """The array in this memory order, relative to `like` (by default itself); copied only if
    needed."""
    aval = aval_of(a)
    if order is None or (like is None and order == "K") or type(aval) is not np.ndarray:
        return a
    axes = memory_axes(aval if like is None else aval_of(like), order)
    if axes is None:
        return contiguous(a)
    if aval.transpose(axes).flags.c_contiguous:
        return a
    return np.transpose(contiguous(np.transpose(a, axes)), np.argsort(axes))


def _reshape_method(a: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    if not shape:
        raise TypeError("reshape() takes exactly 1 argument (0 given)")
    return reshape_(a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


METHODS["reshape"] = _reshape_method


@implements(np.ravel, method="ravel")
def ravel(a: Any, order: str = "C") -> Any:
    aval = aval_of(a)
    order = order if order == "C" else order_of(order)
    if order == "K":  # memory order
        return ravel(np.transpose(a, _read_axes(aval)) if type(aval) is np.ndarray else a)
    flat = reshape_(a, (-1,), order)
    if shares_memory(flat, a):
        flags = aval.flags
        if not (flags.f_contiguous if order == "F" else flags.c_contiguous):
            return np.copy(flat)  # ravel copies where reshape returns a view
    return flat


def _read_axes(aval: np.ndarray) -> tuple[int, ...]:
    """The axes in the order in which NumPy iterates: longest stride first. Axes along which the
    address does not change keep their position relative to the others, which a sort key cannot
    express (`memory_axes`, for new arrays, puts them last)."""
    steps = [abs(s) if n > 1 else 0 for s, n in zip(aval.strides, aval.shape, strict=True)]
    axes: list[int] = []  # the last one first
    for axis in reversed(range(aval.ndim)):
        position = len(axes)
        for at in reversed(range(len(axes))):
            other = steps[axes[at]]
            if steps[axis] and other:
                if other <= steps[axis]:
                    break
                position = at
        axes.insert(position, axis)
    return tuple(reversed(axes))


METHODS["flatten"] = lambda a, order="C": np.copy(ravel(a, order))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    axes = (axis,) if np.ndim(axis) == 0 else tuple(plain_integers(axis))
    ndim = np.ndim(a) + len(axes)
    new_axes = normalize_axis_tuple(axes, ndim)
    old = iter(np.shape(a))
    return np.reshape(a, tuple(1 if i in new_axes else next(old) for i in range(ndim)))


@implements(np.squeeze, method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    axis = plain_integers(axis)
    axis = tuple(axis) if isinstance(axis, np.ndarray) else axis
    shape = np.squeeze(np.broadcast_to(np.int8(0), np.shape(a)), axis).shape
    return a if shape == np.shape(a) else np.reshape(a, shape)


run_as_written(np.atleast_1d, np.atleast_2d, np.atleast_3d)

# transpose ----------------------------------------------------------------------------------------


def _inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return tuple(inverse)


transpose = declare(
    "transpose",
    infer=lambda x, *, axes: Type(tuple(x.shape[i] for i in axes), x.dtype),
    evaluate=lambda x, *, axes: np.transpose(x, axes),
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, axes: np.transpose(g, _inverse_permutation(axes))],
    lower=View(
        lambda e, index, x, *, axes: (0, tuple(index[i] for i in _inverse_permutation(axes)), None),
        order="V",
    ),
)


@implements(np.transpose, np.permute_dims)
def transpose_(a: Any, axes: Any = None) -> Any:
    ndim = np.ndim(a)
    if axes is None:
        order = tuple(reversed(range(ndim)))
    else:
        order = normalize_axis_tuple(axes, ndim)
        if len(order) != ndim:
            raise ValueError("axes don't match array")
    return apply(transpose, (a,), {"axes": order})


def _transpose_method(a: Any, *axes: Any) -> Any:
    if not axes or axes == (None,):
        return transpose_(a)
    return transpose_(a, axes[0] if len(axes) == 1 else axes)


METHODS["transpose"] = _transpose_method


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


@implements(np.swapaxes, method="swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(np.ndim(a)))
    i, j = (normalize_axis_index(k, np.ndim(a)) for k in (axis1, axis2))
    order[i], order[j] = order[j], order[i]
    return transpose_(a, order)


def swap_last_axes(a: Any) -> Any:
    """Transposed matrices, for rules (see `reshaped`)."""
    if type(a) is not Tracked:
        return np.swapaxes(a, -1, -2)
    *batch, i, j = range(len(shape_of(a)))
    return apply(transpose, (a,), {"axes": (*batch, j, i)})


def adjoint(a: Any) -> Any:
    """The conjugate transpose, for rules (see `reshaped`)."""
    transposed = swap_last_axes(a)
    return np.conjugate(transposed) if np.iscomplexobj(aval_of(a)) else transposed


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    ndim = np.ndim(a)
    come, go = normalize_axis_tuple(source, ndim), normalize_axis_tuple(destination, ndim)
    order = [i for i in range(ndim) if i not in come]
    for to, at in sorted(zip(go, come, strict=True)):
        order.insert(to, at)
    return transpose_(a, order)


# broadcast ----------------------------------------------------------------------------------------


def _broadcast_source(e: Any, index: Any, x: Type, *, shape: tuple[int, ...]) -> Any:
    lead = len(shape) - x.ndim
    return 0, tuple(0 if n == 1 else index[lead + i] for i, n in enumerate(x.shape)), None


broadcast_to = declare(
    "broadcast_to",
    infer=lambda x, *, shape: Type(shape, x.dtype),
    evaluate=lambda x, *, shape: np.broadcast_to(x, shape),
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, shape: sum_to(g, np.shape(x))],
    lower=View(_broadcast_source, order="V"),
)


@implements(np.broadcast_to)
def broadcast_to_(array: Any, shape: Any, subok: bool = False) -> Any:
    target = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
    return apply(broadcast_to, (array,), {"shape": target})


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    if not shape:
        return tuple(a if type(aval_of(a)) is np.ndarray else np.copy(a) for a in arrays)
    # arrays of this shape are returned themselves, and stay writable
    return tuple(as_array(a) if np.shape(a) == shape else np.broadcast_to(a, shape) for a in arrays)


# join ---------------------------------------------------------------------------------------------


def _concatenate_infer(*xs: Type, axis: int) -> Type:
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return Type(tuple(shape), np.result_type(*(x.dtype for x in xs)))


def _concatenate_vjp(g: Any, y: Any, xs: list[Any], wanted: list[bool], _: Any, axis: int) -> Any:
    front = (slice(None),) * axis
    start = 0
    for x, asked in zip(xs, wanted, strict=True):
        stop = start + np.shape(x)[axis]
        yield project(g[(*front, slice(start, stop))], x) if asked else None
        start = stop


def _concatenate_source(e: Any, index: Any, *xs: Type, axis: int) -> Any:
    """For each operand: its index, and the condition that the element comes from it."""
    alternatives = []
    start = 0
    for which, x in enumerate(xs):
        inner, inside = e.within(index[axis], start, 1, x.shape[axis])
        alternatives.append((which, (*index[:axis], inner, *index[axis + 1 :]), inside))
        start += x.shape[axis]
    return alternatives


def _concatenate_writes(*xs: Type, axis: int) -> SliceWrites:
    parts = []
    start = 0
    for which, x in enumerate(xs):
        along = slice(start, start + x.shape[axis], 1)
        full_slices = [slice(0, n, 1) for n in x.shape]
        parts.append((which, (*full_slices[:axis], along, *full_slices[axis + 1 :])))
        start += x.shape[axis]
    return SliceWrites(None, tuple(parts), covers=True)


concatenate = declare(
    "concatenate",
    infer=_concatenate_infer,
    evaluate=lambda *xs, axis: np.concatenate(xs, axis),
    jvp=LINEAR,
    vjp=Joint(_concatenate_vjp),
    lower=View(_concatenate_source, _concatenate_writes, "K"),
)


def _cast_parts(parts: list[Any], dtype: Any, casting: Any) -> list[Any]:
    """The parts in the requested dtype, if the casting rule allows it."""
    if dtype is None:
        return parts
    for part in parts:
        if not np.can_cast(part.dtype, dtype, casting or "same_kind"):
            raise TypeError(
                f"Cannot cast array data from {part.dtype!r} to {np.dtype(dtype)!r} according to "
                f"the rule {casting or 'same_kind'!r}"
            )
    return [np.astype(part, dtype) for part in parts]


def _in_joint_dtype(arrays: list[Any], parts: list[Any]) -> list[Any]:
    """The parts in their common dtype; Python numbers are weak."""
    avals = map(aval_of, arrays)
    weak = [type(x)() if type(x) in (int, float, complex) else None for x in avals]
    pairs = zip(weak, parts, strict=True)
    kind = np.result_type(*(part.dtype if x is None else x for x, part in pairs))
    return [
        part if x is None else np.astype(part, kind) for x, part in zip(weak, parts, strict=True)
    ]


@implements(np.concatenate, np.concat)
def concatenate_(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Any:
    if out is not None and dtype is not None:
        raise TypeError("concatenate() takes out= or dtype=, but both were given")
    arrays = list(arrays)
    parts = [as_array(a) for a in arrays]
    if axis is None:
        parts, axis = [np.ravel(a) for a in _in_joint_dtype(arrays, parts)], 0
    parts = _cast_parts(parts, dtype, casting)
    axis = normalize_axis_index(axis, np.ndim(parts[0]))
    y = apply(concatenate, tuple(parts), {"axis": axis})
    return store_out(out, y, casting or "same_kind")


def _stack_infer(*xs: Type, axis: int) -> Type:
    shape = xs[0].shape
    kind = np.result_type(*(x.dtype for x in xs))
    return Type((*shape[:axis], len(xs), *shape[axis:]), kind)


def _stack_vjp(g: Any, y: Any, xs: list[Any], wanted: list[bool], _: Any, axis: int) -> Any:
    front = (slice(None),) * axis
    for at, (x, asked) in enumerate(zip(xs, wanted, strict=True)):
        yield project(g[(*front, at)], x) if asked else None


def _stack_source(e: Any, index: Any, *xs: Type, axis: int) -> Any:
    rest = (*index[:axis], *index[axis + 1 :])
    return [(at, rest, e.within(index[axis], at, 1, 1)[1]) for at in range(len(xs))]


def _stack_writes(*xs: Type, axis: int) -> SliceWrites:
    full_slices = [slice(0, n, 1) for n in xs[0].shape]
    parts = [(at, (*full_slices[:axis], at, *full_slices[axis:])) for at in range(len(xs))]
    return SliceWrites(None, tuple(parts), covers=True)


stack = declare(
    "stack",
    infer=_stack_infer,
    evaluate=lambda *xs, axis: np.array(xs) if np.ndim(xs[0]) == 0 else np.stack(xs, axis),
    jvp=LINEAR,
    vjp=Joint(_stack_vjp),
    lower=View(_stack_source, _stack_writes, "K"),
)


@implements(np.stack)
def stack_(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Any:
    joined = [(as_array(part), has_rows) for part, has_rows, _ in joined_rows(list(arrays))]
    if not joined:
        raise ValueError("need at least one array to stack")
    shapes = {np.shape(aval_of(a))[has_rows:] for a, has_rows in joined}
    if len(shapes) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = normalize_axis_index(axis, len(shapes.pop()) + 1)
    if not any(has_rows for _, has_rows in joined):
        parts = _cast_parts([a for a, _ in joined], dtype, casting)
        return store_out(out, apply(stack, tuple(parts), {"axis": axis}), casting or "same_kind")
    rows = _cast_parts([a if has_rows else a[None] for a, has_rows in joined], dtype, casting)
    y = apply(concatenate, tuple(rows), {"axis": 0}) if len(rows) > 1 else np.copy(rows[0])
    return store_out(out, np.moveaxis(y, 0, axis), casting or "same_kind")


run_as_written(np.hstack, np.vstack)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    arrays = map(as_array, tup)
    parts = [a if np.ndim(a) >= 2 else np.reshape(a, (-1, 1)) for a in arrays]
    return concatenate_(parts, 1)
