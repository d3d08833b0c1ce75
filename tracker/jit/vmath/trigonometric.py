"""sin, cos and tan: near zero in both formats, of every argument in double.

An angle is reduced to |r| <= pi / 4, in a short form for |x| <= NEAR_LIMIT (`_reduce`) and in a
long form for every x (`_payne_hanek`). Coefficients are weighted Remez fits (mpmath, 300 bits)
rounded to double.

Invariant: an angle is reduced to a sum of two numbers, because sin(x) near a multiple of pi is as
small as r and must be as accurate.
"""

from __future__ import annotations

from tracker.jit.vmath.expression import (
    MathValue,
    copysign,
    divide_sums,
    fast_two_sum,
    fit,
    fma,
    polynomial,
    round_even,
    select,
    two_product,
    two_sum,
)

# The bound of the short reduction: the quadrant is exact, and so is x minus its multiple of the
# first part of pi / 2.
NEAR_LIMIT = {"double": 2.0**40, "float": 2.0**17}

TWO_OVER_PI = 0.6366197723675814
# pi / 2 as a sum.
HALF_PI = {
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100059257e-15),
}

# The bits of 2 / pi after the point, the last byte first: a load finds a chunk's low byte first.
_BITS = bytes.fromhex(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D"
)[::-1] + bytes(2)
# From the end of the table back to the low byte of the first 48 bits.
_MARGIN = 2 + 6

# (sin(r) / r - 1) / r**2, in r**2
SIN = {
    "double": fit("""
        -0.16666666666666632 0.008333333333322339 -0.0001984126982974062 2.755731366636655e-06
        -2.505075379637172e-08 1.58965288000911e-10
    """),
    "float": fit("""
        -0.16666666641432876 0.008333329362294759 -0.00019839327044043981 2.71823598152341e-06
    """),
}
# (cos(r) - 1 + r**2 / 2) / r**4, in r**2
COS = {
    "double": fit("""
        0.0416666666666666 -0.0013888888888873995 2.4801587289396454e-05 -2.755731432616429e-07
        2.0875719546391087e-09 -1.135944689170138e-11
    """),
    "float": (
        0.041666646728499415,
        -0.0013887360534250968,
        2.443762999538175e-05,
    ),
}

# r, its tail unless the result is a float, and a word whose low two bits are the quadrant.
ReducedAngle = tuple[MathValue, MathValue | None, MathValue]


def _reduce(x: MathValue) -> ReducedAngle:
    first, second, third = HALF_PI[x.type]
    shifted = fma(x, TWO_OVER_PI, x.format.magic)
    minus_k = x.format.magic - shifted
    # Exact: x and k times the first part are multiples of the last bit of that part.
    near = fma(minus_k, first, x)
    product, error = two_product(minus_k, second)
    r, tail = two_sum(near, product)
    return r, tail + fma(minus_k, third, error), shifted.bits


def _payne_hanek(x: MathValue) -> ReducedAngle:
    """Payne and Hanek: multiply x by the bits of 2 / pi that matter for its exponent.

    With x = M * 2**e, bits of weight above 2**(2 - e) only add multiples of four quadrants. The
    next bits are read as 48-bit integers, whose products with x are kept exactly: 192 bits, or 96
    for a float, whose M has 24 bits and comes no closer to a multiple of pi / 2 than 2**-31.
    """
    body, magic, short = x.body, x.format.magic, x.body.precision == "float"
    exponent = (x.bits >> 52) & 0x7FF
    dropped = exponent - ((1046 if short else 1075) + 2)
    dropped = select(dropped < 0, exponent.like(0), dropped) & -8
    place = exponent.like(len(_BITS) - _MARGIN) - (dropped >> 3)
    scaled = x * ((exponent.like(1023 - 48) - dropped) << 52).as_float
    parts = []
    for index in range(2 if short else 4):
        word = body.load_word("vm.two_over_pi", _BITS, place - 6 * index)
        chunk = ((word & (2**48 - 1)) | x.format.pattern(2.0**52)).as_float - 2.0**52
        parts.append(two_product(scaled * 2.0 ** (-48 * index), chunk))
    (first, first_error), (second, second_error) = parts[:2]

    def turn(part: MathValue) -> MathValue:
        return fma(round_even(part * 0.25), -4.0, part)

    turns, lost = two_sum(turn(first), turn(first_error))
    if short:
        shifted = turns + magic
        h = (turns - (shifted - magic)) + (second + lost)
        return h * HALF_PI["double"][0], None, shifted.bits
    (third, third_error), (fourth, _) = parts[2:]
    turns, lost_too = two_sum(turns, turn(second))
    shifted = turns + magic
    h, low = turns - (shifted - magic), third_error + fourth
    for term in (third, second_error, lost, lost_too):
        h, error = two_sum(h, term)
        low = low + error
    h, low = two_sum(h, low)
    quarter, rest, _ = HALF_PI["double"]
    r, error = two_product(h, quarter)
    return r, error + fma(h, rest, low * quarter), shifted.bits


