"""Views that NumPy's functions make of tracked arrays: transposes, reshapes, parts, diagonals.

Owns: what wraps these functions so that a result which shares memory with its array in NumPy is a
view of the handle (`mutation.link`): how it is cut, and how what is written into it gets back.
Start at `_link_views`, which says which functions these are.

Invariant: a result is a view of its array exactly where NumPy's shares memory, or is said to be
read-only where writing back is not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tracker.errors import message
from tracker.ir.op import METHODS, NUMPY
from tracker.ops.elementwise.unary import from_parts
from tracker.ops.indexing import subscripts
from tracker.ops.indexing.inplace import FlatView, link_view
from tracker.tape.record import aval_of, shares_memory, value_of, wrap
from tracker.tape.tracked import Tracked, install_property


def _view_function(function: Callable[..., Any], undo: Callable[..., Any]) -> Callable[..., Any]:
    """A shape function whose result is a view of its operand whenever it is one in NumPy."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        part = function(a, *args, **kwargs)
        if not isinstance(a, Tracked) or not isinstance(part, Tracked) or part is a:
            return part
        if not shares_memory(part, a):
            return part
        return link_view(
            a,
            part,
            lambda base: function(base, *args, **kwargs),
            lambda base, new: undo(base, new, *args, **kwargs),
        )

    return call


def _undo_reshape(base: Any, new: Any) -> Any:
    return np.reshape(new, np.shape(base))


def _undo_any_reshape(function: Callable[..., Any]) -> Callable[..., Any]:
    """In the order that was asked for; where the layout says which, by position."""
    by_position = _undo_by_position(function)

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        orders = {kwargs.get("order", "C"), *(a for a in args if isinstance(a, str))}
        if orders <= {"C", "F"}:
            return np.reshape(new, np.shape(base), order="F" if "F" in orders else "C")
        return by_position(base, new, *args, **kwargs)

    return undo


def _undo_transpose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a permutation of axes: the inverse one. Which it is, an array says whose strides number
    the axes."""

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        rank = np.ndim(base)
        axes = function(np.ndarray((1,) * rank, np.int8, b"\0", 0, range(rank)), *args, **kwargs)
        return np.transpose(new, np.argsort(axes.strides))

    return undo


def _undo_by_position(function: Callable[..., Any]) -> Callable[..., Any]:
    """Paste back any rearrangement: follow where each position of the base went."""

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        shape = np.shape(base)
        places = np.empty_like(aval_of(base), dtype=np.intp)  # orders A and K ask for the layout
        places[...] = np.arange(places.size).reshape(shape)
        went = np.asarray(function(places, *args, **kwargs))
        order = np.argsort(went, axis=None)
        return np.reshape(np.ravel(new)[order], shape)

    return undo


def _read_only_view_function(
    function: Callable[..., Any], copies: bool = False
) -> Callable[..., Any]:
    """A function whose result, in NumPy, sees writes into the operand, and is not written into.

    `copies`: ours is a copy where NumPy's is a view.
    """

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        part = function(a, *args, **kwargs)
        if not isinstance(a, Tracked) or not isinstance(part, Tracked) or part is a:
            return part
        if not copies and not shares_memory(part, a):
            return part
        return link_view(a, part, lambda base: function(base, *args, **kwargs), _refuse_write)

    return call


def _refuse_write(*_: Any) -> NoReturn:
    """The paste of a view that is only read."""
    raise ValueError(message("assignment destination is read-only", "Write into a copy of it"))


def _einsum(*operands: Any, **kwargs: Any) -> Any:
    """Of one operand, without a sum: a view, as NumPy's is; of a diagonal, too."""
    part = _plain_einsum(*operands, **kwargs)
    given = [x for x in operands if isinstance(x, Tracked)]
    if len(given) != 1 or part is given[0] or type(aval_of(part)) is not np.ndarray:
        return part
    (base,) = given
    if not shares_memory(part, base):
        return part

    def cut(base: Any) -> Any:
        return _plain_einsum(*(base if isinstance(x, Tracked) else x for x in operands))

    def paste(base: Any, new: Any) -> Any:
        places = np.arange(np.size(base)).reshape(np.shape(base))
        went = np.einsum(*(places if isinstance(x, Tracked) else x for x in operands))
        return np.reshape(subscripts.with_subscript_set(np.ravel(base), went, new), np.shape(base))

    return link_view(base, part, cut, paste)


_plain_einsum = NUMPY[np.einsum]


def _plain_method(name: str) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


def _link_views() -> None:
    shapes: list[Any] = [np.reshape, np.ravel, np.expand_dims, np.squeeze]
    for function in shapes:
        NUMPY[function] = _view_function(NUMPY[function], _undo_any_reshape(function))
    for name in ("reshape", "ravel", "squeeze"):
        METHODS[name] = _view_function(METHODS[name], _undo_any_reshape(_plain_method(name)))
    moves: list[Any] = [np.transpose, np.swapaxes, np.moveaxis, np.matrix_transpose]
    for function in moves:
        NUMPY[function] = _view_function(NUMPY[function], _undo_transpose(function))
    for name in ("transpose", "swapaxes"):
        METHODS[name] = _view_function(METHODS[name], _undo_transpose(_plain_method(name)))
    turns: list[Any] = [("T", NUMPY[np.transpose]), ("mT", NUMPY[np.matrix_transpose])]
    for name, function in turns:
        install_property(name, function, writable=False)
    parts: list[Any] = [
        ("real", np.real, lambda z, new: from_parts(new, np.imag(z))),
        ("imag", np.imag, lambda z, new: from_parts(np.real(z), new)),
    ]
    for name, function, paste in parts:
        NUMPY[function] = _complex_part(function, NUMPY[function], paste)
        install_property(name, NUMPY[function], paste)
    install_property("flat", _flat)
    NUMPY[np.einsum] = _einsum
    seen: list[Any] = [np.broadcast_to, np.diag, np.diagonal]
    for function in seen:
        NUMPY[function] = _read_only_view_function(NUMPY[function])
    METHODS["diagonal"] = NUMPY[np.diagonal]
    windows: Any = np.lib.stride_tricks.sliding_window_view
    NUMPY[windows] = _read_only_view_function(NUMPY[windows], copies=True)


def _complex_part(
    which: Any, function: Callable[[Any], Any], paste: Callable[[Any, Any], Any]
) -> Any:
    """The real or the imaginary part: of a complex array a view. A real array is its real part, its
    imaginary part are zeros that nobody writes into."""

    def call(val: Any) -> Any:
        if which is np.real and not np.iscomplexobj(val):
            return val
        part = function(val)
        if type(part) is not Tracked or type(aval_of(part)) is not np.ndarray:
            return part
        if np.iscomplexobj(val):
            return link_view(val, part, function, paste)
        return link_view(
            wrap(value_of(part)), part, lambda zeros: zeros, _refuse_write
        )  # of no memory

    return call


def _flat(self: Tracked) -> Any:
    """A view in one dimension, whatever the layout (a tracked array; NumPy's is an iterator)."""
    ravel = NUMPY[np.ravel]
    if type(aval_of(self)) is not np.ndarray:
        self = NUMPY[np.copy](self)  # a number stays what it is
    return link_view(self, np.copy(ravel(self)), ravel, _undo_reshape, FlatView)


_link_views()
