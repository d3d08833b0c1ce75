"""Reductions inside of kernels: where they accumulate, and how partial results are combined.

`loop_nest.py` tells an `Accumulator` when a loop begins and ends, `loop_body.py` hands it each
element.

Invariant: a result is stored once, by `end` or `end_memory`; the partial results of threads are
left in `%partials`, and the caller combines them (`join`), always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Reduce
from tracker.jit.codegen.loop_order import are_outermost
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import ScalarValue, literal, memory_type
from tracker.jit.schedule.affine import IndexEmitter, linear_position
from tracker.jit.schedule.plan_data import memory_of

if TYPE_CHECKING:
    from tracker.jit.codegen.loop_body import LoopBody
    from tracker.jit.codegen.loop_nest import KernelWriter

_WIDE = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}

_BLOCK = 1024  # elements of a block of a sum: few enough for accuracy, and ending it costs 3%
_MIN_BLOCK = 8  # elements; a row of fewer is unrolled, its additions are part of the loop around it
_VECTORS = 32  # steps of a block are a multiple: its last ones are vectors, too


def block_of_sums(extents: Sequence[int]) -> tuple[int, int]:
    """The loop of a nest at whose end a block of sums ends (-1: none), and after how many of its
    steps a block ends before (0: never).

    A block is a row: rows that do not wait for each other's sums overlap. Only short rows share
    one, and long rows have several; so has a sum of a single row of any length, for equal texts.
    """
    inside = 1
    for depth in reversed(range(len(extents))):
        size = inside * extents[depth]
        if size >= _MIN_BLOCK:
            is_long = size > 2 * _BLOCK or len(extents) == 1
            return depth, _BLOCK // (inside * _VECTORS) * _VECTORS if is_long else 0
        inside = size
    return -1, 0


class Accumulator:
    """A reduction of a kernel, accumulated in a register or in the result's memory.

    Where the kept axes are the outer loops, the accumulator is a register, initialised before the
    first reduced loop and stored after it; otherwise every step adds to memory, or every innermost
    loop, if that axis is reduced (`by_rows`). A long sum is added up by blocks, so that its error
    does not grow with its length: blocks of single precision are added in double precision, others
    with compensation (`lost`).
    """

    def __init__(self, writer: KernelWriter, eqn: Eqn, at: int) -> None:
        self.writer = writer
        self.eqn = eqn
        self.at = at
        lower = eqn.op.lower
        assert isinstance(lower, Reduce)
        self.lower = lower
        self.dtype = eqn.out.type.dtype
        self.location = writer.plan.locations[eqn.out]
        self.cell = f"%acc{at}"
        shape = eqn.operands[0].type.shape
        self.axis = eqn.params["axis"]
        self.kept = [i for i in range(len(shape)) if i not in self.axis]
        self.count = 1
        for i in self.axis:
            self.count *= shape[i]
        self.depth = 0 if writer.flat else len(self.kept)
        self.in_register = writer.flat or are_outermost(self.kept, writer.order)
        if self.in_register and self.depth == len(writer.space):
            self.in_register = False  # nothing is reduced: plain stores
        innermost = writer.order[-1] if writer.order else -1
        self.by_rows = lower.reorder and not self.in_register and innermost in self.axis
        if self.by_rows:
            self.depth = len(writer.space) - 1
        self.has_cell = self.in_register or self.by_rows
        self.total, self.lost = f"%total{at}", f"%lost{at}"
        strides = self.location.strides
        keeps = len(strides) == len(shape)  # reduced axes are kept with extent 1
        self.strides = tuple(strides[i] for i in self.kept) if keeps else strides

    @property
    def blocked(self) -> bool:
        """Whether blocks end inside of the reduction."""
        depth, steps = self.writer.block
        is_sum = self.lower.blocks and self.dtype.kind in "fc"
        return is_sum and self.has_cell and self.depth < depth + bool(steps)

    @property
    def summed(self) -> np.dtype[Any]:
        """The dtype of totals."""
        return _WIDE.get(self.dtype, self.dtype) if self.blocked else self.dtype

    @property
    def compensated(self) -> bool:
        return self.blocked and self.summed == self.dtype

    def declare(self) -> None:
        cells = [(self.cell, self.dtype)] if self.has_cell else []
        cells += [(self.total, self.summed)] if self.blocked else []
        cells += [(self.lost, self.summed)] if self.compensated else []
        for cell, dtype in cells:
            self.writer.head.append(f"  {cell} = alloca {memory_type(dtype)}")

    def identity(self) -> ScalarValue:
        return literal(self.lower.identity(self.dtype), self.dtype)

    def is_identity(self, x: ScalarValue) -> bool:
        """Whether a number is a literal that changes nothing."""
        return x.value is not None and x.name == self.identity().name

    def start(self, depth: int) -> None:
        if self.has_cell and depth == self.depth:
            self.writer.e.store(self.identity(), self.cell)
            if self.blocked:
                nothing = literal(self.lower.identity(self.summed), self.summed)
                self.writer.e.store(nothing, self.total)
                if self.compensated:
                    self.writer.e.store(nothing, self.lost)

    def end_block(self) -> None:
        """Add a block to the total, if there are blocks."""
        if not self.blocked:
            return
        e = self.writer.e
        block = e.cast(e.load(self.cell, self.dtype), self.summed)
        old_total = e.load(self.total, self.summed)
        total = self.lower.combine(e, old_total, block)
        if self.compensated:  # Knuth's exact error of a sum
            added = e.sub(total, old_total)
            error = e.add(e.sub(old_total, e.sub(total, added)), e.sub(block, added))
            e.store(e.add(e.load(self.lost, self.summed), error), self.lost)
        e.store(total, self.total)
        e.store(self.identity(), self.cell)

    def _summed(self) -> ScalarValue:
        """The reduced value."""
        e: Emitter = self.writer.e
        if not self.blocked:
            return e.load(self.cell, self.dtype)
        total = e.load(self.total, self.summed)
        if not self.compensated:
            return total
        lost = e.load(self.lost, self.summed)  # NaN if the total is infinite
        return e.select(e.isnan(lost), total, e.add(total, lost))

    def end(self, depth: int, index: tuple[Any, ...]) -> None:
        if depth == self.writer.block[0]:
            self.end_block()
        if self.has_cell and depth == self.depth:
            self.writer.effects += 1
            acc = self._summed()
            if self.by_rows:
                part = self.writer.e.cast(acc, self.dtype)
                self._add(part, self._address(index, self.writer.tools({})))
                return
            if self.joined and self.writer.threads > 1:
                e, row = self.writer.e, self.at * self.writer.threads
                which = e.write(f"add i64 %tid, {row}")
                e.store(acc, e.write(f"getelementptr i64, ptr %partials, i64 {which}"))
                return
            acc = self.writer.e.cast(self._finished(acc), self.dtype)
            self.writer.e.store(acc, self._address(index, self.writer.tools({})))

    @property
    def joined(self) -> bool:
        """Whether the caller combines the results of threads; else each is one thread's."""
        return self.depth == 0

    def join(self, e: Emitter, parts: Sequence[ScalarValue]) -> ScalarValue:
        """The result of the partial results of threads."""
        while len(parts) > 1:
            rest = parts[len(parts) // 2 * 2 :]
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [*(self.lower.combine(e, a, b) for a, b in pairs), *rest]
        finish = self.lower.finish
        return e.cast(parts[0] if finish is None else finish(e, parts[0], self.count), self.dtype)

    def _finished(self, acc: ScalarValue) -> ScalarValue:
        return (
            acc if self.lower.finish is None else self.lower.finish(self.writer.e, acc, self.count)
        )

    def _address(self, index: Sequence[Any], tools: IndexEmitter) -> str:
        kept = () if self.writer.flat else [index[i] for i in self.kept]
        flat = linear_position(kept, () if self.writer.flat else self.strides)
        return self.writer.target(self.location, flat, tools)

    def add(self, x: ScalarValue, body: LoopBody) -> None:
        if self.is_identity(x):
            return
        self.writer.effects += 1
        where = self.cell if self.has_cell else self._address(body.index, body.tools)
        self.writer.e.reassociate = self.lower.reorder
        self._add(x, where)
        self.writer.e.reassociate = False

    def _add(self, x: ScalarValue, where: str) -> None:
        e = self.writer.e
        e.store(self.lower.combine(e, e.load(where, self.dtype), x), where)

    def start_memory(self) -> None:
        if not self.in_register:
            self._over_result(lambda where: self.writer.e.store(self.identity(), where))

    def end_memory(self) -> None:
        if not self.in_register and self.lower.finish is not None:
            e = self.writer.e
            self._over_result(
                lambda where: e.store(self._finished(e.load(where, self.dtype)), where)
            )

    def _over_result(self, act: Callable[[str], None]) -> None:
        """A loop over the result's memory."""
        size = self.eqn.out.type.size
        pointer, _ = self.writer.pointer(memory_of(self.location), 0)
        self.writer.loop_over(
            "0",
            str(size),
            1,
            lambda counter: act(self.writer.e.address(pointer, self.dtype, counter)),
        )
