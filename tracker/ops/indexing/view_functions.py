"""NumPy functions that return views: transposes, reshapes, real parts, diagonals.

`_install_views` wraps them so that a result that shares memory with its operand in NumPy becomes a
view of the tracked operand (`inplace.link_view`), with the inverse that writes go through.

Invariant: a result is a view exactly where NumPy's shares memory; where writing through it is not
supported, a write raises "read-only".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tracker.errors import message
from tracker.ir.op import METHODS, NUMPY
from tracker.ops.elementwise.unary import from_parts
from tracker.ops.indexing import subscripts
from tracker.ops.indexing.views_and_writes import FlatView, link_view, undo_reshape
from tracker.tape.record import aval_of, shares_memory, value_of, wrap
from tracker.tape.tracked import Tracked, install_property


def _view_function(
    function: Callable[..., Any], undo: Callable[..., Any] | None, copies: bool = False
) -> Callable[..., Any]:
    """A shape function whose result is a view of its operand whenever it is one in NumPy.

    undo    updates the base after a write to the view; None: the view is read-only
    copies  our result is a copy where NumPy's is a view: it shows writes to the base all the same
    """

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        part = function(a, *args, **kwargs)
        if not isinstance(a, Tracked) or not isinstance(part, Tracked) or part is a:
            return part
        if not copies and not shares_memory(part, a):
            return part

        def update(base: Any, new: Any) -> Any:
            return refuse_write() if undo is None else undo(base, new, *args, **kwargs)

        return link_view(a, part, lambda base: function(base, *args, **kwargs), update)

    return call


def _undo_any_reshape(function: Callable[..., Any]) -> Callable[..., Any]:
    """The inverse of a reshape, in its order; by position if the order depends on the layout."""
    by_position = _undo_by_position(function)

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        orders = {kwargs.get("order", "C"), *(a for a in args if isinstance(a, str))}
        if orders <= {"C", "F"}:
            return np.reshape(new, np.shape(base), order="F" if "F" in orders else "C")
        return by_position(base, new, *args, **kwargs)

    return undo


def _undo_transpose(function: Callable[..., Any]) -> Callable[..., Any]:
    """The inverse of a permutation of axes, which is read off an array whose strides number the
    axes."""

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        rank = np.ndim(base)
        axes = function(np.ndarray((1,) * rank, np.int8, b"\0", 0, range(rank)), *args, **kwargs)
        return np.transpose(new, np.argsort(axes.strides))

    return undo


def _undo_by_position(function: Callable[..., Any]) -> Callable[..., Any]:
    """The inverse of any rearrangement: track where each position of the base goes."""

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        shape = np.shape(base)
        # orders A and K depend on the layout
        positions = np.empty_like(aval_of(base), dtype=np.intp)
        positions[...] = np.arange(positions.size).reshape(shape)
        moved = np.asarray(function(positions, *args, **kwargs))
        order = np.argsort(moved, axis=None)
        return np.reshape(np.ravel(new)[order], shape)

    return undo


def refuse_write(*_: Any) -> NoReturn:
    """The inverse of a view that is read-only."""
    raise ValueError(message("assignment destination is read-only", "Write into a copy of it"))


def _einsum(*operands: Any, **kwargs: Any) -> Any:
    """`np.einsum`; of one operand without a sum, a view as in NumPy."""
    part = _plain_einsum(*operands, **kwargs)
    tracked = [x for x in operands if isinstance(x, Tracked)]
    if len(tracked) != 1 or part is tracked[0] or type(aval_of(part)) is not np.ndarray:
        return part
    (base,) = tracked
    if not shares_memory(part, base):
        return part

    def cut(base: Any) -> Any:
        return _plain_einsum(*(base if isinstance(x, Tracked) else x for x in operands))

    def paste(base: Any, new: Any) -> Any:
        positions = np.arange(np.size(base)).reshape(np.shape(base))
        moved = np.einsum(*(positions if isinstance(x, Tracked) else x for x in operands))
        return np.reshape(subscripts.with_subscript_set(np.ravel(base), moved, new), np.shape(base))

    return link_view(base, part, cut, paste)


_plain_einsum = NUMPY[np.einsum]


def _plain_method(name: str) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


def _install_views() -> None:
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
        NUMPY[function] = _view_function(NUMPY[function], None)
    METHODS["diagonal"] = NUMPY[np.diagonal]
    windows: Any = np.lib.stride_tricks.sliding_window_view
    NUMPY[windows] = _view_function(NUMPY[windows], None, copies=True)


def _complex_part(
    which: Any, function: Callable[[Any], Any], paste: Callable[[Any, Any], Any]
) -> Any:
    """The real or imaginary part. Of a complex array, a view. A real array is its own real part;
    its imaginary part is a read-only array of zeros."""

    def call(val: Any) -> Any:
        if which is np.real and not np.iscomplexobj(val):
            return val
        part = function(val)
        if type(part) is not Tracked or type(aval_of(part)) is not np.ndarray:
            return part
        if np.iscomplexobj(val):
            return link_view(val, part, function, paste)
        # shares no memory
        return link_view(wrap(value_of(part)), part, lambda zeros: zeros, refuse_write)

    return call


def _flat(self: Tracked) -> Any:
    """A one-dimensional view, in any layout (NumPy's is an iterator)."""
    ravel = NUMPY[np.ravel]
    if type(aval_of(self)) is not np.ndarray:
        self = NUMPY[np.copy](self)  # scalars are immutable
    return link_view(self, np.copy(ravel(self)), ravel, undo_reshape, FlatView)


_install_views()
