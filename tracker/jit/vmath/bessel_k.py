"""Modified Bessel functions of the second kind, orders zero and one, also scaled by exp(x).

For x <= 2 a logarithm times the functions of the first kind plus an even series, beyond fits of
sqrt(x) exp(x) K(x). Coefficients are Remez fits (mpmath, 200 bits) rounded to double.

Invariant: up to two, where log(x / 2) <= 0, at most a third of a sum cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracker.jit.vmath.exponential import exp, exp_parts
from tracker.jit.vmath.expression import MathValue, at_most, fit, fma, polynomial, select, sqrt
from tracker.jit.vmath.logarithm import log_parts

SPLIT = 2.0
# (I0(x) - 1) / z, in z = x**2 / 4, for x <= 2
FIRST_0 = fit("""
    1.0 0.2499999999999999 0.027777777777780382 0.001736111111084409 6.944444458159541e-05
    1.9290119501164925e-06 3.9368268580350915e-08 6.144588906967499e-10 7.943390608554698e-12
""")
# (2 I1(x) / x - 1) / z, in the same
FIRST_1 = fit("""
    0.5 0.08333333333333642 0.006944444444379699 0.0003472222227394795 1.1574072045466487e-05
    2.75577509619379e-07 4.915866823480185e-09 7.145155514838772e-11
""")
# K0(x) + log(x / 2) I0(x), in the same
REST_0 = fit("""
    -0.5772156649015329 0.4227843350984672 0.23069608377461442 0.03489215745646899
    0.0026147876186098686 0.0001184803943693675 3.612622451041272e-06 7.935328306116023e-08
    1.3147868334565724e-09 1.801549339065596e-11
""")
# (x K1(x) - 1) / z - 4 I1(x) log(x / 2) / x, in the same
REST_1 = fit("""
    0.15443132980306573 -0.6727843350984671 -0.1815751669608552 -0.019182189839336117
    -0.0011153594919304586 -4.142247702720146e-05 -1.0715456089394668e-06 -2.0453288234614902e-08
    -2.998423148317289e-10 -3.665248105628723e-12
""")
# sqrt(x) exp(x) K0(x), in 4 / x - 1, for x >= 2
FAR_0 = fit("""
    1.2185953385133905 -0.031071461824889898 0.0030328918102767635 -0.0004797690567328091
    9.956054736257878e-05 -2.473520543029796e-05 7.002246546045217e-06 -2.1911673654246705e-06
    7.427729213292109e-07 -2.6897608661275545e-07 1.0298792493651447e-07 -4.105641149779147e-08
    1.694977215662218e-08 -8.025876301491879e-09 3.991031433101058e-09 -6.635190878050054e-10
    -1.7157937871067794e-10 -1.2373829424719434e-09 9.766818375024776e-10 4.3958009402885817e-10
    -3.807472700917303e-10 -1.760339981389474e-10 1.2177049779235065e-10
""")
# sqrt(x) exp(x) K1(x), in the same
FAR_1 = fit("""
    1.363151890371342 0.10334973775386565 -0.005566729880076154 0.0007357241548717584
    -0.00013959021950009064 3.2843866504285266e-05 -8.961208364729897e-06 2.7300300847651206e-06
    -9.067009478908149e-07 3.230568270926594e-07 -1.2206833440500637e-07 4.8153995597331404e-08
    -1.971148213820774e-08 9.21461487330042e-09 -4.530137392484279e-09 7.95689389104861e-10
    1.5447384998933898e-10 1.3623298935862125e-09 -1.068071249946931e-09 -4.777726642956223e-10
    4.1329387029916357e-10 1.928014321211716e-10 -1.3288331173419087e-10
""")


def _quarter_square(x: MathValue) -> MathValue:
    half = at_most(x, SPLIT) * 0.5
    return half * half


def _log_half(x: MathValue) -> tuple[MathValue, MathValue]:
    """log(x / 2) as a sum, for finite x > 0; half of a small number may lose its last bit."""
    small = x < 2.0**-1000
    high, low = log_parts(select(small, x * 2.0**64, x * 0.5))
    return high - select(small, x.like(65 * math.log(2.0)), 0.0), low


def _near_0(x: MathValue) -> MathValue:
    """K0(x) for x <= 2."""
    z = _quarter_square(x)
    high, low = _log_half(x)
    first = fma(z, polynomial(z, FIRST_0), 1.0)
    return _special_cases(x, fma(-high, first, fma(-low, first, polynomial(z, REST_0))))


def _near_1(x: MathValue) -> MathValue:
    """K1(x) for x <= 2."""
    z = _quarter_square(x)
    high, _ = _log_half(x)
    first = fma(z, polynomial(z, FIRST_1), 1.0)
    inner = fma(high * 2.0, first, polynomial(z, REST_1))
    return _special_cases(x, fma(z, inner, 1.0) / x)


def _special_cases(x: MathValue, inside: MathValue) -> MathValue:
    return select(x > 0.0, inside, select(x.equals(0.0), x.like(math.inf), math.nan))


def _far(x: MathValue, coefficients: Sequence[float]) -> MathValue:
    """exp(x) K(x) for x >= 2."""
    return polynomial(2.0 * SPLIT / x - 1.0, coefficients) / sqrt(x)


def _unscaled(x: MathValue, near: MathValue, far: MathValue) -> MathValue:
    high, low, first, second = exp_parts(-x)
    return select(x > SPLIT, fma(far, high, far * low) * first * second, near)


def _scaled(x: MathValue, near: MathValue, far: MathValue) -> MathValue:
    return select(x > SPLIT, far, near * exp(at_most(x, SPLIT)))


def k0(x: MathValue) -> MathValue:
    return _unscaled(x, _near_0(x), _far(x, FAR_0))


def k1(x: MathValue) -> MathValue:
    return _unscaled(x, _near_1(x), _far(x, FAR_1))


def k0e(x: MathValue) -> MathValue:
    return _scaled(x, _near_0(x), _far(x, FAR_0))


def k1e(x: MathValue) -> MathValue:
    return _scaled(x, _near_1(x), _far(x, FAR_1))
