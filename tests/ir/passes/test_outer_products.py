"""Products over one term are products of elements; those that are added up stay products."""

import numpy as np
import pytest

import tracker
from tracker.ir.passes.cleanup import common_subexpressions, dead_code
from tracker.ir.passes.linalg_dtypes import legalize_linalg_dtypes
from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_batching import batch_products, join_products, outer_products
from tracker.ir.passes.simplify import simplify

PASSES = [
    *(
        legalize_linalg_dtypes,
        common_subexpressions,
        simplify,
        batch_products,
        join_products,
        outer_products,
    ),
    *(common_subexpressions, dead_code),
]
RNG = np.random.default_rng(0)
COLUMN, ROW = RNG.standard_normal((40, 1)), RNG.standard_normal((1, 50))
MATRIX, VECTOR = RNG.standard_normal((40, 50)), RNG.standard_normal(50)


def products(f, *args):
    """How many products are left."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return sum(eqn.op.name == "matmul" for eqn in function.eqns)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda a, b: a @ b, (COLUMN, ROW)),
        (lambda a, b: 1j * a @ b, (COLUMN, ROW)),
        (lambda a, b: np.stack([a, 2 * a]) @ b, (COLUMN, ROW)),
        (lambda a, b: tracker.gradient(lambda a: np.sum(np.sin(a @ b)), a)[0], (MATRIX, VECTOR)),
    ],
)
def test_a_column_times_a_row_is_no_product(f, args):
    plain = products(f, *args)
    assert plain == (1 if args[0] is MATRIX else 0)
    fast = tracker.jit(f)
    fast(*args)
    np.testing.assert_allclose(fast(*args), f(*args), rtol=1e-14)


def test_zeros_have_the_signs_of_numpys_product():
    def f(a, b):
        return np.copysign(1.0, a @ b)

    a, b = np.array([[-0.0], [0.0], [1.0]] * 20), np.array([[1.0, -1.0, 0.0, -0.0] * 20])
    fast = tracker.jit(f)
    fast(a, b)
    np.testing.assert_array_equal(fast(a, b), f(a, b))


def test_outer_products_that_are_added_up_are_one_product():
    def f(w, x):
        loss = lambda w: sum(np.sum(np.tanh(w @ x[i])) for i in range(12))  # noqa: E731
        return tracker.gradient(loss, w)[0]

    w, x = RNG.standard_normal((20, 30)), RNG.standard_normal((12, 30))
    assert products(f, w, x) <= 2
    fast = tracker.jit(f)
    fast(w, x)
    np.testing.assert_allclose(fast(w, x), f(w, x), rtol=1e-11, atol=1e-12)


def test_a_column_of_integers_times_a_row():
    a, b = np.arange(40)[:, None], np.arange(50)[None]
    fast = tracker.jit(lambda a, b: a @ b)
    fast(a, b)
    np.testing.assert_array_equal(fast(a, b), a @ b)
