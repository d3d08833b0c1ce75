"""Plans that Python calls: numbers of all dtypes, arrays in any layout, guards and errors."""

import numpy as np
import pytest

import tracker
from tracker.jit.guards.constants import NUMPY_SCALARS
from tracker.jit.pipeline.executor import CompiledLoop

NUMBERS = [2.5, -3, 2**62, 1.5 - 2.5j, *(cls(3) for cls in NUMPY_SCALARS)]
NUMBERS += [np.int8(-7), np.uint64(2**63 + 5), np.complex64(1 - 2j), np.float16(-0.5)]
PYTHON = (int, float, complex)
X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def shown(x):
    return f"{type(x).__name__} {x}"


def loop_of(f, *args):
    return CompiledLoop(tracker.trace(f, *args))


def reordered(x):
    return x.astype(x.dtype.newbyteorder())


def unaligned(x):
    table = np.zeros(len(x), np.dtype([("pad", "u1"), ("x", "f8", x.shape[1:])]))
    table["x"] = x
    return table["x"]


@pytest.mark.parametrize("number", NUMBERS, ids=shown)
def test_numbers_keep_their_values_and_dtypes(number):
    def f(x, y):
        return x * 1, y + 1.0, x == 3, np.sum(y)

    found = loop_of(f, number, X)([number, X])
    for one, want in zip(found, f(number, X), strict=True):
        assert np.asarray(one).dtype == np.asarray(want).dtype
        assert (type(one) in PYTHON) == (type(want) in PYTHON)
        np.testing.assert_allclose(one, want, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("lay_out", [np.copy, np.asfortranarray, np.flipud, reordered, unaligned])
def test_arguments_may_lie_in_any_layout_and_results_are_new(lay_out):
    def f(x):
        return x * 2.0, x.T @ x, x > 0.0

    given = lay_out(X)
    for found, want in zip(loop_of(f, X)([given]), f(given), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-15)
        assert found.flags.c_contiguous and found.flags.owndata


def test_a_guard_that_fails_and_an_int_beyond_64_bits_give_none():
    def clipped(x, n):
        return (x * n if np.sum(x) > 0.0 else x,)

    run = loop_of(clipped, X + 1.0, 3)
    np.testing.assert_array_equal(run([X + 1.0, 3])[0], (X + 1.0) * 3)
    assert run([X - 1.0, 3]) is None
    assert run([X + 1.0, 2**70]) is None
    np.testing.assert_array_equal(run([X + 2.0, 4])[0], (X + 2.0) * 4)


def test_numpy_computes_where_it_is_told_to_report_errors():
    run = loop_of(lambda x: (1.0 / x,), X + 2.0)
    with np.errstate(all="raise"):
        assert run([X + 2.0]) is None
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run([np.zeros((2, 3))])[0], np.full((2, 3), np.inf))
