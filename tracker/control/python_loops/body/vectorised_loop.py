"""Inner loops whose iterations are independent, as array operations of the iteration around them.

    for i in range(k + 1, n):            ->    f = A[k + 1 :, k] / A[k, k]
        f = A[i, k] / A[k, k]                  A[k + 1 :, k:] -= f[:, None] * A[k, k:]
        A[i, k:] -= f * A[k, k:]

Where the trip count moves with an outer loop, what an iteration reads and writes is a line of a
slice that grows, which the body of the outer loop knows (`growing_values.py`). One loop is left,
and its kernels go over whole arrays. Start at `vectorise`.

An iteration may read and write one line of an array, the same one each time, and other parts that
no other iteration writes; and it may add to numbers, arrays, and parts at subscripts that do not
move. Plain numbers that move with the loop are arrays of numbers, where NumPy computes with these
as Python does.

Invariant: iterations do not see what others have written. What is not known to be so raises
`NotRollable`, and the loop stays a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.control.python_loops.body import growing_values
from tracker.control.python_loops.body.affine_subscripts import (
    NotRollable,
    axes_of,
    bounding_subscripts,
    lines_of,
    part_aval,
    read_affine,
    stack_rows,
    subscripts_of,
    write_affine,
)
from tracker.control.python_loops.body.iteration_body import Carry, IterationBody, Symbol
from tracker.control.python_loops.body.moving_arrays import MovingArray
from tracker.ir.lowering import Map, Reduce
from tracker.ir.op import has_effect
from tracker.ir.types import type_of
from tracker.ops.elementwise.binary import add, divide, multiply, power, subtract
from tracker.ops.elementwise.unary import negative, positive
from tracker.ops.indexing.getitem import getitem, put
from tracker.ops.linalg.matmul import matmul
from tracker.ops.reduce.reduce import sum_
from tracker.ops.shape.create import astype, buffer, copy
from tracker.support.structs import record
from tracker.tape.record import apply, aval_of, value_of, wrap
from tracker.tape.tracing.loop_index import (
    Affine,
    AffineSubscript,
    IterationIndex,
    Subscripts,
    affine_form,
    bounds_of,
)
from tracker.tape.value import NO_PARAMS, Value, operand_aval

_ALL = slice(None)
_EXACT = (add, subtract, multiply, negative, positive)  # of small integers they are integers
_MAX_INT = 1 << 53  # floats are exact up to here
_MAX_POWER = 8


def vectorise(body: IterationBody) -> list[Any] | None:
    """What the carries of a loop are after it, by operations on arrays; None if its trip count does
    not move with an outer loop, or its iterations are not independent."""
    iteration = body.iteration
    outer = iteration.tracer.iterations
    if not body.counts.terms or body.counts.low < 0 or not outer:
        return None
    if iteration.appended or iteration.conditions or not all(each.may_grow for each in outer):
        return None
    try:
        return _VectorisedLoop(body).results()
    except NotRollable:
        return None


@record()
class _Lines:
    """A value of all iterations: an array whose first axis counts them, and the most elements that
    it may have."""

    array: Any
    most: int


@record()
class _RunningSum:
    """A number, an array, or a part of one, and what the iterations add to it: terms, with whether
    they are subtracted. `writes`: of the array that it is a part of, when it was read."""

    of: Any
    writes: int = 0
    terms: tuple[tuple[_Lines, bool], ...] = ()


@record(eq=False)
class _WrittenArray:
    """An array that iterations read and write: what it is now, how often it was written, and the
    parts that all iterations add to (`sums`)."""

    moving: MovingArray
    now: Any
    sums: list[Subscripts]
    writes: int = 0


class _VectorisedLoop:
    """Writes the equations of one iteration for all of them.

    known   values of the iteration: those of all iterations, sums, or what all iterations have
    arrays  versions of the arrays that it writes
    bounds  plain integers that move with the loop, and how great they may be
    """

    def __init__(self, body: IterationBody) -> None:
        self.body, self.variable = body, body.variable
        self.known: dict[Value, Any] = {}
        self.arrays: dict[Value, _WrittenArray] = {}
        self.bounds: dict[Value, int] = {}

    def results(self) -> list[Any]:
        """Record the equations; returns what the carries are after the loop."""
        for carry in self.body.iteration.carries:
            self._begin(carry)
        for value, _, _ in self.body.needed:
            if value in self.body.dependent:
                self._record(value)
        return [self._end(carry) for carry in self.body.iteration.carries]

    def _begin(self, carry: Carry) -> None:
        if isinstance(carry.start.aval, np.ndarray):
            moving = MovingArray(self.body, carry)
            if moving.groups:
                sums = [g[0].subscripts for g in moving.groups if _is_one_part(g, self.body)]
                array = _WrittenArray(moving, wrap(moving.initial), sums)
                self.arrays.update(dict.fromkeys(moving.versions, array))
                return
        self.known[carry.start] = _RunningSum(carry.start)

    def _end(self, carry: Carry) -> Any:
        end = carry.end
        if end is carry.start:
            return carry.origin
        if carry.start in self.arrays:
            return self.arrays[carry.start].now
        found = self.known.get(end) if type(end) is Value else None
        if type(found) is not _RunningSum or found.of is not carry.start:
            raise NotRollable("iterations read what others have given")
        made = _total(carry.origin, found)
        if type_of(aval_of(made)) != type_of(operand_aval(end)):
            raise NotRollable("a sum has another type than its terms")
        return made

    def _record(self, value: Value) -> None:
        op = value.op
        if has_effect(op) or bounds_of(value) or self.body.selections.concerns(value):
            raise NotRollable("not an operation on arrays")
        if type(value.aval) is not np.ndarray and not isinstance(value.aval, np.generic):
            self._check_number(value)
            self.known[value] = self._computed(value)
            return
        base = value.operands[0] if op in (getitem, put) else None
        if type(base) is Value and base in self.arrays:
            (self._write if op is put else self._read_written)(value, self.arrays[base])
        elif op is getitem and type(base) is Value and base not in self.body.dependent:
            self.known[value] = self._read(wrap(base), value)
        elif op in (add, subtract) and self._sum_of(value) is not None:
            self.known[value] = self._with_term(value)
        else:
            self.known[value] = self._computed(value)

    # Parts of arrays

    def _read(self, array: Any, value: Value) -> Any:
        """What all iterations read of an array, at the subscripts of this one."""
        subscripts = subscripts_of(value)
        axis = _line_axis(subscripts, self.body)
        if axis is None:
            return read_affine(array, subscripts)
        made = stack_rows(value_of(array), subscripts, self.variable, self.body.counts)
        lines = bounding_subscripts(self._lines(subscripts, axis))
        return _checked(_Lines(made, np.size(part_aval(aval_of(array), lines))), value)

    def _lines(self, subscripts: Subscripts, axis: int) -> Subscripts:
        """The subscripts of all iterations, in the order that they are in memory."""
        line = subscripts[axis]
        assert line is not None
        start, step = line.start.at_start(self.variable), line.start.factor(self.variable)
        lines = lines_of(start, step, self.body.counts)
        return *subscripts[:axis], lines, *subscripts[axis + 1 :]

    def _read_written(self, value: Value, array: _WrittenArray) -> None:
        subscripts = array.moving.accesses[value].subscripts
        if subscripts in array.sums:
            self.known[value] = _RunningSum((array, subscripts), array.writes)
        else:
            self.known[value] = self._read(array.now, value)

    def _write(self, value: Value, array: _WrittenArray) -> None:
        if self.body.growing.rewrites_itself(value):
            return
        subscripts = array.moving.accesses[value].subscripts
        found = self._operand(value.operands[1])
        axis = _line_axis(subscripts, self.body)
        if axis is None:
            if type(found) is not _RunningSum or found.of != (array, subscripts):
                raise NotRollable("all iterations write one part")
            if found.writes != array.writes:
                raise NotRollable("a part is added to after it was written")
            before = read_affine(array.now, subscripts)
            self._put(array, _total(before, found), subscripts)
            return
        if type(found) is _RunningSum:
            raise NotRollable("iterations read what others have given")
        lines = self._lines(subscripts, axis)
        if type(found) is _Lines:
            found = self._in_memory_order(found.array, subscripts, axis)
        elif np.ndim(aval_of(found)) > axes_of(subscripts[axis + 1 :]):
            raise NotRollable("all iterations write one array")
        self._put(array, found, lines)

    def _in_memory_order(self, array: Any, subscripts: Subscripts, axis: int) -> Any:
        """Lines as they are in the array that they are written into."""
        line = subscripts[axis]
        assert line is not None
        if line.start.factor(self.variable) < 0:
            array = array[::-1]
        array = _with_ndim(array, axes_of(subscripts))
        front = axes_of(subscripts[:axis])
        return np.moveaxis(array, 0, front) if front else array

    def _put(self, array: _WrittenArray, part: Any, subscripts: Subscripts) -> None:
        if np.result_type(aval_of(part)) != np.result_type(aval_of(array.now)):
            raise NotRollable("what is written has another dtype")
        array.now = write_affine(array.now, part, subscripts)
        array.writes += 1

    # Plain numbers

    def _numbers(self, symbol: Symbol) -> _Lines:
        """The number that the loop gives to each iteration."""
        form, counts = self.body.iteration.symbolic.forms[symbol.value], self.body.counts
        if form is None:
            raise NotRollable("a number of unknown form")
        self._bound(symbol.value, _greatest(form))
        every = buffer(symbol.step * np.arange(counts.high))
        made = read_affine(every, (AffineSubscript(Affine(0), counts),))
        return _Lines(made + symbol.first, counts.high)

    def _check_number(self, value: Value) -> None:
        """Refuse what Python computes with plain numbers unlike NumPy does with arrays of them."""
        if any(type(self._operand(o)) is _RunningSum for o in value.operands):
            raise NotRollable("a plain number is carried")
        bounds = [self._bound_of(o) for o in value.operands if type(operand_aval(o)) is int]
        kind, op, other = type(value.aval), value.op, value.operands[-1]
        if kind is int and op in _EXACT:
            self._bound(value, math.prod(bounds) if op is multiply else sum(bounds))
        elif kind is int and op is power and type(other) is int and 0 <= other <= _MAX_POWER:
            self._bound(value, bounds[0] ** other)
        elif kind is not float or not (op in _EXACT or (op is divide and _is_nonzero(other))):
            raise NotRollable("an operation on plain numbers that move with the loop")

    def _bound(self, value: Value, bound: int) -> None:
        if bound > _MAX_INT:
            raise NotRollable("an integer may be great")
        self.bounds[value] = bound

    def _bound_of(self, x: Any) -> int:
        """How great an integer may be."""
        if x in self.bounds:
            return self.bounds[x]
        form = None if x in self.body.dependent else affine_form(x)
        if form is None or _greatest(form) > _MAX_INT:
            raise NotRollable("an integer may be great")
        return _greatest(form)

    # Other operations

    def _operand(self, x: Any) -> Any:
        """What stands for an operand."""
        if type(x) is not Value:
            return x
        if x in self.body.symbols and x not in self.known:
            self.known[x] = self._numbers(self.body.symbols[x])
        if self.body.original(x) is not x:
            raise NotRollable("a detached value")
        if x in self.known:
            return self.known[x]
        if x in self.body.dependent:
            raise NotRollable("iterations read what others have given")
        return wrap(x)

    def _sum_of(self, value: Value) -> _RunningSum | None:
        """The sum that an equation adds to, if it does."""
        at = slice(1) if value.op is subtract else slice(2)
        found = [self.known.get(o) for o in value.operands[at] if type(o) is Value]
        return next((x for x in found if type(x) is _RunningSum), None)

    def _with_term(self, value: Value) -> _RunningSum:
        given = [self._operand(o) for o in value.operands]
        total, term = given if type(given[0]) is _RunningSum else given[::-1]
        if type(term) is not _Lines:
            raise NotRollable("a sum of sums, or of what all iterations have")
        dtype = np.result_type(value.aval)
        if np.result_type(aval_of(term.array)) != dtype:  # added up as precisely as by the loop
            term = _Lines(apply(astype, (term.array,), {"dtype": dtype}), term.most)
        return _RunningSum(total.of, total.writes, (*total.terms, (term, value.op is subtract)))

    def _computed(self, value: Value) -> Any:
        given = [self._operand(o) for o in value.operands]
        if any(type(x) is _RunningSum for x in given):
            raise NotRollable("iterations read what others have given")
        lines = [x for x in given if type(x) is _Lines]
        if not lines:
            if not isinstance(value.op.lower, Map | Reduce):
                raise NotRollable("not an operation on arrays")
            return apply(value.op, tuple(given), value.params)
        most = max(max(x.most for x in lines), np.size(value.aval) * self.body.counts.high)
        made = _checked(_Lines(self._computed_array(value, given), most), value)
        if np.shape(aval_of(made.array)) != (self.body.count, *np.shape(value.aval)):
            raise NotRollable("an operation that does not know which axis counts the iterations")
        return made

    def _computed_array(self, value: Value, given: Sequence[Any]) -> Any:
        op, params = value.op, value.params
        ndim = np.ndim(value.aval)
        arrays = [x.array if type(x) is _Lines else x for x in given]
        if isinstance(op.lower, Map) and set(params) <= {"dtype"}:
            operands = [_with_ndim(x.array, ndim) if type(x) is _Lines else x for x in given]
            return apply(op, tuple(operands), params)
        if isinstance(op.lower, Reduce):
            axes = tuple([axis + 1 for axis in params["axis"]])
            return apply(op, tuple(arrays), {**params, "axis": axes})
        if op is copy:
            return arrays[0]
        if op is getitem:
            return arrays[0][_ALL, *_plain_entries(value)]
        if op is matmul:
            return self._product(value, given, arrays)
        raise NotRollable(f"{op.name} of the lines of a loop")

    def _product(self, value: Value, given: Sequence[Any], arrays: Sequence[Any]) -> Any:
        (a, b), is_lines = arrays, [type(x) is _Lines for x in given]
        ndims = [np.ndim(operand_aval(o)) for o in value.operands]
        if all(is_lines) and ndims == [1, 1]:
            terms = apply(multiply, (a, b), NO_PARAMS)
            return apply(sum_, (terms,), {"axis": (1,), "keepdims": False})
        if all(is_lines) or max(ndims) > 2:
            raise NotRollable("a product of stacks of matrices")
        if is_lines[0] and ndims[0] == 1:
            return np.matmul(a, b)
        if is_lines[1] and ndims[1] == 1:
            return np.matmul(b, a if ndims[0] == 1 else np.transpose(a))
        raise NotRollable("a product of matrices in each iteration")


def _line_axis(subscripts: Subscripts, body: IterationBody) -> int | None:
    """The axis along which each iteration names another line; None if all name the same part."""
    variable = body.variable
    widths = [p.width for p in subscripts if p is not None and isinstance(p.width, Affine)]
    if any(width.factor(variable) for width in widths):
        raise NotRollable("the length of a part moves with the loop")
    found = [at for at, p in enumerate(subscripts) if p and p.start.factor(variable)]
    if not found:
        return None
    axis, *others = found
    subscript = subscripts[axis]
    assert subscript is not None
    if others or subscript.width is not None or abs(subscript.start.factor(variable)) != 1:
        raise NotRollable("iterations name other parts than single lines")
    return axis


def _is_one_part(group: Sequence[Any], body: IterationBody) -> bool:
    """Whether accesses of one group are of one part, which iterations write. If one iteration may
    touch what another one writes, they are refused."""
    writes = [access.subscripts for access in group if access.writes]
    for written in writes:
        for access in group:
            if not _touch_in_one_iteration(written, access.subscripts, body):
                raise NotRollable("iterations read what others have written")
    return bool(writes) and _line_axis(writes[0], body) is None


def _touch_in_one_iteration(a: Subscripts, b: Subscripts, body: IterationBody) -> bool:
    """Whether what two subscripts name meets in the same iteration at most, or is the same part in
    all of them."""
    axis, other = _line_axis(a, body), _line_axis(b, body)
    if axis is None or other is None:
        return axis is other and a == b
    if None in a or None in b:
        raise NotRollable("a new axis in a subscript of an array that is written")
    if axis == other:
        return a[axis] == b[axis]
    return _iteration_at(a, b, axis, body) == _iteration_at(b, a, other, body)


def _iteration_at(lines: Subscripts, others: Subscripts, axis: int, body: IterationBody) -> Affine:
    """The iteration whose line along an axis is where others, which do not move along it, are."""
    line, other = lines[axis], others[axis]
    assert line is not None and other is not None
    if other.width is not None:
        raise NotRollable("iterations read and write along several axes")
    start, step = line.start.at_start(body.variable), line.start.factor(body.variable)
    return other.start.minus(start).times(step)


def _greatest(form: Affine) -> int:
    return max(abs(form.low), abs(form.high))


def _is_nonzero(x: Any) -> bool:
    """Whether a divisor is a number other than zero."""
    return type(x) in (int, float) and x != 0


def _total(start: Any, found: _RunningSum) -> Any:
    """What a sum is after all iterations."""
    for term, is_subtracted in found.terms:
        every = apply(sum_, (term.array,), {"axis": (0,), "keepdims": False})
        start = start - every if is_subtracted else start + every
    return start


def _with_ndim(array: Any, ndim: int) -> Any:
    """Lines with so many axes each, of which the first are new."""
    new = ndim - (np.ndim(array) - 1)
    return array[_ALL, *[None] * new] if new else array


def _plain_entries(value: Value) -> tuple[Any, ...]:
    """The entries of a subscript that is the same in all iterations."""
    index = value.params["index"]
    if not isinstance(index, IterationIndex):
        return tuple(index)
    if index.entries is None or any(isinstance(p, AffineSubscript) for p in index.entries):
        raise NotRollable("a part of a line moves")
    return index.entries


def _checked(lines: _Lines, value: Value) -> _Lines:
    if lines.most > growing_values.MAX_MASKED:
        raise NotRollable("the lines of a loop are long")
    if np.result_type(aval_of(lines.array)) != np.result_type(value.aval):
        raise NotRollable("a number of Python's decides on a dtype")
    return lines
