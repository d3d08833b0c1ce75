"""Scalar code of complex functions that are made of real ones: logarithms, tangents, inverses.

Owns: `Arcs`, the part of the emitter (`emitter.py`) that writes them. Inverse functions are those
of W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987): square roots of 1 + z and 1 - z,
whose parts are put together without cancellation; zeros keep their signs, which say on what side of
a cut an argument is. Far from the origin they are logarithms.
"""

from __future__ import annotations

import math
from typing import Any

from tracker.jit.scalar.values import Complex, literal

_FAR = {8: 2.0**60, 4: 2.0**30}  # beyond, 1 + z**2 is z**2
_FLAT = 22.0  # beyond, tanh is one


class Arcs:
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

    def _times(self, z: Complex, factor: float) -> Complex:
        number = literal(factor, z.re.dtype)
        return Complex(self.mul(z.re, number), self.mul(z.im, number))

    def _exp2(self, z: Complex) -> Complex:
        found: Complex = self._exp(self._times(z, math.log(2)))
        return found

    def _log2(self, z: Complex) -> Complex:
        return self._times(self._log(z), 1 / math.log(2))

    def _log10(self, z: Complex) -> Complex:
        return self._times(self._log(z), 1 / math.log(10))

    def _log1p(self, z: Complex) -> Complex:
        """As NumPy goes about it, with the digits that that leaves."""
        x = self.add(z.re, literal(1, z.re.dtype))
        size = self.math("hypot", x, z.im)
        return Complex(self.math("log", size), self.math("atan2", z.im, x))

    def _expm1(self, z: Complex) -> Complex:
        half = self.math("sin", self.mul(z.im, literal(0.5, z.re.dtype)))
        turned = self.mul(self.math("expm1", z.re), self.math("cos", z.im))
        lost = self.mul(literal(2, z.re.dtype), self.mul(half, half))
        im = self.mul(self.math("exp", z.re), self.math("sin", z.im))
        return Complex(self.sub(turned, lost), im)

    # Tangents

    def _tanh(self, z: Complex) -> Complex:
        dtype = z.re.dtype
        zero, one = literal(0, dtype), literal(1, dtype)
        size = self.abs(z.re)
        flat = self.compare(">", size, literal(_FLAT, dtype))
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
        return Complex(re, im)

    def _tan(self, z: Complex) -> Complex:
        return self._turned_back(self._tanh(self._turned(z)))

    def _turned(self, z: Complex) -> Complex:
        """i z."""
        return Complex(self.neg(z.im), z.re)

    def _turned_back(self, z: Complex) -> Complex:
        """-i z."""
        return Complex(z.im, self.neg(z.re))

    # Inverses

    def _roots(self, z: Complex) -> tuple[Complex, Complex]:
        """The square roots of 1 - z and of 1 + z."""
        one = literal(1, z.re.dtype)
        below = Complex(self.sub(one, z.re), self.neg(z.im))
        return self._sqrt(below), self._sqrt(Complex(self.add(one, z.re), z.im))

    def _far(self, z: Complex) -> tuple[Any, Any]:
        """Whether z is far from the origin, and log(2 |z|)."""
        dtype = z.re.dtype
        limit, half = literal(_FAR[dtype.itemsize], dtype), literal(0.5, dtype)
        far = self.logical_or(
            self.compare(">", self.abs(z.re), limit), self.compare(">", self.abs(z.im), limit)
        )
        size = self.math("hypot", self.mul(z.re, half), self.mul(z.im, half))
        return far, self.add(self.math("log", size), literal(2 * math.log(2), dtype))

    def _cross(self, a: Complex, b: Complex) -> Any:
        """The imaginary part of conj(a) b."""
        return self.sub(self.mul(a.re, b.im), self.mul(a.im, b.re))

    def _asin(self, z: Complex) -> Complex:
        minus, plus = self._roots(z)
        level = self.sub(self.mul(minus.re, plus.re), self.mul(minus.im, plus.im))
        far, size = self._far(z)
        re = self.math("atan2", z.re, self.select(far, self.abs(z.im), level))
        size = self.intrinsic("copysign", size, z.im)
        im = self.select(far, size, self.math("asinh", self._cross(minus, plus)))
        return Complex(self.select(self._on_axis(z), z.re, re), im)

    def _acos(self, z: Complex) -> Complex:
        minus, plus = self._roots(z)
        far, size = self._far(z)
        near = self.mul(literal(2, z.re.dtype), self.math("atan2", minus.re, plus.re))
        re = self.select(far, self.math("atan2", self.abs(z.im), z.re), near)
        re = self.select(self._on_axis(z), literal(math.pi / 2, re.dtype), re)
        size = self.intrinsic("copysign", size, self.neg(z.im))
        return Complex(re, self.select(far, size, self.math("asinh", self._cross(plus, minus))))

    def _asinh(self, z: Complex) -> Complex:
        return self._turned_back(self._asin(self._turned(z)))

    def _acosh(self, z: Complex) -> Complex:
        one = literal(1, z.re.dtype)
        minus = self._sqrt(Complex(self.sub(z.re, one), z.im))
        plus = self._sqrt(Complex(self.add(z.re, one), z.im))
        far, size = self._far(z)
        level = self.add(self.mul(minus.re, plus.re), self.mul(minus.im, plus.im))
        near = self.mul(literal(2, one.dtype), self.math("atan2", minus.im, plus.re))
        im = self.select(far, self.math("atan2", z.im, z.re), near)
        quarter = self.intrinsic("copysign", literal(math.pi / 2, one.dtype), z.im)
        im = self.select(self._on_axis(z), quarter, im)
        return Complex(self.select(far, size, self.math("asinh", level)), im)

    def _on_axis(self, z: Complex) -> Any:
        """Whether z is on the imaginary axis, be it nowhere there: what is known then is kept."""
        return self.compare("==", z.re, literal(0, z.re.dtype))

    def _atanh(self, z: Complex) -> Complex:
        dtype = z.re.dtype
        zero, one = literal(0, dtype), literal(1, dtype)
        far, _ = self._far(z)
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
        inverse = self.div(Complex(one, zero), Complex(self.abs(z.re), z.im))
        endless = self.logical_or(self.isinf(z.re), self.isinf(z.im))
        beyond = self.select(endless, zero, inverse.re)
        re = self.intrinsic("copysign", self.select(far, beyond, re), z.re)
        re = self.select(self._on_axis(z), z.re, re)
        quarter = self.intrinsic("copysign", literal(math.pi / 2, dtype), z.im)
        number = self.logical_or(self.isinf(z.im), self.compare("==", z.re, z.re))
        quarter = self.select(number, quarter, z.re)
        quarter = self.select(self.compare("==", z.im, z.im), quarter, z.im)
        return Complex(re, self.select(far, quarter, im))

    def _atan(self, z: Complex) -> Complex:
        return self._turned_back(self._atanh(self._turned(z)))
