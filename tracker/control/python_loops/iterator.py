"""Iterators that follow the iterations of a `for` statement (see the folder's docstring).

`start` makes one where `range`, `zip`, `enumerate`, `reversed` or an array is iterated by a `for`
statement of traced code. Between two iterations it has the frame of the loop, for `rolling.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, GeneratorType
from typing import Any

import numpy as np

from tracker.control.python_loops.attempts import FirstSymbolic
from tracker.control.python_loops.body.iteration_body import Symbol
from tracker.control.python_loops.loop_code import LoopCode, loop_code
from tracker.control.python_loops.places import are_same
from tracker.control.python_loops.rolling import LoopRoller
from tracker.ir.op import NUMPY
from tracker.jit.tracing import CountingEnumerate, CountingZip, calls_unmonitored
from tracker.ops.shape.appended_rows import is_row, joined_rows
from tracker.ops.shape.create import buffer, item
from tracker.support.frames.cpython import frame_locals
from tracker.support.frames.value_stack import on_stack
from tracker.support.structs import record, replace
from tracker.tape.observers import has_other_observers
from tracker.tape.record import apply, value_of
from tracker.tape.tracing.loop_index import (
    Affine,
    SymbolicIteration,
    affine_form,
    note_learned,
    number_of,
)
from tracker.tape.tracing.tracer import Tracer, current_tracer
from tracker.tape.tracked import Tracked

_MIN_TRIP_COUNT = 6  # of a loop that is followed
_ITERABLES: tuple[Any, ...] = ([], (), range(0), np.zeros(0))
_OF_SEQUENCES = frozenset(type(iter(x)) for x in _ITERABLES)


def start(kind: str, given: tuple[Any, ...], frame: FrameType) -> Any:
    """The iterator of a loop over what is given; None if the loop is not followed."""
    if any(type(x) in (list, tuple) and len(x) < _MIN_TRIP_COUNT for x in given):
        return None
    called = None if kind == "rows" else kind
    with calls_unmonitored():
        code = loop_code(frame.f_code, frame.f_lasti, called)
    tracer = current_tracer()
    if code is None or tracer is None or has_other_observers():
        return None
    source = _source(kind, given)
    if source is None or source.count < (1 if source.moves else _MIN_TRIP_COUNT):
        return None
    return LoopIterator(tracer, code, source, frame)


def rest_of(iterator: Any, tracer: Tracer, code: LoopCode, frame: FrameType) -> Any:
    """The iterator for the rest of a loop that has another one; None if it is not followed."""
    bar = iterator if _is_progress_bar(iterator) else None
    while _is_progress_bar(iterator):
        iterator = on_stack(iterator.gi_frame, 0)  # what it goes through
    if type(iterator) in (CountingZip, CountingEnumerate):
        source = _source(iterator.kind, iterator.given, iterator.count)
    elif type(iterator) in _OF_SEQUENCES:
        _, (items, *_), *state = iterator.__reduce__()
        source = _part_source(items, state[0] if state and state[0] else 0)
    else:
        return None
    if source is None or source.count < _MIN_TRIP_COUNT:
        return None
    return LoopIterator(tracer, code, source, frame, bar)


def _is_progress_bar(iterator: Any) -> bool:
    """Whether an iterator gives what another one gives, and shows how far it is."""
    frame = iterator.gi_frame if type(iterator) is GeneratorType else None
    if frame is None or frame.f_code.co_name != "__iter__":
        return False
    return bool(frame.f_globals.get("__name__", "").partition(".")[0] == "tqdm")


# What is iterated ---------------------------------------------------------------------------------


@record(frozen=True, eq=False)
class _Source:
    """What a loop goes through. `item(at)` is what the plain loop gets (`at` may be tracked),
    `symbolic(iteration, at)` the same with tracked numbers, and `symbols` the numbers that count.

    counts    how many items there are in every iteration of the loops around it
    has_item  whether there is an item with this number: lists may grow and shrink meanwhile
    over      the arrays and lists that hold the items
    first     the first item of a range, likewise, and its `step`
    """

    counts: Affine
    item: Callable[[Any], Any]
    symbolic: Callable[[SymbolicIteration, int, list[Symbol]], Any]
    has_item: Callable[[int], bool]
    over: tuple[Any, ...] = ()
    first: Affine = Affine(0)
    step: int = 1

    @property
    def count(self) -> int:
        """How many items there are at first."""
        return self.counts.now

    @property
    def moves(self) -> bool:
        """Whether items, or how many there are, move with the loops around it."""
        return bool(self.counts.terms or self.first.terms)

    def now(self) -> _Source:
        """What the loop goes through in this iteration of the loops around it alone."""
        first, count = self.first.now, Affine(self.count)
        return _range_source(first, Affine(first), self.step, count) if self.moves else self


def _source(kind: str, given: tuple[Any, ...], first: int = 0) -> _Source | None:
    """The items from the first on that is wanted (of `zip` and `enumerate`)."""
    if kind == "range":
        if any(type(x) is Tracked and affine_form(x) is not None for x in given):
            return _moving_range_source(*given)
        return _plain_range_source(range(*given))  # an argument is guarded to be this number
    if kind == "rows":
        return _rows_source(*given)
    if kind == "reversed":
        return _reversed_source(*given) if len(given) == 1 else None
    if kind == "enumerate":
        numbers = range(given[1] if len(given) > 1 else 0, sys.maxsize)
        given = (numbers, given[0])
    return _zip_source(given, first)


def _zip_source(given: tuple[Any, ...], first: int = 0) -> _Source | None:
    parts = [part for x in given if (part := _part_source(x, first)) is not None]
    if not parts or len(parts) < len(given):
        return None
    return _Source(
        Affine(min(part.count for part in parts)),
        lambda at: tuple([part.item(at) for part in parts]),
        lambda iteration, at, symbols: tuple(
            [part.symbolic(iteration, at, symbols) for part in parts]
        ),
        lambda at: all(part.has_item(at) for part in parts),
        tuple([x for part in parts for x in part.over]),
    )


def _part_source(x: Any, first: int = 0) -> _Source | None:
    """The items from the first on that is wanted."""
    if type(x) is range:
        return _plain_range_source(x[first:])
    if type(x) is Tracked or (type(x) is np.ndarray and x.dtype.kind in "biufc"):
        return _rows_source(x[first:]) if np.ndim(x) else None
    if type(x) is CountingZip and x.count == first:
        return _zip_source(x.given, first)
    if _has_floats(x):
        return _numbers_source(x, range(first, len(x)))
    if type(x) in (list, tuple):
        return _appended_rows_source(x, first) or _tuples_source(x, first)
    return None


def _tuples_source(tuples: Sequence[Any], first: int) -> _Source | None:
    """Tuples of as many Python floats each, from the first one on that is wanted."""
    if not all(type(x) is tuple and len(x) == len(tuples[0]) for x in tuples):
        return None
    columns = _zip_source(tuple(zip(*tuples[first:], strict=True)))
    return columns and replace(
        columns,
        item=lambda at: columns.item(at) if type(at) is Tracked else tuples[first + at],
        has_item=lambda at: first + at < len(tuples),
        over=(tuples,),
    )


def _reversed_source(x: Any) -> _Source | None:
    if _has_floats(x):
        return _numbers_source(x, range(len(x))[::-1])
    is_array = type(x) in (Tracked, np.ndarray) and x.ndim
    return _part_source(x[::-1]) if is_array or type(x) is range else None


def _has_floats(x: Any) -> bool:
    return type(x) in (list, tuple) and len(x) > 0 and all(type(number) is float for number in x)


def _plain_range_source(numbers: range) -> _Source:
    return _range_source(numbers.start, Affine(numbers.start), numbers.step, Affine(len(numbers)))


def _moving_range_source(first: Any, stop: Any = None, step: Any = 1) -> _Source | None:
    """A range whose bounds move with the loops around it, by the same form in all iterations."""
    first, stop = (0, first) if stop is None else (first, stop)
    low, high = affine_form(first), affine_form(stop)
    if low is None or high is None or type(step) is not int or abs(step) != 1:
        return None
    counts = high.minus(low).times(step)
    return None if counts.low < 0 else _range_source(first, low, step, counts)


def _range_source(first: Any, low: Affine, step: int, counts: Affine) -> _Source:
    """A range from a number, which has a form."""

    def symbolic(iteration: SymbolicIteration, at: int, symbols: list[Symbol]) -> Any:
        start = first + step * (at - iteration.variable.now)
        made = iteration.index(start, step)
        symbols.append(Symbol(made._value, start, step))  # type: ignore[arg-type]
        return made

    start = first if low.terms else low.now
    return _Source(
        counts,
        lambda at: start + step * at,
        symbolic,
        lambda at: at < counts.now,
        first=low,
        step=step,
    )


def _rows_source(array: Any) -> _Source:
    tracked = buffer(array)

    def symbolic(iteration: SymbolicIteration, at: int, symbols: list[Symbol]) -> Any:
        start = at - iteration.variable.now
        index = iteration.index(start, 1)
        symbols.append(Symbol(index._value, start, 1))  # type: ignore[arg-type]
        return tracked[index]

    def item_at(at: Any) -> Any:
        return NUMPY[np.take](array, at, axis=0) if type(at) is Tracked else array[at]

    count = len(array)
    return _Source(Affine(count), item_at, symbolic, lambda at: at < count, (array,))


def _numbers_source(numbers: Any, positions: range) -> _Source:
    """Python's floats, at these positions of a list or tuple."""
    array = np.array([numbers[position] for position in positions])
    return _items_source(numbers, positions, array, is_python=True)