def _sin(r: MathValue, tail: MathValue | None) -> tuple[MathValue, MathValue]:
    square = r * r
    cube = square * r
    curve = polynomial(square, SIN[r.body.precision])
    if tail is None:
        return r, cube * curve
    return r, fma(cube, curve, fma(square * tail, -0.5, tail))


def _cos(r: MathValue, tail: MathValue | None) -> tuple[MathValue, MathValue]:
    square = r * r
    curve = polynomial(square, COS[r.body.precision])
    if tail is None:
        return r.like(1.0), square * fma(square, curve, -0.5)
    half = square * 0.5
    whole = 1.0 - half
    rest = (1.0 - whole) - half
    return whole, fma(square * square, curve, fma(-r, tail, rest))


def _sin_of_angle(angle: ReducedAngle, advance: int) -> MathValue:
    """sin(x + advance * pi / 2)."""
    r, tail, word = angle
    quadrant = word + advance
    odd = (quadrant & 1).equals(1)
    sine, cosine = _sin(r, tail), _cos(r, tail)
    result = select(odd, cosine[0], sine[0]) + select(odd, cosine[1], sine[1])
    return (result.bits ^ ((quadrant & 2) << (result.format.size - 2))).as_float


def _tan_of_angle(angle: ReducedAngle) -> MathValue:
    """tan; its division needs both sums for two ulps."""
    r, tail, word = angle
    odd = (word & 1).equals(1)
    sine, cosine = _sin(r, tail), _cos(r, tail)
    if tail is None:
        sines, cosines = sine[0] + sine[1], cosine[0] + cosine[1]
        result = select(odd, cosines, sines) / select(odd, sines, cosines)
    else:
        sine, cosine = fast_two_sum(*sine), fast_two_sum(*cosine)
        top = [select(odd, c, s) for s, c in zip(sine, cosine, strict=True)]
        bottom = [select(odd, s, c) for s, c in zip(sine, cosine, strict=True)]
        result = divide_sums(top[0], top[1], bottom[0], bottom[1])
    return (result.bits ^ (word << (result.format.size - 1))).as_float


def _keep_tiny(x: MathValue, result: MathValue) -> MathValue:
    """Tiny arguments, -0.0 among them, are their own sine."""
    return select(abs(x) < 2.0**-28, x, result)


def sin(x: MathValue) -> MathValue:
    return _keep_tiny(x, _sin_of_angle(_payne_hanek(x), 0))


def cos(x: MathValue) -> MathValue:
    return _sin_of_angle(_payne_hanek(x), 1)


def tan(x: MathValue) -> MathValue:
    return _keep_tiny(x, _tan_of_angle(_payne_hanek(x)))


def sin_near(x: MathValue) -> MathValue:
    return _keep_tiny(x, _sin_of_angle(_reduce(x), 0))


def cos_near(x: MathValue) -> MathValue:
    return _sin_of_angle(_reduce(x), 1)


def tan_near(x: MathValue) -> MathValue:
    return _keep_tiny(x, _tan_of_angle(_reduce(x)))


def sin_cos_pi(x: MathValue) -> tuple[MathValue, MathValue]:
    """sin(pi x) and cos(pi x), both with the sign of cos(pi n) for the integer n next to x."""
    near = x - round_even(x)
    quarter = round_even(near * 2.0)
    turn = fma(quarter, -0.5, near)
    first, second, _ = HALF_PI[x.type]
    r, tail = two_product(turn, 2.0 * first)
    tail = fma(turn, 2.0 * second, tail)
    rest = None if x.body.precision != x.type else tail
    sine, cosine = (high + low for high, low in (_sin(r, rest), _cos(r, rest)))
    beside = quarter.equals(0.0)
    return select(beside, sine, quarter * cosine), select(beside, cosine, -quarter * sine)


def _restore_sign(x: MathValue, part: MathValue) -> MathValue:
    """A result of `sin_cos_pi` with its own sign: that of cos(pi n) is taken back."""
    half = round_even(x) * 0.5
    return select(abs(half - round_even(half)).equals(0.5), -part, part)


def sinpi(x: MathValue) -> MathValue:
    """Where the error of the product with pi may be subnormal, a multiple of x is used."""
    first, second, _ = HALF_PI[x.type]
    lifted = x * 2.0**64
    tiny = fma(lifted, 2.0 * first, lifted * (2.0 * second)) * 2.0**-64
    result = select(abs(x) < 2.0**-60, tiny, _restore_sign(x, sin_cos_pi(x)[0]))
    return select(result.equals(0.0), copysign(result, x), result)


def cospi(x: MathValue) -> MathValue:
    result = _restore_sign(x, sin_cos_pi(x)[1])
    return select(result.equals(0.0), 0.0, result)
