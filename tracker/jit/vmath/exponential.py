"""exp, and functions of one exp: exp2, expm1, sigmoid, tanh and its derivative.

The reduction is `x = k ln 2 + r` with |r| <= ln 2 / 2 (`_reduce`). Coefficients are weighted Remez
fits (mpmath, 300 bits) rounded to the format.

Invariant: `2**k` is applied last and, where the result may be subnormal, as two exact factors, so
that a result is rounded once.
"""

from __future__ import annotations

from tracker.jit.vmath.expression import (
    Format,
    MathValue,
    at_least,
    at_most,
    copysign,
    divide_sums,
    fast_two_sum,
    fit,
    fma,
    polynomial,
    select,
)

LOG2_E = 1.4426950408889634
LN2 = {
    "double": (0.6931471805599453, 2.3190468138462996e-17),
    "float": (0.6931471824645996, -1.904654323148236e-09),
}
# Where exp is zero or infinite, rounded outwards.
MIN_ARGUMENT = {"double": -746.0, "float": -104.0}
MAX_ARGUMENT = {"double": 712.0, "float": 91.0}
# Where exp(x) (of doubles, a quarter of it) has the exponent of half the least normal number, for
# which `_power_of_two` gives 0.
MIN_HALVED_ARGUMENT = {"double": -707.7, "float": -88.3}

# (exp(r) - 1) / r, the first coefficient being exact: its rounding would show.
EXP = {
    "double": fit("""
        1.0 0.5000000000000012 0.16666666666666718 0.041666666666520816 0.008333333333292888
        0.0013888888945928738 0.00019841269952634638 2.4801490825609626e-05 2.755718113416409e-06
        2.763103133786432e-07 2.5130129430291174e-08
    """),
    "float": fit("""
        1.0 0.5 0.1666651964187622 0.04166622459888458 0.008368799462914467 0.00139492261223495
    """),
}
# (exp(r) - 1 - r) / r**2
EXPM1 = {
    "double": fit("""
        0.5 0.16666666666666677 0.041666666666666706 0.008333333333321657 0.0013888888888865907
        0.0001984126988606211 2.4801587362419605e-05 2.7557244267696497e-06 2.755724119940582e-07
        2.510901895991452e-08 2.0924908887420875e-09
    """),
    "float": fit("""
        0.5 0.1666666716337204 0.0416664257645607 0.008333278819918633 0.0013936588075011969
        0.00019911643175873905
    """),
}
# (2**r - 1) / r for |r| <= 1/2
EXP2 = {
    "double": fit("""
        0.6931471805599453 0.24022650695910133 0.05550410866482175 0.009618129107593458
        0.0013333558146376991 0.00015403530457939449 1.5252733869505134e-05 1.3215434876856542e-06
        1.0178045672292988e-07 7.0738514628129425e-09 4.457500197825348e-10
    """),
    "float": fit("""
        0.6931471824645996 0.24022650718688965 0.055503278970718384 0.009618003852665424
        0.0013400290627032518 0.0001547626598039642
    """),
}
# The same for a float result of arithmetic in double.
EXP2_FOR_FLOAT = fit("""
    0.6931471805461209 0.240226510334346 0.05550410952258882 0.009618041950589046
    0.0013333437103809481 0.00015465734702519793 1.531382502665122e-05
""")
# (tanh(x) / x - 1) / x**2 for floats up to 0.9, in x**2
TANH = fit("""
    -0.3333332229726554 0.13332979081980034 -0.05392936350034337 0.021663749710285722
    -0.008264886168602029 0.0025829414234997345 -0.0004555443440725085
""")


def _reduce(x: MathValue, bias: int) -> tuple[MathValue, MathValue, MathValue]:
    """`r`, its rounding error, and a word whose low bits are `k + bias`."""
    magic = x.format.magic + bias
    high, low = LN2[x.type]
    shifted = fma(x, LOG2_E, magic)
    minus_k = magic - shifted
    # The first step is exact: both terms are multiples of the last bit of `high`.
    near = fma(minus_k, high, x)
    r = fma(minus_k, low, near)
    return r, fma(minus_k, low, near - r), shifted.bits


def _power_of_two(word: MathValue, format: Format) -> MathValue:
    """2**k from a word whose low bits are `k + bias`."""
    return (word << format.fraction).as_float


def _power_of_two_halves(word: MathValue, format: Format) -> tuple[MathValue, MathValue]:
    """Two factors of 2**k, neither subnormal, from a word whose low bits are `k + 2 bias`."""
    half = word >> 1
    return _power_of_two(half, format), _power_of_two(word - half, format)


def exp(x: MathValue) -> MathValue:
    x = at_least(at_most(x, MAX_ARGUMENT[x.type]), MIN_ARGUMENT[x.type])
    r, _, word = _reduce(x, 2 * x.format.bias)
    first, second = _power_of_two_halves(word, x.format)
    return polynomial(r, (1.0, *EXP[x.body.precision])) * first * second


def _exp_normal(x: MathValue) -> MathValue:
    """exp(x), where 2**k is neither subnormal nor infinite."""
    r, _, word = _reduce(x, x.format.bias)
    return polynomial(r, (1.0, *EXP[x.body.precision])) * _power_of_two(word, x.format)


