"""The emitter for every dtype: complex arithmetic over `RealEmitter`'s.

A complex number is a pair of registers, so loops over complex numbers are vectorised like any
other. Results are NumPy's: products by the definition, quotients scaled by the larger part of the
divisor (Smith's method).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.jit.scalar.complex_math import ComplexFunctions
from tracker.jit.scalar.real import RealEmitter
from tracker.jit.scalar.values import ComplexValue, ScalarValue, literal, part_dtype

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)
_SMALL_POWER = 100  # below, NumPy multiplies
_EXP_SCALED_FROM = 650.0  # beyond, exp is scaled, so that a factor below one can bring it back
# So are sinh and cosh: beyond the first, the second is taken off, and what is left is large enough
# for both to be half an exponential.
_SINH_SCALED_FROM = {8: (709.0, 690.0), 4: (88.0, 75.0)}


class Emitter(RealEmitter, ComplexFunctions):
    """Scalar code of any dtype; an operation on complex operands writes real ones."""

    # Arithmetic

    def add(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if isinstance(a, ComplexValue) and isinstance(b, ComplexValue):
            return ComplexValue(super().add(a.re, b.re), super().add(a.im, b.im))
        return super().add(a, b)

    def sub(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if isinstance(a, ComplexValue) and isinstance(b, ComplexValue):
            return ComplexValue(super().sub(a.re, b.re), super().sub(a.im, b.im))
        return super().sub(a, b)

    def mul(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
            return super().mul(a, b)
        times = super().mul
        re = super().sub(times(a.re, b.re), times(a.im, b.im))
        return ComplexValue(re, super().add(times(a.re, b.im), times(a.im, b.re)))

    def div(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
            return super().div(a, b)
        times, plus, minus, over = super().mul, super().add, super().sub, super().div
        wide, high = super().abs(b.re), super().abs(b.im)
        flat = self.compare(">=", wide, high)
        large, small = self.select(flat, b.re, b.im), self.select(flat, b.im, b.re)
        ratio = over(small, large)
        scale = over(literal(1, ratio.dtype), plus(large, times(small, ratio)))
        re = self.select(flat, plus(a.re, times(a.im, ratio)), plus(times(a.re, ratio), a.im))
        im = self.select(flat, minus(a.im, times(a.re, ratio)), minus(times(a.im, ratio), a.re))
        none = self.compare("==", super().add(wide, high), literal(0, ratio.dtype))
        return ComplexValue(
            self.select(none, over(a.re, wide), times(re, scale)),
            self.select(none, over(a.im, wide), times(im, scale)),
        )

    def neg(self, x: ScalarValue) -> ScalarValue:
        if isinstance(x, ComplexValue):
            return ComplexValue(super().neg(x.re), super().neg(x.im))
        return super().neg(x)

    def abs(self, x: ScalarValue) -> ScalarValue:
        """The absolute value, which is real."""
        if isinstance(x, ComplexValue):
            return super().math("hypot", x.re, x.im)
        return super().abs(x)

    def real(self, x: ScalarValue) -> ScalarValue:
        return x.re if isinstance(x, ComplexValue) else x

    def imag(self, x: ScalarValue) -> ScalarValue:
        return x.im if isinstance(x, ComplexValue) else super().imag(x)

    def complex(self, re: ScalarValue, im: ScalarValue) -> ScalarValue:
        return ComplexValue(re, im)

    def conjugate(self, x: ScalarValue) -> ScalarValue:
        return ComplexValue(x.re, super().neg(x.im)) if isinstance(x, ComplexValue) else x

    def power(self, x: ScalarValue, n: ScalarValue) -> ScalarValue:
        """Small integer powers are products, as in NumPy."""
        if not isinstance(x, ComplexValue) or not isinstance(n, ComplexValue):
            return super().power(x, n)
        if n.value is None:
            whole = self.compare("==", n.re, self.rounded("rint", n.re))
            whole = self.logical_and(whole, self.compare("==", n.im, literal(0, n.im.dtype)))
            small = self.compare("<", super().abs(n.re), literal(_SMALL_POWER, n.re.dtype))
            small = self.logical_and(whole, small)
            return self.select(small, self._small_power(x, n.re, small), self._general_power(x, n))
        if abs(n.value) >= _SMALL_POWER or n.value != round(n.value.real):
            return self._general_power(x, n)
        count = int(n.value.real)
        y = self.power_by_squaring(x, abs(count))
        result: ScalarValue = self._reciprocal_power(y, x) if count < 0 else y
        return result

    def _small_power(self, x: ComplexValue, n: ScalarValue, small: ScalarValue) -> ScalarValue:
        """By squaring, on the bits of n; undefined unless n is small and integral."""
        count = self.cast(self.select(small, super().abs(n), literal(0, n.dtype)), _INT64)
        y: ScalarValue = literal(1, x.dtype)
        factor: ScalarValue = x
        for bit in range(_SMALL_POWER.bit_length()):
            factor = self.mul(factor, factor) if bit else factor
            mask = self.bitwise("and", count, literal(1 << bit, _INT64))
            y = self.select(self.truth(mask), self.mul(y, factor), y)
        negative = self.compare("<", n, literal(0, n.dtype))
        return self.select(negative, self._reciprocal_power(y, x), y)

    def _general_power(self, x: ComplexValue, n: ComplexValue) -> ScalarValue:
        """exp(n log(x)); for x = 0, zero if Re n > 0, one for n = 0, else NaN."""
        zero, one = literal(0, x.dtype), literal(1, x.dtype)
        nothing = self.compare("==", x, zero)
        right = self.compare(">", n.re, literal(0, n.re.dtype))
        nan = literal(complex(math.nan, math.nan), x.dtype)
        size = self.math("log", self.select(nothing, one, x))
        y = self.math("exp", self.mul(n, size))
        y = self.select(nothing, self.select(right, zero, nan), y)
        return self.select(self.compare("==", n, zero), one, y)

    def reciprocal(self, x: ScalarValue) -> ScalarValue:
        if isinstance(x, ComplexValue):
            return self._reciprocal(x)
        if x.dtype.kind != "f":
            part: ScalarValue = self.integer_reciprocal(x)
            return part
        return super().div(literal(1, x.dtype), x)

    def _reciprocal(self, x: ComplexValue) -> ScalarValue:
        """As NumPy's own: its zeros differ in sign from those of 1 / x. Of zero, NaN."""
        flat = self.compare(">=", super().abs(x.re), super().abs(x.im))
        large, small = self.select(flat, x.re, x.im), self.select(flat, x.im, x.re)
        ratio, one = super().div(small, large), literal(1, x.re.dtype)
        size = super().add(large, super().mul(small, ratio))
        re, im = self.select(flat, one, ratio), self.select(flat, ratio, one)
        return ComplexValue(super().div(re, size), super().div(super().neg(im), size))

    def _reciprocal_power(self, y: ScalarValue, x: ScalarValue) -> ScalarValue:
        """One over y, a power of x; NaN, as in NumPy, where x is zero."""
        nan = literal(complex(math.nan, math.nan), x.dtype)
        zero = self.compare("==", x, literal(0, x.dtype))
        return self.select(zero, nan, self.div(literal(1, x.dtype), y))

    # Functions

    def math(self, name: str, *xs: ScalarValue) -> ScalarValue:
        (x, *_) = xs
        if not isinstance(x, ComplexValue):
            return super().math(name, *xs)
        made: ScalarValue = getattr(self, f"_{name}")(x)
        return made

    def _exp(self, z: ComplexValue) -> ScalarValue:
        zero, infinite = literal(0, z.re.dtype), literal(math.inf, z.re.dtype)
        limit = _EXP_SCALED_FROM if z.re.dtype.itemsize == 8 else 80.0
        far = self.compare(">", z.re, literal(limit, z.re.dtype))
        near = self.select(far, super().sub(z.re, literal(limit, z.re.dtype)), z.re)
        size = super().math("exp", near)
        rest = self.select(far, literal(math.exp(limit), size.dtype), literal(1, size.dtype))
        re = super().mul(super().mul(size, super().math("cos", z.im)), rest)
        im = super().mul(super().mul(size, super().math("sin", z.im)), rest)
        im = self.select(self.compare("==", z.im, zero), z.im, im)
        # The angle of an infinity, or of nothing, may be any.
        lost = self.invert(self.isfinite(z.im))
        gone = self.logical_and(lost, self.compare("==", z.re, super().neg(infinite)))
        great = self.logical_and(lost, self.compare("==", z.re, infinite))
        re = self.select(gone, zero, self.select(great, infinite, re))
        return ComplexValue(re, self.select(gone, zero, im))

    def _log(self, z: ComplexValue) -> ScalarValue:
        one = literal(1, z.re.dtype)
        wide, high = super().abs(z.re), super().abs(z.im)
        first = self.compare(">", wide, high)
        large, small = self.select(first, wide, high), self.select(first, high, wide)
        size = super().math("hypot", z.re, z.im)
        # Near the unit circle, |z|**2 - 1 has more digits than |z|.
        beyond = super().mul(super().sub(large, one), super().add(large, one))
        beyond = self.intrinsic("fma", small, small, beyond)
        close = super().mul(super().math("log1p", beyond), literal(0.5, one.dtype))
        around = self.compare("<", super().abs(super().sub(size, one)), literal(0.25, one.dtype))
        re = self.select(around, close, super().math("log", size))
        return ComplexValue(re, super().math("atan2", z.im, z.re))

    def _sqrt(self, z: ComplexValue) -> ScalarValue:
        dtype = z.re.dtype
        zero, half, infinite = (literal(v, dtype) for v in (0, 0.5, math.inf))
        # Scaled, so that neither the sum nor the absolute value overflows or vanishes.
        up, down = (2.0**120, 2.0**-60) if dtype.itemsize == 8 else (2.0**60, 2.0**-30)
        size = super().math("hypot", z.re, z.im)
        tiny = self.compare("<", size, literal(1 / up, dtype))
        huge = self.compare(">", size, literal(up, dtype))
        one = literal(1, dtype)
        scale = self.select(
            tiny, literal(up, dtype), self.select(huge, literal(1 / up, dtype), one)
        )
        back = self.select(
            tiny, literal(down, dtype), self.select(huge, literal(1 / down, dtype), one)
        )
        x, y = super().mul(z.re, scale), super().mul(z.im, scale)
        total = super().add(super().abs(x), super().math("hypot", x, y))
        root = super().math("sqrt", super().mul(total, half))
        other = super().div(super().mul(super().abs(y), half), root)
        right = self.compare(">=", z.re, zero)
        re = super().mul(self.select(right, root, other), back)
        im = super().mul(self.select(right, other, root), back)
        im = self.intrinsic("copysign", im, z.im)
        none = self.compare("==", size, zero)
        endless = self.compare("==", super().abs(z.im), infinite)
        re = self.select(none, zero, self.select(endless, infinite, re))
        return ComplexValue(re, self.select(self.logical_or(none, endless), z.im, im))

    def _sin(self, z: ComplexValue) -> ScalarValue:
        """sin(x) cosh(y) + i cos(x) sinh(y)."""
        return ComplexValue(self._sin_cosh(z.re, z.im), self._cos_sinh(z.re, z.im))

    def _sinh(self, z: ComplexValue) -> ScalarValue:
        """sinh(x) cos(y) + i cosh(x) sin(y)."""
        return ComplexValue(self._cos_sinh(z.im, z.re), self._sin_cosh(z.im, z.re))

    def _cos(self, z: ComplexValue) -> ScalarValue:
        """cos(x) cosh(y) - i sin(x) sinh(y)."""
        return self._cosh(ComplexValue(super().neg(z.im), z.re))

    def _cosh(self, z: ComplexValue) -> ScalarValue:
        """cosh(x) cos(y) + i sinh(x) sin(y)."""
        zero = literal(0, z.re.dtype)
        re = self._scaled_hyperbolic("cosh", z.re, super().math("cos", z.im))
        im = self._scaled_hyperbolic("sinh", z.re, super().math("sin", z.im))
        lost = self.invert(self.isfinite(z.im))
        im = self.select(self.logical_and(lost, self.compare("==", z.re, zero)), zero, im)
        level = super().mul(self.intrinsic("copysign", literal(1, zero.dtype), z.re), z.im)
        im = self.select(self.compare("==", z.im, zero), level, im)
        return ComplexValue(self._infinite_product(re, z.im, z.re), im)

    def _sin_cosh(self, angle: ScalarValue, size: ScalarValue) -> ScalarValue:
        """sin(angle) cosh(size), and a zero angle as it is."""
        product = self._scaled_hyperbolic("cosh", size, super().math("sin", angle))
        return self.select(self.compare("==", angle, literal(0, angle.dtype)), angle, product)

    def _cos_sinh(self, angle: ScalarValue, size: ScalarValue) -> ScalarValue:
        """cos(angle) sinh(size), and a zero size as it is."""
        product = self._scaled_hyperbolic("sinh", size, super().math("cos", angle))
        none = self.compare("==", size, literal(0, size.dtype))
        return self.select(none, size, self._infinite_product(product, angle, size))

    def _scaled_hyperbolic(self, name: str, size: ScalarValue, factor: ScalarValue) -> ScalarValue:
        """sinh or cosh, times a factor that can bring it back where it alone is too large."""
        dtype = size.dtype
        limit, shift = _SINH_SCALED_FROM[dtype.itemsize]
        length = super().abs(size)
        far = self.compare(">", length, literal(limit, dtype))
        less = self.intrinsic("copysign", super().sub(length, literal(shift, dtype)), size)
        near = self.select(far, less, size)
        rest = self.select(far, literal(math.exp(shift), dtype), literal(1, dtype))
        return super().mul(super().mul(factor, super().math(name, near)), rest)

    def _infinite_product(
        self, product: ScalarValue, angle: ScalarValue, size: ScalarValue
    ) -> ScalarValue:
        """The product of a function of an infinite size with one of an angle that is none."""
        infinite = literal(math.inf, size.dtype)
        lost = self.invert(self.isfinite(angle))
        great = self.logical_and(lost, self.compare("==", super().abs(size), infinite))
        return self.select(great, infinite, product)

    def _sigmoid(self, z: ComplexValue) -> ScalarValue:
        one = literal(1, z.dtype)
        return self.div(one, self.add(one, self.math("exp", self.neg(z))))

    def sign(self, x: ScalarValue) -> ScalarValue:
        """x / |x|: of one infinite part, its axis; of two, NaN."""
        if not isinstance(x, ComplexValue):
            return super().sign(x)
        zero, infinite = (literal(v, x.re.dtype) for v in (0, math.inf))
        size = self.abs(x)
        wide, high = super().isinf(x.re), super().isinf(x.im)
        none, endless = self.compare("==", size, zero), self.compare("==", size, infinite)
        parts = []
        for part, own, other in ((x.re, wide, high), (x.im, high, wide)):
            unit = self.intrinsic("copysign", literal(1, part.dtype), part)
            lost = literal(math.nan, part.dtype)
            far = self.select(own, self.select(other, lost, unit), zero)
            near = self.select(none, zero, super().div(part, size))
            parts.append(self.select(endless, far, near))
        return ComplexValue(*parts)

    def rounded(self, name: str, x: ScalarValue) -> ScalarValue:
        if isinstance(x, ComplexValue):
            return ComplexValue(super().rounded(name, x.re), super().rounded(name, x.im))
        return super().rounded(name, x)

    # Logic

    def compare(self, relation: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """By real parts, then by imaginary parts; a NaN is not ordered."""
        if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
            return super().compare(relation, a, b)
        if relation in ("==", "!="):
            both = super().compare(relation, a.re, b.re), super().compare(relation, a.im, b.im)
            return self.logical_and(*both) if relation == "==" else self.logical_or(*both)
        first = super().compare(relation[0], a.re, b.re)
        known = self._op("fcmp ord", a.im, b.im, dtype=_BOOL)
        level = super().compare("==", a.re, b.re)
        second = self.logical_and(level, super().compare(relation, a.im, b.im))
        return self.logical_or(self.logical_and(first, known), second)

    def extremum(self, relation: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
            return super().extremum(relation, a, b)
        stays = self.logical_or(self.isnan(a), self.compare(f"{relation}=", a, b))
        return self.select(stays, a, b)

    def isinf(self, x: ScalarValue) -> ScalarValue:
        if not isinstance(x, ComplexValue):
            return super().isinf(x)
        return self.logical_or(super().isinf(x.re), super().isinf(x.im))

    def isfinite(self, x: ScalarValue) -> ScalarValue:
        if not isinstance(x, ComplexValue):
            return super().isfinite(x)
        return self.logical_and(super().isfinite(x.re), super().isfinite(x.im))

    def select(self, c: ScalarValue, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
            return super().select(c, a, b)
        return ComplexValue(super().select(c, a.re, b.re), super().select(c, a.im, b.im))

    # Conversion and memory

    def cast(self, x: ScalarValue, dtype: np.dtype[Any]) -> ScalarValue:
        if isinstance(x, ComplexValue):
            if dtype == _BOOL:
                return self.truth(x)
            if dtype.kind != "c":
                return super().cast(x.re, dtype)
            part = part_dtype(dtype)
            return ComplexValue(super().cast(x.re, part), super().cast(x.im, part))
        if dtype.kind == "c":
            part = part_dtype(dtype)
            return ComplexValue(super().cast(x, part), literal(0, part))
        return super().cast(x, dtype)

    def load(
        self, pointer: str, dtype: np.dtype[Any], is_canonical_bool: bool = True
    ) -> ScalarValue:
        if dtype.kind != "c":
            return super().load(pointer, dtype, is_canonical_bool)
        part = part_dtype(dtype)
        second = super().address(pointer, part, "1")
        return ComplexValue(super().load(pointer, part), super().load(second, part))

    def store(self, x: ScalarValue, pointer: str) -> None:
        if not isinstance(x, ComplexValue):
            super().store(x, pointer)
            return
        super().store(x.re, pointer)
        super().store(x.im, super().address(pointer, x.im.dtype, "1"))
