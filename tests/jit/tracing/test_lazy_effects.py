"""Writes, captured arrays, effects and threads next to lazy values of a trace."""

import threading

import numpy as np
import pytest
from lazy_arrays import N, arrays, everything

import tracker
from tracker import jit

pytestmark = pytest.mark.usefixtures("nothing_put_off")


def test_writes_reach_the_caller_and_see_what_was_there():
    def swap(x, y):
        x[:], y[:] = y * 2.0, x + 1.0
        return np.sum(x) - y[::2]

    plain, compiled = arrays(2), arrays(2)
    fast = jit(swap)
    for _ in range(2):
        want, have = swap(*plain), fast(*compiled)
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_a_captured_array_that_is_written_into():
    (c,) = arrays(1)
    start = c.copy()

    @jit
    def f(x):
        y = c * x
        c[:] = y + 1.0
        return y * 2.0

    x = np.full(N, 0.5)
    np.testing.assert_allclose(f(x), start, rtol=1e-12)
    np.testing.assert_allclose(c, start * 0.5 + 1.0, rtol=1e-12)


def test_a_plain_array_that_the_function_changes_meanwhile():
    def f(x):
        scratch = np.ones(N)
        y = x * scratch
        scratch[:] = 3.0
        z = x * scratch
        return (y + z) if np.sum(y) > np.inf else y - z

    (x,) = arrays(1)
    np.testing.assert_allclose(jit(f)(x), x - 3.0 * x, rtol=1e-12)


def test_a_handle_that_outlives_its_trace_has_the_numbers_of_then():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        x[:] = 0.0
        return np.sum(x)

    x = np.ones(N)
    jit(f)(x)
    x[:] = 7.0
    np.testing.assert_array_equal(tracker.data(kept[0]), 2.0)
    kept.clear()


def test_a_generator_draws_once():
    def f(x, rng):
        return x * 2.0 + rng.normal(size=N)

    (x,) = arrays(1)
    fast = jit(f)
    mine, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(2):
        np.testing.assert_allclose(fast(x, mine), f(x, theirs), rtol=1e-12)


def test_views_of_arguments_that_are_returned_share_their_memory():
    (x,) = arrays(1)
    fast = jit(lambda x: (x[::2], np.sum(x * 2.0)))
    for _ in range(2):
        view, _ = fast(x)
        assert np.shares_memory(view, x)


@pytest.mark.filterwarnings("ignore:.*may differ at each call:RuntimeWarning")
def test_another_thread_finds_the_numbers_of_a_handle():
    found = []

    def f(x):
        y = np.sin(x)
        other = threading.Thread(target=lambda: found.append(tracker.data(y).copy()))
        other.start()
        other.join()
        return y * 2.0

    x = np.linspace(0, 1, 5)
    with everything():
        jit(f)(x)
    np.testing.assert_array_equal(found[0], np.sin(x))


def test_a_trace_that_is_watched_computes():
    def f(x):
        return np.sum(np.log(x))

    with (
        np.errstate(all="ignore"),
        tracker.debug.nan_check(),
        pytest.raises(Exception, match="log"),
    ):
        jit(f)(np.full(N, -1.0))