def exp2(x: MathValue) -> MathValue:
    limit = 1.5 * x.format.bias
    x = at_least(at_most(x, limit), -limit)
    magic = x.format.magic + 2 * x.format.bias
    shifted = x + magic
    first, second = _power_of_two_halves(shifted.bits, x.format)
    return polynomial(x - (shifted - magic), (1.0, *EXP2[x.body.precision])) * first * second


def exp_parts(x: MathValue, exponent: int = 0) -> tuple[MathValue, MathValue, MathValue, MathValue]:
    """exp(x) * 2**exponent as `(high + low) * first * second`, the last two powers of two."""
    x = at_least(at_most(x, MAX_ARGUMENT[x.type]), MIN_ARGUMENT[x.type])
    r, _, word = _reduce(x, 2 * x.format.bias + exponent)
    slope = polynomial(r, EXP[x.body.precision])
    high = fma(r, slope, 1.0)
    return high, fma(r, slope, 1.0 - high), *_power_of_two_halves(word, x.format)


def _expm1_parts(x: MathValue, exponent: int, rising: bool) -> tuple[MathValue, MathValue]:
    """(exp(x) - 1) * 2**exponent as a sum; x is clamped, so that 2**(k + exponent) is normal or 0.

    The sum is exact for x > 0 if `rising`, else for x < 0: there the other term is the larger one.
    """
    scale, near, curve = _expm1_terms(x, exponent)
    one = x.like(-(2.0**exponent))
    whole, slip = fast_two_sum(scale, one) if rising else fast_two_sum(one, scale)
    # `near` is exact, and `whole` is zero or the larger: the sum loses nothing.
    high, low = fast_two_sum(whole, near)
    return high, fma(scale, curve, low + slip)


def _expm1_terms(x: MathValue, exponent: int) -> tuple[MathValue, MathValue, MathValue]:
    """`scale`, a power of two, `near` and `curve`: exp(x) * 2**exponent is
    scale + near + scale * curve."""
    r, lost, word = _reduce(x, x.format.bias + exponent)
    scale = _power_of_two(word, x.format)
    square = r * r
    base = fma(square, 0.5, lost)
    curve = fma(square * r, polynomial(r, EXPM1[x.body.precision][1:]), base)
    return scale, scale * r, curve


def expm1(x: MathValue) -> MathValue:
    # One factor must hold 2**(k - 1), hence a lower limit than for exp; both overflow.
    clamped = at_least(at_most(x, MAX_ARGUMENT[x.type] - 2.0), -40.0)
    high, low = _expm1_parts(clamped, -1, rising=True)
    return select(abs(x) < 2.0 ** -(x.format.fraction + 2), x, (high + low) * 2.0)


def _minus_twice_abs(x: MathValue) -> MathValue:
    return at_least(abs(x) * -2.0, MIN_HALVED_ARGUMENT[x.type])


def _tanh_parts(x: MathValue) -> tuple[MathValue, MathValue, MathValue, MathValue]:
    """n / 4 and (2 + n) / 4, each as a sum, for n = exp(-2 |x|) - 1."""
    high, low = _expm1_parts(_minus_twice_abs(x), -2, rising=False)
    most, rest = fast_two_sum(x.like(0.5), high)  # computed before `low`
    bottom, lost = fast_two_sum(most, low)
    return high, low, bottom, lost + rest


def tanh(x: MathValue) -> MathValue:
    """-n / (2 + n) for n = exp(-2 |x|) - 1. Of floats, a fit around zero, which is shorter than the
    arithmetic that keeps the digits of n; further out 1 - 2 e / (1 + e) for e = exp(-2 |x|)."""
    if x.type == "float":
        a = abs(x)
        square = x * x
        near = fma(a * square, polynomial(square, TANH), a)
        e = _exp_normal(_minus_twice_abs(x))
        far = fma(-e, 2.0 / (e + 1.0), 1.0)
        return copysign(select(a < 0.9, near, far), x)
    return copysign(divide_sums(*_tanh_parts(x)), x)


def sech_squared(x: MathValue) -> MathValue:
    """4 e / (1 + e)**2 for e = exp(-2 |x|); LLVM merges the common part with a tanh(x) beside it.
    The result is 0 beyond its range."""
    down = _minus_twice_abs(x)
    if x.type == "float":
        e = _exp_normal(down)
        double = 2.0 / (e + 1.0)
        return e * (double * double)
    scale, near, curve = _expm1_terms(down, -2)
    quarter = scale + fma(scale, curve, near)
    inverse = 1.0 / _tanh_parts(x)[2]
    return quarter * (inverse * inverse)


def sigmoid(x: MathValue) -> MathValue:
    """exp(-|x|) is `(high + low) * scale`; for x < 0 the scale is applied after the division."""
    high, low, first, second = exp_parts(-abs(x))
    scale = first * second
    bottom, rest = fast_two_sum(x.like(1.0), high * scale)
    negative = x < 0.0
    result = divide_sums(
        select(negative, high, 1.0),
        select(negative, low, 0.0),
        bottom,
        fma(low, scale, rest),
    )
    return result * select(negative, first, 1.0) * select(negative, second, 1.0)
