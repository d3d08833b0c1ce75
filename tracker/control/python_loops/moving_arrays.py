"""Arrays that the turns of a loop write at places which move with it.

Such an array is not carried. Its accesses are divided into groups that cannot overlap. Where a
group writes along one axis, the positions along it are lines, and a turn sees a window of them:

    lines above the last write     not yet written: rows of the initial array
    from there down to the lowest  carried, each one position further in the next turn
    the lowest written line        final after the turn: stacked, and written back after the loop

A group at one place that does not move is carried as this part. Start at `MovingArray`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.types import type_of
from tracker.ops.indexing.canonical import canonical_index
from tracker.ops.indexing.getitem import getitem, put
from tracker.support.structs import replace
from tracker.tape.loop_index import Affine, AxisPlace, LoopVariable, Places, TurnIndex
from tracker.tape.record import apply, aval_of, wrap
from tracker.tape.value import Value

if TYPE_CHECKING:
    from tracker.control.python_loops.turn_body import TurnBody

_MAX_WINDOW = 4  # lines that are carried
_MAX_WIDTH = 8  # positions of a slice that moves


class NotRollable(Exception):
    """The turns of a loop are not known to be alike."""


def places_of(index: tuple[Any, ...], shape: tuple[int, ...]) -> Places:
    """The places of a canonical basic index."""
    if isinstance(index, TurnIndex):
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
    """The index of places in this turn of the outer loops: their first one."""
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
        return TurnIndex.of(index, tuple(places))
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


def stack_rows(array: Value, places: Places, variable: LoopVariable, count: int) -> Any:
    """What the turns read at places that move, as one array with a row per turn."""
    moving = [at for at, p in enumerate(places) if p is not None and p.start.factor(variable) != 0]
    first = [p and replace(p, start=p.start.at_start(variable)) for p in places]
    if len(moving) > 1:
        return _gathered_rows(array, places, first, variable, count)
    (at,) = moving
    place, step = first[at], places[at].start.factor(variable)  # type: ignore[union-attr]
    assert place is not None
    front = sum(p is None or p.width is not None for p in first[:at])
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


class _Access:
    """A read or write of one version of an array."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.writes = value.op is put
        self.places = places_of(value.params["index"], np.shape(value.operands[0].aval))

    def is_apart(self, other: _Access, variable: LoopVariable) -> bool:
        """Whether two accesses never touch, in whatever turns they are."""
        pairs = zip(self.places, other.places, strict=True)
        return any(
            _ends_before(a, b, variable) or _ends_before(b, a, variable)
            for a, b in pairs
            if a is not None and b is not None
        )


def _is_at_one_place(group: Sequence[_Access]) -> bool:
    return all(a.places == group[0].places for a in group)


def _ends_before(a: AxisPlace, b: AxisPlace, variable: LoopVariable) -> bool:
    """Whether `a` lies before `b` along an axis in all turns."""
    if a.step < 0 or b.step < 0:
        return False
    high, low = a.end, b.start
    last = variable.last
    high = high.at_start(variable).plus(last.times(max(high.factor(variable), 0)))
    low = low.at_start(variable).plus(last.times(min(low.factor(variable), 0)))
    return high.minus(low).high <= 0


class MovingArray:
    """An array that a turn writes. `is_whole`: it is carried as it is; otherwise its accesses are
    in `parts`."""

    def __init__(self, body: TurnBody, start: Value, end: Any) -> None:
        self.body, self.start = body, start
        self.versions: set[Value] = {start}
        self.accesses: list[_Access] = []
        self.is_whole = not self._find_accesses(end)
        self.part_of: dict[Value, _Part] = {}

    def _find_accesses(self, end: Any) -> bool:
        """Find reads and writes; returns whether the array is only read and written at places, of
        which some move."""
        newest, moves, understood = self.start, False, True
        for value, _, _ in self.body.needed:
            found = [o for o in value.operands if type(o) is Value and o in self.versions]
            if not found:
                continue
            at_place = value.op in (getitem, put) and value.operands[0] in self.versions
            if not at_place or len(found) > 1:
                understood = False
                continue
            access = _Access(value)
            moves |= any(p is not None and bool(p.start.terms) for p in access.places)
            self.accesses.append(access)
            if access.writes:
                understood &= value.operands[0] is newest
                newest = value
                self.versions.add(value)
        understood &= newest is end
        if moves and not understood:
            raise NotRollable("an array is read as a whole and written at places that move")
        if understood:
            self.groups = self._find_groups()
        return understood and (moves or all(map(_is_at_one_place, self.groups)))

    def _find_groups(self) -> list[list[_Access]]:
        """The accesses, divided so that those of two groups never touch."""
        groups: list[list[_Access]] = []
        for access in self.accesses:
            near = [g for g in groups if not all(a.is_apart(access, self.variable) for a in g)]
            groups = [g for g in groups if g not in near]
            groups.append([*(a for g in near for a in g), access])
        return groups

    def enter(self) -> None:
        """Add the inputs of the parts to the body."""
        for group in self.groups:
            part: _Part = _Unwritten(self.body, self.start)
            if any(a.writes for a in group):
                part = _Window(self.body, self.start, group)
            self.part_of.update(dict.fromkeys([a.value for a in group], part))
        self.parts = list(dict.fromkeys(self.part_of.values()))
        self.access_of = {access.value: access for access in self.accesses}

    @property
    def variable(self) -> LoopVariable:
        return self.body.variable

    def access(self, value: Value) -> None:
        """Write the read or write that gives `value` into the body."""
        part, access = self.part_of[value], self.access_of[value]
        if access.writes:
            part.write(access, self.body.read(value.operands[1]))
        else:
            self.body.substitutes[value] = part.read(access)

    def leave(self) -> None:
        for part in self.parts:
            part.leave()

    def result(self, results: Callable[[Any], Any]) -> Any:
        """The array after the loop."""
        array = wrap(self.start)
        for part in self.parts:
            array = part.write_back(array, results)
        return array


