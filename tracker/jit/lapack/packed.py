"""Routines for SciPy: packed LU factors, permutations of rows and columns, banded systems.

Permutations are whole numbers in the dtype of the result, as in the ops that return them.
"""

from __future__ import annotations

from tracker.jit.lapack import workspace_queries as queries
from tracker.jit.lapack.eigen_svd import call_lapack, lapack_routine, lapack_workspace, min_extent
from tracker.jit.lapack.library_calls import integer_argument, load_integer
from tracker.jit.lapack.routine_writer import RoutineWriter, routine


@lapack_routine("a", "m n", lambda m, n: (m * n, min(m, n)))
def lu_factor(c: RoutineWriter) -> None:
    """Both factors in one matrix, then for each row the row that it was exchanged with; 1 where the
    matrix is singular, because SciPy then warns."""
    pivots = c.address("%work", c.mul("%m", "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    m, n = (integer_argument(c, x) for x in ("%m", "%n"))
    call_lapack(c, "getrf", [m, n, "%work", m, pivots])
    c.transpose("%work", "%out", "%n", "%m")
    _store_pivots(c, pivots, c.address("%out", c.mul("%m", "%n")), min_extent(c))


def _store_pivots(c: RoutineWriter, places: str, target: str, count: str) -> None:
    """LAPACK's pivots as numbers counted from zero."""
    with c.loop(0, count) as i:
        row = c.sub(load_integer(c, places, i), 1)
        c.store(c.element(c.let(f"sitofp i64 {row} to double")), target, i)


@routine("pivots out work", "k rows")
def permutation(c: RoutineWriter) -> None:
    """The order of `%rows` rows after `%k` exchanges; 1 where there is no such row."""
    with c.loop(0, "%rows") as i:
        c.store(c.let(f"sitofp i64 {i} to double"), "%out", i, "double")
    with c.loop(0, "%k") as i:
        pivot = c.real(c.load("%pivots", i))
        inside = c.compare("oge", pivot, "0.0")
        below = c.compare("olt", pivot, c.let("sitofp i64 %rows to double"))
        c.return_if(c.logical_not(c.let(f"and i1 {inside}, {below}")), 1)
        j = c.let(f"fptosi double {pivot} to i64")
        x, y = (c.load("%out", at, "double") for at in (i, j))
        c.store(y, "%out", i, "double")
        c.store(x, "%out", j, "double")


@lapack_routine("a", "m n", lambda m, n: (m * n + min(m, n), n), queries.column_order)
def column_order(c: RoutineWriter) -> None:
    """The order of columns in QR with pivoting."""
    tau = c.address("%work", c.mul("%m", "%n"))
    places = c.address(tau, min_extent(c))
    own = c.address(places, "%n", "i64")
    c.transpose("%a", "%work", "%m", "%n")
    with c.loop(0, "%n") as i:
        c.store(0, places, i, "i64")
    m, n = (integer_argument(c, x) for x in ("%m", "%n"))
    numbers, lwork, real, _ = lapack_workspace(c, own)
    call_lapack(c, "geqp3", [m, n, "%work", m, places, tau, numbers, lwork, *real])
    with c.loop(0, "%n") as i:
        row = c.sub(load_integer(c, places, i), 1)
        c.store(c.let(f"sitofp i64 {row} to double"), "%out", i, "double")


@lapack_routine(
    "ab b",
    "n k lower upper",
    lambda n, k, lower, upper: ((2 * lower + upper + 1 + k) * n, n),
)
def solve_banded(c: RoutineWriter) -> None:
    """The solution of a system given by its `%lower` + 1 + `%upper` diagonals."""
    rows = c.add(c.add("%lower", "%upper"), 1)
    lead = c.add(rows, "%lower")  # with LAPACK's room for fill-in
    right = c.address("%work", c.mul(lead, "%n"))
    pivots = c.address(right, c.mul("%n", "%k"))
    with c.loop(0, "%n") as j, c.loop(0, rows) as r:
        x = c.load(c.entry_address("%ab", r, j, "%n"))
        c.store(x, c.entry_address("%work", j, c.add(r, "%lower"), lead))
    c.transpose("%b", right, "%n", "%k")
    n, k, lower, upper, step = (
        integer_argument(c, x) for x in ("%n", "%k", "%lower", "%upper", lead)
    )
    call_lapack(c, "gbsv", [n, lower, upper, k, "%work", step, pivots, right, n])
    c.transpose(right, "%out", "%k", "%n")
