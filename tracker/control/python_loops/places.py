"""Parts of arrays at places that move with loops (`tape/loop_index.py`), read and written in the
iteration of the outer loop, before and after the equation of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker.ops.indexing.canonical import canonical_index
from tracker.ops.indexing.getitem import getitem, put
from tracker.support.structs import record, replace
from tracker.tape.loop_index import Affine, AxisPlace, IterationIndex, LoopVariable, Places
from tracker.tape.record import apply, aval_of, wrap
from tracker.tape.value import Value

_MAX_WIDTH = 8  # positions of a slice that moves


class NotRollable(Exception):
    """The iterations of a loop are not known to be alike."""


def places_of(index: tuple[Any, ...], shape: tuple[int, ...]) -> Places:
    """The places of a canonical basic index."""
    if isinstance(index, IterationIndex):
        if index.places is None:
            raise NotRollable("a position wraps around, or a slice changes its length")
        return index.places
    out: list[AxisPlace | None] = []
    extents = iter(shape)
    for part in index:
        if part is None:
            out.append(None)
            continue
        extent = next(extents)
        if isinstance(part, slice):
            covered = range(*part.indices(extent))
            out.append(AxisPlace(Affine(covered.start), len(covered), covered.step))
        else:
            out.append(AxisPlace(Affine(part)))
    return tuple(out)


def index_at(places: Sequence[AxisPlace | None], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index of places in this iteration of the outer loops: their first one."""
    plain: list[Any] = []
    for place in places:
        if place is None:
            plain.append(None)
        elif place.width is None:
            plain.append(place.start.const)
        else:
            width = place.width.const if isinstance(place.width, Affine) else place.width
            stop = place.start.const + width * place.step
            plain.append(slice(place.start.const, stop if stop >= 0 else None, place.step))
    index = canonical_index(tuple(plain), shape)
    if any(place is not None and place.start.terms for place in places):
        return IterationIndex.of(index, tuple(places))
    return index


def fixed_width(place: AxisPlace) -> int | None:
    """The number of positions of a place; None of an int."""
    if isinstance(place.width, Affine):
        raise NotRollable("a slice changes its length")
    return place.width


def read_places(array: Any, places: Sequence[AxisPlace | None]) -> Any:
    index = index_at(places, np.shape(aval_of(array)))
    return apply(getitem, (array,), {"index": index})


def write_places(array: Any, value: Any, places: Sequence[AxisPlace | None]) -> Any:
    index = index_at(places, np.shape(aval_of(array)))
    return apply(put, (array, value), {"index": index})


def stack_rows(array: Value, places: Places, variable: LoopVariable, counts: Affine) -> Any:
    """What the iterations read at places that move, as one array with a row per iteration."""
    moving = [at for at, p in enumerate(places) if p is not None and p.start.factor(variable) != 0]
    first = [p and replace(p, start=p.start.at_start(variable)) for p in places]
    if len(moving) > 1:
        if counts.terms:
            raise NotRollable("a place moves along several axes, as often as an outer loop says")
        return _gathered_rows(array, places, first, variable, counts.const)
    (at,) = moving
    place, step = first[at], places[at].start.factor(variable)  # type: ignore[union-attr]
    assert place is not None
    front = sum(p is None or p.width is not None for p in first[:at])
    if counts.terms and step != 1:
        raise NotRollable("lines a step apart are read as often as an outer loop says")
    count = counts if counts.terms else counts.const
    width = 1 if place.width is None else fixed_width(place) or 0
    if width > _MAX_WIDTH:
        raise NotRollable("a wide slice moves")
    columns = []
    for column in range(width):
        start = place.start.plus(Affine(column * place.step))
        index = (*first[:at], AxisPlace(start, count, step), *first[at + 1 :])
        columns.append(np.moveaxis(read_places(wrap(array), index), front, 0))
    return columns[0] if place.width is None else np.stack(columns, axis=1 + front)


def _gathered_rows(
    array: Value,
    places: Places,
    first: Sequence[AxisPlace | None],
    variable: LoopVariable,
    count: int,
) -> Any:
    """Rows at places that move along several axes, such as a diagonal."""
    index: list[Any] = []
    for place, start in zip(places, first, strict=True):
        if place is None or start is None or start.start.terms:
            raise NotRollable("a place moves along several axes, and with an outer loop")
        if place.width is None:
            step = place.start.factor(variable)
            index.append(start.start.const + step * np.arange(count))
        elif place.start.factor(variable):
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


def whole_places(places: Places) -> Places:
    """Places with all positions of any iteration along the axes that grow."""
    return tuple([_all_iterations(place) if place and place.grows else place for place in places])


def _all_iterations(place: AxisPlace) -> AxisPlace:
    low = place.start.low
    return AxisPlace(Affine(low), place.end.high - low)


def is_everything(places: Places, shape: tuple[int, ...]) -> bool:
    return places == tuple([AxisPlace(Affine(0), n) for n in shape])


def spans_of_places(places: Places) -> Spans:
    """The spans of a part at `whole_places`, per axis that it has."""
    return tuple([_span(place) for place in places if place is None or place.width is not None])


def _span(place: AxisPlace | None) -> Span | None:
    if place is None or not place.grows:
        return None
    first, end = place.start.low, place.end.high
    return Span(place.start.minus(Affine(first)), place.end.minus(Affine(first)), end - first)


def part_aval(aval: Any, places: Places) -> Any:
    """The form of a part at places that do not grow."""
    shape = [1 if p is None else p.width for p in places if p is None or p.width is not None]
    return np.zeros(shape, aval.dtype)[()]  # type: ignore[arg-type]


def are_apart(a: Places, b: Places) -> bool:
    """Whether two parts of an array never touch in the same iteration."""
    return any(
        min(p.step, q.step) > 0 and min(p.end.minus(q.start).high, q.end.minus(p.start).high) <= 0
        for p, q in zip(filter(None, a), filter(None, b), strict=True)
    )
