"""Loops over slices between numbers of arrays: other numbers need no other trace."""

import numpy as np
import pytest
from drawn_code import function_of
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
from tracker.control.python_loops import iterator, rolling


@pytest.fixture(autouse=True, scope="module")
def every_loop_pays():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterator, "_MIN_TRIP_COUNT", 4)
        patch.setattr(rolling, "_MIN_EQUATIONS", 1)
        patch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)
        yield


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
    assert len(fast.ir(_offsets(0), X, Y).body) < ROWS


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


_PARTS = (
    "y[low:high]",
    "x[k[low:high]]",
    "m[low:high, 1]",
    "np.exp(-y[low:high])",
    "(t[i] * x[low:high])",
)
_LINES = (
    "s += np.sum({0} * {1})",
    "t[i] += {0} @ {1}",
    "s = s * 0.9 + np.sum(({0} - {1}) ** 2)",
    "t[i] = np.sum({0} / (2.0 + {1} ** 2)) - t[i]",
    "t[i] += np.sum(np.where({0} > {1}, {0}, t[i]))",
    "s += np.sum((m[low:high] * {0}[:, None]) @ x[:3])",
)


@settings(deadline=None, max_examples=min(settings.default.max_examples // 4, 40))
@given(
    counts=st.lists(st.integers(0, 5), min_size=9, max_size=14),
    lines=st.lists(
        st.builds(str.format, st.sampled_from(_LINES), *[st.sampled_from(_PARTS)] * 2),
        min_size=1,
        max_size=4,
    ),
    other=st.randoms(use_true_random=False),
)
def test_drawn_groups(counts, lines, other):
    text = "def drawn(ends, k, y, x, m):\n    s, t = np.sum(x) * 0.0, np.zeros(len(ends) - 1)\n"
    text += "    for i in range(len(ends) - 1):\n        low, high = ends[i], ends[i + 1]\n"
    text += "".join(f"        {line}\n" for line in lines) + "    return s + np.sum(t**2)\n"
    f = function_of(text)
    size = sum(counts) + 3
    rng = np.random.default_rng(size)
    k, y, x, m = (
        rng.integers(0, size, size),
        *rng.normal(size=(2, size)),
        rng.normal(size=(size, 3)),
    )

    def slopes(ends, y, x, m):
        return tracker.withgradient(lambda y, x, m: f(ends, k, y, x, m), y, x, m)

    fast = tracker.jit(slopes)
    for _ in range(3):
        ends = np.concatenate([[0], np.cumsum(counts)])
        (have, got), (want, wanted) = fast(ends, y, x, m), slopes(ends, y, x, m)
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-10)
        for one, slope in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, slope, rtol=1e-9, atol=1e-9)
        other.shuffle(counts)
