"""sqrt, cbrt, hypot and pow.

pow needs a logarithm with twice the precision, because an error in y log2(x) is multiplied by up to
1075 (`_log2_sum`). Coefficients are weighted Remez fits (mpmath, 300 bits).

Invariant: special cases are selected after the arithmetic, in the order of the C99 annex F list.
"""

from __future__ import annotations

import math

from tracker.jit.vmath.exponential import EXP2, EXP2_FOR_FLOAT
from tracker.jit.vmath.expression import (
    MathValue,
    at_least,
    at_most,
    copysign,
    fast_two_sum,
    fit,
    fma,
    polynomial,
    round_even,
    select,
    two_product,
)
from tracker.jit.vmath.expression import sqrt as sqrt
from tracker.jit.vmath.logarithm import LOG2_E, split_exponent, unpack_exponent

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# ((log((1 + s) / (1 - s)) / s - 2) / s**2 - 2/3) / s**2, in s**2
LOG_TAIL = fit("""
    0.40000000000002267 0.285714285700942 0.22222222520999407 0.18181784264378892
    0.15386762398828846 0.13256692973196374 0.13197542481394928
""")
# log2(1 + f) / f for a float result, 1 + f in [sqrt(1/2), sqrt(2))
LOG2_FOR_FLOAT = fit("""
    1.442695040866783 -0.7213475207458486 0.48089836250810675 -0.3606736995206611
    0.28853720173048203 -0.24045172809276158 0.2061775116793174 -0.18033585423166026
    0.15876417786117283 -0.14276843113420254 0.14446022311745346 -0.14442225290304514
    0.07954617708901071
""")
# m**(-1/3) to 8 bits on [1/2, 4]
INVERSE_CBRT = fit("""
    1.795254819416188 -1.5034848571233437 1.0271639979395144 -0.38914052839902435
    0.07449815114854132 -0.005619532773706544
""")


