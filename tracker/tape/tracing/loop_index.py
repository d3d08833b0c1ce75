"""Subscripts that move with a loop: affine forms of loop indices, and indices that hold them.

While an iteration of a Python loop stands for all of them (`control/python_loops`), its index is a
tracked int. `affine_form` finds sums and multiples of it among the recorded values, and
`ops/indexing/canonical.py` makes the basic index of this one iteration from a subscript with such
ints in it: an `IterationIndex`, a tuple like any other, which also has the subscript in every one.

Invariant: `IterationIndex.subscripts` holds for all iterations of all loops that the forms name,
with negative positions wrapped and nothing clipped; it is None where no one form does.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from tracker.support.structs import record
from tracker.tape.observers import observers, thread_state
from tracker.tape.record import wrap
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value


class LoopVariable:
    """The number of an iteration of one loop, from 0 to `last`, which may move with outer loops, of
    which there are `depth`; `now`: that of the iteration that runs."""

    __slots__ = ("depth", "last", "now")

    def __init__(self, last: Affine, depth: int, now: int) -> None:
        self.last, self.depth, self.now = last, depth, now


@record(frozen=True)
class Affine:
    """`const + sum(factor * variable)`; no factor is 0."""

    const: int
    terms: tuple[tuple[LoopVariable, int], ...] = ()

    @staticmethod
    def of(const: int, terms: Iterable[tuple[LoopVariable, int]]) -> Affine:
        total: dict[LoopVariable, int] = {}
        for variable, factor in terms:
            total[variable] = total.get(variable, 0) + factor
        kept = [item for item in total.items() if item[1]]
        return Affine(const, tuple(sorted(kept, key=lambda item: id(item[0]))))

    def plus(self, other: Affine) -> Affine:
        return Affine.of(self.const + other.const, (*self.terms, *other.terms))

    def times(self, factor: int) -> Affine:
        return Affine.of(self.const * factor, [(v, f * factor) for v, f in self.terms])

    def minus(self, other: Affine) -> Affine:
        return self.plus(other.times(-1))

    def factor(self, variable: LoopVariable) -> int:
        """By how much it moves from iteration to iteration of a loop."""
        return dict(self.terms).get(variable, 0)

    def at_start(self, variable: LoopVariable) -> Affine:
        """The form in the first iteration of a loop."""
        return Affine(self.const, tuple([item for item in self.terms if item[0] is not variable]))

    @property
    def now(self) -> int:
        """The value in the iteration that runs."""
        return self.const + sum(factor * variable.now for variable, factor in self.terms)

    @property
    def low(self) -> int:
        """The least value in any iteration."""
        return -self.times(-1).high

    @property
    def high(self) -> int:
        """The greatest value in any iteration, or more: an inner loop may have none at all."""
        form = self
        while form.terms:
            variable, factor = max(form.terms, key=lambda item: item[0].depth)
            form = form.at_start(variable).plus(variable.last.times(max(factor, 0)))
        return form.const


@record(frozen=True)
class AffineSubscript:
    """An entry of an index: from `start` on `width` positions, `step` apart; width None: an int.

    A width that moves with loops has step 1.
    """

    start: Affine
    width: int | Affine | None = None
    step: int = 1

    @property
    def grows(self) -> bool:
        """Whether the number of positions moves with loops."""
        return type(self.width) is Affine

    @property
    def end(self) -> Affine:
        """The position after the last one."""
        if isinstance(self.width, Affine):
            return self.start.plus(self.width)
        covered = 1 if self.width is None else max((self.width - 1) * self.step + 1, 0)
        return self.start.plus(Affine(covered))


Subscripts: TypeAlias = tuple[AffineSubscript | None, ...]  # an entry per axis; None: a new axis


class IterationIndex(tuple[Any, ...]):
    """The canonical basic index of one iteration, and its `subscripts` in all (None: no one form).

    entries: of an index of a value that may grow: its plain ints, slices and new axes, as they were
    given, and the subscripts of what moves, which hold along axes that do not grow.
    bounds: of a slice of the first axis, the numbers of arrays that it begins and ends at.
    """

    subscripts: Subscripts | None
    entries: tuple[Any, ...] | None = None
    bounds: tuple[Any, ...] = ()

    @staticmethod
    def of(index: tuple[Any, ...], subscripts: Subscripts | None) -> IterationIndex:
        made = IterationIndex(index)
        made.subscripts = subscripts
        return made

    def __reduce__(self) -> Any:
        return tuple, (list(self),)


class SymbolicIteration:
    """An iteration that stands for all iterations of a loop.

    variable     its number, and `number`, the value that stands for it
    forms        the values of known affine form; None for those without one
    may_grow     whether the code of the loop asks for extents in such ways only as are noticed
    growing      the values that are computed from slices whose extents move, or from selections
    extents      of carried arrays, whose extents move
    masks        its arrays of bools
    bounds       numbers of arrays that slices begin or end at, and how often each was read for that
    counts       the trip counts of inner loops, by the numbers that say so
    tests        where Python has branched on values: (code, offset of the instruction)
    paths_within the paths of inner loops, by the values that say how many iterations took them
    vectorised   the inner loops that are operations on arrays
    has_learned  whether something is of this iteration alone: an extent, a position, what it prints
    ends_short   whether an inner loop has too few iterations in the last ones
    """

    def __init__(self, last: Affine, depth: int, may_grow: bool, now: int) -> None:
        self.variable = LoopVariable(last, depth, now)
        self.forms: dict[Value, Affine | None] = {}
        self.may_grow = may_grow
        self.growing: set[Value] = set()
        self.extents: dict[Value, tuple[Affine, ...]] = {}
        self.masks: set[Value] = set()
        self.bounds: Counter[Value] = Counter()
        self.counts: dict[Value, Affine] = {}
        self.tests: dict[Value, tuple[CodeType, int]] = {}
        self.paths_within: dict[Value, Any] = {}
        self.vectorised: set[Any] = set()
        self.has_learned = self.ends_short = False
        self.number = Value(now, CLOSED, (), NO_PARAMS)
        self.forms[self.number] = Affine.of(0, [(self.variable, 1)])

    def index(self, start: Any, step: int) -> Tracked:
        """The tracked number `start + step * iteration`; its data is that of this one. A start that
        moves is an operand of it: an outer iteration that leaves the loop here computes it."""
        form = affine_form(start)
        assert form is not None
        form = form.plus(Affine.of(0, [(self.variable, step)]))
        if form.at_start(self.variable).terms:
            value = (start + step * self.variable.now)._value
        else:
            value = Value(form.now, CLOSED, (), NO_PARAMS)
        self.forms[value] = form
        tracked: Tracked = wrap(value)
        return tracked

    def outcomes(self, code: CodeType) -> dict[int, set[bool]]:
        """What tests in this code have been, by the offsets of instructions."""
        found: dict[int, set[bool]] = {}
        for value, (tested, offset) in self.tests.items():
            if tested is code:
                found.setdefault(offset, set()).add(bool(value.data))
        return found

    def note_growth(self, value: Value) -> None:
        """A value was recorded: note whether its extents may move."""
        index, operands = value.params.get("index"), value.operands
        subscripts = index.subscripts if isinstance(index, IterationIndex) else None
        assert value.op is not None
        if value.op.name in ("put", "scatter"):  # they have the extents of what is written into
            subscripts, operands = None, operands[:1]
        elif value.op.name == "pick" and value.params["at"] < operands[0].params.get("carries", 0):
            return
        values = [o for o in operands if type(o) is Value]
        is_array = type(value.aval) in (np.ndarray, tuple)
        if type(value.aval) is np.ndarray and value.aval.dtype == np.bool_:
            self.masks.add(value)
        is_selection = value.op.name == "gather" and "counts" in value.params
        grows = is_selection and not self.masks.isdisjoint(values)
        grows |= any(subscript is not None and subscript.grows for subscript in subscripts or ())
        grows |= bounds_of(value) != ()
        if is_array and (grows or not self.growing.isdisjoint(values)):
            self.growing.add(value)


def active_iterations() -> Sequence[SymbolicIteration]:
    """The symbolic iterations that run in this thread, innermost last."""
    return thread_state.tracers[-1].iterations if observers and thread_state.tracers else ()


def grows(x: Any) -> bool:
    """Whether the extents of an array may move with the iterations that run."""
    value = x._value if type(x) is Tracked else x
    return type(value) is Value and any(value in each.growing for each in active_iterations())


def affine_form(x: Any) -> Affine | None:
    """The form of an int that symbolic iterations and constants make; None for anything else."""
    if type(x) is int:
        return Affine(x)
    value = x._value if type(x) is Tracked else x
    if type(value) is not Value or type(value.aval) is not int:
        return None
    iterations = active_iterations()
    if not iterations:
        return None
    forms = ChainMap(*(iteration.forms for iteration in reversed(iterations)))
    pending = [value]  # no recursion: a number may be a sum of thousands
    while pending:
        made = pending[-1]
        unknown = [o for o in _terms_of(made) if type(o) is Value and o not in forms]
        if unknown and made not in forms:
            pending += unknown
        else:
            forms.setdefault(pending.pop(), _combined(made, forms))
    return forms[value]


def _terms_of(value: Value) -> tuple[Any, ...]:
    """The operands of an int that may have a form."""
    is_known = type(value.aval) is int and value.op not in (CLOSED, None)
    return value.operands if is_known and value.op.name in _COMBINE else ()


def _combined(value: Value, forms: Mapping[Value, Affine | None]) -> Affine | None:
    """The form of an int, by those of its operands."""
    found = [Affine(o) if type(o) is int else forms.get(o) for o in _terms_of(value)]
    if not found or any(form is None for form in found):
        return None
    return _COMBINE[value.op.name](*found)


def number_of(form: Affine) -> Any:
    """A form as a number: a tracked one, if it moves with loops."""
    total: Any = form.const
    for iteration in active_iterations():
        factor = form.factor(iteration.variable)
        total = total + wrap(iteration.number) * factor if factor else total
    return total


def _product(a: Affine, b: Affine) -> Affine | None:
    if b.terms:
        a, b = b, a
    return None if b.terms else a.times(b.const)


_COMBINE: dict[str, Callable[..., Affine | None]] = {
    "add": Affine.plus,
    "subtract": Affine.minus,
    "negative": lambda a: a.times(-1),
    "positive": lambda a: a,
    "multiply": _product,
}


def moves(key: Any) -> bool:
    """Whether a subscript has tracked ints of known form in it, and no other tracked parts."""
    if not observers or not active_iterations():
        return False
    found = False
    for part in key if type(key) is tuple else (key,):
        for x in _numbers_in(part):
            if type(x) is Tracked:
                if affine_form(x) is None:
                    return False
                found = True
            elif x is not None and x is not Ellipsis and type(x) is not int:
                return False
    return found


def _numbers_in(part: Any) -> tuple[Any, ...]:
    return (part.start, part.stop, part.step) if type(part) is slice else (part,)


def bounds_of(value: Value) -> tuple[Any, ...]:
    """The bounds of the slice that an equation reads, or writes, if they are numbers of arrays."""
    index = value.params.get("index")
    return index.bounds if isinstance(index, IterationIndex) else ()


def ragged_index(key: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index of a subscript that is read; of a slice of the first axis between numbers of
    arrays, such as `x[starts[i] : starts[i + 1]]`, with these bounds. They are guarded, as they
    have been read."""
    iterations = active_iterations()
    if type(index) is IterationIndex or not iterations:
        return index
    if not all(iteration.may_grow for iteration in iterations):
        return index
    parts = key if type(key) is tuple else (key,)
    first, others = (parts or (None,))[0], parts[1:]
    if type(first) is not slice or first.step not in (None, 1) or None in index:
        return index
    bounds = [x._value if type(x) is Tracked else x for x in (first.start, first.stop)]
    values = [x for x in bounds if type(x) is Value]
    moving = [x for part in others for x in _numbers_in(part) if type(x) is Tracked]
    if not values or moving:
        return index
    iterations[-1].bounds.update(values)
    made = IterationIndex.of(index, None)
    made.bounds = tuple(bounds)
    return made


