"""log, log2, log10, log1p, softplus and logaddexp.

The reduction is `x = 2**k (1 + f)` with 1 + f in [sqrt(1/2), sqrt(2)), then a series in s = f / (2
+ f). Coefficients are a weighted Remez fit (mpmath, 300 bits) rounded to the format.

Invariant: `f` is exact and the leading term of the result, so that log keeps its relative accuracy
around one.
"""

from __future__ import annotations

import math

from tracker.jit.vmath.exponential import LN2, exp_parts
from tracker.jit.vmath.expression import (
    MathValue,
    fast_two_sum,
    fit,
    fma,
    polynomial,
    select,
    two_product,
    two_sum,
)

# (log((1 + s) / (1 - s)) / s - 2) / s**2, in s**2
LOG = {
    "double": fit("""
        0.6666666666666735 0.39999999999412744 0.2857142874291909 0.2222219850775218
        0.18183568288126123 0.15313935367450443 0.14797233251973427
    """),
    "float": fit("""
        0.6666666269302368 0.4000033736228943 0.28537237644195557 0.23583635687828064
    """),
}
LOG2_E = {
    "double": (1.4426950408889634, 2.0355273740931033e-17),
    "float": (1.4426950216293335, 1.925963033500011e-08),
}
LOG10_E = {
    "double": (0.4342944819032518, 1.098319650216765e-17),
    "float": (0.4342944920063019, -1.0103049952192578e-08),
}
# The high part is short, so that its product with an exponent is exact.
LOG10_2 = {
    "double": (0.30102999566383914, 1.42050232272661e-13),
    "float": (0.301025390625, 4.605039066518657e-06),
}


def unpack_exponent(x: MathValue, lift: MathValue | float = 0.0) -> tuple[MathValue, MathValue]:
    """Normal x > 0 as `k - lift` and `m` in [sqrt(1/2), sqrt(2)) with x = 2**k m."""
    format = x.format
    lowest = format.pattern(math.sqrt(0.5))
    word = x.bits + (format.pattern(1.0) - lowest)
    mantissa = (word & ((1 << format.fraction) - 1)) + lowest
    # An exponent below 2**52 becomes a float by being put into the low bits of 2**52.
    exact = 2.0**format.fraction
    exponent = ((word >> format.fraction) | format.pattern(exact)).as_float
    return exponent - (x.like(lift) + (exact + format.bias)), mantissa.as_float


def split_exponent(x: MathValue) -> tuple[MathValue, MathValue]:
    """`k` and `f` for every finite x > 0, subnormals included."""
    lift = x.format.fraction + 2
    tiny = x < x.format.least_normal
    k, m = unpack_exponent(select(tiny, x * 2.0**lift, x), select(tiny, x.like(lift), 0.0))
    return k, m - 1.0


def _log1p_correction(f: MathValue) -> MathValue:
    """f - log(1 + f), which is of the order of f**2 / 2."""
    s = f / (f + 2.0)
    half = f * f * 0.5
    z = s * s
    return fma(-s, fma(z, polynomial(z, LOG[f.body.precision]), half), half)


def _special_cases(x: MathValue, result: MathValue, zero: float = 0.0) -> MathValue:
    """The values of a logarithm at infinity, NaN, at its pole `zero` and below it."""
    result = select(x < math.inf, result, x)
    return select(x > zero, result, select(x.equals(zero), x.like(-math.inf), math.nan))


def log(x: MathValue) -> MathValue:
    k, f = split_exponent(x)
    high, low = LN2[x.type]
    return _special_cases(x, fma(k, high, f - (_log1p_correction(f) - k * low)))


def log_parts(x: MathValue) -> tuple[MathValue, MathValue]:
    """log(x) as a sum, for finite x > 0."""
    k, f = split_exponent(x)
    product, lost = two_product(k, LN2[x.type][0])
    high, error = fast_two_sum(product, f)
    return fast_two_sum(high, error + (fma(k, LN2[x.type][1], lost) - _log1p_correction(f)))


def _in_base(f: MathValue, factors: tuple[float, float]) -> tuple[MathValue, MathValue]:
    """log(1 + f) in another base, as a sum."""
    high, low = fast_two_sum(f, -_log1p_correction(f))
    product = high * factors[0]
    error = fma(high, factors[0], -product)
    return product, error + fma(low, factors[0], high * factors[1])


def log2(x: MathValue) -> MathValue:
    k, f = split_exponent(x)
    high, low = _in_base(f, LOG2_E[x.type])
    total, error = fast_two_sum(k, high)
    return _special_cases(x, total + (error + low))


def log10(x: MathValue) -> MathValue:
    k, f = split_exponent(x)
    high, low = _in_base(f, LOG10_E[x.type])
    total, error = fast_two_sum(k * LOG10_2[x.type][0], high)
    return _special_cases(x, total + (error + fma(k, LOG10_2[x.type][1], low)))


def log_sum(x: MathValue, rest: MathValue | float = 0.0) -> MathValue:
    """log(1 + x + rest) for x > -1, finite, and `rest` below the last bit of 1 + x."""
    whole, error = two_sum(x.like(1.0), x)
    error = error + rest
    k, m = unpack_exponent(whole)
    near_one = k.equals(0.0)
    f = select(near_one, x, m - 1.0)
    # d log(1 + x) = dx / (1 + x): a rough inverse will do for so small a `dx`.
    scale = (m.bits - whole.bits + x.format.pattern(1.0)).as_float
    scale = select(k > x.format.fraction + 2.0, 0.0, scale)
    rest = select(near_one, x.like(rest), error * scale) * fma(f, f - 1.0, 1.0)
    high, low = LN2[x.type]
    return fma(k, high, f - (_log1p_correction(f) - fma(k, low, rest)))


def log1p(x: MathValue) -> MathValue:
    tiny = abs(x) < 2.0 ** -(x.format.fraction + 2)
    return _special_cases(x, select(tiny, x, log_sum(x)), -1.0)


def _log1p_exp_minus(x: MathValue) -> tuple[MathValue, MathValue]:
    """log(1 + exp(-x)) for x >= 0, as a sum."""
    high, low, first, second = exp_parts(-x)
    power = high * first * second
    rest = low * first * second
    doubled = power > math.sqrt(2.0) - 1.0
    f = select(doubled, power * 0.5 - 0.5, power)
    rest = select(doubled, rest * 0.5, rest) * fma(f, f - 1.0, 1.0)
    base_high, base_low = LN2[x.type]
    tail = f - (_log1p_correction(f) - (rest + select(doubled, x.like(base_low), 0.0)))
    return tail, select(doubled, x.like(base_high), 0.0)


def softplus(x: MathValue) -> MathValue:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    tail, base = _log1p_exp_minus(abs(x))
    return select(x > 0.0, x, 0.0) + (tail + base)


def logaddexp(x: MathValue, y: MathValue) -> MathValue:
    """max(x, y) + log(1 + exp(-|x - y|)); equal operands may be infinite."""
    top = select(x < y, y, x)
    gap = select(x.equals(y), 0.0, abs(x - y))
    tail, base = _log1p_exp_minus(gap)
    result = top + (tail + base)
    return select(gap.is_nan(), gap, result)
