"""Eigenvalues, singular values, QR and least squares, by LAPACK.

LAPACK stores by columns, so a matrix is copied transposed before, and vectors after: LAPACK then
sees what it sees when NumPy calls it, and signs come out the same. `%work` has the copies and the
real numbers of complex matrices (their singular values), then LAPACK's own workspace: `%lwork`
numbers, of complex matrices `%lrwork` real ones, and `%liwork` integers (`workspace_queries.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tracker.jit.lapack import workspace_queries as queries
from tracker.jit.lapack.library_calls import (
    char_argument,
    failure_flag,
    gemm,
    integer_argument,
    load_integer,
    ptr,
)
from tracker.jit.lapack.routine_writer import (
    RoutineBody,
    RoutineWriter,
    Scratch,
    WorkspaceQuery,
    routine,
)


def lapack_routine(
    operands: str, sizes: str, scratch: Scratch, query: WorkspaceQuery | None = None
) -> Callable[[RoutineBody], RoutineBody]:
    """Decorator of the body of a routine; `query`: LAPACK has workspace of its own."""
    sizes += "" if query is None else " lwork lrwork liwork"
    return routine(f"{operands} out work", sizes, scratch=scratch, query=query)


def call_lapack(c: RoutineWriter, name: str, arguments: Sequence[str], letters: int = 0) -> None:
    """Call a LAPACK routine (info last); return 1 where it fails."""
    info = c.variable(0)
    c.call("void", c.kind.lapack(name), [*map(ptr, (*arguments, info)), *["i64 1"] * letters])
    c.return_if(c.compare("ne", failure_flag(c, info), 0), 1)


def lapack_workspace(c: RoutineWriter, own: str) -> tuple[str, str, list[str], str]:
    """LAPACK's workspace: numbers, their count, real numbers (of complex matrices), integers."""
    numbers = integer_argument(c, "%lwork")
    behind = c.address(own, "%lwork")
    real = [behind] if c.kind.is_complex else []
    return own, numbers, real, c.address(behind, "%lrwork", "double")


def _store_reals(c: RoutineWriter, values: str, target: str, count: str) -> None:
    """Store real values as elements."""
    with c.loop(0, count) as i:
        c.store(c.element(c.load(values, i, "double")), target, i)


def _eigen(c: RoutineWriter, vectors: bool) -> None:
    c.transpose("%a", "%work", "%n", "%n")
    behind = c.address("%work", c.mul("%n", "%n"))
    values, behind = (behind, c.address(behind, "%n", "double")) if vectors else ("%out", behind)
    half = c.variable(c.let(f"select i1 {c.compare('ne', '%lower', 0)}, i8 76, i8 85"), "i8")
    size = integer_argument(c, "%n")
    own, lwork, real, integers = lapack_workspace(c, behind)
    if real:
        real.append(integer_argument(c, "%lrwork"))
    job = char_argument(c, "V" if vectors else "N")
    tail = [own, lwork, *real, integers, integer_argument(c, "%liwork")]
    driver = "heevd" if c.kind.is_complex else "syevd"
    call_lapack(c, driver, [job, half, size, "%work", size, values, *tail], 2)
    if vectors:
        _store_reals(c, values, "%out", "%n")
        c.transpose("%work", c.address("%out", "%n"), "%n", "%n")


@lapack_routine(
    "a", "n lower", lambda n, lower: (n * n, n), functools.partial(queries.eigenvalues, job="V")
)
def eigh(c: RoutineWriter) -> None:
    """Eigenvalues, then vectors."""
    _eigen(c, vectors=True)


@lapack_routine("a", "n lower", lambda n, lower: (n * n, 0), queries.eigenvalues)
def eigvalsh(c: RoutineWriter) -> None:
    _eigen(c, vectors=False)


@lapack_routine("a", "n", lambda n: (2 * n * n + 2 * n, 0), queries.general_eigenvectors)
def eig(c: RoutineWriter) -> None:
    """Eigenvalues of a general matrix, then its vectors; complex numbers for every matrix."""
    square = c.mul("%n", "%n")
    _return_if_not_finite(c, "%a", square)
    vectors = c.address("%work", square)
    values = c.address(vectors, square)
    c.transpose("%a", "%work", "%n", "%n")
    size, one, none = integer_argument(c, "%n"), integer_argument(c, "1"), char_argument(c, "N")
    parts = [values] if c.kind.is_complex else [values, c.address(values, "%n")]
    numbers, lwork, real, _ = lapack_workspace(c, c.address(parts[-1], "%n"))
    jobs = [none, char_argument(c, "V"), size, "%work", size, *parts]
    call_lapack(c, "geev", [*jobs, numbers, one, vectors, size, numbers, lwork, *real], 2)
    if c.kind.is_complex:
        c.copy(values, "%out", "%n")
        c.transpose(vectors, c.address("%out", "%n"), "%n", "%n")
    else:
        _store_complex_vectors(c, parts, vectors)


