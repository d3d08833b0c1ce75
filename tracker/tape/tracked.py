"""`Tracked`, the array class that users meet: a reference to a value of the tape.

The class has NumPy's two protocols (`__array_ufunc__`, `__array_function__`), which look ops up in
the tables of `ir/op.py`, and the array attributes that need no op. Operators and methods come from
elsewhere: each op installs its own (`install`, and the table `METHODS`); conversions to Python are
in `conversions.py`.

Slots: `_value`, the current Value (None: a view that must be read again from its base); `_view` and
`_views`, which belong to `ops/indexing/views_and_writes.py`; `_owner`, the `ParamState` of a param.
The last three are unset on most tracked arrays.

Invariant: no gradient is lost in silence: a NumPy function without a derivative rule raises.
"""

from __future__ import annotations

import copy
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tracker.errors import ConversionError, MissingAttributeError, UnsupportedError, message
from tracker.ir.op import METHODS, NUMPY, UFUNCS
from tracker.support.numpy_version import version_of
from tracker.tape.labels import FRAME_METHODS, LABELS
from tracker.tape.observers import observers
from tracker.tape.record import (
    apply_binary,
    apply_unary,
    as_numeric,
    set_tracked_class,
    value_of,
    wrap,
)
from tracker.tape.tracing.escape import NO_ESCAPE, call_on_plain, escape_as_text
from tracker.tape.tracing.placeholders import (
    PLACEHOLDERS,
    are_resolved,
    may_need_resolving,
    resolve_placeholder,
    resolve_within,
)
from tracker.tape.tracing.tracer import (
    dismiss_error,
    note_extents,
    note_extents_read,
    start_loop,
)
from tracker.tape.tracing.value_guards import guard_value
from tracker.tape.value import ParamState, Value, leaf

_CASTS_PYTHON_COMPLEX = version_of(np) < (2, 5)  # as it casts arrays


class _TransparentMeta(type):
    """The class of `Tracked`, in which abstract base classes find no methods. Whether a value is
    `Iterable`, `Sized` or `Hashable` then depends on its `__class__`, the class of its data."""

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return ()


class _MissingMethodError(AttributeError, TypeError):
    """Raised for a method that arrays have and numbers have not: `hasattr` must say False
    (AttributeError), and `len(x)` must fail as for a number (TypeError)."""


_NO_ADDRESS = message(
    "the address of a tracked value's memory, through which code could write into it",
    "Use x.data for plain NumPy",
    "",
)


_OTHER_LIBRARIES = {  # attributes of their arrays -> what to type here
    "at": "t[i] = v or np.add.at(t, i, v): tracked arrays are written into as NumPy's are",
    "backward": "tracker.back(t)",
    "block_until_ready": "t itself: it has been computed",
    "clone": "t.copy()",
    "cpu": "t itself: it is in the computer's memory",
    "detach": "tracker.data(t)",
    "iloc": "t[i]: a tracked array has no labels",
    "is_leaf": "tracker.isleaf(t)",
    "loc": "t[i], by position: a tracked array has no labels",
    "numpy": "tracker.data(t)",
    "requires_grad": "tracker.istracked(t)",
    "requires_grad_": "tracker.param(x)",
    "rolling": "np.lib.stride_tricks.sliding_window_view(t, n)",
    "zero_grad": "tracker.zero_grad(t)",
    **dict.fromkeys(
        ("columns", "coords", "dims", "groupby", "index", "isel", "sel"),
        "gradient(f, x, table, argnums=0): a tracked array has no labels",
    ),
}


class _array_method:
    """A method that arrays have and numbers have not. (Not for `__iter__`: Python would fall back
    to `__getitem__`.)"""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method

    def __get__(self, tracked: Any, _: type | None = None) -> Any:
        if tracked is None:
            return self.method
        cls = type(value_of(tracked).aval)
        if hasattr(cls, self.method.__name__):
            return MethodType(self.method, tracked)
        raise _MissingMethodError(
            _MISSING_METHOD_TEXTS[self.method.__name__].format(numpy_class_name(cls))
        )


def numpy_class_name(cls: type) -> str:
    """A class of numbers or arrays, as Python's errors name it."""
    return f"numpy.{cls.__name__}" if cls.__module__ == "numpy" else cls.__name__


