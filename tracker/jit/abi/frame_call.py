"""Calls of a plan by Python: for loops that run while the code around them is traced.

An entry (`entry.py`) takes a quarter of a microsecond for a call, and LLVM a third of its time for
a short loop. Here Python checks the arguments and fills in the frame, in some ten microseconds: a
loop takes longer, and is called seldom.

Invariants: the frame is that of `entry.py`; no argument is written to, results are new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from struct import Struct
from typing import Any, TypeAlias

import numpy as np

from tracker.jit.abi.loader import array_address, frame_function, prepare_module
from tracker.jit.guards.signature import ArrayLeaf, ArrayOut, ScalarLeaf, ScalarOut, slot_offsets
from tracker.jit.runtime.c_symbols import use_block_allocator
from tracker.jit.runtime.cpython_layout import BIG_BYTES
from tracker.support.errstate import are_errors_reported

NativeLeaf: TypeAlias = ArrayLeaf | ScalarLeaf

_SHORT = """\
define i64 @call(ptr %slots) {
  %status = call i64 @plan(ptr %slots) alwaysinline
  ret i64 %status
}
"""
_LONG = """\
define i64 @call(ptr %slots) {
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @plan(ptr %slots) alwaysinline
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
}
"""
_FLOATS = {2: "e6x", 4: "f4x", 8: "d"}
_INTEGERS = {1: "b7x", 2: "h6x", 4: "i4x", 8: "q"}


class FrameCall:
    """A call of `plan`, IR text that defines `internal i64 @plan(ptr)`, for arguments of these
    leaves. Results are in C order. `releases_gil`: the plan takes long."""

    def __init__(
        self,
        plan: str,
        leaves: Sequence[NativeLeaf],
        outputs: Sequence[ArrayOut | ScalarOut],
        level: int,
        symbols: Mapping[str, int],
        kept_alive: Sequence[Any],
        *,
        releases_gil: bool,
    ) -> None:
        prepared = prepare_module(plan, _LONG if releases_gil else _SHORT, symbols, kept_alive)
        self.module, self._kept_alive = prepared.compile(level), prepared.kept_alive
        self._function = frame_function(self.module.address("call"))
        self._leaves, self._outputs = leaves, outputs
        given, made = (slot_offsets(each)[-1] for each in (leaves, outputs))
        self._slot_count, self._first_result = given + made, 8 * given
        self._filled = Struct("=" + "".join(map(_argument_format, (*leaves, *outputs))))
        self._numbers = Struct("=" + "".join(map(_result_format, outputs)))
        self._arrays = [leaf for leaf in outputs if isinstance(leaf, ArrayOut)]
        sizes = [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self._arrays]
        self._is_big = max(sizes, default=0) >= BIG_BYTES

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether arguments, at the first look, have these leaves."""
        return all(map(_fits, self._leaves, values))

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The results for arguments of these leaves; None where a guard fails, or where NumPy is
        told to report floating-point errors."""
        if are_errors_reported():
            return None
        given: list[Any] = []
        for leaf, x in zip(self._leaves, values, strict=True):
            if isinstance(leaf, ArrayLeaf):
                given.append(array_address(x))
            elif leaf.dtype.kind == "c":
                given += x.real, x.imag
            else:
                given.append(x)
        with use_block_allocator() if self._is_big else nullcontext():
            arrays = [np.empty(leaf.shape, leaf.dtype) for leaf in self._arrays]
        made = map(array_address, arrays)
        for leaf in self._outputs:
            given += [next(made)] if isinstance(leaf, ArrayOut) else [0] * leaf.slots
        frame = np.empty(self._slot_count, np.int64)
        self._filled.pack_into(frame.data, 0, *given)
        if self._function(array_address(frame)):
            return None
        numbers = iter(self._numbers.unpack_from(frame.data, self._first_result))
        found = iter(arrays)
        return tuple(
            [
                next(found) if isinstance(leaf, ArrayOut) else _number(leaf, numbers)
                for leaf in self._outputs
            ]
        )


def _fits(leaf: NativeLeaf, x: Any) -> bool:
    if isinstance(leaf, ScalarLeaf):
        cls: type = type(x)
        return cls is leaf.cls and (cls is not int or -(2**63) <= x < 2**63)
    if type(x) is not np.ndarray or x.dtype is not leaf.dtype or x.shape != leaf.shape:
        return False
    flags = x.flags
    return leaf.strides is None and flags.c_contiguous and flags.aligned


def _argument_format(leaf: NativeLeaf) -> str:
    """The format of an argument, of integers widened, and of the address of a result."""
    if isinstance(leaf, ArrayLeaf):
        return "Q"
    if isinstance(leaf, ScalarOut):
        return "Q" * leaf.slots
    kind, size = leaf.dtype.kind, leaf.dtype.itemsize
    if kind in "fc":
        return _FLOATS[size // leaf.slots] * leaf.slots
    return {"b": "?7x", "i": "q", "u": "Q"}[kind]


def _result_format(leaf: ArrayOut | ScalarOut) -> str:
    if isinstance(leaf, ArrayOut):
        return "8x"
    kind, size = leaf.dtype.kind, leaf.dtype.itemsize
    if kind in "fc":
        return _FLOATS[size // leaf.slots] * leaf.slots
    return {"b": "q", "i": _INTEGERS[size], "u": _INTEGERS[size].upper().replace("X", "x")}[kind]


def _number(leaf: ScalarOut, numbers: Any) -> Any:
    if leaf.dtype.kind == "c":
        return leaf.cls(complex(next(numbers), next(numbers)))
    return leaf.cls(next(numbers))
