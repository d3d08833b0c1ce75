"""Loops over slices between numbers of arrays: other numbers need no other trace."""

import numpy as np
import pytest

import tracker

ROWS, SIZE = 400, 1200
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, SIZE))
COLUMNS = RNG.integers(0, SIZE, SIZE)


def _offsets(seed):
    counts = np.random.default_rng(seed).multinomial(SIZE, np.full(ROWS, 1.0 / ROWS))
    return np.concatenate([[0], np.cumsum(counts)])


def _product(offsets, values, x):
    y = np.zeros(ROWS)
    for i in range(ROWS):
        low, high = offsets[i], offsets[i + 1]
        y[i] = values[low:high] @ x[COLUMNS[low:high]]
    return np.sum(np.sin(y))


def _gradient(offsets, values, x):
    return tracker.withgradient(lambda values, x: _product(offsets, values, x), values, x)


def _check(fast, offsets):
    value, slopes = fast(offsets, X, Y)
    known, wanted = _gradient(offsets, X, Y)
    np.testing.assert_allclose(value, known, rtol=1e-12)
    for have, want in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)


def test_one_trace_serves_other_offsets():
    fast = tracker.jit(_gradient)
    for seed in (0, 1, 2, 0):
        _check(fast, _offsets(seed))
    assert fast.cache_info().traces == 1
    assert " loop " in str(fast.ir(_offsets(0), X, Y))


@pytest.mark.parametrize("change", ["a longer row", "rows out of order"])
def test_other_offsets_make_another_trace_where_they_must(change):
    fast, offsets = tracker.jit(_gradient), _offsets(0)
    _check(fast, offsets)
    if change == "a longer row":
        offsets[150:190] = offsets[150]
    else:
        offsets[7] = offsets[9] + 1
    for _ in range(2):
        _check(fast, offsets)
    assert fast.cache_info().traces == 2
