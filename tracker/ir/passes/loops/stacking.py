"""Stacks: the slices of an array that iterations read, as one array with a row per iteration.

Each stack is written once, however many loops read it. Start at `StackWriter.stack_slices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Const, Var
from tracker.ir.passes.loops.loop_candidates import DeferredUpdate, MovingSlice
from tracker.ir.passes.manager import BodyWriter


class StackWriter(BodyWriter):
    """Writes stacks; `_tables` and `_slices` are those written already, by their contents."""

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[Any, Var] = {}
        self._slices: dict[Any, Var] = {}

    def strided_slice(self, array: Var, axis: int, first: int, by: int, count: int) -> Var:
        """array[first], array[first + by], ... along an axis."""
        last = first + by * (count - 1)
        if (first, by, count) == (0, 1, array.type.shape[axis]):
            return array
        stop = last + (1 if by > 0 else -1)
        index = [slice(0, n, 1) for n in array.type.shape]
        index[axis] = slice(first, None if stop < 0 else stop, by)
        key = array, tuple(map(str, index))
        if key not in self._slices:
            self._slices[key] = self.emit("getitem", array, index=tuple(index))
        return self._slices[key]

    def stack_slices(self, moving: MovingSlice, count: int, reverse: bool) -> Var:
        """The slices as rows, the last one first if the loop runs in reverse."""
        found = moving.index.moving_axis(moving.array.type.shape)
        assert found is not None
        entry, axis = found
        if moving.index.width(entry) > 1:
            return self._stack_wide_slices(moving, entry, count, reverse)
        start, by = moving.index.start(entry), moving.index.by[axis]
        if reverse:
            start, by = start + by * (count - 1), -by
        stack = self.strided_slice(moving.array, axis, start, by, count)
        index = list(moving.index.first)
        index[entry] = slice(0, count, 1)
        full = [slice(0, n, 1) for n in stack.type.shape]
        if index != full:
            stack = self.emit("getitem", stack, index=tuple(index))
        front = result_axis(index, entry)
        if front:
            axes = (front, *(at for at in range(stack.type.ndim) if at != front))
            stack = self.emit("transpose", stack, axes=axes)
        shape = (count, *moving.type.shape)
        return self.reshape(stack, shape)

    def _stack_wide_slices(self, moving: MovingSlice, entry: int, count: int, reverse: bool) -> Var:
        """The same for slices of several positions: stacked position by position."""
        front = result_axis(moving.index.first, entry)
        shape = (*moving.type.shape[:front], 1, *moving.type.shape[front + 1 :])
        columns = [
            MovingSlice(
                moving.array, moving.index.nth_position(entry, at), moving.type.with_shape(shape)
            )
            for at in range(moving.index.width(entry))
        ]
        rows = [self.stack_slices(column, count, reverse) for column in columns]
        return self.emit("concatenate", *rows, axis=front + 1)

    def align_stack(
        self, stack: Var, index: Sequence[Any], entry: int, update: DeferredUpdate
    ) -> Var:
        """A stack with its first axis where the index of an update has it."""
        front = result_axis(index, entry)
        rank = sum(each is None or isinstance(each, slice) for each in index)
        count, *rest = stack.type.shape
        if isinstance(update.index.first[entry], slice) and len(rest) > rank - 1 - front:
            del rest[len(rest) - (rank - front)]  # the extent of 1 that moves
        rest = [1] * (rank - 1 - len(rest)) + rest
        stack = self.reshape(stack, (count, *rest))
        if front:
            axes = (*range(1, front + 1), 0, *range(front + 1, rank))
            stack = self.emit("transpose", stack, axes=axes)
        return stack

    def literal_table(self, values: Sequence[Const]) -> Var:
        numbers = tuple([np.asarray(const.value)[()].item() for const in values])
        dtype = values[0].type.dtype
        key = dtype, np.array(numbers, dtype).tobytes()
        if key not in self._tables:
            self._tables[key] = self.emit("table", values=numbers, dtype=dtype)
        return self._tables[key]


def result_axis(index: Sequence[Any], entry: int) -> int:
    """The axis of array[index] that an entry of the index makes."""
    return sum(each is None or isinstance(each, slice) for each in index[:entry])
