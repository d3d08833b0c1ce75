"""Python loops that are left when a condition on values holds: one trace for any number of
iterations."""

import numpy as np
import pytest
from leaving_loop_programs import PROGRAMS

import tracker

POINTS = [np.array([a, b, 0.5]) for a in (1.3, 2.0, 3.7, 9.0) for b in (0.4, 1.1)]


@pytest.mark.parametrize(("f", "traces"), PROGRAMS)
def test_results(f, traces):
    compiled = tracker.jit(f)
    for p in POINTS + POINTS:
        want, have = f(p.copy()), compiled(p)
        np.testing.assert_allclose(have, want, rtol=1e-11)
        for a, b in zip(np.atleast_1d(have), np.atleast_1d(want), strict=True):
            assert type(a) is type(b)
    if traces is not None:
        assert compiled.cache_info().traces <= traces


@pytest.mark.parametrize(("f", "traces"), PROGRAMS)
def test_gradients(f, traces):
    def loss(p):
        result = f(p)
        return result[0] if isinstance(result, tuple) else result

    compiled = tracker.jit(lambda p: tracker.gradient(loss, p)[0])
    outside = tracker.jit(loss)
    for p in POINTS + POINTS:
        (want,) = tracker.gradient(loss, p)
        np.testing.assert_allclose(compiled(p), want, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(tracker.gradient(outside, p)[0], want, rtol=1e-9, atol=1e-13)
    if traces is not None:
        assert compiled.cache_info().traces <= traces
