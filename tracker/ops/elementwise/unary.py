"""Elementwise functions of one operand: ufunc, partial derivative, scalar body.

Partials are functions of (y, x); they use the result `y` where that avoids overflow. Derivatives
that lose digits as plain formulas are ops of their own (`one_less_square`, `arctan_slope`,
`sech_squared`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.lowering import Map
from tracker.ir.op import LINEAR, METHODS, NUMPY, UFUNCS, Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import as_array, as_strong_array
from tracker.ops.declare.casting import cast_error, store_out
from tracker.ops.declare.declare import (
    declare,
    elementwise,
    elementwise_nondiff,
    implements,
    map_lowering,
    smooth_op,
)
from tracker.ops.declare.dtypes import infer_ufunc
from tracker.ops.declare.rule_helpers import jvp_from, vjp_from
from tracker.ops.shape.create import item
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.record import apply, apply_unary, aval_of

_LN2 = float(np.log(2.0))
_LN10 = float(np.log(10.0))
_DEG = float(np.pi / 180.0)


def _math(name: str) -> Any:
    return lambda e, x: e.math(name, x)


def _sign(x: Any) -> Any:
    """The derivative of |x|; bools count as numbers."""
    try:
        return np.sign(x)
    except TypeError:
        return np.sign(x * 1.0)


negative = elementwise(
    np.negative, partials=[-1], lower=lambda e, x: e.neg(x), kinds="iufc", operator=operator.neg
)
positive = elementwise(
    np.positive, partials=[1], lower=lambda e, x: x, kinds="iufc", operator=operator.pos
)
absolute = elementwise(
    np.absolute,
    partials=[lambda y, x: np.conjugate(_direction(x, y)) if np.iscomplexobj(x) else _sign(x)],
    lower=lambda e, x: e.abs(x),
    kinds="biufc",
    operator=operator.abs,
)
fabs = elementwise(
    np.fabs, partials=[lambda y, x: np.copysign(np.sign(y), x)], lower=lambda e, x: e.abs(x)
)


def _direction(x: Any, size: Any) -> Any:
    """x / |x|, and 0 at 0."""
    return x / (size + (size == 0))


def _sign_derivative(t: Any, y: Any, x: Any) -> Any:
    """The derivative of the sign of a complex number, 0 at 0; self-adjoint, so it is both vjp and
    jvp."""
    if not np.iscomplexobj(x):
        return None
    return _direction(1j * y * np.imag(np.conjugate(y) * t), np.abs(x))


sign = declare(
    "sign",
    numpy=[np.sign],
    entry=lambda x: ((x,), {}),
    infer=infer_ufunc(np.sign, None),
    evaluate=np.sign,
    jvp=[_sign_derivative],
    vjp=[_sign_derivative],
    lower=map_lowering(np.sign, lambda e, x: e.sign(x), "iufc"),
)
UFUNCS[np.sign] = sign

exp = elementwise(np.exp, partials=[lambda y, x: y], lower=_math("exp"), kinds="fc")
exp2 = elementwise(np.exp2, partials=[lambda y, x: y * _LN2], lower=_math("exp2"), kinds="fc")
expm1 = elementwise(np.expm1, partials=[lambda y, x: np.exp(x)], lower=_math("expm1"), kinds="fc")
log = elementwise(np.log, partials=[lambda y, x: 1 / x], lower=_math("log"), kinds="fc")
log2 = elementwise(np.log2, partials=[lambda y, x: 1 / (x * _LN2)], lower=_math("log2"), kinds="fc")
log10 = elementwise(
    np.log10, partials=[lambda y, x: 1 / (x * _LN10)], lower=_math("log10"), kinds="fc"
)
log1p = elementwise(np.log1p, partials=[lambda y, x: 1 / (1 + x)], lower=_math("log1p"), kinds="fc")

sqrt = elementwise(np.sqrt, partials=[lambda y, x: 0.5 / y], lower=_math("sqrt"), kinds="fc")
cbrt = elementwise(np.cbrt, partials=[lambda y, x: 1 / (3 * np.square(y))], lower=_math("cbrt"))
square = elementwise(
    np.square, partials=[lambda y, x: 2 * x], lower=lambda e, x: e.mul(x, x), kinds="iufc"
)
reciprocal = elementwise(
    np.reciprocal,
    partials=[lambda y, x: -np.square(y)],
    lower=lambda e, x: e.reciprocal(x),
    kinds="iufc",
)

sin = elementwise(np.sin, partials=[lambda y, x: np.cos(x)], lower=_math("sin"), kinds="fc")
cos = elementwise(np.cos, partials=[lambda y, x: -np.sin(x)], lower=_math("cos"), kinds="fc")
tan = elementwise(np.tan, partials=[lambda y, x: 1 + np.square(y)], lower=_math("tan"), kinds="fc")


def _plus_one(x: Any) -> Any:
    """x + 1. On a branch cut of a complex function the sign of a zero selects the side, and a sum
    with a zero of the other sign would lose it."""
    return x - (-1) if np.iscomplexobj(x) else x + 1


def _declare_derivative_op(
    name: str, evaluate: Callable[[Any], Any], partial: Callable[..., Any], body: Any
) -> Op:
    """Declare an op of one operand that is the derivative of another op, with an accurate
    derivative of its own where `evaluate` rounds, overflows or underflows."""
    return smooth_op(
        name,
        infer=lambda x: x,
        evaluate=evaluate,
        partials=[partial],
        lower=Map(body, lambda x: (x.dtype,), "fc", order="K"),
    )


one_less_square = _declare_derivative_op(
    "one_less_square",
    lambda x: (1 - x) * (1 + x),
    lambda y, x: -2 * x,
    lambda e, x: e.mul(e.sub(e.constant(1, x), x), e.add(e.constant(1, x), x)),
)
arctan_slope = _declare_derivative_op(
    "arctan_slope",
    lambda x: 1 / (1 + x * x),
    lambda y, x: -2 * (x * y) * y,
    lambda e, x: e.div(e.constant(1, x), e.add(e.constant(1, x), e.mul(x, x))),
)


def _arctan_slope(x: Any) -> Any:
    if np.result_type(aval_of(x)).kind in "biu":
        return 1 / (1 + np.square(x))
    return apply(arctan_slope, (x,))


def _one_less_square(x: Any) -> Any:
    if np.result_type(aval_of(x)).kind in "biu":
        return (1 - x) * (1 + x)
    return apply(one_less_square, (x,))


def _cosine_of_arcsine(x: Any) -> Any:
    """sqrt(1 - x**2)"""
    if not np.iscomplexobj(x):
        return np.sqrt(_one_less_square(x))
    return np.sqrt(-(x - 1)) * np.sqrt(_plus_one(x))


arcsin = elementwise(
    np.arcsin, partials=[lambda y, x: 1 / _cosine_of_arcsine(x)], lower=_math("asin"), kinds="fc"
)
arccos = elementwise(
    np.arccos, partials=[lambda y, x: -1 / _cosine_of_arcsine(x)], lower=_math("acos"), kinds="fc"
)
arctan = elementwise(
    np.arctan, partials=[lambda y, x: _arctan_slope(x)], lower=_math("atan"), kinds="fc"
)
sinh = elementwise(np.sinh, partials=[lambda y, x: np.cosh(x)], lower=_math("sinh"), kinds="fc")
cosh = elementwise(np.cosh, partials=[lambda y, x: np.sinh(x)], lower=_math("cosh"), kinds="fc")
# By bytes per real number: 1 - y**2 below this has lost almost half of its digits.
_CANCELLATION_LIMITS = {2: 2.0**-4, 4: 2.0**-10}
_LONG_CANCELLATION_LIMIT = 2.0**-20
_BLOCK = 1 << 15  # elements per block, to bound temporary memory


def _cancellation_limit(dtype: np.dtype[Any]) -> float:
    return _CANCELLATION_LIMITS.get(
        dtype.itemsize // (2 if dtype.kind == "c" else 1), _LONG_CANCELLATION_LIMIT
    )


def _sech_squared(y: Any, x: Any) -> Any:
    slope = np.square(y)
    if type(slope) is not np.ndarray:
        slope = 1 - slope
        limit = (
            _cancellation_limit(slope.dtype)
            if isinstance(slope, np.generic)
            else _LONG_CANCELLATION_LIMIT
        )
        return slope if abs(slope) >= limit else _sech_squared_far(x)
    np.subtract(1, slope, slope)
    limit, is_real = _cancellation_limit(slope.dtype), slope.dtype.kind == "f"
    if not slope.size or (is_real and slope.item(np.argmin(slope)) >= limit):
        return slope
    flags, modes = ["external_loop", "buffered"], [["readwrite"], ["readonly"]]
    with np.nditer([slope, x], flags, modes, buffersize=_BLOCK) as blocks:  # type: ignore[arg-type]
        for part, at in blocks:
            far = ((part if is_real else np.abs(part)) < limit).nonzero()[0]
            if far.size:
                part[far] = _sech_squared_far(at[far])
    return slope


def _sech_squared_of_any(y: Any, x: Any) -> Any:
    if type(y) is np.ndarray and type(x) is np.ndarray and y.strides != x.strides:
        y = y + np.zeros_like(x)  # in the layout of a ufunc's result
    return _sech_squared(y, x)


def _sech_squared_far(x: Any) -> Any:
    e = np.exp(x * np.where(np.real(x) < 0, 2.0, -2.0))
    return 4 * e / np.square(1 + e)


def _sech_squared_body(e: Any, y: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return e.math("sech_squared", x)
    one, zero = e.constant(1, x), e.constant(0, e.real(x))
    near = e.sub(one, e.mul(y, y))
    left = e.select(e.compare("<", e.real(x), zero), x, e.neg(x))
    decay = e.math("exp", e.add(left, left))
    far = e.div(e.mul(e.constant(4, x), decay), e.mul(e.add(one, decay), e.add(one, decay)))
    is_small = e.compare("<", e.abs(near), e.constant(_cancellation_limit(x.dtype), e.real(x)))
    return e.select(is_small, far, near)


def _minus_two_y(slope: Any, y: Any, x: Any) -> Any:
    return -2 * y


# 1 - y**2 for y = tanh(x), the derivative of tanh at x; computed from x where 1 - y**2 cancels.
sech_squared = declare(
    "sech_squared",
    infer=lambda y, x: y,
    evaluate=_sech_squared_of_any,
    jvp=[jvp_from(_minus_two_y), None],
    vjp=[vjp_from(_minus_two_y, 0), None],
    partials=[_minus_two_y, 0],
    lower=Map(_sech_squared_body, lambda y, x: (y.dtype,) * 2, "fc", order="K"),
)


def _tanh_slope(y: Any, x: Any) -> Any:
    plain = type(y) is np.ndarray and type(x) is np.ndarray
    return _sech_squared(y, x) if plain else apply(sech_squared, (y, x))


tanh = elementwise(np.tanh, partials=[_tanh_slope], lower=_math("tanh"), kinds="fc")
arcsinh = elementwise(
    np.arcsinh,
    partials=[
        lambda y, x: (
            1 / (np.sqrt(_plus_one(np.square(x))) if np.iscomplexobj(x) else np.hypot(1, x))
        )
    ],
    lower=_math("asinh"),
    kinds="fc",
)
arccosh = elementwise(
    np.arccosh,
    partials=[lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(_plus_one(x)))],
    lower=_math("acosh"),
    kinds="fc",
)
arctanh = elementwise(
    np.arctanh, partials=[lambda y, x: 1 / _one_less_square(x)], lower=_math("atanh"), kinds="fc"
)
deg2rad = elementwise(np.deg2rad, partials=[_DEG], lower=lambda e, x: e.mul(x, e.constant(_DEG, x)))
rad2deg = elementwise(
    np.rad2deg, partials=[1 / _DEG], lower=lambda e, x: e.mul(x, e.constant(180.0 / np.pi, x))
)
radians = elementwise(np.radians, partials=[_DEG], lower=lambda e, x: e.mul(x, e.constant(_DEG, x)))
degrees = elementwise(
    np.degrees, partials=[1 / _DEG], lower=lambda e, x: e.mul(x, e.constant(180.0 / np.pi, x))
)


def _rounded(name: str) -> Any:
    """Integers and bools are unchanged."""
    return lambda e, x: e.rounded(name, x)


floor = elementwise(np.floor, partials=[0], lower=_rounded("floor"), kinds="biuf")
ceil = elementwise(np.ceil, partials=[0], lower=_rounded("ceil"), kinds="biuf")
trunc = elementwise(np.trunc, partials=[0], lower=_rounded("trunc"), kinds="biuf")
rint = elementwise(np.rint, partials=[0], lower=_rounded("rint"), kinds="fc")

isnan = elementwise_nondiff(np.isnan, lower=lambda e, x: e.isnan(x), kinds="biufc")
isinf = elementwise_nondiff(np.isinf, lower=lambda e, x: e.isinf(x), kinds="biufc")
isfinite = elementwise_nondiff(np.isfinite, lower=lambda e, x: e.isfinite(x), kinds="biufc")
signbit = elementwise_nondiff(
    np.signbit,
    lower=lambda e, x: e.compare(
        "<", e.intrinsic("copysign", e.constant(1, x), x), e.constant(0, x)
    ),
)
logical_not = elementwise_nondiff(
    np.logical_not, lower=lambda e, x: e.compare("==", x, e.constant(0, x)), kinds="biufc"
)
invert = elementwise_nondiff(
    np.invert, lower=lambda e, x: e.invert(x), kinds="biu", operator=operator.invert
)


# Complex parts: linear over the reals, so not partials --------------------------------------------


def _real_dtype(x: Any) -> Any:
    return Type(x.shape, np.zeros(0, x.dtype).real.dtype, x.weak)


real = declare(
    "real",
    numpy=[np.real],
    entry=lambda val: ((val,), {}),
    infer=_real_dtype,
    evaluate=np.real,
    jvp=LINEAR,
    vjp=[lambda g, y, x: g + np.zeros_like(x) if np.iscomplexobj(x) else g],
    lower=Map(lambda e, x: e.real(x), lambda x: (x.dtype,), "biufc", order="V"),
)
imag = declare(
    "imag",
    numpy=[np.imag],
    entry=lambda val: ((val,), {}),
    infer=_real_dtype,
    evaluate=np.imag,
    jvp=LINEAR,
    vjp=[
        lambda g, y, x: (
            from_parts(np.zeros_like(g), g) + np.zeros_like(x)
            if np.iscomplexobj(x)
            else np.zeros_like(x)
        )
    ],
    lower=Map(lambda e, x: e.imag(x), lambda x: (x.dtype,), "biufc", order="V"),
)


def _parts_together(re: Any, im: Any) -> Any:
    with np.errstate(all="ignore"):
        z = np.asarray(np.add(re, im, dtype=np.result_type(re, im, np.complex64)))  # for its layout
    z.real, z.imag = re, im
    return z[()]


# re + 1j * im, except that an infinite or NaN part does not affect the other one
complex_of = declare(
    "complex_of",
    infer=lambda re, im: Type(re.shape, np.result_type(re.dtype, im.dtype, np.complex64)),
    evaluate=_parts_together,
    jvp=[
        lambda t, y, re, im: from_parts(t, np.zeros_like(t)),
        lambda t, y, re, im: from_parts(np.zeros_like(t), t),
    ],
    vjp=[lambda g, y, re, im: np.real(g), lambda g, y, re, im: np.imag(g)],
    lower=Map(
        lambda e, re, im: e.complex(re, im),
        lambda re, im: (np.result_type(re.dtype, im.dtype),) * 2,
        "f",
        order="K",
    ),
)


def from_parts(re: Any, im: Any) -> Any:
    """The complex numbers with these parts, which have one shape."""
    return apply(complex_of, (re, im))


conjugate = declare(
    "conjugate",
    entry=lambda x: ((x,), {}),
    infer=lambda x: Type(x.shape, x.dtype),
    evaluate=np.conjugate,
    jvp=LINEAR,
    vjp=[lambda g, y, x: np.conjugate(g)],
    lower=Map(lambda e, x: e.conjugate(x), lambda x: (x.dtype,), "biufc", order="K"),
)


def _conjugate(x: Any) -> Any:
    if np.iscomplexobj(x):
        return apply(conjugate, (x,))
    x = as_strong_array(x)
    kind = np.result_type(aval_of(x))
    return (
        np.positive(np.astype(as_array(x), np.int8))
        if kind.kind == "b"
        else apply_unary(positive, x)
    )


def _conjugate_method(x: Any) -> Any:
    if not np.iscomplexobj(x):
        return x  # unlike the function, the method returns a real array itself
    y = apply(conjugate, (x,))
    return apply(item, (y,)) if type(aval_of(x)) is complex else y


for _name in ("conj", "conjugate"):
    METHODS[_name] = _conjugate_method
NUMPY[np.conjugate] = _conjugate


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    z = as_array(z)
    out = np.arctan2(z.imag, z.real) if np.iscomplexobj(z) else np.arctan2(0, z)
    return out * (180 / np.pi) if deg else out


@implements(np.round, np.around, method="round")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """To decimals, also negative ones; integers stay integers."""
    decimals = operator.index(decimals)
    y = _round_to_decimals(a, decimals, None if out is None else np.result_type(aval_of(out)))
    return store_out(out, y) if out is not None else in_memory_order(y, "A", a)


def _round_to_decimals(a: Any, decimals: int, stored: np.dtype[Any] | None) -> Any:
    """`stored`: the dtype of `out=`, in which NumPy keeps intermediate results."""
    kind = np.result_type(aval_of(a))
    if stored is not None and not np.can_cast(kind, stored, "same_kind"):
        raise cast_error(kind, stored, "same_kind")
    if kind.kind == "c":
        return from_parts(
            *(_round_to_decimals(part, decimals, None) for part in (np.real(a), np.imag(a)))
        )

    def kept(y: Any) -> Any:
        return y if stored is None or kind.kind not in "fc" else np.astype(as_array(y), stored)

    if decimals >= 0:
        if kind.kind in "iu":
            return a * kind.type(1)
        scale = 10.0**decimals
        return np.rint(a) if decimals == 0 else np.rint(kept(a * scale)) / scale
    tens = 10.0**-decimals
    rounded = np.rint(kept(a / tens)) * tens
    return np.astype(rounded, kind) if kind.kind in "iu" else rounded


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0, differentiable there."""
    angle = np.pi * x
    near = np.abs(angle) < 0.5  # sin(x) / x is accurate here, its derivatives are not
    safe = np.where(near, 1.0, angle)
    square = np.square(np.where(near, angle, 0.0))
    series: Any = 1.0
    for n in range(16, 0, -2):
        series = 1 - square / (n * (n + 1)) * series
    return np.where(near, series, np.sin(safe) / safe)[()]  # scalars for scalars


def _replacement_value(x: Any, kind: np.dtype[Any]) -> Any:
    """A replacement value of `nan_to_num`, checked against the array's dtype."""
    aval = aval_of(x)
    given = np.result_type(aval)
    if not np.can_cast(given, kind, "same_kind"):
        raise cast_error(given, kind, "same_kind")
    return x if type(aval) in (bool, int, float) else np.astype(as_array(x), kind)


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    kind = np.result_type(aval_of(x))
    if kind.kind == "c":
        parts = (nan_to_num(p, True, nan, posinf, neginf) for p in (np.real(x), np.imag(x)))
        y = from_parts(next(parts), next(parts))
        return y if copy or np.ndim(x) == 0 else store_out(x, y)
    if kind.kind != "f":
        return np.copy(x)[()]  # scalars for scalars
    limits = np.finfo(kind)
    nan = _replacement_value(nan, kind)
    high = limits.max if posinf is None else _replacement_value(posinf, kind)
    low = limits.min if neginf is None else _replacement_value(neginf, kind)
    finite = np.where(x == np.inf, high, np.where(x == -np.inf, low, x))
    y = np.where(np.isnan(x), nan, finite)
    return y[()] if np.ndim(x) == 0 else y if copy else store_out(x, y)
