"""erf and erfc.

Fits of erf on [-1, 1] and of exp(a**2) erfc(a) on [0, 28]. Coefficients are weighted Remez fits
(mpmath, 300 bits).

Invariant: exp(-a**2) uses both halves of a**2, whose rounding error alone would cost 350 ulps.
"""

from __future__ import annotations

from tracker.jit.vmath.exponential import exp_parts
from tracker.jit.vmath.expression import (
    MathValue,
    at_most,
    copysign,
    fit,
    fma,
    polynomial,
    select,
    two_product,
)

# Where erfc is zero.
UNDERFLOW = {"double": 28.0, "float": 10.3}
# erf(x) / x - 1, in x**2
ERF = {
    "double": fit("""
        0.12837916709551256 -0.3761263890318355 0.11283791670945253 -0.02686617064327622
        0.005223977607423468 -0.0008548325989696758 0.00012055295320494294 -1.4924744663335489e-05
        1.6447517677871873e-06 -1.6209175911748696e-07 1.3722976265924504e-08 -7.801188874097751e-10
    """),
    "float": fit("""
        0.12837916591465431 -0.37612627140440547 0.11283600211815889 -0.026854445581508075
        0.005189536461939261 -0.0008020845698406905 7.889119157487838e-05
    """),
}
# (1 + 2 a) exp(a**2) erfc(a), in (a - 4) / (a + 4)
ERFC = {
    "double": fit("""
        1.2329951186255526 -0.1396211168405629 0.015379652102619743 0.06809705425473705
        -0.10103906603630013 0.09373283499681118 -0.06633036581258453 0.03716751556201157
        -0.016197734048197375 0.0050319697624929115 -0.0007577734063619189 -0.00019925555704689612
        0.00015062247774504537 -2.440295114043755e-05 -1.1225298906167201e-05 5.717307071463984e-06
        3.0198106771116416e-07 -8.342454390369223e-07 6.236797605102406e-08 1.145578124357157e-07
        -7.771351771925222e-09 -1.33829883707813e-08 -1.7175001759822705e-09
    """),
    "float": fit("""
        1.2329951188227433 -0.1396211315827574 0.015379615471651011 0.06809785937320827
        -0.10103743821791192 0.09372143257595401 -0.06635768876818268 0.0372172995143028
        -0.016019150102433318 0.0050612862043184405 -0.001121172614478056 -0.0006374608258205249
    """),
}


def _erfc_magnitude(a: MathValue) -> MathValue:
    """erfc(a) for a >= 0."""
    precision = a.body.precision
    a = at_most(a, UNDERFLOW[precision])
    square, lost = two_product(a, a)
    high, low, first, second = exp_parts(-square)
    slope = polynomial((a - 4.0) / (a + 4.0), ERFC[precision]) / fma(a, 2.0, 1.0)
    return fma(slope, high, slope * fma(-lost, high, low)) * first * second


def erf_near(x: MathValue) -> MathValue:
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, ERF[x.body.precision]), x)


def erf(x: MathValue) -> MathValue:
    far = copysign(1.0 - _erfc_magnitude(abs(x)), x)
    return select(abs(x) < 1.0, erf_near(x), far)


def erfc(x: MathValue) -> MathValue:
    magnitude = _erfc_magnitude(abs(x))
    far = select(x < 0.0, 2.0 - magnitude, magnitude)
    return select(abs(x) < 0.5, 1.0 - erf_near(x), far)
