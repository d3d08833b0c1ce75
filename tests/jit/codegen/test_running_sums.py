"""Cumulative sums, compiled: along every axis, in NumPy's order, with fused expressions."""

import numpy as np
import pytest
from compiled import agree, assert_native
from equality import assert_same

from tracker import gradient, jit

SHAPES = [(5,), (100,), (1,), (0,), (7, 30), (1, 50), (50, 1), (3, 50, 4), (50, 0)]


def axes():
    return [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def made(shape, kind):
    return (3 * np.random.default_rng(0).normal(size=shape)).astype(kind)


@pytest.mark.parametrize("shape, axis", axes())
@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "u1", "?"])
def test_sums(shape, axis, kind):
    def f(x):
        return np.cumsum(x, axis=axis)

    compiled, x = jit(f), made(shape, kind)
    for _ in range(2):
        got = compiled(x)
        assert_same(got, f(x))
        np.testing.assert_array_equal(got, f(x))  # in the same order, so to the last bit
    assert_native(compiled, x)


@pytest.mark.parametrize("shape, axis", axes())
def test_gradients(shape, axis):
    def f(x):
        return np.sum(np.square(np.cumsum(np.sin(x[::-1]), axis=axis) * 0.5))

    x = made(shape, "f8")
    compiled = agree(lambda x: gradient(f, x)[0], x)
    if x.size:
        assert_native(compiled, x)


def test_large_arguments():
    """sin has a fast version; if an argument is large, the loop runs again with the general one."""
    x = np.linspace(0.0, 1e12, 300)
    agree(lambda x: np.cumsum(np.sin(x)), x)
