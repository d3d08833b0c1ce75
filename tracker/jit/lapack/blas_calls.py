"""Calls of BLAS and LAPACK in a routine's text: the names of CBLAS, and arguments as they are read.

Owns: CBLAS's numbers for orders, sides, halves and what is done to a matrix; `extents` and `factor`
for BLAS; `letter`, `integer_cell`, `status` for LAPACK, which takes everything by address;
`multiply`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.lapack.code import Code

ROWS, COLUMNS = 101, 102
PLAIN, TURNED, ADJOINT = 111, 112, 113
UPPER, LOWER = 121, 122
ANY_DIAGONAL, UNIT_DIAGONAL = 131, 132
LEFT, RIGHT = 141, 142


def letter(c: Code, text: str) -> str:
    """A character for LAPACK to read."""
    return c.cell(ord(text), "i8")


def ptr(name: str) -> str:
    return f"ptr {name}"


def status(c: Code, info: str) -> str:
    """What LAPACK says, as 0 or 1."""
    integer = c.kind.integer
    found = c.let(f"load {integer}, ptr {info}")
    return c.let(f"zext i1 {c.let(f'icmp ne {integer} {found}, 0')} to i64")


def integer_cell(c: Code, value: str) -> str:
    """An i64 as LAPACK reads it."""
    if c.kind.integer == "i64":
        return c.cell(value)
    name = c.cell(0, "i32")
    c.lines.append(f"  store i32 {c.let(f'trunc i64 {value} to i32')}, ptr {name}")
    return name


def lapack_integer(c: Code, pointer: str, index: object) -> str:
    """One of LAPACK's integers, as i64."""
    found = c.load(pointer, index, c.kind.integer)
    return c.let(f"sext i32 {found} to i64") if c.kind.integer == "i32" else found


def extents(c: Code, sizes: Sequence[str]) -> list[str]:
    """Extents as BLAS takes them."""
    if c.kind.integer == "i64":
        return [f"i64 {size}" for size in sizes]
    return [f"i32 {c.let(f'trunc i64 {size} to i32')}" for size in sizes]


def factor(c: Code, value: str) -> str:
    """A factor as BLAS takes it: complex ones by address."""
    if c.kind.is_complex:
        return f"ptr {c.cell(c.literal(value), c.number)}"
    return f"{c.number} {value}"


def multiply(c: Code, shape: tuple[str, str, str], x: str, y: str, target: str) -> None:
    """target = x y, of m rows, n columns and k terms, all by rows."""
    m, n, k = extents(c, shape)
    flags = [f"i32 {flag}" for flag in (ROWS, PLAIN, PLAIN)]
    operands = [ptr(x), k, ptr(y), n, factor(c, "0.0"), ptr(target), n]
    c.call("void", c.kind.blas("gemm"), [*flags, m, n, k, factor(c, "1.0"), *operands])
