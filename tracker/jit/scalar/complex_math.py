"""Complex functions by real ones: exponentials, logarithms, roots, circular and hyperbolic
functions.

Where an argument is zero or infinite, results are those of C99 annex G. Inverse functions follow W.
Kahan, "Branch Cuts for Complex Elementary Functions" (1987): square roots of 1 + z and 1 - z, whose
parts are combined without cancellation; zeros keep their signs, which decide on what side of a cut
an argument lies. Far from the origin inverse functions are logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracker.jit.scalar.values import ComplexValue, ScalarValue, literal

if TYPE_CHECKING:
    from tracker.jit.scalar.emitter import Emitter

_EXP_SCALED_FROM = 650.0  # beyond, exp is scaled, so that a factor below one can bring it back
# Beyond the first number, the argument of sinh and cosh is reduced by the second; both are then
# half an exponential.
_SINH_SCALED_FROM = {8: (709.0, 690.0), 4: (88.0, 75.0)}
_FAR = {8: 2.0**60, 4: 2.0**30}  # beyond, 1 + z**2 is z**2
_TANH_IS_ONE = 22.0  # beyond, tanh is one


def exp(e: Emitter, z: ComplexValue) -> ComplexValue:
    zero, infinite = literal(0, z.re.dtype), literal(math.inf, z.re.dtype)
    limit = _EXP_SCALED_FROM if z.re.dtype.itemsize == 8 else 80.0
    far = e.compare(">", z.re, literal(limit, z.re.dtype))
    near = e.select(far, e.sub(z.re, literal(limit, z.re.dtype)), z.re)
    size = e.math("exp", near)
    rest = e.select(far, literal(math.exp(limit), size.dtype), literal(1, size.dtype))
    re = e.mul(e.mul(size, e.math("cos", z.im)), rest)
    im = e.mul(e.mul(size, e.math("sin", z.im)), rest)
    im = e.select(e.compare("==", z.im, zero), z.im, im)
    # An infinite or zero result has any angle.
    lost = e.invert(e.isfinite(z.im))
    gone = e.logical_and(lost, e.compare("==", z.re, e.neg(infinite)))
    great = e.logical_and(lost, e.compare("==", z.re, infinite))
    re = e.select(gone, zero, e.select(great, infinite, re))
    return ComplexValue(re, e.select(gone, zero, im))


def log(e: Emitter, z: ComplexValue) -> ComplexValue:
    one = literal(1, z.re.dtype)
    wide, high = e.abs(z.re), e.abs(z.im)
    first = e.compare(">", wide, high)
    large, small = e.select(first, wide, high), e.select(first, high, wide)
    size = e.math("hypot", z.re, z.im)
    # Near the unit circle, |z|**2 - 1 has more digits than |z|.
    beyond = e.mul(e.sub(large, one), e.add(large, one))
    beyond = e.intrinsic("fma", small, small, beyond)
    close = e.mul(e.math("log1p", beyond), literal(0.5, one.dtype))
    around = e.compare("<", e.abs(e.sub(size, one)), literal(0.25, one.dtype))
    re = e.select(around, close, e.math("log", size))
    return ComplexValue(re, e.math("atan2", z.im, z.re))


def sqrt(e: Emitter, z: ComplexValue) -> ComplexValue:
    dtype = z.re.dtype
    zero, half, infinite = (literal(v, dtype) for v in (0, 0.5, math.inf))
    # Scaled, so that neither the sum nor the absolute value overflows or vanishes.
    up, down = (2.0**120, 2.0**-60) if dtype.itemsize == 8 else (2.0**60, 2.0**-30)
    size = e.math("hypot", z.re, z.im)
    tiny = e.compare("<", size, literal(1 / up, dtype))
    huge = e.compare(">", size, literal(up, dtype))
    one = literal(1, dtype)
    scale = e.select(tiny, literal(up, dtype), e.select(huge, literal(1 / up, dtype), one))
    back = e.select(tiny, literal(down, dtype), e.select(huge, literal(1 / down, dtype), one))
    x, y = e.mul(z.re, scale), e.mul(z.im, scale)
    total = e.add(e.abs(x), e.math("hypot", x, y))
    root = e.math("sqrt", e.mul(total, half))
    other = e.div(e.mul(e.abs(y), half), root)
    right = e.compare(">=", z.re, zero)
    re = e.mul(e.select(right, root, other), back)
    im = e.mul(e.select(right, other, root), back)
    im = e.intrinsic("copysign", im, z.im)
    none = e.compare("==", size, zero)
    endless = e.compare("==", e.abs(z.im), infinite)
    re = e.select(none, zero, e.select(endless, infinite, re))
    return ComplexValue(re, e.select(e.logical_or(none, endless), z.im, im))


def sin(e: Emitter, z: ComplexValue) -> ComplexValue:
    """sin(x) cosh(y) + i cos(x) sinh(y)."""
    return ComplexValue(_sin_cosh(e, z.re, z.im), _cos_sinh(e, z.re, z.im))


def sinh(e: Emitter, z: ComplexValue) -> ComplexValue:
    """sinh(x) cos(y) + i cosh(x) sin(y)."""
    return ComplexValue(_cos_sinh(e, z.im, z.re), _sin_cosh(e, z.im, z.re))


def cos(e: Emitter, z: ComplexValue) -> ComplexValue:
    """cos(x) cosh(y) - i sin(x) sinh(y)."""
    return cosh(e, ComplexValue(e.neg(z.im), z.re))


def cosh(e: Emitter, z: ComplexValue) -> ComplexValue:
    """cosh(x) cos(y) + i sinh(x) sin(y)."""
    zero = literal(0, z.re.dtype)
    re = _scaled_hyperbolic(e, "cosh", z.re, e.math("cos", z.im))
    im = _scaled_hyperbolic(e, "sinh", z.re, e.math("sin", z.im))
    lost = e.invert(e.isfinite(z.im))
    im = e.select(e.logical_and(lost, e.compare("==", z.re, zero)), zero, im)
    level = e.mul(e.intrinsic("copysign", literal(1, zero.dtype), z.re), z.im)
    im = e.select(e.compare("==", z.im, zero), level, im)
    return ComplexValue(_infinite_product(e, re, z.im, z.re), im)


def _sin_cosh(e: Emitter, angle: ScalarValue, size: ScalarValue) -> ScalarValue:
    """sin(angle) cosh(size), and a zero angle as it is."""
    product = _scaled_hyperbolic(e, "cosh", size, e.math("sin", angle))
    return e.select(e.compare("==", angle, literal(0, angle.dtype)), angle, product)


def _cos_sinh(e: Emitter, angle: ScalarValue, size: ScalarValue) -> ScalarValue:
    """cos(angle) sinh(size), and a zero size as it is."""
    product = _scaled_hyperbolic(e, "sinh", size, e.math("cos", angle))
    none = e.compare("==", size, literal(0, size.dtype))
    return e.select(none, size, _infinite_product(e, product, angle, size))


def _scaled_hyperbolic(
    e: Emitter, name: str, size: ScalarValue, factor: ScalarValue
) -> ScalarValue:
    """sinh or cosh, times a factor that can bring it back where it alone is too large."""
    dtype = size.dtype
    limit, shift = _SINH_SCALED_FROM[dtype.itemsize]
    length = e.abs(size)
    far = e.compare(">", length, literal(limit, dtype))
    less = e.intrinsic("copysign", e.sub(length, literal(shift, dtype)), size)
    near = e.select(far, less, size)
    rest = e.select(far, literal(math.exp(shift), dtype), literal(1, dtype))
    return e.mul(e.mul(factor, e.math(name, near)), rest)


def _infinite_product(
    e: Emitter, product: ScalarValue, angle: ScalarValue, size: ScalarValue
) -> ScalarValue:
    """The product, infinite where the size is infinite and the angle not finite."""
    infinite = literal(math.inf, size.dtype)
    lost = e.invert(e.isfinite(angle))
    great = e.logical_and(lost, e.compare("==", e.abs(size), infinite))
    return e.select(great, infinite, product)


def sigmoid(e: Emitter, z: ComplexValue) -> ScalarValue:
    one = literal(1, z.dtype)
    return e.div(one, e.add(one, e.math("exp", e.neg(z))))


# Other bases, and arguments near one


def _times_real(e: Emitter, z: ComplexValue, factor: float) -> ComplexValue:
    number = literal(factor, z.re.dtype)
    return ComplexValue(e.mul(z.re, number), e.mul(z.im, number))


def exp2(e: Emitter, z: ComplexValue) -> ComplexValue:
    return exp(e, _times_real(e, z, math.log(2)))


def log2(e: Emitter, z: ComplexValue) -> ComplexValue:
    return _times_real(e, log(e, z), 1 / math.log(2))


def log10(e: Emitter, z: ComplexValue) -> ComplexValue:
    return _times_real(e, log(e, z), 1 / math.log(10))


def log1p(e: Emitter, z: ComplexValue) -> ComplexValue:
    """With the accuracy of NumPy's formula."""
    x = e.add(z.re, literal(1, z.re.dtype))
    size = e.math("hypot", x, z.im)
    return ComplexValue(e.math("log", size), e.math("atan2", z.im, x))


