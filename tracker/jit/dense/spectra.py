"""Routines of eigenvalues, singular values, QR and least squares: LAPACK's, with matrices turned.

LAPACK stores by columns, so a matrix is copied transposed before, and vectors after: LAPACK then
sees what it sees when NumPy calls it, and signs come out the same. `%work` has room for the copies;
behind them comes LAPACK's own workspace, `%lwork` numbers and `%liwork` integers (see `query`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.dense.code import Code, extents, integer_cell, letter, ptr, status


def _call(c: Code, integer: str, name: str, arguments: Sequence[str], letters: int) -> None:
    """A LAPACK routine (info last); leave with 1 where it fails."""
    info = c.cell(0)
    c.call("void", name, [*map(ptr, (*arguments, info)), *["i64 1"] * letters])
    c.leave_if(c.test("ne", status(c, info, integer), 0), 1)


def _eigen(integer: str, name: str, vectors: bool) -> Code:
    sizes = ["i64 %n", "i64 %lower", "i64 %lwork", "i64 %liwork"]
    c = Code(name, ["ptr noalias %a", "ptr noalias %out", "ptr noalias %work", *sizes])
    square = c.mul("%n", "%n")
    c.transpose("%a", "%work", "%n", "%n")
    own = c.at("%work", square)
    half = c.cell(c.let(f"select i1 {c.test('ne', '%lower', 0)}, i8 76, i8 85"), "i8")
    size, lwork, liwork = (integer_cell(c, f"%{x}", integer) for x in ("n", "lwork", "liwork"))
    job = letter(c, "V" if vectors else "N")
    arguments = [job, half, size, "%work", size, "%out", own, lwork, c.at(own, "%lwork"), liwork]
    _call(c, integer, "dsyevd_", arguments, 2)
    if vectors:
        c.transpose("%work", c.at("%out", "%n"), "%n", "%n")
    c.give()
    return c


def eigh(integer: str) -> Code:
    """Eigenvalues, then vectors."""
    return _eigen(integer, "tk.eigh", vectors=True)


def eigvalsh(integer: str) -> Code:
    return _eigen(integer, "tk.eigvalsh", vectors=False)


def _least(c: Code) -> str:
    return c.either(c.test("slt", "%m", "%n"), "%m", "%n")


def svd(integer: str) -> Code:
    """Singular values, U, V^T; `%full`: with all columns."""
    sizes = ["i64 %m", "i64 %n", "i64 %full", "i64 %lwork", "i64 %liwork"]
    c = Code("tk.svd", ["ptr noalias %a", "ptr noalias %out", "ptr noalias %work", *sizes])
    k, full = _least(c), c.test("ne", "%full", 0)
    columns, rows = c.either(full, "%m", k), c.either(full, "%n", k)
    u = c.at("%work", c.mul("%m", "%n"))
    vt = c.at(u, c.mul("%m", columns))
    own = c.at(vt, c.mul(rows, "%n"))
    c.transpose("%a", "%work", "%m", "%n")
    job = c.cell(c.let(f"select i1 {full}, i8 65, i8 83"), "i8")
    m, n, lead = (integer_cell(c, x, integer) for x in ("%m", "%n", rows))
    lwork, iwork = integer_cell(c, "%lwork", integer), c.at(own, "%lwork")
    arguments = [job, m, n, "%work", m, "%out", u, m, vt, lead, own, lwork, iwork]
    _call(c, integer, "dgesdd_", arguments, 1)
    target = c.at("%out", k)
    c.transpose(u, target, columns, "%m")
    c.transpose(vt, c.at(target, c.mul("%m", columns)), "%n", rows)
    c.give()
    return c


def svdvals(integer: str) -> Code:
    sizes = ["i64 %m", "i64 %n", "i64 %lwork", "i64 %liwork"]
    c = Code("tk.svdvals", ["ptr noalias %a", "ptr noalias %out", "ptr noalias %work", *sizes])
    c.transpose("%a", "%work", "%m", "%n")
    own = c.at("%work", c.mul("%m", "%n"))
    m, n, one = (integer_cell(c, x, integer) for x in ("%m", "%n", "1"))
    lwork, iwork = integer_cell(c, "%lwork", integer), c.at(own, "%lwork")
    arguments = [letter(c, "N"), m, n, "%work", m, "%out", own, one, own, one, own, lwork, iwork]
    _call(c, integer, "dgesdd_", arguments, 1)
    c.give()
    return c


def pinv(integer: str) -> Code:
    """V diag(1 / s) U^T; singular values up to `%cutoff` times the largest count as zero."""
    pointers = [f"ptr noalias %{name}" for name in ("a", "cutoff", "out", "work")]
    c = Code("tk.pinv", [*pointers, "i64 %m", "i64 %n", "i64 %lwork", "i64 %liwork"])
    k = _least(c)
    u = c.at("%work", c.mul("%m", "%n"))
    vt = c.at(u, c.mul("%m", k))
    s = c.at(vt, c.mul(k, "%n"))
    own = c.at(s, k)
    c.transpose("%a", "%work", "%m", "%n")
    m, n, least = (integer_cell(c, x, integer) for x in ("%m", "%n", k))
    lwork, iwork = integer_cell(c, "%lwork", integer), c.at(own, "%lwork")
    arguments = [letter(c, "S"), m, n, "%work", m, s, u, m, vt, least, own, lwork, iwork]
    _call(c, integer, "dgesdd_", arguments, 1)
    limit = c.f("fmul", c.load("%cutoff"), c.load(s))
    with c.loop(0, k) as p:
        value = c.load(s, p)
        inverse = c.f("fdiv", "1.0", value)
        kept = c.let(f"select i1 {c.test('ogt', value, limit)}, double {inverse}, double 0.0")
        with c.loop(0, "%n") as j:
            at = c.entry(vt, j, p, k)
            c.lines.append(f"  store double {c.f('fmul', c.load(at), kept)}, ptr {at}")
    # By rows, what LAPACK leaves is V (n, k) and U^T (k, m).
    rows, columns, inner = extents(c, integer, ("%n", "%m", k))
    flags = [f"i32 {flag}" for flag in (101, 111, 111)]
    operands = ["double 1.0", ptr(vt), inner, ptr(u), columns, "double 0.0", "ptr %out", columns]
    c.call("void", "cblas_dgemm", [*flags, rows, columns, inner, *operands])
    c.give()
    return c


def qr(integer: str) -> Code:
    """Q (m rows, `%k` columns), then R (`%k` rows, n columns)."""
    sizes = ["i64 %m", "i64 %n", "i64 %k", "i64 %lwork", "i64 %liwork"]
    c = Code("tk.qr", ["ptr noalias %a", "ptr noalias %out", "ptr noalias %work", *sizes])
    least = _least(c)
    # Room for the columns of A and of Q, whichever are more.
    width = c.either(c.test("slt", "%n", "%k"), "%k", "%n")
    tau = c.at("%work", c.mul("%m", width))
    own = c.at(tau, least)
    c.transpose("%a", "%work", "%m", "%n")
    m, n, k, inner = (integer_cell(c, x, integer) for x in ("%m", "%n", "%k", least))
    lwork = integer_cell(c, "%lwork", integer)
    _call(c, integer, "dgeqrf_", [m, n, "%work", m, tau, own, lwork], 0)
    r = c.at("%out", c.mul("%m", "%k"))
    with c.loop(0, "%k") as i, c.loop(0, "%n") as j:
        inside = c.let(f"load double, ptr {c.entry('%work', j, i, '%m')}")
        kept = c.let(f"select i1 {c.test('sle', i, j)}, double {inside}, double 0.0")
        c.lines.append(f"  store double {kept}, ptr {c.entry(r, i, j, '%n')}")
    _call(c, integer, "dorgqr_", [m, k, inner, "%work", m, tau, own, lwork], 0)
    c.transpose("%work", "%out", "%k", "%m")
    c.give()
    return c


def lstsq(integer: str) -> Code:
    """The solution (n rows, `%k` columns) for m rows of `%b`."""
    pointers = ["ptr noalias %a", "ptr noalias %b", "ptr noalias %cutoff", "ptr noalias %x"]
    sizes = ["i64 %m", "i64 %n", "i64 %k", "i64 %lwork", "i64 %liwork"]
    c = Code("tk.lstsq", [*pointers, "ptr noalias %work", *sizes])
    height = c.either(c.test("slt", "%m", "%n"), "%n", "%m")
    right = c.at("%work", c.mul("%m", "%n"))
    s = c.at(right, c.mul(height, "%k"))
    own = c.at(s, _least(c))
    c.transpose("%a", "%work", "%m", "%n")
    with c.loop(0, "%m") as i, c.loop(0, "%k") as j:
        x = c.let(f"load double, ptr {c.entry('%b', i, j, '%k')}")
        c.lines.append(f"  store double {x}, ptr {c.entry(right, j, i, height)}")
    m, n, k, lead = (integer_cell(c, x, integer) for x in ("%m", "%n", "%k", height))
    lwork, iwork = integer_cell(c, "%lwork", integer), c.at(own, "%lwork")
    rank = c.cell(0)
    arguments = [m, n, k, "%work", m, right, lead, s, "%cutoff", rank, own, lwork, iwork]
    _call(c, integer, "dgelsd_", arguments, 0)
    with c.loop(0, "%n") as i, c.loop(0, "%k") as j:
        x = c.let(f"load double, ptr {c.entry(right, j, i, height)}")
        c.lines.append(f"  store double {x}, ptr {c.entry('%x', i, j, '%k')}")
    c.give()
    return c
