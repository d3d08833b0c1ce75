"""Rewrites of matrix products: which products are left, and the same values."""

import numpy as np
import pytest

import tracker
from tracker.ir.passes.cleanup import common_subexpressions, dead_code
from tracker.ir.passes.manager import run
from tracker.ir.passes.simplify import simplify

PASSES = [common_subexpressions, simplify, common_subexpressions, dead_code]
RNG = np.random.default_rng(0)


def products(f, *args):
    """The shapes of the products that are left."""
    function = run(tracker.trace(f, *args), PASSES, check=True)
    return [eqn.out.type.shape for eqn in function.eqns if eqn.op.name == "matmul"]


def agree(f, *args, rtol=1e-12):
    fast = tracker.jit(f)
    for scale in (1.0, 1.0, 0.5):
        given = [x * scale for x in args]
        for have, want in zip(
            tracker.tree.leaves(fast(*given)), tracker.tree.leaves(f(*given)), strict=True
        ):
            np.testing.assert_allclose(have, want, rtol=rtol, atol=rtol)
            assert np.shape(have) == np.shape(want)


# Equal rows, or columns ---------------------------------------------------------------------------

A, B, C = (RNG.standard_normal(shape) for shape in ((20, 30), (30, 40), (40, 50)))
STACK, ROW = RNG.standard_normal((3, 30, 40)), RNG.standard_normal(30)


def chain(a, b, c):
    return np.sum(0.5 * a @ b @ c)


@pytest.mark.parametrize(
    ("f", "args", "count", "slim"),
    [
        (lambda a, b, c: tracker.gradient(chain, a, b, c), (A, B, C), 6, 3),
        (lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, (B,), 1, 1),
        (lambda r, b: np.broadcast_to(r, (20, 30)) @ b, (ROW, B), 1, 1),
        (lambda r, x: np.broadcast_to(r, (3, 20, 30)) @ x, (ROW, STACK), 1, 1),
        (lambda r, x: np.broadcast_to(r[:1], (30,)) @ x[0], (ROW, STACK), 1, 0),
        (lambda r, b: np.broadcast_to(r, (20, 30)) @ b[:, 0], (ROW, B), 1, 0),
        (lambda r, a: np.broadcast_to(r[:20, None], (20, 30)) @ a.T, (ROW, A), 1, 0),
        (
            lambda r: np.broadcast_to(r, (9, 30)) @ np.broadcast_to(r[:, None], (30, 8)),
            (ROW,),
            1,
            1,
        ),
    ],
)
def test_one_of_several_equal_rows_is_multiplied(f, args, count, slim):
    found = products(f, *args)
    assert len(found) == count
    assert sum(1 in shape[-2:] for shape in found if len(shape) > 1) == slim
    agree(f, *args)


def test_infinite_numbers_and_nans_stay_in_their_rows():
    b = B.copy()
    b[3, 4], b[5, 6] = np.inf, np.nan
    agree(lambda b: np.broadcast_to(b[0, 0], (20, 30)) @ b, b)
