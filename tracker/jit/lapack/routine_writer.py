"""A writer of LLVM IR for routines that are loops over matrices.

One text serves real and complex matrices: a complex number is a vector of two, which LLVM adds and
subtracts like numbers; products, quotients and other operations that differ are methods
(`multiply`, `divide`, `conj`, `pivot_size`). Sizes and pivots of Hermitian matrices are real for
every kind: `real_op` computes with these.

Invariant: a routine's text is the same for all processes; sizes are arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.lapack.workspace_queries import LapackWorkspace

MAX_LOOP_ROWS = 24  # beyond, LAPACK is faster than loops
_REAL_TYPES = {"s": "float", "d": "double", "c": "float", "z": "double"}


@record(frozen=True)
class MatrixKind:
    """The numbers of a matrix (BLAS's letter), and the width of the library's integers."""

    letter: str
    integer_type: str = "i64"

    @property
    def is_complex(self) -> bool:
        return self.letter in "cz"

    @property
    def real_type(self) -> str:
        """The type of a real number."""
        return _REAL_TYPES[self.letter]

    @property
    def element_type(self) -> str:
        """The type of an element."""
        return f"<2 x {self.real_type}>" if self.is_complex else self.real_type

    @property
    def words_per_element(self) -> int:
        """Words of 8 bytes of an element of a factored matrix."""
        return 2 if self.letter == "z" else 1

    def symbol(self, name: str) -> str:
        """The name of a routine of ours."""
        return f"tk.{self.letter}{name}"

    def blas(self, name: str) -> str:
        return f"cblas_{self.letter}{name}"

    def lapack(self, name: str) -> str:
        return f"{self.letter}{name}_"


FLOAT64 = MatrixKind("d")


class RoutineWriter(FunctionWriter):
    """One function, `i64 @name(parameters)`, which returns 0, or another number if it failed."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        kind: MatrixKind = FLOAT64,
        *,
        linkage: str = "",
        result: str = "i64",
        attributes: str = "nounwind",
    ) -> None:
        super().__init__(name, parameters, linkage=linkage, result=result, attributes=attributes)
        self.kind = kind
        self.element_type = kind.element_type
        self.zero = "zeroinitializer" if kind.is_complex else "0.0"
        self.one = self.literal("1.0")
        self._uses_quotient = False

    def text(self) -> str:
        quotient = [_quotient_text()] if self._uses_quotient else []
        return "\n".join([super().text(), *quotient])

    def real_op(self, operation: str, a: object, b: object) -> str:
        """Arithmetic of real numbers."""
        return self.let(f"{operation} {self.kind.real_type} {a}, {b}")

    # Elements of matrices

    def literal(self, value: str) -> str:
        if not self.kind.is_complex:
            return value
        return f"<{self.kind.real_type} {value}, {self.kind.real_type} 0.0>"

    def plus(self, a: object, b: object) -> str:
        return self.let(f"fadd {self.element_type} {a}, {b}")

    def minus(self, a: object, b: object) -> str:
        return self.let(f"fsub {self.element_type} {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        if not self.kind.is_complex:
            return self.let(f"fmul {self.element_type} {a}, {b}")
        flipped = self._shuffled(b, b, 1, 0)
        straight = self.let(f"fmul {self.element_type} {self._shuffled(a, a, 0, 0)}, {b}")
        crossed = self.let(f"fmul {self.element_type} {self._shuffled(a, a, 1, 1)}, {flipped}")
        return self._shuffled(self.minus(straight, crossed), self.plus(straight, crossed), 0, 3)

    def divide(self, a: str, b: str) -> str:
        if not self.kind.is_complex:
            return self.let(f"fdiv {self.element_type} {a}, {b}")
        self._uses_quotient = True
        self.declared.add("declare double @llvm.fabs.f64(double)")
        return self.let(
            f"call {self.element_type} @tk.quotient("
            f"{self.element_type} {a}, {self.element_type} {b})"
        )

    def scale_by_real(self, operation: str, a: str, real: str) -> str:
        """An element times ("fmul") or over ("fdiv") a real number."""
        both = real
        if self.kind.is_complex:
            both = self.pair(real, real)
        return self.let(f"{operation} {self.element_type} {a}, {both}")

    def subtract_product(self, a: str, b: str, c: str) -> str:
        """a - b * c."""
        if not self.kind.is_complex:
            return self.multiply_add(self.neg(b), c, a)
        return self.minus(a, self.multiply(b, c))

    def conj(self, a: str) -> str:
        if not self.kind.is_complex:
            return a
        return self._shuffled(a, self.neg(a), 0, 3)

    def neg(self, a: str) -> str:
        return self.let(f"fneg {self.element_type} {a}")

    def real(self, a: str) -> str:
        return self.part(a, 0)

    def part(self, a: str, which: int) -> str:
        """The real or imaginary part."""
        if not self.kind.is_complex:
            return a
        return self.let(f"extractelement {self.element_type} {a}, i64 {which}")

    def element(self, real: str) -> str:
        """A real number as an element."""
        return self.pair(real, "0.0") if self.kind.is_complex else real

    def pivot_size(self, a: str) -> str:
        """The size by which pivots are chosen: as in LAPACK, the sum of the absolute values of both
        parts."""
        if not self.kind.is_complex:
            return self.fabs(a)
        return self.real_op("fadd", *(self.fabs(self.part(a, i)) for i in (0, 1)))

    def absolute(self, a: str) -> str:
        if not self.kind.is_complex:
            return self.fabs(a)
        x, y = (self.fabs(self.part(a, i)) for i in (0, 1))
        wide = self.compare("ogt", x, y)
        large, small = (
            self.let(f"select i1 {wide}, double {m}, double {n}") for m, n in ((x, y), (y, x))
        )
        ratio = self.real_op("fdiv", small, large)
        root = self.call(
            "double",
            "llvm.sqrt.f64",
            [f"double {self.real_op('fadd', '1.0', self.real_op('fmul', ratio, ratio))}"],
        )
        none = self.compare("oeq", large, "0.0")
        return self.let(f"select i1 {none}, double 0.0, double {self.real_op('fmul', large, root)}")

    def direction(self, a: str, absolute: str) -> str:
        """An element over its absolute value: its sign."""
        if self.kind.is_complex:
            return self.scale_by_real("fdiv", a, absolute)
        return self.let(f"select i1 {self.compare('olt', a, '0.0')}, double -1.0, double 1.0")

    def is_zero(self, a: str) -> str:
        if not self.kind.is_complex:
            return self.compare("oeq", a, "0.0")
        return self.let(
            f"and i1 {self.compare('oeq', self.part(a, 0), '0.0')}, "
            f"{self.compare('oeq', self.part(a, 1), '0.0')}"
        )

    def select_element(self, condition: str, a: str, b: str) -> str:
        return self.let(f"select i1 {condition}, {self.element_type} {a}, {self.element_type} {b}")

    def fabs(self, a: str) -> str:
        return self.call("double", "llvm.fabs.f64", [f"double {a}"])

    def pair(self, real: str, imag: str) -> str:
        """A complex number of its parts."""
        first = self.let(
            f"insertelement {self.element_type} poison, {self.kind.real_type} {real}, i64 0"
        )
        return self.let(
            f"insertelement {self.element_type} {first}, {self.kind.real_type} {imag}, i64 1"
        )

    def _shuffled(self, a: str, b: str, first: int, second: int) -> str:
        mask = f"<2 x i32> <i32 {first}, i32 {second}>"
        return self.let(f"shufflevector {self.element_type} {a}, {self.element_type} {b}, {mask}")

    def accumulate(self, cell: str, value: str) -> None:
        """Add a real number to a variable."""
        self.set(cell, self.real_op("fadd", self.get(cell), value))

    def entry_address(self, matrix: str, row: object, column: object, lead: object) -> str:
        """The address of an element; rows are `lead` apart."""
        return self.address(matrix, self.add(self.mul(row, lead), column))

    # Loops

    @contextmanager
    def loop_down(self, first: object, last: object) -> Iterator[str]:
        """for i in reversed(range(first, last))."""
        top = self.sub(last, 1)
        with self.loop(0, self.sub(last, first)) as i:
            yield self.sub(top, i)

    # Common loops

    def copy(self, source: str, target: str, count: object) -> None:
        with self.loop(0, count) as i:
            self.store(self.load(source, i), target, i)

    def transpose(self, source: str, target: str, rows: object, columns: object) -> None:
        """target[c, r] = source[r, c], both contiguous."""
        with self.loop(0, rows) as r, self.loop(0, columns) as c:
            self.store(
                self.load(self.entry_address(source, r, c, columns)),
                self.entry_address(target, c, r, rows),
            )

    def conjugate(self, x: str, count: object) -> None:
        """In place."""
        if self.kind.is_complex:
            with self.loop(0, count) as i:
                self.store(self.conj(self.load(x, i)), x, i)


RoutineBody = Callable[[RoutineWriter], str | None]
Scratch = Callable[..., tuple[int, int]]
WorkspaceQuery = Callable[..., "LapackWorkspace"]


@record(frozen=True)
class RoutineSpec:
    """A routine: the function that writes its text; its scratch by its sizes (elements of matrices,
    and real numbers); the query for LAPACK's workspace."""

    write: Callable[[MatrixKind], RoutineWriter]
    scratch: Scratch | None
    query: WorkspaceQuery | None


ROUTINES: dict[str, RoutineSpec] = {}


def routine(
    pointers: str,
    integers: str,
    aliased: str = "",
    *,
    scratch: Scratch | None = None,
    query: WorkspaceQuery | None = None,
) -> Callable[[RoutineBody], RoutineBody]:
    """Decorator of a function that writes the body of a routine, which has its name, and gives what
    the routine returns, if not 0; no pointer but `aliased` may alias another."""
    parameters = [f"ptr noalias %{x}" for x in pointers.split()]
    parameters += [f"ptr %{x}" for x in aliased.split()]
    parameters += [f"i64 %{x}" for x in integers.split()]

    def decorate(body: RoutineBody) -> RoutineBody:
        @functools.cache
        def write(kind: MatrixKind) -> RoutineWriter:
            c = RoutineWriter(kind.symbol(body.__name__), parameters, kind)
            c.ret(body(c) or 0)
            return c

        ROUTINES[body.__name__] = RoutineSpec(write, scratch, query)
        return body

    return decorate


def internal_routine(
    name: str, parameters: Sequence[str], kind: MatrixKind, *, result: str = "void"
) -> RoutineWriter:
    """A function for the module of its caller, without text."""
    return RoutineWriter(
        name, parameters, kind, linkage="internal ", result=result, attributes="noinline"
    )


def _quotient_text() -> str:
    """a / b, scaled by the larger part of b (Smith's method)."""
    pair = MatrixKind("z").element_type
    parameters = [f"{pair} %a", f"{pair} %b"]
    c = internal_routine("tk.quotient", parameters, MatrixKind("z"), result=pair)
    c.attributes = "nounwind"
    x, y, re, im = (c.part(z, at) for z in ("%a", "%b") for at in (0, 1))
    is_flat = c.compare("oge", c.fabs(re), c.fabs(im))

    def pick(a: str, b: str) -> str:
        return c.let(f"select i1 {is_flat}, double {a}, double {b}")

    def op(name: str, a: str, b: str) -> str:
        return c.let(f"{name} double {a}, {b}")

    large, small = pick(re, im), pick(im, re)
    ratio = op("fdiv", small, large)
    below = op("fadd", large, op("fmul", small, ratio))
    x_ratio, y_ratio = op("fmul", x, ratio), op("fmul", y, ratio)
    over = pick(op("fadd", x, y_ratio), op("fadd", x_ratio, y))
    beside = pick(op("fsub", y, x_ratio), op("fsub", y_ratio, x))
    c.ret(c.pair(op("fdiv", over, below), op("fdiv", beside, below)))
    return c.text()
