"""Routines of Cholesky factors, and of matrices times their own adjoint.

Small matrices are worked on in loops: a call of LAPACK costs more than they do.
"""

from __future__ import annotations

from tracker.jit.lapack.blas_calls import (
    ADJOINT,
    ANY_DIAGONAL,
    LOWER,
    PLAIN,
    RIGHT,
    ROWS,
    TURNED,
    extents,
    factor,
    integer_cell,
    letter,
    ptr,
    status,
)
from tracker.jit.lapack.code import SMALL, Code, Kind


def cholesky(kind: Kind) -> Code:
    """The lower factor; 1 where the matrix is not positive definite. The upper half is not read."""
    parameters = ["ptr noalias %a", "ptr noalias %out", "ptr %work", "i64 %n"]
    c = Code(kind.symbol("cholesky"), parameters, kind)
    with c.loop(0, "%n") as i:
        with c.loop(0, i) as j:
            c.store(c.load(c.entry("%a", i, j, "%n")), c.entry("%out", i, j, "%n"))
        pivot = c.real(c.load(c.entry("%a", i, i, "%n")))
        c.store(c.element(pivot), c.entry("%out", i, i, "%n"))
        with c.loop(c.add(i, 1), "%n") as j:
            c.store(c.zero, c.entry("%out", i, j, "%n"))
    with c.when(c.test("sgt", "%n", SMALL)):
        upper = letter(c, "U")  # by rows it is the lower factor
        size, info = integer_cell(c, "%n"), c.cell(0)
        c.call(
            "void", kind.lapack("potrf"), [*map(ptr, (upper, size, "%out", size, info)), "i64 1"]
        )
        c.give(status(c, info))
        c.lines.append(f"unused{c.tag()}:")
    failed = c.cell(0)
    with c.loop(0, "%n") as j:
        row = c.at("%out", c.mul(j, "%n"))
        pivot = c.real(_less_products(c, row, row, j, c.load(row, j)))
        bad = c.let(f"fcmp ule double {pivot}, 0.0")
        c.set(failed, c.either(bad, 1, c.get(failed)))
        root = c.call("double", "llvm.sqrt.f64", [f"double {pivot}"])
        c.store(c.element(root), row, j)
        with c.loop(c.add(j, 1), "%n") as i:
            other = c.at("%out", c.mul(i, "%n"))
            x = _less_products(c, other, row, j, c.load(other, j))
            c.store(c.scaled("fdiv", x, root), other, j)
    c.give(c.get(failed))
    return c


def _less_products(c: Code, x: str, y: str, count: str, start: str) -> str:
    """start - sum of x[k] * conj(y[k])."""
    total = c.cell(start, c.number)
    with c.loop(0, count) as k:
        c.set(total, c.less(c.get(total, c.number), c.load(x, k), c.conj(c.load(y, k))), c.number)
    return c.get(total, c.number)


def gram(kind: Kind) -> Code:
    """a a^T for n rows of k numbers, `%lead` apart (`%flip`: a^T a); one half is computed."""
    sizes = (f"i64 %{name}" for name in ("n", "k", "lead", "flip"))
    c = Code(kind.symbol("gram"), ["ptr noalias %a", "ptr noalias %x", *sizes], kind)
    turned = c.test("ne", "%flip", 0)
    turn = c.let(f"select i1 {turned}, i32 {TURNED}, i32 {PLAIN}")
    n, k, lead = extents(c, ("%n", "%k", "%lead"))
    flags = [f"i32 {flag}" for flag in (ROWS, LOWER, turn)]
    one, zero = factor(c, "1.0"), factor(c, "0.0")
    c.call("void", kind.blas("syrk"), [*flags, n, k, one, "ptr %a", lead, zero, "ptr %x", n])
    with c.loop(0, "%n") as i, c.loop(0, i) as j:
        c.store(c.load(c.entry("%x", i, j, "%n")), c.entry("%x", j, i, "%n"))
    c.give()
    return c


_BLOCK = 32  # rows


