"""NumPy's own Python code on tracked values: what stands for the names in it."""

import inspect

import numpy as np
import pytest

from tracker import gradient, jit, param
from tracker.ir.op import NUMPY


def test_lists_that_hold_tracked_values_are_arrays():
    def f(x):
        return np.sum(np.vstack([x, [x[0], 2.0]]) * np.array([[1.0, 2.0], [3.0, 4.0]]))

    x = np.array([1.5, -0.5])
    assert gradient(f, x)[0].tolist() == gradient(jit(f), x)[0].tolist() == [4.0, 2.0]


def test_private_functions_of_numpy_accept_tracked_values():
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(np.fft.fftn(param(x)).data, np.fft.fftn(x))
    np.testing.assert_allclose(np.fft.irfftn(param(x)).data, np.fft.irfftn(x))


def test_a_copy_has_the_signature_of_numpys_function():
    for function in (np.diff, np.trapezoid, np.linalg.vector_norm, np.hstack):
        assert inspect.signature(NUMPY[function]) == inspect.signature(function)


def test_errors_are_those_of_numpy():
    with pytest.raises(ValueError, match="order must be non-negative but got -1"):
        np.diff(param(np.zeros(3)), -1)


def test_warnings_name_the_users_line():
    x = param(np.ones((2, 2)))
    with pytest.warns(DeprecationWarning, match="`axes` should not be `None`") as caught:
        np.fft.fftn(x, (2, 2))
    assert caught[0].filename == __file__
