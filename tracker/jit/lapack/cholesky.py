"""Cholesky factors and Gram matrices.

Small matrices are worked on in loops: a call of LAPACK costs more than they do.
"""

from __future__ import annotations

from tracker.jit.lapack.library_calls import (
    ADJOINT,
    LOWER,
    NON_UNIT_DIAGONAL,
    NOT_TRANSPOSED,
    RIGHT,
    ROW_MAJOR,
    TRANSPOSED,
    call_blas,
    char_argument,
    failure_flag,
    integer_argument,
    ptr,
)
from tracker.jit.lapack.routine_writer import MAX_LOOP_ROWS, RoutineWriter, routine


@routine("a out", "n", "work")
def cholesky(c: RoutineWriter) -> str:
    """The lower factor; 1 where the matrix is not positive definite. The upper half is not read."""
    with c.loop(0, "%n") as i:
        with c.loop(0, i) as j:
            c.store(c.load(c.entry_address("%a", i, j, "%n")), c.entry_address("%out", i, j, "%n"))
        pivot = c.real(c.load(c.entry_address("%a", i, i, "%n")))
        c.store(c.element(pivot), c.entry_address("%out", i, i, "%n"))
        with c.loop(c.add(i, 1), "%n") as j:
            c.store(c.zero, c.entry_address("%out", i, j, "%n"))
    with c.when(c.compare("sgt", "%n", MAX_LOOP_ROWS)):
        upper = char_argument(c, "U")  # in row-major order it is the lower factor
        size, info = integer_argument(c, "%n"), c.variable(0)
        c.call(
            "void", c.kind.lapack("potrf"), [*map(ptr, (upper, size, "%out", size, info)), "i64 1"]
        )
        c.leave(failure_flag(c, info))
    failed = c.variable(0)
    with c.loop(0, "%n") as j:
        row = c.address("%out", c.mul(j, "%n"))
        pivot = c.real(_subtract_products(c, row, row, j, c.load(row, j)))
        bad = c.let(f"fcmp ule double {pivot}, 0.0")
        c.set(failed, c.select(bad, 1, c.get(failed)))
        root = c.call("double", "llvm.sqrt.f64", [f"double {pivot}"])
        c.store(c.element(root), row, j)
        with c.loop(c.add(j, 1), "%n") as i:
            other = c.address("%out", c.mul(i, "%n"))
            x = _subtract_products(c, other, row, j, c.load(other, j))
            c.store(c.scale_by_real("fdiv", x, root), other, j)
    return c.get(failed)


def _subtract_products(c: RoutineWriter, x: str, y: str, count: str, start: str) -> str:
    """start - sum of x[k] * conj(y[k])."""
    total = c.variable(start, c.element_type)
    with c.loop(0, count) as k:
        c.set(
            total,
            c.subtract_product(c.get(total), c.load(x, k), c.conj(c.load(y, k))),
        )
    return c.get(total)


@routine("a x", "n k lead flip")
def gram(c: RoutineWriter) -> None:
    """a a^T for n rows of k numbers, `%lead` apart (`%flip`: a^T a); one half is computed."""
    transposed = c.compare("ne", "%flip", 0)
    trans = c.let(f"select i1 {transposed}, i32 {TRANSPOSED}, i32 {NOT_TRANSPOSED}")
    sizes, flags = ("%n", "%k"), (ROW_MAJOR, LOWER, trans)
    call_blas(c, "syrk", *flags, *sizes, "1.0", "%a", "%lead", "0.0", "%x", "%n")
    with c.loop(0, "%n") as i, c.loop(0, i) as j:
        c.store(c.load(c.entry_address("%x", i, j, "%n")), c.entry_address("%x", j, i, "%n"))


_BLOCK_ROWS = 32  # rows


