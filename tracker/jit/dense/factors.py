"""Routines of Cholesky and LU factors, and of what is solved with them.

A factored matrix ("lu") is n*n numbers, the factors as LAPACK's dgetrf leaves them (column by
column), then 2n + 2 words: n of LAPACK's own use, for each row the row that it was exchanged with
(counted from 0), a word that is 1 if the matrix was lower triangular and is kept as it was, and one
that is 1 if it is singular.

Small matrices are worked on in loops: a call of LAPACK costs more than they do.
"""

from __future__ import annotations

from tracker.jit.dense.code import Code, extents, integer_cell, letter, ptr, status

_SMALL = 24  # rows; beyond, LAPACK is faster
# CBLAS's names for orders, sides, halves, and whether a matrix is transposed
_ROWS, _COLUMNS, _LEFT, _RIGHT = 101, 102, 141, 142
_UPPER, _LOWER, _PLAIN, _TURNED = 121, 122, 111, 112


def cholesky(integer: str) -> Code:
    """The lower factor; 1 where the matrix is not positive definite. The upper half is not read."""
    c = Code("tk.cholesky", ["ptr noalias %a", "ptr noalias %out", "ptr %work", "i64 %n"])
    with c.loop(0, "%n") as i:
        end = c.add(i, 1)
        with c.loop(0, end) as j:
            x = c.let(f"load double, ptr {c.entry('%a', i, j, '%n')}")
            c.lines.append(f"  store double {x}, ptr {c.entry('%out', i, j, '%n')}")
        with c.loop(end, "%n") as j:
            c.lines.append(f"  store double 0.0, ptr {c.entry('%out', i, j, '%n')}")
    with c.when(c.test("sgt", "%n", _SMALL)):
        upper = letter(c, "U")  # by rows it is the lower factor
        size, info = integer_cell(c, "%n", integer), c.cell(0)
        c.call("void", "dpotrf_", [*map(ptr, (upper, size, "%out", size, info)), "i64 1"])
        c.give(status(c, info, integer))
        c.lines.append(f"unused{c.tag()}:")
    failed = c.cell(0)
    with c.loop(0, "%n") as j:
        row = c.at("%out", c.mul(j, "%n"))
        pivot = _less_products(c, row, row, j, c.load(row, j))
        bad = c.let(f"fcmp ule double {pivot}, 0.0")
        c.set(failed, c.either(bad, 1, c.get(failed)))
        root = c.call("double", "llvm.sqrt.f64", [f"double {pivot}"])
        c.store(root, row, j)
        with c.loop(c.add(j, 1), "%n") as i:
            other = c.at("%out", c.mul(i, "%n"))
            x = _less_products(c, other, row, j, c.load(other, j))
            c.store(c.f("fdiv", x, root), other, j)
    c.give(c.get(failed))
    return c


def _less_products(c: Code, x: str, y: str, count: str, start: str) -> str:
    """start - sum of x[k] * y[k]."""
    total = c.cell(start, "double")
    with c.loop(0, count) as k:
        c.set(total, c.less(c.get(total, "double"), c.load(x, k), c.load(y, k)), "double")
    return c.get(total, "double")


def gram(integer: str) -> Code:
    """a a^T for n rows of k numbers, `%lead` apart (`%flip`: a^T a); one half is computed."""
    sizes = (f"i64 %{name}" for name in ("n", "k", "lead", "flip"))
    c = Code("tk.gram", ["ptr noalias %a", "ptr noalias %x", *sizes])
    turned = c.test("ne", "%flip", 0)
    turn = c.let(f"select i1 {turned}, i32 {_TURNED}, i32 {_PLAIN}")
    n, k, lead = extents(c, integer, ("%n", "%k", "%lead"))
    flags = [f"i32 {flag}" for flag in (_ROWS, _LOWER, turn)]
    scales = "double 1.0", "double 0.0"
    c.call("void", "cblas_dsyrk", [*flags, n, k, scales[0], "ptr %a", lead, scales[1], "ptr %x", n])
    with c.loop(0, "%n") as i, c.loop(0, i) as j:
        x = c.let(f"load double, ptr {c.entry('%x', i, j, '%n')}")
        c.lines.append(f"  store double {x}, ptr {c.entry('%x', j, i, '%n')}")
    c.give()
    return c


