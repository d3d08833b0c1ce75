"""LU factors, solving with them, triangular systems, determinants.

A factored matrix ("lu") is n*n numbers (`%f`), the factors as LAPACK's getrf leaves them (column by
column), and 2n + 2 words (`%p`): n for LAPACK, for each row the row that it was exchanged with
(counted from 0), a word that is 1 if the matrix was lower triangular and kept unchanged, and one
that is 1 if it is singular. They are separate, so that the factors fit into a matrix of the same
size.

Small matrices are worked on in loops: a call of LAPACK costs more than they do.
"""

from __future__ import annotations

from tracker.jit.lapack.library_calls import (
    COLUMN_MAJOR,
    LEFT,
    LOWER,
    NON_UNIT_DIAGONAL,
    NOT_TRANSPOSED,
    ROW_MAJOR,
    TRANSPOSED,
    UNIT_DIAGONAL,
    UPPER,
    call_blas,
    integer_argument,
    load_integer,
    ptr,
)
from tracker.jit.lapack.routine_writer import MAX_LOOP_ROWS, RoutineWriter, routine

# LU -----------------------------------------------------------------------------------------------


def _factor_words(c: RoutineWriter) -> tuple[str, str, str, str]:
    """The parts of `%p`: LAPACK's pivots, ours, "is lower", "is singular"."""
    pivots = c.address("%p", "%n", "i64")
    lower = c.address(pivots, "%n", "i64")
    return "%p", pivots, lower, c.address(lower, 1, "i64")


@routine("a p f", "n", "work")
def lu(c: RoutineWriter) -> None:
    """Factor a matrix. It never fails; it records a singular matrix."""
    c.transpose("%a", "%f", "%n", "%n")
    raw, pivots, lower, singular = _factor_words(c)
    c.store(0, singular, kind="i64")
    with c.loop(0, "%n") as k:
        c.store(k, pivots, k, "i64")
    # Triangular? For most matrices the corner says no.
    is_lower, is_upper = (_is_triangular(c, lower_half) for lower_half in (True, False))
    c.store(c.let(f"zext i1 {is_lower} to i64"), lower, kind="i64")
    done = c.let(f"or i1 {is_lower}, {is_upper}")
    with c.when(c.logical_not(done)):
        with c.when(c.compare("sgt", "%n", MAX_LOOP_ROWS)):
            size, info = integer_argument(c, "%n"), c.variable(0)
            c.call("void", c.kind.lapack("getrf"), [*map(ptr, (size, size, "%f", size, raw, info))])
            with c.loop(0, "%n") as k:
                c.store(c.sub(load_integer(c, raw, k), 1), pivots, k, "i64")
        with c.when(c.compare("sle", "%n", MAX_LOOP_ROWS)):
            _eliminate(c, pivots)
    with c.loop(0, "%n") as k, c.when(c.is_zero(c.load("%f", c.mul(k, c.add("%n", 1))))):
        c.store(1, singular, kind="i64")


def _is_triangular(c: RoutineWriter, lower: bool) -> str:
    """Whether the other half is zero; `%f` is stored by columns."""
    last = c.sub("%n", 1)
    corner = c.entry_address("%f", last, 0, "%n") if lower else c.entry_address("%f", 0, last, "%n")
    found = c.variable(c.let(f"zext i1 {c.is_zero(c.load(corner))} to i64"))
    with c.when(c.compare("eq", c.get(found), 1)), c.loop(0, "%n") as column:
        first, end = (0, column) if lower else (c.add(column, 1), "%n")
        with c.loop(first, end) as row:
            zero = c.is_zero(c.load(c.entry_address("%f", column, row, "%n")))
            c.set(found, c.select(zero, c.get(found), 0))
    return c.compare("eq", c.get(found), 1)


def _eliminate(c: RoutineWriter, pivots: str) -> None:
    """Gaussian elimination with row exchanges, column by column."""
    with c.loop(0, "%n") as k:
        column = c.address("%f", c.mul(k, "%n"))
        best, at = c.variable("-1.0", "double"), c.variable(k)
        with c.loop(k, "%n") as r:
            size = c.pivot_size(c.load(column, r))
            more = c.compare("ogt", size, c.get(best))
            with c.when(more):
                c.set(best, size)
                c.set(at, r)
        row = c.get(at)
        c.store(row, pivots, k, "i64")
        with c.when(c.compare("ne", row, k)), c.loop(0, "%n") as j:
            _swap(c, c.entry_address("%f", j, row, "%n"), c.entry_address("%f", j, k, "%n"))
        pivot = c.load(column, k)
        below = c.add(k, 1)
        with c.when(c.logical_not(c.is_zero(pivot))), c.loop(below, "%n") as r:
            c.store(c.divide(c.load(column, r), pivot), column, r)
        with c.loop(below, "%n") as j:
            other = c.address("%f", c.mul(j, "%n"))
            head = c.load(other, k)
            with c.loop(below, "%n") as r:
                c.store(c.subtract_product(c.load(other, r), c.load(column, r), head), other, r)


