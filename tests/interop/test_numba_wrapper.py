"""Functions of numba have the derivative of the Python function, or one of their own."""

import numpy as np
import pytest

import tracker
from tracker import UnsupportedError, gradient, interop

numba = pytest.importorskip("numba")

X = np.array([0.3, -1.2, 2.1])


def lattice(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[(i + 1) % x.size]
    return total


def lattice_slope(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = x[(i + 1) % x.size] + x[i - 1]
    return out


def test_by_the_python_function():
    f = interop.from_numba(numba.njit(lattice))
    assert tracker.gradcheck(f, X, order=1)
    np.testing.assert_allclose(tracker.jit(lambda x: gradient(f, x)[0])(X), lattice_slope(X))


@pytest.mark.parametrize("f, x", [(lattice, X), (lambda x: x**2, 2.0)])
def test_without_a_wrapper_the_error_names_it(f, x):
    compiled = numba.njit(f)
    for call in (compiled, lambda x: compiled(x) * 2.0):
        with pytest.raises(TypeError) as caught:
            gradient(call, x)
        assert "tracker.interop.from_numba" in caught.value.__notes__[0]


def test_by_a_pullback():
    slope = numba.njit(lattice_slope)
    f = interop.from_numba(numba.njit(lattice), lambda dy, x: dy * slope(x))
    assert tracker.gradcheck(f, X, order=1)
    scaled = numba.njit(lambda x, k: x * k)
    f = interop.from_numba(scaled, lambda dy, x, k: (dy * k, np.sum(dy * x)))
    assert tracker.gradcheck(lambda x, k: np.sum(f(x, k) ** 2), X, 2.0, order=1)


def test_without_either():
    with pytest.raises(UnsupportedError, match="Give a pullback"):
        interop.from_numba(np.sin)
