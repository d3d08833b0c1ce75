"""Routines of what SciPy gives besides NumPy: packed LU factors, orders of rows and columns, banded
systems. Orders are whole numbers among the numbers of a result, as in the ops that give them.
"""

from __future__ import annotations

from tracker.jit.lapack.blas_calls import integer_cell, lapack_integer
from tracker.jit.lapack.code import Code, Kind
from tracker.jit.lapack.eigen_svd import call_lapack, least_of, routine, workspace_of


def lu_factor(kind: Kind) -> Code:
    """Both factors in one matrix, then for each row the row that it was exchanged with; 1 where the
    matrix is singular, for SciPy then warns."""
    c = routine(kind, "lu_factor", "a", "m n", own=False)
    pivots = c.at("%work", c.mul("%m", "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    m, n = (integer_cell(c, x) for x in ("%m", "%n"))
    call_lapack(c, "getrf", [m, n, "%work", m, pivots])
    c.transpose("%work", "%out", "%n", "%m")
    _counted_from_zero(c, pivots, c.at("%out", c.mul("%m", "%n")), least_of(c))
    c.give()
    return c


def _counted_from_zero(c: Code, places: str, target: str, count: str) -> None:
    """LAPACK's integers, as numbers."""
    with c.loop(0, count) as i:
        row = c.sub(lapack_integer(c, places, i), 1)
        c.store(c.element(c.let(f"sitofp i64 {row} to double")), target, i)


def permutation(kind: Kind) -> Code:
    """The order of `%rows` rows after `%k` exchanges; 1 where there is no such row."""
    c = routine(kind, "permutation", "pivots", "k rows", own=False)
    with c.loop(0, "%rows") as i:
        c.store(c.let(f"sitofp i64 {i} to double"), "%out", i, "double")
    with c.loop(0, "%k") as i:
        pivot = c.real(c.load("%pivots", i))
        inside = c.test("oge", pivot, "0.0")
        below = c.test("olt", pivot, c.let("sitofp i64 %rows to double"))
        c.leave_if(c.unless(c.let(f"and i1 {inside}, {below}")), 1)
        j = c.let(f"fptosi double {pivot} to i64")
        x, y = (c.load("%out", at, "double") for at in (i, j))
        c.store(y, "%out", i, "double")
        c.store(x, "%out", j, "double")
    c.give()
    return c


def column_order(kind: Kind) -> Code:
    """The order of columns in which QR with pivots takes them."""
    c = routine(kind, "column_order", "a", "m n")
    tau = c.at("%work", c.mul("%m", "%n"))
    places = c.at(tau, least_of(c))
    own = c.at(places, "%n", "i64")
    c.transpose("%a", "%work", "%m", "%n")
    with c.loop(0, "%n") as i:
        c.store(0, places, i, "i64")
    m, n = (integer_cell(c, x) for x in ("%m", "%n"))
    numbers, lwork, real, _ = workspace_of(c, own)
    call_lapack(c, "geqp3", [m, n, "%work", m, places, tau, numbers, lwork, *real])
    with c.loop(0, "%n") as i:
        row = c.sub(lapack_integer(c, places, i), 1)
        c.store(c.let(f"sitofp i64 {row} to double"), "%out", i, "double")
    c.give()
    return c


def solve_banded(kind: Kind) -> Code:
    """The solution of a system of which only `%lower` + 1 + `%upper` diagonals are given."""
    c = routine(kind, "solve_banded", "ab b", "n k lower upper", own=False)
    rows = c.add(c.add("%lower", "%upper"), 1)
    lead = c.add(rows, "%lower")  # LAPACK wants room for what elimination fills in
    right = c.at("%work", c.mul(lead, "%n"))
    pivots = c.at(right, c.mul("%n", "%k"))
    with c.loop(0, "%n") as j, c.loop(0, rows) as r:
        x = c.load(c.entry("%ab", r, j, "%n"))
        c.store(x, c.entry("%work", j, c.add(r, "%lower"), lead))
    c.transpose("%b", right, "%n", "%k")
    n, k, lower, upper, step = (integer_cell(c, x) for x in ("%n", "%k", "%lower", "%upper", lead))
    call_lapack(c, "gbsv", [n, lower, upper, k, "%work", step, pivots, right, n])
    c.transpose(right, "%out", "%k", "%n")
    c.give()
    return c