def _return_if_not_finite(c: RoutineWriter, a: str, count: str) -> None:
    """NumPy raises then; LAPACK might not return."""
    total = c.variable("0.0", "double")
    with c.loop(0, c.mul(count, c.kind.words_per_element)) as i:
        nothing = c.real_op("fmul", c.load(a, i, "double"), "0.0")
        c.accumulate(total, nothing)
    c.return_if(c.compare("uno", c.get(total), "0.0"), 1)


def _store_complex_vectors(c: RoutineWriter, parts: Sequence[str], vectors: str) -> None:
    """LAPACK's results for a real matrix, as complex numbers: of two conjugate vectors it gives the
    real part, then the imaginary one."""
    re, im = parts

    def put(index: str, x: str, y: str) -> None:
        at = c.mul(index, 2)
        c.store(x, "%out", at)
        c.store(y, "%out", c.add(at, 1))

    with c.loop(0, "%n") as j:
        x, y = c.load(re, j), c.load(im, j)
        put(j, x, y)
        second = c.let(f"zext i1 {c.compare('olt', y, '0.0')} to i64")
        paired = c.compare("une", y, "0.0")
        first = c.sub(j, second)
        with c.loop(0, "%n") as i:
            along = c.load(c.entry_address(vectors, first, i, "%n"))
            next_ = c.select(paired, c.add(first, 1), first)
            across = c.load(c.entry_address(vectors, next_, i, "%n"))
            turned = c.let(f"fneg double {across}")
            signed = c.let(
                f"select i1 {c.compare('ne', second, 0)}, double {turned}, double {across}"
            )
            across = c.let(f"select i1 {paired}, double {signed}, double 0.0")
            put(c.add("%n", c.add(c.mul(i, "%n"), j)), along, across)


def min_extent(c: RoutineWriter) -> str:
    return c.select(c.compare("slt", "%m", "%n"), "%m", "%n")


def _call_gesdd(
    c: RoutineWriter, job: str, values: str, u: str, vt: str, lead: str, own: str
) -> None:
    """The decomposition of the matrix in `%work`, which is stored by columns."""
    m, n, rows = (integer_argument(c, x) for x in ("%m", "%n", lead))
    numbers, lwork, real, integers = lapack_workspace(c, own)
    arguments = [job, m, n, "%work", m, values, u, m, vt, rows, numbers, lwork, *real, integers]
    call_lapack(c, "gesdd", arguments, 1)


def _svd_scratch(m: int, n: int, full: int) -> tuple[int, int]:
    vectors = m * m + n * n if full else (m + n) * min(m, n)
    return m * n + vectors, min(m, n)


