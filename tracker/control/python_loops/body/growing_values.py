"""Values of an iteration whose extents move with loops, and parts of arrays at positions that move.

In a body, an axis that grows has the extent of the array that it was cut from, and elements
outside of a `Span` that mean nothing. `GrowingValues.write` writes the equations on such values:
elementwise ops carry the span along; reductions and products select what has no effect on them
outside of it; writes store what is inside. Masked elements are selected away, never multiplied by
0, so that they have no effect on results and derivatives, whatever they hold.

Invariant: any other op on a growing value raises `NotRollable`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import (
    NotRollable,
    Span,
    Spans,
    are_apart,
    bounding_subscripts,
    index_at,
    is_everything,
    part_aval,
    read_affine,
    spans_of,
    subscripts_of,
)
from tracker.control.python_loops.body.growing_views import GrowingViews
from tracker.ir.lowering import Loop, Map, Pick, Reduce
from tracker.ir.op import Op
from tracker.ops.elementwise.binary import add, divide, maximum, minimum, multiply, subtract
from tracker.ops.elementwise.comparison import equal, logical_and, where
from tracker.ops.elementwise.unary import logical_not, negative, positive
from tracker.ops.indexing.gather_scatter import HOLE
from tracker.ops.indexing.getitem import gather, getitem, put, scatter
from tracker.ops.linalg.matmul import matmul
from tracker.ops.reduce.predicates import all_, any_
from tracker.ops.reduce.reduce import max_, mean_, min_, prod_, sum_
from tracker.ops.shape.create import astype, before, copy, iota, ones_like, to_discrete, zeros_like
from tracker.ops.shape.shape import transpose
from tracker.tape.record import apply, wrap
from tracker.tape.tracing.loop_index import (
    Affine,
    AffineSubscript,
    IterationIndex,
    Subscripts,
    bounds_of,
)
from tracker.tape.value import NO_PARAMS, Value, operand_aval

if TYPE_CHECKING:
    from tracker.control.python_loops.body.iteration_body import IterationBody

MAX_MASKED = 1 << 17  # elements; beyond, ops on parts are faster than a short trace
_LARGE = 1 << 14  # elements of an array that is not copied in each iteration
_MAX_PRODUCT = 1 << 24  # elements of a product of matrices, of whose rows iterations take parts:
_MAX_WASTE = 3  # one in so many
_INT = np.dtype(np.intp)
_FOLDS = (sum_, prod_, max_, min_, any_, all_)
_LINEAR = (add, subtract, negative, positive)  # of zeros they make zeros


class GrowingValues:
    """What is known of growing values: their `spans`, whether they are zero outside, and whether
    they are parts of arrays (`are_parts`), which may be anything there. `loops`: those whose
    trip count moves. `same`: writes of what is there, with what they write into."""

    def __init__(self, body: IterationBody) -> None:
        self.body = body
        self.spans: dict[Value, Spans] = {}
        self.are_zero: set[Value] = set()
        self.are_parts: set[Value] = set()
        self.filled: dict[tuple[Value, float], Value] = {}
        self.loops: set[Value] = set()
        self.numbers: dict[Affine, Any] = {}
        self.positions: dict[tuple[Affine, int], Value] = {}
        self.masks: dict[tuple[Spans, tuple[int, ...]], Value] = {}
        self.same: dict[Value, Value] = {}
        self.views = GrowingViews(self)

    def spans_of(self, x: Any) -> Spans | None:
        return self.spans.get(x) if type(x) is Value else None

    def is_growing(self, x: Any) -> bool:
        return type(x) is Value and (
            x in self.spans or x in self.loops or x in self.body.iteration.symbolic.counts
        )

    # Positions and masks

    def number(self, form: Affine) -> Any:
        """A form as a number of the iteration."""
        if not form.terms:
            return form.const
        if form not in self.numbers:
            total: Any = None
            for variable, factor in form.terms:
                term = self.body.iteration_number(variable)
                term = self._emit_int(multiply, term, factor) if factor != 1 else term
                total = term if total is None else self._emit_int(add, total, term)
            self.numbers[form] = self._emit_int(add, total, form.const) if form.const else total
        return self.numbers[form]

    def _emit_int(self, op: Any, *operands: Any) -> Value:
        return self.body.emit(op, operands, NO_PARAMS, 0)

    def position(self, form: Affine, extent: int) -> Value:
        """A form as an index array."""
        if (form, extent) not in self.positions:
            self.positions[form, extent] = self._discrete(self.number(form), extent - 1)
        return self.positions[form, extent]

    def _discrete(self, number: Any, highest: int) -> Value:
        """An int of the iteration, of at most so much, as NumPy's."""
        made = self.body.emit(to_discrete, (number,), {"dtype": _INT}, np.intp(0))
        if self.body.may_be_empty:  # a pullback is traced as if there were an iteration
            made = self._within(made, highest)
        return made

    def mask(self, spans: Spans, shape: tuple[int, ...]) -> Value:
        """Where an array lies within its spans."""
        if math.prod(shape) > MAX_MASKED:
            raise NotRollable("most of an iteration would be to select in large arrays")
        key = spans, shape
        if key not in self.masks:
            conditions = []
            aval = np.zeros(shape, np.bool_)
            for axis, span in enumerate(spans):
                if span is None:
                    continue
                params = {"shape": shape, "axis": axis}
                if span.high != Affine(span.extent):
                    given = (self.number(span.high),)
                    conditions.append(self.body.emit(before, given, params, aval))
                if span.low != Affine(0):
                    outside = self.body.emit(before, (self.number(span.low),), params, aval)
                    conditions.append(self.body.emit(logical_not, (outside,), NO_PARAMS, aval))
            found = conditions[0]
            for condition in conditions[1:]:
                found = self.body.emit(logical_and, (found, condition), NO_PARAMS, aval)
            self.masks[key] = found
        return self.masks[key]

    def positions_from(self, first: Any, count: int, extent: int) -> Value:
        """So many positions from a number on, those beyond an axis of this extent at its ends."""
        params = {"shape": (count,), "axis": 0}
        at = self.body.emit(iota, (), params, np.zeros(count, _INT))
        return self._within(self._emit_array(add, at, first), extent - 1)

    def _within(self, at: Value, highest: int) -> Value:
        at = self._emit_array(minimum, at, np.intp(highest))
        return self._emit_array(maximum, at, np.intp(0))

    def select(self, spans: Spans, x: Any, other: Any) -> Value:
        """`x` within the spans, and `other` elsewhere."""
        aval = x.aval
        return self.body.emit(where, (self.mask(spans, aval.shape), x, other), NO_PARAMS, aval)

    def _filled(self, x: Value, number: float) -> Value:
        """A growing value of the iteration in the body, with a number outside of its spans."""
        made: Value = self.body.read(x)
        if number == 0 and x in self.are_zero:
            return made
        if (x, number) not in self.filled:
            self.filled[x, number] = self.select(self.spans[x], made, made.aval.dtype.type(number))
        return self.filled[x, number]

    # Parts of arrays

    def read_part(self, value: Value) -> Any:
        """Write a read at subscripts that move with this loop, or grow."""
        base = value.operands[0]
        if base in self.spans:
            return self.views.read(value)
        if base not in self.body.dependent:
            return self.read_unwritten(base, value)
        subscripts = subscripts_of(value)
        base = self._written_before(base, subscripts)
        stored = self._stored(base, value, subscripts)
        if stored is not None:
            for known in (self.are_zero, self.are_parts):
                known.update({value} if stored in known else ())
            if stored in self.spans:
                self.spans[value] = self.spans[stored]
            return self.body.read(stored)
        made = self.read_at(self.body.read(base), bounding_subscripts(subscripts))
        return self.with_spans(value, spans_of(subscripts), made)

    def read_unwritten(self, base: Value, value: Value) -> Any:
        """Write a read of a part of an array that is the same in all iterations."""
        subscripts = subscripts_of(value)
        whole = bounding_subscripts(subscripts)
        if any(p is not None and p.start.factor(self.body.variable) for p in whole):
            made = self.body.row(base, IterationIndex.of((), whole), part_aval(base.aval, whole))
        elif is_everything(whole, np.shape(base.aval)):
            made = base
        else:
            made = read_affine(wrap(base), whole)._value
        return self.with_spans(value, spans_of(subscripts), made)

    def _written_before(self, base: Value, subscripts: Subscripts) -> Value:
        """The oldest version of an array in this iteration that is the same at these subscripts:
        versions that nothing else reads are made in the memory of the array."""
        while base.op is put and base in self.body.made:
            if not are_apart(subscripts_of(base), subscripts):
                break
            base = base.operands[0]
        return base

    def _stored(self, base: Value, value: Value, subscripts: Subscripts) -> Value | None:
        """What this iteration has written last, if it is what is read."""
        if base.op is not put or base not in self.body.made:
            return None
        part = base.operands[1]
        if type(part) is not Value or subscripts_of(base) != subscripts:
            return None
        spans = spans_of(subscripts)
        if any(spans) and self.spans_of(part) != spans:
            return None
        is_same = type(part.aval) is type(value.aval) and part.aval.dtype == value.aval.dtype
        return part if is_same and np.shape(part.aval) == np.shape(value.aval) else None

    def with_spans(self, value: Value, spans: Spans, made: Any) -> Any:
        """Note that `value` is a part with these spans; returns what stands for it."""
        if any(spans):
            self.spans[value] = spans
            self.are_parts.add(value)
        return made

    def read_at(self, array: Value, subscripts: Subscripts) -> Value:
        """A part of an array of the body, at subscripts that do not grow."""
        aval = part_aval(array.aval, subscripts)
        is_large = array.aval.size > max(min(_LARGE, MAX_MASKED), 4 * np.size(aval))
        index, arrays = self._index(subscripts, array.aval.shape, in_memory=is_large)
        if not arrays:
            if is_large:
                raise NotRollable("a pullback would copy a large array in each iteration")
            params = {"index": index_at(subscripts, array.aval.shape)}
            return self.body.emit(getitem, (array,), params, aval)
        return self.body.emit(gather, (array, *arrays), {"index": index}, aval)

    def write_at(self, array: Value, part: Any, subscripts: Subscripts) -> Value:
        """An array of the body with a part of it replaced."""
        index, arrays = self._index(subscripts, array.aval.shape, in_memory=True)
        if not arrays:
            params = {"index": index_at(subscripts, array.aval.shape)}
            return self.body.emit(put, (array, part), params, array.aval)
        return self.body.emit(scatter, (array, part, *arrays), {"index": index}, array.aval)

    def _index(
        self, subscripts: Subscripts, shape: tuple[int, ...], in_memory: bool = False
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """The index of subscripts in the body, with a hole for each position that moves.
        `in_memory`: for each position, so that writes, and those of the pullback, are made in the
        memory of the array."""
        index: list[Any] = []
        arrays: list[Any] = []
        extents = iter(shape)
        for subscript in subscripts:
            extent = 1 if subscript is None else next(extents)
            if subscript is None or not subscript.start.terms:
                if in_memory and subscript is not None and subscript.width is None:
                    index.append(HOLE)
                    arrays.append(np.intp(subscript.start.const))
                else:
                    index.append(subscript and index_at((subscript,), (1 << 60,))[0])
            elif subscript.width is None:
                index.append(HOLE)
                arrays.append(self.position(subscript.start, extent))
            else:
                raise NotRollable("a slice of an array that is written moves")
        holes = [at for at, part in enumerate(index) if part is HOLE]
        if holes and None in index[: holes[0]]:
            raise NotRollable("a new axis before a position that moves")
        return tuple(index), arrays

    def write_part(self, value: Value) -> Value:
        """Write a write at subscripts that move with this loop, or grow."""
        base, part = value.operands
        if base in self.spans:
            return self.views.write(value)
        if self.rewrites_itself(value):
            same: Value = self.body.read(base)
            return same
        subscripts = subscripts_of(value)
        whole = bounding_subscripts(subscripts)
        array = self.body.read(self._before_same(base, subscripts))
        spans = spans_of(subscripts)
        given = self.body.read(part)
        if any(spans) or self.spans_of(part):
            given = self.merged(spans, value, self.read_at(array, whole))
        return self.write_at(array, given, whole)

    def _before_same(self, base: Value, subscripts: Subscripts) -> Value:
        """What an array was before this iteration wrote where it writes again."""
        if not any(spans_of(subscripts)):
            while base.op is put and base in self.body.made and subscripts_of(base) == subscripts:
                base = base.operands[0]
        return base

    def merged(self, spans: Spans, value: Value, old: Value) -> Value:
        """A part of an array of the body, in which a write of the iteration writes within spans."""
        part = value.operands[1]
        op, term = self._update(value) or (None, part)
        given = self.aligned(term, spans, len(spans))
        kept: Any = old
        if op is not None:  # what this is added to, or taken from, stays
            kept = old.aval.dtype.type(-0.0 if op is add else 0.0)
        given = self.body.emit(
            where, (self.mask(spans, old.aval.shape), given, kept), NO_PARAMS, old.aval
        )
        return given if op is None else self.body.emit(op, (old, given), NO_PARAMS, old.aval)

    def rewrites_itself(self, value: Value) -> bool:
        """Whether a write puts what is there already: the last step of `x[i] += y`. Only in this
        iteration: what is there when it begins may be another thing in the next one."""
        base, part = value.operands
        if type(part) is not Value:
            return False
        part = self.same.get(part, part)
        is_read = part in self.body.made and part.op is getitem and part.operands[0] is base
        is_written = base in self.body.made and base.op is put and base.operands[1] is part
        return (is_read and subscripts_of(part) == subscripts_of(value)) or (
            is_written and subscripts_of(base) == subscripts_of(value)
        )

    def _update(self, value: Value) -> tuple[Any, Any] | None:
        """The op and the term of a write of `part + term`, or `part - term`, into this very part,
        if this iteration has read it."""
        base, part = value.operands
        if type(part) is not Value or part.op not in (add, subtract) or part.params:
            return None
        dtype = base.aval.dtype
        if part.aval.dtype != dtype or dtype.kind not in "fc":
            return None
        pairs = (part.operands, part.operands[::-1])
        for read, term in pairs if part.op is add else pairs[:1]:
            is_made = type(read) is Value and read in self.body.made
            is_read = is_made and read.op is getitem and read.operands[0] is base
            if is_read and subscripts_of(read) == subscripts_of(value):
                return part.op, term
        return None

    # Other ops

    def write(self, value: Value) -> Value:
        """Write an equation with growing operands."""
        op = value.op
        if isinstance(op.lower, Map) and set(value.params) <= {"dtype"}:
            return self._write_elementwise(value)
        if op is getitem:
            return self.views.read(value)
        if op is put:
            return self.views.write(value)
        if isinstance(op.lower, Loop):
            return self._write_loop(value)
        if isinstance(op.lower, Pick):
            return self._write_pick(value)
        if op in _FOLDS:
            return self._write_fold(value)
        if op is mean_:
            return self._write_mean(value)
        if op is gather:
            return self._write_gather(value)
        if op is copy or op is transpose:
            return self._write_rearranged(value)
        if op is zeros_like or op is ones_like:
            return self._write_filled(value)
        if op is matmul:
            return self._write_product(value)
        raise NotRollable(f"{op.name} of a slice whose extent moves")

    def _write_rearranged(self, value: Value) -> Value:
        (x,) = value.operands
        spans, aval = self.spans[x], self.body.read(x).aval
        if value.op is transpose:
            axes = value.params["axes"]
            spans, aval = tuple([spans[axis] for axis in axes]), aval.transpose(axes)
        return self.views.rearrange(value, spans, aval)

    def _write_filled(self, value: Value) -> Value:
        """Write zeros or ones in the form of a vector: the axes of others may be in any order."""
        (x,) = value.operands
        if np.shape(value.aval) != np.shape(x.aval) or np.ndim(x.aval) != 1:
            raise NotRollable("zeros in the form of a matrix whose extents move")
        self.are_zero.update({value} if value.op is zeros_like else ())
        given = self.body.read(x)
        params = {**value.params, "shape": given.aval.shape}
        return self._written(value, self.spans[x], given.aval.shape, value.op, (given,), params)

    def _write_elementwise(self, value: Value) -> Value:
        ndim = np.ndim(value.aval)
        spans: list[Span | None] = [None] * ndim
        for o in value.operands:
            for axis, span in enumerate(self.spans_of(o) or (), ndim - np.ndim(operand_aval(o))):
                spans[axis] = spans[axis] or span
        made = tuple(spans)
        growing = [o for o in value.operands if self.spans_of(o)]
        zeros = all(o in self.are_zero or o in self.are_parts for o in growing)
        is_linear = value.op in _LINEAR or value.op is multiply
        operands = [self.aligned(o, made, ndim, None if is_linear else 1) for o in value.operands]
        if zeros and len(growing) == len(value.operands) and is_linear:
            self.are_zero.add(value)
        self.spans[value] = made
        shapes = [np.shape(operand_aval(o)) for o in operands]
        aval = np.zeros(np.broadcast_shapes(*shapes), value.aval.dtype)
        return self.body.emit(value.op, tuple(operands), value.params, aval)

    def aligned(self, x: Any, spans: Spans, ndim: int, outside: int | None = None) -> Any:
        """An operand of the iteration in the body, which fits to others with these spans."""
        own, shape = self.spans_of(x), np.shape(operand_aval(x))
        first = ndim - len(shape)
        if first < 0:
            raise NotRollable("an operand with more axes than the result")
        shifts = []
        for axis, extent in enumerate(shape):
            span, wanted = own[axis] if own else None, spans[first + axis]
            if span == wanted or (span is None and extent == 1):
                continue
            if span is None or wanted is None or span.width != wanted.width:
                raise NotRollable("slices whose extents move do not fit together")
            shifts.append((axis, span, wanted))
        if own is None:
            return self.body.read(x)
        if outside is None and (x in self.are_parts or shifts):
            outside = 0
        if not shifts:
            return self.body.read(x) if outside is None else self._filled(x, outside)
        made = self.body.read(x)
        for axis, span, wanted in shifts:
            made = self._shifted(made, axis, span, wanted)
        moved = tuple([own[axis] and spans[first + axis] for axis in range(len(shape))])
        return self.select(moved, made, made.aval.dtype.type(outside))

    def _shifted(self, x: Value, axis: int, span: Span, wanted: Span) -> Value:
        """An array whose span along an axis is moved to another one of the same width."""
        by = self.number(span.low.minus(wanted.low))
        at = self.positions_from(by, wanted.extent, span.extent)
        index: list[Any] = [slice(0, n, 1) for n in x.aval.shape]
        index[axis] = HOLE
        shape = (*x.aval.shape[:axis], wanted.extent, *x.aval.shape[axis + 1 :])
        aval = np.zeros(shape, x.aval.dtype)
        return self.body.emit(gather, (x, at), {"index": tuple(index)}, aval)

    def _write_fold(self, value: Value) -> Value:
        """Write a reduction, of which an axis that grows has the reduction's identity outside."""
        (x,) = value.operands
        grown = [self.spans[x][axis] for axis in value.params["axis"] if self.spans[x][axis]]
        if not grown:
            return self._folded(value, value.op, self.aligned(x, self.spans[x], np.ndim(x.aval)))
        if value.op is max_ or value.op is min_:
            return self._write_extreme(value, grown)
        return self._folded(value, value.op, self._filled(x, _identity(value.op, x)))

    def _folded(self, value: Value, op: Any, given: Value) -> Value:
        """A reduction of an array of the body by the axes of a reduction of the iteration."""
        (x,), axes, keepdims = value.operands, value.params["axis"], value.params["keepdims"]
        pairs = [
            (None, 1) if at in axes else (span, n)
            for at, (span, n) in enumerate(zip(self.spans[x], given.aval.shape, strict=True))
            if keepdims or at not in axes
        ]
        spans, shape = tuple([span for span, _ in pairs]), tuple([n for _, n in pairs])
        return self._written(value, spans, shape, op, (given,), value.params)

    def _write_extreme(self, value: Value, grown: Sequence[Span | None]) -> Value:
        (x,) = value.operands
        if any(span and span.width.low < 1 for span in grown):
            raise NotRollable("the greatest or least element of what may be none")
        kind, start = value.aval.dtype.kind, _identity(value.op, x)
        if kind not in "biuf":
            raise NotRollable("the greatest or least of complex numbers of a slice")
        made = self._folded(value, value.op, self._filled(x, start))
        if kind != "f":
            return made
        # Where all are infinite, what is outside is as great: the derivatives are those of a mean.
        operands = made, value.aval.dtype.type(start)
        is_start = self.body.emit(equal, operands, NO_PARAMS, np.zeros(made.aval.shape, np.bool_))
        mean = self._write_mean(value)
        return self.body.emit(where, (is_start, mean, made), NO_PARAMS, made.aval)

    def _write_mean(self, value: Value) -> Value:
        (x,) = value.operands
        total = self._folded(value, sum_, self._filled(x, 0))
        count: Any = 1
        for axis in value.params["axis"]:
            span = self.spans[x][axis]
            factor = np.shape(x.aval)[axis] if span is None else self.number(span.width)
            is_known = type(count) is type(factor) is int
            count = count * factor if is_known else self._emit_int(multiply, factor, count)
        if type(count) is Value:
            count = self.body.emit(to_discrete, (count,), {"dtype": _INT}, np.intp(0))
        return self.mean(total, count, np.result_type(value.aval))

    def mean(self, total: Value, count: Any, dtype: np.dtype[Any]) -> Value:
        """A mean, by a sum and the number of its terms: NaN of none, which has no derivative."""
        emit, aval = self.body.emit, total.aval
        if type(count) is not Value:
            return emit(divide, (total, dtype.type(count)), NO_PARAMS, aval)
        some = emit(maximum, (count, np.intp(1)), NO_PARAMS, np.intp(0))
        divisor = emit(astype, (some,), {"dtype": dtype}, dtype.type(0))
        mean = emit(divide, (total, divisor), NO_PARAMS, aval)
        is_empty = emit(equal, (count, np.intp(0)), NO_PARAMS, np.True_)
        return emit(where, (is_empty, dtype.type(np.nan), mean), NO_PARAMS, aval)

    def _write_gather(self, value: Value) -> Value:
        """Write a read of an array at positions that are a part."""
        x, *arrays = value.operands
        index = value.params["index"]
        if self.is_growing(x) or len(arrays) != 1 or "counts" in value.params:
            raise NotRollable("a part of a slice whose extent moves is read")
        at, own = self._filled(arrays[0], 0), self.spans[arrays[0]]
        hole = index.index(HOLE)
        if not np.shape(operand_aval(x))[hole]:
            raise NotRollable("an array without elements is read")
        spans = (*[None] * hole, *own, *[None] * (len(index) - hole - 1))
        shape = [
            span.extent if span else n for span, n in zip(spans, value.aval.shape, strict=True)
        ]
        self.spans[value] = spans
        aval = np.zeros(shape, value.aval.dtype)
        return self.body.emit(gather, (self.body.read(x), at), value.params, aval)

    def _write_product(self, value: Value) -> Value:
        a, b = value.operands
        left, right = np.ndim(operand_aval(a)), np.ndim(operand_aval(b))
        if max(left, right) > 2:
            raise NotRollable("a product of stacks of slices whose extents move")
        row = self._row_of_product(value, a, b)
        if row is not None:
            return row
        of_a = self.spans_of(a) or (None,) * left
        of_b = self.spans_of(b) or (None,) * right
        xs = self.aligned(a, of_a, left, 0), self.aligned(b, (of_a[-1], *of_b[1:]), right, 0)
        spans, shapes = (*of_a[:-1], *of_b[1:]), [np.shape(operand_aval(x)) for x in xs]
        if left == right == 2 or value.aval.dtype.kind not in "fc":
            shape = (*shapes[0][:-1], *shapes[1][1:])
            return self._written(value, spans, shape, matmul, xs, value.params)
        return self._sum_of_products(value, spans, *xs)

    def _sum_of_products(self, value: Value, spans: Spans, a: Any, b: Any) -> Value:
        """A product with a vector, term by term: what is masked takes no time then."""
        shape = np.shape(operand_aval(b))
        if len(shape) == 2:
            index = (slice(0, shape[0], 1), None)
            column = np.zeros((shape[0], 1), operand_aval(a).dtype)
            a = self.body.emit(getitem, (a,), {"index": index}, column)
        shape = np.broadcast_shapes(np.shape(operand_aval(a)), shape)
        aval = np.zeros(shape, np.result_type(value.aval))
        terms = self.body.emit(multiply, (a, b), NO_PARAMS, aval)
        axis = np.ndim(operand_aval(a)) - 1 if np.ndim(operand_aval(b)) == 1 else 0
        params = {"axis": (axis,), "keepdims": False}
        left = (*shape[:axis], *shape[axis + 1 :])
        return self._written(value, spans, left, sum_, (terms,), params)

    def _row_of_product(self, value: Value, a: Any, b: Any) -> Value | None:
        """A line of a matrix times a growing part of one, neither of which changes in the loop: a
        row of their product, which is computed before. None if it is another product, or little of
        that one is needed."""
        row, part, inner = (a, b, 0) if self.spans_of(b) else (b, a, 1)
        if not (self._is_part_of_matrix(row, 1) and self._is_part_of_matrix(part, 2)):
            return None
        lines, matrix = row.operands[0], part.operands[0]
        own = [*filter(None, subscripts_of(row))]
        subscripts = [*filter(None, bounding_subscripts(subscripts_of(part)))]
        moving = [axis for axis, p in enumerate(own) if p.start.factor(self.body.variable)]
        span = self.spans[part][1 - inner]
        if len(moving) != 1 or own[moving[0]].width is not None or span is None:
            return None
        at = moving[0]
        full = [AffineSubscript(Affine(0), n) for n in (lines.aval.shape[1 - at], span.extent)]
        if (own[1 - at], subscripts[inner]) != (full[0], full[0]) or subscripts[
            1 - inner
        ].start.terms:
            return None
        size = lines.aval.shape[at] * matrix.aval.shape[1 - inner]
        if size > min(_MAX_PRODUCT, _MAX_WASTE * self._total_width(span)):
            return None
        left = wrap(lines) if at == 0 else np.transpose(wrap(lines))
        right = wrap(matrix) if inner == 0 else np.transpose(wrap(matrix))
        product = apply(matmul, (left, right))._value
        index = IterationIndex.of((), (own[at], subscripts[1 - inner]))
        made = self.body.row(product, index, np.zeros(span.extent, value.aval.dtype))
        self.with_spans(value, (span,), made)
        return made

    def _is_part_of_matrix(self, x: Any, ndim: int) -> bool:
        """Whether a value of this many axes is read from a matrix that all iterations share."""
        if type(x) is not Value or x.op is not getitem or type(x.operands[0]) is not Value:
            return False
        matrix, index = x.operands[0], x.params["index"]
        if np.ndim(x.aval) != ndim or bounds_of(x):
            return False
        return matrix not in self.body.dependent and np.ndim(matrix.aval) == len(index) == 2

    def _total_width(self, span: Span) -> int:
        """The positions in a span, over all iterations; 0 if an outer loop says how many."""
        variable, width = self.body.variable, span.width
        if self.body.counts.terms or width.at_start(variable).terms:
            return 0
        last = width.const + width.factor(variable) * (self.body.count - 1)
        return self.body.count * (width.const + last) // 2

    def _write_loop(self, value: Value) -> Value:
        """Write a loop whose trip count moves: with room for the greatest trip count."""
        params = value.params
        count, *operands = value.operands
        counts = self.body.iteration.symbolic.counts.get(count, Affine(params["length"]))
        most = counts.high
        rows_at = params["consts"] + params["carries"]
        if any(map(self.spans_of, operands[:rows_at])) or not most:
            raise NotRollable("a loop reads slices whose extents move with an outer one")
        given = self.body.read(count)
        fixed = map(self.body.read, operands[:rows_at])
        rows = [self._rows(x, Span(Affine(0), counts, most)) for x in operands[rows_at:]]
        stacks = value.aval[params["carries"] :]
        avals = [np.zeros((most, *stack.shape[1:]), stack.dtype) for stack in stacks]
        made = self.body.emit(
            value.op,
            (self._discrete(given, most) if counts.terms else given, *fixed, *rows),
            {**params, "length": most},
            (*value.aval[: params["carries"]], *avals),
        )
        self.loops.add(value)
        return made

    def _rows(self, x: Any, span: Span) -> Any:
        """What the iterations of a loop read; anything after the last iteration."""
        own = self.spans_of(x) or (None,)
        if any(own[1:]) or (own[0] is None and span.width.terms):
            raise NotRollable("a loop reads rows whose extents move with an outer one")
        made = self.body.read(x)
        if own[0] in (None, span):
            return made
        if own[0].width != span.width:
            raise NotRollable("a loop reads rows that are not as many as its iterations")
        return self._shifted(made, 0, own[0], span)

    def _emit_array(self, op: Any, x: Value, y: Any) -> Value:
        return self.body.emit(op, (x, y), NO_PARAMS, x.aval)

    def _write_pick(self, value: Value) -> Value:
        (bundle,) = value.operands
        if value.params["at"] >= bundle.params["carries"]:
            raise NotRollable("what a loop stacks, whose trip count moves, is read")
        return self.body.emit(value.op, (self.body.read(bundle),), value.params, value.aval)

    def _written(
        self,
        value: Value,
        spans: Spans,
        shape: tuple[int, ...],
        op: Any,
        operands: tuple[Any, ...],
        params: dict[str, Any],
    ) -> Value:
        if any(spans):
            self.spans[value] = spans
        aval = np.zeros(shape, np.result_type(value.aval))[()]
        return self.body.emit(op, operands, params, aval)


def _identity(fold: Op, x: Value) -> float:
    """The number that elements of a reduction may have without an effect on the result."""
    assert isinstance(fold.lower, Reduce)
    start: float = fold.lower.identity(np.result_type(x.aval))
    return start
