"""Elementwise functions of two operands: ufunc, partials, scalar body. Partials are functions of
(y, a, b). Comparisons are in `comparison.py`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.graph import Const
from tracker.ir.lowering import Map
from tracker.ir.op import OPS, Op, Rule
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, elementwise, implements, map_lowering, smooth_op
from tracker.ops.declare.dtypes import broadcast_shape, infer_ufunc
from tracker.ops.declare.rule_helpers import (
    conjugated,
    factored_partial,
    project,
    with_structural_zeros,
)
from tracker.ops.elementwise.activation import sigmoid
from tracker.ops.elementwise.comparison import greater_equal, result_type_operand
from tracker.tape.observers import observers
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.tracked import Tracked, install

add = elementwise(
    np.add, partials=[1, 1], lower=lambda e, a, b: e.add(a, b), kinds="biufc", operator=operator.add
)
subtract = elementwise(
    np.subtract,
    partials=[1, -1],
    lower=lambda e, a, b: e.sub(a, b),
    kinds="iufc",
    operator=operator.sub,
)
multiply = elementwise(
    np.multiply,
    partials=[lambda y, a, b: b, lambda y, a, b: a],
    lower=lambda e, a, b: e.mul(a, b),
    kinds="biufc",
    operator=operator.mul,
)


def _has_divisor(e: Any, y: Any, a: Any, b: Any) -> Any:
    return e.compare("!=", b, e.constant(0, b))


divide = elementwise(
    np.divide,
    partials=[
        lambda y, a, b: 1 / b,
        factored_partial(lambda y, a, b: -y / b, lambda y, a, b: y, lambda b: -1 / b),
    ],
    lower=lambda e, a, b: e.div(a, b),
    kinds="fc",
    operator=operator.truediv,
    defined=_has_divisor,
)
floor_divide = elementwise(
    np.floor_divide,
    partials=[0, 0],
    lower=lambda e, a, b: e.floor_divide(a, b),
    kinds="iuf",
    operator=operator.floordiv,
    defined=_has_divisor,
)
remainder = elementwise(
    np.remainder,
    partials=[1, lambda y, a, b: -np.floor_divide(a, b)],
    lower=lambda e, a, b: e.remainder(a, b),
    kinds="iuf",
    operator=operator.mod,
    defined=_has_divisor,
)


@implements(np.divmod)
def divmod_(a: Any, b: Any) -> tuple[Any, Any]:
    return np.floor_divide(a, b), np.remainder(a, b)


install("__divmod__")(lambda self, other: (self // other, self % other))
install("__rdivmod__")(lambda self, other: (other // self, other % self))

fmod = elementwise(
    np.fmod,
    partials=[1, lambda y, a, b: -np.trunc(a / b)],
    lower=lambda e, a, b: e.fmod(a, b),
    kinds="iuf",
)


def _constant_like(value: float, y: Any) -> Any:
    """A scalar of y's dtype, so that a float32 derivative stays float32; unchanged for integers."""
    return y.dtype.type(value) if hasattr(y, "dtype") and y.dtype.kind in "fc" else value


def _power_base(y: Any, x: Any, n: Any) -> Any:
    if type(n) is int or type(n) is float:  # the usual exponent: a constant
        if n == 2:
            return 2 * x
        if n == 3:
            return 3 * np.square(x)
        if n == 0:
            return np.zeros_like(x)
        if n == 0.5 and hasattr(y, "dtype"):  # Python numbers raise at y == 0
            return 0.5 / y
        return n * np.power(x, float(n - 1))
    flat = (n == 0) & ((x == 0) | (x != x))  # 0**0 and nan**0 are 1
    return n * np.power(x, n - 1 + flat)


def _power_exponent(y: Any, x: Any, n: Any) -> Any:
    if np.iscomplexobj(x):
        return y * np.log(np.where(x == 0, 1, x))
    positive = (x > 0) & (y != 0)  # at infinity, 0 * log(x) is 0
    one = _constant_like(1, y)
    return np.where(positive, y * np.log(np.where(positive, x, one)), _constant_like(0, y))


def _unknown_exponent(x: Any, n: Any) -> str:
    """Why compiled code cannot do it: integers to negative powers are floats in Python, errors in
    NumPy (`_unknown_power`)."""
    kinds = x.type.dtype.kind + n.type.dtype.kind
    if "c" in kinds or "f" in kinds:
        return ""
    if isinstance(n, Const):
        return "" if n.value >= 0 else "an integer to a negative power"
    return "Python's int to a power that is not a literal" if x.type.weak and n.type.weak else ""


