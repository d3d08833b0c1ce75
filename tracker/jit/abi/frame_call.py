"""Calls of a plan by Python: for loops that run while the code around them is traced.

An entry (`entry.py`) takes a quarter of a microsecond for a call, and LLVM a third of its time for
a short loop. Here Python checks the arguments and fills in the frame, in some ten microseconds: a
loop takes longer, and is called seldom.

Invariants: the frame is that of `entry.py`; no argument is written to, results are new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.jit.abi.loader import frame_function, prepare_module
from tracker.jit.guards.signature import ArrayLeaf, ArrayOut, ScalarLeaf, ScalarOut, slot_offsets
from tracker.jit.llvm.engine import Module
from tracker.jit.runtime.c_symbols import use_block_allocator
from tracker.support.array_copies import data_address
from tracker.support.errstate import are_errors_reported
from tracker.support.structs import record

_TEXT = """\
define i64 @call(ptr %slots) {
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @plan(ptr %slots) alwaysinline
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
}
"""
_WORD = 8  # bytes of a slot


@record(frozen=True, eq=False)
class FrameCall:
    """A compiled plan for arguments of these leaves. `function` takes the frame's address."""

    leaves: tuple[ArrayLeaf | ScalarLeaf, ...]
    outputs: tuple[ArrayOut | ScalarOut, ...]
    module: Module
    kept_alive: tuple[Any, ...]
    function: Callable[[int], int]

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The results for arguments of these leaves; None where a guard fails, or where NumPy is
        told to report floating-point errors."""
        if are_errors_reported():
            return None
        given, made = slot_offsets(self.leaves), slot_offsets(self.outputs)
        frame = np.zeros(given[-1] + made[-1], np.int64)
        for at, leaf, value in zip(given, self.leaves, values, strict=False):
            if isinstance(leaf, ArrayLeaf):
                frame[at] = data_address(value)
            else:
                _write_number(frame[at : at + leaf.slots], leaf, value)
        results = []
        for at, leaf in zip(made, self.outputs, strict=False):
            slots = frame[given[-1] + at :][: leaf.slots]
            if isinstance(leaf, ArrayOut):
                with use_block_allocator():
                    results.append(np.empty(leaf.shape, leaf.dtype))
                slots[0] = data_address(results[-1])
            else:
                results.append(slots)
        if self.function(data_address(frame)):
            return None
        pairs = zip(self.outputs, results, strict=True)
        return tuple([x if isinstance(leaf, ArrayOut) else _number(x, leaf) for leaf, x in pairs])


def link_call(
    plan: str,
    leaves: tuple[ArrayLeaf | ScalarLeaf, ...],
    outputs: tuple[ArrayOut | ScalarOut, ...],
    level: int,
    symbols: Mapping[str, int],
    kept_alive: Sequence[Any],
) -> FrameCall:
    """A call of `plan`, IR text that defines `internal i64 @plan(ptr)`; results are in C order."""
    prepared = prepare_module(plan, _TEXT, symbols, kept_alive)
    module = prepared.compile(level)
    function = frame_function(module.address("call"))
    return FrameCall(leaves, outputs, module, prepared.kept_alive, function)


def _part_dtype(leaf: ScalarLeaf) -> Any:
    """The dtype of a slot's number: complex numbers have two."""
    return np.dtype(f"f{leaf.dtype.itemsize // 2}") if leaf.dtype.kind == "c" else leaf.dtype


def _write_number(slots: Any, leaf: ScalarLeaf, value: Any) -> None:
    kind = leaf.dtype.kind
    if kind in "bi":
        slots[0] = value
    elif kind == "u":
        slots.view(np.uint64)[0] = value
    else:
        step = _WORD // _part_dtype(leaf).itemsize
        slots.view(_part_dtype(leaf))[::step] = (value.real, value.imag) if kind == "c" else value


def _number(slots: Any, leaf: ScalarOut) -> Any:
    if leaf.dtype.kind == "b":
        return leaf.cls(bool(slots[0]))
    step = _WORD // _part_dtype(leaf).itemsize
    parts = slots.view(_part_dtype(leaf))[::step]
    return leaf.cls(complex(*parts) if leaf.dtype.kind == "c" else parts[0])
