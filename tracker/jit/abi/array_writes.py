"""Writes into the caller's arrays, all at the end, when nothing can fail any more.

The plan writes into an array of its own, and the entry copies it when the plan has run: a failing
guard has written nothing.

Invariant: an array that is written shares no memory with another array that the code reads;
otherwise the call is a miss, because the trace assumed them disjoint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.jit.abi.call_checks import ArgumentChecks
from tracker.jit.abi.results import ResultBuilder
from tracker.jit.guards.signature import ArrayLeaf, Outputs
from tracker.jit.runtime.cpython_layout import DATA, FLAGS, WRITEABLE


class ArrayWriteEmitter:
    """The checks before the plan runs, and the copies after it."""

    def __init__(self, inputs: ArgumentChecks, outputs: Outputs, first: int) -> None:
        self.w, self.signature, self.leaf_values = inputs.w, inputs.signature, inputs.leaf_values
        self.writes = outputs.writes
        self.disjoint = outputs.no_alias
        self.first = first
        self._made: list[tuple[str, int]] = []

    def check(self, captures: Sequence[np.ndarray[Any, Any]]) -> None:
        """Written arrays must be writeable, and disjoint from all others."""
        w = self.w
        fixed = [
            (self.signature.offsets[-1] + at, _byte_span(ArrayLeaf(x.dtype, x.shape, x.strides)))
            for at, x in enumerate(captures)
        ]
        arrays = [
            (self.signature.offsets[number], _byte_span(leaf))
            for number, leaf in enumerate(self.signature.leaves)
            if isinstance(leaf, ArrayLeaf)
        ]
        for number, _ in self.writes:
            flags = w.let(f"and i32 {w.load('i32', self.leaf_values[number], FLAGS)}, {WRITEABLE}")
            w.check(w.let(f"icmp ne i32 {flags}, 0"))
        for number in (*(number for number, _ in self.writes), *self.disjoint):
            leaf = self.signature.leaves[number]
            assert isinstance(leaf, ArrayLeaf)
            own = self.signature.offsets[number], _byte_span(leaf)
            for other in (*arrays, *fixed):
                if other[0] != own[0]:
                    self._check_disjoint(own, other)

    def _check_disjoint(
        self, one: tuple[int, tuple[int, int]], two: tuple[int, tuple[int, int]]
    ) -> None:
        w = self.w
        (a, a_end), (b, b_end) = (
            [w.let(f"add i64 {w.load('i64', '%slots', 8 * slot)}, {edge}") for edge in span]
            for slot, span in (one, two)
        )
        before, after = w.let(f"icmp ule i64 {a_end}, {b}"), w.let(f"icmp ule i64 {b_end}, {a}")
        w.check(w.let(f"or i1 {before}, {after}"))

    def allocate(self, results: ResultBuilder) -> None:
        """Allocate the arrays that the plan writes."""
        for at, (_, out) in enumerate(self.writes):
            self._made.append(results.allocate_array(out, self.first + at))

    def copy_back(self) -> None:
        """Copy the results into the caller's arrays."""
        w = self.w
        for (number, out), (made, made_slot) in zip(self.writes, self._made, strict=True):
            target, leaf = self.leaf_values[number], self.signature.leaves[number]
            assert isinstance(leaf, ArrayLeaf)
            if leaf.strides == out.strides:
                size = out.dtype.itemsize * math.prod(out.shape)
                to, source = w.load("ptr", target, DATA), w.load("ptr", made, DATA)
                w.emit(f"call void @native.copy(ptr {to}, ptr {source}, i64 {size})")
            else:
                status = w.let(f"call i32 @PyArray_CopyInto(ptr {target}, ptr {made})")
                w.check(w.equal("i32", status, 0), "fail")
            w.transfer(made_slot)
            w.decref(made)


def _byte_span(leaf: ArrayLeaf) -> tuple[int, int]:
    """The first byte and the end of an array, relative to its data address."""
    size = leaf.dtype.itemsize
    if leaf.strides is None or 0 in leaf.shape:
        return 0, size * math.prod(leaf.shape)
    reach = [(n - 1) * stride for n, stride in zip(leaf.shape, leaf.strides, strict=True)]
    return sum(r for r in reach if r < 0), size + sum(r for r in reach if r > 0)