class _Unwritten:
    """A part of an array that no turn writes."""

    def __init__(self, body: TurnBody, start: Value) -> None:
        self.body, self.start = body, start

    def read(self, access: _Access) -> Any:
        if any(p is not None and p.start.factor(self.body.variable) for p in access.places):
            index = TurnIndex.of(tuple(access.value.params["index"]), access.places)
            return self.body.row(self.start, index, access.value.aval)
        return read_places(wrap(self.start), access.places)._value

    def write(self, access: _Access, value: Any) -> None:
        raise NotRollable("a part is written")  # it would be a `_Window`

    def leave(self) -> None:
        pass

    def write_back(self, array: Any, results: Callable[[Any], Any]) -> Any:
        return array


class _Window:
    """A part that turns read and write: a window of lines along the axis `axis` (None: one line,
    which does not move)."""

    def __init__(self, body: TurnBody, start: Value, accesses: list[_Access]) -> None:
        self.body, self.start = body, start
        self.shape = np.shape(start.aval)
        if any(place is None for a in accesses for place in a.places):
            raise NotRollable("a new axis in a subscript of an array that is written")
        variable = body.variable
        moving = {
            tuple(at for at, p in enumerate(a.places) if p.start.factor(variable))  # type: ignore
            for a in accesses
        }
        if len(moving) > 1 or len(next(iter(moving))) > 1:
            raise NotRollable("an array is read and written along several axes")
        axes = moving.pop()
        self.axis = axes[0] if axes else None
        self._find_offsets(accesses)
        self._find_line(accesses)
        self._add_inputs()

    def _find_offsets(self, accesses: list[_Access]) -> None:
        """Where along the axis each access is, in turns from the first one."""
        self.offsets: dict[Value, int] = {a.value: 0 for a in accesses}
        self.step = 1
        written = [a for a in accesses if a.writes]
        if self.axis is not None:
            places = [a.places[self.axis] for a in accesses]
            steps = {p.start.factor(self.body.variable) for p in places}  # type: ignore
            if len(steps) > 1 or any(p.width is not None for p in places):  # type: ignore
                raise NotRollable("an array is read and written along an axis in different steps")
            self.step = steps.pop()
            base = written[0].places[self.axis].start  # type: ignore
            for a in accesses:
                far = a.places[self.axis].start.minus(base)  # type: ignore
                if far.terms or far.const % self.step:
                    raise NotRollable("an array is read and written at places far apart")
                self.offsets[a.value] = far.const // self.step
            self.base = base.at_start(self.body.variable)
        found = [self.offsets[a.value] for a in written]
        self.low_write, self.high_write = min(found), max(found)
        self.low = min(self.low_write, *self.offsets.values())
        if self.high_write - self.low > _MAX_WINDOW:
            raise NotRollable("an array is read far behind where it is written")

    def _find_line(self, accesses: list[_Access]) -> None:
        """The places of a line, and each access within one: along an axis where all accesses are at
        one place a line is this place, along others everything."""
        self.places: list[AxisPlace] = []
        self.inside: dict[Value, list[Any]] = {a.value: [] for a in accesses}
        inside: dict[Value, list[Any]] = {a.value: [] for a in accesses}
        for axis, extent in enumerate(self.shape):
            if axis == self.axis:
                self.places.append(AxisPlace(self.base))
                continue
            found = [a.places[axis] for a in accesses]
            place = found[0]
            assert place is not None
            if all(p == place for p in found):
                self.places.append(place)
                if place.width is not None:
                    for a in accesses:
                        inside[a.value].append(slice(0, fixed_width(place), 1))
                continue
            if any(p.start.terms for p in found):  # type: ignore[union-attr]
                raise NotRollable("parts of a line move with an outer loop")
            self.places.append(AxisPlace(Affine(0), extent))
            for a in accesses:
                part = a.places[axis]
                inside[a.value].append(index_at((part,), (extent,))[0])
        widths = map(fixed_width, self.places)
        self.line_shape = tuple([width for width in widths if width is not None])
        full = [slice(0, n, 1) for n in self.line_shape]
        self.inside = {value: [] if index == full else index for value, index in inside.items()}
        self.is_all = {value: index == full for value, index in inside.items()}

    def _add_inputs(self) -> None:
        """Add the lines that a turn finds."""
        dtype = self.start.aval.dtype
        aval = np.zeros(self.line_shape, dtype)[()]
        self.carried: dict[int, Value] = {}
        self.lines: dict[int, Any] = {}
        above = range(self.low, self.high_write)
        for offset in above if self.axis is not None else (0,):
            first = read_places(wrap(self.start), self._line_places(offset))
            self.carried[offset] = self.lines[offset] = self.body.carry_input(first, aval)
        if self.axis is not None:
            stack = np.moveaxis(
                read_places(wrap(self.start), self._stack_places(self.high_write, self.body.count)),
                self._stack_axis,
                0,
            )
            self.lines[self.high_write] = self.body.row_input(stack, aval)

    def _line_places(self, offset: int) -> list[AxisPlace]:
        """The places of a line in the first turn."""
        if self.axis is None:
            return self.places
        line = AxisPlace(self.base.plus(Affine(offset * self.step)))
        return [*self.places[: self.axis], line, *self.places[self.axis + 1 :]]

    def _stack_places(self, offset: int, count: int) -> list[AxisPlace]:
        """The places of a line in all turns."""
        assert self.axis is not None
        lines = AxisPlace(self.base.plus(Affine(offset * self.step)), count, self.step)
        return [*self.places[: self.axis], lines, *self.places[self.axis + 1 :]]

    @property
    def _stack_axis(self) -> int:
        return sum(place.width is not None for place in self.places[: self.axis])

    def read(self, access: _Access) -> Any:
        offset, value = self.offsets[access.value], access.value
        if offset > self.high_write:
            index = TurnIndex.of(tuple(value.params["index"]), access.places)
            return self.body.row(self.start, index, value.aval)
        line = self.lines[offset]
        if self.is_all[value]:
            return line
        inside = canonical_index(tuple(self.inside[value]), self.line_shape)
        return self.body.emit(getitem, (line,), {"index": inside}, value.aval)

    def write(self, access: _Access, value: Any) -> None:
        offset = self.offsets[access.value]
        line = self.lines[offset]
        aval = line.aval if type(line) is Value else line
        if self.is_all[access.value]:
            if type(value) is not Value and not self.line_shape:
                value = aval.dtype.type(value)
            given = value.aval if type(value) is Value else value
            if type_of(given) == type_of(aval):
                self.lines[offset] = value
                return
            if not self.line_shape:
                raise NotRollable("a number of another type is written")
        inside = self.inside[access.value] or [slice(0, n, 1) for n in self.line_shape]
        index = canonical_index(tuple(inside), self.line_shape)
        self.lines[offset] = self.body.emit(put, (line, value), {"index": index}, aval)

    def leave(self) -> None:
        """Say what the next turn finds, and stack what is final."""
        if self.axis is None:
            self.body.end_carry(self.carried[0], self.lines[0])
            return
        for offset, carried in self.carried.items():
            self.body.end_carry(carried, self.lines[offset + 1])
        self.stacked = self.body.output(self.lines[self.low_write])

    def write_back(self, array: Any, results: Callable[[Any], Any]) -> Any:
        if self.axis is None:
            return write_places(array, results(self.carried[0]), self.places)
        count, stack = self.body.count, results(self.stacked)
        places = self._stack_places(self.low_write, count)
        if self.step < 0:
            stack = np.flip(stack, 0)
            lines = places[self.axis]
            low = lines.start.plus(Affine(self.step * (count - 1)))
            places[self.axis] = AxisPlace(low, count, -self.step)
        array = write_places(array, np.moveaxis(stack, 0, self._stack_axis), places)
        for offset in range(self.low_write, self.high_write):
            line = self._line_places(count + offset)
            array = write_places(array, results(self.carried[offset]), line)
        return array


_Part = _Unwritten | _Window