_BLOCK = 32  # rows


def cholesky_pull(integer: str) -> Code:
    """The pullback of the factor L: from a cotangent (whose lower half is read) to that of the
    matrix, in its lower half. I. Murray (2016), the blocked algorithm of section 5."""
    pointers = [f"ptr noalias %{name}" for name in ("l", "g", "x", "work")]
    c = Code("tk.cholesky_pull", [*pointers, "i64 %n"])
    c.copy("%g", "%x", c.mul("%n", "%n"))
    blocks = c.let(f"udiv i64 {c.add('%n', _BLOCK - 1)}, {_BLOCK}")
    with c.down(0, blocks) as block:
        j = c.mul(block, _BLOCK)
        left = c.sub("%n", j)
        size = c.either(c.test("slt", left, _BLOCK), left, _BLOCK)
        k = c.add(j, size)
        rest = c.sub("%n", k)
        row, below = c.mul(j, "%n"), c.mul(k, "%n")
        d, dx = (c.at(m, c.add(row, j)) for m in ("%l", "%x"))
        with c.when(c.test("sgt", rest, 0)):
            cl, cx = (c.at(m, c.add(below, j)) for m in ("%l", "%x"))
            _trsm(c, integer, (_RIGHT, _LOWER, _PLAIN), (rest, size), d, cx)
            _subtract_product(c, integer, (_PLAIN, (rest, j, size)), cx, c.at("%l", row), below)
            _subtract_product(c, integer, (_TURNED, (size, size, rest)), cx, cl, c.add(row, j))
            _subtract_product(c, integer, (_TURNED, (size, j, rest)), cx, c.at("%l", below), row)
        _pull_block(c, d, dx, size)
        with c.when(c.test("sgt", j, 0)):
            with c.loop(0, size) as p, c.loop(0, size) as q:
                high, low = c.either(c.test("slt", p, q), q, p), c.either(c.test("slt", p, q), p, q)
                x = c.let(f"load double, ptr {c.entry(dx, high, low, '%n')}")
                double = c.f(
                    "fmul", x, c.let(f"select i1 {c.test('eq', p, q)}, double 2.0, double 1.0")
                )
                c.lines.append(f"  store double {double}, ptr {c.entry('%work', p, q, size)}")
            _subtract_product(
                c, integer, (_PLAIN, (size, j, size)), "%work", c.at("%l", row), row, lead=size
            )
    with c.loop(0, "%n") as i, c.loop(c.add(i, 1), "%n") as above:
        c.lines.append(f"  store double 0.0, ptr {c.entry('%x', i, above, '%n')}")
    c.give()
    return c


def _pull_block(c: Code, d: str, dx: str, size: str) -> None:
    """The same for one block, row by row from the last."""
    with c.down(0, size) as q:
        pivot = c.load(d, c.mul(q, c.add("%n", 1)))
        own, mine = c.at(d, c.mul(q, "%n")), c.at(dx, c.mul(q, "%n"))
        total = c.cell("0.0", "double")
        with c.loop(c.add(q, 1), size) as i:
            x, at = c.load(c.at(d, c.mul(i, "%n")), q), c.entry(dx, i, q, "%n")
            product = c.f("fmul", x, c.let(f"load double, ptr {at}"))
            c.set(total, c.f("fadd", c.get(total, "double"), product), "double")
        share = c.f("fdiv", c.get(total, "double"), pivot)
        bar = c.f("fdiv", c.f("fsub", c.load(mine, q), share), pivot)
        with c.loop(0, q) as p:
            c.store(c.less(c.load(mine, p), bar, c.load(own, p)), mine, p)
        with c.loop(c.add(q, 1), size) as i:
            line, other = c.at(d, c.mul(i, "%n")), c.at(dx, c.mul(i, "%n"))
            scaled = c.f("fdiv", c.load(other, q), pivot)
            c.store(scaled, other, q)
            with c.loop(0, q) as p:
                c.store(c.less(c.load(mine, p), scaled, c.load(line, p)), mine, p)
                c.store(c.less(c.load(other, p), scaled, c.load(own, p)), other, p)
        c.store(c.f("fmul", bar, "0.5"), mine, q)


