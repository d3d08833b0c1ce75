"""Comparisons, logic and bits, `where`, and what is composed of them (`isclose`, `clip`, ...).

All but `where` and `clip` are piecewise constant, without a derivative.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracker.ir.lowering import Map
from tracker.ir.op import METHODS
from tracker.ir.types import Type
from tracker.ops.declare.arguments import NO_VALUE, as_array
from tracker.ops.declare.casting import broadcast_to_out, store_out
from tracker.ops.declare.declare import declare, elementwise_nondiff, implements
from tracker.ops.declare.dtypes import broadcast_shape
from tracker.ops.declare.rule_helpers import match_tangent, project
from tracker.tape.record import apply, aval_of

# Comparisons and logic ----------------------------------------------------------------------------


def _comparison(ufunc: np.ufunc, sign: str, op: Any) -> Any:
    return elementwise_nondiff(
        ufunc, lower=lambda e, a, b: e.compare(sign, a, b), kinds="biufc", operator=op
    )


greater = _comparison(np.greater, ">", operator.gt)
greater_equal = _comparison(np.greater_equal, ">=", operator.ge)
less = _comparison(np.less, "<", operator.lt)
less_equal = _comparison(np.less_equal, "<=", operator.le)
equal = _comparison(np.equal, "==", operator.eq)
not_equal = _comparison(np.not_equal, "!=", operator.ne)

logical_and = elementwise_nondiff(
    np.logical_and, lower=lambda e, a, b: e.logical_and(e.truth(a), e.truth(b)), kinds="biufc"
)
logical_or = elementwise_nondiff(
    np.logical_or, lower=lambda e, a, b: e.logical_or(e.truth(a), e.truth(b)), kinds="biufc"
)
logical_xor = elementwise_nondiff(
    np.logical_xor, lower=lambda e, a, b: e.compare("!=", e.truth(a), e.truth(b)), kinds="biufc"
)
bitwise_and = elementwise_nondiff(
    np.bitwise_and,
    lower=lambda e, a, b: e.bitwise("and", a, b),
    kinds="biu",
    operator=operator.and_,
)
bitwise_or = elementwise_nondiff(
    np.bitwise_or, lower=lambda e, a, b: e.bitwise("or", a, b), kinds="biu", operator=operator.or_
)
bitwise_xor = elementwise_nondiff(
    np.bitwise_xor, lower=lambda e, a, b: e.bitwise("xor", a, b), kinds="biu", operator=operator.xor
)
left_shift = elementwise_nondiff(
    np.left_shift,
    lower=lambda e, a, b: e.left_shift(a, b),
    kinds="iu",
    operator=operator.lshift,
    defined=lambda e, y, a, b: e.logical_and(
        e.compare("==", e.right_shift(y, b), a), e.compare(">=", b, e.constant(0, b))
    ),
)
right_shift = elementwise_nondiff(
    np.right_shift,
    lower=lambda e, a, b: e.right_shift(a, b),
    kinds="iu",
    operator=operator.rshift,
    defined=lambda e, y, a, b: e.compare(">=", b, e.constant(0, b)),
)


# where --------------------------------------------------------------------------------------------


def result_type_operand(t: Type) -> Any:
    """What `np.result_type` needs of an operand: an example Python number if weak, else the
    dtype."""
    return {"f": 1.0, "i": 1, "c": 1j}[t.dtype.kind] if t.weak else t.dtype


def _where_infer(c: Type, a: Type, b: Type) -> Type:
    return Type(
        broadcast_shape((c, a, b)), np.result_type(result_type_operand(a), result_type_operand(b))
    )


where = declare(
    "where",
    infer=_where_infer,
    evaluate=np.where,
    jvp=[
        None,
        lambda t, y, c, a, b: np.where(c, match_tangent(t, y), np.zeros_like(y)),
        lambda t, y, c, a, b: np.where(c, np.zeros_like(y), match_tangent(t, y)),
    ],
    vjp=[
        None,
        lambda g, y, c, a, b: project(np.where(c, g, np.zeros_like(g)), a),
        lambda g, y, c, a, b: project(np.where(c, np.zeros_like(g), g), b),
    ],
    linear=True,
    lower=Map(
        lambda e, c, a, b: e.select(c, a, b),
        lambda c, a, b: (np.dtype(bool), *(_where_infer(c, a, b).dtype,) * 2),
        "biufc",
        order="K",
    ),
)


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    numbers = (int, float, complex, bool)
    x, y = (v if type(v) in numbers else as_array(v) for v in (x, y))
    return apply(where, (as_array(condition), x, y))


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    a, b = (x if isinstance(x, (int, float, complex)) else as_array(x) for x in (a, b))
    if isinstance(aval_of(b), int):  # a weak float
        b = 1.0 * b
    elif (
        np.result_type(aval_of(b)).kind not in "fc"
    ):  # bools cannot be subtracted, unsigned integers wrap
        b = np.astype(as_array(b), np.result_type(aval_of(b), 1.0))
    near = (abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    **kwargs: Any,
) -> Any:
    given = [x is not NO_VALUE for x in (a_min, a_max)]
    if any(given) and not all(given):
        missing = "a_max" if given[0] else "a_min"
        raise TypeError(f"clip() missing 1 required positional argument: '{missing}'")
    if any(given) and not (min is NO_VALUE and max is NO_VALUE):
        raise ValueError(
            "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is "
            "forbidden."
        )
    if not any(given):
        a_min, a_max = (None if x is NO_VALUE else x for x in (min, max))
    return _clip(a, a_min, a_max, out, **kwargs)


def _clip(a: Any, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """The method `clip`."""
    low, high = min, max
    if type(aval_of(low)) is int or type(aval_of(high)) is int:
        low, high = _drop_vacuous_bounds(aval_of(a), low, high)
    if kwargs:  # keywords of NumPy's ufunc
        given = tuple(bound for bound in (low, high) if bound is not None)
        alone = np.maximum if high is None else np.minimum
        ufunc: Any = (np.positive, alone, _CLIP_UFUNC)[len(given)]
        return ufunc(a, *given, out=out, **kwargs)
    return store_out(out, broadcast_to_out(_clip_ufunc(a, low, high), out))


METHODS["clip"] = _clip
_CLIP_UFUNC: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]


@implements(_CLIP_UFUNC)
def _clip_ufunc(a: Any, low: Any, high: Any) -> Any:
    if low is None and high is None:
        return np.positive(a)  # a copy
    y = a if low is None else np.maximum(a, low)
    return y if high is None else np.minimum(y, high)


def _drop_vacuous_bounds(a: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds without Python ints outside of an integer dtype's range: they have no effect, and
    the dtype cannot represent them."""
    dtype = getattr(a, "dtype", None)
    if dtype is None or dtype.kind not in "iu":
        return low, high
    limits = np.iinfo(dtype)
    return (
        None if type(aval_of(low)) is int and low <= limits.min else low,
        None if type(aval_of(high)) is int and high >= limits.max else high,
    )