def _unknown_power(b: Any, x: Any, n: Any) -> Any:
    """NumPy raises for a negative exponent of an integer. If one exponent of 0.5 applies to a whole
    array it takes the square root, which differs from the power in the sign at -0.0 and -inf."""
    kinds = x.type.dtype.kind + n.type.dtype.kind
    if isinstance(n, Const) or not n.type.size:
        return None
    if kinds in ("ii", "ui", "bi"):
        positive = b(greater_equal, n, n.type.dtype.type(0))
        b.require(b(OPS["all"], positive, axis=tuple(range(n.type.ndim)), keepdims=False))
        return None
    if n.type.dtype.kind != "f":  # no integer is a half
        return None
    is_shared = x.type.shape and n.type.size == 1 and (x.type.size > 1 or not n.type.shape)
    result = power.infer(x.type, n.type)
    if not (is_shared and _POWER_IS_ROOT) or result.dtype.kind != "f":
        return None
    base = x if x.type.dtype == result.dtype else b(OPS["astype"], x, dtype=result.dtype)
    is_half = b(OPS["equal"], n, 0.5 if n.type.weak else n.type.dtype.type(0.5))
    return b(OPS["where"], is_half, b(OPS["sqrt"], base), b(power, x, n))


_POWER_IS_ROOT = bool(np.signbit(np.power(np.float64(-0.0), 0.5)))  # as in `ir/passes/simplify.py`
power = elementwise(
    np.power,
    partials=[_power_base, _power_exponent],
    lower=lambda e, x, n: e.power(x, n),
    kinds="iufc",
    refuses=_unknown_exponent,
    requires=_unknown_power,
    operator=operator.pow,
    defined=lambda e, y, x, n: e.isfinite(y),
)


def _python_power_base(x: Any, n: Any) -> Any:
    """The base in the type for which Python's power has the right type: negative powers of ints are
    floats, fractional powers of negative numbers are complex."""
    base, exponent = type(aval_of(x)), type(aval_of(n))
    if base not in _REAL or exponent not in _REAL:
        return x
    if base is not float and exponent is not float:
        return x * 1.0 if n < 0 else x
    if data_of(x) < 0 and data_of(n) % 1 > 0:
        return x + 0j if x < 0 and n % 1 > 0 else x  # tested on the traced values, as a guard
    return x


_REAL = frozenset([bool, int, float])
_POWER, _REFLECTED_POWER = (vars(Tracked)[name] for name in ("__pow__", "__rpow__"))


