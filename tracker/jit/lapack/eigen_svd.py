"""Routines of eigenvalues, singular values, QR and least squares: LAPACK's, with matrices turned.

LAPACK stores by columns, so a matrix is copied transposed before, and vectors after: LAPACK then
sees what it sees when NumPy calls it, and signs come out the same. `%work` has room for the copies
and for what is real of complex matrices (their singular values); behind them comes LAPACK's own
workspace: `%lwork` numbers, of complex matrices `%lrwork` real ones, and `%liwork` integers (see
`queries`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.lapack.blas_calls import (
    integer_cell,
    lapack_integer,
    letter,
    multiply,
    ptr,
    status,
)
from tracker.jit.lapack.code import Code, Kind

_OWN = ("lwork", "lrwork", "liwork")


def routine(kind: Kind, name: str, operands: str, sizes: str, *, own: bool = True) -> Code:
    """A routine without text yet; `own`: LAPACK has workspace of its own."""
    pointers = [f"ptr noalias %{x}" for x in (*operands.split(), "out", "work")]
    integers = [f"i64 %{x}" for x in (*sizes.split(), *(_OWN if own else ()))]
    return Code(kind.symbol(name), [*pointers, *integers], kind)


def call_lapack(c: Code, name: str, arguments: Sequence[str], letters: int = 0) -> None:
    """A LAPACK routine (info last); leave with 1 where it fails."""
    info = c.cell(0)
    c.call("void", c.kind.lapack(name), [*map(ptr, (*arguments, info)), *["i64 1"] * letters])
    c.leave_if(c.test("ne", status(c, info), 0), 1)


def workspace_of(c: Code, own: str) -> tuple[str, str, list[str], str]:
    """LAPACK's own: numbers, how many, real numbers (of complex matrices), integers."""
    numbers = integer_cell(c, "%lwork")
    behind = c.at(own, "%lwork")
    real = [behind] if c.kind.is_complex else []
    return own, numbers, real, c.at(behind, "%lrwork", "double")


def _widened(c: Code, values: str, target: str, count: str) -> None:
    """Real values as elements."""
    with c.loop(0, count) as i:
        c.store(c.element(c.load(values, i, "double")), target, i)


def _eigen(kind: Kind, name: str, vectors: bool) -> Code:
    c = routine(kind, name, "a", "n lower")
    c.transpose("%a", "%work", "%n", "%n")
    behind = c.at("%work", c.mul("%n", "%n"))
    values, behind = (behind, c.at(behind, "%n", "double")) if vectors else ("%out", behind)
    half = c.cell(c.let(f"select i1 {c.test('ne', '%lower', 0)}, i8 76, i8 85"), "i8")
    size = integer_cell(c, "%n")
    own, lwork, real, integers = workspace_of(c, behind)
    if real:
        real.append(integer_cell(c, "%lrwork"))
    job = letter(c, "V" if vectors else "N")
    tail = [own, lwork, *real, integers, integer_cell(c, "%liwork")]
    driver = "heevd" if kind.is_complex else "syevd"
    call_lapack(c, driver, [job, half, size, "%work", size, values, *tail], 2)
    if vectors:
        _widened(c, values, "%out", "%n")
        c.transpose("%work", c.at("%out", "%n"), "%n", "%n")
    c.give()
    return c


def eigh(kind: Kind) -> Code:
    """Eigenvalues, then vectors."""
    return _eigen(kind, "eigh", vectors=True)


def eigvalsh(kind: Kind) -> Code:
    return _eigen(kind, "eigvalsh", vectors=False)


