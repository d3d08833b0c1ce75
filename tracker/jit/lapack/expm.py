"""The matrix exponential, by scaling and squaring of a Pade approximant.

N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the matrix
is halved until the approximant of degree 13 is accurate for its norm, and the result is squared as
often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracker.jit.lapack.library_calls import gemm, ptr
from tracker.jit.lapack.routine_writer import RoutineWriter, routine

_DEGREE = 13
_MAX_NORM = 5.371920351148152  # for which the degree is accurate
_SCRATCH_MATRICES = 7  # matrices of scratch
_COEFFICIENTS = [  # of the approximant's numerator; the denominator has alternating signs
    float(math.perm(2 * _DEGREE - j, _DEGREE) // math.factorial(j)) for j in range(_DEGREE + 1)
]


@routine("a out work", "n", scratch=lambda n: ((_SCRATCH_MATRICES + 1) * n * n, 2 * n + 2))
def expm(c: RoutineWriter) -> None:
    square = c.mul("%n", "%n")
    a, *powers, u, v, w = (c.address("%work", c.mul(square, i)) for i in range(_SCRATCH_MATRICES))
    lu = c.address("%work", c.mul(square, _SCRATCH_MATRICES))
    norm = _norm(c)
    c.return_if(c.logical_not(c.compare("olt", norm, "1.0e300")), 1)  # not finite: SciPy's result
    halvings = _halvings(c, norm)
    scale = c.variable("1.0", "double")
    with c.loop(0, halvings):
        c.set(scale, c.real_op("fmul", c.get(scale), "0.5"))
    with c.loop(0, square) as i:
        c.store(c.scale_by_real("fmul", c.load("%a", i), c.get(scale)), a, i)
    gemm(c, a, a, powers[0])
    _approximant(c, powers, (u, v, w))
    gemm(c, a, w, u)
    with c.loop(0, square) as i:  # (v - u) x = v + u
        x, y = c.load(u, i), c.load(v, i)
        c.store(c.minus(y, x), a, i)
        c.store(c.plus(y, x), w, i)
    pivots = c.address(lu, square)
    c.call("i64", c.kind.symbol("lu"), [*map(ptr, (a, pivots, lu, "null")), "i64 %n"])
    arguments = [*map(ptr, (lu, pivots, w, "%out", "null")), "i64 %n", "i64 %n", "i64 0"]
    singular = c.call("i64", c.kind.symbol("solve"), arguments)
    c.return_if(c.compare("ne", singular, 0), 1)
    with c.loop(0, halvings):
        c.copy("%out", u, square)
        gemm(c, u, u, "%out")


def _norm(c: RoutineWriter) -> str:
    """The one-norm: the largest sum of a column."""
    largest = c.variable("0.0", "double")
    with c.loop(0, "%n") as j:
        total = c.variable("0.0", "double")
        with c.loop(0, "%n") as i:
            size = c.pivot_size(c.load(c.entry_address("%a", i, j, "%n")))
            c.accumulate(total, size)
        found, known = c.get(total), c.get(largest)
        less = c.compare("ole", found, known)  # keeps NaN
        c.set(largest, c.let(f"select i1 {less}, double {known}, double {found}"))
    return c.get(largest)


def _halvings(c: RoutineWriter, norm: str) -> str:
    """How often the matrix is halved until the approximant is accurate."""
    ratio = c.real_op("fdiv", norm, repr(_MAX_NORM))
    over = c.compare("ogt", ratio, "1.0")
    safe = c.let(f"select i1 {over}, double {ratio}, double 1.0")
    exponent = c.call("double", "llvm.log2.f64", [f"double {safe}"])
    whole = c.call("double", "llvm.ceil.f64", [f"double {exponent}"])
    return c.let(f"fptosi double {whole} to i64")


def _approximant(c: RoutineWriter, powers: Sequence[str], parts: Sequence[str]) -> None:
    """v: the even terms; w: the odd ones, over the matrix. `powers[0]` is the square already."""
    u, v, w = parts
    for at in (1, 2):
        gemm(c, powers[at - 1], powers[0], powers[at])
    for target, odd in ((v, 0), (w, 1)):  # the upper half times the sixth power
        b = _COEFFICIENTS[odd::2]
        _linear_combination(c, u, [0.0, *b[4:]], powers)
        gemm(c, powers[2], u, target)
        _linear_combination(c, target, b[:4], powers, accumulate=True)


def _linear_combination(
    c: RoutineWriter,
    target: str,
    weights: Sequence[float],
    powers: Sequence[str],
    *,
    accumulate: bool = False,
) -> None:
    """target (`accumulate`: +)= weights[0] + sum of weights[i] * powers[i - 1]."""
    with c.loop(0, "%n") as i:
        with c.loop(0, "%n") as j:
            at = c.add(c.mul(i, "%n"), j)
            total = c.load(target, at) if accumulate else c.zero
            for weight, power in zip(weights[1:], powers, strict=False):
                term = c.scale_by_real("fmul", c.load(power, at), repr(weight))
                total = c.plus(total, term)
            c.store(total, target, at)
        at = c.mul(i, c.add("%n", 1))
        c.store(c.plus(c.load(target, at), c.literal(repr(weights[0]))), target, at)
