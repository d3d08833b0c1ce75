"""Calls of BLAS and LAPACK in a routine's text: CBLAS's constants, and arguments as both take them.

LAPACK takes every argument by address (`char_argument`, `integer_argument`, `failure_flag`), CBLAS
by value (`blas_integers`, `scalar_argument`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.lapack.routine_writer import RoutineWriter

ROW_MAJOR, COLUMN_MAJOR = 101, 102
NOT_TRANSPOSED, TRANSPOSED, ADJOINT = 111, 112, 113
UPPER, LOWER = 121, 122
NON_UNIT_DIAGONAL, UNIT_DIAGONAL = 131, 132
LEFT, RIGHT = 141, 142


def char_argument(c: RoutineWriter, text: str) -> str:
    """A character for LAPACK."""
    return c.variable(ord(text), "i8")


def ptr(name: str) -> str:
    return f"ptr {name}"


def failure_flag(c: RoutineWriter, info: str) -> str:
    """LAPACK's info as 0 or 1."""
    integer = c.kind.integer_type
    found = c.let(f"load {integer}, ptr {info}")
    return c.let(f"zext i1 {c.let(f'icmp ne {integer} {found}, 0')} to i64")


def integer_argument(c: RoutineWriter, value: str) -> str:
    """An i64 as LAPACK reads it."""
    if c.kind.integer_type == "i64":
        return c.variable(value)
    name = c.variable(0, "i32")
    c.emit(f"store i32 {c.let(f'trunc i64 {value} to i32')}, ptr {name}")
    return name


def load_integer(c: RoutineWriter, pointer: str, index: object) -> str:
    """One of LAPACK's integers, as i64."""
    found = c.load(pointer, index, c.kind.integer_type)
    return c.let(f"sext i32 {found} to i64") if c.kind.integer_type == "i32" else found


def blas_integers(c: RoutineWriter, sizes: Sequence[str]) -> list[str]:
    """Extents as BLAS takes them."""
    if c.kind.integer_type == "i64":
        return [f"i64 {size}" for size in sizes]
    return [f"i32 {c.let(f'trunc i64 {size} to i32')}" for size in sizes]


def scalar_argument(c: RoutineWriter, value: str) -> str:
    """A factor as BLAS takes it: complex ones by address."""
    if c.kind.is_complex:
        return f"ptr {c.variable(c.literal(value), c.element_type)}"
    return f"{c.element_type} {value}"


def gemm(c: RoutineWriter, shape: tuple[str, str, str], x: str, y: str, target: str) -> None:
    """target = x y, of m rows, n columns and k terms, all in row-major order."""
    m, n, k = blas_integers(c, shape)
    flags = [f"i32 {flag}" for flag in (ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED)]
    operands = [ptr(x), k, ptr(y), n, scalar_argument(c, "0.0"), ptr(target), n]
    c.call("void", c.kind.blas("gemm"), [*flags, m, n, k, scalar_argument(c, "1.0"), *operands])
