"""sinh and cosh, and the inverses of the hyperbolic functions.

A fit of sinh on [-1, 1] (weighted Remez, mpmath, 300 bits); an inverse is one logarithm.

Invariant: the argument of `log_sum` is a sum of two doubles wherever its rounding would show.
"""

from __future__ import annotations

import math

from tracker.jit.vmath.exponential import exp_parts
from tracker.jit.vmath.expression import (
    MathValue,
    copysign,
    fast_two_sum,
    fit,
    fma,
    polynomial,
    select,
    sqrt,
)
from tracker.jit.vmath.logarithm import log_sum

LN2 = 0.6931471805599453
# Beyond, x**2 is not computed: 1 + x**2 is x**2, and may overflow.
SQUARE_OVERFLOW = {"double": 2.0**500, "float": 2.0**60}

# (sinh(x) / x - 1) / x**2, in x**2
SINH = {
    "double": fit("""
        0.16666666666666669 0.008333333333333139 0.00019841269841438226 2.755731915514321e-06
        2.5052123432650435e-08 1.60572374489831e-10 7.759406476113444e-13
    """),
    "float": fit("""
        0.16666666488057516 0.00833335064989387 0.00019836055509568623 2.817504316480731e-06
    """),
}


def _half_exponential(x: MathValue) -> tuple[MathValue, MathValue]:
    """exp(|x|) / 2 as a sum: finite wherever cosh is."""
    high, low, first, second = exp_parts(abs(x), -1)
    return high * first * second, low * first * second


def sinh(x: MathValue) -> MathValue:
    square = x * x
    near = fma(x, square * polynomial(square, SINH[x.body.precision]), x)
    high, low = _half_exponential(x)
    far = high - (0.25 / high - low)
    return select(abs(x) < 1.0, near, copysign(far, x))


def cosh(x: MathValue) -> MathValue:
    high, low = _half_exponential(x)
    return high + (0.25 / high + low)


def asinh(x: MathValue) -> MathValue:
    """log(1 + (a + a**2 / (1 + sqrt(1 + a**2))))."""
    a = abs(x)
    huge = a > SQUARE_OVERFLOW[x.type]
    square = select(huge, 0.0, a * a)
    high, low = fast_two_sum(a, square / (sqrt(square + 1.0) + 1.0))
    result = log_sum(high, low) + select(huge, x.like(LN2), 0.0)
    return copysign(select((a > 2.0**-28) & (a < math.inf), result, a), x)


def acosh(x: MathValue) -> MathValue:
    """log(1 + (t + sqrt(t (t + 2)))) with t = x - 1."""
    huge = x > SQUARE_OVERFLOW[x.type]
    t = x - 1.0
    high, low = fast_two_sum(sqrt(select(huge, 0.0, t * (t + 2.0))), t)
    result = log_sum(select(huge, x, high), select(huge, 0.0, low))
    result = result + select(huge, x.like(LN2), 0.0)
    return select(x < math.inf, select(x < 1.0, x.like(math.nan), result), x)


def atanh(x: MathValue) -> MathValue:
    """log(1 + 2 a / (1 - a)) / 2."""
    a = abs(x)
    top, bottom = a * 2.0, 1.0 - a
    inverse = 1.0 / bottom
    ratio = top * inverse
    lost = fma(-ratio, bottom, top) - ratio * ((1.0 - bottom) - a)
    result = log_sum(ratio, lost * inverse) * 0.5
    pole = select(a.equals(1.0), x.like(math.inf), math.nan)
    return copysign(select(a > 2.0**-28, select(a < 1.0, result, pole), a), x)
