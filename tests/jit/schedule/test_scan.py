"""Scans (sums, products, extremes, recurrences) in loops, in every order and kind."""

import numpy as np
from compiled import agree
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import tracker
from tracker.scipy.signal import lfilter

RNG = np.random.default_rng(0)
FOLDS = {
    "sum": np.cumsum,
    "product": np.cumprod,
    "maximum": lambda x, axis: np.maximum.accumulate(x, axis),
    "recurrence": lambda x, axis: lfilter([1.0], [1.0, -0.5], x, axis),
}


def flip(x, axis, turned):
    return np.flip(x, axis) if turned else x


@given(
    st.sampled_from(sorted(FOLDS)),
    st.sampled_from([(40,), (7, 9), (3, 5, 6), (1, 40), (40, 1)]),
    st.integers(-3, 2),
    st.sampled_from(["f4", "f8", "c8", "c16"]),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(["flipped", "both", "other axis", "part", "result"]),
    st.booleans(),
)
def test_every_reader_sees_numpys_values(name, shape, axis, kind, turned, reader, dear):
    axis %= len(shape)
    if name == "maximum" and kind in ("c8", "c16"):
        kind = "f8"

    fold = FOLDS[name]

    def f(x):
        y = np.cos(x) if dear else x * 2
        y = fold(flip(y, axis, turned[0]), axis)
        z = flip(y, axis, turned[1])
        if reader == "flipped":
            return z * 3
        if reader == "both":
            return z * y
        if reader == "other axis":
            return np.flip(y, 0) + z
        if reader == "part":
            return z[1:] + y[:-1]
        return y, z, z + 1

    x = (RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if "c" in kind else 0)).astype(kind)
    fast = tracker.jit(f)
    expected = f(x)
    for _ in range(3):
        for a, b in zip(np.atleast_2d(fast(x)), np.atleast_2d(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if kind in ("f4", "c8") else 1e-12)


def test_a_sum_with_other_readers_is_not_reversed():
    x = RNG.normal(size=(500, 300))
    fast = tracker.jit(lambda x: np.flip(s := np.cumsum(x, 1), 1) * s)
    s = np.cumsum(x, 1)
    for _ in range(3):
        np.testing.assert_allclose(fast(x), np.flip(s, 1) * s, rtol=1e-12)


def test_windows_of_a_cumulative_sum():
    x = RNG.normal(size=3000)

    def f(x):
        return np.max(sliding_window_view(np.cumsum(x[::-1])[::-1], 5), axis=1)

    agree(f, x, tolerance=0)
