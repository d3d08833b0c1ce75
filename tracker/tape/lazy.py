"""Which equations of a trace are put off, and the forms of their results.

Owns: `Deferral`, what one trace has put off and taken for granted; `result_form`, the form that an
equation's result has, found without computing it; `Misjudged`. A form is an array in the layout of
the result, of memory that is never written; see `value.py`, which computes numbers when they are
asked for. Start at `Deferral.take`.

An equation is put off if it takes in or gives an array of `LARGE` bytes (of fewer, once the trace
has computed much), or a value that was put off, if it is known how its result lies in memory
(`order` of a `Map`, `View` or `Expand`; of folds, scans and products, where what they read lies in
C order), and if its values cannot make it raise.
What cannot be put off is computed at once, of the arguments where they lie. But of a loop that runs
outside of derivatives the carries that each step found are put off: they are for a pullback of it,
which there may never be (of a loop back through another there hardly ever is). If there is one, the
loop runs again.

Invariants
1. A form has the class, shape, dtype and strides of what `evaluate` gives, and is a view where that
   is one.
2. What was taken for granted is looked at before anybody gets numbers: where it was wrong, all that
   came after it was wrong, and `Misjudged` ends the trace.
"""

from __future__ import annotations

import gc
import itertools
import math
import mmap
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracker.errors import REFUSALS
from tracker.ir.graph import Const, Var
from tracker.ir.integer_literals import narrow_integers
from tracker.ir.lowering import Contract, Expand, Loop, Map, Pick, Reduce, Scan, View
from tracker.ir.op import Op
from tracker.ir.types import type_of
from tracker.support.array_copies import own_copy
from tracker.tape.lazy_schedule import LastUses, due_for, let_go
from tracker.tape.value import (
    NO_PARAMS,
    Postponed,
    Value,
    awaited_by,
    forget,
    is_anything_due,
    is_due,
    is_given,
    lent,
    postpone,
    put_off_by,
)

LARGE = 1 << 21  # bytes
_MUCH = 1 << 26  # bytes: a trace that has computed these in smaller arrays puts those off, too,
_LESS = 1 << 17  # bytes: of smaller ones NumPy adds up more while one is put off
_ndarray = np.ndarray


class Misjudged(BaseException):
    """A trace has taken something for granted that is not so: it must be made again."""