@routine("l g x work", "n", scratch=lambda n: (min(n, _BLOCK_ROWS) ** 2, 0))
def cholesky_pull(c: RoutineWriter) -> None:
    """The pullback of the factor L: from a cotangent (whose lower half is read) to that of the
    matrix, in its lower half. I. Murray (2016), the blocked algorithm of section 5, with adjoints
    for his transposes."""
    c.copy("%g", "%x", c.mul("%n", "%n"))
    blocks = c.let(f"udiv i64 {c.add('%n', _BLOCK_ROWS - 1)}, {_BLOCK_ROWS}")
    with c.loop_down(0, blocks) as block:
        j = c.mul(block, _BLOCK_ROWS)
        left = c.sub("%n", j)
        size = c.select(c.compare("slt", left, _BLOCK_ROWS), left, _BLOCK_ROWS)
        k = c.add(j, size)
        rest = c.sub("%n", k)
        row, below = c.mul(j, "%n"), c.mul(k, "%n")
        d, dx = (c.address(m, c.add(row, j)) for m in ("%l", "%x"))

        def subtract(
            trans: int, shape: tuple[str, str, str], a: str, b: str, at: str, lead: str = "%n"
        ) -> None:
            """%x[at:] -= op(a) b, of m rows, n columns, k terms; rows of `a` are `lead` apart."""
            flags, target = (ROW_MAJOR, trans, NOT_TRANSPOSED), c.address("%x", at)
            call_blas(c, "gemm", *flags, *shape, "-1.0", a, lead, b, "%n", "1.0", target, "%n")

        with c.when(c.compare("sgt", rest, 0)):
            cl, cx = (c.address(m, c.add(below, j)) for m in ("%l", "%x"))
            flags = ROW_MAJOR, RIGHT, LOWER, NOT_TRANSPOSED, NON_UNIT_DIAGONAL
            call_blas(c, "trsm", *flags, rest, size, "1.0", d, "%n", cx, "%n")
            subtract(NOT_TRANSPOSED, (rest, j, size), cx, c.address("%l", row), below)
            subtract(ADJOINT, (size, size, rest), cx, cl, c.add(row, j))
            subtract(ADJOINT, (size, j, rest), cx, c.address("%l", below), row)
        _pullback_block(c, d, dx, size)
        with c.when(c.compare("sgt", j, 0)):
            _symmetrise(c, dx, size)
            subtract(NOT_TRANSPOSED, (size, j, size), "%work", c.address("%l", row), row, size)
    with c.loop(0, "%n") as i, c.loop(c.add(i, 1), "%n") as above:
        c.store(c.zero, c.entry_address("%x", i, above, "%n"))


def _symmetrise(c: RoutineWriter, dx: str, size: str) -> None:
    """`%work` becomes a block plus its adjoint, given its lower half."""
    with c.loop(0, size) as p:
        diagonal = c.real(c.load(c.entry_address(dx, p, p, "%n")))
        c.store(c.element(c.real_op("fmul", diagonal, "2.0")), c.entry_address("%work", p, p, size))
        with c.loop(0, p) as q:
            x = c.load(c.entry_address(dx, p, q, "%n"))
            c.store(x, c.entry_address("%work", p, q, size))
            c.store(c.conj(x), c.entry_address("%work", q, p, size))


def _pullback_block(c: RoutineWriter, d: str, dx: str, size: str) -> None:
    """The pullback for one block, row by row from the last."""
    with c.loop_down(0, size) as q:
        pivot = c.real(c.load(d, c.mul(q, c.add("%n", 1))))
        own, mine = c.address(d, c.mul(q, "%n")), c.address(dx, c.mul(q, "%n"))
        total = c.variable("0.0", "double")
        with c.loop(c.add(q, 1), size) as i:
            x = c.load(c.address(d, c.mul(i, "%n")), q)
            product = c.real(c.multiply(c.conj(x), c.load(c.entry_address(dx, i, q, "%n"))))
            c.accumulate(total, product)
        share = c.real_op("fdiv", c.get(total), pivot)
        bar = c.real_op("fdiv", c.real_op("fsub", c.real(c.load(mine, q)), share), pivot)
        with c.loop(0, q) as p:
            c.store(c.minus(c.load(mine, p), c.scale_by_real("fmul", c.load(own, p), bar)), mine, p)
        with c.loop(c.add(q, 1), size) as i:
            line, other = c.address(d, c.mul(i, "%n")), c.address(dx, c.mul(i, "%n"))
            scaled = c.scale_by_real("fdiv", c.load(other, q), pivot)
            c.store(scaled, other, q)
            conjugated = c.conj(scaled)
            with c.loop(0, q) as p:
                c.store(c.subtract_product(c.load(mine, p), conjugated, c.load(line, p)), mine, p)
                c.store(c.subtract_product(c.load(other, p), scaled, c.load(own, p)), other, p)
        c.store(c.element(c.real_op("fmul", bar, "0.5")), mine, q)
