"""gamma, lgamma, digamma and trigamma.

A fit of lgamma around two, the asymptotic series from `STIRLING_FROM` on, and recurrences to one of
them. Coefficients are Remez fits (mpmath, 200 bits) rounded to double. Of whole numbers gamma is a
table.

Invariant: the error is measured against the larger of the result and one: between its poles each
function crosses zero where no double is near the root.
"""

from __future__ import annotations

import math
import struct

from tracker.jit.vmath.exponential import exp_parts
from tracker.jit.vmath.expression import (
    MathValue,
    fit,
    fma,
    polynomial,
    round_even,
    select,
    two_product,
    two_sum,
)
from tracker.jit.vmath.logarithm import log, log_parts
from tracker.jit.vmath.trigonometric import sin_cos_pi, sinpi

PI = math.pi
# From here on the asymptotic series are used; smaller arguments are moved here in steps of one.
STIRLING_FROM = {"double": 8, "float": 4}
HALF_LOG_2PI_LESS_HALF = 0.4189385332046727

# lgamma(2 + d) / d for |d| <= 1/2
NEAR_TWO = {
    "double": fit("""
        0.42278433509846713 0.32246703342411326 -0.06735230105319555 0.02058080842777708
        -0.007385551028943538 0.002890510331220162 -0.0011927539007324738 0.0005096695107133487
        -0.0002231549817967357 9.945773650529965e-05 -4.492368925609172e-05 2.0505112456290957e-05
        -9.456475845383503e-06 4.3867738212723294e-06 -1.9738342840153304e-06 9.153027293520815e-07
        -5.816194054888287e-07 2.8322968008859677e-07
    """),
    "float": fit("""
        0.4227843351011974 0.3224670336769554 -0.06735230171606031 0.02058078833045475
        -0.007385524278581072 0.0028909562100147375 -0.0011931553265844606 0.0005056573189417612
        -0.000220409793380416 0.00011500374139941663 -5.352332628604004e-05
    """),
}
# x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2), in x**-2 for x >= 8.4;
# of floats for x >= 4.4
STIRLING = {
    "double": fit("""
        0.08333333333333331 -0.0027777777776727378 0.0007936507062277855 -0.0005952114038341831
        0.0008380401860244478 -0.0016751093565399668
    """),
    "float": (
        0.08333333109281146,
        -0.002776979396149288,
        0.0007511466918749436,
    ),
}
# x**2 (log(x) - 1 / (2 x) - digamma(x)), in x**-2 for x >= 8; of floats for x >= 4
DIGAMMA = {
    "double": fit("""
        0.08333333333333333 -0.00833333333327969 0.003968253912649879 -0.0041666449888706995
        0.0075717071468823 -0.020698819495037095 0.06363577710867939
    """),
    "float": fit("""
        0.08333333271170187 -0.008333003014975908 0.003940631615387389 -0.003402660669883953
    """),
}

# x**3 (trigamma(x) - 1 / x - 1 / (2 x**2)), in x**-2 for x >= 8
TRIGAMMA = fit("""
    0.16666666666666666 -0.03333333333330606 0.02380952377224063 -0.033333313863325865
    0.07575255585992724 -0.2524033253231284 1.1097610667341908 -4.582615302937364
""")


def _lgamma_positive(x: MathValue) -> tuple[MathValue, MathValue]:
    """As a sum: lgamma(2 + d) and the log of the steps of one from x to 2 + d, or Stirling's
    series."""
    reach = STIRLING_FROM[x.type]
    far = x >= reach + 0.5
    up = round_even(x)  # 2 + the number of steps down
    d = x - up
    product = select(up < 1.0, x * (x + 1.0), select(up < 2.0, x, 1.0))
    for step in range(1, reach - 1):
        product = select(up >= 2.0 + step, product * (x - float(step)), product)
    log_high, log_low = log_parts(select(far, x, product))
    below = up < 2.0
    high, low = two_sum(select(below, -log_high, log_high), d * polynomial(d, NEAR_TWO[x.type]))
    low = low + select(below, -log_low, log_low)

    inverse = 1.0 / x
    tail = fma(inverse, polynomial(inverse * inverse, STIRLING[x.type]), HALF_LOG_2PI_LESS_HALF)
    factor, error = two_sum(log_high, x.like(-1.0))
    a = x - 0.5
    far_high, lost = two_product(a, factor)
    far_low = fma(a, log_low + error, lost) + tail
    far_low = select(far_high < math.inf, far_low, 0.0)
    return select(far, far_high, high), select(far, far_low, low)


