"""asin, acos, atan and atan2.

Fits of atan on [0, sqrt(2) - 1] and asin on [0, 1/2], and the constants that move other arguments
there. Coefficients are weighted Remez fits (mpmath, 300 bits).

Invariant: a constant that is added to a small angle is a sum of two numbers.
"""

from __future__ import annotations

import math

from tracker.jit.vmath.expression import MathValue, copysign, fit, fma, polynomial, select, sqrt

# pi / 4, as a sum; twice and four times of it are exact.
QUARTER_PI = {
    "double": (0.7853981633974483, 3.061616997868383e-17),
    "float": (0.7853981852531433, -2.1855694143368964e-08),
}
TAN_PI_8 = math.sqrt(2.0) - 1.0
# Beyond and below which size operands of atan2 are scaled, and by what.
SCALE_DOWN = {"double": (2.0**1000, 2.0**-60), "float": (2.0**110, 2.0**-20)}
SCALE_UP = {"double": (2.0**-900, 2.0**100), "float": (2.0**-90, 2.0**60)}

# (atan(t) / t - 1) / t**2, in t**2
ATAN = {
    "double": fit("""
        -0.333333333333332 0.19999999999953932 -0.1428571428023047 0.11111110785085114
        -0.09090897801776837 0.07692060942326966 -0.06663111616711663 0.05847939008635331
        -0.05039504163564243 0.038069012780931666 -0.017911428764847262
    """),
    "float": fit("""
        -0.3333333251279588 0.1999990495873264 -0.14282033535739658 0.11044964699806764
        -0.08477573009987233 0.04746348356463166
    """),
}
# (asin(t) / t - 1) / t**2, in t**2
ASIN = {
    "double": fit("""
        0.16666666666665383 0.0750000000034324 0.04464285682324549 0.030381959344543154
        0.022371753114509504 0.01735977867674141 0.013884509602258616 0.012173955695283047
        0.006507529085152691 0.019584077784134547 -0.01631168113626158 0.0319721296418939
    """),
    "float": fit("""
        0.16666659865686928 0.0750051138763858 0.04451560573228462 0.03181879182564838
        0.01439728304286134 0.037573844763740344
    """),
}


def _inverse_series(
    t: MathValue, coefficients: dict[str, tuple[float, ...]], square: MathValue
) -> MathValue:
    """The inverse function of t, minus t."""
    return t * (square * polynomial(square, coefficients[t.body.precision]))


def _eighths_of_turn(x: MathValue, eighths: int) -> tuple[float, float]:
    """So many eighths of a turn, as a sum, in the format of the computation."""
    high, low = QUARTER_PI[x.type]
    return high * eighths, low * eighths


def atan(x: MathValue) -> MathValue:
    """atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 + atan(-1 / a)."""
    a = abs(x)
    middle, far = a > TAN_PI_8, a > 1.0 / TAN_PI_8
    top = select(far, -1.0, select(middle, a - 1.0, a))
    bottom = select(far, a, select(middle, a + 1.0, 1.0))
    high, low = (
        select(far, top.like(half), select(middle, top.like(quarter), 0.0))
        for half, quarter in zip(_eighths_of_turn(x, 2), _eighths_of_turn(x, 1), strict=True)
    )
    t = top / bottom
    return copysign(high + (t + (_inverse_series(t, ATAN, t * t) + low)), x)


def atan2(y: MathValue, x: MathValue) -> MathValue:
    """n pi/4 +- atan(t), where n counts the reflections that make t small."""
    ax, ay = abs(x), abs(y)
    steep = ay > ax
    big, small = select(steep, ay, ax), select(steep, ax, ay)
    (high_end, down), (low_end, up) = SCALE_DOWN[x.type], SCALE_UP[x.type]
    scale = select(big > high_end, x.like(down), select(big < low_end, x.like(up), 1.0))
    # Of infinities only their equality matters, and 0 / 0 is 0.
    infinite = big.equals(math.inf)
    small = select(infinite, select(small.equals(math.inf), x.like(1.0), 0.0), small * scale)
    big = select(infinite, 1.0, select(big.equals(0.0), 1.0, big * scale))
    middle = small > big * TAN_PI_8
    t = select(middle, small - big, small) / select(middle, small + big, big)

    # Each mirror image replaces n by m - n and t by -t.
    behind = x.bits < 0
    count = select(middle, x.like(1.0), 0.0)
    count = select(steep, 2.0 - count, count)
    count = select(behind, 4.0 - count, count)
    t = select(steep, -t, t)
    t = select(behind, -t, t)
    quarter, rest = _eighths_of_turn(x, 1)
    high = count * quarter
    low = fma(count, quarter, -high) + count * rest
    result = copysign(high + (t + (_inverse_series(t, ATAN, t * t) + low)), y)
    either = x + y
    return select(x.is_nan() | y.is_nan(), either, result)


def asin(x: MathValue) -> MathValue:
    """asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) for a > 1/2."""
    a = abs(x)
    far = a > 0.5
    square = select(far, fma(a, -0.5, 0.5), a * a)
    t = select(far, sqrt(square), a)
    arc = _inverse_series(t, ASIN, square)
    half, rest = _eighths_of_turn(x, 2)
    corner = half - (t * 2.0 - fma(arc, -2.0, rest))
    return copysign(select(far, corner, t + arc), x)


def acos(x: MathValue) -> MathValue:
    """2 asin(sqrt((1 - x) / 2)) for x > 1/2, its mirror image below -1/2, else pi/2 - asin(x)."""
    a = abs(x)
    far, left = a > 0.5, x < 0.0
    square = select(far, fma(a, -0.5, 0.5), a * a)
    t = select(far, sqrt(square), x)
    arc = _inverse_series(t, ASIN, square)
    half, rest = _eighths_of_turn(x, 2)
    middle = half - (t - (rest - arc))
    corner = (t + arc) * 2.0
    whole, little = _eighths_of_turn(x, 4)
    mirror = whole - (t * 2.0 - fma(arc, -2.0, little))
    return select(far, select(left, mirror, corner), middle)
