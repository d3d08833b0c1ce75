"""The text of literals, params and dtypes; `text.py` has the grammar.

Invariant: a number reads back with the same bits, whatever kind of NaN it is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from tracker.ir.graph import Function
from tracker.ir.types import DTYPE_NAMES, Bundle, Type

# Bytes of the widest number that hold its value: the rest of an x86 long double is padding.
_LONG_DOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else 16


def print_type(type: Type) -> str:
    """Like `str(type)`; a dtype without a short name is printed in the grammar's form."""
    if isinstance(type, Bundle):
        return f"({', '.join(map(print_type, type.parts))})"
    if type.weak or type.dtype in DTYPE_NAMES:
        return str(type)
    return f"{_print_dtype(type.dtype)}[{','.join(map(str, type.shape))}]"


def print_value(value: Any, functions: dict[Function, str] | None = None) -> str:
    """The text of a literal or a param; `functions` names the nested functions in it."""
    show = _PRINTERS.get(value.__class__)
    if show is not None:
        return show(value)
    if isinstance(value, (tuple, list, slice)) and type(value) in (tuple, list, slice):
        return _print_sequence(value, functions)
    if isinstance(value, np.generic):
        return _print_scalar(value)
    if isinstance(value, np.dtype):
        return _print_dtype(value)
    if functions is not None and isinstance(value, Function) and value in functions:
        return f"@{functions[value]}"
    return f"<object: {type(value).__name__}>"


def _print_sequence(
    value: tuple[Any, ...] | list[Any] | slice, functions: dict[Function, str] | None
) -> str:
    items = (value.start, value.stop, value.step) if isinstance(value, slice) else value
    text = ", ".join([print_value(item, functions) for item in items])
    if isinstance(value, list):
        return f"[{text}]"
    if isinstance(value, slice):
        return f"slice({text})"
    return f"({text},)" if len(value) == 1 else f"({text})"


def _print_scalar(value: np.generic) -> str:
    name = _print_dtype(value.dtype)
    if isinstance(value, np.complexfloating):
        return f"{name}({_print_float(value.real)},{_print_float(value.imag)})"
    if isinstance(value, np.floating):
        return f"{name}({_print_float(value)})"
    if isinstance(value, (np.bool_, np.integer)):
        return f"{name}({value!s})"
    return f"<object: {type(value).__name__}>"


def _print_float(value: Any) -> str:
    """The shortest digits that read back; an unusual NaN is printed as its bytes."""
    if value == value:
        return repr(value) if value.__class__ is float else str(value)
    bits = _bits(value)
    return "nan" if bits == _bits(type(value)("nan")) else f"nan:{bits.hex()}"


def _bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()[:_LONG_DOUBLE_BYTES]


def _print_dtype(dtype: np.dtype[Any]) -> str:
    return DTYPE_NAMES.get(dtype) or f"dtype{dtype.str!r}"


_PRINTERS: dict[type, Callable[[Any], str]] = {
    bool: repr,
    int: repr,
    float: _print_float,
    complex: lambda v: f"complex({_print_float(v.real)},{_print_float(v.imag)})",
    str: repr,
    NoneType: repr,
    EllipsisType: lambda v: "...",
}


def read_number(text: str) -> int | float:
    if text.startswith("nan:"):
        return float(read_scalar(np.dtype(np.float64), [text]))
    return int(text) if text.lstrip("-").isdigit() else float(text)


def read_scalar(dtype: np.dtype[Any], texts: list[str]) -> Any:
    if dtype.kind == "b":
        return np.bool_(texts == ["True"])
    if dtype.kind != "c":
        return _numpy_real(dtype, texts[0])
    pair = np.zeros((), dtype)
    pair.real, pair.imag = (_numpy_real(pair.real.dtype, text) for text in texts)
    return pair[()]


def _numpy_real(dtype: np.dtype[Any], text: str) -> Any:
    if text.startswith("nan:"):
        return np.frombuffer(bytes.fromhex(text[4:]).ljust(dtype.itemsize, b"\0"), dtype)[0]
    return dtype.type(text)
