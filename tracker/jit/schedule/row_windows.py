"""Row windows: what a loop reads by rows, of arrays that lie across.

A loop reads contiguous rows. Rows of `x[:, k - 1]`, `x[:, k]` and `x[:, k + 1]` would be three
copies of nearly all of x; instead x is transposed once, and each window is a part of that copy.
"""

from __future__ import annotations

import numpy as np

from tracker.jit.schedule.plan_data import Buffer, InMemory, Location
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record


@record(frozen=True)
class RowWindow:
    """A part of a buffer that is transposed.

    order: the buffer's axis that each axis of the window walks along; start, strides: those of the
    window in a copy of the buffer with its axes in this order.
    """

    buffer: Buffer
    order: tuple[int, ...]
    start: int
    strides: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of the transposed buffer."""
        return tuple(self.buffer.type.shape[axis] for axis in self.order)

    @property
    def whole(self) -> tuple[int, ...]:
        """The strides of the transposed buffer, as it lies in memory."""
        strides = c_strides(self.buffer.type.shape)
        return tuple(strides[axis] for axis in self.order)

    def within(self, copy: Location) -> InMemory:
        """The window in the transposed copy."""
        assert copy.buffer is not None
        return InMemory(copy.ready, copy.buffer, self.strides, self.start)


def row_window(location: Location, shape: tuple[int, ...]) -> RowWindow | None:
    """The window that a value in a dense buffer is, if its rows are contiguous once the buffer is
    transposed; None if it is no window of this kind."""
    assert location.buffer is not None
    whole = location.buffer.type.shape
    strides = c_strides(whole)
    axes: list[int] = []
    steps: list[int] = []
    for step in location.strides:
        axis = next((k for k, stride in enumerate(strides) if stride <= abs(step)), None)
        if axis is None or axis in axes or step % strides[axis]:
            return None
        axes.append(axis)
        steps.append(step // strides[axis])
    if len(axes) != len(whole):
        return None
    first = [int(i) for i in np.unravel_index(location.start, whole)]
    for axis, step, extent in zip(axes, steps, shape, strict=True):
        if not 0 <= first[axis] + step * (extent - 1) < whole[axis]:
            return None
    transposed = c_strides(tuple(whole[axis] for axis in axes))
    window = RowWindow(
        buffer=location.buffer,
        order=tuple(axes),
        start=sum(first[axis] * stride for axis, stride in zip(axes, transposed, strict=True)),
        strides=tuple(i * stride for i, stride in zip(steps, transposed, strict=True)),
    )
    return window if window.strides[1:] == c_strides(shape)[1:] else None
