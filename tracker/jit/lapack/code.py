"""A small writer of LLVM IR for routines that are loops over matrices.

Owns: `Kind`, of what numbers a routine's matrices are; `Code`, the writer. Integers are i64; a
value is the text of an SSA name or literal. Counters of loops are phis; whatever else changes lives
in a cell (an alloca, which LLVM turns into registers).

One text serves real and complex matrices: a complex number is a vector of two, which LLVM adds and
subtracts as it does numbers; products, quotients and what else differs are methods (`times`,
`over`, `conj`, `size`), which write what is meant for real numbers, too. Sizes and pivots of
Hermitian matrices are real whatever the kind: `f` computes with these.

Invariant: a routine is text only: the same for all processes, sizes are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tracker.support.structs import record

SMALL = 24  # rows; beyond, LAPACK is faster than loops
_PARTS = {"s": "float", "d": "double", "c": "float", "z": "double"}


@record(frozen=True)
class Kind:
    """Of what numbers matrices are (BLAS's letter), and how wide the library's integers are."""

    letter: str
    integer: str = "i64"

    @property
    def is_complex(self) -> bool:
        return self.letter in "cz"

    @property
    def part(self) -> str:
        """The text of a real number."""
        return _PARTS[self.letter]

    @property
    def number(self) -> str:
        """The text of an element."""
        return f"<2 x {self.part}>" if self.is_complex else self.part

    @property
    def words(self) -> int:
        """How many words of 8 bytes an element of a factored matrix takes."""
        return 2 if self.letter == "z" else 1

    def symbol(self, name: str) -> str:
        """The name of a routine of ours."""
        return f"tk.{self.letter}{name}"

    def blas(self, name: str) -> str:
        return f"cblas_{self.letter}{name}"

    def lapack(self, name: str) -> str:
        return f"{self.letter}{name}_"


REAL = Kind("d")


class Code:
    """One function, `i64 @name(parameters)`, which returns 0 or that it failed. `first` is the
    number from which its metadata is counted, which are numbered in a module."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        kind: Kind = REAL,
        *,
        linkage: str = "",
        first: int = 0,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.kind = kind
        self.number = kind.number
        self.zero = "zeroinitializer" if kind.is_complex else "0.0"
        self.one = self.literal("1.0")
        self.linkage = linkage
        self.cells: list[str] = []
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.first = first
        self._loops = 0
        self._fresh = 0
        self._divides = False

    def text(self) -> str:
        head = f"define {self.linkage}i64 @{self.name}({', '.join(self.parameters)}) nounwind {{"
        lines = [head, "entry:", *self.cells, *self.lines, "}", *self._plain_loops()]
        return "\n".join([*lines, *([_QUOTIENT] if self._divides else [])])

    def _plain_loops(self) -> list[str]:
        """What the metadata of loops says: neither vectorise nor unroll. They are short, or LAPACK
        does the work; and a loop left as it is compiles ten times sooner."""
        if not self._loops:
            return []
        no_vectors, no_copies = self.first, self.first + 1
        loops = range(self.first + 2, self.first + 2 + self._loops)
        return [
            f'!{no_vectors} = !{{!"llvm.loop.vectorize.enable", i1 false}}',
            f'!{no_copies} = !{{!"llvm.loop.unroll.disable"}}',
            *(f"!{i} = distinct !{{!{i}, !{no_vectors}, !{no_copies}}}" for i in loops),
        ]

    # Values

    def tag(self) -> str:
        self._fresh += 1
        return str(self._fresh)

    def let(self, instruction: str) -> str:
        name = f"%v{self.tag()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def add(self, a: object, b: object) -> str:
        return self.let(f"add i64 {a}, {b}")

    def sub(self, a: object, b: object) -> str:
        return self.let(f"sub i64 {a}, {b}")

    def mul(self, a: object, b: object) -> str:
        return self.let(f"mul i64 {a}, {b}")

    def either(self, condition: str, a: object, b: object) -> str:
        return self.let(f"select i1 {condition}, i64 {a}, i64 {b}")

    def test(self, relation: str, a: object, b: object) -> str:
        """slt, sle, eq, ne ... of integers; olt, une ... of numbers."""
        kind = "fcmp" if relation[0] in "ou" and relation not in ("ult", "ule") else "icmp"
        return self.let(f"{kind} {relation} {'double' if kind == 'fcmp' else 'i64'} {a}, {b}")

    def f(self, operation: str, a: object, b: object) -> str:
        """Arithmetic of real numbers."""
        return self.let(f"{operation} contract {self.kind.part} {a}, {b}")

    # Elements of matrices

    def literal(self, value: str) -> str:
        if not self.kind.is_complex:
            return value
        return f"<{self.kind.part} {value}, {self.kind.part} 0.0>"

    def plus(self, a: object, b: object) -> str:
        return self.let(f"fadd contract {self.number} {a}, {b}")

    def minus(self, a: object, b: object) -> str:
        return self.let(f"fsub contract {self.number} {a}, {b}")

    def times(self, a: str, b: str) -> str:
        if not self.kind.is_complex:
            return self.let(f"fmul contract {self.number} {a}, {b}")
        flipped = self._shuffled(b, b, 1, 0)
        straight = self.let(f"fmul contract {self.number} {self._shuffled(a, a, 0, 0)}, {b}")
        crossed = self.let(f"fmul contract {self.number} {self._shuffled(a, a, 1, 1)}, {flipped}")
        return self._shuffled(self.minus(straight, crossed), self.plus(straight, crossed), 0, 3)

    def over(self, a: str, b: str) -> str:
        if not self.kind.is_complex:
            return self.let(f"fdiv contract {self.number} {a}, {b}")
        self._divides = True
        self.declared.add("declare double @llvm.fabs.f64(double)")
        return self.let(f"call {self.number} @tk.quotient({self.number} {a}, {self.number} {b})")

    def scaled(self, operation: str, a: str, real: str) -> str:
        """An element times ("fmul") or over ("fdiv") a real number."""
        both = real
        if self.kind.is_complex:
            both = self._element(real, real)
        return self.let(f"{operation} contract {self.number} {a}, {both}")

    def less(self, a: str, b: str, c: str) -> str:
        """a - b * c."""
        return self.minus(a, self.times(b, c))

    def conj(self, a: str) -> str:
        if not self.kind.is_complex:
            return a
        return self._shuffled(a, self.neg(a), 0, 3)

    def neg(self, a: str) -> str:
        return self.let(f"fneg {self.number} {a}")

    def real(self, a: str) -> str:
        return self.part(a, 0)

    def part(self, a: str, which: int) -> str:
        """The real or imaginary part."""
        if not self.kind.is_complex:
            return a
        return self.let(f"extractelement {self.number} {a}, i64 {which}")

    def element(self, real: str) -> str:
        """A real number as an element."""
        return self._element(real, "0.0") if self.kind.is_complex else real

    def size(self, a: str) -> str:
        """By which pivots are chosen: as LAPACK, the sum of the sizes of both parts."""
        if not self.kind.is_complex:
            return self._fabs(a)
        return self.f("fadd", *(self._fabs(self.part(a, i)) for i in (0, 1)))

    def absolute(self, a: str) -> str:
        if not self.kind.is_complex:
            return self._fabs(a)
        x, y = (self._fabs(self.part(a, i)) for i in (0, 1))
        wide = self.test("ogt", x, y)
        large, small = (
            self.let(f"select i1 {wide}, double {m}, double {n}") for m, n in ((x, y), (y, x))
        )
        ratio = self.f("fdiv", small, large)
        root = self.call(
            "double",
            "llvm.sqrt.f64",
            [f"double {self.f('fadd', '1.0', self.f('fmul', ratio, ratio))}"],
        )
        none = self.test("oeq", large, "0.0")
        return self.let(f"select i1 {none}, double 0.0, double {self.f('fmul', large, root)}")

    def direction(self, a: str, absolute: str) -> str:
        """The number of size one that a number has as its sign."""
        if self.kind.is_complex:
            return self.scaled("fdiv", a, absolute)
        return self.let(f"select i1 {self.test('olt', a, '0.0')}, double -1.0, double 1.0")

    def is_zero(self, a: str) -> str:
        if not self.kind.is_complex:
            return self.test("oeq", a, "0.0")
        return self.let(
            f"and i1 {self.test('oeq', self.part(a, 0), '0.0')}, "
            f"{self.test('oeq', self.part(a, 1), '0.0')}"
        )

    def pick(self, condition: str, a: str, b: str) -> str:
        return self.let(f"select i1 {condition}, {self.number} {a}, {self.number} {b}")

    def _fabs(self, a: str) -> str:
        return self.call("double", "llvm.fabs.f64", [f"double {a}"])

    def _element(self, real: str, imag: str) -> str:
        first = self.let(f"insertelement {self.number} poison, {self.kind.part} {real}, i64 0")
        return self.let(f"insertelement {self.number} {first}, {self.kind.part} {imag}, i64 1")

    def _shuffled(self, a: str, b: str, first: int, second: int) -> str:
        mask = f"<2 x i32> <i32 {first}, i32 {second}>"
        return self.let(f"shufflevector {self.number} {a}, {self.number} {b}, {mask}")

    def call(self, kind: str, name: str, arguments: Sequence[str]) -> str:
        """Call a function; `arguments` are written with their types."""
        types = ", ".join(argument.split()[0] for argument in arguments)
        self.declared.add(f"declare {kind} @{name}({types})")
        if kind == "void":
            self.lines.append(f"  call void @{name}({', '.join(arguments)})")
            return ""
        return self.let(f"call {kind} @{name}({', '.join(arguments)})")

    # Memory

    def at(self, pointer: str, index: object, kind: str = "") -> str:
        return self.let(f"getelementptr {kind or self.number}, ptr {pointer}, i64 {index}")

    def load(self, pointer: str, index: object = 0, kind: str = "") -> str:
        kind = kind or self.number
        return self.let(f"load {kind}, ptr {self.at(pointer, index, kind)}{_aligned(kind)}")

    def store(self, value: object, pointer: str, index: object = 0, kind: str = "") -> None:
        kind = kind or self.number
        at = self.at(pointer, index, kind)
        self.lines.append(f"  store {kind} {value}, ptr {at}{_aligned(kind)}")

    def cell(self, value: object, kind: str = "i64") -> str:
        """A variable."""
        name = f"%cell{self.tag()}"
        self.cells.append(f"  {name} = alloca {kind}")
        self.lines.append(f"  store {kind} {value}, ptr {name}")
        return name

    def get(self, cell: str, kind: str = "i64") -> str:
        return self.let(f"load {kind}, ptr {cell}")

    def set(self, cell: str, value: object, kind: str = "i64") -> None:
        self.lines.append(f"  store {kind} {value}, ptr {cell}")

    def entry(self, matrix: str, row: object, column: object, lead: object) -> str:
        """The address of an element: `row` counts in steps of `lead`."""
        return self.at(matrix, self.add(self.mul(row, lead), column))

    # Control

    def loop(self, first: object, last: object) -> AbstractContextManager[str]:
        """for i in range(first, last); LLVM leaves it as it is."""
        self._loops += 1
        return self.plain_loop(first, last, f", !llvm.loop !{self.first + 1 + self._loops}")

    @contextmanager
    def plain_loop(self, first: object, last: object, how: str = "") -> Iterator[str]:
        """The same, for LLVM to do with as it likes."""
        tag = self.tag()
        some = self.test("slt", first, last)
        self.lines += [
            f"  br i1 {some}, label %pre{tag}, label %done{tag}",
            f"pre{tag}:",
            f"  br label %loop{tag}",
            f"loop{tag}:",
            f"  %i{tag} = phi i64 [ {first}, %pre{tag} ], [ %n{tag}, %latch{tag} ]",
        ]
        yield f"%i{tag}"
        self.lines += [
            f"  br label %latch{tag}",
            f"latch{tag}:",
            f"  %n{tag} = add nsw i64 %i{tag}, 1",
            f"  %c{tag} = icmp slt i64 %n{tag}, {last}",
            f"  br i1 %c{tag}, label %loop{tag}, label %done{tag}{how}",
            f"done{tag}:",
        ]

    @contextmanager
    def down(self, first: object, last: object) -> Iterator[str]:
        """for i in reversed(range(first, last))."""
        top = self.sub(last, 1)
        with self.loop(0, self.sub(last, first)) as i:
            yield self.sub(top, i)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        tag = self.tag()
        self.lines += [f"  br i1 {condition}, label %then{tag}, label %past{tag}", f"then{tag}:"]
        yield
        self.lines += [f"  br label %past{tag}", f"past{tag}:"]

    def unless(self, condition: str) -> str:
        return self.let(f"xor i1 {condition}, true")

    def give(self, value: object = 0) -> None:
        self.lines.append(f"  ret i64 {value}")

    def leave_if(self, condition: str, value: object) -> None:
        """Return at once."""
        tag = self.tag()
        self.lines.append(f"  br i1 {condition}, label %leave{tag}, label %stay{tag}")
        self.lines += [f"leave{tag}:", f"  ret i64 {value}", f"stay{tag}:"]

    # Common loops

    def copy(self, source: str, target: str, count: object) -> None:
        with self.loop(0, count) as i:
            self.store(self.load(source, i), target, i)

    def transpose(self, source: str, target: str, rows: object, columns: object) -> None:
        """target[c, r] = source[r, c], both without gaps."""
        with self.loop(0, rows) as r, self.loop(0, columns) as c:
            self.store(self.load(self.entry(source, r, c, columns)), self.entry(target, c, r, rows))

    def conjugate(self, x: str, count: object) -> None:
        """In place."""
        if self.kind.is_complex:
            with self.loop(0, count) as i:
                self.store(self.conj(self.load(x, i)), x, i)


def _aligned(kind: str) -> str:
    """Complex numbers lie as their parts do."""
    return "" if kind[0] != "<" else ", align 4" if "float" in kind else ", align 8"


# a / b, scaled by the larger part of b.
_QUOTIENT = """
define internal <2 x double> @tk.quotient(<2 x double> %a, <2 x double> %b) nounwind {
  %re = extractelement <2 x double> %b, i64 0
  %im = extractelement <2 x double> %b, i64 1
  %wide = call double @llvm.fabs.f64(double %re)
  %high = call double @llvm.fabs.f64(double %im)
  %flat = fcmp oge double %wide, %high
  %large = select i1 %flat, double %re, double %im
  %small = select i1 %flat, double %im, double %re
  %ratio = fdiv double %small, %large
  %more = fmul double %small, %ratio
  %below = fadd double %large, %more
  %x = extractelement <2 x double> %a, i64 0
  %y = extractelement <2 x double> %a, i64 1
  %xr = fmul double %x, %ratio
  %yr = fmul double %y, %ratio
  %re.flat = fadd double %x, %yr
  %im.flat = fsub double %y, %xr
  %re.steep = fadd double %xr, %y
  %im.steep = fsub double %yr, %x
  %above.re = select i1 %flat, double %re.flat, double %re.steep
  %above.im = select i1 %flat, double %im.flat, double %im.steep
  %q.re = fdiv double %above.re, %below
  %q.im = fdiv double %above.im, %below
  %q = insertelement <2 x double> poison, double %q.re, i64 0
  %done = insertelement <2 x double> %q, double %q.im, i64 1
  ret <2 x double> %done
}
"""
