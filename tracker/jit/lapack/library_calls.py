"""Calls of BLAS and LAPACK in a routine's text: CBLAS's constants, and arguments as both take them.

LAPACK takes every argument by address (`char_argument`, `integer_argument`, `failure_flag`), CBLAS
by value, but for complex factors (`call_blas`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.lapack.routine_writer import RoutineWriter

ROW_MAJOR, COLUMN_MAJOR = 101, 102
NOT_TRANSPOSED, TRANSPOSED, ADJOINT = 111, 112, 113
UPPER, LOWER = 121, 122
NON_UNIT_DIAGONAL, UNIT_DIAGONAL = 131, 132
LEFT, RIGHT = 141, 142
# The arguments of CBLAS's functions: e a flag, i an extent, s a factor, p an address.
_BLAS_ARGUMENTS = {
    "gemm": "eeeiiispipispi",
    "gemv": "eeiispipispi",
    "syrk": "eeeiispispi",
    "trsm": "eeeeeiispipi",
    "trsv": "eeeeipipi",
}


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


def call_blas(c: RoutineWriter, name: str, *values: object, symbol: str = "") -> None:
    """Call a function of CBLAS, or one that takes the same arguments. Extents are i64, factors
    literals."""
    pairs = zip(_BLAS_ARGUMENTS[name], values, strict=True)
    arguments = [_blas_argument(c, kind, value) for kind, value in pairs]
    c.call("void", symbol or c.kind.blas(name), arguments)


def _blas_argument(c: RoutineWriter, kind: str, value: object) -> str:
    if kind == "i":
        narrow = c.kind.integer_type == "i32"
        return f"i32 {c.let(f'trunc i64 {value} to i32')}" if narrow else f"i64 {value}"
    if kind == "s" and not c.kind.is_complex:
        return f"{c.element_type} {value}"
    if kind == "s":
        return f"ptr {c.variable(c.literal(str(value)), c.element_type)}"
    return f"ptr {value}" if kind == "p" else f"i32 {value}"


def gemm(c: RoutineWriter, x: str, y: str, target: str, shape: Sequence[str] = ("%n",) * 3) -> None:
    """target = x y, of m rows, n columns and k terms, all in row-major order."""
    _, n, k = shape
    flags = ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED
    call_blas(c, "gemm", *flags, *shape, "1.0", x, k, y, n, "0.0", target, n)
