"""`sum`, `prod`, `max`, `min`, `mean`, and what is composed of them (`var`, `std`, `ptp`).

The params of every reduction are `axis`, a sorted tuple of non-negative ints, and `keepdims`.
NumPy's other keywords (`where`, `initial`, `dtype`, `out`) are composed around the op in
`_install_reduction`. As in NumPy, a result is cast unsafely to its `out=`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from tracker.errors import message
from tracker.ir.lowering import Reduce
from tracker.ir.op import LINEAR, METHODS, NUMPY, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import NO_VALUE, as_array, dtype_of, refuse_keywords
from tracker.ops.declare.casting import cast_for_store, in_dtype_of_fold, store_out
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.dtypes import result_dtype_by_example
from tracker.ops.declare.rule_helpers import conjugated
from tracker.ops.reduce.short_axes import reduce_short_axes
from tracker.tape.conversions import plain_integers
from tracker.tape.record import apply, aval_of
from tracker.tape.tracing.loop_index import grows
from tracker.tape.tracked import Tracked

_ALL_AXES = [tuple(range(n)) for n in range(8)]


def normalize_axes(x: Any, axis: Any) -> tuple[int, ...]:
    """NumPy's `axis` argument as a sorted tuple."""
    ndim = np.ndim(x)
    if axis is None:
        return _ALL_AXES[ndim] if ndim < len(_ALL_AXES) else tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    if isinstance(axis, str):
        text = f"a tracked array has no axis of the name {axis!r}"
        raise TypeError(message(text, "Give its position: axis=0"))
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def normalize_reduced_axes(x: Any, axis: Any) -> tuple[int, ...]:
    """`normalize_axes`; NumPy's reductions accept the axes 0 and -1 of a 0-d array."""
    if type(axis) is int and axis in (0, -1):
        ndim = np.ndim(x)  # once: it is a tenth of a small call
        return (axis % ndim,) if ndim else ()
    if type(axis) is Tracked:
        axis = plain_integers(axis)
        return normalize_reduced_axes(x, operator.index(axis) if type(axis) is Tracked else axis)
    return normalize_axes(x, axis)