def expm1(e: Emitter, z: ComplexValue) -> ComplexValue:
    half = e.math("sin", e.mul(z.im, literal(0.5, z.re.dtype)))
    turned = e.mul(e.math("expm1", z.re), e.math("cos", z.im))
    lost = e.mul(literal(2, z.re.dtype), e.mul(half, half))
    im = e.mul(e.math("exp", z.re), e.math("sin", z.im))
    return ComplexValue(e.sub(turned, lost), im)


# Tangents


def tanh(e: Emitter, z: ComplexValue) -> ComplexValue:
    dtype = z.re.dtype
    zero, one = literal(0, dtype), literal(1, dtype)
    size = e.abs(z.re)
    flat = e.compare(">", size, literal(_TANH_IS_ONE, dtype))
    x = e.select(flat, one, z.re)
    sinh, cosh = e.math("sinh", x), e.math("cosh", x)
    sin, cos = e.math("sin", z.im), e.math("cos", z.im)
    under = e.add(e.mul(sinh, sinh), e.mul(cos, cos))
    turn = e.mul(sin, cos)
    re = e.div(e.mul(sinh, cosh), under)
    re = e.select(flat, e.intrinsic("copysign", one, z.re), re)
    decay = e.math("exp", e.mul(literal(-2, dtype), size))
    faint = e.mul(e.mul(literal(4, dtype), turn), decay)
    im = e.select(flat, faint, e.div(turn, under))
    lost = e.logical_and(e.isinf(z.re), e.invert(e.isfinite(z.im)))
    im = e.select(lost, e.intrinsic("copysign", zero, z.im), im)
    im = e.select(e.compare("==", z.im, zero), z.im, im)
    numbers = e.logical_or(e.isfinite(z.im), e.isinf(z.re))
    re = e.select(numbers, re, e.sub(z.im, z.im))
    re = e.select(e.compare("==", z.re, zero), z.re, re)
    return ComplexValue(re, im)


