"""What a branch scatters is scattered after it, so that a loop adds to few elements in a step."""

import numpy as np
import pytest
from compare import compiled, compiled_ir

import tracker

pytestmark = pytest.mark.usefixtures("short_loops_stay")
RNG = np.random.default_rng(0)
X = RNG.standard_normal(200)
PLACES = RNG.integers(0, 200, (60, 3))


def either(x):
    total = 0.0
    for i, j, _ in PLACES:
        if i % 2:
            total += x[i] ** 2
        else:
            total -= np.sin(x[j])
    return total


def one_reads_more(x):
    total = 0.0
    for i, j, k in PLACES:
        if i % 2:
            total += x[i] * x[j] * np.tanh(x[k])
        else:
            total *= 0.9
    return total


def of_three(x):
    total = 0.0
    for i, j, k in PLACES:
        if i % 3 == 0:
            total += np.exp(x[j])
        elif i % 3 == 1:
            total += x[k] * x[3]
        else:
            total = total * 0.5 + x[i]
    return total


def within(x):
    total = 0.0
    for i, j, k in PLACES:
        if i % 2:
            total += x[k] * (x[i] if j % 2 else np.cos(x[j]))
    return total


def of_rows(x):
    table, total = x.reshape(50, 4), np.zeros(4)
    for i, j, _ in PLACES:
        total = total + (table[i % 50] ** 2 if j % 2 else total * 0.1)
    return np.sum(total)


def with_a_test_on_what_is_read(x):
    total = 0.0
    for i, j, _ in PLACES:
        if x[i] > 0.0:
            total += j
        else:
            total = total * np.tanh(x[3]) - j
    return total


def on_values(x):
    """The condition depends on what is differentiated."""
    total = 0.0
    for i, j, _ in PLACES:
        a, b = x[i], x[j]
        total = tracker.cond(a > b, lambda t, a, _: t + a**2, lambda t, _, b: t - b, total, a, b)
    return total


def ops_of_large(function):
    """The ops that give arrays as large as X, in nested functions."""
    found = set()
    for body in function.functions.values():
        found |= {eqn.op.name for eqn in body.eqns if eqn.out.type.size == X.size}
        found |= ops_of_large(body)
    return found


@pytest.mark.parametrize(
    "f", [either, one_reads_more, of_three, within, of_rows, with_a_test_on_what_is_read, on_values]
)
def test_branches_give_what_is_scattered(f):
    fast = compiled(lambda x: tracker.withgradient(f, x), X, rtol=1e-12)
    assert ops_of_large(compiled_ir(fast)) <= {"scattered_added", "reshape"}


def test_branches_that_scatter_much_stay():
    def f(x):
        total = 0.0
        for i, j, _ in PLACES:
            total = total + (np.sum(x[(PLACES[:, 0] + i) % 200] ** 2) if i % 2 else x[j])
        return total

    fast = compiled(lambda x: tracker.withgradient(f, x), X, rtol=1e-12)
    assert "scattered_sum" in ops_of_large(compiled_ir(fast))


def test_a_result_that_is_read_itself_is_made_once():
    def f(x, n):
        pull = tracker.cond(
            n > 2,
            lambda x: tracker.gradient(lambda x: np.sum(x[PLACES[0]] ** 2), x)[0],
            np.zeros_like,
            x,
        )
        return pull, pull + x, np.copysign(1.0, pull)

    fast = compiled(f, X, 3)
    found = fast(X, 1)
    np.testing.assert_array_equal(found[0], np.zeros(200))
    assert not np.signbit(found[0]).any()
