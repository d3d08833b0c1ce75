"""Two products with a factor in common become one: the same values, and when it is left alone."""

import numpy as np
import pytest

import tracker
from tracker.ir.passes.cleanup import common_subexpressions, dead_code
from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_batching import factor_products
from tracker.ir.passes.simplify import simplify

PASSES = [simplify, common_subexpressions, factor_products, common_subexpressions, dead_code]
RNG = np.random.default_rng(0)
A, B, C = (RNG.standard_normal((7, 7)) for _ in range(3))


def products(f, *args):
    """How many products are left."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return sum(eqn.op.name == "matmul" for eqn in function.eqns)


def agree(f, *args):
    fast = tracker.jit(f)
    fast(*args)
    others = [a * 1.5 + 0.25 for a in args]
    np.testing.assert_allclose(fast(*others), f(*others), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, c: a @ c + b @ c,
        lambda a, b, c: c @ a + c @ b,
        lambda a, b, c: a @ c.T + (c @ b).T,
        lambda a, b, c: (c.T @ a).T + b @ c,
        lambda a, b, c: (a @ c).T + (b @ c).T,
        lambda a, b, c: c @ a.T + (b @ c.T).T,
        lambda a, b, c: (a @ c).T + c.T @ b,
    ],
)
def test_a_factor_in_common(f):
    assert products(f, A, B, C) == 1
    agree(f, A, B, C)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, c: a @ c + c @ b,
        lambda a, b, c: a @ c + b @ c.T,
        lambda a, b, c: a @ c - b @ c,
        lambda a, b, c: (a @ c).T + b @ c,
    ],
)
def test_none_in_common(f):
    assert products(f, A, B, C) == 2
    agree(f, A, B, C)


def test_products_that_somebody_else_reads():
    def f(a, b, c):
        p = a @ c
        return np.sin(p) + (p + b @ c)

    assert products(f, A, B, C) == 2
    agree(f, A, B, C)


def test_narrow_results_are_left_alone():
    def f(a, b, c):
        return a @ c + b @ c

    assert products(f, A, B, C[:, :2].copy()) == 2
    assert products(f, A[:2].copy(), B[:2].copy(), C) == 1


def test_factors_of_several_dtypes():
    def f(a, b, c):
        return a @ c + b @ c

    assert products(f, A.astype(np.float32), B, C) == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(7, 7), (5, 30), (30, 5)])
def test_the_gradient_of_a_gram_matrix_is_one_product(dtype, shape):
    def loss(b):
        return np.sum(np.sin(b @ b.T) ** 2)

    b = RNG.standard_normal(shape).astype(dtype)
    assert products(lambda b: tracker.gradient(loss, b), b) == 2
    (got,) = tracker.jit(lambda b: tracker.gradient(loss, b))(b)
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    (want,) = tracker.gradient(loss, b)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert got.dtype == dtype


@pytest.mark.parametrize("axes", [([0, 1], [0, 1]), ([1, 0], [1, 0])])
def test_the_gradient_of_a_gram_matrix_of_a_tensor(axes):
    def loss(x):
        return np.sum(np.tensordot(x, x, axes) ** 2)

    x = RNG.standard_normal((5, 6, 7))
    assert products(lambda x: tracker.gradient(loss, x), x) == 2
    agree(lambda x: tracker.gradient(loss, x)[0], x)


def test_products_in_other_shapes():
    def crossed(a, b, c):  # (6, 4) of (4, 6) is not its transpose
        return np.reshape(a @ c, (6, 4)).T + b @ c

    def spread(a, b, c):
        return np.reshape(a @ c, (24,)) + np.reshape(b @ c, (24, 1))

    def flat(a, b, c):
        return np.reshape(a @ c, (24,)) + np.reshape(b @ c, (24,))

    a, b, c = RNG.standard_normal((4, 5)), RNG.standard_normal((4, 5)), RNG.standard_normal((5, 6))
    for f, count in ((crossed, 2), (spread, 2), (flat, 1)):
        assert products(f, a, b, c) == count
        agree(f, a, b, c)