def _swap(c: RoutineWriter, a: str, b: str) -> None:
    x, y = c.load(a), c.load(b)
    c.store(y, a)
    c.store(x, b)


# Triangles ----------------------------------------------------------------------------------------


@routine("t x", "n k upper flip unit")
def triangle(c: RoutineWriter) -> None:
    """Solve T x = b in place for n rows x of k numbers; T is stored by columns.

    upper: which half T is; flip: use its transpose; unit: its diagonal is ones.
    """
    flags = ("upper", "flip", "unit")
    upper, flip, unit = (c.compare("ne", f"%{flag}", 0) for flag in flags)
    with c.when(c.compare("sgt", "%n", MAX_LOOP_ROWS)):
        _call_blas(c, upper, flip, unit)
        c.leave()
    for single in (True, False):
        with c.when(c.compare("eq" if single else "ne", "%k", 1)):
            _substitute(c, single, upper, flip, unit)


def _call_blas(c: RoutineWriter, upper: str, flip: str, unit: str) -> None:
    def pick(condition: str, yes: int, no: int) -> str:
        return c.let(f"select i1 {condition}, i32 {yes}, i32 {no}")

    diagonal = pick(unit, UNIT_DIAGONAL, NON_UNIT_DIAGONAL)
    single = c.compare("eq", "%k", 1)
    with c.when(single):
        half, trans = pick(upper, UPPER, LOWER), pick(flip, TRANSPOSED, NOT_TRANSPOSED)
        call_blas(c, "trsv", COLUMN_MAJOR, half, trans, diagonal, "%n", "%t", "%n", "%x", 1)
    with c.when(c.logical_not(single)):  # in row-major order, T is its transpose
        half, trans = pick(upper, LOWER, UPPER), pick(flip, NOT_TRANSPOSED, TRANSPOSED)
        flags = ROW_MAJOR, LEFT, half, trans, diagonal
        call_blas(c, "trsm", *flags, "%n", "%k", "1.0", "%t", "%n", "%x", "%k")


def _substitute(c: RoutineWriter, single: bool, upper: str, flip: str, unit: str) -> None:
    """Row by row: downwards where op(T) is lower, else upwards."""
    upwards = c.let(f"xor i1 {upper}, {flip}")
    last = c.sub("%n", 1)
    with c.loop(0, "%n") as step:
        i = c.select(upwards, c.sub(last, step), step)
        first = c.select(upwards, c.add(i, 1), 0)
        end = c.select(upwards, "%n", i)
        x = c.address("%x", i if single else c.mul(i, "%k"))
        down, across = c.select(flip, 1, "%n"), c.select(flip, "%n", 1)
        row = c.address("%t", c.mul(i, across))
        pivot = c.select_element(unit, c.one, c.load(row, c.mul(i, down)))
        if single:
            total = c.variable(c.load(x), c.element_type)
            with c.loop(first, end) as j:
                known, t = c.load("%x", j), c.load(row, c.mul(j, down))
                c.set(
                    total,
                    c.subtract_product(c.get(total), t, known),
                )
            c.store(c.divide(c.get(total), pivot), x)
        else:
            with c.loop(first, end) as j:
                known, t = c.address("%x", c.mul(j, "%k")), c.load(row, c.mul(j, down))
                with c.loop(0, "%k") as column:
                    c.store(
                        c.subtract_product(c.load(x, column), t, c.load(known, column)), x, column
                    )
            with c.loop(0, "%k") as column:
                c.store(c.divide(c.load(x, column), pivot), x, column)


def _solve_in_place(c: RoutineWriter, flip: str, k: str) -> None:
    """x becomes op(A)^-1 x, with the factors `%f` and `%p`."""
    _, pivots, lower, _ = _factor_words(c)

    def call(upper: object, unit: object) -> None:
        flags = [f"i64 {upper}", f"i64 {flip}", f"i64 {unit}"]
        c.call("i64", c.kind.symbol("triangle"), ["ptr %f", "ptr %x", "i64 %n", f"i64 {k}", *flags])

    is_lower = c.compare("ne", c.load(lower, kind="i64"), 0)
    transposed = c.compare("ne", flip, 0)
    with c.when(is_lower):
        call(0, 0)
    with c.when(c.logical_not(is_lower)):
        with c.when(c.logical_not(transposed)):
            with c.loop(0, "%n") as i:
                _swap_rows(c, i, c.load(pivots, i, "i64"), k)
            call(0, 1)
            call(1, 0)
        with c.when(transposed):
            call(1, 0)
            call(0, 1)
            with c.loop_down(0, "%n") as i:
                _swap_rows(c, i, c.load(pivots, i, "i64"), k)


