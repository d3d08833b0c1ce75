"""Straight-line LLVM IR text, written as Python arithmetic.

`x * 0.5 + y` appends two instructions to a `FunctionBody`; a Python number takes the type of the
expression it meets. Every operation ends in `FunctionBody.emit`.

Invariants:
1. No branch, no loop, no flag: vectors need the first two, the error bounds the third.
2. A comparison with NaN is false, so `select(x > limit, limit, x)` keeps NaN.
3. Integers are unsigned words: `>>` shifts in zeros, because AVX2 has no other 64-bit shift.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tracker.support.structs import record


@record(frozen=True)
class Format:
    """An IEEE format. `x + magic` has the integer part of a small x in its low bits."""

    type: str
    word: str
    suffix: str
    fraction: int
    bias: int

    @property
    def size(self) -> int:
        """In bits."""
        return 64 if self.word == "i64" else 32

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.fraction

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    def pattern(self, number: float) -> int:
        """The bits of `number` in this format."""
        if self.word == "i64":
            return int.from_bytes(struct.pack("<d", number), "little")
        return int.from_bytes(struct.pack("<f", number), "little")

    def literal(self, number: float) -> str:
        """LLVM writes a float constant as the bits of the double of the same value."""
        if self.word == "i32":
            (number,) = struct.unpack("<f", struct.pack("<f", number))
        return f"0x{DOUBLE.pattern(number):016X}"


DOUBLE = Format("double", "i64", "f64", 52, 1023)
FLOAT = Format("float", "i32", "f32", 23, 127)
FORMATS = {format.type: format for format in (DOUBLE, FLOAT)}
_MAX_HORNER_TERMS = 5  # coefficients of a polynomial; so few are added up in order everywhere


class FunctionBody:
    """The instructions of one function, the intrinsics they call and the constants they read.

    `precision` is the type whose accuracy is needed: "float" in a body that computes in double for
    float, and takes the shorter of two series. `straight`: the body is for straight-line code,
    where latency counts more than the number of instructions.
    """

    arguments: Sequence[MathValue]
    result: MathValue

    def __init__(self, format: Format, precision: str, straight: bool = False) -> None:
        self.format = format
        self.precision = precision
        self.straight = straight
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()
        self.constants: dict[str, str] = {}

    def emit(self, type: str, instruction: str) -> MathValue:
        value = MathValue(self, f"%v{len(self.lines)}", type)
        self.lines.append(f"  {value.name} = {instruction}")
        return value

    def constant(self, number: float, type: str | None = None) -> MathValue:
        """A literal."""
        type = type or self.format.type
        if type in FORMATS:
            return MathValue(self, FORMATS[type].literal(number), type)
        return MathValue(self, str(int(number)), type)

    def call(self, intrinsic: str, *arguments: MathValue) -> MathValue:
        """Call `llvm.<intrinsic>`, whose arguments and result have one type."""
        type = arguments[0].type
        name = f"@llvm.{intrinsic}.{FORMATS[type].suffix}"
        self.intrinsics.add(f"declare {type} {name}({', '.join([type] * len(arguments))})")
        return self.emit(type, f"call {type} {name}({', '.join(map(str, arguments))})")

    def load_word(self, table: str, data: bytes, offset: MathValue) -> MathValue:
        """8 bytes of a constant table at `offset`: in a loop, one lane of a gather."""
        escaped = "".join(f"\\{byte:02X}" for byte in data)
        array = f'[{len(data)} x i8] c"{escaped}"'
        self.constants[table] = f"@{table} = internal unnamed_addr constant {array}"
        address = self.emit("ptr", f"getelementptr inbounds i8, ptr @{table}, {offset}")
        return self.emit("i64", f"load i64, {address}, align 1")


class MathValue:
    """An SSA value or literal of a `FunctionBody`."""

    __slots__ = ("body", "name", "type")

    def __init__(self, body: FunctionBody, name: str, type: str) -> None:
        self.body = body
        self.name = name
        self.type = type

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def format(self) -> Format:
        return FORMATS[self.type]

    def like(self, operand: MathValue | float) -> MathValue:
        return operand if isinstance(operand, MathValue) else self.body.constant(operand, self.type)

    def _binary(self, floating: str, integer: str, other: MathValue | float) -> MathValue:
        opcode = floating if self.type in FORMATS else integer
        return self.body.emit(self.type, f"{opcode} {self}, {self.like(other).name}")

    def _compare(self, predicate: str, other: MathValue | float) -> MathValue:
        opcode = f"fcmp o{predicate}" if self.type in FORMATS else f"icmp s{predicate}"
        return self.body.emit("i1", f"{opcode} {self}, {self.like(other).name}")

    def __add__(self, other: MathValue | float) -> MathValue:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: MathValue | float) -> MathValue:
        return self._binary("fsub", "sub", other)

    def __mul__(self, other: MathValue | float) -> MathValue:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: MathValue | float) -> MathValue:
        return self._binary("fdiv", "", other)

    def __rsub__(self, other: float) -> MathValue:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> MathValue:
        return self.like(other) / self

    def __neg__(self) -> MathValue:
        return self.body.emit(self.type, f"fneg {self}")

    def __abs__(self) -> MathValue:
        return self.body.call("fabs", self)

    def __and__(self, other: MathValue | int) -> MathValue:
        return self._binary("", "and", other)

    def __or__(self, other: MathValue | int) -> MathValue:
        return self._binary("", "or", other)

    def __xor__(self, other: MathValue | int) -> MathValue:
        return self._binary("", "xor", other)

    def __lshift__(self, other: int) -> MathValue:
        return self._binary("", "shl", other)

    def __rshift__(self, other: int) -> MathValue:
        return self._binary("", "lshr", other)

    def __invert__(self) -> MathValue:
        return self ^ (1 if self.type == "i1" else -1)

    def __lt__(self, other: MathValue | float) -> MathValue:
        return self._compare("lt", other)

    def __gt__(self, other: MathValue | float) -> MathValue:
        return self._compare("gt", other)

    def __ge__(self, other: MathValue | float) -> MathValue:
        return self._compare("ge", other)

    def equals(self, other: MathValue | float) -> MathValue:
        opcode = "fcmp oeq" if self.type in FORMATS else "icmp eq"
        return self.body.emit("i1", f"{opcode} {self}, {self.like(other).name}")

    def is_nan(self) -> MathValue:
        return self.body.emit("i1", f"fcmp uno {self}, {self.name}")

    @property
    def bits(self) -> MathValue:
        word = self.format.word
        return self.body.emit(word, f"bitcast {self} to {word}")

    @property
    def as_float(self) -> MathValue:
        """The float with these bits."""
        type = "double" if self.type == "i64" else "float"
        return self.body.emit(type, f"bitcast {self} to {type}")


def fma(a: MathValue, b: MathValue | float, c: MathValue | float) -> MathValue:
    """`a * b + c`, rounded once."""
    return a.body.call("fma", a, a.like(b), a.like(c))


def select(condition: MathValue, yes: MathValue | float, no: MathValue | float) -> MathValue:
    if not isinstance(yes, MathValue):
        yes = no.like(yes) if isinstance(no, MathValue) else condition.body.constant(yes)
    return yes.body.emit(yes.type, f"select {condition}, {yes}, {yes.like(no)}")


def sqrt(x: MathValue) -> MathValue:
    return x.body.call("sqrt", x)


def round_even(x: MathValue) -> MathValue:
    return x.body.call("rint", x)


def copysign(magnitude: MathValue, sign: MathValue) -> MathValue:
    return magnitude.body.call("copysign", magnitude, sign)


def at_most(x: MathValue, limit: float) -> MathValue:
    """The smaller of the two, or NaN: one `minpd` on x86."""
    return select(x > limit, limit, x)


def at_least(x: MathValue, limit: float) -> MathValue:
    return select(x < limit, limit, x)


def fit(coefficients: str) -> tuple[float, ...]:
    """The coefficients of a polynomial, constant term first."""
    return tuple(map(float, coefficients.split()))


def polynomial(x: MathValue, coefficients: Sequence[float]) -> MathValue:
    """Horner's rule, constant term first: the fewest instructions, and loops hide its latency.
    Straight-line code evaluates all but the first two terms by Estrin's scheme, whose rounding is
    too far from the result to matter."""
    if x.body.straight and len(coefficients) > _MAX_HORNER_TERMS:
        result, coefficients = _estrin(x, coefficients[2:]), coefficients[:2]
    else:
        result, coefficients = x.like(coefficients[-1]), coefficients[:-1]
    for coefficient in reversed(coefficients):
        result = fma(result, x, coefficient)
    return result


def _estrin(x: MathValue, coefficients: Sequence[float]) -> MathValue:
    """Estrin's scheme: neighbouring terms are joined until one is left."""
    terms = [x.like(coefficient) for coefficient in coefficients]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [*(fma(x, high, low) for low, high in pairs), *odd]
        if len(terms) > 1:
            x = x * x
    return terms[0]


def two_sum(a: MathValue, b: MathValue) -> tuple[MathValue, MathValue]:
    """`a + b` as a rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: MathValue, b: MathValue) -> tuple[MathValue, MathValue]:
    """`two_sum` for `|a| >= |b|` or `a == 0`."""
    total = a + b
    return total, b - (total - a)


def two_product(a: MathValue, b: MathValue | float) -> tuple[MathValue, MathValue]:
    """`a * b` as a rounded product and its exact error."""
    product = a * b
    return product, fma(a, b, -product)


def divide_sums(high: MathValue, low: MathValue, bottom: MathValue, rest: MathValue) -> MathValue:
    """(high + low) / (bottom + rest), rounded once: one division, then one Newton step."""
    inverse = 1.0 / bottom
    result = high * inverse
    error = fma(-result, bottom, high) + fma(-result, rest, low)
    return fma(error, inverse, result)
