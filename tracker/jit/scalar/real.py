"""The emitter of real numbers, and the text of a module.

Invariants: an operation's operands have one dtype, the caller casts first; sums and
products in reductions carry `reassoc`, other arithmetic no flags: it has the bits of NumPy's, at
any optimisation level.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracker.jit import vmath
from tracker.jit.runtime import ufunc_loops
from tracker.jit.scalar.values import (
    ComplexValue,
    ModuleNeeds,
    ScalarValue,
    SsaNames,
    literal,
    llvm_type,
    memory_type,
    part_dtype,
)
from tracker.support.structs import field, record

_BOOL = np.dtype(bool)
_FLOAT_RELATIONS = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_INT_RELATIONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@record(eq=False)
class RealEmitter:
    """Writes instructions on real numbers into `lines`.

    `straight`: the code is not in a loop. `far_flag` names a byte in memory: functions with a
    version for near arguments are called in that version, and the byte is set where an argument is
    beyond its limit (`near_limits`); the caller then runs the loop again with general versions.
    `is_rare`: the loop hardly ever runs, and is to compile quickly.
    """

    lines: list[str]
    names: SsaNames
    needs: ModuleNeeds
    straight: bool = False
    far_flag: str = ""
    is_rare: bool = False
    near_limits: list[float] = field(default_factory=list)
    reassociate: bool = False

    def write(self, instruction: str) -> str:
        self.names.count += 1  # inline: this is the hot path of code generation
        name = f"%v{self.names.count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def _op(
        self, instruction: str, *xs: ScalarValue, dtype: np.dtype[Any] | None = None
    ) -> ScalarValue:
        operands = ", ".join(x.name for x in xs)
        text = llvm_type(xs[0].dtype)
        return ScalarValue(self.write(f"{instruction} {text} {operands}"), dtype or xs[0].dtype)

    def constant(self, value: Any, like: ScalarValue) -> ScalarValue:
        """A constant of the dtype of `like`."""
        return literal(value, like.dtype)

    def literal(self, value: Any, dtype: np.dtype[Any]) -> ScalarValue:
        return literal(value, dtype)

    # Arithmetic

    def add(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if _changes_nothing(b, -0.0):
            return a
        if _changes_nothing(a, -0.0):
            return b
        if a.dtype.kind == "f":
            return self._op("fadd reassoc" if self.reassociate else "fadd", a, b)
        if a.dtype == _BOOL:
            return self.logical_or(a, b)
        return self._op("add", a, b)

    def sub(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if _changes_nothing(b, 0.0):
            return a
        return self._op("fsub" if a.dtype.kind == "f" else "sub", a, b)

    def mul(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if a.dtype.kind == "f":
            return self._op("fmul reassoc" if self.reassociate else "fmul", a, b)
        if a.dtype == _BOOL:
            return self.logical_and(a, b)
        return self._op("mul", a, b)

    def div(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        return self._op("fdiv", a, b)

    def neg(self, x: ScalarValue) -> ScalarValue:
        if x.value is not None:
            return literal(-x.value, x.dtype)
        if x.dtype.kind == "f":
            return self._op("fneg", x)
        return self._op("sub", literal(0, x.dtype), x)

    def abs(self, x: ScalarValue) -> ScalarValue:
        if x.dtype.kind == "f":
            return self.intrinsic("fabs", x)
        if x.dtype.kind in "bu":
            return x
        return self.select(self.compare("<", x, literal(0, x.dtype)), self.neg(x), x)

    def sign(self, x: ScalarValue) -> ScalarValue:
        """-1, 0 or 1; NaN of NaN."""
        one, zero = literal(1, x.dtype), literal(0, x.dtype)
        side = self.select(
            self.compare("<", x, zero), literal(-1, x.dtype), self.select(self.isnan(x), x, zero)
        )
        return self.select(self.compare(">", x, zero), one, side)

    def power(self, x: ScalarValue, n: ScalarValue) -> ScalarValue:
        one = literal(1, x.dtype)
        if n.value in (1, 2, 3):
            return self._product([x] * int(n.value))
        if n.value in (-1, -2):
            return self._product([self.div(one, x)] * int(-n.value))
        if n.value in (0.5, 1.5, 2.5):
            return self._product([*[self.abs(x)] * int(n.value), self._half_power(x)])
        if n.value in (-0.5, -1.5, -2.5):
            whole = self._product([one, *[self.abs(x)] * int(-n.value)])
            return self.div(self.div(one, whole), self._half_power(x))
        return self.math("pow", x, n)

    def _product(self, factors: list[ScalarValue]) -> ScalarValue:
        """Each product rounds: with two or three, it is about as exact as pow, and much faster."""
        return functools.reduce(self.mul, factors)

    def _half_power(self, x: ScalarValue) -> ScalarValue:
        """The power of a half: unlike the root, 0.0 of -0.0 and infinite of -inf."""
        low = self.compare("==", x, literal(-math.inf, x.dtype))
        root = self.math("sqrt", self.add(x, literal(0.0, x.dtype)))
        return self.select(low, literal(math.inf, x.dtype), root)

    def extremum(self, relation: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """The greater (">") or lesser ("<"); NaN if either is NaN. In a reduction, any of two equal
        zeros: NumPy's choice differs from lane to lane, and telling them apart takes twice the
        time."""
        if a.dtype.kind == "f":
            name = "maximum" if relation == ">" else "minimum"
            return self.intrinsic(name, a, b, flags="nsz " if self.reassociate else "")
        return self.select(self.compare(relation, a, b), a, b)

    def math(self, name: str, *xs: ScalarValue) -> ScalarValue:
        """A function of `vmath`."""
        text = llvm_type(xs[0].dtype)
        if self.far_flag and vmath.has_near_version(name):
            quick = f"{name}_near"
            self.flag_far_arguments(xs[0], vmath.RANGE_LIMIT[quick][text])
            name = quick
        if self.straight:
            self.needs.calls[name, text] += 1
            symbol = vmath.straight_symbol(name, text)
        elif self.is_rare and vmath.has_near_version(name):
            self.needs.general_calls.add((name, text))
            symbol = vmath.general_symbol(name, text)
        else:
            self.needs.math.add((name, text))
            symbol = vmath.symbol(name, text)
        arguments = ", ".join(map(str, xs))
        return ScalarValue(self.write(f"call {text} {symbol}({arguments})"), xs[0].dtype)

    def call_ufunc(self, ufunc: np.ufunc, at: int, *xs: ScalarValue) -> ScalarValue:
        """Result number `at` of a ufunc, by its own inner loop."""
        loop = ufunc_loops.find(ufunc, [x.dtype for x in xs])
        self.needs.ufunc_loops.add(loop)
        parts = [
            part for x in xs for part in ((x.re, x.im) if isinstance(x, ComplexValue) else (x,))
        ]
        arguments = ", ".join(map(str, parts))
        results = self.write(f"call {loop.return_type} @{loop.symbol}.one({arguments})")
        dtype = np.dtype(loop.results[at])
        found = [
            ScalarValue(
                self.write(f"extractvalue {loop.return_type} {results}, {n}"), part_dtype(dtype)
            )
            for n in loop.result_registers(at)
        ]
        return ComplexValue(*found) if dtype.kind == "c" else found[0]

    def flag_far_arguments(self, x: ScalarValue, limit: float) -> None:
        """Set the far flag where |x| is beyond the limit."""
        self.near_limits.append(limit)
        far = self.compare(">", self.abs(x), self.constant(limit, x))
        byte = self.write(f"zext i1 {far.name} to i8")
        known = self.write(f"load i8, ptr {self.far_flag}")
        self.lines.append(f"  store i8 {self.write(f'or i8 {known}, {byte}')}, ptr {self.far_flag}")

    def intrinsic(self, name: str, *xs: ScalarValue, flags: str = "") -> ScalarValue:
        """An LLVM intrinsic on floating-point operands."""
        text = llvm_type(xs[0].dtype)
        symbol = f"@llvm.{name}.f{32 if text == 'float' else 64}"
        self.needs.intrinsics.add(f"declare {text} {symbol}({', '.join([text] * len(xs))})")
        arguments = ", ".join(map(str, xs))
        return ScalarValue(self.write(f"call {flags}{text} {symbol}({arguments})"), xs[0].dtype)

    # Logic

    def compare(self, relation: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if a.dtype.kind == "f":
            return self._op(f"fcmp {_FLOAT_RELATIONS[relation]}", a, b, dtype=_BOOL)
        if a.dtype.kind != b.dtype.kind and "i" in a.dtype.kind + b.dtype.kind:
            return self._compare_signs(relation, a, b)
        kind = _INT_RELATIONS[relation]
        if kind not in ("eq", "ne"):
            kind = ("s" if a.dtype.kind == "i" else "u") + kind
        return self._op(f"icmp {kind}", a, b, dtype=_BOOL)

    def _compare_signs(self, relation: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        """A comparison of a signed with an unsigned integer of 64 bits."""
        signed, unsigned = (a, b) if a.dtype.kind == "i" else (b, a)
        wide = ScalarValue(signed.name, unsigned.dtype, signed.value)
        usual = self.compare(relation, *((wide, b) if signed is a else (a, wide)))
        less = relation in (("<", "<=", "!=") if signed is a else (">", ">=", "!="))
        negative = self.compare("<", signed, literal(0, signed.dtype))
        return self.select(negative, literal(less, _BOOL), usual)

    def isnan(self, x: ScalarValue) -> ScalarValue:
        return self.compare("!=", x, x)

    def isinf(self, x: ScalarValue) -> ScalarValue:
        if x.dtype.kind != "f":
            return literal(False, _BOOL)
        return self.compare("==", self.abs(x), literal(float("inf"), x.dtype))

    def isfinite(self, x: ScalarValue) -> ScalarValue:
        if x.dtype.kind != "f":
            return literal(True, _BOOL)
        return self.compare("<", self.abs(x), literal(float("inf"), x.dtype))

    def order_key(self, x: ScalarValue, zeros: bool = False) -> ScalarValue:
        """An unsigned integer of the same size and order; the greatest for NaN. `zeros`: a negative
        zero is less than a positive one."""
        bits, word = 8 * x.dtype.itemsize, np.dtype(f"u{x.dtype.itemsize}")
        if x.dtype.kind in "bu":
            return self.cast(x, word)
        if x.dtype.kind == "i":
            return ScalarValue(self.write(f"xor {x}, {-(2 ** (bits - 1))}"), word)
        zero = literal(0, x.dtype)
        x = x if zeros else self.select(self.compare("==", x, zero), zero, x)
        raw = self.write(f"bitcast {x} to i{bits}")
        sign = self.write(f"ashr i{bits} {raw}, {bits - 1}")
        turn = self.write(f"or i{bits} {sign}, {-(2 ** (bits - 1))}")
        key = ScalarValue(self.write(f"xor i{bits} {raw}, {turn}"), word)
        return self.select(self.isnan(x), literal(2**bits - 1, word), key)

    def from_order_key(self, key: ScalarValue, dtype: np.dtype[Any]) -> ScalarValue:
        """The number that has this key, which tells zeros apart."""
        if dtype.kind in "bu":
            return self.cast(key, dtype)
        text = f"i{8 * dtype.itemsize}"
        top = -(2 ** (8 * dtype.itemsize - 1))
        turned = self.write(f"xor {text} {key.name}, {top}")
        if dtype.kind == "i":
            return ScalarValue(turned, dtype)
        positive = self.write(f"icmp slt {text} {key.name}, 0")
        inverse = self.write(f"xor {text} {key.name}, -1")
        bits = self.write(f"select i1 {positive}, {text} {turned}, {text} {inverse}")
        return ScalarValue(self.write(f"bitcast {text} {bits} to {llvm_type(dtype)}"), dtype)

    def imag(self, x: ScalarValue) -> ScalarValue:
        return literal(0, x.dtype)

    def rounded(self, name: str, x: ScalarValue) -> ScalarValue:
        """An intrinsic that rounds; integers stay."""
        return self.intrinsic(name, x) if x.dtype.kind == "f" else x

    def truth(self, x: ScalarValue) -> ScalarValue:
        return x if x.dtype == _BOOL else self.compare("!=", x, literal(0, x.dtype))

    def logical_and(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        return self._op("and", a, b)

    def logical_or(self, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        return self._op("or", a, b)

    def bitwise(self, name: str, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        return self._op(name, a, b)

    def invert(self, x: ScalarValue) -> ScalarValue:
        return self._op("xor", x, literal(1 if x.dtype == _BOOL else -1, x.dtype))

    def select(self, c: ScalarValue, a: ScalarValue, b: ScalarValue) -> ScalarValue:
        if c.value is not None:
            return a if c.value else b
        return ScalarValue(self.write(f"select i1 {c.name}, {a}, {b}"), a.dtype)

    # Conversion

    def cast(self, x: ScalarValue, dtype: np.dtype[Any]) -> ScalarValue:
        """A dtype conversion with NumPy's meaning."""
        have = x.dtype
        if have == dtype:
            return x
        if x.value is not None:
            return literal(x.value, dtype)
        if dtype == _BOOL:
            return self.truth(x)
        to = llvm_type(dtype)
        if have.kind == "f":
            if dtype.kind == "f":
                word = "fpext" if dtype.itemsize > have.itemsize else "fptrunc"
            else:
                return self._truncated(x, dtype)
        elif dtype.kind == "f":
            word = "sitofp" if have.kind == "i" else "uitofp"
        elif have == _BOOL or dtype.itemsize > have.itemsize:
            word = "sext" if have.kind == "i" else "zext"
        elif dtype.itemsize < have.itemsize:
            word = "trunc"
        else:
            return ScalarValue(x.name, dtype)
        return ScalarValue(self.write(f"{word} {x} to {to}"), dtype)

    def _truncated(self, x: ScalarValue, dtype: np.dtype[Any]) -> ScalarValue:
        """A float as an integer. Beyond the range of an unsigned integer the result is NumPy's:
        short ones are truncated from 32 bits, long ones are the signed integer of their width,
        moved by half of the range where they are beyond its middle."""
        to = llvm_type(dtype)
        if dtype.kind == "i":
            return ScalarValue(self.write(f"fptosi {x} to {to}"), dtype)
        if dtype.itemsize < 4:
            whole = self.write(f"fptosi {x} to i32")
            return ScalarValue(self.write(f"trunc i32 {whole} to {to}"), dtype)
        middle = 2 ** (8 * dtype.itemsize - 1)
        below = self.write(f"fptosi {x} to {to}")
        rest = self.sub(x, literal(float(middle), x.dtype))
        above = self.write(f"xor {to} {self.write(f'fptosi {rest} to {to}')}, {-middle}")
        is_above = self.compare(">=", x, literal(float(middle), x.dtype))
        return ScalarValue(
            self.write(f"select i1 {is_above.name}, {to} {above}, {to} {below}"), dtype
        )

    # Memory

    def load(
        self, pointer: str, dtype: np.dtype[Any], is_canonical_bool: bool = True
    ) -> ScalarValue:
        """`is_canonical_bool`: a bool's byte is 0 or 1, because our code wrote it (users have
        others, such as those of `int8s.view(bool)`, which are true)."""
        text = memory_type(dtype)
        name = self.write(f"load {text}, ptr {pointer}, align {dtype.itemsize}")
        if dtype == _BOOL:
            test = f"trunc i8 {name} to i1" if is_canonical_bool else f"icmp ne i8 {name}, 0"
            return ScalarValue(self.write(test), dtype)
        return ScalarValue(name, dtype)

    def store(self, x: ScalarValue, pointer: str) -> None:
        if x.dtype == _BOOL:
            byte = self.write(f"zext i1 {x.name} to i8")
            self.lines.append(f"  store i8 {byte}, ptr {pointer}, align 1")
            return
        self.lines.append(f"  store {x}, ptr {pointer}, align {x.dtype.itemsize}")

    def address(self, base: str, dtype: np.dtype[Any], index: str) -> str:
        if index == "0":
            return base
        return self.write(f"getelementptr inbounds {memory_type(dtype)}, ptr {base}, i64 {index}")


def _changes_nothing(x: ScalarValue, zero: float) -> bool:
    """Whether a number is a literal zero, of floats the one of this sign."""
    if x.value is None or x.value != 0 or x.dtype.kind not in "fiu":
        return False
    return x.dtype.kind != "f" or math.copysign(1.0, x.value) == math.copysign(1.0, zero)


def module_text(functions: Iterable[str], needs: ModuleNeeds) -> str:
    """A module: declarations, tables, the math functions it calls, its functions."""
    declared = sorted(
        needs.intrinsics | vmath.intrinsics(needs.math, needs.calls, needs.general_calls)
    )
    tables = [f"{name} = internal constant {text}, align 64" for text, name in needs.tables.items()]
    return "\n".join(
        [
            *declared,
            *tables,
            vmath.definitions(needs.math, needs.calls, needs.general_calls),
            *ufunc_loops.definitions(needs.ufunc_loops),
            *functions,
        ]
    )