def tan(e: Emitter, z: ComplexValue) -> ComplexValue:
    return _times_minus_i(e, tanh(e, _times_i(e, z)))


def _times_i(e: Emitter, z: ComplexValue) -> ComplexValue:
    """i z."""
    return ComplexValue(e.neg(z.im), z.re)


def _times_minus_i(e: Emitter, z: ComplexValue) -> ComplexValue:
    """-i z."""
    return ComplexValue(z.im, e.neg(z.re))


# Inverses


def _roots_of_one_minus_plus(e: Emitter, z: ComplexValue) -> tuple[ComplexValue, ComplexValue]:
    """The square roots of 1 - z and of 1 + z."""
    one = literal(1, z.re.dtype)
    below = ComplexValue(e.sub(one, z.re), e.neg(z.im))
    return sqrt(e, below), sqrt(e, ComplexValue(e.add(one, z.re), z.im))


def _is_far(e: Emitter, z: ComplexValue) -> tuple[ScalarValue, ScalarValue]:
    """Whether z is far from the origin, and log(2 |z|)."""
    dtype = z.re.dtype
    limit, half = literal(_FAR[dtype.itemsize], dtype), literal(0.5, dtype)
    far = e.logical_or(e.compare(">", e.abs(z.re), limit), e.compare(">", e.abs(z.im), limit))
    size = e.math("hypot", e.mul(z.re, half), e.mul(z.im, half))
    return far, e.add(e.math("log", size), literal(2 * math.log(2), dtype))


def _imag_of_conj_product(e: Emitter, a: ComplexValue, b: ComplexValue) -> ScalarValue:
    """The imaginary part of conj(a) b."""
    return e.sub(e.mul(a.re, b.im), e.mul(a.im, b.re))


def asin(e: Emitter, z: ComplexValue) -> ComplexValue:
    minus, plus = _roots_of_one_minus_plus(e, z)
    level = e.sub(e.mul(minus.re, plus.re), e.mul(minus.im, plus.im))
    far, size = _is_far(e, z)
    re = e.math("atan2", z.re, e.select(far, e.abs(z.im), level))
    size = e.intrinsic("copysign", size, z.im)
    im = e.select(far, size, e.math("asinh", _imag_of_conj_product(e, minus, plus)))
    return ComplexValue(e.select(_is_imaginary(e, z), z.re, re), im)


