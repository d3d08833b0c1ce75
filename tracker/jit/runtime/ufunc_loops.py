"""The inner loops of other packages' ufuncs, called for one element from machine code.

A ufunc without a body of ours (most of `scipy.special`) is a table of C functions, one for each
signature of dtypes: `void (char **args, intptr *count, intptr *steps, void *data)`. A call for one
element gives the package's own number without Python, at 20 ns more than an element of an array,
because each call reads the processor's flags; for many elements `jit/kernels/ufunc_calls.py` calls
the loop once. `jit/abi/loader.py` binds the addresses.

Invariants: texts name a loop by ufunc and signature, never by address; loops over Python objects
are never called, because they need the interpreter's lock.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracker.errors import CompileError
from tracker.jit.llvm.function_writer import FunctionWriter, functions_text
from tracker.support.structs import record

_LLVM_TYPES = {
    "d": ("double",),
    "f": ("float",),
    "D": ("double", "double"),
    "F": ("float", "float"),
    "l": ("i64",),
    "q": ("i64",),
    "i": ("i32",),
}
_CELL = "[2 x i64]"  # holds a number of any of these types
_namesakes: Counter[tuple[str, str]] = Counter()  # ufuncs of one name get numbers


@record(frozen=True, eq=False)
class UfuncLoop:
    """Inner loop number `index` of a ufunc: the type letters of its operands and results."""

    symbol: str
    ufunc: np.ufunc
    index: int
    operands: str
    results: str

    def result_registers(self, result: int) -> range:
        """The registers of a call's result that hold one result of the ufunc."""
        before = sum(len(_LLVM_TYPES[letter]) for letter in self.results[:result])
        return range(before, before + len(_LLVM_TYPES[self.results[result]]))

    @property
    def return_type(self) -> str:
        """The LLVM type of a call: all parts of all results."""
        return f"{{ {', '.join(part for r in self.results for part in _LLVM_TYPES[r])} }}"

    def text(self) -> str:
        """The function of numbers. It depends on its operands alone, so that equal calls are
        merged."""
        inputs, outputs = (
            [
                (at, part, kind)
                for at, letter in cells
                for part, kind in enumerate(_LLVM_TYPES[letter])
            ]
            for cells in (enumerate(self.operands), enumerate(self.results, len(self.operands)))
        )
        parameters = [f"{kind} %x{at}.{part}" for at, part, kind in inputs]
        attributes = "noinline nounwind willreturn memory(none)"
        c = FunctionWriter(
            f"{self.symbol}.one", parameters, result=self.return_type, attributes=attributes
        )
        count = len(self.operands + self.results)
        cells = c.array(f"[{count} x {_CELL}]")
        numbers = [c.address(cells, at, _CELL) for at in range(count)]
        args = c.cells_of("ptr", numbers)
        for at, part, kind in inputs:
            c.store(f"%x{at}.{part}", numbers[at], part, kind)
        data = c.load(f"@{self.symbol}.data", kind="ptr")
        pointers = args, "@borrowed.one", "@borrowed.steps", data
        c.call("void", self.symbol, [f"ptr {pointer}" for pointer in pointers])
        result = "poison"
        for field, (at, part, kind) in enumerate(outputs):
            x = f"{kind} {c.load(numbers[at], part, kind)}"
            result = c.let(f"insertvalue {self.return_type} {result}, {x}, {field}")
        c.ret(result)
        return functions_text([c], f"@{self.symbol}.data = external global ptr")


def find(ufunc: np.ufunc, dtypes: Sequence[np.dtype[Any]]) -> UfuncLoop:
    """The loop of a ufunc for operands of these dtypes."""
    return _find_loop(ufunc, "".join(dtype.char for dtype in dtypes))


@functools.cache
def _find_loop(ufunc: np.ufunc, letters: str) -> UfuncLoop:
    found = [types.partition("->") for types in ufunc.types]
    at = next((i for i, (operands, _, _) in enumerate(found) if operands == letters), None)
    if at is None or not set("".join(found[at])) <= {*_LLVM_TYPES, *"->"}:
        raise CompileError(f"{ufunc} has no loop for {letters} that machine code can call")
    _namesakes[ufunc.__name__, letters] += 1
    symbol = f"ufunc.{ufunc.__name__}.{letters}.{_namesakes[ufunc.__name__, letters]}"
    return UfuncLoop(symbol, ufunc, at, letters, found[at][2])


def definitions(loops: Iterable[UfuncLoop]) -> list[str]:
    """The text of the loops' functions and their shared constants."""
    texts = sorted(loop.text() for loop in loops)
    if not texts:
        return []
    shared = [
        "@borrowed.one = internal constant i64 1",
        "@borrowed.steps = internal constant [16 x i64] zeroinitializer",
    ]
    return [*shared, *texts]
