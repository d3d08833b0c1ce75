"""Numbers in LLVM text: types of dtypes, registers, literals, and what a module must contain.

A literal is a `ScalarValue` whose name is the literal itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.jit.llvm.function_writer import RoutineText
from tracker.jit.llvm.text_writer import SsaNames as SsaNames
from tracker.jit.runtime import ufunc_loops

_BOOL = np.dtype(bool)
_LLVM_TYPES = {
    **{np.dtype(f"{kind}{size}"): f"i{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)},
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    _BOOL: "i1",
}
# A complex number is two registers; these are its parts and its type in memory.
_COMPLEX_PARTS: dict[np.dtype[Any], tuple[np.dtype[Any], str]] = {
    np.dtype(np.complex64): (np.dtype(np.float32), "[2 x float]"),
    np.dtype(np.complex128): (np.dtype(np.float64), "[2 x double]"),
}
SUPPORTED = frozenset({*_LLVM_TYPES, *_COMPLEX_PARTS})


def llvm_type(dtype: np.dtype[Any]) -> str:
    """The register type of a dtype."""
    return _LLVM_TYPES[dtype]


def memory_type(dtype: np.dtype[Any]) -> str:
    """The type of an element in memory: a bool takes a byte."""
    if dtype in _COMPLEX_PARTS:
        return _COMPLEX_PARTS[dtype][1]
    return "i8" if dtype == _BOOL else _LLVM_TYPES[dtype]


class ScalarValue:
    """A number in a register, or a literal."""

    __slots__ = ("dtype", "name", "value")

    def __init__(self, name: str, dtype: np.dtype[Any], value: Any = None) -> None:
        self.name = name
        self.dtype = dtype
        self.value = value  # of a literal

    def __str__(self) -> str:
        return f"{_LLVM_TYPES[self.dtype]} {self.name}"


class ComplexValue(ScalarValue):
    """A complex number: two real ones."""

    __slots__ = ("im", "re")

    def __init__(self, re: ScalarValue, im: ScalarValue) -> None:
        self.re = re
        self.im = im
        known = re.value is not None and im.value is not None
        value = complex(re.value, im.value) if known else None
        super().__init__(f"{re.name} {im.name}", complex_dtype(re.dtype), value)


def complex_dtype(part: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype of two floats."""
    return next(dtype for dtype, (real, _) in _COMPLEX_PARTS.items() if real == part)


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a complex dtype's two parts; another dtype itself."""
    return _COMPLEX_PARTS[dtype][0] if dtype in _COMPLEX_PARTS else dtype


def literal(value: Any, dtype: np.dtype[Any]) -> ScalarValue:
    """A constant."""
    if dtype.kind == "c":
        number, part = complex(value), part_dtype(dtype)
        return ComplexValue(literal(number.real, part), literal(number.imag, part))
    if isinstance(value, (complex, np.complexfloating)) and dtype != _BOOL:
        value = value.real
    if dtype.kind == "f":
        number = float(dtype.type(value))
        return ScalarValue(
            f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}", dtype, number
        )
    if dtype == _BOOL:
        return ScalarValue("true" if value else "false", dtype, bool(value))
    return ScalarValue(str(int(value)), dtype, int(value))


def _memory_literal(number: ScalarValue) -> str:
    """A constant as it is written in memory."""
    if isinstance(number, ComplexValue):
        part = memory_type(number.re.dtype)
        return f"[{part} {number.re.name}, {part} {number.im.name}]"
    return str(int(number.value)) if number.dtype == _BOOL else number.name


class ModuleNeeds:
    """What a module's code calls: math functions as (name, LLVM type), intrinsics, ufunc loops, and
    Python callbacks, each as its equation.

    In loops math functions are inlined, to be vectorised; `calls` counts those in straight-line
    code, where a function used often is called, so that long traces compile in linear time, and
    `general_calls` are those that a loop calls in their general form.
    """

    def __init__(self) -> None:
        self.math: set[tuple[str, str]] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.general_calls: set[tuple[str, str]] = set()
        self.intrinsics: set[str] = set()
        self.routines: dict[str, RoutineText] = {}  # in modules of their own
        self.tables: dict[str, str] = {}  # contents -> name
        self.ufunc_loops: set[ufunc_loops.UfuncLoop] = set()
        self.callbacks: list[Eqn] = []

    def table(self, values: Sequence[Any], dtype: np.dtype[Any]) -> str:
        """The name of a global that holds numbers."""
        kind = memory_type(dtype)
        cells = [f"{kind} {_memory_literal(literal(value, dtype))}" for value in values]
        text = f"[{len(cells)} x {kind}] [{', '.join(cells)}]"
        return self.tables.setdefault(text, f"@table{len(self.tables)}")
