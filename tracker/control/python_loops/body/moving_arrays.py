"""Arrays that the iterations of a loop write at subscripts which move with it.

Such an array is not carried. Its accesses are divided into groups that cannot overlap. Where a
group writes along one axis, the positions along it are lines, of which an iteration sees a window:

    lines above the last write     not yet written: rows of the initial array
    from there down to the lowest  carried, each one position further in the next iteration
    the lowest written line        final after the iteration: stacked, written back after the loop

A group at one subscript that does not move is carried as this part. Start at `MovingArray`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import (
    NotRollable,
    axes_of,
    bounding_subscripts,
    fixed_width,
    index_at,
    read_affine,
    spans_of,
    subscripts_of,
    write_affine,
)
from tracker.ir.types import type_of
from tracker.ops.indexing.canonical import canonical_index, indexed_shape
from tracker.ops.indexing.getitem import getitem, put
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.loop_index import Affine, AffineSubscript, LoopVariable, Subscripts
from tracker.tape.value import Value, operand_aval

if TYPE_CHECKING:
    from tracker.control.python_loops.body.iteration_body import Carry, IterationBody

_MAX_WINDOW = 4  # lines that are carried


class _Access:
    """A read or write of one version of an array. Its window finds the line that it is in, by
    `offset` from that of the first write, and its index `inside` the line."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.writes = value.op is put
        self.subscripts = subscripts_of(value)
        self.offset = 0
        self.inside: list[Any] = []

    def is_apart(self, subscripts: Subscripts, variable: LoopVariable) -> bool:
        """Whether an access never touches others at these subscripts, in whatever iterations."""
        pairs = zip(filter(None, self.subscripts), filter(None, subscripts), strict=True)
        return any(_ends_before(a, b, variable) or _ends_before(b, a, variable) for a, b in pairs)


def _ends_before(a: AffineSubscript, b: AffineSubscript, variable: LoopVariable) -> bool:
    """Whether `a` lies before `b` along an axis in all iterations."""
    if a.step < 0 or b.step < 0:
        return False
    high, low = a.end, b.start
    last = variable.last
    high = high.at_start(variable).plus(last.times(max(high.factor(variable), 0)))
    low = low.at_start(variable).plus(last.times(min(low.factor(variable), 0)))
    return high.minus(low).high <= 0


class MovingArray:
    """An array that an iteration writes. `is_whole`: it is carried as it is; otherwise what is
    written is in `windows`, and the other accesses are reads of the initial array. `groups`: the
    accesses, divided so that those of two groups never touch; none if some are not understood."""

    def __init__(self, body: IterationBody, carry: Carry) -> None:
        self.body, self.start, self.initial = body, carry.start, value_of(carry.origin)
        self.versions: set[Value] = {carry.start}
        self.accesses: dict[Value, _Access] = {}
        self.windows: list[_Window] = []
        self.window_of: dict[Value, _Window] = {}
        self.groups: list[list[_Access]] = []
        try:
            # What is written into lines goes back into the array by the number of iterations.
            self.is_whole = bool(body.iteration.conditions) or not self._find_accesses(carry.end)
            if not self.is_whole:
                self._find_windows()
        except NotRollable:
            self.is_whole = True

    def _find_accesses(self, end: Any) -> bool:
        """Find reads and writes; returns whether the array is only read and written at subscripts,
        of which some move."""
        newest, moves, understood = self.start, False, True
        for value, _, _ in self.body.needed:
            operands = [self.body.original(o) for o in value.operands if type(o) is Value]
            found = [o for o in operands if o in self.versions]
            if not found:
                continue
            is_access = value.op in (getitem, put) and value.operands[0] in self.versions
            if not is_access or len(found) > 1:
                understood = False
                continue
            access = self.accesses[value] = _Access(value)
            moves |= any(p is not None and bool(p.start.terms) for p in access.subscripts)
            if access.writes:
                understood &= value.operands[0] is newest
                newest = value
                self.versions.add(value)
        understood &= newest is end
        if understood:
            self.groups = self._find_groups()
            moves |= all(a.subscripts == g[0].subscripts for g in self.groups for a in g)
        return understood and moves

    def _find_groups(self) -> list[list[_Access]]:
        """The accesses, divided so that those of two groups never touch."""
        groups: list[list[_Access]] = []
        for access in self.accesses.values():
            near = [
                g
                for g in groups
                if not all(a.is_apart(access.subscripts, self.variable) for a in g)
            ]
            groups = [g for g in groups if g not in near]
            groups.append([*(a for g in near for a in g), access])
        return groups

    def _find_windows(self) -> None:
        for group in self.groups:
            if any(a.writes for a in group):
                window = _Window(self.body, self.initial, group)
                self._refuse_overlaps(window, group)
                self.windows.append(window)
                self.window_of.update(dict.fromkeys([a.value for a in group], window))

    def _refuse_overlaps(self, window: _Window, group: Sequence[_Access]) -> None:
        """Refuse a window whose lines, which are written back as a whole, have in them what other
        groups write."""
        others = [a for each in self.groups if each is not group for a in each]
        for subscripts in map(window.line_of, group):
            if not all(a.is_apart(subscripts, self.variable) for a in others if a.writes):
                raise NotRollable("lines that are written overlap")

    def enter(self) -> None:
        """Add the inputs of the windows to the body."""
        for window in self.windows:
            window.enter()

    @property
    def variable(self) -> LoopVariable:
        return self.body.variable

    def access(self, value: Value) -> None:
        """Write the read or write that gives `value` into the body."""
        window, access = self.window_of.get(value), self.accesses[value]
        if window is None:
            self.body.substitutes[value] = self.body.growing.read_unwritten(self.initial, value)
        elif access.writes:
            window.write(access, value.operands[1])
        else:
            self.body.substitutes[value] = window.read(access)

    def leave(self) -> None:
        for window in self.windows:
            window.leave()

    def result(self, results: Callable[[Any], Any]) -> Any:
        """The array after the loop."""
        array = wrap(self.initial)
        for window in self.windows:
            array = window.write_back(array, results)
        return array


