"""Carried arrays of which each iteration makes a shorter one, such as the values at the nodes of a
tree, or differences of differences.

In the body they keep their first shape; a `Span` says which elements they still have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracker.control.python_loops.body.affine_subscripts import NotRollable, Span, Spans
from tracker.ops.indexing.getitem import embed
from tracker.tape.tracing.loop_index import Affine
from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.control.python_loops.body.iteration_body import IterationBody


class ShrinkingArrays:
    """The arrays whose extents are known to move: `extents`, by their values before the
    iteration."""

    def __init__(self, body: IterationBody) -> None:
        self.body, self.extents = body, body.iteration.symbolic.extents
        for start in self.extents:
            body.growing.spans[start] = self._spans(start, 0)

    def _spans(self, start: Value, later: int) -> Spans:
        """The elements that an array has so many iterations later."""
        pairs = zip(self.extents[start], start.aval.shape, strict=True)
        return tuple(
            [
                Span(Affine(0), n.plus(Affine(later * n.factor(self.body.variable))), extent)
                if n.terms
                else None
                for n, extent in pairs
            ]
        )

    def next(self, start: Value, end: Any) -> Any:
        """What the next iteration finds of an array, in the body."""
        growing, shape = self.body.growing, start.aval.shape
        own, wanted = growing.spans_of(end), self._spans(start, 1)
        if own is None:
            raise NotRollable("an array changes its extents at once")
        spans = [
            to and Span(to.low, to.high, span.extent if span else to.extent)
            for span, to in zip(own, wanted, strict=True)
        ]
        made = growing.aligned(end, tuple(spans), len(shape))
        if made.aval.shape == shape:
            return made
        index = tuple([slice(0, n, 1) for n in made.aval.shape])
        return self.body.emit(embed, (made,), {"index": index, "shape": shape}, start.aval)

    def after(self, start: Value, end: Any) -> Any:
        """What an array is after the loop."""
        variable, count = self.body.variable, self.body.count
        left = [
            n.at_start(variable).const + n.factor(variable) * count for n in self.extents[start]
        ]
        return end[tuple([slice(n) for n in left])]
