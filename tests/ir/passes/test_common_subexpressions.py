"""Common subexpressions: equal nested functions become one, sort and argsort share the order."""

import numpy as np
import pytest
from compare import compiled

import tracker
from tracker import cond, config, gradient, jit, scan, trace
from tracker.ir.op import OPS
from tracker.ir.passes.common_subexpressions import common_subexpressions, reuse_sort_order
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.expand import expand
from tracker.ir.passes.manager import run
from tracker.ir.passes.shared_bodies import dedupe_bodies
from tracker.support.structs import replace

X = np.array([0.3, 0.6, 0.8])


def branches(*bodies):
    def f(x):
        for body in bodies:
            x = cond(x[0] > 0.5, body, lambda x: x + 1.0, x)
        return x

    return f


@pytest.mark.parametrize(
    ("bodies", "left"),
    [
        ([lambda x: x * 2.0, lambda y: y * 2.0], 2),
        ([lambda x: x * 2.0, lambda x: 2.0 * x], 3),
        ([lambda x: x * 0.0, lambda x: x * -0.0], 3),
        ([lambda x: x * 2.0, lambda x: x * 2.5], 3),
        ([lambda x: x[[0, 1, 2]], lambda x: x[[0, 2, 1]]], 2),  # positions are operands
        ([lambda x: x[::-1], lambda x: x[::1]], 3),
        ([lambda x: cond(x[1] > 0, np.sin, np.cos, x) for _ in range(2)], 2),
        ([lambda x, f=f: cond(x[1] > 0, np.sin, f, x) for f in (np.cos, np.tan)], 3),
    ],
)
def test_equal_bodies_become_one(bodies, left):
    traced = trace(branches(*bodies), X)
    shared = run(traced, [dedupe_bodies], check=True)
    assert (len(traced.functions), len(shared.functions)) == (2 * len(bodies), left)
    assert run(shared, [dedupe_bodies]) is shared


def test_bodies_with_opaque_params_stay():
    traced = trace(branches(np.sin, np.sin), X)
    op = replace(OPS["sin"], infer=lambda x, *, state: x)
    for nested in traced.functions.values():
        nested.body = tuple(replace(e, op=op, params={"state": object()}) for e in nested.body)
    assert run(traced, [dedupe_bodies]) is traced


def steps(x):
    """Loops and branches at each step; of every other loop the stack is not taken."""
    total = 0.0
    for k in range(5):
        last, stack = scan(lambda c, r: (0.9 * c + r, np.sin(c)), x[0], x)
        total = total + last * (np.sum(stack) if k % 2 else 1.0)
        x = cond(last > 0.5, lambda x: np.sin(x) * x, lambda x: np.cos(x) + x / 2, x)
    return total


def test_values_of_a_loop_around_bodies():
    compiled = jit(lambda x: (steps(x), gradient(steps, x)[0]))
    with config(check=True):
        for x in (X, -X):
            for found, wanted in zip(compiled(x), (steps(x), gradient(steps, x)[0]), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert compiled.cache_info().traces == 1


@pytest.mark.optimised
def test_steps_with_equal_bodies_are_rolled():
    def f(x):
        for _ in range(120):
            x = cond(x[0] > 0.5, lambda x: np.sin(x) * x, lambda x: np.cos(x) + x, x)
        return x

    compiled = jit(f)
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-12)
    assert compiled.llvm(X).count("define internal i64 @body") <= 4


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
