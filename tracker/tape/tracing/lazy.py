"""Lazy values of a trace: which results are not computed while the function is traced.

`LazyScheduler.defer` makes the value of an equation lazy if
- an operand or the result has `LARGE` bytes (fewer in the body of a loop, and once the trace has
  computed much), or an operand is lazy itself,
- the memory order of the result is known (`order` of a `Map`, `View` or `Expand`; of folds, scans
  and products where their operands are in C order), and
- its numbers cannot make NumPy raise.

Other equations are computed at once, on the arguments where they lie. A loop outside of derivatives
is computed without the carries that its pullback would need; these are lazy, since there may never
be a pullback, and the loop runs again if there is one.

`LastUseSchedule` computes lazy values in little memory, when nothing will read others afterwards:
it frees an array after its last use, or writes the result into it, since to get fresh memory from
the system takes longer than most elementwise ops.

Bools of lazy values may be speculated ("no element is infinite"), so that a check does not force
the computation.

Invariants
1. `result_aval` has the class, shape, dtype and strides of what `evaluate` gives, and is a view
   where that is one.
2. Arguments are read where they lie; no result lies in their memory.
3. Numbers that can be computed again are evicted; others stay (see `value.py`).
4. Speculated bools are verified before anything reads lazy numbers. A wrong one makes all that came
   after it wrong: `SpeculationFailed` ends the trace.
"""

from __future__ import annotations

import gc
import itertools
import math
import mmap
import operator
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.graph import Const, Var
from tracker.ir.lowering import Contract, Expand, Loop, Map, Pick, Reduce, Scan, SliceWrites, View
from tracker.ir.op import Op
from tracker.ir.types import Type, type_of
from tracker.ir.weak_integers import narrowed_integers
from tracker.support.array_copies import copy_with_layout
from tracker.tape.value import (
    NO_PARAMS,
    LazyCallbacks,
    Value,
    compute_lazy,
    evict,
    has_lazy_values,
    is_evictable,
    is_lazy,
    is_lazy_copy,
    keep_computed,
    lazy_values_of,
    make_lazy,
    operand_aval,
    pending_operands,
    readonly_data,
)

LARGE = 1 << 21  # bytes of an array that is lazy
_LONG_TRACE_LARGE = 1 << 17  # the same, once a trace has computed `_LONG_TRACE_BYTES` in smaller
_LONG_TRACE_BYTES = 1 << 26  # arrays; NumPy adds still smaller ones sooner than one is deferred
_ndarray = np.ndarray


class SpeculationFailed(BaseException):
    """A speculated bool was wrong: the function must be traced again."""


