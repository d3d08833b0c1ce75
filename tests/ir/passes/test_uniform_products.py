"""Products of matrices whose rows, or columns, are alike multiply one of them."""

import numpy as np
import pytest

import tracker
from tracker.ir.passes.cleanup import common_subexpressions, dead_code
from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_batching import uniform_products
from tracker.ir.passes.simplify import simplify

PASSES = [common_subexpressions, simplify, uniform_products, common_subexpressions, dead_code]
RNG = np.random.default_rng(0)
A, B, C = (RNG.standard_normal(shape) for shape in ((20, 30), (30, 40), (40, 50)))
STACK, ROW = RNG.standard_normal((3, 30, 40)), RNG.standard_normal(30)


def shapes(f, *args):
    """Of the results of all products."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return [eqn.out.type.shape for eqn in function.eqns if eqn.op.name == "matmul"]


def agree(f, *args):
    fast = tracker.jit(f)
    for scale in (1.0, 1.0, 0.5):
        given = [x * scale for x in args]
        for have, want in zip(
            tracker.tree.leaves(fast(*given)), tracker.tree.leaves(f(*given)), strict=True
        ):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
            assert np.shape(have) == np.shape(want)


def chain(a, b, c):
    return np.sum(0.5 * a @ b @ c)


CASES = [
    (lambda a, b, c: tracker.gradient(chain, a, b, c), (A, B, C), 6, 3),
    (lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, (B,), 1, 1),
    (lambda r, b: np.broadcast_to(r, (20, 30)) @ b, (ROW, B), 1, 1),
    (lambda r, b: (np.broadcast_to(r, (20, 30)) * 2.0 + np.sin(r)) @ b, (ROW, B), 1, 1),
    (lambda r, a: a @ np.broadcast_to(r, (20, 30)).T, (ROW, A), 1, 1),
    (lambda r, x: np.broadcast_to(r, (3, 20, 30)) @ x, (ROW, STACK), 1, 1),
    (lambda r, x: np.broadcast_to(r[:1], (30,)) @ x[0], (ROW, STACK), 1, 0),
    (lambda r, a: (a + r) @ np.broadcast_to(r, (20, 30)).T[:, 0], (ROW, A), 1, 0),
    (lambda r, a: np.broadcast_to(r[:20, None], (20, 30)) @ a.T, (ROW, A), 1, 0),
]


@pytest.mark.parametrize(("f", "args", "products", "slim"), CASES)
def test_one_of_the_rows_that_are_alike_is_multiplied(f, args, products, slim):
    found = shapes(f, *args)
    assert len(found) == products
    assert sum(1 in shape[-2:] for shape in found) == slim
    agree(f, *args)


def test_rows_of_both_factors():
    f = lambda r: np.broadcast_to(r, (20, 30)) @ np.broadcast_to(r[:, None], (30, 40))  # noqa: E731
    assert shapes(f, ROW) == [(1, 1)]
    agree(f, ROW)


def test_infinite_numbers_and_nans_stay_in_their_rows():
    b = B.copy()
    b[3, 4], b[5, 6] = np.inf, np.nan
    agree(lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, b)
