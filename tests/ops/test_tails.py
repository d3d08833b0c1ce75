"""First and second derivatives of every elementwise function against mpmath, over the whole range.

Where the derivative is a normal number, it is accurate: not 0, infinite or NaN because of rounding,
overflow or cancellation.
"""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from pairwise_parameters import DEEP as ALL
from tails import EXCUSED, ROWS

from tracker import gradient, jit
from tracker.ir.op import OPS

FEW = [1e-60, 1e-9, 0.3, 1.5, 30.0, 400.0, 1e60]
FEW_PAIRS = [1e-9, 0.7, 30.0, 1e30]
DEEP = [
    *(1e-300, 1e-200, 1e-160, 1e-100, 1e-45, 1e-38, 1e-30, 1e-20, 1e-8, 1e-3, 0.1, 0.3, 0.5, 0.9),
    *(1.0, 1.5, 2.5, 7.0, 12.0, 20.0, 30.0, 60.0, 88.0, 150.0, 300.0, 360.0, 400.0, 600.0, 700.0),
    *(1e3, 1e5, 1e8, 1e16, 1e19, 1e30, 1e100, 1e154, 1e160, 1e300),
]
DEEP_PAIRS = [1e-300, 1e-160, 1e-20, 1e-8, 1e-3, 0.7, 1.5, 3.0, 40.0, 300.0, 1e5, 1e20, 1e150]
KINDS = {np.float64: 1e-6, np.float32: 1e-3}


def test_every_elementwise_op_has_a_row_or_a_reason():
    smooth = {
        op.name
        for op in OPS.values()
        if op.partials is not None and any(map(callable, op.partials))
    }
    excused = {name for names in EXCUSED.values() for name in names}
    assert sorted(smooth - set(ROWS) - excused) == []
    assert sorted(excused & set(ROWS)) == []


def points(interval, row, magnitudes, kind):
    """Numbers of both signs, including some close to the ends of the interval."""
    low, high = interval
    ends = [low + 2.0**-k for k in (20, 10) if low] + [high - 2.0**-k for k in (20, 10)]
    found = np.array([*magnitudes, *(-m for m in magnitudes), *filter(math.isfinite, ends)])
    with np.errstate(over="ignore"):
        found = np.unique(found.astype(kind))
    tiny = np.finfo(kind).tiny
    size = np.abs(found.astype(float))
    inside = (found > low) & (found < high) & (size <= row.most) & (size >= max(tiny, row.least))
    return found[inside & np.isfinite(found)]


def exact(f, xs, orders):
    """The derivative relative to each operand, with as many digits as its magnitude requires."""
    sizes = [abs(math.log10(abs(x))) for x in xs]
    with mp.workdps(60 + int(4 * max(sizes) + sum(min(abs(x), 1e3) for x in xs))):
        xs = [mp.mpf(float(x)) for x in xs]

        def scaled(*ss):
            return f(*(x * (1 + s) for x, s in zip(xs, ss, strict=True)))

        zero = (0,) * len(xs)
        found = mp.diff(scaled, zero if len(xs) > 1 else 0, orders if len(xs) > 1 else orders[0])
        lost = mp.mpf(10) ** (-mp.mp.dps // 2)  # of a derivative that is 0, rounding is left
        if abs(found) < lost * abs(f(*xs)):
            return mp.mpf(0)
        return mp.re(found) / mp.fprod(x**n for x, n in zip(xs, orders, strict=True))


def derivatives(f, count, highest):
    """First and second derivatives of an elementwise function, with their orders."""

    def first(at, *xs):
        return gradient(lambda *xs: np.sum(f(*xs)), *xs, check_finite=False)[at]

    def second(at, other, *xs):
        return gradient(lambda *xs: np.sum(first(at, *xs)), *xs, check_finite=False)[other]

    def order(*which):
        return tuple(which.count(i) for i in range(count))

    pairs = list(itertools.combinations_with_replacement(range(count), 2)) if highest > 1 else []
    orders = [order(i) for i in range(count)] + [order(i, j) for i, j in pairs]

    def all_of_them(*xs):
        found = [first(i, *xs) for i in range(count)] + [second(i, j, *xs) for i, j in pairs]
        return [np.zeros_like(xs[0]) if d is None else d for d in found]

    return orders, all_of_them


def wrong(found, want, kind):
    limits = np.finfo(kind)
    if not 2 * limits.tiny < abs(want) < limits.max / 2:
        return False
    return not math.isfinite(found) or abs(mp.mpf(float(found)) - want) > KINDS[kind] * abs(want)


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_over_the_range(name):
    row = ROWS[name]
    one, several = (DEEP, DEEP_PAIRS) if ALL else (FEW, FEW_PAIRS)
    count = len(row.domains)
    orders, together = derivatives(row.function, count, row.orders)
    compiled = jit(together)
    faults = []
    for kind in KINDS:
        each = [points(d, row, one if count == 1 else several, kind) for d in row.domains]
        xs = [np.array(x) for x in zip(*itertools.product(*each), strict=True)]
        with np.errstate(all="ignore"):
            eager = together(*xs)
            fast = compiled(*xs) if kind is np.float64 or ALL else eager
        for at, place in enumerate(zip(*xs, strict=True)):
            for order, d, e in zip(orders, eager, fast, strict=True):
                want = exact(row.exact, place, order)
                for way, found in (("eager", d[at]), ("compiled", e[at])):
                    if wrong(found, want, kind):
                        faults.append(f"{way} {order} at {place}: {found}, not {mp.nstr(want, 6)}")
    assert faults == []
