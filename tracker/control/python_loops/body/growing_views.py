"""Views of growing values (`growing_values.py`): subscripts that are the same in all iterations.

A subscript may add new axes, and have any ints and slices along axes that do not grow. Along one
that grows, `:` and `::-1` keep all that means something, slices like `v[1:]` a part of it, and an
int is a position that moves. Writes into views are known, too.

Invariant: a subscript along a growing axis that some iteration would clip, or have no position for,
raises `NotRollable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable, Span, Spans
from tracker.ops.elementwise.comparison import where
from tracker.ops.indexing.canonical import indexed_shape
from tracker.ops.indexing.gather_scatter import HOLE, canonical_entry
from tracker.ops.indexing.getitem import gather, getitem, put, scatter
from tracker.support.structs import record
from tracker.tape.tracing.loop_index import Affine, AffineSubscript, IterationIndex
from tracker.tape.value import NO_PARAMS, Value

if TYPE_CHECKING:
    from tracker.control.python_loops.body.growing_values import GrowingValues


@record()
class _Part:
    """A part of a growing value in the body: its index, with a `HOLE` for each of the `numbers`,
    and its spans; `is_cut`: whether more than what a span leaves meant something before."""

    index: list[Any]
    numbers: list[Value]
    spans: list[Span | None]
    is_cut: bool = False

    def aval(self, whole: Any) -> Any:
        """The form of the part, by that of the value."""
        plain = tuple([0 if entry is HOLE else entry for entry in self.index])
        return np.zeros(indexed_shape(plain, whole.shape), whole.dtype)[()]


class GrowingViews:
    """Writes the equations of views into a body."""

    def __init__(self, growing: GrowingValues) -> None:
        self.growing, self.body = growing, growing.body

    def read(self, value: Value) -> Value:
        """Write a read of a view."""
        (x,) = value.operands
        whole = self.body.read(x)
        part = self._part(value, whole)
        self._know(value, x, tuple(part.spans), is_cut=part.is_cut)
        return self._read_part(part, whole)

    def write(self, value: Value) -> Value:
        """Write a write into a view."""
        x, given = value.operands
        whole: Value = self.body.read(x)
        spans = self.growing.spans_of(x)
        if spans is not None:
            self._know(value, x, spans, is_cut=True)
        if self._is_there(given, x, value):
            self.growing.same[value] = x
            return whole
        part = self._part(value, whole)
        made = self.growing.aligned(given, tuple(part.spans), len(part.spans))
        if part.is_cut:
            kept = self._read_part(part, whole)
            mask = self.growing.mask(tuple(part.spans), kept.aval.shape)
            made = self.body.emit(where, (mask, made, kept), NO_PARAMS, kept.aval)
        op, params = scatter if part.numbers else put, {"index": tuple(part.index)}
        return self.body.emit(op, (whole, made, *part.numbers), params, whole.aval)

    def rearrange(self, value: Value, spans: Spans, aval: Any) -> Value:
        """Write an op that gives the elements of its operand, with these spans."""
        (x,) = value.operands
        self._know(value, x, spans)
        return self.body.emit(value.op, (self.body.read(x),), value.params, aval)

    def _know(self, value: Value, x: Value, spans: Spans, is_cut: bool = False) -> None:
        """Note the spans of a value whose elements are those of another one."""
        if any(spans):
            growing = self.growing
            growing.spans[value] = spans
            for known in (growing.are_parts, *(() if is_cut else (growing.are_zero,))):
                known.update({value} if x in known else ())

    def _is_there(self, given: Any, x: Value, value: Value) -> bool:
        """Whether a write puts what is there already: the last step of `v[:, 0] += y`."""
        if type(given) is not Value or given.op is not getitem or given.operands[0] is not x:
            return False
        return _entries_of(given) == _entries_of(value)

    def _read_part(self, part: _Part, whole: Value) -> Value:
        op, params = gather if part.numbers else getitem, {"index": tuple(part.index)}
        return self.body.emit(op, (whole, *part.numbers), params, part.aval(whole.aval))

    def _part(self, value: Value, whole: Value) -> _Part:
        """The part that a subscript names."""
        x = value.operands[0]
        found = _Part([], [], [])
        spans = iter(self.growing.spans_of(x) or (None,) * whole.aval.ndim)
        extents = iter(whole.aval.shape)
        for entry in _entries_of(value):
            span = None if entry is None else next(spans)
            if entry is None:
                found.index.append(None)
                found.spans.append(None)
            elif isinstance(entry, AffineSubscript):
                if span is not None or entry.width is not None:
                    raise NotRollable("what moves in a subscript of a slice whose extent moves")
                found.index.append(HOLE)
                found.numbers.append(self.growing.position(entry.start, next(extents)))
            elif span is not None:
                self._add_growing(found, entry, span, next(extents))
            else:
                found.index.append(canonical_entry(entry, next(extents), 0))
                found.spans += [None] if isinstance(entry, slice) else []
        if found.numbers and None in found.index[: found.index.index(HOLE)]:
            raise NotRollable("a new axis before a position that moves")
        return found

    def _add_growing(self, part: _Part, entry: Any, span: Span, extent: int) -> None:
        """Add the entry along an axis that grows."""
        if not isinstance(entry, slice):
            if span.width.low < (entry + 1 if entry >= 0 else -entry):
                raise NotRollable("a position of a slice that some iterations may not have")
            part.index.append(HOLE)
            part.numbers.append(self.growing.position(_bound(span, entry), extent))
            return
        step = 1 if entry.step is None else entry.step
        if entry.start is entry.stop is None and step == -1:
            low, high = Affine(extent).minus(span.high), Affine(extent).minus(span.low)
            part.index.append(slice(extent - 1, None, -1))
            part.spans.append(Span(low, high, extent))
        elif step == 1:
            within = _cut(entry, span)
            # What is left out at constant distances from the ends needs no shift to fit others.
            front = max(entry.start or 0, 0)
            back = max(-(entry.stop or 0), 0)
            part.index.append(slice(front, extent - back, 1))
            by, extent = Affine(-front), extent - front - back
            part.spans.append(Span(within.low.plus(by), within.high.plus(by), extent))
            part.is_cut |= within != span
        else:
            raise NotRollable("some positions of a slice whose extent moves")


def _cut(entry: slice, span: Span) -> Span:
    """The part of a span that a slice leaves."""
    start = _bound(span, 0 if entry.start is None else entry.start)
    stop = span.high if entry.stop is None else _bound(span, entry.stop)
    parts = (start.minus(span.low), stop.minus(start), span.high.minus(stop))
    if any(each.low < 0 for each in parts):
        raise NotRollable("a part of a slice that some iterations may not have")
    return Span(start, stop, span.extent)


def _bound(span: Span, at: int) -> Affine:
    """A position within a span, from its end if it is negative."""
    return (span.low if at >= 0 else span.high).plus(Affine(at))


def _entries_of(value: Value) -> tuple[Any, ...]:
    index = value.params.get("index")
    entries = index.entries if isinstance(index, IterationIndex) else None
    if entries is None:
        raise NotRollable("a part of a slice whose extent moves is read or written")
    return entries
