"""Replacements for BLAS and the allocator in exported code, as LLVM text.

Code that is linked without Python brings its own definitions of the external names that a plan may
call: plain loops, which the compiler vectorises, instead of the tuned library.

Invariant: each function means what its namesake means in the calls that plans make: row-major,
alpha 1, beta 0 (gemv: any beta), nothing conjugated. Routines (`jit/lapack`) make other calls: of
the library.
"""

from __future__ import annotations

import re

from tracker.jit.lapack.library_calls import NOT_TRANSPOSED, ROW_MAJOR, TRANSPOSED, call_blas
from tracker.jit.lapack.routine_writer import MatrixKind, RoutineWriter, internal_routine

_SUPPORT = {
    "tk.take": """declare noalias ptr @malloc(i64)
define noalias ptr @tk.take(i64 %size) {
  %p = call ptr @malloc(i64 %size)
  ret ptr %p
}""",
    "tk.give": """declare void @free(ptr)
define void @tk.give(ptr %p, i64 %size) {
  call void @free(ptr %p)
  ret void
}""",
    # would handle Python's signals: there is no Python
    "tk.pause": "define i64 @tk.pause(ptr %since) alwaysinline {\n  ret i64 0\n}",
}
_PRODUCT = re.compile(r"@cblas_([sdcz]gem[mv])\(")


def _function(
    kind: MatrixKind, symbol: str, parameters: str, result: str = "void"
) -> RoutineWriter:
    """A function with these parameters; INT and T stand for integers and factors."""
    factor = "ptr" if kind.is_complex else kind.real_type
    typed = parameters.replace("INT", kind.integer_type).replace("T ", f"{factor} ")
    return internal_routine(symbol, [typed], kind, result=result)


def _wide(c: RoutineWriter, *sizes: str) -> list[str]:
    """Sizes as i64."""
    if c.kind.integer_type == "i64":
        return list(sizes)
    return [c.let(f"sext i32 {size} to i64") for size in sizes]


def _distances(c: RoutineWriter, flag: str, lead: str) -> tuple[str, str]:
    """From a row to the next and from a column to the next, of a matrix that may be transposed."""
    flipped = c.let(f"icmp eq i32 {flag}, {TRANSPOSED}")
    return c.select(flipped, 1, lead), c.select(flipped, lead, 1)


def _gemm(kind: MatrixKind) -> str:
    """z[i, j] = sum_p x[i, p] y[p, j]: a step of p adds a multiple of a row of y to a row of z."""
    c = _function(
        kind,
        f"tk.plain.{kind.letter}gemm",
        "i32 %order, i32 %flipx, i32 %flipy, INT %m, INT %n, INT %k, T %alpha, ptr %x, INT %ldx, "
        "ptr %y, INT %ldy, T %beta, ptr noalias %z, INT %ldz",
    )
    m, n, k, ldx, ldy, ldz = _wide(c, "%m", "%n", "%k", "%ldx", "%ldy", "%ldz")
    (down_x, across_x), (down_y, across_y) = (
        _distances(c, "%flipx", ldx),
        _distances(c, "%flipy", ldy),
    )
    with c.loop(0, m) as i:
        z = c.address("%z", c.mul(i, ldz))
        with c.loop(0, n) as j:
            c.store(c.zero, z, j)
        with c.loop(0, k) as p:
            a = c.load("%x", c.add(c.mul(i, down_x), c.mul(p, across_x)))
            row = c.address("%y", c.mul(p, down_y))
            with c.loop(0, n) as j:
                product = c.multiply(a, c.load(row, c.mul(j, across_y)))
                c.store(c.plus(c.load(z, j), product), z, j)
    c.ret()
    return c.text()


def _gemv(kind: MatrixKind) -> str:
    """z[i] = beta z[i] + sum_p x[i, p] y[p]."""
    c = _function(
        kind,
        f"tk.plain.{kind.letter}gemv",
        "i32 %order, i32 %flip, INT %rows, INT %columns, T %alpha, ptr %x, INT %ldx, ptr %y, "
        "INT %stepy, T %beta, ptr noalias %z, INT %stepz",
    )
    rows, columns, lead, stepy, stepz = _wide(c, "%rows", "%columns", "%ldx", "%stepy", "%stepz")
    flipped = c.let(f"icmp eq i32 %flip, {TRANSPOSED}")
    down, across = _distances(c, "%flip", lead)
    m, k = c.select(flipped, columns, rows), c.select(flipped, rows, columns)
    kept = c.let(f"fcmp une {kind.real_type} %beta, 0.0")
    with c.loop(0, m) as i:
        total, row = c.variable(c.zero, c.element_type), c.address("%x", c.mul(i, down))
        with c.loop(0, k) as p:
            product = c.multiply(c.load(row, c.mul(p, across)), c.load("%y", c.mul(p, stepy)))
            added = f"fadd reassoc {c.element_type} {c.get(total)}, {product}"
            c.set(total, c.let(added))
        cell = c.address("%z", c.mul(i, stepz))
        before = c.select_element(kept, c.multiply("%beta", c.load(cell)), c.zero)
        c.store(c.plus(before, c.get(total)), cell)
    c.ret()
    return c.text()


def _gram(kind: MatrixKind) -> str:
    """A matrix times its own transpose, as a general product."""
    parameters = "ptr %a, ptr noalias %z, i64 %n, i64 %k, i64 %lead, i64 %flip"
    c = _function(kind, kind.symbol("gram"), parameters, "i64")
    flipped = c.compare("ne", "%flip", 0)
    flags = [
        c.let(f"select i1 {flipped}, i32 {one}, i32 {other}")
        for one, other in ((TRANSPOSED, NOT_TRANSPOSED), (NOT_TRANSPOSED, TRANSPOSED))
    ]
    sizes, operands = ("%n", "%n", "%k"), ("%a", "%lead", "%a", "%lead")
    values = ROW_MAJOR, *flags, *sizes, "1.0", *operands, "0.0", "%z", "%n"
    call_blas(c, "gemm", *values, symbol=f"tk.plain.{kind.letter}gemm")
    c.ret()
    return "\n".join([*c.declared, c.text()])


_PRODUCTS = {
    **{f"tk.plain.{letter}gemm": (_gemm, letter) for letter in "sdcz"},
    **{f"tk.plain.{letter}gemv": (_gemv, letter) for letter in "sd"},
    **{f"tk.{letter}gram": (_gram, letter) for letter in "sdcz"},
}


def with_plain_products(text: str) -> str:
    """A module that calls the products of this file instead of the library's."""
    return _PRODUCT.sub(r"@tk.plain.\1(", text)


def definitions(symbol: str, int_bits: int) -> dict[str, str]:
    """The text of each function that defines a name, by symbol; empty if there is none."""
    symbol = symbol.replace("cblas_", "tk.plain.")
    if symbol in _SUPPORT:
        return {symbol: _SUPPORT[symbol]}
    if symbol not in _PRODUCTS:
        return {}
    write, letter = _PRODUCTS[symbol]
    texts = {symbol: write(MatrixKind(letter, f"i{int_bits}"))}
    if write is _gram:
        texts |= definitions(f"tk.plain.{letter}gemm", int_bits)
    return texts
