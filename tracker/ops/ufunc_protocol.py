"""`Tracked.__array_ufunc__`: ufunc calls with `out=`, `where=` or `dtype=`, and ufunc methods.

`reduce` and `accumulate` become NumPy's reductions and cumulative functions where there is one of
that meaning (`add.reduce` is `sum`), `outer` becomes broadcasting and `at` a scatter; other ufuncs
are folded element by element. Start at `array_ufunc`.
"""

from __future__ import annotations

import dis
import math
import sys
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.errors import UnsupportedError, message
from tracker.ir.op import NUMPY, UFUNCS, Op
from tracker.ops.along_axis.cumulative import running_maximum, running_minimum
from tracker.ops.declare.arguments import NO_VALUE, as_array, as_strong_array, refuse_keywords
from tracker.ops.declare.casting import (
    broadcast_to_out,
    cast_to_out,
    in_dtype_of_fold,
    store_out,
    writable_target,
)
from tracker.ops.declare.dtypes import cast_to_loop
from tracker.ops.indexing import subscripts
from tracker.ops.reduce.reduce import keepdims_shape, normalize_reduced_axes
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.conversions import plain_integers
from tracker.tape.record import apply, aval_of
from tracker.tape.tracked import Tracked, set_ufunc_protocol
from tracker.user_frames import user_frame

_MADE_BY_FROMPYFUNC = " (vectorized)"
_PYTHON_NUMBERS = (float, int, complex, bool)


def apply_ufunc(op: Op, operands: tuple[Any, ...]) -> Any:
    """Apply a ufunc's op; Python numbers become NumPy's first, as in NumPy."""
    operands = tuple(as_array(x) if isinstance(x, (list, tuple)) else x for x in operands)
    if all(isinstance(aval_of(x), _PYTHON_NUMBERS) for x in operands):
        operands = tuple(np.astype(x, np.result_type(aval_of(x))) for x in map(as_array, operands))
    return apply(op, operands)


def array_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """All ufunc calls on tracked arrays but the plain call of a common ufunc."""
    if method == "__call__":
        if ufunc.signature is not None:  # generalised: it has keywords of its own
            return _gufunc_rule(ufunc)(*inputs, **kwargs)
        return _ufunc_call(ufunc, inputs, dict(kwargs))
    if method in ("accumulate", "reduceat") and np.ndim(inputs[0]) == 0:
        raise TypeError(f"cannot {method} on a scalar")
    folded = _REDUCTIONS.get((ufunc, method))
    if folded in NUMPY:
        names = ("axis", "dtype", "out", "keepdims", "initial", "where")
        given = {"axis": 0, **dict(zip(names, inputs[1:], strict=False)), **kwargs}
        if folded in (np.any, np.all):
            given.pop("dtype", None)  # they give bools
        return NUMPY[folded](
            inputs[0], **{k: v for k, v in given.items() if v is not None or k == "axis"}
        )
    if method == "outer" and ufunc.nin == 2:
        a, b = map(as_strong_array, inputs)
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)
    if method == "at":
        return _at(ufunc, *inputs)
    if (ufunc in UFUNCS or ufunc in NUMPY) and ufunc.nin == 2 and ufunc.nout == 1:
        return _METHODS[method](ufunc, *inputs, **kwargs)
    raise UnsupportedError(
        f"{_display_name(ufunc)}.{method} has no derivative rule here",
        "Write it with the plain functions, or use tracker.data(x) where no gradient is wanted",
    )


def _gufunc_rule(ufunc: np.ufunc) -> Any:
    if ufunc not in NUMPY:
        raise UnsupportedError(message(f"np.{ufunc.__name__} has no derivative rule here"))
    return NUMPY[ufunc]


