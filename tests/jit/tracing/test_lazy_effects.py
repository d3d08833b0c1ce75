"""Writes, captured arrays, threads, errors and reads next to lazy values of a trace, and the
conditions that a lazy trace speculates on.
"""

import threading

import numpy as np
import pytest
from lazy_arrays import N, arrays, everything
from side_by_side import each, program

import tracker
from tracker import gradient, jit

pytestmark = pytest.mark.usefixtures("nothing_put_off")


def one(change=lambda x: x):
    return change(*arrays(1))


def two():
    return tuple(arrays(2))


def with_zeros():
    x = one()
    x[:10] = 0.0
    return x


def _masked(x):
    return np.sum(np.where(x > 0, np.log(np.where(x > -1, x, 1.0)), 0.0))


class Programs:
    @program(two)
    def writes_that_see_what_was_there(x, y):
        x[:], y[:] = y * 2.0, x + 1.0
        return np.sum(x) - y[::2]

    @program(np.full(N, 0.5), state=lambda: {"c": one()}, times=1)
    def a_captured_array_that_is_written_into(x, s):
        y = s.c * x
        s.c[:] = y + 1.0
        return y * 2.0

    @program(one, times=1)
    def a_plain_array_that_changes_meanwhile(x):
        scratch = np.ones(N)
        y = x * scratch
        scratch[:] = 3.0
        z = x * scratch
        return (y + z) if np.sum(y) > np.inf else y - z

    @program(one, state=lambda: {"rng": np.random.default_rng(3)}, given=True)
    def draws(x, s):
        return x * 2.0 + s.rng.normal(size=N)

    @program(one)
    def views_of_arguments(x):
        return x[::2], np.sum(x * 2.0)

    @program(lambda: one(np.abs), lambda: -one(np.abs))
    def a_branch(x):
        y = np.sin(x)
        return y * 2.0 if np.sum(y) > 0 else np.cos(y)

    @program(np.ones(N))
    def an_exception_of_the_function(x):
        x *= 2.0
        raise RuntimeError("stop")

    @program(one)
    def an_error_that_is_caught(x):
        try:
            return x + np.ones(3)
        except ValueError:
            return x

    negative_powers = program(np.arange(N))(lambda n: n ** np.array(-1))
    an_int_too_large = program(np.ones(N, np.uint8))(lambda n: n + 300)
    a_division = program(one)(lambda x: 1.0 / (x[0] * 0.0).item())

    @program(np.zeros(N))
    def errors_of_floating_point(x):
        with np.errstate(divide="raise"):
            return 1.0 / x


@each(Programs)
def test_programs(row):
    row.check()


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
    with (
        np.errstate(all="ignore"),
        tracker.debug.nan_check(),
        pytest.raises(Exception, match="log"),
    ):
        jit(lambda x: np.sum(np.log(x)))(np.full(N, -1.0))


def test_lazy_values_read_during_a_trace(computed):
    @program(one, state={"seen": []})
    def reads(x, s):
        y = x * 2.0
        s.seen.append((float(tracker.data(np.sum(y))), int(np.argmax(y)), y.shape, y.dtype))
        z = np.sort(y)[::2] + 1.0
        return np.cumsum(z) * y[0]

    reads.check()
    assert computed


def test_a_printed_value_is_its_numbers(capsys):
    def f(x):
        y = x * 2.0
        print(y[:2])
        return np.sum(y)

    jit(f)(np.ones(N))
    assert capsys.readouterr().out == "[2. 2.]\n"


def test_zeros_are_strong_in_the_first_call():
    """The quick pass gives NaN: that it would not was taken for granted, and is found out."""
    with np.errstate(all="ignore"):
        assert np.isfinite(gradient(_masked, with_zeros())[0]).all()
        program(with_zeros, gradients=True)(_masked).check()


def test_what_was_taken_for_granted_is_looked_at_before_anybody_gets_numbers():
    seen = []

    def f(x):
        g = gradient(_masked, x)[0]
        seen.append(bool(np.isnan(np.sum(g))))
        return g

    with np.errstate(all="ignore"):
        jit(f)(with_zeros())
    assert seen == [False]


def test_a_loss_that_is_not_finite():
    fast = jit(lambda x: np.sum(np.log(x)))
    with np.errstate(all="ignore"), pytest.raises(tracker.NonFiniteError, match="infinite"):
        gradient(fast, np.zeros(N))