def acos(e: Emitter, z: ComplexValue) -> ComplexValue:
    minus, plus = _roots_of_one_minus_plus(e, z)
    far, size = _is_far(e, z)
    near = e.mul(literal(2, z.re.dtype), e.math("atan2", minus.re, plus.re))
    re = e.select(far, e.math("atan2", e.abs(z.im), z.re), near)
    re = e.select(_is_imaginary(e, z), literal(math.pi / 2, re.dtype), re)
    size = e.intrinsic("copysign", size, e.neg(z.im))
    return ComplexValue(
        re, e.select(far, size, e.math("asinh", _imag_of_conj_product(e, plus, minus)))
    )


def asinh(e: Emitter, z: ComplexValue) -> ComplexValue:
    return _times_minus_i(e, asin(e, _times_i(e, z)))


def acosh(e: Emitter, z: ComplexValue) -> ComplexValue:
    one = literal(1, z.re.dtype)
    minus = sqrt(e, ComplexValue(e.sub(z.re, one), z.im))
    plus = sqrt(e, ComplexValue(e.add(z.re, one), z.im))
    far, size = _is_far(e, z)
    level = e.add(e.mul(minus.re, plus.re), e.mul(minus.im, plus.im))
    near = e.mul(literal(2, one.dtype), e.math("atan2", minus.im, plus.re))
    im = e.select(far, e.math("atan2", z.im, z.re), near)
    quarter = e.intrinsic("copysign", literal(math.pi / 2, one.dtype), z.im)
    im = e.select(_is_imaginary(e, z), quarter, im)
    return ComplexValue(e.select(far, size, e.math("asinh", level)), im)


def _is_imaginary(e: Emitter, z: ComplexValue) -> ScalarValue:
    """Whether Re z is zero; a result then keeps its known part, even if Im z is NaN."""
    return e.compare("==", z.re, literal(0, z.re.dtype))


def atanh(e: Emitter, z: ComplexValue) -> ComplexValue:
    dtype = z.re.dtype
    zero, one = literal(0, dtype), literal(1, dtype)
    far, _ = _is_far(e, z)
    x, y = e.select(far, one, e.abs(z.re)), e.select(far, one, z.im)
    apart, square = e.sub(one, x), e.mul(y, y)
    under = e.add(e.mul(apart, apart), square)
    re = e.math("log1p", e.div(e.mul(literal(4, dtype), x), under))
    re = e.mul(literal(0.25, dtype), re)
    # Near a pole the squares vanish, and the numerator is two.
    away = e.math("hypot", apart, y)
    close = e.compare("<", away, literal(1 / _FAR[dtype.itemsize], dtype))
    pole = e.sub(literal(math.log(2), dtype), e.math("log", away))
    re = e.select(close, e.mul(literal(0.5, dtype), pole), re)
    level = e.sub(e.mul(apart, e.add(one, x)), square)
    im = e.math("atan2", e.mul(literal(2, dtype), y), level)
    im = e.mul(literal(0.5, dtype), im)
    inverse = e.div(ComplexValue(one, zero), ComplexValue(e.abs(z.re), z.im))
    endless = e.logical_or(e.isinf(z.re), e.isinf(z.im))
    beyond = e.select(endless, zero, e.real(inverse))
    re = e.intrinsic("copysign", e.select(far, beyond, re), z.re)
    re = e.select(_is_imaginary(e, z), z.re, re)
    quarter = e.intrinsic("copysign", literal(math.pi / 2, dtype), z.im)
    number = e.logical_or(e.isinf(z.im), e.compare("==", z.re, z.re))
    quarter = e.select(number, quarter, z.re)
    quarter = e.select(e.compare("==", z.im, z.im), quarter, z.im)
    return ComplexValue(re, e.select(far, quarter, im))


def atan(e: Emitter, z: ComplexValue) -> ComplexValue:
    return _times_minus_i(e, atanh(e, _times_i(e, z)))


FUNCTIONS: dict[str, Callable[[Emitter, ComplexValue], ScalarValue]] = {
    **{f.__name__: f for f in (exp, exp2, expm1, log, log2, log10, log1p, sqrt, sigmoid)},
    **{f.__name__: f for f in (sin, cos, tan, sinh, cosh, tanh)},
    **{f.__name__: f for f in (asin, acos, atan, asinh, acosh, atanh)},
}
