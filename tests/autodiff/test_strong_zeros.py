"""Within `strong_zeros_at_once` the trace of a derivative has no guards, and the same numbers."""

import numpy as np
import pytest

import tracker
from tracker.autodiff.reverse import strong_zeros_at_once
from tracker.ir.graph import Guard


def kink(x):
    return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0))


DERIVATIVES = {
    "reverse": lambda x: tracker.gradient(kink, x, check_finite=False)[0],
    "forward": lambda x: tracker.jvp(kink, (x,), (np.ones(3),))[1],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_trace_of_a_derivative_has_no_guard(name):
    f, x = DERIVATIVES[name], np.array([1.0, 0.0, -1.0])
    wanted = f(x)
    assert any(isinstance(step, Guard) for step in tracker.trace(f, np.ones(3)).body)
    with strong_zeros_at_once():
        function = tracker.trace(f, np.ones(3))
        np.testing.assert_array_equal(f(x), wanted)
    assert not any(isinstance(step, Guard) for step in function.body)
    assert function.has_op("strong_multiply")
