"""A small writer of LLVM IR for routines that are loops over float64 matrices.

Owns: `Code`. Integers are i64, numbers are double; a value is the text of an SSA name or literal.
Counters of loops are phis; whatever else changes lives in a cell (an alloca, which LLVM turns into
registers).

Invariant: a routine is text only: the same for all processes, sizes are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager


class Code:
    """One function, `i64 @name(parameters)`, which returns 0 or that it failed. `first` is the
    number from which its metadata is counted, which are numbered in a module."""

    def __init__(
        self, name: str, parameters: Sequence[str], *, linkage: str = "", first: int = 0
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.linkage = linkage
        self.cells: list[str] = []
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.first = first
        self._loops = 0
        self._fresh = 0

    def text(self) -> str:
        head = f"define {self.linkage}i64 @{self.name}({', '.join(self.parameters)}) nounwind {{"
        return "\n".join([head, "entry:", *self.cells, *self.lines, "}", *self._plain_loops()])

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
        return self.let(f"{operation} contract double {a}, {b}")

    def less(self, a: str, b: str, c: str) -> str:
        """a - b * c."""
        return self.f("fsub", a, self.f("fmul", b, c))

    def call(self, kind: str, name: str, arguments: Sequence[str]) -> str:
        """Call a function; `arguments` are written with their types."""
        types = ", ".join(argument.split()[0] for argument in arguments)
        self.declared.add(f"declare {kind} @{name}({types})")
        if kind == "void":
            self.lines.append(f"  call void @{name}({', '.join(arguments)})")
            return ""
        return self.let(f"call {kind} @{name}({', '.join(arguments)})")

    # Memory

    def at(self, pointer: str, index: object) -> str:
        return self.let(f"getelementptr double, ptr {pointer}, i64 {index}")

    def load(self, pointer: str, index: object = 0, kind: str = "double") -> str:
        return self.let(f"load {kind}, ptr {self.at(pointer, index)}")

    def store(self, value: object, pointer: str, index: object = 0, kind: str = "double") -> None:
        self.lines.append(f"  store {kind} {value}, ptr {self.at(pointer, index)}")

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
            x = self.let(f"load double, ptr {self.entry(source, r, c, columns)}")
            self.lines.append(f"  store double {x}, ptr {self.entry(target, c, r, rows)}")


# Arguments of LAPACK -----------------------------------------------------------------------------


def letter(c: Code, text: str) -> str:
    """A character for LAPACK to read."""
    return c.cell(ord(text), "i8")


def ptr(name: str) -> str:
    return f"ptr {name}"


def status(c: Code, info: str, integer: str) -> str:
    """What LAPACK says, as 0 or 1."""
    found = c.let(f"load {integer}, ptr {info}")
    return c.let(f"zext i1 {c.let(f'icmp ne {integer} {found}, 0')} to i64")


def integer_cell(c: Code, value: str, integer: str) -> str:
    """An i64 as LAPACK reads it."""
    if integer == "i64":
        return c.cell(value)
    name = c.cell(0, "i32")
    c.lines.append(f"  store i32 {c.let(f'trunc i64 {value} to i32')}, ptr {name}")
    return name


def extents(c: Code, integer: str, sizes: Sequence[str]) -> list[str]:
    """Extents as BLAS takes them."""
    if integer == "i64":
        return [f"i64 {size}" for size in sizes]
    return [f"i32 {c.let(f'trunc i64 {size} to i32')}" for size in sizes]
