"""Which calls are traced: arrays of many extents are not, where each comes once, and a trace that
came to other numbers is made again ever more rarely."""

import numpy as np
import pytest

import tracker
from tracker import data, istracked, jit
from tracker.jit.dispatch import jitted
from tracker.jit.runtime.compile_queue import drain

# Many shapes --------------------------------------------------------------------------------------


@pytest.fixture
def two_shapes_are_traced(monkeypatch):
    monkeypatch.setattr(jitted, "_TRACED_SHAPES", 2)


def _loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


def _batch(n):
    return np.linspace(-1.0, 1.0, 3 * n).reshape(n, 3)


W = np.array([0.3, -0.2, 0.5])


def _traces(f):
    return f.cache_info().traces


def test_further_shapes_are_traced_when_they_come_again(two_shapes_are_traced):
    fast = tracker.value_and_grad(tracker.jit(_loss))
    traces = []
    for n in (50, 60, 70, 80, 70, 50, 70):
        value, slope = fast(W, _batch(n))
        drain()
        wanted, wanted_slope = tracker.value_and_grad(_loss)(W, _batch(n))
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-12)
        traces.append(_traces(fast))
    assert traces == [1, 2, 2, 2, 3, 3, 3]


def test_functions_with_short_open_loops_are_traced_when_shapes_come_again(two_shapes_are_traced):
    def root(x):
        return tracker.while_loop(
            lambda y: np.max(np.abs(y * y - x)) > 1e-9, lambda y: 0.5 * (y + x / y), x
        )

    fast, traces = tracker.jit(root), []
    for n in (50, 60, 70, 80, 70):
        np.testing.assert_allclose(fast(np.ones(n) + n) ** 2, n + 1.0)
        traces.append(_traces(fast))
    assert traces == [1, 2, 2, 2, 3]


def test_effects_happen_once_in_every_call(two_shapes_are_traced):
    seen = []

    def f(x):
        seen.append(len(x))
        return x * 2

    fast = tracker.jit(f)
    for n in (5, 6, 7, 7, 8):
        np.testing.assert_allclose(fast(np.ones(n)), 2.0)
    assert seen == [5, 6, 7, 7, 8]


@pytest.mark.parametrize("reason", ["another dtype", "strict", "long", "asked"])
def test_shapes_that_are_traced_at_once(reason, two_shapes_are_traced):
    def stepwise(x):
        y = x
        for _ in range(30_000 if reason == "long" else 3):
            y = np.sin(y) + 0.1
        return y

    fast = tracker.jit(stepwise, strict=reason == "strict")
    for n in (50, 60):
        fast(np.ones(n))
    third = np.ones(70, np.float32 if reason == "another dtype" else float)
    if reason == "asked":
        fast.explain(third)
    else:
        fast(third)
    assert _traces(fast) == 3


# Other numbers ------------------------------------------------------------------------------------


@pytest.fixture
def rounded_otherwise():
    """Numbers whose sum, of many, machine code rounds otherwise than NumPy does."""
    total = jit(np.sum)
    draws = (np.random.default_rng(seed).normal(size=1000) for seed in range(100))
    return next(x for x in draws if len({total(x), total(x), total(x), np.sum(x)}) > 1)


traces = []


def scaled(x):
    traces.append(istracked(x))
    return x * float(data(np.sum(x)))


def branching(x):
    return scaled(x) if x[0] < 1e6 else x + 1.0


def test_backoff_limits_traces(rounded_otherwise):
    x = rounded_otherwise
    fast = jit(scaled)
    traces.clear()
    for _ in range(100):
        assert np.array_equal(fast(x), scaled(x))
        drain()
    assert 3 <= sum(traces) < 12


def test_other_paths_are_traced_when_they_come(rounded_otherwise):
    x, other = rounded_otherwise, rounded_otherwise.copy()
    other[0] = 2e6
    fast = jit(branching)
    for _ in range(50):
        assert np.array_equal(fast(x), branching(x))
        drain()
    for _ in range(200):
        assert np.array_equal(fast(other), branching(other))
        drain()
    assert fast.cache_info().traces == 2
    slow = fast.cache_info().slow
    fast(other)
    assert fast.cache_info().slow == slow


def test_a_strict_function_is_traced(rounded_otherwise):
    fast = jit(scaled, strict=True)
    traces.clear()
    for _ in range(10):
        assert np.array_equal(fast(rounded_otherwise), scaled(rounded_otherwise))
        drain()
    assert sum(traces) == 10
