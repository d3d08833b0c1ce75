"""Writing into tracked arrays, with NumPy's aliasing.

Values are never changed: a write gives a handle a new value (`put`). A handle that is a *view*
remembers its base and how it was cut from it: writing through the view writes into the base, and after
any write the base's other views are read again when they are next used.

Owns: `View`, subscripts of `Tracked` (`__getitem__`, `__setitem__`), in-place operators, `fill`,
`sort`, `np.copyto`. Start at `write`.

Invariant: after a write, every handle that NumPy would let see it sees it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import ConversionError, message
from tracker.ir.op import METHODS, NUMPY
from tracker.ops import index
from tracker.tape import Value, apply, data_of, value_of
from tracker.tracked import Tracked, install


class View:
    """How a handle was cut from its base: base[index], or base reordered by an op."""

    __slots__ = ("base", "cut", "paste")

    def __init__(
        self, base: Tracked, cut: Callable[[Any], Any], paste: Callable[[Any, Any], Any]
    ) -> None:
        self.base = base
        self.cut = cut  # base -> part
        self.paste = paste  # (base, new part) -> new base

    def read(self) -> Value:
        return value_of(self.cut(self.base))


def link(base: Tracked, part: Any, cut: Callable[[Any], Any], paste: Any) -> Any:
    """Make `part` a view of `base`."""
    part._view = View(base, cut, paste)
    views = getattr(base, "_views", None)
    if views is None:
        views = base._views = []  # type: ignore[attr-defined]
    elif len(views) > 8 and sum(1 for ref in views if ref() is None) > len(views) // 2:
        views[:] = [ref for ref in views if ref() is not None]
    views.append(weakref.ref(part))
    return part


def write(handle: Tracked, new: Any) -> None:
    """Give a handle a new value (same shape and dtype), and let its base and views see it."""
    view = getattr(handle, "_view", None)
    if view is not None:
        write(view.base, view.paste(view.base, new))
    _invalidate(handle)
    handle._value = value_of(new) if isinstance(new, Tracked) else _constant(new)


def _invalidate(handle: Tracked) -> None:
    for ref in getattr(handle, "_views", ()):
        part = ref()
        if part is not None:
            part._value = None
            _invalidate(part)


def _constant(data: Any) -> Value:
    from tracker.ops.shape import buffer

    return value_of(buffer(data))


@install("__getitem__")
def _getitem(self: Tracked, key: Any) -> Any:
    part, basic = index.read(self, key)
    if basic is None or type(data_of(part)) is not np.ndarray:
        return part
    return link(
        self,
        part,
        lambda base: apply(index.getitem, (base,), {"index": basic}),
        lambda base, new: apply(index.put, (base, new), {"index": basic}),
    )


@install("__setitem__")
def _setitem(self: Tracked, key: Any, v: Any) -> None:
    if type(value_of(self).data) is not np.ndarray:
        raise TypeError(
            f"a tracked {type(data_of(self)).__name__} does not support item assignment"
        )
    write(self, index.written(self, key, v))


def _in_place(name: str, plain: Callable[[Any, Any], Any]) -> None:
    def method(self: Tracked, other: Any) -> Any:
        result = plain(self, other)
        data = value_of(self).data
        if type(data) is not np.ndarray:
            return result
        if np.shape(result) != data.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {data.shape} doesn't match the "
                f"broadcast shape {np.shape(result)}"
            )
        kind = np.result_type(data_of(result))
        if not np.can_cast(kind, data.dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast the result of {name} from {kind!r} to {data.dtype!r} "
                "with casting rule 'same_kind'"
            )
        write(self, result if kind == data.dtype else np.astype(result, data.dtype))
        return self

    install(f"__i{name}__")(method)


for _name, _operator in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}.items():
    _in_place(_name, _operator)


def _fill(self: Tracked, value: Any) -> None:
    self[...] = value  # type: ignore[index]


METHODS["fill"] = _fill


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Tracked):
        raise ConversionError(
            message(
                "np.copyto would store a tracked value into a plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    if where is not True:
        src = np.where(where, src, dst)
    dst[...] = src  # type: ignore[index]


NUMPY[np.copyto] = _copyto


# Views other than subscripts -----------------------------------------------------------------------


def _linked(function: Callable[..., Any], undo: Callable[..., Any]) -> Callable[..., Any]:
    """A shape function whose result is a view of its operand whenever it is one in NumPy."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        part = function(a, *args, **kwargs)
        if not isinstance(a, Tracked) or not isinstance(part, Tracked) or part is a:
            return part
        if type(data_of(part)) is not np.ndarray or not np.may_share_memory(
            data_of(part), data_of(a)
        ):
            return part
        return link(
            a,
            part,
            lambda base: function(base, *args, **kwargs),
            lambda base, new: undo(base, new, *args, **kwargs),
        )

    return call


def _undo_reshape(base: Any, new: Any, *_: Any, **__: Any) -> Any:
    return np.reshape(new, np.shape(base))


def _undo_by_position(function: Callable[..., Any]) -> Callable[..., Any]:
    """Paste back any rearrangement: follow where each position of the base went."""

    def undo(base: Any, new: Any, *args: Any, **kwargs: Any) -> Any:
        shape = np.shape(base)
        places = np.arange(int(np.prod(shape))).reshape(shape)
        went = np.asarray(function(places, *args, **kwargs))
        order = np.argsort(went, axis=None)
        return np.reshape(np.ravel(new)[order], shape)

    return undo


def _plain_method(name: str) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


def _link_views() -> None:
    for function in (np.reshape, np.ravel, np.expand_dims, np.squeeze):
        NUMPY[function] = _linked(NUMPY[function], _undo_reshape)
    for name in ("reshape", "ravel", "squeeze"):
        METHODS[name] = _linked(METHODS[name], _undo_reshape)
    for function in (np.transpose, np.swapaxes, np.moveaxis, np.matrix_transpose):
        NUMPY[function] = _linked(NUMPY[function], _undo_by_position(function))
    for name in ("transpose", "swapaxes"):
        METHODS[name] = _linked(METHODS[name], _undo_by_position(_plain_method(name)))
    install("T")(property(lambda self: NUMPY[np.transpose](self)))
    install("mT")(property(lambda self: NUMPY[np.matrix_transpose](self)))


_link_views()