class _Window:
    """A part that iterations read and write: a window of lines along the axis `axis` (None: one
    line, which does not move)."""

    def __init__(self, body: IterationBody, initial: Value, accesses: list[_Access]) -> None:
        self.body, self.initial = body, initial
        self.shape = np.shape(initial.aval)
        if any(subscript is None for a in accesses for subscript in a.subscripts):
            raise NotRollable("a new axis in a subscript of an array that is written")
        variable = body.variable
        moving = {
            tuple(
                at
                for at, p in enumerate(a.subscripts)
                if p and p.start.factor(variable) and not p.grows
            )
            for a in accesses
        }
        if len(moving) > 1 or len(next(iter(moving))) > 1:
            raise NotRollable("an array is read and written along several axes")
        axes = moving.pop()
        self.axis = axes[0] if axes else None
        if axes and body.counts.terms:
            raise NotRollable("lines are written as often as an outer loop says")
        self._find_offsets(accesses)
        self._find_line(accesses)

    def _find_offsets(self, accesses: list[_Access]) -> None:
        """Where along the axis each access is, in iterations from the first one."""
        self.step = 1
        written = [a for a in accesses if a.writes]
        if self.axis is not None:
            subscripts = [a.subscripts[self.axis] for a in accesses]
            steps = {p.start.factor(self.body.variable) for p in subscripts}  # type: ignore
            if len(steps) > 1 or any(p.width is not None for p in subscripts):  # type: ignore
                raise NotRollable("an array is read and written along an axis in different steps")
            self.step = steps.pop()
            base = written[0].subscripts[self.axis].start  # type: ignore
            for a in accesses:
                far = a.subscripts[self.axis].start.minus(base)  # type: ignore
                if far.terms or far.const % self.step:
                    raise NotRollable("an array is read and written at subscripts far apart")
                a.offset = far.const // self.step
            self.base = base.at_start(self.body.variable)
        found = [a.offset for a in written]
        self.low_write, self.high_write = min(found), max(found)
        self.low = min(a.offset for a in accesses)
        if self.high_write - self.low > _MAX_WINDOW:
            raise NotRollable("an array is read far behind where it is written")

    def _find_line(self, accesses: list[_Access]) -> None:
        """The subscripts of a line, and each access within one: along an axis where all accesses
        have one subscript a line has this subscript, along others everything."""
        self.subscripts: list[AffineSubscript] = []
        for axis, extent in enumerate(self.shape):
            if axis == self.axis:
                self.subscripts.append(AffineSubscript(self.base))
                continue
            found = [a.subscripts[axis] for a in accesses]
            subscript = found[0]
            assert subscript is not None
            if all(p == subscript for p in found) and not subscript.grows:
                self.subscripts.append(subscript)
                if subscript.width is not None:
                    for a in accesses:
                        a.inside.append(slice(0, fixed_width(subscript), 1))
                continue
            everything = AffineSubscript(Affine(0), extent)
            self.subscripts.append(everything)
            for a in accesses:
                part = a.subscripts[axis]
                assert part is not None
                if part.start.terms and not part.grows:
                    raise NotRollable("parts of a line move with an outer loop")
                index = index_at(bounding_subscripts((part,)), (extent,))
                a.inside += index
        widths = map(fixed_width, self.subscripts)
        self.line_shape = tuple([width for width in widths if width is not None])
        self.full = [slice(0, n, 1) for n in self.line_shape]

    def enter(self) -> None:
        """Add the lines that an iteration finds to the inputs."""
        dtype = self.initial.aval.dtype
        aval = np.zeros(self.line_shape, dtype)[()]
        self.carried: dict[int, Value] = {}
        self.lines: dict[int, Any] = {}
        above = range(self.low, self.high_write)
        for offset in above if self.axis is not None else (0,):
            first = read_affine(wrap(self.initial), self._lines_at(offset))
            self.carried[offset] = self.lines[offset] = self.body.carry_input(first, aval)
        if self.axis is not None:
            subscripts = self._lines_at(self.high_write, self.body.count, self.step)
            stack = np.moveaxis(read_affine(wrap(self.initial), subscripts), self._stack_axis, 0)
            self.lines[self.high_write] = self.body.row_input(stack, aval)

    def line_of(self, access: _Access) -> Subscripts:
        """The subscripts, in all iterations, of the line that an access is in."""
        pairs = enumerate(zip(access.subscripts, self.subscripts, strict=True))
        return tuple([own if axis == self.axis else subscript for axis, (own, subscript) in pairs])

    def _lines_at(self, offset: int, *count_and_step: int) -> list[AffineSubscript]:
        """The subscripts of a line in the first iteration, or of so many lines from there on."""
        if self.axis is None:
            return self.subscripts
        lines = AffineSubscript(self.base.plus(Affine(offset * self.step)), *count_and_step)
        return [*self.subscripts[: self.axis], lines, *self.subscripts[self.axis + 1 :]]

    @property
    def _stack_axis(self) -> int:
        return axes_of(self.subscripts[: self.axis])

    def read(self, access: _Access) -> Any:
        value, growing = access.value, self.body.growing
        if access.offset > self.high_write:
            return growing.read_unwritten(self.initial, value)
        return growing.with_spans(value, spans_of(access.subscripts), self._part(access))

    def _part(self, access: _Access) -> Any:
        """What an access sees of its line, if nothing grows."""
        line = self.lines[access.offset]
        if access.inside == self.full:
            return line
        inside = canonical_index(tuple(access.inside), self.line_shape)
        aval = np.zeros(indexed_shape(inside, self.line_shape), self.initial.aval.dtype)[()]
        return self.body.emit(getitem, (line,), {"index": inside}, aval)

    def write(self, access: _Access, part: Any) -> None:
        growing, line = self.body.growing, self.lines[access.offset]
        if growing.rewrites_itself(access.value):
            return
        aval = operand_aval(line)
        spans = spans_of(access.subscripts)
        value = self.body.read(part)
        if any(spans) or growing.spans_of(part):
            value = growing.merged(spans, access.value, self._part(access))
        if access.inside == self.full:
            if type(value) is not Value and not self.line_shape:
                value = aval.dtype.type(value)
            given = operand_aval(value)
            if type_of(given) == type_of(aval):
                self.lines[access.offset] = value
                return
            if not self.line_shape:
                raise NotRollable("a number of another type is written")
        index = canonical_index(tuple(access.inside), self.line_shape)
        self.lines[access.offset] = self.body.emit(put, (line, value), {"index": index}, aval)

    def leave(self) -> None:
        """Say what the next iteration finds, and stack what is final."""
        if self.axis is None:
            self.body.end_carry(self.carried[0], self.lines[0])
            return
        for offset, carried in self.carried.items():
            self.body.end_carry(carried, self.lines[offset + 1])
        self.stacked = self.body.output(self.lines[self.low_write])

    def write_back(self, array: Any, results: Callable[[Any], Any]) -> Any:
        if self.axis is None:
            return write_affine(array, results(self.carried[0]), self.subscripts)
        count, stack = self.body.count, results(self.stacked)
        subscripts = self._lines_at(self.low_write, count, self.step)
        if self.step < 0:
            stack = np.flip(stack, 0)
            lines = subscripts[self.axis]
            low = lines.start.plus(Affine(self.step * (count - 1)))
            subscripts[self.axis] = AffineSubscript(low, count, -self.step)
        array = write_affine(array, np.moveaxis(stack, 0, self._stack_axis), subscripts)
        for offset in range(self.low_write, self.high_write):
            line = self._lines_at(count + offset)
            array = write_affine(array, results(self.carried[offset]), line)
        return array