def keepdims_shape(shape: tuple[int, ...], axis: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes kept as 1."""
    return tuple(1 if i in axis else n for i, n in enumerate(shape))


def expand_reduced(g: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """A reduction's cotangent (or result), in a shape that broadcasts against its operand."""
    return g if np.ndim(g) == 0 else np.reshape(g, keepdims_shape(np.shape(x), axis))


_SMALL = 4096


def broadcast_cotangent(g: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """A reduction's cotangent, for every element of its operand."""
    shape = np.shape(x)
    if isinstance(g, Tracked) or np.size(x) > _SMALL:
        return np.broadcast_to(expand_reduced(g, x, axis), shape)
    kind = g.dtype if hasattr(g, "dtype") else np.dtype(float)
    if len(shape) > 1 and not (aval := aval_of(x)).flags.c_contiguous:
        out = np.empty_like(aval, kind, subok=False)
    else:
        out = np.empty(shape, kind)  # cheaper than a view
    out[...] = g if np.ndim(g) == 0 else expand_reduced(g, x, axis)
    return out


def reduced_shape(x: Type, axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction's result."""
    if keepdims:
        return keepdims_shape(x.shape, axis)
    return tuple(n for i, n in enumerate(x.shape) if i not in axis)


def _infer_with(function: Callable[..., Any]) -> Callable[..., Type]:
    kind = result_dtype_by_example(function)

    def infer(x: Type, *, axis: tuple[int, ...], keepdims: bool) -> Type:
        return Type(reduced_shape(x, axis, keepdims), kind(x.dtype))

    return infer


def mask_elements(a: Any, where: Any, fill: Any) -> Any:
    """An array with `fill` where the `where=` of a reduction is false. NumPy broadcasts the mask to
    the array, not the array to the mask."""
    shape = np.shape(a)
    both = np.broadcast_shapes(shape, np.shape(where))
    if both != shape:
        raise ValueError(
            f"non-broadcastable operand with shape {shape} doesn't match the broadcast shape "
            f"{both} of where="
        )
    return np.where(where, a, fill)


def _initial_value(initial: Any, dtype: Any) -> Any:
    """`initial=` in the dtype of the reduction, cast unsafely as in NumPy."""
    if isinstance(initial, Tracked):
        return cast_for_store(initial, np.dtype(dtype))
    return np.array(initial, dtype)[()]


def _install_reduction(
    op: Op, function: Callable[..., Any], neutral: Callable[[Any], Any] | None, combine: Any
) -> None:
    """Enter NumPy's function and method for the op, with all keywords.

    neutral  what replaces elements where `where=` is false; None: the reduction has no identity
    combine  combines the result with `initial=`
    """

    def call(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NO_VALUE,
        where: Any = True,
    ) -> Any:
        if dtype is None and out is None and initial is NO_VALUE and where is True:
            return apply(
                op, (a,), {"axis": normalize_reduced_axes(a, axis), "keepdims": _flag(keepdims)}
            )
        a = in_dtype_of_fold(a, dtype, None if neutral is None else out)
        if where is not True and where is not NO_VALUE:
            if neutral is None and initial is NO_VALUE:
                raise ValueError(
                    f"reduction operation '{op.name}' does not have an identity, so to use a where "
                    "mask one has to specify 'initial'"
                )
            fill = _initial_value(initial, as_array(a).dtype) if neutral is None else neutral(a)
            a = mask_elements(a, where, fill)
        has_initial = initial is not NO_VALUE and initial is not None
        axes, keep_axes = normalize_reduced_axes(a, axis), _flag(keepdims)
        if has_initial and neutral is None:
            a = as_array(a)  # its `shape` is what loops note
        if has_initial and neutral is None and 0 in (a.shape[i] for i in axes):
            shape = reduced_shape(Type(a.shape, a.dtype), axes, keep_axes)
            return store_out(out, np.full_like(a, initial, shape=shape)[()], "unsafe")
        y = apply(op, (a,), {"axis": axes, "keepdims": keep_axes})
        if dtype is not None:  # NumPy widens small integers unless dtype= is given
            y = np.astype(as_array(y), dtype)[()]
        if has_initial:
            y = combine(y, _initial_value(initial, np.result_type(aval_of(y))))
        return store_out(out, y, "unsafe")

    def positional(a: Any, axis: Any = None, out: Any = None, *rest: Any, **kwargs: Any) -> Any:
        """max and min have no dtype: `out` is the third argument."""
        names = ("keepdims", "initial", "where")
        return call(a, axis, None, out, **dict(zip(names, rest, strict=False)), **kwargs)

    entry = call if neutral is not None else positional
    NUMPY[function] = entry
    METHODS[op.name] = entry


def _flag(keepdims: Any) -> Any:
    return False if keepdims is NO_VALUE else bool(keepdims)


# The ops ------------------------------------------------------------------------------------------


def _sum(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    if type(x) is np.ndarray and x.dtype.kind in "biu":  # sums of these are exact
        return reduce_short_axes(np.add, x, axis, keepdims)
    return np.add.reduce(x, axis, keepdims=keepdims)


sum_ = declare(
    "sum",
    infer=_infer_with(np.sum),
    evaluate=_sum,
    jvp=LINEAR,
    vjp=[lambda g, y, x, *, axis, keepdims: broadcast_cotangent(g, x, axis)],
    lower=Reduce(lambda dtype: dtype.type(0), lambda e, acc, x: e.add(acc, x), blocks=True),
)
_install_reduction(sum_, np.sum, lambda a: 0, np.add)


def _mean_vjp(g: Any, y: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    n = _count(np.shape(x), axis)
    return broadcast_cotangent(g / n, x, axis)


def _count(shape: tuple[int, ...], axis: tuple[int, ...]) -> int:
    n = 1
    for i in axis:
        n *= shape[i]
    return n


mean_ = declare(
    "mean",
    infer=_infer_with(np.mean),
    evaluate=np.mean,
    jvp=LINEAR,
    vjp=[_mean_vjp],
    lower=Reduce(
        lambda dtype: dtype.type(0),
        lambda e, acc, x: e.add(acc, x),
        finish=lambda e, acc, count: e.div(acc, e.constant(count, acc)),
        blocks=True,
    ),
)


@implements(np.mean, method="mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **rest: Any
) -> Any:
    where = rest.pop("where", True)
    refuse_keywords("np.mean", **rest)
    a = in_dtype_of_fold(a, dtype, out)
    if where is not True and where is not NO_VALUE:
        is_integer = dtype is None and np.result_type(aval_of(as_array(a))).kind in "biu"
        a = np.astype(as_array(a), float) if is_integer else a  # their sum may overflow
        total = np.sum(a, axis=axis, keepdims=_flag(keepdims), where=where)
        count = _count_unmasked(a, where, axis, keepdims)
        return store_out(out, total / np.astype(count, np.real(total).dtype), "unsafe")
    y = apply(mean_, (a,), {"axis": normalize_axes(a, axis), "keepdims": _flag(keepdims)})
    if dtype is not None:  # of integers: NumPy stores the mean in the array of sums
        y = np.astype(as_array(y), dtype)[()]
    return store_out(out, y, "unsafe")


def _count_unmasked(a: Any, where: Any, axis: Any, keepdims: Any) -> Any:
    """The number of elements that `where` selects, per reduction."""
    mask = np.broadcast_to(where, as_array(a).shape)
    return np.asarray(np.sum(mask, axis=axis, keepdims=_flag(keepdims)))


_BLOCKS = 8  # per row: few levels of recursion, and few enough values for the registers
_SHORT_ROW = 12  # elements


def products_of_others(x: Any, axis: int = -1) -> Any:
    """Along an axis, the product of all other elements, without division.

    The axis is split into blocks, which are multiplied elementwise; the "others" of this product
    are found recursively, so the work is linear. In a short row each element is a block.
    """
    axis %= np.ndim(x)
    n = np.shape(x)[axis]
    if n <= 1:
        return np.ones_like(x)
    count = n if n <= _SHORT_ROW else _BLOCKS
    length, end = n // count, n - n % count
    blocks = [_slice_axis(x, axis, i, i + length) for i in range(0, end, length)]
    product = _product_tree(blocks)
    if n == count:
        return np.concatenate(_leaf_products_of_others(product, None), axis)
    if end == n:
        return np.concatenate(
            _leaf_products_of_others(product, products_of_others(product[0], axis)), axis
        )
    rest = products_of_others(
        np.concatenate([product[0], _slice_axis(x, axis, end, n)], axis), axis
    )
    found = _leaf_products_of_others(product, _slice_axis(rest, axis, 0, length))
    return np.concatenate([*found, _slice_axis(rest, axis, length, length + n - end)], axis)


def _slice_axis(x: Any, axis: int, first: int, end: int) -> Any:
    return x[(*(slice(None),) * axis, slice(first, end))]


def _product_tree(values: list[Any]) -> tuple[Any, ...]:
    """The product of values with its factors: (value,), or (product, left tree, right tree)."""
    if len(values) == 1:
        return (values[0],)
    middle = len(values) // 2
    left, right = _product_tree(values[:middle]), _product_tree(values[middle:])
    return left[0] * right[0], left, right


def _leaf_products_of_others(product: tuple[Any, ...], rest: Any) -> list[Any]:
    """For each leaf of a product tree: `rest` (None: 1) times all other leaves."""
    if len(product) == 1:
        return [np.ones_like(product[0]) if rest is None else rest]
    _, left, right = product
    of_left, of_right = (other[0] if rest is None else rest * other[0] for other in (right, left))
    return _leaf_products_of_others(left, of_left) + _leaf_products_of_others(right, of_right)


def _prod_vjp(g: Any, y: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    others = _products_of_others_over(_in_result_dtype(x, y), axis)
    return expand_reduced(g, x, axis) * conjugated(others)


def _in_result_dtype(x: Any, y: Any) -> Any:
    """The operand in the dtype of its product: NumPy widens small integers."""
    kind = np.result_type(aval_of(y))
    return x if np.result_type(aval_of(x)) == kind else np.astype(as_array(x), kind)


def _products_of_others_over(x: Any, axis: tuple[int, ...]) -> Any:
    """For each element, the product of all others over these axes."""
    shape = np.shape(x)
    if len(axis) <= 1:
        return products_of_others(x, *axis) if axis else np.ones_like(x)
    rest = tuple(i for i in range(len(shape)) if i not in axis)
    order = rest + axis
    moved = np.transpose(x, order)
    flat = np.reshape(moved, (*np.shape(moved)[: len(rest)], _count(shape, axis)))
    back = np.reshape(products_of_others(flat), np.shape(moved))
    return np.transpose(back, tuple(int(i) for i in np.argsort(order)))


def _prod_jvp(t: Any, y: Any, x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    others = _products_of_others_over(_in_result_dtype(x, y), axis)
    return np.sum(t * others, axis=axis, keepdims=keepdims)


prod_ = declare(
    "prod",
    infer=_infer_with(np.prod),
    evaluate=lambda x, *, axis, keepdims: np.multiply.reduce(x, axis, keepdims=keepdims),
    jvp=[_prod_jvp],
    vjp=[_prod_vjp],
    lower=Reduce(lambda dtype: dtype.type(1), lambda e, acc, x: e.mul(acc, x)),
)
_install_reduction(prod_, np.prod, lambda a: 1, np.multiply)


def _extreme_hits(y: Any, x: Any, axis: tuple[int, ...]) -> tuple[Any, Any]:
    """Which elements attain the extreme, and how many per reduction, in a float dtype."""
    hit = x == expand_reduced(y, x, axis)
    count = apply(sum_, (hit,), {"axis": axis, "keepdims": True})
    kind = y.dtype if hasattr(y, "dtype") and y.dtype.kind in "fc" else np.float64
    return hit, np.astype(count, kind)


def _extreme_vjp(g: Any, y: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Ties share equally; NaN where no element equals the extreme, which is NaN then."""
    hit, count = _extreme_hits(y, x, axis)
    elsewhere = np.where(count == 0, count.dtype.type(np.nan), count.dtype.type(0))
    return np.where(hit, np.reshape(g, np.shape(count)) / count, elsewhere)


def _extreme_jvp(t: Any, y: Any, x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    hit, count = _extreme_hits(y, x, axis)
    if not keepdims:
        count = np.reshape(count, np.shape(y))
    return np.sum(np.where(hit, t, np.zeros_like(t)), axis=axis, keepdims=keepdims) / count


def _declare_extreme(
    function: Callable[..., Any], ufunc: np.ufunc, compared: str, start: float
) -> Op:
    """`max` or `min`; every number is more extreme than the infinite `start`."""

    def first(dtype: Any) -> Any:
        if dtype.kind == "b":
            return start > 0
        if dtype.kind in "iu":
            return np.iinfo(dtype).max if start > 0 else np.iinfo(dtype).min
        return dtype.type(complex(start, start) if dtype.kind == "c" else start)

    op = declare(
        function.__name__,
        infer=_infer_with(function),
        evaluate=lambda x, *, axis, keepdims: reduce_short_axes(ufunc, x, axis, keepdims),
        jvp=[_extreme_jvp],
        vjp=[_extreme_vjp],
        lower=Reduce(first, lambda e, acc, x: e.extremum(compared, acc, x)),
    )
    _install_reduction(op, function, None, ufunc)
    return op


max_ = _declare_extreme(np.max, np.maximum, ">", -math.inf)
min_ = _declare_extreme(np.min, np.minimum, "<", math.inf)
NUMPY[np.amax] = NUMPY[np.max]
NUMPY[np.amin] = NUMPY[np.min]


# Composites ---------------------------------------------------------------------------------------


def resolve_ddof(ddof: Any, correction: Any) -> Any:
    """`correction` is the array API's name of `ddof`."""
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@implements(np.var, method="var")
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    ddof = resolve_ddof(ddof, correction)
    masked = where is not True and where is not NO_VALUE
    mask = {"where": where} if masked else {}
    # dtype= applies to the two sums; NumPy computes between them in the array's dtype
    center = mean
    if mean is NO_VALUE or mean is None:
        center = np.mean(a, axis=axis, dtype=dtype, keepdims=True, **mask)
    deviation = a - center
    squares = (
        np.real(deviation * np.conjugate(deviation))
        if np.iscomplexobj(deviation)
        else np.square(deviation)
    )
    total = np.sum(squares, axis=axis, dtype=dtype, keepdims=_flag(keepdims), **mask)
    if masked:
        count = np.maximum(_count_unmasked(a, where, axis, keepdims) - ddof, 0)
        return store_out(out, total / np.astype(count, np.result_type(total)), "unsafe")
    y = total / _degrees_of_freedom(a, squares, axis, keepdims, ddof, total)
    if dtype is not None:
        y = np.astype(y, np.result_type(total))[()]
    return store_out(out, y, "unsafe")


def _degrees_of_freedom(
    a: Any, squares: Any, axis: Any, keepdims: Any, ddof: Any, total: Any
) -> Any:
    """What a sum of squares is divided by for a variance."""
    if grows(a):  # loops count the elements of each iteration
        ones = np.ones_like(squares)
        return np.maximum(np.sum(ones, axis=axis, keepdims=_flag(keepdims)) - ddof, 0)
    divisor = max(_count(np.shape(a), normalize_axes(a, axis)) - ddof, 0)
    # A Python number keeps the dtype of the total; dividing by an array of 0 gives NaN, not an
    # error.
    return divisor if divisor else np.zeros_like(total)


@implements(np.std, method="std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *rest: Any, **kw: Any) -> Any:
    y = np.sqrt(var(a, axis, dtype, None, *rest, **kw))
    if dtype is not None and dtype_of(dtype).kind in "iu":
        y = np.astype(y, dtype)[()]
    return store_out(out, y)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    high = np.max(a, axis=axis, keepdims=_flag(keepdims))
    return store_out(out, high - np.min(a, axis=axis, keepdims=_flag(keepdims)))