@lapack_routine("a", "m n full", _svd_scratch, queries.singular_values)
def svd(c: RoutineWriter) -> None:
    """Singular values, U, V^H; `%full`: with all columns."""
    k, full = min_extent(c), c.compare("ne", "%full", 0)
    columns, rows = c.select(full, "%m", k), c.select(full, "%n", k)
    u = c.address("%work", c.mul("%m", "%n"))
    vt = c.address(u, c.mul("%m", columns))
    values = c.address(vt, c.mul(rows, "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    job = c.variable(c.let(f"select i1 {full}, i8 65, i8 83"), "i8")
    _call_gesdd(c, job, values, u, vt, rows, c.address(values, k, "double"))
    _store_reals(c, values, "%out", k)
    target = c.address("%out", k)
    c.transpose(u, target, columns, "%m")
    c.transpose(vt, c.address(target, c.mul("%m", columns)), "%n", rows)


@lapack_routine("a", "m n", lambda m, n: (m * n, 0), queries.singular_values)
def svdvals(c: RoutineWriter) -> None:
    c.transpose("%a", "%work", "%m", "%n")
    own = c.address("%work", c.mul("%m", "%n"))
    _call_gesdd(c, char_argument(c, "N"), "%out", own, own, "1", own)


@lapack_routine(
    "a cutoff",
    "m n",
    lambda m, n: _svd_scratch(m, n, 0),
    functools.partial(queries.singular_values, full=0),
)
def pinv(c: RoutineWriter) -> None:
    """V diag(1 / s) U^H; singular values up to `%cutoff` times the largest count as zero."""
    k = min_extent(c)
    u = c.address("%work", c.mul("%m", "%n"))
    vt = c.address(u, c.mul("%m", k))
    s = c.address(vt, c.mul(k, "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    _call_gesdd(c, char_argument(c, "S"), s, u, vt, k, c.address(s, k, "double"))
    limit = c.real_op("fmul", c.load("%cutoff", 0, "double"), c.load(s, 0, "double"))
    with c.loop(0, k) as p:
        value = c.load(s, p, "double")
        inverse = c.real_op("fdiv", "1.0", value)
        kept = c.let(f"select i1 {c.compare('ogt', value, limit)}, double {inverse}, double 0.0")
        with c.loop(0, "%n") as j:
            at = c.entry_address(vt, j, p, k)
            c.store(c.scale_by_real("fmul", c.load(at), kept), at)
    # By rows, what LAPACK leaves is conj(V) (n, k) and U^T (k, m).
    gemm(c, vt, u, "%out", ("%n", "%m", k))
    c.conjugate("%out", c.mul("%n", "%m"))


@lapack_routine("a", "m n k", lambda m, n, k: (m * max(n, k) + min(m, n), 0), queries.qr_factors)
def qr(c: RoutineWriter) -> None:
    """Q (m rows, `%k` columns), then R (`%k` rows, n columns)."""
    least = min_extent(c)
    # Room for the columns of A and of Q, whichever are more.
    width = c.select(c.compare("slt", "%n", "%k"), "%k", "%n")
    tau = c.address("%work", c.mul("%m", width))
    own = c.address(tau, least)
    c.transpose("%a", "%work", "%m", "%n")
    m, n, k, inner = (integer_argument(c, x) for x in ("%m", "%n", "%k", least))
    lwork = integer_argument(c, "%lwork")
    call_lapack(c, "geqrf", [m, n, "%work", m, tau, own, lwork])
    r = c.address("%out", c.mul("%m", "%k"))
    with c.loop(0, "%k") as i, c.loop(0, "%n") as j:
        inside = c.load(c.entry_address("%work", j, i, "%m"))
        c.store(
            c.select_element(c.compare("sle", i, j), inside, c.zero), c.entry_address(r, i, j, "%n")
        )
    driver = "ungqr" if c.kind.is_complex else "orgqr"
    call_lapack(c, driver, [m, k, inner, "%work", m, tau, own, lwork])
    c.transpose("%work", "%out", "%k", "%m")


@lapack_routine(
    "a b cutoff",
    "m n k",
    lambda m, n, k: (m * n + max(m, n) * k, min(m, n)),
    queries.least_squares,
)
def lstsq(c: RoutineWriter) -> None:
    """The solution (n rows, `%k` columns) for m rows of `%b`, then the rank."""
    height = c.select(c.compare("slt", "%m", "%n"), "%n", "%m")
    right = c.address("%work", c.mul("%m", "%n"))
    s = c.address(right, c.mul(height, "%k"))
    c.transpose("%a", "%work", "%m", "%n")
    with c.loop(0, "%m") as i, c.loop(0, "%k") as j:
        c.store(c.load(c.entry_address("%b", i, j, "%k")), c.entry_address(right, j, i, height))
    m, n, k, lead = (integer_argument(c, x) for x in ("%m", "%n", "%k", height))
    own, lwork, real, integers = lapack_workspace(c, c.address(s, min_extent(c), "double"))
    rank = c.variable(0)
    tail = [own, lwork, *real, integers]
    call_lapack(c, "gelsd", [m, n, k, "%work", m, right, lead, s, "%cutoff", rank, *tail])
    with c.loop(0, "%n") as i, c.loop(0, "%k") as j:
        c.store(c.load(c.entry_address(right, j, i, height)), c.entry_address("%out", i, j, "%k"))
    found = c.let(f"sitofp i64 {load_integer(c, rank, 0)} to double")
    c.store(c.element(found), "%out", c.mul("%n", "%k"))