def eig(kind: Kind) -> Code:
    """Eigenvalues of a general matrix, then its vectors; complex numbers whatever the matrix."""
    c = routine(kind, "eig", "a", "n")
    square = c.mul("%n", "%n")
    _leave_if_not_finite(c, "%a", square)
    vectors = c.at("%work", square)
    values = c.at(vectors, square)
    c.transpose("%a", "%work", "%n", "%n")
    size, one, none = integer_cell(c, "%n"), integer_cell(c, "1"), letter(c, "N")
    parts = [values] if kind.is_complex else [values, c.at(values, "%n")]
    numbers, lwork, real, _ = workspace_of(c, c.at(parts[-1], "%n"))
    jobs = [none, letter(c, "V"), size, "%work", size, *parts]
    call_lapack(c, "geev", [*jobs, numbers, one, vectors, size, numbers, lwork, *real], 2)
    if kind.is_complex:
        c.copy(values, "%out", "%n")
        c.transpose(vectors, c.at("%out", "%n"), "%n", "%n")
    else:
        _pairs_of_vectors(c, parts, vectors)
    c.give()
    return c


def _leave_if_not_finite(c: Code, a: str, count: str) -> None:
    """NumPy raises then; LAPACK might not come back."""
    total = c.cell("0.0", "double")
    with c.loop(0, c.mul(count, c.kind.words)) as i:
        nothing = c.f("fmul", c.load(a, i, "double"), "0.0")
        c.set(total, c.f("fadd", c.get(total, "double"), nothing), "double")
    c.leave_if(c.test("uno", c.get(total, "double"), "0.0"), 1)


def _pairs_of_vectors(c: Code, parts: Sequence[str], vectors: str) -> None:
    """What LAPACK says of a real matrix, as complex numbers: of two conjugate vectors it gives the
    real part, then the imaginary one."""
    re, im = parts

    def put(index: str, x: str, y: str) -> None:
        at = c.mul(index, 2)
        c.store(x, "%out", at)
        c.store(y, "%out", c.add(at, 1))

    with c.loop(0, "%n") as j:
        x, y = c.load(re, j), c.load(im, j)
        put(j, x, y)
        second = c.let(f"zext i1 {c.test('olt', y, '0.0')} to i64")
        paired = c.test("une", y, "0.0")
        first = c.sub(j, second)
        with c.loop(0, "%n") as i:
            along = c.load(c.entry(vectors, first, i, "%n"))
            next_ = c.either(paired, c.add(first, 1), first)
            across = c.load(c.entry(vectors, next_, i, "%n"))
            turned = c.let(f"fneg double {across}")
            signed = c.let(f"select i1 {c.test('ne', second, 0)}, double {turned}, double {across}")
            across = c.let(f"select i1 {paired}, double {signed}, double 0.0")
            put(c.add("%n", c.add(c.mul(i, "%n"), j)), along, across)


def least_of(c: Code) -> str:
    return c.either(c.test("slt", "%m", "%n"), "%m", "%n")


def _singular(c: Code, job: str, values: str, u: str, vt: str, lead: str, own: str) -> None:
    """The decomposition of the matrix in `%work`, which is stored by columns."""
    m, n, rows = (integer_cell(c, x) for x in ("%m", "%n", lead))
    numbers, lwork, real, integers = workspace_of(c, own)
    arguments = [job, m, n, "%work", m, values, u, m, vt, rows, numbers, lwork, *real, integers]
    call_lapack(c, "gesdd", arguments, 1)