def cholesky_pull(kind: Kind) -> Code:
    """The pullback of the factor L: from a cotangent (whose lower half is read) to that of the
    matrix, in its lower half. I. Murray (2016), the blocked algorithm of section 5, with adjoints
    for his transposes."""
    pointers = [f"ptr noalias %{name}" for name in ("l", "g", "x", "work")]
    c = Code(kind.symbol("cholesky_pull"), [*pointers, "i64 %n"], kind)
    c.copy("%g", "%x", c.mul("%n", "%n"))
    blocks = c.let(f"udiv i64 {c.add('%n', _BLOCK - 1)}, {_BLOCK}")
    one, minus = factor(c, "1.0"), factor(c, "-1.0")
    with c.down(0, blocks) as block:
        j = c.mul(block, _BLOCK)
        left = c.sub("%n", j)
        size = c.either(c.test("slt", left, _BLOCK), left, _BLOCK)
        k = c.add(j, size)
        rest = c.sub("%n", k)
        row, below = c.mul(j, "%n"), c.mul(k, "%n")
        d, dx = (c.at(m, c.add(row, j)) for m in ("%l", "%x"))

        def subtract(
            turn: int, shape: tuple[str, str, str], a: str, b: str, at: str, lead: str = "%n"
        ) -> None:
            """%x[at:] -= op(a) b, of m rows, n columns, k terms; rows of `a` are `lead` apart."""
            m, n, k, mine, others = extents(c, (*shape, lead, "%n"))
            flags = [f"i32 {flag}" for flag in (ROWS, turn, PLAIN)]
            target = ptr(c.at("%x", at))
            arguments = [m, n, k, minus, ptr(a), mine, ptr(b), others, one, target, others]
            c.call("void", kind.blas("gemm"), [*flags, *arguments])

        with c.when(c.test("sgt", rest, 0)):
            cl, cx = (c.at(m, c.add(below, j)) for m in ("%l", "%x"))
            _over_triangle(c, one, (rest, size), d, cx)
            subtract(PLAIN, (rest, j, size), cx, c.at("%l", row), below)
            subtract(ADJOINT, (size, size, rest), cx, cl, c.add(row, j))
            subtract(ADJOINT, (size, j, rest), cx, c.at("%l", below), row)
        _pull_block(c, d, dx, size)
        with c.when(c.test("sgt", j, 0)):
            _both_halves(c, dx, size)
            subtract(PLAIN, (size, j, size), "%work", c.at("%l", row), row, size)
    with c.loop(0, "%n") as i, c.loop(c.add(i, 1), "%n") as above:
        c.store(c.zero, c.entry("%x", i, above, "%n"))
    c.give()
    return c


def _both_halves(c: Code, dx: str, size: str) -> None:
    """`%work` becomes a block plus its adjoint, given its lower half."""
    with c.loop(0, size) as p:
        diagonal = c.real(c.load(c.entry(dx, p, p, "%n")))
        c.store(c.element(c.f("fmul", diagonal, "2.0")), c.entry("%work", p, p, size))
        with c.loop(0, p) as q:
            x = c.load(c.entry(dx, p, q, "%n"))
            c.store(x, c.entry("%work", p, q, size))
            c.store(c.conj(x), c.entry("%work", q, p, size))


def _pull_block(c: Code, d: str, dx: str, size: str) -> None:
    """The same for one block, row by row from the last."""
    with c.down(0, size) as q:
        pivot = c.real(c.load(d, c.mul(q, c.add("%n", 1))))
        own, mine = c.at(d, c.mul(q, "%n")), c.at(dx, c.mul(q, "%n"))
        total = c.cell("0.0", "double")
        with c.loop(c.add(q, 1), size) as i:
            x = c.load(c.at(d, c.mul(i, "%n")), q)
            product = c.real(c.times(c.conj(x), c.load(c.entry(dx, i, q, "%n"))))
            c.set(total, c.f("fadd", c.get(total, "double"), product), "double")
        share = c.f("fdiv", c.get(total, "double"), pivot)
        bar = c.f("fdiv", c.f("fsub", c.real(c.load(mine, q)), share), pivot)
        with c.loop(0, q) as p:
            c.store(c.minus(c.load(mine, p), c.scaled("fmul", c.load(own, p), bar)), mine, p)
        with c.loop(c.add(q, 1), size) as i:
            line, other = c.at(d, c.mul(i, "%n")), c.at(dx, c.mul(i, "%n"))
            scaled = c.scaled("fdiv", c.load(other, q), pivot)
            c.store(scaled, other, q)
            turned = c.conj(scaled)
            with c.loop(0, q) as p:
                c.store(c.less(c.load(mine, p), turned, c.load(line, p)), mine, p)
                c.store(c.less(c.load(other, p), scaled, c.load(own, p)), other, p)
        c.store(c.element(c.f("fmul", bar, "0.5")), mine, q)


def _over_triangle(c: Code, one: str, shape: tuple[str, str], t: str, x: str) -> None:
    """x = x t^-1, in place, both with rows %n apart."""
    m, k, lead = extents(c, (*shape, "%n"))
    flags = [f"i32 {flag}" for flag in (ROWS, RIGHT, LOWER, PLAIN, ANY_DIAGONAL)]
    c.call("void", c.kind.blas("trsm"), [*flags, m, k, one, ptr(t), lead, ptr(x), lead])