def _swap_rows(c: RoutineWriter, i: str, j: str, k: str) -> None:
    with c.when(c.compare("ne", i, j)), c.loop(0, k) as column:
        _swap(c, c.entry_address("%x", i, column, k), c.entry_address("%x", j, column, k))


def _return_if_singular(c: RoutineWriter) -> None:
    *_, singular = _factor_words(c)
    c.return_if(c.compare("ne", c.load(singular, kind="i64"), 0), 1)


@routine("f p b x", "n k flip", "work")
def solve(c: RoutineWriter) -> None:
    """x = op(A)^-1 b for n rows of k numbers."""
    _return_if_singular(c)
    c.copy("%b", "%x", c.mul("%n", "%k"))
    _solve_in_place(c, "%flip", "%k")


@routine("f p x", "n flip", "work")
def inv(c: RoutineWriter) -> None:
    """The inverse of op(A)."""
    _return_if_singular(c)
    with c.loop(0, "%n") as i:
        with c.loop(0, "%n") as j:
            c.store(c.zero, c.entry_address("%x", i, j, "%n"))
        c.store(c.one, c.entry_address("%x", i, i, "%n"))
    _solve_in_place(c, "%flip", "%n")


@routine("t b x", "n k lower trans conj unit flip", "work")
def solve_triangular(c: RoutineWriter) -> None:
    """x = op(T)^-1 b; T is stored by rows. op may transpose, and conjugate: conj(T) x = b as
    T conj(x) = conj(b)."""
    with c.when(c.compare("eq", "%unit", 0)), c.loop(0, "%n") as i:
        c.return_if(c.is_zero(c.load("%t", c.mul(i, c.add("%n", 1)))), 1)
    count, conjugated = c.mul("%n", "%k"), c.compare("ne", "%conj", 0)
    c.copy("%b", "%x", count)
    with c.when(conjugated):
        c.conjugate("%x", count)
    # Transposed, the lower half is the upper half in storage.
    stored_lower = c.let("xor i64 %lower, %flip")
    transposed = c.let("xor i64 %trans, %flip")
    by_columns = c.let(f"xor i64 {transposed}, 1")  # stored by columns, it is transposed again
    arguments = ["ptr %t", "ptr %x", "i64 %n", "i64 %k"]
    flags = [f"i64 {stored_lower}", f"i64 {by_columns}", "i64 %unit"]
    c.call("i64", c.kind.symbol("triangle"), [*arguments, *flags])
    with c.when(conjugated):
        c.conjugate("%x", count)


# Determinants -------------------------------------------------------------------------------------


@routine("f p out", "n flip", "work")
def slogdet(c: RoutineWriter) -> None:
    """Sign and logarithm of the absolute value."""
    sign, total = _logarithm(c)
    c.store(sign, "%out")
    c.store(c.element(total), "%out", 1)


@routine("f p out", "n flip", "work")
def det(c: RoutineWriter) -> None:
    """As NumPy does it: sign times exp of the logarithm; of moderate size, by multiplication."""
    _, pivots, _, _ = _factor_words(c)
    product = c.variable(c.one, c.element_type)
    with c.loop(0, "%n") as i:
        pivot = c.load("%f", c.mul(i, c.add("%n", 1)))
        moved = c.compare("ne", c.load(pivots, i, "i64"), i)
        turned = c.select_element(moved, c.neg(pivot), pivot)
        c.set(product, c.multiply(c.get(product), turned))
    found = c.get(product)
    c.store(found, "%out")
    size = c.pivot_size(found)
    usual = c.let(
        f"and i1 {c.compare('ogt', size, '1.0e-300')}, {c.compare('olt', size, '1.0e300')}"
    )
    c.return_if(usual, 0)
    sign, total = _logarithm(c)
    length = c.call("double", "llvm.exp.f64", [f"double {total}"])
    c.store(c.scale_by_real("fmul", sign, length), "%out")


def _logarithm(c: RoutineWriter) -> tuple[str, str]:
    _, pivots, _, singular = _factor_words(c)
    sign, total = c.variable(c.one, c.element_type), c.variable("0.0", "double")
    with c.loop(0, "%n") as i:
        pivot = c.load("%f", c.mul(i, c.add("%n", 1)))
        size = c.absolute(pivot)
        logarithm = c.call("double", "llvm.log.f64", [f"double {size}"])
        c.accumulate(total, logarithm)
        moved = c.compare("ne", c.load(pivots, i, "i64"), i)
        now = c.get(sign)
        turned = c.select_element(moved, c.neg(now), now)
        c.set(sign, c.multiply(turned, c.direction(pivot, size)))
    lost = c.compare("ne", c.load(singular, kind="i64"), 0)
    at_zero = c.select_element(lost, c.zero, c.get(sign))
    infinite = "0xFFF0000000000000"
    return at_zero, c.let(f"select i1 {lost}, double {infinite}, double {c.get(total)}")
