"""Complex functions by real ones: exponentials, logarithms, roots, circular and hyperbolic
functions.

Where an argument is zero or infinite, results are those of C99 annex G. Inverse functions follow W.
Kahan, "Branch Cuts for Complex Elementary Functions" (1987): square roots of 1 + z and 1 - z, whose
parts are combined without cancellation; zeros keep their signs, which decide on what side of a cut
an argument lies. Far from the origin inverse functions are logarithms.
"""

from __future__ import annotations

import math
from typing import Any

from tracker.jit.scalar.values import ComplexValue, literal

_FAR = {8: 2.0**60, 4: 2.0**30}  # beyond, 1 + z**2 is z**2
_TANH_IS_ONE = 22.0  # beyond, tanh is one


class ComplexFunctions:
    """See the file's header. The other methods are the emitter's."""

    add: Any
    sub: Any
    mul: Any
    div: Any
    neg: Any
    abs: Any
    math: Any
    compare: Any
    select: Any
    isinf: Any
    isfinite: Any
    intrinsic: Any
    invert: Any
    logical_and: Any
    logical_or: Any
    _exp: Any
    _log: Any
    _sqrt: Any

    # Powers of other bases, and what is near one

    def _times_real(self, z: ComplexValue, factor: float) -> ComplexValue:
        number = literal(factor, z.re.dtype)
        return ComplexValue(self.mul(z.re, number), self.mul(z.im, number))

    def _exp2(self, z: ComplexValue) -> ComplexValue:
        found: ComplexValue = self._exp(self._times_real(z, math.log(2)))
        return found

    def _log2(self, z: ComplexValue) -> ComplexValue:
        return self._times_real(self._log(z), 1 / math.log(2))

    def _log10(self, z: ComplexValue) -> ComplexValue:
        return self._times_real(self._log(z), 1 / math.log(10))

    def _log1p(self, z: ComplexValue) -> ComplexValue:
        """As NumPy goes about it, with the digits that that leaves."""
        x = self.add(z.re, literal(1, z.re.dtype))
        size = self.math("hypot", x, z.im)
        return ComplexValue(self.math("log", size), self.math("atan2", z.im, x))

    def _expm1(self, z: ComplexValue) -> ComplexValue:
        half = self.math("sin", self.mul(z.im, literal(0.5, z.re.dtype)))
        turned = self.mul(self.math("expm1", z.re), self.math("cos", z.im))
        lost = self.mul(literal(2, z.re.dtype), self.mul(half, half))
        im = self.mul(self.math("exp", z.re), self.math("sin", z.im))
        return ComplexValue(self.sub(turned, lost), im)

    # Tangents

    def _tanh(self, z: ComplexValue) -> ComplexValue:
        dtype = z.re.dtype
        zero, one = literal(0, dtype), literal(1, dtype)
        size = self.abs(z.re)
        flat = self.compare(">", size, literal(_TANH_IS_ONE, dtype))
        x = self.select(flat, one, z.re)
        sinh, cosh = self.math("sinh", x), self.math("cosh", x)
        sin, cos = self.math("sin", z.im), self.math("cos", z.im)
        under = self.add(self.mul(sinh, sinh), self.mul(cos, cos))
        turn = self.mul(sin, cos)
        re = self.div(self.mul(sinh, cosh), under)
        re = self.select(flat, self.intrinsic("copysign", one, z.re), re)
        decay = self.math("exp", self.mul(literal(-2, dtype), size))
        faint = self.mul(self.mul(literal(4, dtype), turn), decay)
        im = self.select(flat, faint, self.div(turn, under))
        lost = self.logical_and(self.isinf(z.re), self.invert(self.isfinite(z.im)))
        im = self.select(lost, self.intrinsic("copysign", zero, z.im), im)
        im = self.select(self.compare("==", z.im, zero), z.im, im)
        numbers = self.logical_or(self.isfinite(z.im), self.isinf(z.re))
        re = self.select(numbers, re, self.sub(z.im, z.im))
        re = self.select(self.compare("==", z.re, zero), z.re, re)
        return ComplexValue(re, im)

    def _tan(self, z: ComplexValue) -> ComplexValue:
        return self._times_minus_i(self._tanh(self._times_i(z)))

    def _times_i(self, z: ComplexValue) -> ComplexValue:
        """i z."""
        return ComplexValue(self.neg(z.im), z.re)

    def _times_minus_i(self, z: ComplexValue) -> ComplexValue:
        """-i z."""
        return ComplexValue(z.im, self.neg(z.re))

    # Inverses

    def _roots_of_one_minus_plus(self, z: ComplexValue) -> tuple[ComplexValue, ComplexValue]:
        """The square roots of 1 - z and of 1 + z."""
        one = literal(1, z.re.dtype)
        below = ComplexValue(self.sub(one, z.re), self.neg(z.im))
        return self._sqrt(below), self._sqrt(ComplexValue(self.add(one, z.re), z.im))

    def _is_far(self, z: ComplexValue) -> tuple[Any, Any]:
        """Whether z is far from the origin, and log(2 |z|)."""
        dtype = z.re.dtype
        limit, half = literal(_FAR[dtype.itemsize], dtype), literal(0.5, dtype)
        far = self.logical_or(
            self.compare(">", self.abs(z.re), limit), self.compare(">", self.abs(z.im), limit)
        )
        size = self.math("hypot", self.mul(z.re, half), self.mul(z.im, half))
        return far, self.add(self.math("log", size), literal(2 * math.log(2), dtype))

    def _imag_of_conj_product(self, a: ComplexValue, b: ComplexValue) -> Any:
        """The imaginary part of conj(a) b."""
        return self.sub(self.mul(a.re, b.im), self.mul(a.im, b.re))

    def _asin(self, z: ComplexValue) -> ComplexValue:
        minus, plus = self._roots_of_one_minus_plus(z)
        level = self.sub(self.mul(minus.re, plus.re), self.mul(minus.im, plus.im))
        far, size = self._is_far(z)
        re = self.math("atan2", z.re, self.select(far, self.abs(z.im), level))
        size = self.intrinsic("copysign", size, z.im)
        im = self.select(far, size, self.math("asinh", self._imag_of_conj_product(minus, plus)))
        return ComplexValue(self.select(self._is_imaginary(z), z.re, re), im)

    def _acos(self, z: ComplexValue) -> ComplexValue:
        minus, plus = self._roots_of_one_minus_plus(z)
        far, size = self._is_far(z)
        near = self.mul(literal(2, z.re.dtype), self.math("atan2", minus.re, plus.re))
        re = self.select(far, self.math("atan2", self.abs(z.im), z.re), near)
        re = self.select(self._is_imaginary(z), literal(math.pi / 2, re.dtype), re)
        size = self.intrinsic("copysign", size, self.neg(z.im))
        return ComplexValue(
            re, self.select(far, size, self.math("asinh", self._imag_of_conj_product(plus, minus)))
        )

    def _asinh(self, z: ComplexValue) -> ComplexValue:
        return self._times_minus_i(self._asin(self._times_i(z)))

    def _acosh(self, z: ComplexValue) -> ComplexValue:
        one = literal(1, z.re.dtype)
        minus = self._sqrt(ComplexValue(self.sub(z.re, one), z.im))
        plus = self._sqrt(ComplexValue(self.add(z.re, one), z.im))
        far, size = self._is_far(z)
        level = self.add(self.mul(minus.re, plus.re), self.mul(minus.im, plus.im))
        near = self.mul(literal(2, one.dtype), self.math("atan2", minus.im, plus.re))
        im = self.select(far, self.math("atan2", z.im, z.re), near)
        quarter = self.intrinsic("copysign", literal(math.pi / 2, one.dtype), z.im)
        im = self.select(self._is_imaginary(z), quarter, im)
        return ComplexValue(self.select(far, size, self.math("asinh", level)), im)

    def _is_imaginary(self, z: ComplexValue) -> Any:
        """Whether z is on the imaginary axis, be it nowhere there: what is known then is kept."""
        return self.compare("==", z.re, literal(0, z.re.dtype))

    def _atanh(self, z: ComplexValue) -> ComplexValue:
        dtype = z.re.dtype
        zero, one = literal(0, dtype), literal(1, dtype)
        far, _ = self._is_far(z)
        x, y = self.select(far, one, self.abs(z.re)), self.select(far, one, z.im)
        apart, square = self.sub(one, x), self.mul(y, y)
        under = self.add(self.mul(apart, apart), square)
        re = self.math("log1p", self.div(self.mul(literal(4, dtype), x), under))
        re = self.mul(literal(0.25, dtype), re)
        # Beside a pole: there the squares vanish, and the numerator is two.
        away = self.math("hypot", apart, y)
        close = self.compare("<", away, literal(1 / _FAR[dtype.itemsize], dtype))
        pole = self.sub(literal(math.log(2), dtype), self.math("log", away))
        re = self.select(close, self.mul(literal(0.5, dtype), pole), re)
        level = self.sub(self.mul(apart, self.add(one, x)), square)
        im = self.math("atan2", self.mul(literal(2, dtype), y), level)
        im = self.mul(literal(0.5, dtype), im)
        inverse = self.div(ComplexValue(one, zero), ComplexValue(self.abs(z.re), z.im))
        endless = self.logical_or(self.isinf(z.re), self.isinf(z.im))
        beyond = self.select(endless, zero, inverse.re)
        re = self.intrinsic("copysign", self.select(far, beyond, re), z.re)
        re = self.select(self._is_imaginary(z), z.re, re)
        quarter = self.intrinsic("copysign", literal(math.pi / 2, dtype), z.im)
        number = self.logical_or(self.isinf(z.im), self.compare("==", z.re, z.re))
        quarter = self.select(number, quarter, z.re)
        quarter = self.select(self.compare("==", z.im, z.im), quarter, z.im)
        return ComplexValue(re, self.select(far, quarter, im))

    def _atan(self, z: ComplexValue) -> ComplexValue:
        return self._times_minus_i(self._atanh(self._times_i(z)))
