"""Operations on the bits of numbers: neighbours, exponents, divisors, counts.

Results are NumPy's, also for subnormal numbers, infinities and NaN, and for the least integer,
whose absolute value wraps around. A loop over the bits of an integer is a function of its own and
runs element by element, as NumPy's does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.scalar.real import RealEmitter
from tracker.jit.scalar.values import ScalarValue, llvm_type

_INT32 = np.dtype(np.int32)
# By the size of a float: the bits of its fraction, and the bias of its exponent.
_FORMATS = {4: (23, 127), 8: (52, 1023)}


class BitEmitter(RealEmitter):
    """The emitter with operations on bits."""

    # Floats

    def _to_bits(self, x: ScalarValue) -> ScalarValue:
        """The bits of a float, as an integer of its size."""
        size = x.dtype.itemsize
        return ScalarValue(self.write(f"bitcast {x} to i{8 * size}"), np.dtype(f"i{size}"))

    def _from_bits(self, bits: ScalarValue, dtype: np.dtype[Any]) -> ScalarValue:
        """The float with these bits."""
        return ScalarValue(self.write(f"bitcast {bits} to {llvm_type(dtype)}"), dtype)

    def next_after(self, x: ScalarValue, y: ScalarValue) -> ScalarValue:
        """The float beside x in the direction of y; y, where they are equal."""
        zero, bits = self.constant(0, x), self._to_bits(x)
        one = self.constant(1, bits)
        outwards = self._op("xor", self.compare("<", x, y), self.compare("<", x, zero))
        moved = self.select(outwards, self.add(bits, one), self.sub(bits, one))
        least = self._from_bits(self.literal(1, bits.dtype), x.dtype)
        away = self.select(
            self.compare("==", x, zero),
            self.intrinsic("copysign", least, y),
            self._from_bits(moved, x.dtype),
        )
        away = self.select(self.compare("==", x, y), y, away)
        lost = self.logical_or(self.isnan(x), self.isnan(y))
        return self.select(lost, self.add(x, y), away)

    def spacing(self, x: ScalarValue) -> ScalarValue:
        """The distance to the next float away from zero."""
        bits = self._to_bits(x)
        further = self._from_bits(self.add(bits, self.constant(1, bits)), x.dtype)
        least = self._from_bits(self.literal(1, bits.dtype), x.dtype)
        none = self.compare("==", x, self.constant(0, x))
        gap = self.select(none, least, self.sub(further, x))
        return self.select(self.isfinite(x), gap, self.constant(float("nan"), x))

    def frexp_exponent(self, x: ScalarValue) -> ScalarValue:
        """The n with x = m * 2**n and 1/2 <= |m| < 1; else 0."""
        fraction, bias = _FORMATS[x.dtype.itemsize]
        small = self.compare("<", self.abs(x), self.constant(2.0 ** (1 - bias), x))
        up = self.constant(2.0 ** (fraction + 1), x)
        bits = self._to_bits(self.select(small, self.mul(x, up), x))
        field = self._op("and", bits, self.constant((2 * bias + 1) << fraction, bits))
        shifted = self._op("lshr", field, self.constant(fraction, bits))
        n = self.sub(self.cast(shifted, _INT32), self.literal(bias - 1, _INT32))
        n = self.select(small, self.sub(n, self.literal(fraction + 1, _INT32)), n)
        plain = self.logical_and(self.isfinite(x), self.compare("!=", x, self.constant(0, x)))
        return self.select(plain, n, self.literal(0, _INT32))

    def ldexp(self, x: ScalarValue, n: ScalarValue) -> ScalarValue:
        """x * 2**n, rounded once: in three steps, of which only the last can round."""
        fraction, bias = _FORMATS[x.dtype.itemsize]
        up, down = 2.0**bias, 2.0 ** (1 - bias + fraction + 1)
        for _ in range(2):
            high = self.compare(">", n, self.constant(bias, n))
            low = self.compare("<", n, self.constant(1 - bias, n))
            factor = self.select(low, self.constant(down, x), self.constant(1, x))
            x = self.mul(x, self.select(high, self.constant(up, x), factor))
            raised = self.add(n, self.constant(bias - 1 - fraction - 1, n))
            lowered = self.sub(n, self.constant(bias, n))
            n = self.select(high, lowered, self.select(low, raised, n))
        n = self.select(self.compare(">", n, self.constant(bias, n)), self.constant(bias, n), n)
        least = self.constant(1 - bias, n)
        n = self.cast(self.select(self.compare("<", n, least), least, n), self._word_dtype(x))
        biased = self.add(n, self.constant(bias, n))
        return self.mul(
            x, self._from_bits(self._op("shl", biased, self.constant(fraction, n)), x.dtype)
        )

    def _word_dtype(self, x: ScalarValue) -> np.dtype[Any]:
        return np.dtype(f"i{x.dtype.itemsize}")

    # Integers

    def bit_count(self, x: ScalarValue) -> ScalarValue:
        """The number of set bits of the absolute value."""
        bits = 8 * x.dtype.itemsize
        self.needs.intrinsics.add(f"declare i{bits} @llvm.ctpop.i{bits}(i{bits})")
        return ScalarValue(self.write(f"call i{bits} @llvm.ctpop.i{bits}({self.abs(x)})"), x.dtype)

    def gcd(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The greatest common divisor; zero for two zeros."""
        return self._call_routine(_gcd, self.abs(a), self.abs(b))

    def lcm(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The least common multiple; zero, where one is zero."""
        a, b = self.abs(a), self.abs(b)
        divisor = self._call_routine(_gcd, a, b)
        none = self.compare("==", divisor, self.constant(0, a))
        safe = self.select(none, self.constant(1, a), divisor)
        return self.mul(self._op("udiv", a, safe), b)

    def integer_power(self, x: ScalarValue, n: ScalarValue) -> ScalarValue:
        """x**n for an unknown n >= 0, which wraps around."""
        return self._call_routine(_power, x, n)

    def _call_routine(
        self, routine: Callable[[str], FunctionWriter], a: ScalarValue, b: ScalarValue
    ) -> ScalarValue:
        kind = f"i{8 * a.dtype.itemsize}"
        function = routine(kind)
        self.needs.intrinsics.add(function.text())
        return ScalarValue(self.write(f"call {kind} @{function.name}({a}, {b})"), a.dtype)


def _gcd(kind: str) -> FunctionWriter:
    c = FunctionWriter(f"tk.gcd.{kind}", [f"{kind} %a", f"{kind} %b"], result=kind, attributes="")
    x, y = c.variable("%a", kind), c.variable("%b", kind)
    with c.repeat() as dividing:
        divisor, other = c.get(x), c.get(y)
        c.leave_if(c.let(f"icmp eq {kind} {divisor}, 0"), dividing)
        c.set(x, c.let(f"urem {kind} {other}, {divisor}"))
        c.set(y, divisor)
    c.ret(c.get(y))
    return c


def _power(kind: str) -> FunctionWriter:
    c = FunctionWriter(f"tk.power.{kind}", [f"{kind} %x", f"{kind} %n"], result=kind, attributes="")
    base, rest, power = c.variable("%x", kind), c.variable("%n", kind), c.variable(1, kind)
    with c.repeat() as squaring:
        b, n, y = c.get(base), c.get(rest), c.get(power)
        c.leave_if(c.let(f"icmp eq {kind} {n}, 0"), squaring)
        times, bit = c.let(f"mul {kind} {y}, {b}"), c.let(f"trunc {kind} {n} to i1")
        c.set(power, c.let(f"select i1 {bit}, {kind} {times}, {kind} {y}"))
        c.set(base, c.let(f"mul {kind} {b}, {b}"))
        c.set(rest, c.let(f"lshr {kind} {n}, 1"))
    c.ret(c.get(power))
    return c