def _trsm(
    c: Code, integer: str, how: tuple[int, int, int], shape: tuple[str, str], t: str, x: str
) -> None:
    """x = x t^-1 (or t^-1 x), in place, both with rows %n apart."""
    side, half, turn = how
    m, k, lead = extents(c, integer, (*shape, "%n"))
    flags = [f"i32 {flag}" for flag in (_ROWS, side, half, turn, 131)]
    arguments = [m, k, "double 1.0", ptr(t), lead, ptr(x), lead]
    c.call("void", "cblas_dtrsm", [*flags, *arguments])


def _subtract_product(
    c: Code,
    integer: str,
    what: tuple[int, tuple[str, str, str]],
    a: str,
    b: str,
    at: str,
    *,
    lead: str = "%n",
) -> None:
    """%x[at:] -= op(a) b, of m rows, n columns, k terms; rows of `a` are `lead` apart."""
    turn, shape = what
    m, n, k, mine, others = extents(c, integer, (*shape, lead, "%n"))
    flags = [f"i32 {flag}" for flag in (_ROWS, turn, _PLAIN)]
    target = ptr(c.at("%x", at))
    arguments = [m, n, k, "double -1.0", ptr(a), mine, ptr(b), others, "double 1.0"]
    c.call("void", "cblas_dgemm", [*flags, *arguments, target, others])


# LU -----------------------------------------------------------------------------------------------


def _words(c: Code, f: str, n: str) -> tuple[str, str, str, str]:
    """Of a factored matrix: LAPACK's pivots, ours, "is lower", "is singular"."""
    raw = c.at(f, c.mul(n, n))
    pivots = c.at(raw, n)
    lower = c.at(pivots, n)
    return raw, pivots, lower, c.at(lower, 1)


def lu(integer: str) -> Code:
    """Factor a matrix. It never fails; it notes what is singular."""
    c = Code("tk.lu", ["ptr noalias %a", "ptr noalias %f", "ptr %work", "i64 %n"])
    c.transpose("%a", "%f", "%n", "%n")
    raw, pivots, lower, singular = _words(c, "%f", "%n")
    c.store(0, singular, kind="i64")
    with c.loop(0, "%n") as k:
        c.store(k, pivots, k, "i64")
    # Triangular already? The corner tells of most that they are not.
    is_lower, is_upper = (_is_triangular(c, lower_half) for lower_half in (True, False))
    c.store(c.let(f"zext i1 {is_lower} to i64"), lower, kind="i64")
    done = c.let(f"or i1 {is_lower}, {is_upper}")
    with c.when(c.unless(done)):
        with c.when(c.test("sgt", "%n", _SMALL)):
            size, info = integer_cell(c, "%n", integer), c.cell(0)
            c.call("void", "dgetrf_", list(map(ptr, (size, size, "%f", size, raw, info))))
            with c.loop(0, "%n") as k:
                found = c.let(f"getelementptr {integer}, ptr {raw}, i64 {k}")
                row = c.let(f"load {integer}, ptr {found}")
                if integer == "i32":
                    row = c.let(f"sext i32 {row} to i64")
                c.store(c.sub(row, 1), pivots, k, "i64")
        with c.when(c.test("sle", "%n", _SMALL)):
            _eliminate(c, pivots)
    with c.loop(0, "%n") as k:
        zero = c.let(f"fcmp oeq double {c.load('%f', c.mul(k, c.add('%n', 1)))}, 0.0")
        with c.when(zero):
            c.store(1, singular, kind="i64")
    c.give()
    return c


def _is_triangular(c: Code, lower: bool) -> str:
    """Whether the other half is zero; `%f` is stored by columns."""
    last = c.sub("%n", 1)
    corner = c.entry("%f", last, 0, "%n") if lower else c.entry("%f", 0, last, "%n")
    x = c.let(f"load double, ptr {corner}")
    found = c.cell(c.let(f"zext i1 {c.test('oeq', x, '0.0')} to i64"))
    with c.when(c.test("eq", c.get(found), 1)), c.loop(0, "%n") as column:
        first, end = (0, column) if lower else (c.add(column, 1), "%n")
        with c.loop(first, end) as row:
            x = c.let(f"load double, ptr {c.entry('%f', column, row, '%n')}")
            zero = c.test("oeq", x, "0.0")
            c.set(found, c.either(zero, c.get(found), 0))
    return c.test("eq", c.get(found), 1)


