"""In-place writes to tracked arrays, with NumPy's aliasing.

Values are immutable: a write gives a tracked array a new value (`put`). A tracked array that is a
*view* stores its base and how it was extracted: a write through the view updates the base, and
after any write to the base its views are recomputed when they are next used. Start at
`write_value`.

Also here: subscripts and in-place operators of `Tracked`, `fill`, `sort`, `resize`, `np.copyto`,
`np.put` and their relatives.

Invariant: after a write, every tracked array that would show it in NumPy shows it.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.ir.op import METHODS, NUMPY
from tracker.ops.declare.arguments import as_array, as_strong_array, refuse_keywords
from tracker.ops.declare.casting import cast_error, cast_for_store, cast_to_out, writable_target
from tracker.ops.declare.declare import implements
from tracker.ops.indexing import getitem, subscripts
from tracker.ops.indexing.canonical import turned_around
from tracker.ops.indexing.take_repeat import flat_index, index_along_axis
from tracker.ops.shape.create import buffer, copy, identity, join_tracked_list
from tracker.tape.conversions import plain_integers
from tracker.tape.labels import LABELS, check_position, note_part
from tracker.tape.observers import observers
from tracker.tape.record import apply, aval_of, data_of, value_of, wrap
from tracker.tape.tracing.loop_index import active_iterations
from tracker.tape.tracing.placeholders import (
    PLACEHOLDERS,
    are_resolved,
    may_need_resolving,
    resolve_placeholder,
    resolve_within,
)
from tracker.tape.tracing.tracer import check_write, stop_gradient_suspended
from tracker.tape.tracked import Tracked, check_is_array, install, numpy_class_name, register_view
from tracker.tape.value import ParamState, Value
from tracker.user_frames import is_internal


class ArrayView:
    """How a view was extracted from its base: base[index], or the base reordered by an op."""

    __slots__ = ("base", "cut", "paste")

    def __init__(
        self, base: Tracked, cut: Callable[[Any], Any], paste: Callable[[Any, Any], Any]
    ) -> None:
        self.base = base
        self.cut = cut  # base -> view
        self.paste = paste  # (base, new view) -> new base

    def read(self, part: Tracked) -> Value:
        with stop_gradient_suspended():  # the view has a derivative, wherever it is read first
            value = value_of(self.cut(self.base))
        register_view(self.base, part)
        return value


class FlatView(ArrayView):
    """The view behind `.flat`, in NumPy an iterator: what is read from it is a copy."""

    __slots__ = ()


def link_view(
    base: Tracked,
    part: Any,
    cut: Callable[[Any], Any],
    paste: Any,
    kind: type[ArrayView] = ArrayView,
) -> Any:
    """Make `part` a view of `base`."""
    part._view = kind(base, cut, paste)
    register_view(base, part)
    return part


def write_value(array: Tracked, new: Any) -> None:
    """Give a tracked array a new value of the same shape and dtype; update its base and views."""
    view = getattr(array, "_view", None)
    if view is not None:
        write_value(view.base, view.paste(view.base, new))
        return  # the view is recomputed, in NumPy's layout, when it is next used
    old = value_of(array)
    is_argument = old.op is None or old.op is identity  # an unchanged argument
    if is_argument and type(old.aval) is np.ndarray and not old.aval.flags.writeable:
        raise ValueError(message("assignment destination is read-only", "Write into x.copy()"))
    check_write(old)
    value = value_of(new if isinstance(new, Tracked) else buffer(new))
    if type(old.aval) is np.ndarray and type(value.aval) is not np.ndarray:
        # NumPy's operators return scalars for 0-d arrays
        value = value_of(apply(copy, (wrap(value),)))
    array._value = (
        value if _has_same_layout(value.aval, old.aval) else value_of(_in_layout_of(value, old))
    )
    invalidate_views(array)


def _has_same_layout(aval: Any, old_aval: Any) -> bool:
    """Whether an array lies in memory as another one of its shape."""
    if type(old_aval) is not np.ndarray or aval.strides == old_aval.strides:
        return True
    flags, wanted = aval.flags, old_aval.flags
    return bool(wanted.c_contiguous and flags.c_contiguous)


def _in_layout_of(made: Value, old: Value) -> Any:
    """A new value in the memory layout of the old one, which decides later reshapes and copies."""
    everything = tuple(slice(0, n, 1) for n in old.aval.shape)
    return apply(getitem.put, (wrap(old), wrap(made)), {"index": everything})


def invalidate_views(array: Tracked) -> None:
    """Have the views of an array recomputed; they register again when they are."""
    views = getattr(array, "_views", None)
    if not views:
        return
    array._views = []
    for ref in views:
        view = ref()
        if view is not None:
            view._value = None
            invalidate_views(view)


@install("__getitem__")
def _getitem(self: Tracked, key: Any) -> Any:
    if PLACEHOLDERS and may_need_resolving() and not are_resolved(self, key):
        return resolve_placeholder(self)[resolve_within(key)]
    if type(key) is int or type(key) is tuple:
        value = self._value or self._refresh()
        index = _position_of_element(key, value.aval)
        if index is not None:
            if LABELS and type(key) is int and not is_internal(sys._getframe(1).f_code):
                check_position(value, key)
            found = subscripts.recently_stored(self, index) if value.op is getitem.put else None
            return apply(getitem.getitem, (self,), {"index": index}) if found is None else found
    if observers and active_iterations():
        turned = turned_around(key, np.shape(aval_of(self)))
        if turned is not None:
            forwards, reverse = turned
            return self[forwards][reverse]
    try:
        read, index, arrays = subscripts.read_subscript(self, key)
    except IndexError:
        kind = type(value_of(self).aval)
        if kind in (float, int, complex, bool):
            raise TypeError(f"{kind.__name__!r} object is not subscriptable") from None
        raise
    if LABELS and type(aval_of(read)) is np.ndarray and not is_internal(sys._getframe(1).f_code):
        note_part(value_of(self), _plain_key(key), value_of(read))
    if type(aval_of(read)) is not np.ndarray or not subscripts.is_view(arrays):
        return read
    if type(getattr(self, "_view", None)) is FlatView:
        return np.copy(read)
    return link_view(
        self,
        read,
        lambda base: subscripts.read_view(base, index, arrays),
        lambda base, new: subscripts.write_view(base, new, index, arrays),
    )


def _position_of_element(key: Any, aval: Any) -> tuple[int, ...] | None:
    """The canonical index of one element, if the subscript has a plain int for each axis, within
    its bounds, and no loop is followed, in which bounds may grow. Programs read most of their
    numbers this way."""
    if type(aval) is not np.ndarray or (observers and active_iterations()):
        return None
    if type(key) is int:
        return (key % aval.size,) if aval.ndim == 1 and -aval.size <= key < aval.size else None
    if len(key) != aval.ndim:
        return None
    position = []
    for part, extent in zip(key, aval.shape, strict=True):
        if type(part) is not int or not -extent <= part < extent:
            return None
        position.append(part % extent)
    return tuple(position)


def _plain_key(key: Any) -> Any:
    """A subscript with plain arrays in place of lists, and of tracked and labelled arrays."""
    if type(key) is tuple:
        return tuple(map(_plain_key, key))
    if key is None or key is Ellipsis or isinstance(key, (slice, int, np.integer)):
        return key
    return np.asarray(data_of(key))


@install("__setitem__")
def _setitem(self: Tracked, key: Any, v: Any) -> None:
    if PLACEHOLDERS and may_need_resolving() and not are_resolved(self, key):
        resolve_placeholder(self)[resolve_within(key)] = resolve_within(v)
        return
    kind = type(value_of(self).aval)
    if kind is not np.ndarray:
        raise TypeError(f"{numpy_class_name(kind)!r} object does not support item assignment")
    if type(v) in (list, tuple) and self.dtype.kind in "iu":
        v = cast_for_store(v, self.dtype)
    v, view = join_tracked_list(v), getattr(self, "_view", None)
    if type(view) is FlatView:
        shape = np.shape(self[key])
        if shape and np.size(v) == 0:
            return  # NumPy writes nothing
        v = _repeat_to_shape(shape, v)
    if view is not None or not subscripts.try_overwrite(self, key, v):
        write_value(self, subscripts.with_subscript_set(self, key, v))


_PYTHON_NUMBERS = (int, float, complex)


def _repeat_to_shape(shape: tuple[int, ...], v: Any) -> Any:
    """Values for a write to `a.flat`, repeated to the shape of the destination."""
    if type(aval_of(v)) in _PYTHON_NUMBERS:
        return v
    v = as_array(v)
    if shape == () and np.ndim(v):
        raise ValueError("Error setting single item of array.")
    return np.reshape(v, ()) if np.size(v) == 1 else np.resize(v, shape)


def _install_inplace_operator(name: str, plain: Callable[[Any, Any], Any], ufunc: np.ufunc) -> None:
    in_place = getattr(operator, f"i{name}")

    def method(self: Tracked, other: Any) -> Any:
        if PLACEHOLDERS and may_need_resolving() and resolve_placeholder(self) is not self:
            return in_place(resolve_placeholder(self), resolve_placeholder(other))
        result = plain(self, other)
        aval = value_of(self).aval
        if type(aval) is not np.ndarray:
            return result
        write_value(self, cast_to_out(result, aval, ufunc=ufunc.__name__))
        return self

    install(f"__i{name}__")(method)


for _name, _operator, _ufunc in (
    ("add", operator.add, np.add),
    ("sub", operator.sub, np.subtract),
    ("mul", operator.mul, np.multiply),
    ("truediv", operator.truediv, np.divide),
    ("floordiv", operator.floordiv, np.floor_divide),
    ("mod", operator.mod, np.remainder),
    ("pow", operator.pow, np.power),
    ("matmul", operator.matmul, np.matmul),
    ("and", operator.and_, np.bitwise_and),
    ("or", operator.or_, np.bitwise_or),
    ("xor", operator.xor, np.bitwise_xor),
    ("lshift", operator.lshift, np.left_shift),
    ("rshift", operator.rshift, np.right_shift),
):
    _install_inplace_operator(_name, _operator, _ufunc)


def _fill(self: Tracked, value: Any) -> None:
    if np.ndim(value):
        raise ValueError("setting an array element with a sequence.")
    if not isinstance(aval_of(self), np.generic):  # NumPy scalars: a write to a copy
        self[...] = value


def _sort(self: Tracked, axis: int = -1, kind: Any = None, order: Any = None, **rest: Any) -> None:
    write_value(self, NUMPY[np.sort](self, axis, kind, order, **rest))


def _partition(self: Tracked, kth: Any, axis: int = -1, kind: Any = "introselect") -> None:
    write_value(self, NUMPY[np.partition](self, kth, axis, kind))


def _resize(self: Tracked, *new_shape: Any, refcheck: bool = True) -> None:
    """`ndarray.resize` of an array without views: truncate, or append zeros."""
    if isinstance(aval_of(self), np.generic):
        return
    shape = new_shape[0] if len(new_shape) == 1 and np.ndim(new_shape[0]) else new_shape
    if getattr(self, "_view", None) is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    if any(ref() is not None for ref in getattr(self, "_views", ())):
        raise ValueError("cannot resize an array that is referenced by another array")
    if np.min(shape, initial=0) < 0:
        raise ValueError("negative dimensions not allowed")
    n, flat = int(np.prod(shape)), np.ravel(self)
    padding = np.zeros(max(n - np.size(flat), 0), flat.dtype)
    self._value = value_of(np.reshape(np.concatenate([flat[:n], padding]), shape))


def undo_reshape(base: Any, new: Any) -> Any:
    """A base after a write through a reshape of it."""
    return np.reshape(new, np.shape(base))


def _set_shape(self: Tracked, shape: Any) -> None:
    """`a.shape = ...`: the array becomes a view of its former value, and so do its views."""
    value = value_of(self)
    check_is_array("shape", value.aval)
    if value.op is None and isinstance(value.params, ParamState):
        raise UnsupportedError(
            "the shape of a param cannot be set: its gradient has that shape",
            "Write x = x.reshape(shape)",
        )
    former = wrap(value)
    view = getattr(self, "_view", None)
    if view is not None:
        link_view(view.base, former, view.cut, view.paste)
    reshaped = NUMPY[np.reshape](former, shape)
    if getattr(reshaped, "_view", None) is None:  # a copy
        if np.size(reshaped):
            raise AttributeError(
                message(
                    "the elements do not lie in memory as the new shape would have them",
                    "Write x = x.reshape(shape), which copies them",
                )
            )
        new_shape = np.shape(reshaped)
        link_view(former, reshaped, lambda base: np.reshape(base, new_shape), undo_reshape)
    for ref in getattr(self, "_views", ()):
        child = ref()
        if child is not None:
            link_view(former, child, child._view.cut, child._view.paste)
    self._value, self._view, self._views = reshaped._value, reshaped._view, []
    register_view(former, self)


def _view(self: Tracked, dtype: Any = None, type: Any = None) -> Any:
    if np.ndarray in (dtype, type):  # tracked arrays count as ndarray
        dtype, type = (None if kind == np.ndarray else kind for kind in (dtype, type))
    cls = dtype if isinstance(dtype, builtins.type) else type
    if isinstance(cls, builtins.type) and issubclass(cls, np.ndarray):
        hint = "Use arrays: np.block for np.bmat, and @ for products of matrices"
        raise UnsupportedError(
            f"a tracked value cannot be viewed as {cls.__name__}, a subclass of np.ndarray",
            hint
            if issubclass(cls, np.matrix)
            else "Use x itself, or tracker.data(x) where no gradient is wanted",
        )
    refuse_keywords(".view", dtype=None if dtype == self.dtype else dtype, type=type)
    return self[...]


Tracked.shape = Tracked.shape.setter(_set_shape)  # type: ignore
METHODS["fill"] = _fill
METHODS["view"] = _view
METHODS["sort"] = _sort
METHODS["partition"] = _partition
METHODS["resize"] = _resize


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    mask = aval_of(where)
    if isinstance(mask, (np.ndarray, np.generic)) and mask.dtype != np.bool_:
        raise cast_error(mask.dtype, np.dtype(bool), "safe")
    dst = writable_target("np.copyto", dst, src)
    if not isinstance(dst, Tracked):
        np.copyto(dst, src, casting, plain_integers(where))
        return
    _check_is_array("copyto()", dst)
    src = src if np.isscalar(aval_of(src)) else as_array(src)
    is_number = type(aval_of(src)) in (bool, int, float, complex)
    dtype = np.result_type(aval_of(src))
    if not np.can_cast(
        _number_dtype(aval_of(src), dst) if is_number else dtype, dst.dtype, casting
    ):
        raise cast_error(dtype, dst.dtype, casting, is_array=not is_number)
    if type(aval_of(src)) is float:  # NumPy casts it as an array
        src = as_strong_array(src)
    dst[...] = src if where is True else np.where(where, src, dst)


def _number_dtype(number: Any, dst: Any) -> np.dtype[Any]:
    """The dtype of a Python number next to an array: the array's, if it is of the same kind."""
    dtype = np.result_type(number)
    return np.dtype(dst.dtype) if np.result_type(dst.dtype, number) == dst.dtype else dtype