def plain_entry(part: Any) -> Any:
    """An entry of a subscript that moves, in this iteration."""
    if type(part) is slice:
        return slice(plain_entry(part.start), plain_entry(part.stop), plain_entry(part.step))
    return part._value.aval if type(part) is Tracked else part


def subscript_of(part: Any, extent: int) -> AffineSubscript | None:
    """The subscript of an entry along an axis in every iteration; None if no one form holds."""
    if type(part) is not slice:
        form = affine_form(part)
        start = None if form is None else _wrapped(form, extent - 1, extent)
        return None if start is None else AffineSubscript(start)
    if not any(type(x) is Tracked for x in _numbers_in(part)):
        covered = range(*part.indices(extent))
        return AffineSubscript(Affine(covered.start), len(covered), covered.step)
    if part.step not in (None, 1):
        return None
    low = Affine(0) if part.start is None else affine_form(part.start)
    high = Affine(extent) if part.stop is None else affine_form(part.stop)
    low = low and _wrapped(low, extent, extent)
    high = high and _wrapped(high, extent, extent)
    if low is None or high is None:
        return None
    width = high.minus(low)
    if width.terms:
        grows = width.low >= 0 and all(each.may_grow for each in active_iterations())
        return AffineSubscript(low, width) if grows else None
    return None if width.const < 0 else AffineSubscript(low, width.const)


