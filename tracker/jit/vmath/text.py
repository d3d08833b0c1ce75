"""Straight-line LLVM IR text, written as Python arithmetic.

Owns: `Format` (what a function must know about double or float), `Value` (one SSA value with
operators) and `Body` (the function being written). `x * 0.5 + y` appends two instructions; a Python
number takes the type of the value it meets. Start at `Body.emit`: everything ends there.

Invariants:
1. No branch, no loop, no flag: the loop vectoriser needs the first two, the error bounds the third.
2. A comparison with NaN is false, so `select(x > limit, limit, x)` keeps NaN.
3. Integers are unsigned words: `>>` shifts in zeros, because AVX2 has no other 64-bit shift.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tracker.support.structs import record


@record(frozen=True)
class Format:
    """One IEEE format. `magic` pushes the integer part of a small number into its low bits."""

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
_SHORT = 5  # coefficients of a polynomial; so few are added up in order everywhere


class Body:
    """The instructions of one function, the intrinsics they call and the constants they read.

    `precision` is the type whose accuracy will do. It is "float" in a body that computes in double
    for float, and picks the shorter of two series. A body is `straight` if it is to be over soon,
    though it take more instructions: nothing else hides how long one waits for the next.
    """

    result: Value

    def __init__(self, format: Format, precision: str, straight: bool = False) -> None:
        self.format = format
        self.precision = precision
        self.straight = straight
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()
        self.constants: dict[str, str] = {}

    def emit(self, type: str, instruction: str) -> Value:
        value = Value(self, f"%v{len(self.lines)}", type)
        self.lines.append(f"  {value.name} = {instruction}")
        return value

    def constant(self, number: float, type: str | None = None) -> Value:
        """A literal: the text of the number stands where a register name would."""
        type = type or self.format.type
        if type in FORMATS:
            return Value(self, FORMATS[type].literal(number), type)
        return Value(self, str(int(number)), type)

    def call(self, intrinsic: str, *arguments: Value) -> Value:
        """Call `llvm.<intrinsic>`, whose arguments and result have one type."""
        type = arguments[0].type
        name = f"@llvm.{intrinsic}.{FORMATS[type].suffix}"
        self.intrinsics.add(f"declare {type} {name}({', '.join([type] * len(arguments))})")
        return self.emit(type, f"call {type} {name}({', '.join(map(str, arguments))})")

    def word_at(self, table: str, data: bytes, offset: Value) -> Value:
        """The 8 bytes of a constant from `offset`: in a loop, one lane of a gather."""
        escaped = "".join(f"\\{byte:02X}" for byte in data)
        array = f'[{len(data)} x i8] c"{escaped}"'
        self.constants[table] = f"@{table} = internal unnamed_addr constant {array}"
        address = self.emit("ptr", f"getelementptr inbounds i8, ptr @{table}, {offset}")
        return self.emit("i64", f"load i64, {address}, align 1")


class Value:
    """One SSA value or literal of a `Body`."""

    __slots__ = ("body", "name", "type")

    def __init__(self, body: Body, name: str, type: str) -> None:
        self.body = body
        self.name = name
        self.type = type

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def format(self) -> Format:
        return FORMATS[self.type]

    def like(self, operand: Value | float) -> Value:
        return operand if isinstance(operand, Value) else self.body.constant(operand, self.type)

    def _binary(self, floating: str, integer: str, other: Value | float) -> Value:
        opcode = floating if self.type in FORMATS else integer
        return self.body.emit(self.type, f"{opcode} {self}, {self.like(other).name}")

    def _compare(self, predicate: str, other: Value | float) -> Value:
        opcode = f"fcmp o{predicate}" if self.type in FORMATS else f"icmp s{predicate}"
        return self.body.emit("i1", f"{opcode} {self}, {self.like(other).name}")

    def __add__(self, other: Value | float) -> Value:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("fsub", "sub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("fdiv", "", other)

    def __rsub__(self, other: float) -> Value:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self.body.emit(self.type, f"fneg {self}")

    def __abs__(self) -> Value:
        return self.body.call("fabs", self)

    def __and__(self, other: Value | int) -> Value:
        return self._binary("", "and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("", "or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("", "xor", other)

    def __lshift__(self, other: int) -> Value:
        return self._binary("", "shl", other)

    def __rshift__(self, other: int) -> Value:
        return self._binary("", "lshr", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type == "i1" else -1)

    def __lt__(self, other: Value | float) -> Value:
        return self._compare("lt", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compare("gt", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._compare("ge", other)

    def equals(self, other: Value | float) -> Value:
        opcode = "fcmp oeq" if self.type in FORMATS else "icmp eq"
        return self.body.emit("i1", f"{opcode} {self}, {self.like(other).name}")

    def is_nan(self) -> Value:
        return self.body.emit("i1", f"fcmp uno {self}, {self.name}")

    @property
    def bits(self) -> Value:
        word = self.format.word
        return self.body.emit(word, f"bitcast {self} to {word}")

    @property
    def number(self) -> Value:
        """The float whose bits this word is."""
        type = "double" if self.type == "i64" else "float"
        return self.body.emit(type, f"bitcast {self} to {type}")


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """`a * b + c`, rounded once."""
    return a.body.call("fma", a, a.like(b), a.like(c))


def select(condition: Value, yes: Value | float, no: Value | float) -> Value:
    if not isinstance(yes, Value):
        yes = no.like(yes) if isinstance(no, Value) else condition.body.constant(yes)
    return yes.body.emit(yes.type, f"select {condition}, {yes}, {yes.like(no)}")


def sqrt(x: Value) -> Value:
    return x.body.call("sqrt", x)


def round_even(x: Value) -> Value:
    return x.body.call("rint", x)


def copysign(magnitude: Value, sign: Value) -> Value:
    return magnitude.body.call("copysign", magnitude, sign)


def at_most(x: Value, limit: float) -> Value:
    """The smaller of the two, or NaN: one `minpd` on x86."""
    return select(x > limit, limit, x)


def at_least(x: Value, limit: float) -> Value:
    return select(x < limit, limit, x)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, constant term first: the fewest instructions, and loops hide its latency.
    Straight-line code adds up all but the first two terms by halves, whose rounding is too far
    from the result to show."""
    if x.body.straight and len(coefficients) > _SHORT:
        result, coefficients = _halved(x, coefficients[2:]), coefficients[:2]
    else:
        result, coefficients = x.like(coefficients[-1]), coefficients[:-1]
    for coefficient in reversed(coefficients):
        result = fma(result, x, coefficient)
    return result


def _halved(x: Value, coefficients: Sequence[float]) -> Value:
    """Estrin's scheme: neighbours are joined until one term is left."""
    terms = [x.like(coefficient) for coefficient in coefficients]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [*(fma(x, high, low) for low, high in pairs), *odd]
        if len(terms) > 1:
            x = x * x
    return terms[0]


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """`a + b` as a rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def quick_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """`two_sum` for `|a| >= |b|` or `a == 0`."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Value | float) -> tuple[Value, Value]:
    """`a * b` as a rounded product and its exact error."""
    product = a * b
    return product, fma(a, b, -product)


def quotient(high: Value, low: Value, bottom: Value, rest: Value) -> Value:
    """(high + low) / (bottom + rest), rounded once: one division, then one Newton step."""
    inverse = 1.0 / bottom
    result = high * inverse
    error = fma(-result, bottom, high) + fma(-result, rest, low)
    return fma(error, inverse, result)
