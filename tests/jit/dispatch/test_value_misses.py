"""Calls that no machine code takes, though their trace is there: it came to other numbers."""

import numpy as np
import pytest

from tracker import data, istracked, jit
from tracker.jit.runtime.compile_queue import drain


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
