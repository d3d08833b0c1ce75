"""What is scattered is added where the other term lies: the same numbers, no zeros around it."""

import numpy as np
import pytest

import tracker

RNG = np.random.default_rng(0)
X = RNG.standard_normal(50)
K, J = RNG.integers(-50, 50, (2, 40))


def count(fast, name):
    (special,) = next(iter(fast._jitted.groups.values())).specializations
    return sum(eqn.op.name == name for eqn in special.compiled.function.eqns)


def compiled(f, *args):
    """The jitted function, which gives what the plain one does."""
    fast = tracker.jit(f)
    fast(*args)
    for y, want in zip(fast(*args), f(*args), strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-13, atol=1e-13)
    return fast


def gradient_of(loss):
    return lambda x: tracker.gradient(loss, x)


@pytest.mark.parametrize(
    ("loss", "added", "summed"),
    [
        (lambda x: np.sum(x[K] ** 2) + np.sum(x * x), 1, 0),
        (lambda x: np.sum(x[K] ** 2) + np.sum(x[J] ** 3) + np.sum(np.sin(x[J + 0])), 2, 1),
        (lambda x: np.sum(x[K] ** 2), 0, 1),
        (lambda x: np.sum(x[K] * x[J]), 1, 1),
    ],
)
def test_pullbacks_of_reads_by_places(loss, added, summed):
    fast = compiled(gradient_of(loss), X)
    assert count(fast, "scattered_added") == added
    assert count(fast, "scattered_sum") == summed


def test_what_is_wanted_otherwise_stays():
    def both(x):
        pull = tracker.gradient(lambda x: np.sum(x[K] ** 2), x)[0]
        return pull, pull + x, pull + pull

    fast = compiled(both, X)
    assert count(fast, "scattered_added") == 0


def test_zeros_have_the_signs_of_the_sum():
    def f(x):
        total = x + tracker.gradient(lambda y: np.sum(y[:2][np.array([0])]), X * 0 + x)[0]
        return (np.copysign(1.0, total),)

    compiled(f, np.full(50, -0.0))


def test_a_loop_adds_to_one_array():
    """Each step has an index of its own; what the steps add up is there once."""
    places = RNG.integers(0, 50, (30, 7))

    def loss(x):
        return sum(np.sum(x[places[t]] ** 2 * t) for t in range(30))

    compiled(gradient_of(loss), X)
    compiled(lambda x: (tracker.hvp(loss, x, X),), X)