def cbrt(x: MathValue) -> MathValue:
    """m * m**(-2/3), from steps of Householder for m**(-1/3) and one of Newton."""
    format = x.format
    fraction, exact = format.fraction, 2.0**format.fraction
    lift = 54 if fraction == 52 else 24  # divisible by three
    tiny = abs(x) < format.least_normal
    word = select(tiny, abs(x) * 2.0**lift, abs(x)).bits
    exponent = ((word >> fraction) | format.pattern(exact)).as_float - (exact + format.bias)
    magic = format.magic + format.bias
    shifted = fma(exponent, 1.0 / 3.0, magic)
    rest = fma(shifted - magic, -3.0, exponent)
    m = ((word & ((1 << fraction) - 1)) | format.pattern(1.0)).as_float
    m = m * select(rest < 0.0, x.like(0.5), select(rest > 0.0, x.like(2.0), 1.0))

    z = polynomial(m, INVERSE_CBRT)
    for series in ((1 / 3, 2 / 9, 14 / 81), (1 / 3, 2 / 9))[: 2 if fraction == 52 else 1]:
        error = fma(-m * z, z * z, 1.0)
        z = fma(z * error, polynomial(error, series), z)
    square = z * z
    root = m * square
    power, lost = two_product(root, root)
    error = fma(power, root, -m) + lost * root
    root = fma(error * (-1.0 / 3.0), square, root)

    scale = (shifted.bits << fraction).as_float * select(tiny, x.like(2.0 ** (-lift // 3)), 1.0)
    ordinary = (abs(x) > 0.0) & (abs(x) < math.inf)
    return select(ordinary, copysign(root * scale, x), x)


# Beyond and below which size operands of hypot are scaled, and by what.
SCALE_DOWN = {"double": (2.0**500, 2.0**-600), "float": (2.0**60, 2.0**-70)}
SCALE_UP = {"double": (2.0**-450, 2.0**600), "float": (2.0**-45, 2.0**100)}


def hypot(x: MathValue, y: MathValue) -> MathValue:
    ax, ay = abs(x), abs(y)
    big, small = select(ax < ay, ay, ax), select(ax < ay, ax, ay)
    (high_end, down), (low_end, up) = SCALE_DOWN[x.type], SCALE_UP[x.type]
    huge, tiny = big > high_end, big < low_end
    scale = select(huge, x.like(down), select(tiny, x.like(up), 1.0))
    back = select(huge, x.like(1 / down), select(tiny, x.like(1 / up), 1.0))
    big, small = big * scale, small * scale
    (first, first_lost), (second, second_lost) = two_product(big, big), two_product(small, small)
    total, error = fast_two_sum(first, second)
    result = sqrt(total + (error + (first_lost + second_lost))) * back
    result = select(x.is_nan() | y.is_nan(), x + y, result)
    return select(ax.equals(math.inf) | ay.equals(math.inf), math.inf, result)


def _log2_sum(x: MathValue) -> tuple[MathValue, MathValue]:
    """log2(x) to 65 bits for finite x > 0."""
    k, f = split_exponent(x)
    bottom = f + 2.0
    rest = f - (bottom - 2.0)
    inverse = 1.0 / bottom
    s = f * inverse
    s_low = (fma(-s, bottom, f) - s * rest) * inverse

    # log(1 + f) = 2 s + s z (2/3 + z LOG_TAIL(z)), z = s**2
    z, z_low = two_product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    slope, slope_low = fast_two_sum(z.like(TWO_THIRDS[0]), z * polynomial(z, LOG_TAIL))
    slope_low = slope_low + TWO_THIRDS[1]
    u, u_low = two_product(z, slope)
    u_low = u_low + fma(z, slope_low, z_low * slope)
    v, v_low = two_product(s, u)
    v_low = v_low + fma(s, u_low, s_low * u)
    high, low = fast_two_sum(s * 2.0, v)
    low = low + fma(s_low, 2.0, v_low)

    scale, scale_low = LOG2_E[x.type]
    product, lost = two_product(high, scale)
    total, error = fast_two_sum(k, product)
    return total, error + (lost + fma(high, scale_low, low * scale))


def _exp2_sum(high: MathValue, low: MathValue) -> MathValue:
    """2**(high + low), infinite and NaN `high` included."""
    low = select(abs(high) < 1100.0, low, 0.0)
    high = at_least(at_most(high, 1100.0), -1100.0)
    magic = high.format.magic + 2 * high.format.bias
    shifted = high + magic
    r = (high - (shifted - magic)) + low
    half = shifted.bits >> 1
    first, second = (half << 52).as_float, ((shifted.bits - half) << 52).as_float
    return polynomial(r, (1.0, *EXP2["double"])) * first * second


def _signed_power(x: MathValue, y: MathValue, magnitude: MathValue) -> MathValue:
    """x**y from |x|**y."""
    whole = round_even(y).equals(y)
    half = y * 0.5
    odd = whole & ~round_even(half).equals(half)
    negative = x.bits < 0
    magnitude = select(abs(x).equals(1.0), 1.0, magnitude)
    result = select(negative & odd, -magnitude, magnitude)
    root_of_negative = (x < 0.0) & (x > -math.inf) & ~whole
    result = select(root_of_negative, math.nan, result)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, result)


def pow(x: MathValue, y: MathValue) -> MathValue:
    if x.type == "float":
        return _signed_power(x, y, _float_power(abs(x), y))
    a = abs(x)
    high, low = _log2_sum(a)
    high = select(a < math.inf, select(a > 0.0, high, -math.inf), a)
    product = y * high
    return _signed_power(x, y, _exp2_sum(product, fma(y, high, -product) + y * low))


def _float_power(a: MathValue, y: MathValue) -> MathValue:
    """a**y of floats, except y = 0: in double, where no float is subnormal. Of zero, infinity and
    NaN, 2**(y inf) by the sign of the logarithm."""
    zero = a.equals(0.0)
    edge = zero | ~(a < math.inf)
    y = select(edge, y * select(zero, math.inf, a), y)
    k, m = unpack_exponent(_widen(a))
    f = m - 1.0
    product = _widen(y) * fma(f, polynomial(f, LOG2_FOR_FLOAT), k)
    power = at_least(at_most(product, 200.0), -200.0)
    magic = power.format.magic + power.format.bias
    shifted = power + magic
    curve = polynomial(power - (shifted - magic), (1.0, *EXP2_FOR_FLOAT))
    result = curve * (shifted.bits << 52).as_float
    return a.body.emit("float", f"fptrunc {result} to float")


def _widen(x: MathValue) -> MathValue:
    return x.body.emit("double", f"fpext {x} to double")