_REDUCTIONS: dict[tuple[Any, str], Any] = {
    (np.add, "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
}


# Methods of other ufuncs: element by element ------------------------------------------------------


def _reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    array = _in_loop_dtype(ufunc.reduce, array, dtype, out)
    axes = normalize_reduced_axes(array, axis)
    if len(axes) > 1 and ufunc.identity is None:
        ufunc.reduce(np.ones((1, 1), array.dtype), axis=(0, 1))  # raises where the order matters

    def as_rows(x: Any) -> Any:
        """The reduced elements, along a new first axis."""
        moved = np.transpose(x, axes + tuple(i for i in range(np.ndim(x)) if i not in axes))
        reduced, rest = np.shape(moved)[: len(axes)], np.shape(moved)[len(axes) :]
        return np.reshape(moved, (math.prod(reduced), *rest))

    lines = list(as_rows(array))
    has_initial = initial is not NO_VALUE and initial is not None
    masks = None if where is True else list(as_rows(np.broadcast_to(where, np.shape(array))))
    initial_values = [np.astype(as_array(initial), array.dtype)] if has_initial else []
    if not has_initial and (not lines or masks is not None):
        if ufunc.identity is None:
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a "
                "where mask one has to specify 'initial'"
                if lines
                else f"zero-size array to reduction operation {ufunc.__name__} which has no "
                "identity"
            )
        initial_values = [_identity(ufunc, array.dtype)]
    if (
        len(lines) == 1
        and initial is NO_VALUE
        and not initial_values
        and ufunc.identity is not None
    ):
        initial_values = [_identity(ufunc, array.dtype)]  # hypot(0, x) is abs(x)
    if initial_values:
        kept_extents = tuple(n for i, n in enumerate(np.shape(array)) if i not in axes)
        initial_values = [np.broadcast_to(initial_values[0], kept_extents)[()]]
    if masks is None:
        y = reduce(ufunc, [*initial_values, *lines])
    else:
        y = initial_values[0]
        for line, mask in zip(lines, masks, strict=True):
            y = np.where(mask, ufunc(y, line), y)[()]
    return store_out(
        out, np.reshape(y, keepdims_shape(np.shape(array), axes)) if keepdims else y, "unsafe"
    )