def svd(kind: Kind) -> Code:
    """Singular values, U, V^H; `%full`: with all columns."""
    c = routine(kind, "svd", "a", "m n full")
    k, full = least_of(c), c.test("ne", "%full", 0)
    columns, rows = c.either(full, "%m", k), c.either(full, "%n", k)
    u = c.at("%work", c.mul("%m", "%n"))
    vt = c.at(u, c.mul("%m", columns))
    values = c.at(vt, c.mul(rows, "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    job = c.cell(c.let(f"select i1 {full}, i8 65, i8 83"), "i8")
    _singular(c, job, values, u, vt, rows, c.at(values, k, "double"))
    _widened(c, values, "%out", k)
    target = c.at("%out", k)
    c.transpose(u, target, columns, "%m")
    c.transpose(vt, c.at(target, c.mul("%m", columns)), "%n", rows)
    c.give()
    return c


def svdvals(kind: Kind) -> Code:
    c = routine(kind, "svdvals", "a", "m n")
    c.transpose("%a", "%work", "%m", "%n")
    own = c.at("%work", c.mul("%m", "%n"))
    _singular(c, letter(c, "N"), "%out", own, own, "1", own)
    c.give()
    return c


def pinv(kind: Kind) -> Code:
    """V diag(1 / s) U^H; singular values up to `%cutoff` times the largest count as zero."""
    c = routine(kind, "pinv", "a cutoff", "m n")
    k = least_of(c)
    u = c.at("%work", c.mul("%m", "%n"))
    vt = c.at(u, c.mul("%m", k))
    s = c.at(vt, c.mul(k, "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    _singular(c, letter(c, "S"), s, u, vt, k, c.at(s, k, "double"))
    limit = c.f("fmul", c.load("%cutoff", 0, "double"), c.load(s, 0, "double"))
    with c.loop(0, k) as p:
        value = c.load(s, p, "double")
        inverse = c.f("fdiv", "1.0", value)
        kept = c.let(f"select i1 {c.test('ogt', value, limit)}, double {inverse}, double 0.0")
        with c.loop(0, "%n") as j:
            at = c.entry(vt, j, p, k)
            c.store(c.scaled("fmul", c.load(at), kept), at)
    # By rows, what LAPACK leaves is conj(V) (n, k) and U^T (k, m).
    multiply(c, ("%n", "%m", k), vt, u, "%out")
    c.conjugate("%out", c.mul("%n", "%m"))
    c.give()
    return c


def qr(kind: Kind) -> Code:
    """Q (m rows, `%k` columns), then R (`%k` rows, n columns)."""
    c = routine(kind, "qr", "a", "m n k")
    least = least_of(c)
    # Room for the columns of A and of Q, whichever are more.
    width = c.either(c.test("slt", "%n", "%k"), "%k", "%n")
    tau = c.at("%work", c.mul("%m", width))
    own = c.at(tau, least)
    c.transpose("%a", "%work", "%m", "%n")
    m, n, k, inner = (integer_cell(c, x) for x in ("%m", "%n", "%k", least))
    lwork = integer_cell(c, "%lwork")
    call_lapack(c, "geqrf", [m, n, "%work", m, tau, own, lwork])
    r = c.at("%out", c.mul("%m", "%k"))
    with c.loop(0, "%k") as i, c.loop(0, "%n") as j:
        inside = c.load(c.entry("%work", j, i, "%m"))
        c.store(c.pick(c.test("sle", i, j), inside, c.zero), c.entry(r, i, j, "%n"))
    driver = "ungqr" if kind.is_complex else "orgqr"
    call_lapack(c, driver, [m, k, inner, "%work", m, tau, own, lwork])
    c.transpose("%work", "%out", "%k", "%m")
    c.give()
    return c


def lstsq(kind: Kind) -> Code:
    """The solution (n rows, `%k` columns) for m rows of `%b`, then the rank."""
    c = routine(kind, "lstsq", "a b cutoff", "m n k")
    height = c.either(c.test("slt", "%m", "%n"), "%n", "%m")
    right = c.at("%work", c.mul("%m", "%n"))
    s = c.at(right, c.mul(height, "%k"))
    c.transpose("%a", "%work", "%m", "%n")
    with c.loop(0, "%m") as i, c.loop(0, "%k") as j:
        c.store(c.load(c.entry("%b", i, j, "%k")), c.entry(right, j, i, height))
    m, n, k, lead = (integer_cell(c, x) for x in ("%m", "%n", "%k", height))
    own, lwork, real, integers = workspace_of(c, c.at(s, least_of(c), "double"))
    rank = c.cell(0)
    tail = [own, lwork, *real, integers]
    call_lapack(c, "gelsd", [m, n, k, "%work", m, right, lead, s, "%cutoff", rank, *tail])
    with c.loop(0, "%n") as i, c.loop(0, "%k") as j:
        c.store(c.load(c.entry(right, j, i, height)), c.entry("%out", i, j, "%k"))
    found = c.let(f"sitofp i64 {lapack_integer(c, rank, 0)} to double")
    c.store(c.element(found), "%out", c.mul("%n", "%k"))
    c.give()
    return c
