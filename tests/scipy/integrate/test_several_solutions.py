"""Several solutions and integrals in one compiled function: right sides that are alike share a
body, and what is not alike is told apart."""

import re

import numpy as np
import pytest
from scipy.integrate import odeint, quad, solve_ivp
from scipy.optimize import root

import tracker

TIGHT = {"rtol": 1e-9, "atol": 1e-10}
BODY = re.compile(r"^define (?:internal )?i64 @body\d+\(", re.MULTILINE)
K = np.array([0.7, 0.3])
FIRST, SECOND = np.array([1.0, 0.25, 0.5]), np.array([0.5, 1.0, 0.75])


def chain(t, y, k):
    return [-k[0] * y[0], k[0] * y[0] - k[1] * y[1]]


def last(f, end, y0, *args, **options):
    return solve_ivp(f, (0.0, end), y0, t_eval=[end], args=args, **TIGHT, **options).y[:, -1]


def doses(k):
    """Other ends, doses and numbers of times."""
    y, total = np.zeros(2), 0.0
    for dose, times in ((1.0, [2.0]), (0.5, [0.5, 3.0]), (0.7, [0.5, 1.0, 1.5])):
        y = y + np.array([dose, 0.0])
        found = solve_ivp(chain, (0.0, times[-1]), y, t_eval=times, args=(k,), **TIGHT).y
        y, total = found[:, -1], total + np.sum(found[1])
    return total


def rates(k):
    """Other numbers in closures."""
    total = 0.0
    for rate, end in ((0.5, 1.0), (0.75, 1.0), (1.25, 2.0)):

        def right(t, y, rate=rate):
            return [-rate * k[0] * y[0], rate * k[1] * y[0] - y[1]]

        total = total + np.sum(last(right, end, [1.0, k[1]]))
    return total


def sizes(k):
    """Other numbers of equations."""
    right = lambda t, y: -k[0] * y + k[1] * np.sin(t)  # noqa: E731
    return sum(np.sum(last(right, 1.5, np.linspace(0.5, 1.0, n))) for n in (2, 3, 2))


def arrays(k):
    """Other arrays that the right side reads."""
    rights = [lambda t, y, a=a: k[0] * a * (k[1] - y) for a in (FIRST, SECOND)]
    return sum(np.sum(last(right, 1.0, [0.5, 0.5, 1.0])) for right in rights)


def orders(k):
    """The same operations in another order."""
    forwards, backwards = lambda t, y: k * y[::-1] - y, lambda t, y: y - k * y[::-1]
    return np.sum(last(forwards, 1.0, [1.0, 0.5])) - np.sum(last(backwards, 1.0, [1.0, 0.5]))


def powers(k):
    """Other exponents, which are no operands."""
    rights = [lambda t, y, n=n: -(k[0] * y**n) for n in (2, 3, 1.5)]
    return sum(np.sum(last(right, 1.0, [1.0, 0.5])) for right in rights)


def tolerances(k):
    """Other methods and tolerances."""
    total = 0.0
    for method, rtol in (("RK45", 1e-9), ("RK45", 1e-10), ("DOP853", 1e-9), ("Radau", 1e-7)):
        found = solve_ivp(
            chain, (0.0, 1.0), [1.0, 0.5], method, [0.5, 1.0], args=(k,), rtol=rtol, atol=1e-9
        )
        total = total + np.sum(found.y)
    return total


def by_odeint(k):
    total = 0.0
    for rate, end in ((0.5, 1.0), (0.75, 2.0)):
        found = odeint(lambda y, t, rate: -k * y * rate, [1.0, 0.5], [0.0, 0.5, end], (rate,))
        total = total + np.sum(found[1:])
    return total


def integrals(k):
    heights = lambda x, n: np.exp(-k[0] * x * n) * k[1]  # noqa: E731
    return sum(quad(heights, 0.0, n, (n,))[0] for n in (1.0, 1.5, 2.0))


def roots(k):
    excess = lambda x, c: x + k * np.tanh(x) - c  # noqa: E731
    return sum(np.sum(root(excess, K, (c,)).x) for c in (0.5, 0.75, 1.0))


# How many bodies there are: conditions (short, so one for each end), steps, and their pullbacks;
# and those that several loops call, which LLVM does not inline.
SHARED = {
    doses: (3 + 2, 2),
    rates: (2 + 2, 3),
    arrays: (1 + 2, 3),
    orders: (1 + 4, 1),
    powers: (1 + 6, 1),
}
PROGRAMS = [*SHARED, sizes, tolerances, by_odeint, integrals, roots]


@pytest.mark.parametrize("f", PROGRAMS)
def test_several_calls(f):
    slopes = tracker.value_and_grad(f)
    fast = tracker.jit(slopes)
    for k in (K, K * 1.1, K[::-1].copy()):
        value, slope = fast(k)
        wanted, wanted_slope = slopes(k)
        np.testing.assert_allclose(value, f(k), rtol=1e-6)
        np.testing.assert_allclose(value, wanted, rtol=1e-6)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-5, atol=1e-7)
    assert fast.cache_info().eager == 0


@pytest.mark.optimised
@pytest.mark.parametrize("f", SHARED)
def test_the_code_holds_a_shared_body_once(f):
    fast = tracker.jit(tracker.value_and_grad(f))
    fast(K)
    have = len(fast.ir(K).functions), len(BODY.findall(fast.llvm(K)))
    assert have == SHARED[f]


def test_equal_steps_are_pulled_back_once():
    functions = tracker.trace(tracker.value_and_grad(arrays), K).functions
    assert len([name for name in functions if name.startswith("back")]) == 1
