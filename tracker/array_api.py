"""What arrays say of themselves beside their numbers: layout, owner, device, and what the Python
array API standard asks for.

Owns: `.flags`, `.base`, `.device`, `to_device`, `__array_namespace__`, DLPack, `del t[i]`. None of
them is recorded: they bear no gradient, and numbers leave through `__dlpack__` as they do through
`np.asarray`, where nothing is lost.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.ir.op import METHODS
from tracker.tape.observers import current_stage
from tracker.tape.original_arrays import (
    OWNDATA,
    WRITEABLE,
    WRITEBACKIFCOPY,
    base_of,
    flags_of,
    in_memory,
)
from tracker.tape.placeholders import settled
from tracker.tape.record import form_of
from tracker.tape.tracked import Tracked, install

_LOCK = "Set those of what the function is given, or returns, outside of it"


class _Flags:
    """Those of the array that the plain function has. Setting them changes nothing, and ends a
    trace: the plain function sets the caller's, or those of what it returns."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Any) -> None:
        object.__setattr__(self, "_handle", handle)

    def __getattr__(self, name: str) -> Any:
        return getattr(flags_of(self._handle, _mask(name)), name)

    def __getitem__(self, name: str) -> Any:
        return flags_of(self._handle, _mask(name))[name]

    def __setattr__(self, name: str, x: Any) -> None:
        _not_while_tracing()
        setattr(_settable(self._handle), name, x)

    def __setitem__(self, name: str, x: Any) -> None:
        _not_while_tracing()
        _settable(self._handle)[name] = x

    def __eq__(self, other: object) -> bool:
        theirs = flags_of(other._handle, _ANY) if isinstance(other, _Flags) else other
        return bool(flags_of(self._handle, _ANY) == theirs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(flags_of(self._handle, _ANY))


# What a trace knows of an array by its layout, or must look at.
_BY_LAYOUT = {
    *("c_contiguous", "f_contiguous", "contiguous", "fortran", "forc", "fnc", "aligned"),
    *("C_CONTIGUOUS", "F_CONTIGUOUS", "CONTIGUOUS", "FORTRAN", "FORC", "FNC", "ALIGNED"),
    *("C", "F", "A"),
}
_ANY = WRITEABLE | OWNDATA | WRITEBACKIFCOPY
_MASKS = {"writeable": WRITEABLE, "owndata": OWNDATA, "W": WRITEABLE, "O": OWNDATA}


def _mask(name: str) -> int:
    return 0 if name in _BY_LAYOUT else _MASKS.get(name, _MASKS.get(name.lower(), _ANY))


def _settable(handle: Any) -> Any:
    """Flags that can be set, of an array that is nobody's."""
    form = form_of(handle)
    return form[...].flags if isinstance(form, np.ndarray) else form.flags


def _not_while_tracing() -> None:
    if current_stage() is not None:
        raise UnsupportedError(message("the flags of a traced array are set", _LOCK))


def _flags(self: Any) -> Any:
    mine = settled(self)
    if mine is not self:
        return mine.flags
    form = form_of(mine)
    return _Flags(mine) if isinstance(form, np.ndarray) else form.flags


def _setflags(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise UnsupportedError(message(".setflags of a tracked value", _LOCK))


METHODS["setflags"] = _setflags


def _strides(self: Any) -> Any:
    return np.asarray(in_memory(settled(self))).strides


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
    """`tracker.numpy`, in which what generic code allocates can be written into."""
    np.empty(0).__array_namespace__(api_version=api_version)  # raises as NumPy does
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
    plain = np.asarray(self)  # refused where a gradient would be lost
    return plain.__dlpack__(**{name: x for name, x in given.items() if x is not None})


@install("__delitem__")
def _delete(self: Any, key: Any) -> NoReturn:
    form = form_of(settled(self))
    if isinstance(form, np.ndarray):
        raise ValueError("cannot delete array elements")
    raise TypeError(f"{type(form).__name__!r} object does not support item deletion")
