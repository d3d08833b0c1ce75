"""`np.repeat` with one count, which is a broadcast, and with a count per element."""

import math

import numpy as np
import pytest

import tracker


@pytest.mark.parametrize("mode", [lambda f: f, tracker.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("repeats", [0, 1, 3, np.int32(2), np.array([2]), np.array(3)], ids=repr)
@pytest.mark.parametrize("shape, axis", [((3, 4), 0), ((3, 4), -1), ((3, 4), None), ((), None)])
def test_of_one_count(mode, shape, axis, repeats):
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    want = np.repeat(x, repeats, axis)
    f = mode(
        lambda x: tracker.withgradient(lambda x: np.sum(np.repeat(x, repeats, axis) * want), x)
    )
    again = mode(lambda x: np.repeat(x, repeats, axis) * 1)
    for _ in range(2):
        y, (g,) = f(x)
        assert y == np.sum(want * want)
        np.testing.assert_array_equal(g, int(np.ravel(repeats)[0]) * x)
        np.testing.assert_array_equal(again(x), want)


def test_of_a_count_for_each():
    x, counts = np.arange(3.0), [2, 0, 1]
    y, (g,) = tracker.withgradient(lambda x: np.sum(np.repeat(x, counts) ** 2), x)
    assert y == 4.0
    np.testing.assert_array_equal(g, 2 * x * counts)


@pytest.mark.parametrize("repeats", [-1, [1, -1, 1]], ids=str)
def test_of_less_than_nothing(repeats):
    with pytest.raises(ValueError, match="negative"):
        tracker.gradient(lambda x: np.sum(np.repeat(x, repeats)), np.ones(3))