_MISSING_METHOD_TEXTS = {  # in Python's words
    "__len__": "object of type {!r} has no len()",
    "__contains__": "argument of type {!r} is not iterable",
}


class Tracked(metaclass=_TransparentMeta):
    """A number or array whose history is recorded. Made by `tracker.param` and by derivatives.

    It behaves as the ndarray (or Python number) inside: operators, NumPy functions, indexing,
    writing, methods. What would lose the history (`float(t)`, `plain[i] = t`, a C extension) raises
    a `ConversionError` that says what to type.

    Attributes
    ----------
    data
        What is inside, read-only.
    grad
        The accumulated gradient: see `tracker.grad`.
    shape, ndim, size, dtype
        As of an ndarray.

    See Also
    --------
    tracker.param, tracker.data

    Examples
    --------
    >>> t = tracker.param([1.0, 2.0])
    >>> np.sin(t)[0].dtype, t.shape
    (dtype('float64'), (2,))
    """

    __slots__ = ("__weakref__", "_owner", "_value", "_view", "_views")
    __array_priority__ = 1001.0  # above that of pandas
    __pandas_priority__ = 5000  # above that of its data frames

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(message("Tracked is not called directly", "Use tracker.param(x)"))

    _value: Value | None
    _view: Any
    _views: list[Any]
    if TYPE_CHECKING:  # installed by autodiff/stop_gradient.py and ops/indexing/views_and_writes.py

        @property
        def data(self) -> Any: ...
        def __getitem__(self, key: Any) -> Any: ...
        def __setitem__(self, key: Any, v: Any) -> None: ...

    def _refresh(self) -> Value:
        """Read a view again after its base was written into."""
        value: Value = self._view.read(self)
        self._value = value
        return value

    # What it is

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(t, np.ndarray), isinstance(t, float), as code asks
        return type(value_of(self).aval)

    @property
    def _plain(self) -> Any:
        """The plain array (read-only: history refers to it) or number."""
        data = value_of(self).data
        if type(data) is np.ndarray:
            data = data.view()
            data.flags.writeable = False
        return data

    @property
    def grad(self) -> Any:
        """The accumulated gradient, as a plain array; None where no `back` has reached."""
        owner = getattr(self, "_owner", None)  # kept when a param is written into
        return grad_of(value_of(self)) if owner is None else _accumulated_grad(owner)

    @property
    def shape(self) -> tuple[int, ...]:
        value = value_of(self)
        if observers:
            note_extents(value)
            note_extents_read(value, sys._getframe(1))
        return np.shape(value.aval)

    @property
    def ndim(self) -> int:
        return np.ndim(value_of(self).aval)

    @property
    def size(self) -> int:
        if observers:
            note_extents_read(value_of(self), sys._getframe(1))
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        aval = value_of(self).aval
        dtype: np.dtype[Any] | None = getattr(aval, "dtype", None)
        return np.asarray(aval).dtype if dtype is None else dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        if observers:
            note_extents_read(value_of(self), sys._getframe(1))
        return self.size * self.itemsize

    def __repr__(self) -> str:
        plain = _printable(self)
        if plain is not NO_ESCAPE:
            return repr(plain)
        data = value_of(self).data
        return f"tracked({data.item() if isinstance(data, np.generic) else data!r})"

    def __format__(self, spec: str) -> str:
        return format(_text_data(self), spec)

    def __str__(self) -> str:
        return str(_text_data(self))

    @_array_method
    def __len__(self) -> int:
        value = value_of(self)
        if observers:
            note_extents(value)
            note_extents_read(value, sys._getframe(1))
        return len(value.aval)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError(message("iteration over a 0-d tracked value"))
        if observers and (loop := start_loop("rows", (self,), sys._getframe(1))) is not None:
            followed: Iterator[Any] = loop
            return followed
        return (self[i] for i in range(len(self)))

    @_array_method
    def __contains__(self, x: Any) -> bool:
        return bool(np.any(self == x))

    def __getattr__(self, name: str) -> Any:
        if PLACEHOLDERS and may_need_resolving() and not name.startswith("_"):
            resolved = resolve_placeholder(self)
            if resolved is not self:
                return getattr(resolved, name)
        method = METHODS.get(name)
        if method is not None:
            if LABELS and name in FRAME_METHODS:
                method = FRAME_METHODS[name]
            return MethodType(method, self)
        if name in ("__array_interface__", "__array_struct__"):
            raise MissingAttributeError(_NO_ADDRESS)
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _NUMBER_ATTRIBUTES and hasattr(type(value_of(self).aval), name):
            if name == "is_integer":
                return lambda: bool(self % 1 == 0)  # type: ignore[operator]
            if name == "as_integer_ratio" and self.dtype.kind == "f":
                return lambda: float(self).as_integer_ratio()
            guard_value(self, "hash")
            return getattr(value_of(self).data, name)
        if hasattr(np.ndarray, name):
            text = message(
                f".{name} is not supported on a tracked value", "Use x.data for plain NumPy"
            )
            if name != "ctypes":  # an address, through which code could write
                plain = call_on_plain(lambda x: getattr(x, name), (self,), {}, lambda: text)
                if plain is not NO_ESCAPE:
                    return plain
            raise UnsupportedError(text)
        text = f"a tracked value has no attribute {name!r}"
        if name in _OTHER_LIBRARIES:
            raise MissingAttributeError(text, f"Use {_OTHER_LIBRARIES[name]}")
        if callable(getattr(np, name, None)):
            raise MissingAttributeError(text, f"Use np.{name}(t)")
        raise AttributeError(text, name=name, obj=self)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if PLACEHOLDERS and may_need_resolving() and not are_resolved(inputs, kwargs):
            return getattr(ufunc, method)(*resolve_within(inputs), **resolve_within(kwargs))
        try:
            if method == "__call__" and not kwargs:
                op = UFUNCS.get(ufunc)
                if op is not None and not op.constant:
                    unary = len(inputs) == 1
                    if op.evaluate is ufunc:
                        return apply_unary(op, inputs[0]) if unary else apply_binary(op, *inputs)
                    # Python numbers have gone through Python's operator: np.add means NumPy's.
                    try:
                        made = apply_unary(op, inputs[0]) if unary else apply_binary(op, *inputs)
                    except ArithmeticError as error:
                        dismiss_error(error)
                    else:
                        if type(made._value.aval) not in _PYTHON_NUMBERS:
                            return made
            return _ufunc_protocol(ufunc, method, inputs, kwargs)
        except UnsupportedError as error:
            text = str(error)
            if method == "at":  # it writes into its argument
                raise
            numeric = tuple(map(as_numeric, inputs))
            if any(x is not None for x in numeric):
                pairs = zip(inputs, numeric, strict=True)
                return getattr(ufunc, method)(*(x if n is None else n for x, n in pairs), **kwargs)
            plain = call_on_plain(getattr(ufunc, method), inputs, kwargs, lambda: text)
            if plain is NO_ESCAPE:
                raise
            return plain
        except ConversionError:  # lists with tracked values in them
            lists = [isinstance(x, (list, tuple)) for x in inputs]
            if not any(lists):
                raise
            pairs = zip(inputs, lists, strict=True)
            converted = [NUMPY[np.asarray](x) if is_list else x for x, is_list in pairs]
            return getattr(ufunc, method)(*converted, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if PLACEHOLDERS and may_need_resolving() and not are_resolved(args, kwargs):
            return func(*resolve_within(args), **resolve_within(kwargs))
        handler = NUMPY.get(func)
        if handler is not None:
            return handler(*args, **kwargs)
        text = message(
            f"{public_name(func)} has no derivative rule here",
            "Use tracker.data(x) where no gradient is wanted, or write a rule with tracker.rrule",
        )
        plain = call_on_plain(func, args, kwargs, lambda: text)
        if plain is NO_ESCAPE:
            raise UnsupportedError(text)
        return plain

    # Copies

    def __copy__(self) -> Any:
        value = value_of(self)
        if type(value.aval) is np.ndarray or isinstance(value.params, ParamState):
            return NUMPY[np.copy](self)
        return wrap(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        value = value_of(self)
        if not isinstance(value.params, ParamState):
            return copy.copy(self)
        return restore_leaf(copy.deepcopy(value.data), copy.deepcopy(value.params.grad))


def _text_data(tracked: Any) -> Any:
    """The plain data that becomes text."""
    plain = _printable(tracked)
    return value_of(tracked).data if plain is NO_ESCAPE else plain


def _printable(tracked: Any) -> Any:
    """The plain data whose text is that of a tracked value, or NO_ESCAPE if it has its own."""
    resolved = resolve_placeholder(tracked)
    if resolved is not tracked:
        return resolved
    return value_of(tracked).data if escape_as_text(tracked) else NO_ESCAPE


_PYTHON_NUMBERS = (float, int, complex)
# Attributes of Python's and NumPy's numbers that have no derivative.
_NUMBER_ATTRIBUTES = frozenset(
    (
        *("is_integer", "as_integer_ratio", "hex", "bit_length", "bit_count", "to_bytes"),
        *("numerator", "denominator"),
    )
)
set_tracked_class(Tracked)


def new_param(data: Any) -> Any:
    """A tracked leaf on plain data, which must be the caller's to give away."""
    made = leaf(data)
    made.params = ParamState(data)
    tracked = wrap(made)
    tracked._owner = made.params
    return tracked


def restore_leaf(data: Any, grad: Any) -> Any:
    made = new_param(data)
    made._value.params.grad = grad
    return made


def grad_of(value: Value) -> Any:
    """See `Tracked.grad`."""
    if isinstance(value.params, ParamState):
        return _accumulated_grad(value.params)
    found = getattr(value, "grad", None)  # several values may share one array
    return found.copy("K") if type(found) is np.ndarray else found


def _accumulated_grad(owner: ParamState) -> Any:
    return np.zeros_like(owner.data)[()] if owner.grad is None else owner.grad


def install(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: make a function the method of `Tracked` with these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            setattr(Tracked, name, function)
        return function

    return put


def install_property(
    name: str,
    get: Callable[[Any], Any],
    with_part: Callable[[Any, Any], Any] | None = None,
    *,
    writable: bool = True,
) -> None:
    """Make a view an attribute of `Tracked`; assigning to the attribute writes through it.

    `with_part(x, value)` is x with another value of the attribute, for 0-d arrays, where the
    attribute is no view.
    """

    def read(self: Any) -> Any:
        resolved = resolve_placeholder(self)
        return get(self) if resolved is self else getattr(resolved, name)

    def put(self: Any, value: Any) -> None:
        part, aval = read(self), value_of(self).aval
        if value is part:
            return
        check_is_array(name, aval)
        if name == "imag" and aval.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        if type(value) is complex and _CASTS_PYTHON_COMPLEX:
            value = np.asarray(value)
        if with_part is not None and part is not self and np.ndim(part) == 0:
            self[...] = with_part(self, value)
        else:
            part[...] = value

    setattr(Tracked, name, property(read, put if writable else None))


def check_is_array(name: str, aval: Any) -> None:
    """Raise, as Python does, where an attribute of a number is set."""
    if type(aval) is not np.ndarray:
        kind = "numpy.generic" if isinstance(aval, np.generic) else type(aval).__name__
        raise AttributeError(f"attribute {name!r} of {kind!r} objects is not writable")


_ufunc_protocol: Callable[..., Any]


def set_ufunc_protocol(function: Callable[..., Any]) -> None:
    """Set the function that handles ufunc calls beyond plain ones (once, at import)."""
    global _ufunc_protocol
    _ufunc_protocol = function


def public_name(func: Any) -> str:
    """The name under which users know a function of NumPy."""
    module = getattr(func, "__module__", "numpy").replace("numpy", "np", 1)
    return f"{module}.{getattr(func, '__name__', func)}"


def view_root(x: Any) -> Any:
    """The array that a view, or a view of a view, refers to; anything else itself."""
    while type(x) is Tracked and (view := getattr(x, "_view", None)) is not None:
        x = view.base
    return x


def register_view(base: Tracked, part: Tracked) -> None:
    """Register an up-to-date view with its base, which has it read again after a write."""
    views = getattr(base, "_views", None)
    if views is None:
        views = base._views = []
    elif len(views) & (len(views) - 1) == 0:  # a power of two: drop dead references now and then
        views[:] = [ref for ref in views if ref() is not None]
    views.append(weakref.ref(part))