def _appended_rows_source(rows: Sequence[Any], first: int) -> _Source | None:
    """Rows that a loop has appended to a list, from the first one on that is wanted."""
    joined = joined_rows(rows[first:]) if len(rows) > first and is_row(rows[first]) else ()
    if len(joined) != 1:
        return None
    (array, is_stack, is_python), positions = joined[0], range(first, len(rows))
    return _items_source(rows, positions, array, is_python) if is_stack else None


def _items_source(items: Any, positions: range, array: Any, is_python: bool) -> _Source:
    """What is at these positions of a list or tuple, and the array of that; `is_python`: whether
    they are Python numbers."""
    rows = _rows_source(array)
    first, step = positions.start, positions.step

    def like_item(row: Any) -> Any:
        return apply(item, (row,)) if is_python else row

    return replace(
        rows,
        item=lambda at: (
            like_item(rows.item(at)) if type(at) is Tracked else items[first + step * at]
        ),
        symbolic=lambda *given: like_item(rows.symbolic(*given)),
        has_item=lambda at: 0 <= first + step * at < len(items),
        over=(items, array),
    )


class LoopIterator:
    """Gives a `for` statement its items.

    at           the number of the next iteration; `tracked_at`: the same number, where it depends
                 on what the iterations before have computed
    bar          a progress bar that the loop goes through, `shown`: how many items it has given
    first        the first iteration that may be symbolic
    begun        the first symbolic iteration that is not rolled yet
    has_rolled   whether all but the last iteration are rolled, of a loop whose trip count moves
    """

    def __init__(
        self,
        tracer: Tracer,
        code: LoopCode,
        source: _Source,
        frame: FrameType,
        bar: Iterator[Any] | None = None,
    ) -> None:
        self.tracer, self.source = tracer, source
        self.bar, self.shown = bar, 0
        self.roller = LoopRoller(tracer, code, source.counts, source.over)
        self.lists = [(x, [*x]) for x in source.over if type(x) is list]
        self.first = FirstSymbolic(tracer, code, source.counts, frame_locals(frame))
        self.at = 0
        self.tracked_at: Any = None
        self.begun: int | None = None
        self.has_rolled = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        frame, roller = sys._getframe(1), self.roller
        passed_at, self.tracked_at = self.tracked_at, None
        rolled = roller.end(frame)
        if rolled is not None:
            self.at, self.begun = rolled.at + rolled.count, None
            if rolled.tracked_count is not None:
                self.tracked_at = rolled.at + apply(item, (rolled.tracked_count,))
        if passed_at is not None:
            int(passed_at)  # from here on the trace is for this number of iterations
        at, count = self.at, self.source.count
        self._show(at)
        if self.begun is not None and (at >= count or not roller.paths):
            self._note_failure()
        counts = self.source.counts
        is_rolled = rolled is not None and rolled.tracked_count is None
        if not self.source.has_item(at):
            if not (is_rolled or self.has_rolled):
                note_learned(counts)  # how many iterations there are
            raise StopIteration
        self.at = at + 1
        if is_rolled and counts.terms:
            self.has_rolled = True
            return self.source.item(number_of(counts.minus(Affine(1))))
        if self._may_roll(at):
            iteration = roller.begin(frame, at)
            if iteration is not None:
                if self.begun is None:
                    self.begun = at
                    self.first.begin()
                if self.tracked_at is not None:  # unless this iteration is rolled with those before
                    int(self.tracked_at)
                    roller.conditions.add(value_of(self.tracked_at))
                    self.tracked_at = None
                return self.source.symbolic(iteration.symbolic, at, iteration.symbols)
        if self.tracked_at is not None:
            return self.source.item(self.tracked_at)
        if at >= counts.low:
            self._note_alone()  # that there is this iteration
        return self.source.item(at)

    def _show(self, at: int) -> None:
        """Let the bar show the iterations up to the one that is about to begin, if there is one."""
        while self.bar is not None and self.shown <= at:
            self.shown += 1
            if next(self.bar, self) is self:
                self.bar = None

    def _may_roll(self, at: int) -> bool:
        """Whether iteration number `at` may be made a symbolic one."""
        if self.source.counts.terms:
            may_roll = at == self.first.at
        else:
            may_roll = at >= self.first.at and self.source.count - at >= _MIN_TRIP_COUNT
        may_roll |= self.roller.paths is not None
        return may_roll and self.roller.may_begin(at) and self._has_first_items()

    def _note_failure(self) -> None:
        """Symbolic iterations, whose numbers are those of this outer iteration, are not rolled."""
        assert self.begun is not None
        self._note_alone()
        if not self.roller.paths:
            self.first.learn(self.begun)
        self.begun = None

    def _note_alone(self) -> None:
        """What comes is that of this outer iteration alone."""
        note_learned(self.source.counts, self.source.first)
        self.source = self.source.now()
        self.roller.range.counts = self.source.counts

    def _has_first_items(self) -> bool:
        """Whether lists hold what they did when the loop began."""
        return all(are_same(x, items) for x, items in self.lists)
