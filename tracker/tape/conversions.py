"""Conversions of tracked values to Python and plain NumPy: `bool`, `int`, `float`, `round`, `hash`,
`np.asarray`, ...

Each either lets a trace know (`value_guards.py`) or goes through `escape.escape_as_plain`.
`guarded_data` and `plain_integers` are for arguments without a derivative: tolerances, counts.

Invariant: a conversion that would lose a gradient raises; the message names the call that was made,
the value, and the one thing to type instead.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import operator
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tracker import tree
from tracker.errors import ConversionError, message
from tracker.ir.op import NUMPY
from tracker.support.call_names import STORING, Call, running_call
from tracker.support.cpython import hide_items
from tracker.tape.escape import (
    NO_ESCAPE,
    escape_as_plain,
    export_array,
    is_arange_length,
    is_inspected,
)
from tracker.tape.observers import is_deriving, observers
from tracker.tape.placeholders import resolve_placeholder
from tracker.tape.record import aval_of, data_of, holds_tracked, value_of
from tracker.tape.tracer import at_loop_test, current_tracer, record_error
from tracker.tape.tracked import Tracked, install, install_property, numpy_class_name
from tracker.tape.value import is_constant
from tracker.tape.value_guards import guard_value
from tracker.user_frames import line_of, user_call, user_line

_Converted = TypeVar("_Converted")
_NUMPY_TESTING = os.sep + os.path.join("numpy", "testing", "")
_NEEDS_MEMORY = {inspect.unwrap(f).__code__ for f in (np.lib.stride_tricks.as_strided, np.require)}
_AS_KEY_TEXTS = (
    "unhashable: a tracked number as a key (of a dict, a set, functools.lru_cache) would be taken "
    "for an equal one that depends on something else",
    "Use tracker.data(t) as the key, or call the function without its cache (f.__wrapped__)",
)


@install("__hash__")
def _hash(tracked: Any) -> int:
    value = value_of(tracked)
    if isinstance(value.aval, np.ndarray):
        raise TypeError("unhashable type: a tracked array; use id(x) or tracker.Params")
    has_history = tracked.dtype.kind in "fc" and (is_deriving() or current_tracer() is None)
    if has_history and not (is_constant(value) or is_arange_length(value) or is_inspected(tracked)):
        raise ConversionError(*_AS_KEY_TEXTS, user_line())
    guard_value(tracked, "hash")
    return hash(value.data)


@install("__bool__")
def _bool(tracked: Any) -> bool:
    if observers:
        tracked = at_loop_test(tracked, sys._getframe(1))
    return _guarded_conversion(tracked, "bool", bool)


def _install_conversion(name: str, kind: str, convert: Callable[[Any], Any]) -> None:
    install(name)(lambda tracked: _guarded_conversion(tracked, kind, convert))


_install_conversion("__int__", "int", int)
_install_conversion("__index__", "int", operator.index)
_install_conversion("__floor__", "floor", math.floor)
_install_conversion("__ceil__", "ceil", math.ceil)
_install_conversion("__trunc__", "int", math.trunc)


@install("__bytes__")
def _bytes(tracked: Any) -> bytes:
    """The bytes in memory; of an integer n, as in Python, n zero bytes."""
    aval = value_of(tracked).aval
    if np.ndim(aval) == 0 and np.asarray(aval).dtype.kind in "iu":
        return bytes(int(tracked))
    found: bytes = tracked.tobytes()
    return found


@install("__float__")
def _float(tracked: Any) -> float:
    value = value_of(tracked)
    if is_constant(value) or is_arange_length(value):
        guard_value(tracked, "hash")
        return float(value.data)
    if is_inspected(tracked):
        return float(value.data)
    try:
        return float(_escape_or_raise(tracked, "float(t)"))
    except ConversionError:
        hide_items(Tracked, sys._getframe().f_back)
        raise


@install("__complex__")
def _complex(tracked: Any) -> complex:
    if is_constant(value_of(tracked)):
        guard_value(tracked, "hash")
        return complex(value_of(tracked).data)
    return complex(_escape_or_raise(tracked, "complex(t)"))


@install("__array__")
def _array(tracked: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    if resolve_placeholder(tracked) is not tracked:
        return np.asarray(resolve_placeholder(tracked), dtype=dtype, copy=copy)
    caller = sys._getframe(1).f_code
    if caller in _NEEDS_MEMORY:
        raise ConversionError(
            f"{caller.co_name} needs the memory of a tracked value of shape {tracked.shape}",
            "Use np.lib.stride_tricks.sliding_window_view, or index with integer arrays",
            user_line(),
        )
    kinds = {tracked.dtype.kind, np.dtype(tracked.dtype if dtype is None else dtype).kind}
    if not kinds.isdisjoint("biu") or is_constant(value_of(tracked)):
        guard_elements(tracked)
        return export_array(tracked, dtype, copy)
    if current_tracer() is None and _NUMPY_TESTING in caller.co_filename:
        # np.testing compares, and returns nothing
        return np.array(value_of(tracked).data, dtype=dtype)
    _escape_or_raise(tracked, "np.asarray(t)")
    return export_array(tracked, dtype, copy)


def _torch_function(function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """PyTorch calls this instead of a function of its own that is given a tracked value."""
    given = tree.leaves((args, kwargs))
    raise ConversionError(conversion_text(next(x for x in given if type(x) is Tracked), "torch"))


install("__torch_function__")(staticmethod(_torch_function))


def _as_parameter(tracked: Any) -> Any:
    """What `ctypes` passes to a function in C."""
    return _escape_or_raise(tracked, "ctypes") if tracked.dtype.kind in "fc" else int(tracked)


install_property("_as_parameter_", _as_parameter)


def _escape_or_raise(tracked: Any, converter: str) -> Any:
    """The plain data of a value, if it may escape."""
    plain = escape_as_plain(tracked, lambda: conversion_text(tracked, converter)())
    if plain is NO_ESCAPE:
        raise ConversionError(conversion_text(tracked, converter))
    return plain


@install("__round__")
def _round(tracked: Any, digits: int | None = None) -> Any:
    kind = type(value_of(tracked).aval)
    if not hasattr(kind, "__round__"):
        raise TypeError(f"type {numpy_class_name(kind)} doesn't define __round__ method")
    if digits is None:
        return _guarded_conversion(tracked, "round", round)
    data = value_of(tracked).data
    if type(data) is float or type(data) is int:  # Python rounds decimals correctly, NumPy does not
        guard_value(tracked, "hash")
        return round(data, digits)
    return NUMPY[np.round](tracked, digits)


_MAX_ELEMENT_GUARDS = 16  # elements with a guard each; more are compared all at once


def guard_elements(tracked: Tracked) -> None:
    """Python is about to depend on every element."""
    if current_tracer() is not None:
        kind = {"b": "bool", "i": "int", "u": "int"}.get(tracked.dtype.kind, "hash")
        if tracked.size > _MAX_ELEMENT_GUARDS and kind != "hash":
            guard_value(NUMPY[np.all](tracked == np.array(data_of(tracked))), "bool")
            return
        for element in NUMPY[np.ravel](tracked) if tracked.ndim else (tracked,):
            guard_value(element, kind)


def guarded_data(x: Any) -> Any:
    """The plain data of an argument without a derivative (a tolerance); a trace guards it."""
    if type(x) is not Tracked:
        return x
    guard_elements(x)
    return data_of(x)


def plain_integers(x: Any) -> Any:
    """Tracked integers and bools as plain ones, also those in a list."""
    if type(x) is Tracked and x.dtype.kind in "biu":
        return np.asarray(x) if x.ndim or x.dtype.kind == "b" else int(x)
    return type(x)(map(plain_integers, x)) if type(x) in (list, tuple) else x


def _guarded_conversion(
    tracked: Tracked, kind: str, convert: Callable[[Any], _Converted]
) -> _Converted:
    """Convert a value: a trace guards the result, and records an error."""
    data = data_of(tracked)
    try:
        answer = convert(data)
    except (ValueError, OverflowError) as error:
        if np.size(data) == 1:  # else the shape is the reason
            record_error(error)
        raise
    guard_value(tracked, kind)
    return answer


STORE_HINT = "Make the array with np.zeros_like(t), np.zeros(n, like=t), or np.array(a)"
_PLAIN = "Use tracker.data(t) where no gradient is wanted"
_NUMBER_HINT = "Use t itself, or tracker.data(t) where no gradient is wanted"
_LABELS_HINT = (
    "Use operators: s * t and df @ t are tracked arrays; join columns with np.stack([...], axis=1)"
)
_SPARSE_HINT = (
    "Make the array of its entries: coo_array((t, (i, j)), shape) or csr_array((t, a.indices, "
    "a.indptr), a.shape)"
)
_OTHER_NAMES = {  # of functions of `math`
    "comb": "scipy.special.comb",
    "dist": "np.linalg.norm",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "fsum": "np.sum",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "phase": "np.angle",
    "sumprod": "np.dot",
}
RULE_HINTS = {  # by the library that asks for plain numbers
    "ctypes": "Give the function in C a derivative: @tracker.custom_gradient(host=True)",
    "torch": "Give the function of PyTorch its derivative: tracker.interop.from_torch(f)",
}
_HINTS = {  # by the beginning of the call's name
    "float": _NUMBER_HINT,
    "complex": _NUMBER_HINT,
    "numpy.ma.": "Keep the mask beside the array: np.where(mask, 0.0, t), np.sum(t, where=~mask)",
    "numpy.random.Generator": "Draw from tracker.numpy.random.default_rng",
    "numpy.random.RandomState": "Draw from tracker.numpy.random.RandomState",
    "pandas.": _LABELS_HINT,
    "xarray.": _LABELS_HINT,
    "jax.": "Give the function of JAX its derivative: tracker.interop.from_jax(f)",
    "torch.": RULE_HINTS["torch"],
    "tracker.optim.minimize": "Use scipy.optimize.minimize or tracker.optim.lbfgs, which have "
    "derivatives",
    "numpy.rec.": "Keep one array for each field, in a dict, a named tuple or a dataclass",
}


def conversion_text(tracked: Any, converter: str) -> Callable[[], str]:
    """Why a tracked value is not converted, composed when called; `converter` names the conversion,
    where nothing more is known: "float(t)"."""
    call, where = _running_call()
    layout = _layout(aval_of(tracked))
    return lambda: _conversion_text(call, layout, converter, where)


def _conversion_text(call: Call, layout: _Layout, converter: str, where: str) -> str:
    name = call.name
    if name.endswith("= t") or name.rpartition(".")[2] in STORING:
        return _store_text(name, layout, call.target, where)
    if "." not in name:  # Python's own: `list` of a `map`
        name = converter
    return message(
        f"{name} would turn a tracked value {_described(layout)} into plain numbers and lose "
        "its gradient",
        RULE_HINTS.get(converter) or _instead(name),
        where,
    )


def store_error(value: Any, target: Any, name: str) -> ConversionError:
    """The error for a store into a plain array by a function of NumPy; `name` names it where its
    call is not found."""
    call, where = _running_call()
    while isinstance(value, (list, tuple)):
        value = next(x for x in value if holds_tracked(x))
    layout = _layout(aval_of(value))
    return ConversionError(_store_text(call.name or name, layout, target, where))


def _store_text(name: str, layout: _Layout, target: Any, where: str) -> str:
    array = "a plain array"
    if isinstance(target, np.ndarray):
        array = f"{array} {_described(_layout(target))}"
    return message(
        f"{name} would store a tracked value {_described(layout)} into {array} and lose its "
        "gradient",
        _instead(name) if name.startswith("scipy.sparse.") else STORE_HINT,
        where,
    )


def _running_call() -> tuple[Call, str]:
    """The call that the user's code is executing, and its line."""
    frame, libraries = user_call()
    if frame is None:
        return Call(""), ""
    return running_call(frame, libraries), line_of(frame)


