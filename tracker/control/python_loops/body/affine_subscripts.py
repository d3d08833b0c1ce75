"""Parts of arrays at subscripts that move with loops (`tape/tracing/loop_index.py`), read and
written in the iteration of the outer loop, before and after the equation of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker.ops.indexing.canonical import canonical_index
from tracker.ops.indexing.getitem import getitem, put
from tracker.support.structs import record, replace
from tracker.tape.record import apply, aval_of, wrap
from tracker.tape.tracing.loop_index import (
    Affine,
    AffineSubscript,
    IterationIndex,
    LoopVariable,
    Subscripts,
)
from tracker.tape.value import Value

_MAX_WIDTH = 8  # positions of a slice that moves


class NotRollable(Exception):
    """The iterations of a loop are not known to be alike."""


def subscripts_of(access: Value) -> Subscripts:
    """The subscripts of a read of, or a write into, a part of an array, by a basic index."""
    index = access.params["index"]
    if isinstance(index, IterationIndex):
        if index.subscripts is None:
            raise NotRollable("a position wraps around, or a slice changes its length")
        return index.subscripts
    out: list[AffineSubscript | None] = []
    extents = iter(np.shape(access.operands[0].aval))
    for part in index:
        if part is None:
            out.append(None)
            continue
        extent = next(extents)
        if isinstance(part, slice):
            covered = range(*part.indices(extent))
            out.append(AffineSubscript(Affine(covered.start), len(covered), covered.step))
        else:
            out.append(AffineSubscript(Affine(part)))
    return tuple(out)


def index_at(
    subscripts: Sequence[AffineSubscript | None], shape: tuple[int, ...]
) -> tuple[Any, ...]:
    """The index of subscripts in this iteration of the outer loops."""
    plain: list[Any] = []
    for subscript in subscripts:
        if subscript is None:
            plain.append(None)
        elif subscript.width is None:
            plain.append(subscript.start.now)
        else:
            width = subscript.width.now if isinstance(subscript.width, Affine) else subscript.width
            stop = subscript.start.now + width * subscript.step
            plain.append(slice(subscript.start.now, stop if stop >= 0 else None, subscript.step))
    index = canonical_index(tuple(plain), shape)
    if any(p is not None and (p.start.terms or p.grows) for p in subscripts):
        return IterationIndex.of(index, tuple(subscripts))
    return index


def fixed_width(subscript: AffineSubscript) -> int | None:
    """The number of positions of a subscript; None of an int."""
    if isinstance(subscript.width, Affine):
        raise NotRollable("a slice changes its length")
    return subscript.width


def read_affine(array: Any, subscripts: Sequence[AffineSubscript | None]) -> Any:
    index = index_at(subscripts, np.shape(aval_of(array)))
    return apply(getitem, (array,), {"index": index})


def write_affine(array: Any, value: Any, subscripts: Sequence[AffineSubscript | None]) -> Any:
    index = index_at(subscripts, np.shape(aval_of(array)))
    return apply(put, (array, value), {"index": index})


def axes_of(subscripts: Iterable[AffineSubscript | None]) -> int:
    """How many axes a part at these subscripts has."""
    return sum(p is None or p.width is not None for p in subscripts)


def lines_of(start: Affine, step: int, counts: Affine) -> AffineSubscript:
    """The positions that so many iterations name; from the last one on, if an outer loop says how
    many, and they step backwards."""
    if not counts.terms:
        return AffineSubscript(start, counts.const, step)
    if abs(step) != 1:
        raise NotRollable("lines a step apart are read as often as an outer loop says")
    return AffineSubscript(start if step > 0 else start.minus(counts).plus(Affine(1)), counts)


def stack_rows(array: Value, subscripts: Subscripts, variable: LoopVariable, counts: Affine) -> Any:
    """What the iterations read at subscripts that move, as one array with a row per iteration."""
    moving = [
        at for at, p in enumerate(subscripts) if p is not None and p.start.factor(variable) != 0
    ]
    first = [p and replace(p, start=p.start.at_start(variable)) for p in subscripts]
    if len(moving) > 1:
        if counts.terms:
            raise NotRollable(
                "a subscript moves along several axes, as often as an outer loop says"
            )
        return _gathered_rows(array, subscripts, first, variable, counts.const)
    (at,) = moving
    subscript, step = first[at], subscripts[at].start.factor(variable)  # type: ignore[union-attr]
    assert subscript is not None
    front = axes_of(first[:at])
    width = 1 if subscript.width is None else fixed_width(subscript) or 0
    if width > _MAX_WIDTH:
        raise NotRollable("a wide slice moves")
    columns = []
    for column in range(width):
        start = subscript.start.plus(Affine(column * subscript.step))
        lines = lines_of(start, step, counts)
        stack = read_affine(wrap(array), (*first[:at], lines, *first[at + 1 :]))
        stack = np.moveaxis(stack, front, 0) if front else stack
        columns.append(stack if lines.step == step else np.flip(stack, 0))
    return columns[0] if subscript.width is None else np.stack(columns, axis=1 + front)


def _gathered_rows(
    array: Value,
    subscripts: Subscripts,
    first: Sequence[AffineSubscript | None],
    variable: LoopVariable,
    count: int,
) -> Any:
    """Rows at subscripts that move along several axes, such as a diagonal."""
    index: list[Any] = []
    for subscript, start in zip(subscripts, first, strict=True):
        if subscript is None or start is None or start.start.terms:
            raise NotRollable("a subscript moves along several axes, and with an outer loop")
        if subscript.width is None:
            step = subscript.start.factor(variable)
            index.append(start.start.const + step * np.arange(count))
        elif subscript.start.factor(variable):
            raise NotRollable("slices move along several axes")
        else:
            index.append(index_at((start,), (np.shape(array.aval)[len(index)],))[0])
    ints = [at for at, part in enumerate(index) if not isinstance(part, slice)]
    adjacent = ints == list(range(ints[0], ints[-1] + 1))
    made = wrap(array)[tuple(index)]
    return np.moveaxis(made, ints[0], 0) if adjacent and ints[0] else made


@record(frozen=True)
class Span:
    """The positions of an axis of this extent that mean something: from `low` to before `high`."""

    low: Affine
    high: Affine
    extent: int

    @property
    def width(self) -> Affine:
        return self.high.minus(self.low)


Spans: TypeAlias = tuple[Span | None, ...]  # an entry per axis; None: an axis that does not grow


def bounding_subscripts(subscripts: Subscripts) -> Subscripts:
    """Subscripts with all positions of any iteration along the axes that grow."""
    return tuple(
        [
            AffineSubscript(Affine(p.start.low), p.end.high - p.start.low) if p and p.grows else p
            for p in subscripts
        ]
    )


def is_everything(subscripts: Subscripts, shape: tuple[int, ...]) -> bool:
    return subscripts == tuple([AffineSubscript(Affine(0), n) for n in shape])


def spans_of(subscripts: Subscripts) -> Spans:
    """The spans of a part at `bounding_subscripts`, per axis that it has."""
    return tuple(
        [
            _span(subscript)
            for subscript in subscripts
            if subscript is None or subscript.width is not None
        ]
    )


def _span(subscript: AffineSubscript | None) -> Span | None:
    if subscript is None or not subscript.grows:
        return None
    first, end = subscript.start.low, subscript.end.high
    return Span(
        subscript.start.minus(Affine(first)), subscript.end.minus(Affine(first)), end - first
    )


def part_aval(aval: Any, subscripts: Subscripts) -> Any:
    """The form of a part at subscripts that do not grow."""
    shape = [1 if p is None else p.width for p in subscripts if p is None or p.width is not None]
    return np.zeros(shape, aval.dtype)[()]  # type: ignore[arg-type]


def are_apart(a: Subscripts, b: Subscripts) -> bool:
    """Whether two parts of an array never touch in the same iteration."""
    return any(
        min(p.step, q.step) > 0 and min(p.end.minus(q.start).high, q.end.minus(p.start).high) <= 0
        for p, q in zip(filter(None, a), filter(None, b), strict=True)
    )
