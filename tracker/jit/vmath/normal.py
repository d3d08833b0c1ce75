"""The normal distribution: its function, the logarithm of that, quantiles; erfcx.

A fit of (a + 1/2) exp(a**2) erfc(a) for all a >= 0, and fits of the inverse of erf. Coefficients
are Remez fits (mpmath, 200 bits). Quantiles are functions of w = -log(1 - y**2) (M. Giles,
"Approximating the erfinv function", 2010): each caller knows 1 - y**2 without cancellation.
"""

from __future__ import annotations

import math

from tracker.jit.vmath.erf import erf_near
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
    two_product,
)
from tracker.jit.vmath.logarithm import log, log1p

HALF_ROOT = math.sqrt(0.5)
# Where the normal distribution function is zero, and where exp(x**2) is infinite.
UNDERFLOW = {"double": 40.0, "float": 15.0}
EXP_SQUARE_MAX = {"double": 27.0, "float": 10.0}
# (a + 1/2) exp(a**2) erfc(a), in (a - 4) / (a + 4)
ERFCX = {
    "double": fit("""
        0.6164975593127763 -0.06981055842028104 0.007689826051305486 0.03404852712732594
        -0.050519533017942056 0.04686641749976935 -0.03316518291001737 0.018583757760633254
        -0.008098866991775441 0.0025159850513126916 -0.00037888684889289916 -9.962864391715049e-05
        7.531153576599567e-05 -1.2198690055543111e-05 -5.6125280835206444e-06 2.8529907399543745e-06
        1.489805695242862e-07 -4.10201528847809e-07 3.559537561118773e-08 5.292867140423555e-08
        -8.193435712280033e-09 -6.0778722697828165e-09 7.88232265442787e-10 4.4908040511763295e-10
    """),
    "float": fit("""
        0.6164975301153969 -0.06981054380243694 0.007691938148569239 0.03404803904926364
        -0.05054432084198722 0.04687064281779134 -0.03305826454373774 0.01856849692766562
        -0.00830954746530406 0.0025432757271952665 -0.0001825688391157307 -0.000125120465612983
    """),
}
# erfinv(y) / y: in w - 3.125, for w <= 6.25
ERFINV_NEAR = fit("""
    1.6536545626831027 0.24015818242558826 -0.006033670871427753 -0.0007407025341539558
    0.00018673420802425576 -1.3882523395789781e-05 -1.3654691844342663e-06 4.234788190760514e-07
    -2.9070382775139717e-08 -4.112661977078501e-09 1.0512183984888814e-09 -5.4142390154599795e-11
    -1.297695829783944e-11 2.6303546031959713e-12 -8.117008446570105e-14 -3.9989781402080665e-14
    6.5946996547083216e-15 -4.2865493190907e-17 -1.3003904123388615e-16 1.5759783510319175e-17
    1.1444101314210203e-18 -3.575505526329567e-19 -1.0090512745287614e-21 3.3757697497987433e-21
""")
# the same in sqrt(w) - 3.25, for w <= 16
ERFINV_MIDDLE = fit("""
    3.0838856104922208 1.0052589676941657 0.005370914553570898 -0.0037512085082630213
    0.002491442097018743 -0.0016882755342495191 0.0009532893630689132 -0.00035503783085775455
    2.4031263181808443e-05 6.828724900907747e-05 -4.7319015786549116e-05 1.2464432270899939e-05
    2.9258247132645163e-06 -3.9840751685607665e-06 1.4985451383017508e-06 -3.026896547148203e-08
    -2.7118588873816443e-07 1.3394468106567598e-07 6.340256273411691e-10 -1.6188233503766212e-08
""")
# erfinv(y) / (y s), in (s - 6) / (s + 6), for s = sqrt(w) in [4, 9]
ERFINV_FAR = fit("""
    0.9766521906577075 0.06590586288340215 -0.0772540218730466 0.053543469309587886
    -0.01504092017537255 -0.031807767555885595 0.08011809702925334 -0.1252759165504821
    0.16344016400131875 -0.19426374165904672 0.23471144097543187 -0.4344790965707511
    1.9866336989681896 -12.203320150011853 59.83893043211062 -243.98159196604718 1068.8758909131338
    -3630.621771330002 437.88490400150624 43332.69085466635 -92408.81117433074 -120886.49350246669
    408575.33779352653
""")
# the same in (s - 15.5) / (s + 15.5), for s in [9, 27.3]
ERFINV_LAST = fit("""
    0.9945393564378759 0.01769770139333649 -0.02712115068903988 0.03105525535508952
    -0.03226715249677671 0.031315551797991295 -0.02877484916379707 0.024916626254933395
    -0.020025153841987105 0.014289236366751947 -0.007907836403042833 0.0010509449102095731
    0.006161011836408342 -0.013877183062777975 0.02119386494620921 -0.024601088330230964
    0.03283217720838756 -0.06697339956272538 0.07128023359004927
""")


