"""Sums with scattered terms: these come last, in the memory of the other term, without zeros."""

import numpy as np
import pytest
from compare import compiled, compiled_ir

import tracker

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((50, 8))
T = RNG.integers(0, 8, 50)
ROWS = np.arange(50)
X = RNG.standard_normal(50)
K, J = RNG.integers(-50, 50, (2, 40))
TWICE = np.concatenate([ROWS[:20], ROWS[:20]])


def scattered(fast):
    """Op and number of axes of what the compiled code scatters."""
    eqns = compiled_ir(fast).eqns
    return sorted(
        (eqn.op.name, eqn.out.type.ndim) for eqn in eqns if eqn.op.name.startswith("scattered_")
    )


def cross_entropy(z, rows, t):
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[rows, t])


@pytest.mark.parametrize(
    ("rows", "t"), [(ROWS, T), (TWICE, T[TWICE]), (-1 - ROWS, T - 8), (ROWS[:3], T[:1])]
)
def test_a_cross_entropy_adds_the_scattered_term_last(rows, t):
    fast = compiled(lambda z: tracker.gradient(lambda z: cross_entropy(z, rows, t), z), Z)
    assert scattered(fast) == [("scattered_added", 2), ("scattered_sum", 1)]


def test_sums_over_all_axes_and_second_derivatives():
    """Of all of it; twice derived; where the places spread over the batch."""

    def loss(z):
        return np.sum((z - np.log(np.sum(np.exp(z))))[ROWS, T] ** 2)

    fast = compiled(lambda z: tracker.gradient(loss, z), Z, rtol=1e-13)
    assert scattered(fast) == [("scattered_added", 2)]
    compiled(lambda z: (tracker.hvp(lambda z: cross_entropy(z, ROWS, T), z, Z),), Z)
    compiled(lambda z: tracker.gradient(lambda z: cross_entropy(z, ROWS[:, None], T[:2]), z), Z)


def test_a_term_that_is_added_twice_is_scattered_twice():
    def loss(x):
        return np.sum(x[K] * x[K]) + np.sum(np.exp(x))

    fast = compiled(lambda x: tracker.gradient(loss, x), np.tile(X, 4))
    assert scattered(fast) == [("scattered_added", 1)] * 2


def test_scattered_terms_with_other_readers_stay():
    """`pull` is wanted itself, and read by a product: the chain ends there."""

    def f(z):
        (pull,) = tracker.gradient(lambda z: np.sum(z[ROWS, T] ** 2), z)
        sums = np.sum(pull, axis=1)
        return pull, sums, np.sum(-pull, axis=0), (pull + z).T @ z

    fast = compiled(f, Z, rtol=1e-12)
    assert scattered(fast) == [("scattered_sum", 2)]


def test_terms_that_are_only_summed_are_not_made():
    def f(z):
        (pull,) = tracker.gradient(lambda z: np.sum(z[ROWS, T] ** 2), z)
        more = pull + z
        return np.sum(-pull, axis=(0, 1)), np.sum(more, axis=0), np.sum(-more, axis=1)

    fast = compiled(f, Z, rtol=1e-13)
    assert {axes for _, axes in scattered(fast)} == {1}


def test_signs_of_zeros_infinities_and_nans():
    def f(z, x):
        (pull,) = tracker.gradient(lambda z: np.sum(z[ROWS[:9], T[:9]] ** 2), z)
        total = pull + x
        sums = np.sum(-total, axis=1, keepdims=True)
        return np.copysign(1.0, total + x), np.copysign(1.0, sums), sums, total + sums

    strange = np.where(RNG.uniform(size=Z.shape) < 0.1, np.inf, Z)
    compiled(f, Z, np.copysign(0.0, Z))
    with np.errstate(invalid="ignore"):
        compiled(f, Z, strange)


def count(fast, name):
    return sum(op == name for op, _ in scattered(fast))


def gradient_of(loss):
    return lambda x: tracker.gradient(loss, x)


@pytest.mark.parametrize(
    ("loss", "added", "summed"),
    [
        (lambda x: np.sum(x[K] ** 2) + np.sum(x * x), 1, 0),
        (lambda x: np.sum(x[K] ** 2) + np.sum(x[J] ** 3) + np.sum(np.sin(x[J + 0])), 2, 1),
        (lambda x: np.sum(x[K] ** 2), 0, 1),
        (lambda x: np.sum(x[K] * x[J]), 1, 1),
        (lambda x: np.sum(x[K] * x[J] + x[K + 0]) + np.sum(x * x), 3, 0),
        (lambda x: np.sum(x * x) + np.sum(x[K] * x[J] * np.sin(x[K])), 3, 0),
    ],
)
def test_pullbacks_of_reads_at_positions(loss, added, summed):
    fast = compiled(gradient_of(loss), X, rtol=1e-13)
    assert count(fast, "scattered_added") == added
    assert count(fast, "scattered_sum") == summed


def test_a_scattered_term_that_is_an_output_stays():
    def both(x):
        pull = tracker.gradient(lambda x: np.sum(x[K] ** 2), x)[0]
        return pull, pull + x, pull + pull

    fast = compiled(both, X, rtol=1e-13)
    assert count(fast, "scattered_added") == 0


def test_zeros_have_the_signs_of_the_sum():
    def f(x):
        total = x + tracker.gradient(lambda y: np.sum(y[:2][np.array([0])]), X * 0 + x)[0]
        return (np.copysign(1.0, total),)

    compiled(f, np.full(50, -0.0), rtol=0)


def test_a_loop_adds_to_one_array():
    """Each step has an index of its own; what the steps add up is there once."""
    places = RNG.integers(0, 50, (30, 7))

    def loss(x):
        return sum(np.sum(x[places[t]] ** 2 * t) for t in range(30))

    compiled(gradient_of(loss), X, rtol=1e-13)
    compiled(lambda x: (tracker.hvp(loss, x, X),), X, rtol=1e-12)


@pytest.mark.usefixtures("short_loops_stay")
def test_steps_that_read_an_array_at_several_places_add_to_them_alone():
    """An addition of all elements in each step would take a hundred times as long."""
    x, places = np.tile(X, 20), RNG.integers(0, 1000, (300, 3))

    def loss(x):
        total = 0.0
        for i, j, k in places:
            total += np.tanh(total + x[i] * x[j]) + x[k] ** 2
        return total

    fast = compiled(gradient_of(loss), x, rtol=1e-12)
    steps = [e.params["body"].eqns for e in compiled_ir(fast).eqns if e.op.name == "loop"][-1]
    assert [e.op.name for e in steps if e.out.type.shape == x.shape] == ["scattered_added"] * 3
