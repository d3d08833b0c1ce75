"""Many products made one: the same values, and when it is left alone."""

import numpy as np
import pytest

import tracker
from tracker.ir.passes.cleanup import common_subexpressions, dead_code
from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_batching import batch_products, join_products
from tracker.ir.passes.simplify import simplify

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 6))
W = RNG.standard_normal((6, 7))
V = RNG.standard_normal((7, 6))
H = RNG.standard_normal((6, 6))
PASSES = [
    common_subexpressions,
    simplify,
    batch_products,
    join_products,
    common_subexpressions,
    dead_code,
]


def products(f, *args):
    """The types of the products that are left."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return [str(eqn.out.type) for eqn in function.eqns if eqn.op.name == "matmul"]


def agree(f, *args):
    fast = tracker.jit(f)
    fast(*args)
    others = [a * 1.5 + 0.25 for a in args]
    for got, want in zip(np.atleast_1d(fast(*others)), np.atleast_1d(f(*others)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def rows_times(x, w):
    return sum(np.sum(np.tanh(x[i] @ w)) for i in range(8))


def times_rows(x, v):
    return sum(np.sum(np.tanh(v @ x[i])) for i in range(8))


def some_rows(x, w):
    return sum(np.sum(np.tanh(x[i] @ w)) for i in (6, 2, 4, 1, 5))


def flat_rows(x, w):
    return sum(np.sum(np.tanh(x[i : i + 1] @ w)) for i in range(8))


def columns(x, v):
    return sum(np.sum(np.tanh(v @ x[i].reshape(6, 1))) for i in range(8))


def few_rows(x, w):
    return sum(np.sum(np.tanh(x[i] @ w)) for i in range(3))


@pytest.mark.parametrize(
    ("f", "args", "left"),
    [
        (rows_times, (X, W), ["f64[8,7]"]),
        (times_rows, (X, V), ["f64[8,7]"]),
        (some_rows, (X, W), ["f64[6,7]"]),
        (flat_rows, (X, W), ["f64[8,7]"]),
        (columns, (X, V), ["f64[8,7]"]),
        (few_rows, (X, W), ["f64[7]"] * 3),
    ],
)
def test_products_with_a_common_factor(f, args, left):
    assert products(f, *args) == left
    agree(f, *args)


def outer(x, y, pairs):
    total = 0.0
    for i, j in pairs:
        total = total + x[i].reshape(-1, 1) @ np.tanh(y[j]).reshape(1, -1)
    return total


Y = RNG.standard_normal((8, 9))
EQUAL = [(i, i) for i in range(8)]


def test_a_sum_of_outer_products():
    def f(x, y):
        return outer(x, y, EQUAL)

    assert products(f, X, Y) == ["f64[6,9]"]
    agree(f, X, Y)


def test_rows_in_any_order():
    def f(x, y):
        return outer(x, y, [(3, 2), (1, 7), (2, 0), (5, 5), (4, 1)])

    assert products(f, X, Y) == ["f64[6,9]"]
    assert "f64[5,6]" in str(run(tracker.trace(f, X, Y), PASSES))  # a piece of x, as it lies
    agree(f, X, Y)


def test_rows_with_gaps_and_twice():
    def f(x, y):
        return outer(x, y, [(0, 2), (0, 7), (2, 0), (7, 5), (4, 5)])

    assert products(f, X, Y) == ["f64[6,9]"]
    agree(f, X, Y)


def test_other_terms_stay():
    def f(x, y, z):
        early = outer(x, y, EQUAL[:4]) + z
        return np.exp(z) + (early + outer(x, y, EQUAL[4:])) * 2.0 + z

    z = RNG.standard_normal((6, 9))
    assert products(f, X, Y, z) == ["f64[6,9]"]
    agree(f, X, Y, z)


def test_factors_with_several_columns():
    def f(a, b):
        return sum(np.tanh(a * k) @ np.sin(b * k) for k in range(1, 7))

    a, b = RNG.standard_normal((20, 3)), RNG.standard_normal((3, 30))
    assert products(f, a, b) == ["f64[20,30]"]
    agree(f, a, b)


def test_transposed_factors():
    def f(a, b):
        return sum(np.tanh(a * k).T @ np.sin(b * k).T for k in range(1, 7))

    a, b = RNG.standard_normal((3, 20)), RNG.standard_normal((30, 3))
    assert products(f, a, b) == ["f64[20,30]"]
    agree(f, a, b)


def test_big_factors_are_not_copied():
    def f(a, b):
        return sum(np.tanh(a * k) @ np.sin(b * k) for k in range(1, 7))

    a, b = RNG.standard_normal((4, 50)), RNG.standard_normal((50, 4))
    assert products(f, a, b) == ["f64[4,4]"] * 6
    agree(f, a, b)


def test_partial_sums_that_somebody_uses():
    def f(x, y):
        half = outer(x, y, EQUAL[:4])
        return np.sum(np.cos(half)) + (half + outer(x, y, EQUAL[4:]))

    assert products(f, X, Y) == ["f64[6,9]"] * 8
    agree(f, X, Y)


def recurrent(w, h, x):
    state = np.zeros(6)
    loss = 0.0
    w = w[:, :6]
    for t in range(8):
        state = np.tanh(x[t] @ w + state @ h)
        loss = loss + np.sum(state**2)
    return loss


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_gradients_of_a_recurrent_network(dtype):
    arguments = [a.astype(dtype) for a in (W, H, X)]

    def f(*a):
        return tracker.gradient(lambda *b: np.real(recurrent(*b)), *a)

    fast = tracker.jit(f)
    fast(*arguments)
    others = [a * dtype(0.5) for a in arguments]
    for got, want in zip(fast(*others), f(*others), strict=True):
        assert got.dtype == want.dtype
        tolerance = 2e-5 if dtype is np.float32 else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_steps_do_not_add_products_to_the_gradient_of_the_weights():
    def f(w, h, x):
        return tracker.gradient(lambda w, h: recurrent(w, h, x), w, h)

    left = products(f, W, H, X)
    # x @ w at once, a step each, the two gradients, and a step back each but for the first
    assert len(left) == 1 + 8 + 2 + 7