def _eliminate(c: Code, pivots: str) -> None:
    """Gauss's elimination with row exchanges, column by column."""
    with c.loop(0, "%n") as k:
        column = c.at("%f", c.mul(k, "%n"))
        best, at = c.cell("-1.0", "double"), c.cell(k)
        with c.loop(k, "%n") as r:
            size = c.call("double", "llvm.fabs.f64", [f"double {c.load(column, r)}"])
            more = c.test("ogt", size, c.get(best, "double"))
            with c.when(more):
                c.set(best, size, "double")
                c.set(at, r)
        row = c.get(at)
        c.store(row, pivots, k, "i64")
        with c.when(c.test("ne", row, k)), c.loop(0, "%n") as j:
            _exchange(c, c.entry("%f", j, row, "%n"), c.entry("%f", j, k, "%n"))
        pivot = c.load(column, k)
        below = c.add(k, 1)
        with c.when(c.test("one", pivot, "0.0")), c.loop(below, "%n") as r:
            c.store(c.f("fdiv", c.load(column, r), pivot), column, r)
        with c.loop(below, "%n") as j:
            other = c.at("%f", c.mul(j, "%n"))
            head = c.load(other, k)
            with c.loop(below, "%n") as r:
                c.store(c.less(c.load(other, r), c.load(column, r), head), other, r)


def _exchange(c: Code, a: str, b: str) -> None:
    x, y = c.load(a), c.load(b)
    c.store(y, a)
    c.store(x, b)


# Triangles ----------------------------------------------------------------------------------------


def triangle(integer: str) -> Code:
    """Solve T x = b in place for n rows x of k numbers; T is stored by columns.

    upper: which half T is; flip: its transpose is meant; unit: its diagonal is ones.
    """
    flags = ("upper", "flip", "unit")
    c = Code(
        "tk.triangle",
        ["ptr noalias %t", "ptr noalias %x", *(f"i64 %{x}" for x in ("n", "k", *flags))],
    )
    upper, flip, unit = (c.test("ne", f"%{flag}", 0) for flag in flags)
    with c.when(c.test("sgt", "%n", _SMALL)):
        _call_blas(c, integer, upper, flip, unit)
        c.give()
        c.lines.append(f"unused{c.tag()}:")
    for single in (True, False):
        with c.when(c.test("eq" if single else "ne", "%k", 1)):
            _substitute(c, single, upper, flip, unit)
    c.give()
    return c


def _call_blas(c: Code, integer: str, upper: str, flip: str, unit: str) -> None:
    def pick(condition: str, yes: int, no: int) -> str:
        return c.let(f"select i1 {condition}, i32 {yes}, i32 {no}")

    n, k = "%n", "%k"
    if integer == "i32":
        n, k = c.let("trunc i64 %n to i32"), c.let("trunc i64 %k to i32")
    diagonal = pick(unit, 132, 131)
    single = c.test("eq", "%k", 1)
    with c.when(single):
        half, turn = pick(upper, 121, 122), pick(flip, 112, 111)
        flags = [f"i32 {flag}" for flag in (_COLUMNS, half, turn, diagonal)]
        sizes = [f"{integer} {n}", "ptr %t", f"{integer} {n}", "ptr %x", f"{integer} 1"]
        c.call("void", "cblas_dtrsv", [*flags, *sizes])
    with c.when(c.unless(single)):  # by rows, T is its transpose
        half, turn = pick(upper, 122, 121), pick(flip, 111, 112)
        flags = [f"i32 {flag}" for flag in (_ROWS, _LEFT, half, turn, diagonal)]
        sizes = [f"{integer} {n}", f"{integer} {k}", "double 1.0", "ptr %t", f"{integer} {n}"]
        c.call("void", "cblas_dtrsm", [*flags, *sizes, "ptr %x", f"{integer} {k}"])


