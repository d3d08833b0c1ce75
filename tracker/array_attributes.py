"""Array attributes besides the numbers: `.flags`, `.base`, `.strides`, `.device`, and what the
Python array API standard asks for (`__array_namespace__`, DLPack).

None is recorded, as none has a gradient. `__dlpack__` gives numbers out as `np.asarray` does, and
raises where that would lose a gradient.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

import numpy as np

from tracker.errors import UnsupportedError
from tracker.ir.op import METHODS
from tracker.tape.record import aval_of
from tracker.tape.tracing.alias_queries import (
    OWNDATA,
    WRITEABLE,
    WRITEBACKIFCOPY,
    base_of,
    caller_array,
    flags_of,
)
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import current_tracer
from tracker.tape.tracked import Tracked, install

_SET_OUTSIDE = "Set those of what the function is given, or returns, outside of it"


class _TrackedFlags:
    """The flags that the array has in a plain call. Setting one changes nothing and aborts a trace:
    a plain call sets those of the caller's array or of the result."""

    __slots__ = ("_handle",)

    def __init__(self, tracked: Any) -> None:
        object.__setattr__(self, "_handle", tracked)

    def __getattr__(self, name: str) -> Any:
        return getattr(flags_of(self._handle, _mask(name)), name)

    def __getitem__(self, name: str) -> Any:
        return flags_of(self._handle, _mask(name))[name]

    def __setattr__(self, name: str, x: Any) -> None:
        _refuse_while_tracing()
        setattr(_settable_flags(self._handle), name, x)

    def __setitem__(self, name: str, x: Any) -> None:
        _refuse_while_tracing()
        _settable_flags(self._handle)[name] = x

    def __eq__(self, other: object) -> bool:
        theirs = flags_of(other._handle, _ALL_FLAGS) if isinstance(other, _TrackedFlags) else other
        return bool(flags_of(self._handle, _ALL_FLAGS) == theirs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(flags_of(self._handle, _ALL_FLAGS))


# Flags that follow from the layout, which a trace knows; masks of those that it must query.
_LAYOUT_FLAGS = {
    *("c_contiguous", "f_contiguous", "contiguous", "fortran", "forc", "fnc", "aligned"),
    *("C_CONTIGUOUS", "F_CONTIGUOUS", "CONTIGUOUS", "FORTRAN", "FORC", "FNC", "ALIGNED"),
    *("C", "F", "A"),
}
_ALL_FLAGS = WRITEABLE | OWNDATA | WRITEBACKIFCOPY
_FLAG_MASKS = {"writeable": WRITEABLE, "owndata": OWNDATA, "W": WRITEABLE, "O": OWNDATA}


def _mask(name: str) -> int:
    return (
        0
        if name in _LAYOUT_FLAGS
        else _FLAG_MASKS.get(name, _FLAG_MASKS.get(name.lower(), _ALL_FLAGS))
    )


def _settable_flags(tracked: Any) -> Any:
    """The flags of a temporary view, on which they can be set."""
    aval = aval_of(tracked)
    return aval[...].flags if isinstance(aval, np.ndarray) else aval.flags


def _refuse_while_tracing() -> None:
    if current_tracer() is not None:
        raise UnsupportedError("the flags of a traced array are set", _SET_OUTSIDE)


def _flags(self: Any) -> Any:
    resolved = resolve_placeholder(self)
    if resolved is not self:
        return resolved.flags
    aval = aval_of(resolved)
    return _TrackedFlags(resolved) if isinstance(aval, np.ndarray) else aval.flags


def _setflags(self: Any, write: Any = None, align: Any = None, uic: Any = None) -> None:
    _refuse_while_tracing()
    aval_of(resolve_placeholder(self))[...].setflags(write, align, uic)


METHODS["setflags"] = _setflags


def _strides(self: Any) -> Any:
    return np.asarray(caller_array(resolve_placeholder(self))).strides


def _device(self: Any) -> str:
    return "cpu"


Tracked.flags = property(_flags)  # type: ignore[attr-defined]
Tracked.base = property(base_of)  # type: ignore[attr-defined]
Tracked.strides = property(_strides)  # type: ignore[attr-defined]
Tracked.device = property(_device)  # type: ignore[attr-defined]


def _to_device(self: Any, device: str, /, *, stream: Any = None) -> Any:
    if stream is not None:
        raise ValueError('The stream argument in to_device() is not supported for device "cpu"')
    if device != "cpu":
        raise ValueError(f"Unsupported device: {device}")
    return self


METHODS["to_device"] = _to_device


@install("__array_namespace__")
def _namespace(self: Any, *, api_version: Any = None) -> Any:
    """`tracker.numpy`, where arrays that generic code allocates can be written into. SciPy, which
    asks if SCIPY_ARRAY_API is set, gets the namespace that it has for NumPy's arrays: with these
    tracked values may be mixed, and then it calls its ufuncs."""
    np.empty(0).__array_namespace__(api_version=api_version)  # raises as NumPy does
    package = sys._getframe(1).f_globals.get("__name__", "").partition(".common.")[0]
    if package == "scipy._lib.array_api_compat":
        return importlib.import_module(f"{package}.numpy")
    return importlib.import_module("tracker.numpy")


@install("__dlpack_device__")
def _dlpack_device(self: Any) -> tuple[int, int]:
    return np.empty(0).__dlpack_device__()


@install("__dlpack__")
def _dlpack(
    self: Any,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: Any = None,
) -> Any:
    given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    plain = np.asarray(self)  # raises where a gradient would be lost
    return plain.__dlpack__(**{name: x for name, x in given.items() if x is not None})


@install("__delitem__")
def _delete(self: Any, key: Any) -> NoReturn:
    aval = aval_of(resolve_placeholder(self))
    if isinstance(aval, np.ndarray):
        raise ValueError("cannot delete array elements")
    raise TypeError(f"{type(aval).__name__!r} object does not support item deletion")