class Deferral(Postponed):
    """`granted`: bools that were taken to be what they most likely are. `wrong`: whether one of
    them was found to be otherwise. `grow` is told of bytes that were computed after all; `wanted`
    is whose numbers are being asked for then. `leaves`: those that `leaf` has made, and `given`
    what they are copies of. `spent`: how many bytes the trace has computed."""

    def __init__(self) -> None:
        self.granted: list[tuple[Value, bool]] = []
        self.wrong = False
        self.grow: Callable[[int], None] | None = None
        self.leaves: list[weakref.ref[Value]] = []
        self.given: list[Any] = []
        self.wanted: Value | None = None
        self.spent = 0

    def leaf(self, array: Any, copy: Callable[[Any], Any]) -> Value | None:
        """A leaf whose data is a copy of an array, made when it is asked for; None if the array is
        small, or lies in an unusual way."""
        if not (_is_large(array) and array.size and array.flags.c_contiguous):
            return None
        value = Value(blank(array.shape, array.dtype), None, (), NO_PARAMS)
        postpone(value, copy, (array,), (array,), NO_PARAMS, self, array)
        self.leaves.append(weakref.ref(value))
        self.given.append(array)
        return value

    def take(
        self, op: Op, operands: tuple[Any, ...], params: dict[str, Any], see: Callable[[Any], Any]
    ) -> Value | None:
        """The value of an equation that is put off; None of one that is to be computed now.
        `see` gives a copy of an array, which nobody changes."""
        due = is_anything_due()
        if due and isinstance(op.lower, Pick):
            return self._part(op, operands, params)
        large = self._large()
        for o in operands:
            form = o.form if type(o) is Value else o
            if (type(form) is _ndarray and form.nbytes >= large) or (due and is_due(o)):
                break
        else:
            if not _gives_large(op, operands, large):
                return None
        forms = [o.form if type(o) is Value else o for o in operands]
        form = result_form(op, forms, params)
        if form is None or not self._is_safe(op, operands, forms, params):
            return None
        value = Value(form, op, operands, params)
        arrays = [see(o) for o in operands if type(o) is _ndarray]
        postpone(value, op.evaluate, operands, arrays, params, self, _lent(op, operands, params))
        return value

    def _large(self) -> int:
        """From how many bytes on an array is put off: a long loop over middling arrays costs NumPy
        as much as a short one over large arrays."""
        return LARGE if self.spent < _MUCH else min(LARGE, _LESS)

    def unread(self, op: Op, params: dict[str, Any]) -> dict[str, Any]:
        """The params with which an equation is computed now, if no derivative is running that will
        want what it keeps: a loop keeps nothing that is large."""
        if not (isinstance(op.lower, Loop) and params["keep"]):
            return params
        return params if sum(x.nbytes for x in _stacks(params)) < LARGE else params | {"keep": ()}

    def put_off_kept(self, value: Value, see: Callable[[Any], Any]) -> None:
        """Let the loop run again if anybody asks for what it keeps."""
        value.form = (*value.form, *_stacks(value.params))
        arrays = [see(o) for o in value.operands if type(o) is _ndarray]
        postpone(value, value.op.evaluate, value.operands, arrays, value.params, self)

    def _part(self, op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Value | None:
        """A part of what such a loop gives."""
        (bundle,) = operands
        if not is_due(bundle):
            return None
        value = Value(bundle.form[params["at"]], op, operands, params)
        if params["at"] >= len(bundle.params["body"].outputs):
            postpone(value, op.evaluate, operands, (), params, self)
        return value

    def lend(self, operand: Any) -> Any:
        """The numbers of an operand for an op to read at once."""
        return lent(operand) if type(operand) is Value else operand

    def kept(self, result: Any) -> Any:
        """What an op gave that has read what was lent: nothing of it stays in an argument."""
        if type(result) is tuple:
            return tuple(map(self.kept, result))
        arrays = self.given if type(result) is _ndarray else ()
        if any(np.may_share_memory(result, array) for array in arrays):
            return own_copy(result)
        return result

    def _is_safe(
        self, op: Op, operands: Sequence[Any], forms: Sequence[Any], params: dict[str, Any]
    ) -> bool:
        """Whether NumPy computes the op, whatever the numbers are of what is put off."""
        how = op.lower
        if isinstance(how, Map):
            return _never_raises(how, operands, forms)
        return not isinstance(how, Expand) or all(
            self._is_within(operands[at], extent)
            for at, extent in _positions(how, forms, params) or ()
        )

    def _is_within(self, positions: Any, extent: int) -> bool:
        """Whether positions are inside of this extent."""
        while is_due(positions) and positions.op is not None:
            op, operands = positions.op, positions.operands
            if isinstance(op.lower, Expand) and op.lower.below is not None:
                forms = [o.form if type(o) is Value else o for o in operands]
                return bool(op.lower.below(*map(type_of, forms), **positions.params) <= extent)
            if not isinstance(op.lower, View) or op.lower.order != "V":
                return False
            (positions,) = operands
        found = np.asarray(self.lend(positions))
        return bool(found.size) and bool(-extent <= found.min() and found.max() < extent)

    def is_ahead(
        self,
        values: Iterable[Value],
        weight: Callable[[Value], int],
        soon: Callable[[int, int], int],
    ) -> bool:
        """Whether what these values are still to be computed of is no more than `soon` bytes (given
        the number of equations, and of kinds of them), or than the trace has computed already: then
        NumPy has soon computed the rest, too. `weight`: how many times as long as a sum an equation
        takes."""
        due, left, kinds = list(due_for(values)), 0, set()
        for value in due:
            if value.op is not None and not isinstance(value.op.lower, View):
                left += weight(value) * max(map(_nbytes, (value, *value.operands)))
                kinds.add((value.op, getattr(value.form, "shape", None)))
        return left <= max(self.spent, soon(len(due), len(kinds)))

    def compute(self, values: Iterable[Value]) -> None:
        """Give values their numbers; nobody will ask for others. What was taken for granted is
        looked at, too."""
        LastUses([*values, *(value for value, _ in self.granted)]).compute()
        self.asked()

    def grant(self, value: Value, answer: bool) -> None:
        """Take it for granted that a value that was put off is this."""
        self.granted.append((value, answer))

    def end(self) -> None:
        """The trace is over: what somebody still holds is computed."""
        self.granted.clear()
        forget(self)
        if put_off_by(self):
            gc.collect()
        for value in put_off_by(self):
            value.data  # noqa: B018 (the door computes it)

    def asked(self) -> None:
        granted, self.granted = self.granted, []
        for value, answer in granted:
            self.wrong |= bool(value.data) is not answer
        if granted and self.wrong:
            raise Misjudged

    def computed(self, nbytes: int, wanted: Value) -> None:
        if self.grow is not None:
            self.wanted = wanted
            self.grow(nbytes)
            self.wanted = None

    def free(self, noted: Iterable[Value]) -> None:
        """Put numbers off again that can be had again: of the values that a trace has noted, and
        copies of arguments. Not what is wanted now, nor what others are made of that are still to
        be computed."""
        awaited = awaited_by(self)
        for value in (*filter(None, [known() for known in self.leaves]), *noted):
            if id(value) not in awaited and value is not self.wanted:
                let_go(value)


def _gives_large(op: Op, operands: Sequence[Any], large: int) -> bool:
    """Whether a result may be large where no operand is: of two arrays that are spread over each
    other, or of the product of two."""
    if not isinstance(op.lower, Map | Contract) or len(operands) != 2:
        return False
    a, b = (o.form if type(o) is Value else o for o in operands)
    if type(a) is not _ndarray or type(b) is not _ndarray:
        return False
    if isinstance(op.lower, Contract):
        if not (a.ndim and b.ndim):
            return False  # no product: it raises
        extent = max(a.shape[-1], 1)  # which the two have in common, and the result has not
        rows, columns = math.prod(a.shape[-2:-1]), b.shape[-1] if b.ndim > 1 else 1
        size = max(a.size // extent * columns, b.size // extent * rows)  # of a stack, too
        return bool(size * a.itemsize >= large)
    if a.shape == b.shape:
        return False
    pairs = itertools.zip_longest(reversed(a.shape), reversed(b.shape), fillvalue=1)
    return bool(math.prod(itertools.starmap(max, pairs)) * max(a.itemsize, b.itemsize) >= large)


def _lent(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a view reads, if that is given: a view of what the trace was given."""
    if not (isinstance(op.lower, View) and op.lower.order == "V" and is_given(operands[0])):
        return None
    return op.evaluate(lent(operands[0]), *operands[1:], **params)


def _stacks(params: dict[str, Any]) -> list[Any]:
    """The forms of what a loop keeps."""
    found = [params["body"].inputs[params["consts"] + at].type for at in params["keep"]]
    return [blank((params["length"], *type.shape), type.dtype) for type in found]


def _nbytes(x: Any) -> int:
    return getattr(x.form if type(x) is Value else x, "nbytes", 0)


def _is_large(form: Any) -> bool:
    return type(form) is _ndarray and form.nbytes >= LARGE


def _never_raises(how: Map, operands: Sequence[Any], forms: Sequence[Any]) -> bool:
    """Whether NumPy computes the op whatever the numbers of values are."""
    if how.requires is None and how.refuses is None and int not in map(type, forms):
        return True
    atoms = [
        Var(type_of(form)) if type(o) is Value or type(o) is _ndarray else Const.of(o)
        for o, form in zip(operands, forms, strict=True)
    ]
    if narrow_integers(how, atoms):
        return False
    if how.refuses is not None and how.refuses(*atoms):
        return False
    asked = _Asked()
    if how.requires is not None:
        how.requires(asked, *atoms)
    return not asked.anything


class _Asked:
    """Who writes down what must hold (see `Map.requires`): whether there is anything."""

    anything = False

    def __call__(self, *_: Any, **__: Any) -> None:
        """An equation: it alone asks for nothing."""

    def require(self, _: Any) -> None:
        self.anything = True


def _positions(
    how: Expand, forms: Sequence[Any], params: dict[str, Any]
) -> Sequence[tuple[int, int]] | None:
    """Which operands must be positions within which extents, where NumPy raises for nothing else;
    None where it may."""
    return None if how.positions is None else how.positions(*map(type_of, forms), **params)


# Forms --------------------------------------------------------------------------------------------


def lies_in(value: Value, whole: Value) -> bool:
    """Whether a value's array lies in that of another. Forms of what is put off all lie in the same
    addresses: what they were made by tells."""
    while value is not whole and is_due(value) and not is_given(value):
        how, form = value.op.lower, value.form
        if not isinstance(how, View) or how.order != "V" or type(value.operands[0]) is not Value:
            return False
        (value, *_) = value.operands
        if not may_share(form, value.form):
            return False
    if value is not whole and is_due(whole) and not is_given(whole):
        return False
    return may_share(value.form, whole.form)


def may_share(a: Any, b: Any) -> bool:
    """Whether both are arrays, one of which may lie in the other."""
    return type(a) is type(b) is _ndarray and np.may_share_memory(a, b)


def result_form(op: Op, forms: Sequence[Any], params: dict[str, Any]) -> Any:
    """The form of `op(*operands, **params)`, given those of the operands; None if that is not
    known."""
    how = op.lower
    order = "K" if isinstance(how, _IN_ORDER) else getattr(how, "order", "")
    if not order or any(type(form) is _ndarray and not form.size for form in forms):
        return None
    if not any(hasattr(form, "dtype") for form in forms):
        return None  # Python's arithmetic
    try:
        made = op.infer(*map(type_of, forms), **params)
        if isinstance(how, Expand) and _positions(how, forms, params) is None:
            return None
        if made.weak or made.dtype.kind not in "biufc" or not made.size:
            return None
        if order == "V":
            return op.evaluate(*forms, **params)
        _check_numbers(forms)
        if not made.shape:
            number = not isinstance(how, Map | View) or _gives_number(op, forms, params)
            return blank((), made.dtype)[() if number else ...]
        base = _base(how, forms, params)
        if base is not None:
            simple = base.flags.c_contiguous or not any(base.strides)
            return blank(made.shape, made.dtype) if simple else None
        return _laid_out(made.shape, made.dtype, order, how, forms)
    except REFUSALS:  # which NumPy will raise, too
        return None


def _check_numbers(forms: Sequence[Any]) -> None:
    """Raise as NumPy does for a Python int that the other operand's dtype has no room for."""
    for number in forms:
        if type(number) is int:
            for other in forms:
                if hasattr(other, "dtype"):
                    other.dtype.type(number)


def _gives_number(op: Op, forms: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether NumPy makes a number of operands without dimensions, and not an array."""
    with np.errstate(all="ignore"):
        return type(op.evaluate(*forms, **params)) is not _ndarray


def _base(how: Any, forms: Sequence[Any], params: dict[str, Any]) -> Any:
    """The operand that a result is a copy of, with parts written into it; None if there is none."""
    if not isinstance(how, View) or how.writes is None:
        return None
    base = how.writes(*map(type_of, forms), **params).base
    return None if base is None else forms[base]


def _laid_out(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: str, how: Any, forms: Sequence[Any]
) -> Any:
    arrays = [form for form in forms if type(form) is _ndarray]
    simple = all(
        x.flags.c_contiguous and (x.shape == shape or not isinstance(how, Map)) for x in arrays
    )
    if order == "C" or simple or (isinstance(how, Contract) and len(shape) <= 2):
        return blank(shape, dtype)
    if not isinstance(how, Map):
        return blank(shape, dtype) if all(map(_is_in_order, arrays)) else None
    roles = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    kinds = [*(x.dtype for x in arrays), dtype]
    walk: Any = np.nditer  # as ufuncs do
    laid = walk([*arrays, None], [], roles, kinds, "K").operands[-1]
    return None if laid.shape != shape else blank(shape, dtype, laid.strides)


def _is_in_order(array: Any) -> bool:
    """Whether the strides of the axes say that they are in C order."""
    steps = [abs(s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    return all(map(operator.gt, steps, steps[1:])) and 0 not in steps


_IN_ORDER = (Contract, Reduce, Scan)  # results are in C order if all that they read is
_FLAGS = ("MAP_PRIVATE", "MAP_ANONYMOUS", "MAP_NORESERVE")  # those that the system has


def _room(size: int) -> Any:
    """Addresses, which take no memory as long as nobody writes there."""
    flags = sum(getattr(mmap, name, 0) for name in _FLAGS)
    return mmap.mmap(-1, size, **({"flags": flags} if flags else {}))


_blank = _room(1 << 20)


def blank(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> Any:
    """An array that is there for its form. All of them lie in the same addresses."""
    global _blank
    size = math.prod(shape) * dtype.itemsize
    if size > len(_blank):
        _blank = _room(2 * size)
    return _ndarray(shape, dtype, _blank, 0, strides)