def _substitute(c: Code, single: bool, upper: str, flip: str, unit: str) -> None:
    """Row by row: downwards where op(T) is lower, else upwards."""
    upwards = c.let(f"xor i1 {upper}, {flip}")
    last = c.sub("%n", 1)
    with c.loop(0, "%n") as step:
        i = c.either(upwards, c.sub(last, step), step)
        first = c.either(upwards, c.add(i, 1), 0)
        end = c.either(upwards, "%n", i)
        x = c.at("%x", i if single else c.mul(i, "%k"))
        down, across = c.either(flip, 1, "%n"), c.either(flip, "%n", 1)
        row = c.at("%t", c.mul(i, across))
        pivot = c.let(f"select i1 {unit}, double 1.0, double {c.load(row, c.mul(i, down))}")
        if single:
            total = c.cell(c.load(x), "double")
            with c.loop(first, end) as j:
                known, t = c.load("%x", j), c.load(row, c.mul(j, down))
                c.set(total, c.less(c.get(total, "double"), t, known), "double")
            c.store(c.f("fdiv", c.get(total, "double"), pivot), x)
        else:
            with c.loop(first, end) as j:
                known, t = c.at("%x", c.mul(j, "%k")), c.load(row, c.mul(j, down))
                with c.loop(0, "%k") as column:
                    c.store(c.less(c.load(x, column), t, c.load(known, column)), x, column)
            with c.loop(0, "%k") as column:
                c.store(c.f("fdiv", c.load(x, column), pivot), x, column)


def _solve_in_place(c: Code, flip: str, k: str) -> None:
    """x becomes op(A)^-1 x, with the factors `%f`."""
    _, pivots, lower, _ = _words(c, "%f", "%n")

    def call(upper: object, unit: object) -> None:
        flags = [f"i64 {upper}", f"i64 {flip}", f"i64 {unit}"]
        c.call("i64", "tk.triangle", ["ptr %f", "ptr %x", "i64 %n", f"i64 {k}", *flags])

    is_lower = c.test("ne", c.load(lower, kind="i64"), 0)
    turned = c.test("ne", flip, 0)
    with c.when(is_lower):
        call(0, 0)
    with c.when(c.unless(is_lower)):
        with c.when(c.unless(turned)):
            with c.loop(0, "%n") as i:
                _exchange_rows(c, i, c.load(pivots, i, "i64"), k)
            call(0, 1)
            call(1, 0)
        with c.when(turned):
            call(1, 0)
            call(0, 1)
            with c.down(0, "%n") as i:
                _exchange_rows(c, i, c.load(pivots, i, "i64"), k)


def _exchange_rows(c: Code, i: str, j: str, k: str) -> None:
    with c.when(c.test("ne", i, j)), c.loop(0, k) as column:
        _exchange(c, c.entry("%x", i, column, k), c.entry("%x", j, column, k))


def _leave_if_singular(c: Code) -> None:
    *_, singular = _words(c, "%f", "%n")
    c.leave_if(c.test("ne", c.load(singular, kind="i64"), 0), 1)


def solve(integer: str) -> Code:
    """x = op(A)^-1 b for n rows of k numbers."""
    parameters = ["ptr noalias %f", "ptr noalias %b", "ptr noalias %x", "ptr %work"]
    c = Code("tk.solve", [*parameters, "i64 %n", "i64 %k", "i64 %flip"])
    _leave_if_singular(c)
    c.copy("%b", "%x", c.mul("%n", "%k"))
    _solve_in_place(c, "%flip", "%k")
    c.give()
    return c


def inv(integer: str) -> Code:
    """The inverse of op(A)."""
    parameters = ["ptr noalias %f", "ptr noalias %x", "ptr %work"]
    c = Code("tk.inv", [*parameters, "i64 %n", "i64 %flip"])
    _leave_if_singular(c)
    with c.loop(0, "%n") as i:
        with c.loop(0, "%n") as j:
            c.lines.append(f"  store double 0.0, ptr {c.entry('%x', i, j, '%n')}")
        c.lines.append(f"  store double 1.0, ptr {c.entry('%x', i, i, '%n')}")
    _solve_in_place(c, "%flip", "%n")
    c.give()
    return c


