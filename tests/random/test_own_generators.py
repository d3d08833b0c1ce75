"""Generators that a traced function makes: each call draws the plain function's numbers anew."""

import functools

import numpy as np
import pytest
from concurrently import at_once

from tracker import gradient, jit

MADE = {
    "default_rng": lambda: np.random.default_rng(3),
    "RandomState": lambda: np.random.RandomState(3),
    "RandomState of many": lambda: np.random.RandomState([1, 2, 3]),
}
POINTS = [np.array([1.0, 2.0, 3.0]), np.array([0.3, 0.2, 0.1]), np.array([1.5, 0.0, 4.0])]


def _walk(r, x):
    for _ in range(5):
        x = x + 0.1 * r.normal(x, 0.1)
    return x


def _shuffled(r, x):
    r.shuffle(x)
    y = x * r.uniform(-x, 1.0)
    r.shuffle(x)
    return x, y


def _shares(x):
    return x / np.sum(x)


PROGRAMS = {
    "no traced numbers": lambda r, x: (
        r.normal(size=3) * x + r.random_sample(3)
        if hasattr(r, "random_sample")
        else r.random(3) * x
    ),
    "location": lambda r, x: (r.normal(size=2), r.normal(x, 2.0, size=3), r.normal(size=2)),
    "as many bits as it takes": lambda r, x: (r.gamma(x + 0.1, 2.0), r.normal(size=2)),
    "choice of numbers": lambda r, x: (r.choice(3, p=_shares(x), size=5), r.normal()),
    "choice of items": lambda r, x: r.choice(x, size=2),
    "choice of items with shares": lambda r, x: (r.choice(x, p=_shares(x), size=5), r.normal()),
    "orders": lambda r, x: (r.permutation(x), r.uniform(0, x), r.permutation(x)),
    "shuffle": _shuffled,
    "counts": lambda r, x: (r.poisson(x), r.binomial(5, x / 10)),
    "branch": lambda r, x: r.normal(x) if x[0] > 0.5 else r.normal(x, 3) * r.normal(),
    "walk": _walk,
    "a size": lambda r, x: r.normal(size=int(x[0] * 3) + 1) + r.normal(x[0]),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("made", MADE)
def test_each_call_draws_what_the_plain_function_draws(made, program):
    draw, make = PROGRAMS[program], MADE[made]

    def f(x):
        return draw(make(), x)

    fast = jit(f)
    for x in (*POINTS, *POINTS):
        got, want = fast(x.copy()), f(x.copy())
        if not isinstance(want, tuple):
            got, want = (got,), (want,)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)
            assert np.asarray(a).dtype == np.asarray(b).dtype


def loss(x):
    return np.sum(np.random.default_rng(0).normal(x, np.exp(x)) ** 2)


def by_hand(x):
    z = np.random.default_rng(0).normal(size=3)
    y = x + np.exp(x) * z
    return 2 * y * (1 + np.exp(x) * z)


def test_derivatives_follow_the_draws():
    fast, twice = jit(lambda x: gradient(loss, x)[0]), jit(loss)
    for x in POINTS:
        np.testing.assert_allclose(fast(x), by_hand(x))
        np.testing.assert_allclose(gradient(twice, x)[0], by_hand(x))


def test_threads_do_not_draw_each_others_numbers():
    fast = jit(loss)
    wants = [loss(x) for x in POINTS]
    wrong = []

    def work(x, want):
        wrong.extend(got for got in (fast(x) for _ in range(500)) if not np.isclose(got, want))

    at_once(*(functools.partial(work, *pair) for pair in zip(POINTS, wants, strict=True)))
    assert wrong == []


def test_classes_of_generators_are_told_apart():
    """As scikit-learn's `check_random_state` does."""

    def state(seed):
        if isinstance(seed, int):
            return np.random.RandomState(seed)
        assert isinstance(seed, np.random.RandomState)
        return seed

    fast = jit(lambda x, seed: state(seed).randn(2) * x)
    for seed in (5, 6, 5):
        for given in (lambda seed=seed: seed, lambda seed=seed: np.random.RandomState(seed)):
            np.testing.assert_array_equal(fast(2.0, given()), state(seed).randn(2) * 2.0)


@pytest.mark.parametrize("make", [
    lambda bits: np.random.default_rng(bits),
    lambda bits: np.random.RandomState(bits),
    lambda bits: np.random.RandomState(np.random.default_rng(bits).bit_generator),
])  # fmt: skip
def test_shared_bit_generators_are_not_restarted(make):
    def f(x, bits):
        return make(bits).normal(x, 2.0) + make(bits).normal()

    fast, ours, theirs = jit(f), np.random.MT19937(4), np.random.MT19937(4)
    assert [fast(x, ours) for x in (1.0, 1.0, 2.0)] == [f(x, theirs) for x in (1.0, 1.0, 2.0)]


def test_bit_generators_made_in_the_function_are_not_restarted():
    """Who knows who draws them."""

    def f(x):
        return np.random.default_rng(np.random.MT19937(4)).normal(x, 2.0)

    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="of a bit generator.*use default_rng with a seed"):
        assert fast(1.0) == f(1.0)
    assert fast(2.0) == f(2.0)
