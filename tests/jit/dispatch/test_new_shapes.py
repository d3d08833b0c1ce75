"""A function that is called with arrays of many extents is not traced for those that come once."""

import numpy as np
import pytest

import tracker
from tracker.jit.dispatch import jitted
from tracker.jit.runtime.compile_queue import drain


@pytest.fixture(autouse=True)
def two_shapes_are_traced(monkeypatch):
    monkeypatch.setattr(jitted, "_TRACED_SHAPES", 2)


def _loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


def _batch(n):
    return np.linspace(-1.0, 1.0, 3 * n).reshape(n, 3)


W = np.array([0.3, -0.2, 0.5])


def _traces(f):
    return f.cache_info().traces


def test_further_shapes_are_traced_when_they_come_again():
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


def test_effects_happen_once_in_every_call():
    seen = []

    def f(x):
        seen.append(len(x))
        return x * 2

    fast = tracker.jit(f)
    for n in (5, 6, 7, 7, 8):
        np.testing.assert_allclose(fast(np.ones(n)), 2.0)
    assert seen == [5, 6, 7, 7, 8]


@pytest.mark.parametrize("reason", ["another dtype", "strict", "long", "asked"])
def test_shapes_that_are_traced_at_once(reason):
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