class LazyScheduler(LazyCallbacks):
    """The lazy values of one trace.

    of_body          whether the body of a loop is traced, whose numbers hardly anything reads
    speculated       bools that were assumed, with the values that they are computed from
    has_failed       whether one of them was found to be wrong
    on_allocated     called with the bytes of lazy values that were computed after all
    requested        the value that is being computed then
    argument_leaves  the lazy copies of arguments, `argument_arrays` what they are copies of
    computed_bytes   how many bytes the trace has computed
    """

    def __init__(self, *, of_body: bool = False) -> None:
        self.of_body = of_body
        self.speculated: list[tuple[Value, bool]] = []
        self.has_failed = False
        self.on_allocated: Callable[[int], None] | None = None
        self.argument_leaves: list[weakref.ref[Value]] = []
        self.argument_arrays: list[Any] = []
        self.requested: Value | None = None
        self.computed_bytes = 0

    def lazy_leaf(self, array: Any, copy: Callable[[Any], Any]) -> Value | None:
        """A leaf whose data is a copy of an array, made when it is read; None if the array is small
        or not contiguous."""
        if not (_is_large(array) and array.size and array.flags.c_contiguous):
            return None
        value = Value(blank_array(array.shape, array.dtype), None, (), NO_PARAMS)
        make_lazy(value, copy, (array,), (array,), NO_PARAMS, self, array)
        self.argument_leaves.append(weakref.ref(value))
        self.argument_arrays.append(array)
        return value

    def defer(
        self,
        op: Op,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        snapshot_operand: Callable[[Any], Any],
    ) -> Value | None:
        """The lazy value of an equation; None if it is to be computed now. `snapshot_operand` gives
        a copy of an array that nothing changes."""
        has_lazy = has_lazy_values()
        if has_lazy and isinstance(op.lower, Pick):
            return self._defer_pick(op, operands, params)
        threshold = self._threshold()
        for o in operands:
            aval = o.aval if type(o) is Value else o
            if (type(aval) is _ndarray and aval.nbytes >= threshold) or (has_lazy and is_lazy(o)):
                break
        else:
            if not _may_give_large(op, operands, params, threshold):
                return None
        avals = [o.aval if type(o) is Value else o for o in operands]
        aval = result_aval(op, avals, params)
        if aval is None or not self._cannot_raise(op, operands, avals, params):
            return None
        value = Value(aval, op, operands, params)
        arrays = [snapshot_operand(o) for o in operands if type(o) is _ndarray]
        make_lazy(
            value, op.evaluate, operands, arrays, params, self, _argument_view(op, operands, params)
        )
        return value

    def _threshold(self) -> int:
        """The bytes from which on an array is lazy. A long loop over medium arrays costs NumPy as
        much as a short one over large arrays."""
        many = self.of_body or self.computed_bytes >= _LONG_TRACE_BYTES
        return min(LARGE, _LONG_TRACE_LARGE) if many else LARGE

    def without_saved(self, op: Op, params: dict[str, Any]) -> dict[str, Any]:
        """The params to compute an equation with while no derivative is running: a loop saves
        nothing large for its pullback."""
        if not (isinstance(op.lower, Loop) and params["keep"]):
            return params
        return (
            params if sum(x.nbytes for x in _saved_avals(params)) < LARGE else params | {"keep": ()}
        )

    def defer_saved(self, value: Value, snapshot_operand: Callable[[Any], Any]) -> None:
        """Make lazy what the loop would have saved: it runs again if it is read."""
        value.aval = (*value.aval, *_saved_avals(value.params))
        arrays = [snapshot_operand(o) for o in value.operands if type(o) is _ndarray]
        make_lazy(value, value.op.evaluate, value.operands, arrays, value.params, self)

    def _defer_pick(
        self, op: Op, operands: tuple[Any, ...], params: dict[str, Any]
    ) -> Value | None:
        """One result of such a loop."""
        (bundle,) = operands
        if not is_lazy(bundle):
            return None
        value = Value(bundle.aval[params["at"]], op, operands, params)
        if params["at"] >= len(bundle.params["body"].outputs):
            make_lazy(value, op.evaluate, operands, (), params, self)
        return value

    def readonly_operand(self, operand: Any) -> Any:
        """The numbers of an operand, for an op to read at once."""
        return readonly_data(operand) if type(operand) is Value else operand

    def own_result(self, result: Any) -> Any:
        """A copy of a result that lies in the memory of an argument."""
        if type(result) is tuple:
            return tuple(map(self.own_result, result))
        arrays = self.argument_arrays if type(result) is _ndarray else ()
        if any(np.may_share_memory(result, array) for array in arrays):
            return copy_with_layout(result)
        return result

    def _cannot_raise(
        self, op: Op, operands: Sequence[Any], avals: Sequence[Any], params: dict[str, Any]
    ) -> bool:
        """Whether NumPy computes the op whatever the lazy numbers are."""
        lowering = op.lower
        if isinstance(lowering, Map):
            return _map_never_raises(lowering, operands, avals)
        if not isinstance(lowering, Expand):
            return True
        find = lowering.checked_positions
        return find is not None and all(
            self._are_in_bounds(operands[at], extent)
            for at, extent in find(*map(type_of, avals), **params)
        )

    def _are_in_bounds(self, positions: Any, extent: int) -> bool:
        """Whether positions are inside of this extent."""
        while is_lazy(positions) and positions.op is not None:
            op, operands = positions.op, positions.operands
            if isinstance(op.lower, Expand) and op.lower.position_bound is not None:
                avals = [o.aval if type(o) is Value else o for o in operands]
                return bool(
                    op.lower.position_bound(*map(type_of, avals), **positions.params) <= extent
                )
            if not isinstance(op.lower, View) or op.lower.order != "V":
                return False
            (positions,) = operands
        found = np.asarray(self.readonly_operand(positions))
        return bool(found.size) and bool(-extent <= found.min() and found.max() < extent)

    def is_numpy_soon_done(
        self,
        values: Iterable[Value],
        weight: Callable[[Value], int],
        byte_budget: Callable[[int, int], int],
    ) -> bool:
        """Whether NumPy would soon have computed the lazy values that these depend on: they have no
        more bytes than the trace has computed already, or than `byte_budget` gives for so many
        equations of so many kinds. `weight`: the time of an equation in units of a sum."""
        pending, left, kinds = list(lazy_history(values)), 0, set()
        for value in pending:
            if value.op is not None and not isinstance(value.op.lower, View):
                left += weight(value) * max(map(_nbytes, (value, *value.operands)))
                kinds.add((value.op, getattr(value.aval, "shape", None)))
        return left <= max(self.computed_bytes, byte_budget(len(pending), len(kinds)))

    def compute(self, values: Iterable[Value]) -> None:
        """Compute values, after which nothing reads others; and verify speculated bools."""
        LastUseSchedule([*values, *(value for value, _ in self.speculated)]).compute()
        self.before_read()

    def speculate(self, value: Value, answer: bool) -> None:
        """Assume that the bool of a lazy value is `answer`."""
        self.speculated.append((value, answer))

    def finish(self) -> None:
        """The trace is over: compute the lazy values that something still holds."""
        self.speculated.clear()
        keep_computed(self)
        if lazy_values_of(self):
            gc.collect()
        for value in lazy_values_of(self):
            value.data  # noqa: B018 (the descriptor computes it)

    def before_read(self) -> None:
        speculated, self.speculated = self.speculated, []
        for value, answer in speculated:
            self.has_failed |= bool(value.data) is not answer
        if speculated and self.has_failed:
            raise SpeculationFailed

    def on_computed(self, nbytes: int, requested: Value) -> None:
        if self.on_allocated is not None:
            self.requested = requested
            self.on_allocated(nbytes)
            self.requested = None

    def evict_unneeded(self, recorded: Iterable[Value]) -> None:
        """Free the numbers, of recorded values and copies of arguments, that can be computed again;
        not of the value that is being computed, nor of operands of lazy values."""
        awaited = pending_operands(self)
        for value in (*filter(None, [known() for known in self.argument_leaves]), *recorded):
            if id(value) not in awaited and value is not self.requested:
                evict_if_possible(value)