def solve_triangular(integer: str) -> Code:
    """x = op(T)^-1 b; T is stored by rows."""
    parameters = ["ptr noalias %t", "ptr noalias %b", "ptr noalias %x", "ptr %work"]
    flags = ["i64 %lower", "i64 %trans", "i64 %unit", "i64 %flip"]
    c = Code("tk.solve_triangular", [*parameters, "i64 %n", "i64 %k", *flags])
    with c.when(c.test("eq", "%unit", 0)), c.loop(0, "%n") as i:
        pivot = c.load("%t", c.mul(i, c.add("%n", 1)))
        c.leave_if(c.test("oeq", pivot, "0.0"), 1)
    c.copy("%b", "%x", c.mul("%n", "%k"))
    # Read transposed, the lower half of what is meant is the upper half of what is stored.
    stored_lower = c.let("xor i64 %lower, %flip")
    turned = c.let("xor i64 %trans, %flip")
    by_columns = c.let(f"xor i64 {turned}, 1")  # and by columns it is the other way round again
    arguments = ["ptr %t", "ptr %x", "i64 %n", "i64 %k"]
    flags = [f"i64 {stored_lower}", f"i64 {by_columns}", "i64 %unit"]
    c.call("i64", "tk.triangle", [*arguments, *flags])
    c.give()
    return c


# Determinants -------------------------------------------------------------------------------------


def slogdet(integer: str) -> Code:
    """Sign and logarithm of the size."""
    parameters = ["ptr noalias %f", "ptr noalias %out", "ptr %work"]
    c = Code("tk.slogdet", [*parameters, "i64 %n", "i64 %flip"])
    sign, total = _logarithm(c)
    c.store(sign, "%out")
    c.store(total, "%out", 1)
    c.give()
    return c


def det(integer: str) -> Code:
    """As NumPy does it: the sign times exp of the logarithm; small ones by multiplication."""
    parameters = ["ptr noalias %f", "ptr noalias %out", "ptr %work"]
    c = Code("tk.det", [*parameters, "i64 %n", "i64 %flip"])
    _, pivots, _, _ = _words(c, "%f", "%n")
    product = c.cell("1.0", "double")
    with c.loop(0, "%n") as i:
        pivot = c.load("%f", c.mul(i, c.add("%n", 1)))
        moved = c.test("ne", c.load(pivots, i, "i64"), i)
        turned = c.let(f"select i1 {moved}, double {c.let(f'fneg double {pivot}')}, double {pivot}")
        c.set(product, c.f("fmul", c.get(product, "double"), turned), "double")
    found = c.get(product, "double")
    c.store(found, "%out")
    size = c.call("double", "llvm.fabs.f64", [f"double {found}"])
    usual = c.let(f"and i1 {c.test('ogt', size, '1.0e-300')}, {c.test('olt', size, '1.0e300')}")
    c.leave_if(usual, 0)
    sign, total = _logarithm(c)
    c.store(c.f("fmul", sign, c.call("double", "llvm.exp.f64", [f"double {total}"])), "%out")
    c.give()
    return c


def _logarithm(c: Code) -> tuple[str, str]:
    _, pivots, _, singular = _words(c, "%f", "%n")
    sign, total = c.cell("1.0", "double"), c.cell("0.0", "double")
    with c.loop(0, "%n") as i:
        pivot = c.load("%f", c.mul(i, c.add("%n", 1)))
        size = c.call("double", "llvm.fabs.f64", [f"double {pivot}"])
        logarithm = c.call("double", "llvm.log.f64", [f"double {size}"])
        c.set(total, c.f("fadd", c.get(total, "double"), logarithm), "double")
        negative = c.test("olt", pivot, "0.0")
        moved = c.test("ne", c.load(pivots, i, "i64"), i)
        turns = c.let(f"xor i1 {negative}, {moved}")
        now = c.get(sign, "double")
        turned = c.let(f"fneg double {now}")
        c.set(sign, c.let(f"select i1 {turns}, double {turned}, double {now}"), "double")
    lost = c.test("ne", c.load(singular, kind="i64"), 0)
    at_zero = c.let(f"select i1 {lost}, double 0.0, double {c.get(sign, 'double')}")
    infinite = "0xFFF0000000000000"
    return at_zero, c.let(f"select i1 {lost}, double {infinite}, double {c.get(total, 'double')}")