def _identity(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """The initial value of a reduction; -1 stands for all bits of any integer."""
    return np.asarray(ufunc.identity).astype(dtype)[()]


def _accumulate(
    ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    array = _in_loop_dtype(ufunc.accumulate, array, dtype, out)
    if ufunc in (np.maximum, np.minimum):
        running = running_maximum if ufunc is np.maximum else running_minimum
        axis = normalize_axis_index(axis, np.ndim(array))
        return store_out(out, apply(running, (array,), {"axis": axis}), "unsafe")
    lines = list(accumulate(np.moveaxis(array, axis, 0), ufunc))
    y = in_memory_order(np.stack(lines, axis=axis), "K", array) if lines else array
    return store_out(out, y, "unsafe")


def _reduceat(
    ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    """Reduce between neighbouring indices; where they do not increase, the one element."""
    array = _in_loop_dtype(ufunc.reduceat, array, dtype, out, [0])
    starts = np.asarray(indices, np.intp)
    axis = normalize_axis_index(axis, np.ndim(array))
    n = np.shape(array)[axis]
    if np.any((starts < 0) | (starts >= n)):
        raise IndexError(f"index {max(starts)} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    counts = np.maximum(np.append(starts[1:], n) - starts, 1)
    rows = np.moveaxis(array, axis, 0)
    results, positions = [rows[:0]], [starts[:0]]
    for count in np.unique(counts):  # segments of one length are reduced together
        positions.append(np.flatnonzero(counts == count))
        results.append(ufunc.reduce(_row_windows(rows, starts[positions[-1]], int(count)), axis=1))
    order = np.argsort(np.concatenate(positions))
    joined = np.concatenate(results[1:] or results)
    ordered = joined if len(results) <= 2 else joined[order]
    y = np.moveaxis(ordered, 0, axis)
    if np.size(y):
        y = in_memory_order(y, "K", _reduceat_example(ufunc, aval_of(array), axis))
    return store_out(out, y, "unsafe")


def _reduceat_example(ufunc: np.ufunc, aval: Any, axis: int) -> Any:
    """NumPy's own result for a corner of the array, whose memory layout the result gets."""
    corner = aval[(slice(2),) * aval.ndim]
    with np.errstate(all="ignore"):
        return ufunc.reduceat(corner, [0, corner.shape[axis] - 1], axis)


def _row_windows(rows: Any, starts: Any, count: int) -> Any:
    """`count` rows from each start."""
    if len(starts) == 1:
        return rows[int(starts[0]) : int(starts[0]) + count][None]
    return rows[starts[:, None] + np.arange(count)]


def _in_loop_dtype(method: Any, array: Any, dtype: Any, out: Any, *starts: Any) -> Any:
    """The array in the dtype in which a ufunc method computes; empty arrays too."""
    array = in_dtype_of_fold(as_array(array), dtype, out)
    if dtype is not None:
        return array
    # raises where it folds none of these
    return np.astype(array, method(np.ones(1, array.dtype), *starts).dtype)


_METHODS: dict[str, Any] = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat}


def _at(ufunc: np.ufunc, target: Any, key: Any, *values: Any) -> None:
    """target[key] = ufunc(target[key], values), where every repetition of an index counts."""
    target = writable_target("ufunc.at", target, values)
    if not isinstance(target, Tracked):
        ufunc.at(target, plain_integers(key), *values)
        return
    if type(aval_of(target)) is not np.ndarray:
        raise TypeError("first operand must be array")
    summed = np.result_type(*(as_array(aval_of(x)) for x in (target, *values)))  # no weak numbers
    if ufunc in (np.add, np.subtract) and not _loses_on_store(
        summed.kind, aval_of(target).dtype.kind
    ):
        value = np.astype(as_array(values[0]), summed)  # in the dtype of the sums, not in its own
        added = subscripts.add_into_zeros(np.shape(target), key, value)
        target += np.astype(-added if ufunc is np.subtract else added, target.dtype)
        return
    positions = np.arange(np.size(target)).reshape(np.shape(target))[_plain_key(key)]
    flat = np.reshape(target, (-1,))
    operands = [np.ravel(np.broadcast_to(as_array(v), np.shape(positions))) for v in values]
    positions = np.ravel(positions)
    for group in _occurrence_groups(positions):
        index = positions[group]
        flat = _with_elements(flat, index, ufunc(flat[index], *(v[group] for v in operands)))
    target[...] = np.reshape(flat, np.shape(target))


def _loses_on_store(summed: str, stored: str) -> bool:
    """Whether storing sums of dtype kind `summed` into an array of kind `stored` loses something:
    1 + 0.7 does in an integer array."""
    return summed in "fc" if stored in "iu" else stored == "b" != summed


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_plain_key, key))
    return key if key is None or key is ... or isinstance(key, slice) else np.asarray(key)


def _occurrence_groups(positions: Any) -> list[Any]:
    """Indices of every position's first occurrence, then of the second ones, and so on."""
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    starts = np.searchsorted(ordered, ordered)
    occurrence = np.empty_like(order)
    occurrence[order] = np.arange(len(order)) - starts
    return [np.flatnonzero(occurrence == k) for k in range(int(occurrence.max(initial=-1)) + 1)]


def _with_elements(flat: Any, at: Any, values: Any) -> Any:
    return subscripts.with_subscript_set(flat, at, np.astype(as_array(values), flat.dtype))


def _ufunc_call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    where = True if where is NO_VALUE else where
    dtype, signature = kwargs.pop("dtype", None), _signature(kwargs)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    references = sys.getrefcount(target)  # including those of the calling frames
    casting = kwargs.pop("casting", "same_kind")
    np.can_cast(np.float64, np.float64, casting)  # raises where there is no such rule
    kwargs.pop("subok", None)  # tracked arrays have no subclasses
    order = _result_order(kwargs.pop("order", "K"), inputs)
    refuse_keywords(_display_name(ufunc), **kwargs)
    if ufunc not in UFUNCS and ufunc not in NUMPY:
        _declare_foreign()
    op = UFUNCS.get(ufunc)
    if op is None and ufunc not in NUMPY:
        instead = "or write a rule with tracker.rrule"
        if ufunc.__name__.endswith(_MADE_BY_FROMPYFUNC):
            instead = f"{instead}; np.vectorize(f) follows f, np.frompyfunc only if called inside"
        raise UnsupportedError(
            f"{_display_name(ufunc)} has no derivative rule here",
            f"Use tracker.data(x) where no gradient is wanted, {instead}",
        )
    if dtype is not None or signature is not None or casting != "same_kind":
        inputs = cast_to_loop(ufunc, inputs, dtype, signature, casting)
    with np.errstate(all=None if where is True else "ignore"):
        result = NUMPY[ufunc](*inputs) if op is None else apply_ufunc(op, inputs)
    if ufunc.nout > 1:
        result = tuple(in_memory_order(y, order) for y in result)
        targets = out if isinstance(out, tuple) else (None,) * ufunc.nout
        return tuple(
            store_out(t, _masked_by_where(y, where, t), casting)
            for t, y in zip(targets, result, strict=True)
        )
    if type(target) is np.ndarray and isinstance(result, Tracked):
        alone = references <= _SOLE_REFERENCE_COUNT and inputs[0] is target
        if alone and _is_inplace_operator(stores_back=target.base is not None):
            return cast_to_out(result, target, ufunc=ufunc.__name__)
    chosen = _masked_by_where(
        result if target is not None else in_memory_order(result, order), where, target
    )
    return store_out(target, broadcast_to_out(chosen, target), casting, ufunc.__name__)


def _result_order(order: Any, inputs: tuple[Any, ...]) -> Any:
    """The memory order of a ufunc's result: "A" is Fortran order if all arrays have it."""
    if order not in ("A", "a"):
        return order
    avals = [aval for aval in map(aval_of, inputs) if type(aval) is np.ndarray]
    fortran = all(aval.flags.f_contiguous for aval in avals)
    return "F" if fortran and not all(aval.flags.c_contiguous for aval in avals) else "C"


def _masked_by_where(y: Any, where: Any, target: Any) -> Any:
    """The result where `where` holds; elsewhere the target or, without one, zeros (NumPy leaves
    these elements undefined)."""
    if where is True:
        return y
    if target is None:
        return np.where(where, y, np.zeros((), np.result_type(aval_of(y))))[()]
    return np.where(where, y, target)


def _signature(kwargs: dict[str, Any]) -> Any:
    """Pop `signature=` or `sig=` of a ufunc call."""
    sig = kwargs.pop("sig", None)
    return kwargs.pop("signature", sig)


def _declare_foreign() -> None:
    """Declare SciPy's ufuncs, when the first of them is called on a tracked array: users without
    SciPy pay nothing."""
    if "scipy.special" in sys.modules:
        from tracker.ops import special  # noqa: F401


def _display_name(ufunc: np.ufunc) -> str:
    return f"np.{ufunc.__name__}" if hasattr(np, ufunc.__name__) else ufunc.__name__


# plain += t ---------------------------------------------------------------------------------------
#
# Python assigns what `+=` returns, so the name of a plain array can become that of a tracked one.
# That is correct if the array has no other reference and owns its data. Of `a[k] += t`, Python
# stores the result into `a`, so it is also correct for the view `a[k]`.


def _is_inplace_operator(stores_back: bool) -> bool:
    """Whether the user's code is executing an in-place operator (and not `np.add(a, t, out=a)`);
    with `stores_back` only one whose result is stored under a subscript."""
    frame = user_frame()
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != _BINARY_OP or code[at + 1] < _FIRST_IN_PLACE:
        return False
    following = code[at + _BINARY_OP_SIZE : at + _BINARY_OP_SIZE + 2]
    return not stores_back or (following[0] == _SWAP and following[1] > _SWAP_OF_ATTRIBUTE)


_BINARY_OP, _SWAP = dis.opmap["BINARY_OP"], dis.opmap["SWAP"]
_PLUS_EQUALS = compile("a.b += c", "", "exec").co_code
_BINARY_OP_AT = _PLUS_EQUALS.index(_BINARY_OP)
_FIRST_IN_PLACE = _PLUS_EQUALS[_BINARY_OP_AT + 1]  # operator number
_BINARY_OP_SIZE = _PLUS_EQUALS.index(_SWAP) - _BINARY_OP_AT  # with its inline caches
_SWAP_OF_ATTRIBUTE = _PLUS_EQUALS[_PLUS_EQUALS.index(_SWAP) + 1]  # of a subscript, it is greater


def _count_references() -> int:
    """The reference count that `_ufunc_call` sees for an array with a single local name."""
    found = []

    class _Augend:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            return outer(ufunc, method, inputs, kwargs)

    def outer(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inner(ufunc, inputs, dict(kwargs))

    def inner(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None)
        target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        found.append(sys.getrefcount(target))
        return target

    plain = np.zeros(1)
    probe: Any = _Augend()
    plain += probe
    return found[0]


_SOLE_REFERENCE_COUNT = _count_references()
set_ufunc_protocol(array_ufunc)
