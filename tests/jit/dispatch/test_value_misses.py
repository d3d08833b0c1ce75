"""Calls that no machine code takes, though their trace is there: it came to other numbers."""

import numpy as np
import pytest

from tracker import data, jit
from tracker.jit.dispatch import jitted
from tracker.jit.runtime.compile_queue import drain
from tracker.jit.tracing.trace import trace_call


@pytest.fixture
def traced(monkeypatch):
    """The traces that are made, as they are."""
    made = []

    def counting(*args, **kwargs):
        made.append(args[0])
        return trace_call(*args, **kwargs)

    monkeypatch.setattr(jitted, "trace_call", counting)
    return made


@pytest.fixture
def rounded_otherwise():
    """Numbers whose sum, of many, machine code rounds otherwise than NumPy does."""
    total = jit(np.sum)
    draws = (np.random.default_rng(seed).normal(size=1000) for seed in range(100))
    return next(x for x in draws if len({total(x), total(x), total(x), np.sum(x)}) > 1)


def scaled(x):
    return x * float(data(np.sum(x)))


def branching(x):
    return scaled(x) if x[0] < 1e6 else x + 1.0


def test_backoff_limits_traces(traced, rounded_otherwise):
    x = rounded_otherwise
    fast = jit(scaled)
    for _ in range(100):
        assert np.array_equal(fast(x), scaled(x))
        drain()
    assert 3 <= traced.count(scaled) < 12


def test_other_paths_are_traced_when_they_come(traced, rounded_otherwise):
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


def test_a_strict_function_is_traced(traced, rounded_otherwise):
    fast = jit(scaled, strict=True)
    for _ in range(10):
        assert np.array_equal(fast(rounded_otherwise), scaled(rounded_otherwise))
        drain()
    assert traced.count(scaled) == 10
