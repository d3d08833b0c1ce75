"""Modified Bessel functions of the first kind, orders zero and one, also scaled by exp(-|x|).

Even series for |x| <= 8, fits of sqrt(x) exp(-x) I(x) beyond. Coefficients are Remez fits (mpmath,
200 bits) rounded to double.

Invariant: the exponential is exp(x - 8), because I(x) is finite a little further than exp(x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracker.jit.vmath.exponential import exp_parts
from tracker.jit.vmath.expression import (
    MathValue,
    at_most,
    copysign,
    fit,
    fma,
    polynomial,
    select,
    sqrt,
)

SPLIT = 8.0
OVERFLOW = 720.0  # beyond, the functions are not finite
# (I0(x) - 1) / z, in z = x**2 / 4, for x <= 8
NEAR_0 = fit("""
    0.9999999999999981 0.25000000000001593 0.02777777777773203 0.0017361111111741895
    6.944444439494594e-05 1.9290123699750835e-06 3.936759098796901e-08 6.151204983589169e-10
    7.59378208486442e-12 7.597107930211318e-14 6.252531963557585e-16 4.48239287262279e-18
    2.1583960787758265e-20 2.1236850298484885e-22
""")
# (2 I1(x) / x - 1) / z, in the same
NEAR_1 = fit("""
    0.4999999999999997 0.08333333333333524 0.006944444444439517 0.0003472222222284268
    1.1574074069565095e-05 2.7557319431248635e-07 4.920949224316689e-09 6.834666134914939e-11
    7.593855315848816e-13 6.905847334477759e-15 5.2139543492788904e-17 3.4349713040529717e-19
    1.5699662955964891e-21 1.388586651994483e-23
""")
# sqrt(x) exp(-x) I0(x), in 16 / x - 1, for x >= 8
FAR_0 = fit("""
    0.4021765094450081 0.0033605519836678453 0.0001362160743901712 1.1143033792370345e-05
    1.4838476521198356e-06 2.9735982092630707e-07 8.872054715588421e-08 3.932630380206293e-08
    2.1564622554611376e-08 7.55159159593454e-09 -6.841729075277332e-09 -1.3396180676643498e-08
    -5.060258206042825e-09 7.519013030054825e-09 6.601543702852145e-09 -3.4480184903941577e-09
    -4.625260254874133e-09 1.4549112783108407e-09 2.2339408095337794e-09 -5.255918248302496e-10
    -6.789322571163724e-10 1.3430027174365202e-10 9.648848243670022e-11 -1.7029527678936974e-11
""")
# sqrt(x) exp(-x) I1(x), in the same
FAR_1 = fit("""
    0.38939845902587233 -0.009749577193235725 -0.00021923576383205771 -1.5038547201594592e-05
    -1.8349102225872334e-06 -3.4838554943537256e-07 -1.0001116400513923e-07 -4.312949740783308e-08
    -2.33908453661801e-08 -8.425629011702968e-09 6.832402662721342e-09 1.40255179607148e-08
    5.615869460318382e-09 -7.619535513824958e-09 -7.0258611093134986e-09 3.3869588539225816e-09
    4.861011858982413e-09 -1.394730589634383e-09 -2.334559908312039e-09 4.986223491194211e-10
    7.07518671776228e-10 -1.2771463336366155e-10 -1.0039791169400717e-10 1.6354107714548672e-11
""")


def _near(a: MathValue, coefficients: Sequence[float]) -> MathValue:
    """I0(a), or 2 I1(a) / a, for a <= 8."""
    half = at_most(a, SPLIT) * 0.5
    z = half * half
    return fma(z, polynomial(z, coefficients), 1.0)


def _far(a: MathValue, coefficients: Sequence[float]) -> MathValue:
    """exp(-a) I(a) for a >= 8."""
    return polynomial(2.0 * SPLIT / a - 1.0, coefficients) / sqrt(a)


def _scaled(a: MathValue, near: MathValue, far: MathValue) -> MathValue:
    high, low, first, second = exp_parts(-at_most(a, SPLIT))
    return select(a < SPLIT, fma(near, high, near * low) * first * second, far)


def _unscaled(a: MathValue, near: MathValue, far: MathValue) -> MathValue:
    """I(a), for a clamped at `OVERFLOW`."""
    high, low, first, second = exp_parts(a - SPLIT)
    grown = fma(far, high, far * low) * math.exp(SPLIT)
    return select(a < SPLIT, near, grown * first * second)


def i0(x: MathValue) -> MathValue:
    a = at_most(abs(x), OVERFLOW)
    return _unscaled(a, _near(a, NEAR_0), _far(a, FAR_0))


def i0e(x: MathValue) -> MathValue:
    a = abs(x)
    return _scaled(a, _near(a, NEAR_0), _far(a, FAR_0))


def i1(x: MathValue) -> MathValue:
    a = at_most(abs(x), OVERFLOW)
    return copysign(_unscaled(a, a * 0.5 * _near(a, NEAR_1), _far(a, FAR_1)), x)


def i1e(x: MathValue) -> MathValue:
    a = abs(x)
    return copysign(_scaled(a, a * 0.5 * _near(a, NEAR_1), _far(a, FAR_1)), x)
