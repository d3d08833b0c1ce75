"""Python's operators of tracked values: which methods an op with an operator gets.

Owns: `install_operator`, and what these methods do with operands that are no numbers: lists become
arrays, sequences are repeated, others are asked for their own operator (`objects.is_left_to`).

Objects of other classes beside tracked values, at operators.

Owns: `defers_to`, which says where a number or array leaves an operator to the object, and
`refused_as_array`, what it takes the object for elsewhere. Both are Python's and NumPy's ways. They
are asked when an op has refused the object: operators with numbers and arrays pay nothing.
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
from tracker.tape.record import apply, apply_binary, as_numeric, aval_of
from tracker.tape.tracked import install

_DEFAULT_PRIORITY = -1000000.0  # the priority in NumPy of what names none
_PYTHON_NUMBERS = (bool, int, float, complex)


def defers_to(other: Any, method: str, number: Any) -> bool:
    """Whether a tracked number or array leaves an operator to the object's `method`: as Python's
    numbers do, and NumPy's to who is to go first, and those without axes to what is no array."""
    cls, form = type(other), aval_of(number)
    if getattr(cls, "__array_ufunc__", cls) is None:
        return True
    if isinstance(other, np.ndarray) or not hasattr(cls, method):
        return False
    if type(form) in _PYTHON_NUMBERS:
        return True
    if getattr(other, "__array_priority__", _DEFAULT_PRIORITY) > form.__array_priority__:
        return True
    return np.ndim(form) == 0 and as_numeric(other) is None


def refused_as_array(x: Any, number: Any) -> Any:
    """The object as an array beside a tracked number; called while it is being refused. Python's
    numbers know no arrays."""
    made = None if type(aval_of(number)) in _PYTHON_NUMBERS else as_numeric(x)
    if made is None:
        raise
    return made


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
    """The method of an operator; `reflected` is that of what stands on the right."""

    def method(self: Any, other: Any) -> Any:
        try:
            return apply(op, (self, other))
        except UnsupportedError:
            if defers_to(other, reflected, self):
                return NotImplemented
            return apply(op, (self, refused_as_array(other, self)))

    return method


def reflected_operator(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        try:
            return apply(op, (other, self))
        except UnsupportedError:
            return apply(op, (refused_as_array(other, self), self))

    return method


def _equality(op: Op, compare: Callable[..., Any]) -> Callable[..., Any]:
    """The operator `==` or `!=`: of no number is the answer known that asks whether it is None."""

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
        except UnsupportedError:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            if defers_to(other, reflected, self):
                return NotImplemented
            return apply_binary(op, self, refused_as_array(other, self))
        except ConversionError:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            return apply_binary(op, self, _refused_list_as_array(other))

    return method


def _reflected_method(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) is complex:
            other = _complex_operand(other, aval_of(self))
        try:
            return apply_binary(op, other, self)
        except UnsupportedError:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            return apply_binary(op, refused_as_array(other, self), self)
        except ConversionError:
            if is_sequence_repeat(op, other, self):
                return other * int(self)
            return apply_binary(op, _refused_list_as_array(other), self)

    return method


def is_sequence_repeat(op: Op, x: Any, n: Any) -> bool:
    """Whether Python's `x * n` says one sequence several times: n is no array."""
    sequence = isinstance(x, (list, tuple, str, bytes, bytearray))
    return sequence and op.evaluate is mul and isinstance(aval_of(n), (int, np.integer))


def _complex_operand(number: complex, form: Any) -> Any:
    """Python's complex as the operand of this array: one without axes is not taken for a float,
    as NumPy's float64 is (see `_is_pythons`)."""
    if type(form) is not np.ndarray or form.ndim or form.dtype != np.float64:
        return number
    return np.complex128(number)


def _refused_list_as_array(x: Any) -> Any:
    """The array of a list; called while the list itself is being refused."""
    if type(x) not in (list, tuple):
        raise
    return as_array(x)