def reversed_slice(part: slice, extent: int) -> slice | None:
    """The positions of a slice that steps backwards, and moves, as one that steps forwards; None
    if it may not begin at its start, or not end at its stop."""
    low, high = part.stop, part.start
    last = Affine(extent - 1) if high is None else affine_form(high)
    if last is None or last.low < 0 or last.high >= extent:
        return None
    if low is not None:
        before = affine_form(low)
        if before is None or before.low < 0 or last.minus(before).low < 0:
            return None
        low = low + 1
    return slice(low, None if high is None else high + 1)


def note_learned(*forms: Affine) -> None:
    """Something depends on the values that forms have in this iteration alone."""
    for iteration in active_iterations():
        iteration.has_learned |= any(form.factor(iteration.variable) for form in forms)


def note_short_end(counts: Affine) -> None:
    """A loop, of so many iterations, has too few of them in the last iterations of others."""
    for iteration in active_iterations():
        iteration.ends_short |= counts.factor(iteration.variable) < 0


def _wrapped(form: Affine, highest: int, extent: int) -> Affine | None:
    """A position, from the end if it is negative, where that is one form for all iterations."""
    if form.low < 0:
        form = form.plus(Affine(extent)) if form.high < 0 else form
    return form if form.low >= 0 and form.high <= highest else None
