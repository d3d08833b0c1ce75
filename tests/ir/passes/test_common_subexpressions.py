"""Common subexpressions: sort and argsort share the order."""

import numpy as np
import pytest
from compare import compiled

import tracker
from tracker.ir.passes.common_subexpressions import common_subexpressions, reuse_sort_order
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.expand import expand
from tracker.ir.passes.manager import run

RNG = np.random.default_rng(0)
MATRIX = RNG.integers(0, 5, (6, 7)) * 1.0


def sorts(f, *args):
    """How often something is put in order."""
    passes = [reuse_sort_order, expand, common_subexpressions, dead_code]
    function = run(tracker.trace(f, *args), passes, check=True)
    return sum(eqn.op.name in ("order", "ordered") for eqn in function.eqns)


def slope(axis):
    weights = RNG.standard_normal(MATRIX.shape)
    return lambda x: tracker.gradient(lambda x: np.sum(np.sort(x, axis) ** 3 * weights), x)[0]


@pytest.mark.parametrize(
    ("f", "x", "count"),
    [
        (slope(0), MATRIX, 1),
        (slope(1), MATRIX, 1),
        (lambda x: (np.sort(x), np.argsort(x, kind="stable")), MATRIX[0], 1),
        (
            lambda x: (np.sort(x), np.argsort(x, kind="stable")),
            MATRIX[0] * (1 + 1j),
            3,
        ),  # by three keys
        (lambda x: (np.sort(x), np.argsort(x, kind="stable")), np.arange(7)[::-1] % 3, 1),
        (lambda x: (np.sort(x, 0), np.argsort(x, 1, kind="stable")), MATRIX, 2),
        (lambda x: (np.sort(x), np.argsort(-x, kind="stable")), MATRIX, 2),
        (lambda x: np.sort(x), MATRIX, 1),
    ],
)
def test_sort_and_argsort_share_the_order(f, x, count):
    assert sorts(f, x) == count
    compiled(f, x, rtol=1e-14)


def test_sorted_values_are_those_of_a_stable_sort():
    """Zeros of both signs and NaNs, as NumPy's."""
    x = np.array([1.0, 0.0, np.nan, -0.0, -np.inf, 0.0, -0.0, np.inf, np.nan])
    fast = tracker.jit(lambda x: (np.sort(x), np.argsort(x, kind="stable")))
    fast(x)
    have, order = fast(x)
    np.testing.assert_array_equal(have, np.sort(x, kind="stable"))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(np.signbit(have[:7]), np.signbit(np.sort(x, kind="stable")[:7]))
