"""Compiled arithmetic has the bits of NumPy's: no product is fused with a sum."""

import numpy as np
import pytest

import tracker

PROGRAMS = {
    "determinant": lambda a, b, c: a * b - b * a + (a * c - c * b),
    "polynomial": lambda a, b, c: ((a * 0.3 + b) * a - c) * a + 0.7,
    "quotients": lambda a, b, c: a / b - c / b * a + 1.0 / 3.0,
    "stencil": lambda a, b, c: a[1:-1] + 0.1 * (b[2:] - 2.0 * b[1:-1] + c[:-2]),
}


@pytest.mark.optimised
@pytest.mark.parametrize("size", [3, 50], ids=["unrolled", "loop"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arithmetic_rounds_as_numpy_does(name, size):
    program = PROGRAMS[name]
    a, b, c = np.random.default_rng(0).normal(size=(3, size))
    compiled = tracker.jit(program)
    for _ in range(3):
        got = compiled(a, b, c)
    assert got.tobytes() == program(a, b, c).tobytes()