@install("__pow__")
def _power(self: Any, n: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        return pow(int(self), int(n), int(modulus))
    if observers and type(n) is int and n == 2 and np.result_type(aval_of(self)) == np.bool_:
        return np.square(self)  # as NumPy's operator, whose dtype differs from np.power's
    return _POWER(_python_power_base(self, n), n)


@install("__rpow__")
def _power_of(self: Any, x: Any) -> Any:
    return _REFLECTED_POWER(self, _python_power_base(x, self))


float_power = elementwise(
    np.float_power,
    partials=[_power_base, _power_exponent],
    lower=lambda e, x, n: e.power(x, n),
    kinds="fc",
)


def _cosine(x: Any, other: Any, size: Any) -> Any:
    """x / size, where size is hypot(x, other); 0 at the origin. Two infinite sides count as equal,
    beside them a finite one as 0."""
    far = np.isinf(size)
    if np.any(far):
        x, other = (np.where(far, np.clip(s, -1, 1) * np.isinf(s), s) for s in (x, other))
        size = np.where(far, np.hypot(x, other), size)
    return x / (size + (size == 0))


def _cosine_body(e: Any, x: Any, other: Any) -> Any:
    zero, one, size = e.constant(0, x), e.constant(1, x), e.math("hypot", x, other)
    far = e.isinf(size)

    def side(s: Any) -> Any:
        return e.select(far, e.select(e.isinf(s), e.intrinsic("copysign", one, s), zero), s)

    x, other = side(x), side(other)
    size = e.select(far, e.intrinsic("sqrt", e.add(e.mul(x, x), e.mul(other, other))), size)
    return e.div(x, e.select(e.compare("==", size, zero), one, size))


def _cosine_slope(y: Any, x: Any, other: Any) -> Any:
    """1 / size - x**2 / size**3, without cancellation."""
    return _per_size(np.square(apply(cosine, (other, x))), x, other)


def _cosine_slope_across(y: Any, x: Any, other: Any) -> Any:
    return _per_size(-y * apply(cosine, (other, x)), x, other)


def _per_size(x: Any, *sides: Any) -> Any:
    size = np.hypot(*sides)
    return x / (size + (size == 0))


# x / hypot(x, other), the derivative of hypot in x.
cosine = smooth_op(
    "cosine",
    infer=infer_ufunc(np.hypot, None),
    evaluate=lambda x, other: _cosine(x, other, np.hypot(x, other)),
    partials=[_cosine_slope, _cosine_slope_across],
    lower=map_lowering(np.hypot, _cosine_body, "f"),
)


def _hypot_slope(y: Any, x: Any, other: Any) -> Any:
    plain = type(y) is np.ndarray and Tracked not in (type(x), type(other))
    return _cosine(x, other, y) if plain else apply(cosine, (x, other))


def _over_squared_length(x: Any, a: Any, b: Any) -> Any:
    """x / (a**2 + b**2) without intermediate overflow; 0 at the origin and at infinity."""
    size = np.hypot(a, b)
    is_origin = size == 0
    x = np.where(np.isinf(size) | is_origin, _constant_like(0, size), x)
    size = size + is_origin
    return x / size / size


arctan2 = elementwise(
    np.arctan2,
    partials=[
        lambda y, a, b: _over_squared_length(b, a, b),
        lambda y, a, b: -_over_squared_length(a, a, b),
    ],
    lower=lambda e, a, b: e.math("atan2", a, b),
)
hypot = elementwise(
    np.hypot,
    partials=[_hypot_slope, lambda y, a, b: _hypot_slope(y, b, a)],
    lower=lambda e, a, b: e.math("hypot", a, b),
)


_LN2 = math.log(2)


def _share(scale: float, y: Any, a: Any, b: Any) -> Any:
    """exp(scale a) / (exp(scale a) + exp(scale b)); 1/2 where both are the same infinity."""
    gap = np.where((a == b) & np.isinf(y), 0.0, a - 1.0 * b)
    return apply(sigmoid, (gap if scale == 1 else gap * scale,))


logaddexp = elementwise(
    np.logaddexp,
    partials=[lambda y, a, b: _share(1, y, a, b), lambda y, a, b: _share(1, y, b, a)],
    lower=lambda e, a, b: e.math("logaddexp", a, b),
)


def _logaddexp2(e: Any, a: Any, b: Any) -> Any:
    """The maximum plus log2(1 + 2**-gap); equal operands may be infinite."""
    gap = e.select(e.compare("==", a, b), e.constant(0, a), e.abs(e.sub(a, b)))
    tail = e.math("log1p", e.math("exp2", e.neg(gap)))
    return e.add(e.extremum(">", a, b), e.mul(tail, e.constant(1 / math.log(2), a)))


logaddexp2 = elementwise(
    np.logaddexp2,
    partials=[lambda y, a, b: _share(_LN2, y, a, b), lambda y, a, b: _share(_LN2, y, b, a)],
    lower=_logaddexp2,
)


def _winner_share(wins: Callable[[Any, Any], Any]) -> Rule:
    """The partial derivative of an extreme: 1 where the operand wins, 1/2 for each in a tie."""
    return with_structural_zeros(lambda y, a, b: wins(a, b) + _constant_like(0.5, y) * (a == b))


def _is_greater(a: Any, b: Any) -> Any:
    """a > b in NumPy's order, also of Python's complex numbers."""
    try:
        return a > b
    except TypeError:
        return np.greater(a, b)


_GREATER = [_winner_share(_is_greater), _winner_share(lambda a, b: _is_greater(b, a))]
_LESS = _GREATER[::-1]
maximum = elementwise(
    np.maximum, partials=_GREATER, lower=lambda e, a, b: e.extremum(">", a, b), kinds="biufc"
)
minimum = elementwise(
    np.minimum, partials=_LESS, lower=lambda e, a, b: e.extremum("<", a, b), kinds="biufc"
)
fmax = elementwise(
    np.fmax,
    partials=[
        _winner_share(lambda a, b: _is_greater(a, b) | np.isnan(b)),
        _winner_share(lambda a, b: _is_greater(b, a) | np.isnan(a)),
    ],
    lower=lambda e, a, b: e.select(e.isnan(b), a, e.select(e.isnan(a), b, e.extremum(">", a, b))),
    kinds="biufc",
)
fmin = elementwise(
    np.fmin,
    partials=[
        _winner_share(lambda a, b: _is_greater(b, a) | np.isnan(b)),
        _winner_share(lambda a, b: _is_greater(a, b) | np.isnan(a)),
    ],
    lower=lambda e, a, b: e.select(e.isnan(b), a, e.select(e.isnan(a), b, e.extremum("<", a, b))),
    kinds="biufc",
)
copysign = elementwise(
    np.copysign,
    partials=[lambda y, a, b: np.sign(y) * np.copysign(_constant_like(1, y), a), 0],
    lower=lambda e, a, b: e.intrinsic("copysign", a, b),
)


def _heaviside_body(e: Any, x: Any, middle: Any) -> Any:
    zero = e.constant(0, x)
    side = e.select(e.compare("<", x, zero), zero, e.select(e.isnan(x), x, e.constant(1, x)))
    return e.select(e.compare("==", x, zero), middle, side)


heaviside = elementwise(
    np.heaviside,
    partials=[0, lambda y, a, b: np.where(a == 0, _constant_like(1, y), _constant_like(0, y))],
    lower=_heaviside_body,
)


# Products with strong zeros -----------------------------------------------------------------------


def _evaluate_strong(a: Any, b: Any) -> Any:
    """a * b, where an exact zero times infinity is 0, and a zero cotangent `a` times NaN too. A
    number whose square underflows counts as zero where the product is infinite: it reaches a root
    through a square that is 0."""
    with np.errstate(all="ignore"):
        product = np.multiply(a, b)
        is_zero = np.isnan(product) & ((a == 0) | ((b == 0) & ~np.isnan(a)))
        is_infinite = np.isinf(product)
        if np.any(is_infinite):
            is_zero = is_zero | (is_infinite & (_is_faint(a) | _is_faint(b)))
        return (
            np.where(is_zero, _constant_like(0, product), product)[()]
            if np.any(is_zero)
            else product
        )


def _is_faint(x: Any) -> Any:
    """Whether the square, of which this is the derivative, underflows to 0."""
    return np.square(x * 0.5) == 0


def _strong_body(e: Any, a: Any, b: Any) -> Any:
    zero, product = e.constant(0, a), e.mul(a, b)
    is_zero = e.logical_or(
        e.compare("==", a, zero), e.logical_and(e.compare("==", b, zero), e.compare("==", a, a))
    )
    half_values = [e.mul(x, e.constant(0.5, x)) for x in (a, b)]
    is_faint = [e.compare("==", e.mul(half, half), zero) for half in half_values]
    is_lost = e.logical_and(e.isinf(product), e.logical_or(*is_faint))
    return e.select(e.logical_or(is_zero, is_lost), zero, product)


def _strong_product(a: Any, b: Any) -> Any:
    return apply(strong_multiply, (a, b))


def _declare_product(name: str, evaluate: Callable[..., Any], body: Callable[..., Any]) -> Op:
    return declare(
        name,
        infer=lambda a, b: Type(
            broadcast_shape((a, b)), np.result_type(*(result_type_operand(t) for t in (a, b)))
        ),
        evaluate=evaluate,
        jvp=[lambda t, y, a, b: _strong_product(t, b), lambda t, y, a, b: _strong_product(a, t)],
        vjp=[
            lambda g, y, a, b: project(_strong_product(g, conjugated(b)), a),
            # Where the cotangent `a` is a structural zero, the result does not depend on b.
            lambda g, y, a, b: project(_strong_product(conjugated(a), g), b),
        ],
        lower=Map(
            body,
            lambda a, b: (np.result_type(result_type_operand(a), result_type_operand(b)),) * 2,
            "fc",
        ),
    )


strong_multiply = _declare_product("strong_multiply", _evaluate_strong, _strong_body)
# Where no zero need be strong: only the derivatives differ from those of `multiply`.
finite_multiply = _declare_product("finite_multiply", np.multiply, lambda e, a, b: e.mul(a, b))