_Layout = tuple[tuple[int, ...], np.dtype[Any]]  # what an error keeps of an array


def _layout(x: Any) -> _Layout:
    return np.shape(x), np.result_type(x)


def _described(layout: _Layout) -> str:
    return "of shape {}, dtype {}".format(*layout)


def _instead(name: str) -> str:
    """What to type instead of a call."""
    owner, _, function = name.rpartition(".")
    package = name.partition(".")[0]
    for beginning, hint in _HINTS.items():
        if name.startswith(beginning):
            return hint
    if owner in ("math", "cmath"):
        theirs = _OTHER_NAMES.get(function, f"np.{function}")
        return f"Use {theirs}" if theirs[:3] != "np." or _found(f"numpy.{theirs[3:]}") else _PLAIN
    is_of_variable = package not in sys.modules and hasattr(np.ndarray, function)  # `A.T.dot`
    if (owner == "numpy.ndarray" or is_of_variable) and hasattr(np, function):
        return f"Use np.{function}"
    if owner == "numpy" and function in np.sctypeDict:
        return f"Use t.astype(np.{function})"
    if owner.startswith("scipy.sparse.") and isinstance(_found(owner), type):
        return _SPARSE_HINT
    if package in ("numpy", "scipy"):
        if _follows(name):
            return f"Use tracker.{name}"
        public, is_private, _ = name.partition("._")
        return f"Use tracker.{public}" if is_private else _PLAIN
    holder = _found(owner)
    if isinstance(holder, type) and hasattr(holder, "to_numpy"):
        return f"Use its .to_numpy(), as a {holder.__name__} holds plain numbers"
    return _PLAIN


def _split(name: str) -> tuple[str, list[str]]:
    """The imported module that a dotted name begins with, and the attributes that follow."""
    parts = name.split(".")
    count = len(parts)
    while count and ".".join(parts[:count]) not in sys.modules:
        count -= 1
    return ".".join(parts[:count]), parts[count:]


def _found(name: str) -> Any:
    """What has a dotted name; None if nothing has."""
    module, path = _split(name)
    return functools.reduce(lambda x, part: getattr(x, part, None), path, sys.modules.get(module))


def _follows(name: str) -> bool:
    """Whether a function of NumPy or SciPy has a drop-in that follows tracked values."""
    module, path = _split(name)
    if f"tracker.{module}" not in sys.modules:
        try:
            importlib.import_module(f"tracker.{module}")
        except ImportError:
            return False
    first, dropin = f"{module}.{path[0]}", _found(f"tracker.{name}")
    is_own = _found(f"tracker.{first}") is not _found(first)
    return is_own and dropin is not None and not getattr(dropin, "refuses_tracked", False)
