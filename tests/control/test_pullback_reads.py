"""Loops that save what their pullbacks read of large carries, instead of the carries."""

import numpy as np
import pytest

import tracker
from tracker.control import pullback_reads

N = 24
RNG = np.random.default_rng(5)
SQUARE, VECTOR = RNG.uniform(0.5, 1.5, (N, N)), RNG.uniform(0.5, 1.5, N)


@pytest.fixture(autouse=True)
def every_part_pays(monkeypatch):
    monkeypatch.setattr(pullback_reads, "_MIN_SAVED", 0)


def elimination(a, k):
    return a - np.outer(a[:, k], a[k]) / (5 * N)


def part_of_what_is_made(a, k):
    a = 0.9 * a + a[3]
    return a - 0.1 * np.sin(a[k + 1])[:, None]


def part_of_a_part(a, k):
    return 0.9 * a + np.exp(-a[k][2:6][1]) * a[:, 1]


def part_that_is_compared(a, k):
    return np.where(a[k, 1] > 1.0, 0.9 * a, 1.1 * a - 0.1)


def part_that_tells_where_to_read(a, k):
    return 0.9 * a + a[np.argmax(a[k])] ** 2 / 9


def part_that_is_written_before(a, k):
    a = a - a[0]
    a[1] = np.cos(a[2])
    return a * 0.5 + a[1] * a[k] + 1.0


STEPS = [
    elimination,
    part_of_what_is_made,
    part_of_a_part,
    part_that_is_compared,
    part_that_tells_where_to_read,
    part_that_is_written_before,
]


def looped(step):
    def loss(a, x):
        last, _ = tracker.scan(lambda a, k: (step(a + x, k), None), a, np.arange(9))
        return np.sum(last * x)

    return loss


def plain(step):
    def loss(a, x):
        for k in range(9):
            a = step(a + x, k)
        return np.sum(a * x)

    return loss


def gradients(loss):
    return lambda a, x: tracker.gradient(loss, a, x)


def gradients_of_gradients(loss):
    return gradients(lambda *args: sum(np.sum(g**2) for g in gradients(loss)(*args)))


@pytest.mark.parametrize("derivative", [gradients, gradients_of_gradients])
@pytest.mark.parametrize("step", STEPS)
def test_gradients(step, derivative):
    """Eager ones of a plain loop save nothing."""
    want = derivative(plain(step))(SQUARE, VECTOR)
    fast = tracker.jit(derivative(looped(step)))
    for f in (derivative(looped(step)), fast, fast):
        for got, each in zip(f(SQUARE, VECTOR), want, strict=True):
            np.testing.assert_allclose(got, each, rtol=1e-9, atol=1e-9 * np.max(np.abs(each)))


@pytest.mark.parametrize("step", STEPS)
def test_tangents_of_gradients(step):
    args, tangents = (SQUARE, VECTOR), (VECTOR * SQUARE, VECTOR**2)
    (want, also) = (
        tracker.jvp(gradients(make(step)), args, tangents)[1] for make in (plain, looped)
    )
    for got, each in zip(also, want, strict=True):
        np.testing.assert_allclose(got, each, rtol=1e-9, atol=1e-9 * np.max(np.abs(each)))