def lgamma(x: MathValue) -> MathValue:
    """log(pi / |a sin(pi a)|) - lgamma(a) for x = -a < 0: 1 - x would lose digits of x."""
    negative, a = x < 0.0, abs(x)
    tiny = negative & (a < 2.0**-60)  # log(1 / a), though a sin(pi a) is zero
    high, low = _lgamma_positive(select(tiny, 1.0, a))
    sine, _ = sin_cos_pi(x)
    log_high, log_low = log_parts(select(tiny, a, a * abs(sine) * (1.0 / PI)))
    total, error = two_sum(log_high, high)
    mirrored = select(sine.equals(0.0), math.inf, -(total + (error + (log_low + low))))
    result = select(negative, mirrored, high + low)
    return select(a < math.inf, select(a > 0.0, result, math.inf), a)


def digamma(x: MathValue) -> MathValue:
    """digamma(1 - x) - pi / tan(pi x) for x < 0."""
    negative = x < 0.0
    z = select(negative, 1.0 - x, x)
    reach = STIRLING_FROM[x.type]
    near = z < float(reach)
    # The sum of 1 / (z + i) as one fraction, the largest term last.
    w = select(near, z, 1.0)
    bottom, top = w + (reach - 1.0), w.like(1.0)
    for step in reversed(range(reach - 1)):
        factor = w + float(step) if step else w
        top = fma(top, factor, bottom)
        bottom = bottom * factor
    y = select(near, z + float(reach), z)
    inverse = 1.0 / y
    tail = inverse * fma(inverse, polynomial(inverse * inverse, DIGAMMA[x.type]), 0.5)
    result = log(y) - tail - select(near, top / bottom, 0.0)

    sine, cosine = sin_cos_pi(x)
    mirrored = result - cosine / sine * PI
    pole = negative & sine.equals(0.0)
    return select(pole, math.nan, select(negative, mirrored, result))


def trigamma(x: MathValue) -> MathValue:
    """pi**2 / sin(pi x)**2 - trigamma(1 - x) for x < 0."""
    negative = x < 0.0
    z = select(negative, 1.0 - x, x)
    near = z < 8.0
    # The sum of 1 / (z + i)**2 as one fraction, the largest term last.
    w = select(near, z, 1.0)
    bottom, top = (w + 7.0) * (w + 7.0), w.like(1.0)
    for step in (6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0):
        factor = (w + step) * (w + step) if step else w * w
        top = fma(top, factor, bottom)
        bottom = bottom * factor
    inverse = 1.0 / select(near, z + 8.0, z)
    square = inverse * inverse
    tail = fma(square * inverse, polynomial(square, TRIGAMMA), fma(square, 0.5, inverse))
    result = tail + select(near, top / bottom, 0.0)
    turn = x.like(PI) / sinpi(x)
    return select(negative, turn * turn - result, result)


# Gamma(1), ..., Gamma(171)
FACTORIALS = struct.pack("<171d", *(float(math.factorial(n)) for n in range(171)))


def gamma(x: MathValue) -> MathValue:
    """exp(lgamma(x)); -pi / (a sin(pi a) Gamma(a)) for x = -a < 0."""
    negative, a = x < 0.0, abs(x)
    tiny = a < 2.0**-60
    log_high, log_low = two_sum(*_lgamma_positive(select(tiny, 1.0, a)))
    log_low = select(log_high < 1000.0, log_low, 0.0)
    high, low, first, second = exp_parts(select(negative, -log_high, log_high))
    low = fma(high, select(negative, -log_low, log_low), low)
    sine = sinpi(x)
    factor = select(negative, x.like(PI) / (a * sine), 1.0)
    result = fma(factor, high, factor * low) * first * second
    result = select(negative & sine.equals(0.0), math.nan, result)
    result = select(tiny, 1.0 / x, result)
    inside = (x >= 1.0) & (x < 171.5) & round_even(x).equals(x)
    cell = (select(inside, x, 1.0) + (x.format.magic - 1.0)).bits & 0xFF
    return select(inside, x.body.load_word("vm.factorials", FACTORIALS, cell << 3).as_float, result)
