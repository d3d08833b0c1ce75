"""Division with remainder, shifts, and powers of integers.

Results are NumPy's, also where C leaves them open: division by zero, the least integer by -1,
shifts by more bits than there are. A remainder of floats is exact. In loops it is computed from the
quotient while the quotient is so small that its integers are floats; otherwise the loop is run
again with the C library's.
"""

from __future__ import annotations

import numpy as np

from tracker.jit.scalar.bits import BitEmitter
from tracker.jit.scalar.values import ScalarValue

_MAX_EXACT_QUOTIENT = {4: 2.0**22, 8: 2.0**51}  # by the size of the float


class IntegerEmitter(BitEmitter):
    """The emitter with division, shifts and integer powers."""

    def floor_divide(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The quotient rounded down; of integers, zero for a zero divisor."""
        if a.dtype.kind == "f":
            return self._floor_divide_floats(a, b)
        quotient, rest = self._quotient_and_remainder(a, b)
        if a.dtype.kind == "i":
            down = self._has_opposite_sign(rest, b)
            one = self.literal(1, a.dtype)
            quotient = self.select(down, self.sub(quotient, one), quotient)
        return quotient

    def remainder(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The remainder of `floor_divide`, with the sign of the divisor."""
        if a.dtype.kind == "f":
            return self._modulo(a, b)
        _, rest = self._quotient_and_remainder(a, b)
        if a.dtype.kind == "i":
            rest = self.select(self._has_opposite_sign(rest, b), self.add(rest, b), rest)
        return rest

    def fmod(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The remainder of C's division, with the sign of the dividend."""
        if a.dtype.kind != "f":
            return self._quotient_and_remainder(a, b)[1]
        if not self.far_flag:
            return self._op("frem", a, b)
        x, y = self.abs(a), self.abs(b)
        quotient = self.div(x, y)
        self.flag_far_arguments(quotient, _MAX_EXACT_QUOTIENT[a.dtype.itemsize])
        whole = self.intrinsic("trunc", quotient)
        zero = self.literal(0, a.dtype)
        rest = self.intrinsic("fma", self.neg(whole), y, x)
        # The quotient is rounded, and may be one too large or too small.
        rest = self.select(self.compare("<", rest, zero), self.add(rest, y), rest)
        rest = self.select(self.compare(">=", rest, y), self.sub(rest, y), rest)
        infinite = self.literal(float("inf"), a.dtype)
        kept = self.logical_and(self.compare("==", y, infinite), self.compare("<", x, infinite))
        return self.intrinsic("copysign", self.select(kept, x, rest), a)

    # Integers

    def _quotient_and_remainder(
        self, a: ScalarValue, b: ScalarValue
    ) -> tuple[ScalarValue, ScalarValue]:
        """Quotient and remainder as in C; both zero where the divisor is."""
        zero, one = self.literal(0, a.dtype), self.literal(1, a.dtype)
        none = self.compare("==", b, zero)
        sign = "s" if a.dtype.kind == "i" else "u"
        if sign == "u":
            safe = self.select(none, one, b)
            quotient, rest = self._op("udiv", a, safe), self._op("urem", a, safe)
        else:  # the least integer by -1 overflows
            minus = self.compare("==", b, self.literal(-1, a.dtype))
            safe = self.select(self.logical_or(none, minus), one, b)
            quotient = self.select(minus, self.neg(a), self._op("sdiv", a, safe))
            rest = self._op("srem", a, safe)
        return self.select(none, zero, quotient), self.select(none, zero, rest)

    def _has_opposite_sign(self, rest: ScalarValue, b: ScalarValue) -> ScalarValue:
        """Whether a remainder is nonzero and has not the sign of the divisor."""
        zero = self.literal(0, b.dtype)
        apart = self.compare("<", self._op("xor", rest, b), zero)
        return self.logical_and(apart, self.compare("!=", rest, zero))

    def integer_reciprocal(self, x: ScalarValue) -> ScalarValue:
        """One over an integer, rounded to zero; of zero, x86's conversion of an infinity."""
        one, zero = self.literal(1, x.dtype), self.literal(0, x.dtype)
        wide = x.dtype.kind == "i" and x.dtype.itemsize >= 4
        none = self.literal(np.iinfo(x.dtype).min, x.dtype) if wide else zero
        kept = self.select(self.compare("==", x, one), one, zero)
        if x.dtype.kind == "i":
            minus = self.literal(-1, x.dtype)
            kept = self.select(self.compare("==", x, minus), minus, kept)
        return self.select(self.compare("==", x, zero), none, kept)

    # Floats, as in NumPy's C code

    def _float_has_opposite_sign(self, rest: ScalarValue, b: ScalarValue) -> ScalarValue:
        """Whether a remainder is nonzero, not NaN, and has not the sign of the divisor."""
        zero = self.literal(0, b.dtype)
        low, high = self.compare("<", rest, zero), self.compare(">", rest, zero)
        below = self.compare("<", b, zero)
        return self.select(below, high, low)

    def _modulo(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        zero = self.literal(0, a.dtype)
        rest = self.fmod(a, b)
        turned = self.select(self._float_has_opposite_sign(rest, b), self.add(rest, b), rest)
        none = self.compare("==", rest, zero)
        return self.select(none, self.intrinsic("copysign", zero, b), turned)

    def _floor_divide_floats(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        zero, one = self.literal(0, a.dtype), self.literal(1, a.dtype)
        rest = self.fmod(a, b)
        exact = self.div(self.sub(a, rest), b)
        turned = self._float_has_opposite_sign(rest, b)
        exact = self.select(turned, self.sub(exact, one), exact)
        floor = self.intrinsic("floor", exact)
        off = self.compare(">", self.sub(exact, floor), self.literal(0.5, a.dtype))
        floor = self.select(off, self.add(floor, one), floor)
        nothing = self.intrinsic("copysign", zero, self.div(a, b))
        floor = self.select(self.compare("==", exact, zero), nothing, floor)
        return self.select(self.compare("==", b, zero), self.div(a, b), floor)

    # Shifts

    def left_shift(self, a: ScalarValue, by: ScalarValue) -> ScalarValue:
        """Zero for a shift by a negative number or by all bits or more."""
        return self._shifted("shl", a, by, self.literal(0, a.dtype))

    def right_shift(self, a: ScalarValue, by: ScalarValue) -> ScalarValue:
        """Likewise zero, or -1 of a negative number."""
        zero = self.literal(0, a.dtype)
        if a.dtype.kind == "u":
            return self._shifted("lshr", a, by, zero)
        gone = self.select(self.compare("<", a, zero), self.literal(-1, a.dtype), zero)
        return self._shifted("ashr", a, by, gone)

    def _shifted(
        self, word: str, a: ScalarValue, by: ScalarValue, beyond: ScalarValue
    ) -> ScalarValue:
        inside = self._is_shift_in_range(by)
        clamped = self.select(inside, by, self.literal(0, by.dtype))
        return self.select(inside, self._op(word, a, clamped), beyond)

    def _is_shift_in_range(self, by: ScalarValue) -> ScalarValue:
        limit = self.literal(8 * by.dtype.itemsize, by.dtype)
        inside = self.compare("<", by, limit)
        if by.dtype.kind == "u":
            return inside
        return self.logical_and(inside, self.compare(">=", by, self.literal(0, by.dtype)))

    # Powers

    def power(self, x: ScalarValue, n: ScalarValue) -> ScalarValue:
        if x.dtype.kind == "f":
            return super().power(x, n)
        return self.integer_power(x, n) if n.value is None else self.power_by_squaring(x, n.value)

    def power_by_squaring(self, x: ScalarValue, n: int) -> ScalarValue:
        """x**n for n >= 0, which wraps around."""
        result: ScalarValue | None = None
        while n:
            if n & 1:
                result = x if result is None else self.mul(result, x)
            n >>= 1
            x = self.mul(x, x) if n else x
        return self.literal(1, x.dtype) if result is None else result