def _erfcx_positive(a: MathValue) -> MathValue:
    """exp(a**2) erfc(a) for a >= 0."""
    near = at_most(a, 1e30)
    return polynomial((near - 4.0) / (near + 4.0), ERFCX[a.body.precision]) / (a + 0.5)


def erfcx(x: MathValue) -> MathValue:
    a = abs(x)
    steep = at_most(a, EXP_SQUARE_MAX[x.body.precision])
    square, lost = two_product(steep, steep)
    high, low, first, second = exp_parts(square)
    grown = fma(high, lost, low) + high
    positive = _erfcx_positive(a)
    far = select(x < 0.0, (grown + grown) * first * second - positive, positive)
    return select(a < 0.5, (1.0 - erf_near(x)) * grown, far)


def _upper_tail(x: MathValue) -> MathValue:
    """The normal distribution's mass beyond |x|."""
    a = at_most(abs(x), UNDERFLOW[x.body.precision])
    square, lost = two_product(a, a)
    high, low, first, second = exp_parts(square * -0.5)
    half = _erfcx_positive(a * HALF_ROOT) * 0.5
    return fma(half, high, half * fma(lost * -0.5, high, low)) * first * second


def ndtr(x: MathValue) -> MathValue:
    """Around zero as 1/2 + erf(x / sqrt(2)) / 2, whose first term is exact."""
    beyond = _upper_tail(x)
    near = fma(erf_near(x * HALF_ROOT), 0.5, 0.5)
    return select(abs(x) < 0.7, near, select(x > 0.0, 1.0 - beyond, beyond))


def log_ndtr(x: MathValue) -> MathValue:
    """On the left the density is factored out of the logarithm, near zero one half."""
    a = abs(x)
    beside = a < 0.6
    left = fma(a * -0.5, a, log(_erfcx_positive(a * HALF_ROOT) * 0.5))
    rest = log1p(select(beside, erf_near(x * HALF_ROOT), -_upper_tail(x)))
    return select(beside, rest - math.log(2.0), select(x > 0.0, rest, left))


def _erfinv_from(y: MathValue, complement: MathValue) -> MathValue:
    """erfinv(y), given 1 - y**2."""
    square = y * y
    near = square < 0.25
    whole = select(near, 1.0 - square, complement)
    lost = select(near, ((1.0 - whole) - square) / whole, 0.0)
    w = -(log(whole) + lost)
    s = sqrt(w)
    small = polynomial(w - 3.125, ERFINV_NEAR)
    middle = polynomial(s - 3.25, ERFINV_MIDDLE)
    last = s > 9.0
    centre = select(last, s.like(15.5), 6.0)
    t = (s - centre) / (s + centre)
    tail = select(last, polynomial(t, ERFINV_LAST), polynomial(t, ERFINV_FAR)) * s
    result = y * select(w < 6.25, small, select(w < 16.0, middle, tail))
    return select(complement.equals(0.0), copysign(y.like(math.inf), y), result)


def erfinv(x: MathValue) -> MathValue:
    a = abs(x)
    return select(
        a < 2.0**-60, x * (0.5 * math.sqrt(math.pi)), _erfinv_from(x, (1.0 - a) * (a + 1.0))
    )


def erfcinv(x: MathValue) -> MathValue:
    return _erfinv_from(1.0 - x, x * (2.0 - x))


def ndtri(x: MathValue) -> MathValue:
    return _erfinv_from(x * 2.0 - 1.0, x * 4.0 * (1.0 - x)) * math.sqrt(2.0)