def _check_is_array(name: str, target: Tracked) -> None:
    """Raise NumPy's error for a scalar target."""
    kind = type(aval_of(target))
    if kind is not np.ndarray:
        raise TypeError(f"{name} argument 1 must be a numpy.ndarray, not a tracked {kind.__name__}")


@implements(np.put, method="put")
def _put(a: Any, ind: Any, v: Any, mode: Literal["raise", "wrap", "clip"] = "raise") -> None:
    a = writable_target("np.put", a, v)
    if not isinstance(a, Tracked):
        np.put(a, plain_integers(ind), v, mode)
        return
    positions = np.arange(np.size(a)).take(ind, mode=mode)
    if type(aval_of(v)) in _PYTHON_NUMBERS:
        a.flat[positions] = v
        return
    v = cast_for_store(v, a.dtype)
    if np.size(v) == 0:
        return
    a.flat[positions] = np.resize(v, positions.shape) if np.size(v) != 1 else np.reshape(v, ())


def _plain_mask(mask: Any) -> Any:
    """A mask as a plain one; numbers are true where they are not 0."""
    return plain_integers(
        np.not_equal(mask, 0) if np.result_type(aval_of(mask)).kind in "fc" else mask
    )


@implements(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    arr = writable_target("np.place", arr, vals)
    if not isinstance(arr, Tracked):
        np.place(arr, _plain_mask(mask), vals)
        return
    _check_is_array("place()", arr)
    if np.size(mask) != np.size(arr):
        raise ValueError("place: mask and data must be the same size")
    positions = np.flatnonzero(mask)
    if len(positions):
        if type(aval_of(vals)) not in _PYTHON_NUMBERS:
            vals = cast_for_store(vals, arr.dtype)
            if np.size(vals) == 0:
                raise ValueError("Cannot insert from an empty array!")
            vals = np.resize(vals, positions.shape)
        arr.flat[positions] = vals


@implements(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    arr = writable_target("np.put_along_axis", arr, values)
    if not isinstance(arr, Tracked):
        np.put_along_axis(arr, plain_integers(indices), values, axis)
        return
    if axis is None:
        arr.flat[np.asarray(flat_index(indices))] = values
    else:
        arr[index_along_axis(arr, indices, axis)] = values


@implements(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    a = writable_target("np.putmask", a, values)
    if not isinstance(a, Tracked):
        np.putmask(a, _plain_mask(mask), values)
        return
    _check_is_array("putmask()", a)
    if np.size(mask) != np.size(a):
        raise ValueError("putmask: mask and data must be the same size")
    mask = np.reshape(as_array(mask), np.shape(a))
    values = _putmask_values(values, a.dtype)
    fits = np.shape(values) in ((), np.shape(a))
    np.copyto(a, values if fits else np.resize(values, np.shape(a)), where=mask)


def _putmask_values(values: Any, dtype: np.dtype[Any]) -> Any:
    """The values of `np.putmask`, cast: numbers (also in a list) unsafely, arrays safely."""
    if type(values) in (list, tuple):
        parts = [v if np.ndim(aval_of(v)) else cast_for_store(v, dtype) for v in values]
        return np.stack([_putmask_values(v, dtype) for v in parts])
    aval = aval_of(values)
    if isinstance(aval, np.ndarray) and not np.can_cast(aval.dtype, dtype, "safe"):
        raise cast_error(aval.dtype, dtype, "safe")
    return cast_for_store(values, dtype)


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    a = writable_target("np.fill_diagonal", a, val)
    if not isinstance(a, Tracked):
        np.fill_diagonal(a, val, wrap)
        return
    positions = np.arange(np.size(a)).reshape(np.shape(a))
    marks = np.zeros(np.shape(a), bool)
    np.fill_diagonal(marks, True, wrap=wrap)
    _put(a, positions[marks], val)
