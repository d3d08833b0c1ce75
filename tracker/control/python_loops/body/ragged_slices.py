"""Slices between numbers of arrays: `x[starts[i] : starts[i + 1]]`, the rows of a sparse matrix.

Their extents differ from iteration to iteration as the numbers do. In a body, such a slice has as
many positions as the longest one, rounded up, of which the first ones mean something
(`growing_values.py`); the rest are some element of the array. All bounds are known before the loop:
they are rows of arrays, or computed of rows alone. That they are in order, within the array, and no
further apart than that, is guarded: other numbers need no other trace.

Invariant: an array that the iterations write is not read so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable, Span
from tracker.ops.indexing.canonical import canonical_index
from tracker.ops.indexing.gather_scatter import HOLE
from tracker.ops.indexing.getitem import gather, getitem
from tracker.ops.shape.create import item
from tracker.tape.record import apply, data_of, wrap
from tracker.tape.tracing.loop_index import Affine, LoopVariable
from tracker.tape.tracked import Tracked
from tracker.tape.value import NO_PARAMS, Value

if TYPE_CHECKING:
    from tracker.control.python_loops.body.iteration_body import IterationBody

_MAX_WASTE = 8  # positions for each one that means something; more take longer than single slices
_SPARE_POSITIONS = 8  # that no slice needs, of each of them
_LEAST_STEP, _STEPS_OF_DOUBLING = 4, 3  # what lengths are rounded up to
_INT = np.dtype(np.intp)


class RaggedSlices:
    """The slices of an iteration. `widths`: their numbers of positions, by the variables of spans;
    `conditions`: what is to be guarded."""

    def __init__(self, body: IterationBody) -> None:
        self.body = body
        self.widths: dict[LoopVariable, Value] = {}
        self.conditions: list[Value] = []
        self._known: dict[tuple[Any, ...], tuple[Value, Span]] = {}

    def read(self, value: Value) -> Any:
        """Write a read of such a slice."""
        base, index = value.operands[0], value.params["index"]
        if value.op is not getitem:
            raise NotRollable("a slice between numbers of arrays is written")
        if base in self.body.dependent:
            raise NotRollable("an array that iterations write is read between bounds of each one")
        extent = len(base.aval)
        if not extent:
            raise NotRollable("an array without elements is read")
        if index[1:] != canonical_index((), np.shape(base.aval))[1:]:
            whole = slice(0, extent, 1)
            base = apply(getitem, (wrap(base),), {"index": (whole, *index[1:])})._value
        at, span = self._positions(index.bounds, extent)
        others = np.shape(base.aval)[1:]
        index = (HOLE, *(slice(0, n, 1) for n in others))
        aval = np.zeros((span.extent, *others), value.aval.dtype)
        made = self.body.emit(gather, (self.body.read(base), at), {"index": index}, aval)
        return self.body.growing.with_spans(value, (span, *[None] * len(others)), made)

    def _positions(self, bounds: tuple[Any, ...], extent: int) -> tuple[Value, Span]:
        """The positions of a slice in an array of this extent, and those that mean something."""
        ends = (0, extent)
        low, high = (
            self._of_all(end if bound is None else bound)
            for bound, end in zip(bounds, ends, strict=True)
        )
        key = id(low), id(high), extent
        if key not in self._known:
            self._known[key] = self._write_positions(low, high, extent)
        return self._known[key]

    def _of_all(self, bound: Any) -> Any:
        """A bound in all iterations."""
        if type(bound) is not Value:
            return bound
        made = self.body.read(bound)
        if type(made) is Value and made in self.body.rows:
            return self.body.rows[made]
        if bound in self.body.dependent:
            raise NotRollable("a slice ends at a number that each iteration computes")
        return wrap(bound)

    def _write_positions(self, low: Any, high: Any, extent: int) -> tuple[Value, Span]:
        if self.body.counts.terms or self.body.iteration.tracer.iterations:
            raise NotRollable("a slice between numbers of arrays, in a loop within another one")
        zeros = np.zeros(self.body.count, _INT)
        start, end = (
            x.astype(_INT) + zeros if type(x) is Tracked else x + zeros for x in (low, high)
        )
        width = end - start
        widths = np.asarray(data_of(width))
        longest = int(np.max(widths, initial=1))
        needed = int(np.sum(widths)) + _SPARE_POSITIONS * len(widths)
        if longest * len(widths) > _MAX_WASTE * needed:
            raise NotRollable("slices of which few are as long as the longest one")
        step = max(_LEAST_STEP, 1 << longest.bit_length() >> _STEPS_OF_DOUBLING)
        most = min(-(-longest // step) * step, extent)
        holds: Any = np.all((start >= 0) & (width >= 0) & (width <= most) & (end <= extent))
        if not data_of(holds):
            raise NotRollable("a slice that is clipped, or counts from the end")
        if type(holds) is Tracked:
            self.conditions.append(holds._value)
        first, count = (self.body.row_input(x, np.intp(0)) for x in (start, width))
        variable = LoopVariable(Affine(most), len(self.widths), int(widths[0]))
        self.widths[variable] = self.body.emit(item, (count,), NO_PARAMS, 0)
        at = self.body.growing.positions_from(first, most, extent)
        return at, Span(Affine(0), Affine.of(0, [(variable, 1)]), most)
