"""Whether a call returns an array or a scalar, its dtype, and its errors: as NumPy, in a derivative
and compiled."""

import warnings

import numpy as np
import pytest
from outcomes import outcomes

import tracker
import tracker.numpy as tnp

F2 = np.array([1.26, 2.33], "f2")
ROWS = np.array([[1.5, 2.5], [0.5, 3.0]])
BOOLS = np.array([True, False])

CALLS = {
    "a list beside a number": (lambda x: np.greater(x, [0, 2]), 1.5),
    "a list unlike a number": (lambda x: np.not_equal([0, 3], x), 3),
    "a list of shifts": (lambda x: np.left_shift(x, [0, 1]), 3),
    "0-d arrays": (lambda x: np.broadcast_arrays(x, np.float64(2.0)), 1.5),
    "0-d product": (lambda x: np.cross(x, [0, 1]), F2),
    "0-d and Fortran": (lambda x: tnp.asfortranarray(x), 1.5),
    "no cut": (lambda x: np.array_split(np.arange(3.0), x), np.zeros(0)),
    "no cut into parts": (lambda x: np.split(np.arange(3.0), x), np.zeros(0)),
    "mean of an int": (lambda x: np.nanmean(x), 3),
    "spread of an int": (lambda x: np.nanstd(x), 3),
    "axis of a number": (lambda x: np.nanargmax(x, 0), 1.5),
    "lowest on the axis of a number": (lambda x: np.nanargmin(x, axis=0), np.float32(1.5)),
    "Python's scaled by Python's": (lambda x: np.ldexp(x, 2), 3),
    "Python's scaled by NumPy's": (lambda x: np.ldexp(2, x), np.int64(3)),
    "NumPy's scaled by Python's": (lambda x: np.ldexp(x, 2), np.array([3], np.int8)),
    "union with a number": (lambda x: np.union1d(x, 2), F2),
    "remainder of a short dividend": (lambda x: np.polydiv([0, 1], x), np.array([1.5, 2.5, 0.5])),
    "area over more axes": (lambda x: np.trapezoid([0, 1], x), ROWS),
    "complex weights": (lambda x: np.bincount([1, 2], weights=x), np.array([1.0, 2j])),
    "int weights": (lambda x: np.bincount([1, 2], weights=x), np.array([1, 2])),
    "rounded into float64": (lambda x: np.round(x, 1, out=tnp.zeros(2)), F2),
    "tens into float64": (lambda x: np.round(x * 10, -1, out=tnp.zeros(2)), F2),
    "complex rounded into floats": (lambda x: np.round(x, 1, out=tnp.zeros(2)), F2 + 1j),
    "parts rounded": (lambda x: np.round(x, 1), np.array([np.inf + 1.26j, 0.33 + 4.06j])),
    "fix of a number into an array": (lambda x: np.fix(x, tnp.zeros(2)), 1.5),
    "square of bools": (lambda x: x**2, BOOLS),
    "cube of bools": (lambda x: x**3, BOOLS),
}


@pytest.mark.parametrize("name", CALLS)
def test_kinds_are_those_of_numpy(name):
    f, x = CALLS[name]
    plain, *ours = outcomes(f, x)
    assert ours == [plain] * 3


def test_the_square_of_bools_is_compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = tracker.jit(lambda x: x**2)
        assert f(BOOLS).tolist() == f(BOOLS).tolist() == [1, 0]
    assert f.cache_info().eager == 0


def test_unchanged_arrays_are_returned_themselves():
    def f(x):
        return np.squeeze(x) is x, x.squeeze() is x, np.broadcast_arrays(x, x)[0] is x, x * 1

    for x in (np.arange(3.0), np.array(1.5), ROWS):
        assert f(x)[:3] == tracker.jit(f)(x)[:3] == f(tracker.param(x))[:3] == (True, True, True)
