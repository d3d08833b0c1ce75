"""Python's operators of tracked arrays.

`install_operator` gives an op the methods of its operator. If the op refuses the other operand,
`defers_to` decides as Python and NumPy do whether the operand's own reflected method gets its turn,
and `refused_as_array` converts it otherwise; numbers and arrays never reach this path, so they cost
nothing. Lists become arrays, and `[1, 2] * t` repeats the list.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import mul
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError
from tracker.ir.op import Op
from tracker.ops.declare.arguments import as_array
from tracker.support.array_likes import is_labelled
from tracker.tape.record import apply, apply_binary, as_numeric, aval_of, holds_tracked
from tracker.tape.tracked import install

_DEFAULT_PRIORITY = -1000000.0  # NumPy's, of objects without `__array_priority__`
_PYTHON_NUMBERS = (bool, int, float, complex)


def defers_to(other: Any, method: str, number: Any) -> bool:
    """Whether an operator with a tracked operand returns NotImplemented, so that Python tries
    `method` of the other operand: Python numbers always defer, arrays by priority, 0-d arrays to
    non-arrays; none to arrays with labels, which have deferred."""
    cls, aval = type(other), aval_of(number)
    if getattr(cls, "__array_ufunc__", cls) is None:
        return True
    if isinstance(other, np.ndarray) or not hasattr(cls, method) or is_labelled(other):
        return False
    if type(aval) in _PYTHON_NUMBERS:
        return True
    if getattr(other, "__array_priority__", _DEFAULT_PRIORITY) > aval.__array_priority__:
        return True
    return np.ndim(aval) == 0 and as_numeric(other) is None


def refused_as_array(x: Any, number: Any) -> Any:
    """The operand as an array; called while handling the error that refused it, which is raised
    again if there is no array."""
    if holds_tracked(x):
        return as_array(x)
    converted = None if type(aval_of(number)) in _PYTHON_NUMBERS else as_numeric(x)
    if converted is None:
        raise
    return converted


_COMPARISONS = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}


def install_operator(op: Op, operator: Callable[..., Any] | None) -> None:
    if operator is None:
        return
    name = operator.__name__.strip("_")
    if op.arity == 1:
        install(f"__{name}__")(lambda self: apply(op, (self,)))
        return
    reflected = f"__{_COMPARISONS.get(name, f'r{name}')}__"
    if op.constant:
        method = binary_operator(op, reflected)
        install(f"__{name}__")(_equality(op, method) if name in ("eq", "ne") else method)
        if name not in _COMPARISONS:  # Python reflects these itself: 2 < t is t > 2
            install(reflected)(reflected_operator(op))
        return
    install(f"__{name}__")(_operator_method(op, reflected))
    install(reflected)(_reflected_method(op))


_NOT_NUMERIC = (NoneType, str, bytes, type, dict, set, FunctionType, BuiltinFunctionType)


def binary_operator(op: Op, reflected: str) -> Callable[..., Any]:
    """The method of an operator; `reflected` names the right operand's method."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, (list, tuple)):
            other = as_array(other)
        try:
            return apply(op, (self, other))
        except UnsupportedError:
            if defers_to(other, reflected, self):
                return NotImplemented
            return apply(op, (self, refused_as_array(other, self)))

    return method


def reflected_operator(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, (list, tuple)):
            other = as_array(other)
        try:
            return apply(op, (other, self))
        except UnsupportedError:
            return apply(op, (refused_as_array(other, self), self))

    return method


def _equality(op: Op, compare: Callable[..., Any]) -> Callable[..., Any]:
    """`==` or `!=`, which compare with non-numeric objects (None, strings) as Python does."""

    def method(self: Any, other: Any) -> Any:
        cls = type(other)
        if cls in _NOT_NUMERIC or (cls in (list, tuple) and type(aval_of(self)) in _PYTHON_NUMBERS):
            return op.evaluate(aval_of(self), other)
        return compare(self, other)

    return method


def _operator_method(op: Op, reflected: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        try:
            return apply_binary(op, self, other)
        except (UnsupportedError, ConversionError) as error:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            if isinstance(error, UnsupportedError) and defers_to(other, reflected, self):
                return NotImplemented
            return apply_binary(op, self, _refused_operand(other, self, error))

    return method


def _reflected_method(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) is complex:
            other = _complex_operand(other, aval_of(self))
        try:
            return apply_binary(op, other, self)
        except (UnsupportedError, ConversionError) as error:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            return apply_binary(op, _refused_operand(other, self, error), self)

    return method


def _refused_operand(x: Any, number: Any, error: Exception) -> Any:
    """The array in place of an operand that `error` refused; called while handling it."""
    if isinstance(error, UnsupportedError):
        return refused_as_array(x, number)
    if not isinstance(x, (list, tuple)):
        raise
    return as_array(x)


def is_sequence_repeat(op: Op, x: Any, n: Any) -> bool:
    """Whether `x * n` repeats a sequence."""
    sequence = isinstance(x, (list, tuple, str, bytes, bytearray))
    return sequence and op.evaluate is mul and isinstance(aval_of(n), (int, np.integer))


def _complex_operand(number: complex, aval: Any) -> Any:
    """Python's complex beside a 0-d float64 array, which must not be treated as a Python float (see
    `_is_complex_with_float64`)."""
    if type(aval) is not np.ndarray or aval.ndim or aval.dtype != np.float64:
        return number
    return np.complex128(number)
