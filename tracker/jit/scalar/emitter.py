"""The emitter for every dtype: complex arithmetic over that of real numbers.

A complex number is a pair of registers, so loops over complex numbers are vectorised like any
other. Results are NumPy's: products by the definition, quotients scaled by the larger part of the
divisor (Smith's method).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.jit.scalar.complex_math import FUNCTIONS
from tracker.jit.scalar.integer_math import IntegerEmitter
from tracker.jit.scalar.values import ComplexValue, ScalarValue, literal, part_dtype

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)
_SMALL_POWER = 100  # below, NumPy multiplies


class Emitter(IntegerEmitter):
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
        return self._reciprocal_power(y, x) if count < 0 else y

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
            return self.integer_reciprocal(x)
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
        return FUNCTIONS[name](self, x)

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