def _may_give_large(
    op: Op, operands: Sequence[Any], params: dict[str, Any], threshold: int
) -> bool:
    """Whether a result may be large though no operand is: a broadcast of two arrays, a product of
    two, or numbers that are put into zeros."""
    if "shape" in params and operands and isinstance(op.lower, (Expand, View)):
        aval = operand_aval(operands[0])
        return type(aval) is _ndarray and math.prod(params["shape"]) * aval.itemsize >= threshold
    if len(operands) != 2:
        return False
    a, b = operands
    a, b = a.aval if type(a) is Value else a, b.aval if type(b) is Value else b
    if type(a) is not _ndarray or type(b) is not _ndarray:
        return False
    if not isinstance(op.lower, (Map, Contract)):
        return False
    if isinstance(op.lower, Contract):
        if not (a.ndim and b.ndim):
            return False  # no product: it raises
        extent = max(a.shape[-1], 1)  # which the two have in common, and the result has not
        rows, columns = math.prod(a.shape[-2:-1]), b.shape[-1] if b.ndim > 1 else 1
        size = max(a.size // extent * columns, b.size // extent * rows)  # of a stack, too
        return bool(size * a.itemsize >= threshold)
    if a.shape == b.shape:
        return False
    pairs = itertools.zip_longest(reversed(a.shape), reversed(b.shape), fillvalue=1)
    return bool(math.prod(itertools.starmap(max, pairs)) * max(a.itemsize, b.itemsize) >= threshold)


def _argument_view(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a view of a lazy copy of an argument reads: the same view of the argument."""
    if not (isinstance(op.lower, View) and op.lower.order == "V" and is_lazy_copy(operands[0])):
        return None
    return op.evaluate(readonly_data(operands[0]), *operands[1:], **params)


def _saved_avals(params: dict[str, Any]) -> list[Any]:
    """The abstract values of what a loop saves for its pullback."""
    found = [params["body"].inputs[params["consts"] + at].type for at in params["keep"]]
    return [blank_array((params["length"], *type.shape), type.dtype) for type in found]


def _nbytes(x: Any) -> int:
    return getattr(x.aval if type(x) is Value else x, "nbytes", 0)


def _is_large(aval: Any) -> bool:
    return type(aval) is _ndarray and aval.nbytes >= LARGE


def _map_never_raises(lowering: Map, operands: Sequence[Any], avals: Sequence[Any]) -> bool:
    """Whether NumPy computes an elementwise op whatever the numbers are."""
    if lowering.requires is None and lowering.refuses is None and int not in map(type, avals):
        return True
    atoms = [
        Var(type_of(aval)) if type(o) is Value or type(o) is _ndarray else Const.of(o)
        for o, aval in zip(operands, avals, strict=True)
    ]
    if narrowed_integers(lowering, atoms):
        return False
    if lowering.refuses is not None and lowering.refuses(*atoms):
        return False
    probe = _RequirementProbe()
    if lowering.requires is not None:
        lowering.requires(probe, *atoms)
    return not probe.has_requirements


class _RequirementProbe:
    """A builder that notices whether `Map.requires` requires anything."""

    has_requirements = False

    def __call__(self, *_: Any, **__: Any) -> None:
        """An equation, which requires nothing by itself."""

    def require(self, _: Any) -> None:
        self.has_requirements = True


# Abstract values ----------------------------------------------------------------------------------


def lies_in(value: Value, whole: Value) -> bool:
    """Whether a value's array lies in that of another. All abstract values lie at the same
    addresses, so for lazy values the equations decide."""
    while value is not whole and is_lazy(value) and not is_lazy_copy(value):
        lowering, aval = value.op.lower, value.aval
        base = value.operands[0] if value.operands else None
        if not isinstance(lowering, View) or lowering.order != "V" or type(base) is not Value:
            return False
        value = base
        if not may_overlap(aval, value.aval):
            return False
    if value is not whole and is_lazy(whole) and not is_lazy_copy(whole):
        return False
    return may_overlap(value.aval, whole.aval)


def may_overlap(a: Any, b: Any) -> bool:
    """Whether both are arrays, one of which may lie in the other."""
    return type(a) is type(b) is _ndarray and np.may_share_memory(a, b)


def result_aval(op: Op, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The abstract value of `op(*operands, **params)`, given those of the operands; None if it is
    not known."""
    lowering = op.lower
    order = "K" if isinstance(lowering, _C_ORDERED) else getattr(lowering, "order", "")
    if callable(order):
        order = order(*map(type_of, avals), **params)
    if not order or any(type(aval) is _ndarray and not aval.size for aval in avals):
        return None
    if not any(hasattr(aval, "dtype") for aval in avals):
        return None  # Python's arithmetic
    try:
        made = op.infer(*map(type_of, avals), **params)
        if made.weak or made.dtype.kind not in "biufc" or not made.size:
            return None
        if order == "V":
            return op.evaluate(*avals, **params)
        _check_python_ints(avals)
        if not made.shape:
            number = not isinstance(lowering, Map | View) or _gives_scalar(op, avals, params)
            return blank_array((), made.dtype)[() if number else ...]
        base = _base_operand(lowering, avals, params)
        if base is not None:
            simple = base.flags.c_contiguous or not any(base.strides)
            return blank_array(made.shape, made.dtype) if simple else None
        return _layout_of_result(made.shape, made.dtype, order, lowering, avals)
    except EVALUATION_ERRORS:  # which NumPy will raise, too
        return None


def _check_python_ints(avals: Sequence[Any]) -> None:
    """Raise as NumPy does for a Python int that the other operand's dtype cannot hold."""
    for number in avals:
        if type(number) is int:
            for other in avals:
                if hasattr(other, "dtype"):
                    other.dtype.type(number)


def _gives_scalar(op: Op, avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether NumPy makes a scalar, not an array, of 0-d operands."""
    with np.errstate(all="ignore"):
        return type(op.evaluate(*avals, **params)) is not _ndarray


def _base_operand(lowering: Any, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The operand that a result is a copy of, with parts written into it; or None."""
    if not isinstance(lowering, View) or lowering.writes is None:
        return None
    base = lowering.writes(*map(type_of, avals), **params).base
    return None if base is None else avals[base]


def _layout_of_result(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: str, lowering: Any, avals: Sequence[Any]
) -> Any:
    arrays = [aval for aval in avals if type(aval) is _ndarray]
    simple = all(
        x.flags.c_contiguous and (x.shape == shape or not isinstance(lowering, Map)) for x in arrays
    )
    if order == "C" or simple or (isinstance(lowering, Contract) and len(shape) <= 2):
        return blank_array(shape, dtype)
    if not isinstance(lowering, Map):
        return blank_array(shape, dtype) if all(map(_is_c_ordered, arrays)) else None
    roles = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    kinds = [*(x.dtype for x in arrays), dtype]
    nditer: Any = np.nditer  # as ufuncs do
    probe = nditer([*arrays, None], [], roles, kinds, "K").operands[-1]
    return None if probe.shape != shape else blank_array(shape, dtype, probe.strides)


def _is_c_ordered(array: Any) -> bool:
    """Whether the strides of the axes are those of C order."""
    steps = [abs(s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    return all(map(operator.gt, steps, steps[1:])) and 0 not in steps


_C_ORDERED = (Contract, Reduce, Scan)  # results are in C order if all that they read is
_FLAGS = ("MAP_PRIVATE", "MAP_ANONYMOUS", "MAP_NORESERVE")  # those that the system has


def _reserve_addresses(size: int) -> Any:
    """Addresses, which take no memory as long as nothing is written there."""
    flags = sum(getattr(mmap, name, 0) for name in _FLAGS)
    return mmap.mmap(-1, size, **({"flags": flags} if flags else {}))


_addresses = _reserve_addresses(1 << 20)


def blank_array(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> Any:
    """An array that serves as an abstract value. All of them lie at the same addresses."""
    global _addresses
    size = math.prod(shape) * dtype.itemsize
    if size > len(_addresses):
        _addresses = _reserve_addresses(2 * size)
    return _ndarray(shape, dtype, _addresses, 0, strides)


_MIN_REUSED_BYTES = 1 << 16  # bytes of an array that is worth overwriting
_UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.neg: np.negative,
}


def lazy_history(values: Iterable[Value]) -> Iterator[Value]:
    """The lazy values among these and those that they depend on, each once."""
    seen, stack = set(), [value for value in values if is_lazy(value)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            yield value
            stack += [] if is_lazy_copy(value) else [o for o in value.operands if is_lazy(o)]


def evict_if_possible(value: Value) -> None:
    """Evict the numbers of a value, if they can be computed again."""
    if can_evict(value):
        evict(value)


def can_evict(value: Value) -> bool:
    """Whether the numbers of a value can be computed again."""
    return is_evictable(value) and not any(map(_is_freed, (value, *value.operands)))


def _is_freed(operand: Any) -> bool:
    """Whether an array was freed, so that nothing can be computed from it."""
    return type(operand) is Value and type(operand.aval) is Type


class LastUseSchedule:
    """Computes values, and frees or overwrites each array after its last use.

    requested  the values to be computed
    pending    all lazy values that these depend on
    uses       how many pending values still need a value, plus one where it is requested
    """

    def __init__(self, wanted: Sequence[Value]) -> None:
        self.requested = wanted
        self.pending = set(lazy_history(wanted))
        self.uses = Counter(wanted)
        self.argument_arrays = [
            readonly_data(value) for value in self.pending if is_lazy_copy(value)
        ]
        for value in self.pending:
            if not is_lazy_copy(value) or value in wanted:
                self.uses.update(_operands(value))

    def compute(self) -> None:
        """Compute the requested values."""
        for value in self.requested:
            compute_lazy(value, self._compute_one, is_last_read=True)
        for value in self.pending:
            if not is_lazy(value) and any(
                np.may_share_memory(value.aval, x) for x in self.argument_arrays
            ):
                value.aval = copy_with_layout(value.aval)

    def _compute_one(
        self, value: Value, evaluate: Callable[..., Any], data: Sequence[Any], params: Any
    ) -> Any:
        """The numbers of one value, given those of its operands."""
        buffer = self._reusable_buffer(value, evaluate, data)
        if buffer is not None and isinstance(value.op.lower, View):
            result = buffer
            for number, index in _view_writes(value, data).parts:
                buffer[index] = data[number]
        elif buffer is not None and evaluate is np.where:
            result = _where_into(data, buffer)
        elif buffer is not None:
            result = _UFUNCS.get(evaluate, evaluate)(*data, out=buffer, **params)
        else:
            result = evaluate(*data, **params)
        for operand in _operands(value):
            self.uses[operand] -= 1
            if not self.uses[operand]:
                evict_if_possible(operand)
        return result

    def _reusable_buffer(
        self, value: Value, evaluate: Callable[..., Any], data: Sequence[Any]
    ) -> Any:
        """An operand's array that the result may be written into, or None."""
        for at in _reuse_candidates(value, evaluate, data):
            last = self._is_last_use(value.operands[at]) and _is_unshared(data, at)
            if last and _has_same_layout(value.aval, data[at]):
                return data[at]
        return None

    def _is_last_use(self, operand: Any) -> bool:
        if type(operand) is not Value or operand not in self.pending:
            return False
        return self.uses[operand] == 1 and can_evict(operand)


def _operands(value: Value) -> set[Value]:
    return {operand for operand in value.operands if type(operand) is Value}


def _reuse_candidates(
    value: Value, evaluate: Callable[..., Any], data: Sequence[Any]
) -> Iterable[int]:
    """The operands whose arrays the result could be written into."""
    if value.op is not None and isinstance(value.op.lower, View):
        base = None if value.op.lower.writes is None else _view_writes(value, data).base
        return () if base is None else (base,)
    if evaluate is np.where:
        return (1, 2)
    ufunc = _UFUNCS.get(evaluate, evaluate)
    return range(len(data)) if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 else ()


def _where_into(data: Sequence[Any], buffer: Any) -> Any:
    """`np.where(*data)` in the memory of one of its branches."""
    takes = np.asarray(data[0], bool)
    other, where = (data[2], ~takes) if data[1] is buffer else (data[1], takes)
    np.copyto(buffer, other, where=where)
    return buffer


def _is_unshared(data: Sequence[Any], index: int) -> bool:
    """Whether nothing else refers to an operand's array, or to its memory."""
    return sys.getrefcount(data[index]) <= _UNSHARED_REFCOUNT and data[index].base is None


def _view_writes(value: Value, data: Sequence[Any]) -> SliceWrites:
    """The base and the parts of a view that is assembled by writes."""
    found: SliceWrites = value.op.lower.writes(*map(type_of, data), **value.params)
    return found


def _has_same_layout(aval: Any, array: Any) -> bool:
    return (
        type(aval) is type(array) is np.ndarray
        and array.nbytes >= _MIN_REUSED_BYTES
        and (aval.shape, aval.dtype, aval.strides) == (array.shape, array.dtype, array.strides)
    )


def _measure_unshared_refcount() -> int:
    """The reference count of an operand's array that nothing else refers to."""
    operand = Value(np.zeros(1), None, (), {})
    holder = [operand.aval]
    return sys.getrefcount(holder[0])


_UNSHARED_REFCOUNT = _measure_unshared_refcount()
