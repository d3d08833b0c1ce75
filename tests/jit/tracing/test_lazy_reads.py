"""Reads of lazy values, and the conditions that a lazy trace speculates on."""

import numpy as np
import pytest
from lazy_arrays import N, arrays, same

import tracker
from tracker import gradient, jit

pytestmark = pytest.mark.usefixtures("nothing_put_off")


def test_a_branch_is_answered_by_the_numbers():
    def f(x):
        y = np.sin(x)
        return y * 2.0 if np.sum(y) > 0 else np.cos(y)

    (x,) = arrays(1)
    same(f, np.abs(x))
    same(f, -np.abs(x))


def test_lazy_values_read_during_a_trace(computed):
    seen = []

    def f(x):
        y = x * 2.0
        seen.append((float(tracker.data(np.sum(y))), int(np.argmax(y)), y.shape, y.dtype))
        z = np.sort(y)[::2] + 1.0
        return np.cumsum(z) * y[0]

    (x,) = arrays(1)
    same(f, x)
    assert computed
    assert all(now == (np.sum(x * 2.0), int(np.argmax(x)), x.shape, x.dtype) for now in seen)


def test_a_printed_value_is_its_numbers(capsys):
    def f(x):
        y = x * 2.0
        print(y[:2])
        return np.sum(y)

    x = np.ones(N)
    jit(f)(x)
    assert capsys.readouterr().out == "[2. 2.]\n"


def test_a_users_exception_after_lazy_values():
    def f(x):
        x *= 2.0
        raise RuntimeError("stop")

    x = np.ones(N)
    with pytest.raises(RuntimeError, match="stop"):
        jit(f)(x)
    np.testing.assert_array_equal(x, 2.0)


def test_numpy_raises_its_own_errors_at_once():
    def f(x):
        try:
            return x + np.ones(3)
        except ValueError:
            return x

    (x,) = arrays(1)
    same(f, x)
    with pytest.raises(ValueError, match="negative integer powers"):
        jit(lambda n: n ** np.array(-1))(np.arange(N))
    with pytest.raises(OverflowError):
        jit(lambda n: n + 300)(np.ones(N, np.uint8))
    with pytest.raises(ZeroDivisionError):
        jit(lambda x: 1.0 / (x[0] * 0.0).item())(x)


def test_floating_point_errors_raise_under_errstate():
    def f(x):
        with np.errstate(divide="raise"):
            return 1.0 / x

    with pytest.raises(FloatingPointError):
        jit(f)(np.zeros(N))


def masked(x):
    return np.sum(np.where(x > 0, np.log(np.where(x > -1, x, 1.0)), 0.0))


def test_zeros_are_strong_in_the_first_call():
    """The quick pass gives NaN: that it would not was taken for granted, and is found out."""
    (x,) = arrays(1)
    x[:10] = 0.0
    with np.errstate(all="ignore"):
        want = gradient(masked, x)[0]
        assert np.isfinite(want).all()
        whole, inner = jit(lambda x: gradient(masked, x)), jit(masked)
        for _ in range(2):
            np.testing.assert_allclose(whole(x)[0], want, rtol=1e-12)
            np.testing.assert_allclose(gradient(inner, x)[0], want, rtol=1e-12)


def test_what_was_taken_for_granted_is_looked_at_before_anybody_gets_numbers():
    seen = []

    def f(x):
        g = gradient(masked, x)[0]
        seen.append(bool(np.isnan(np.sum(g))))
        return g

    (x,) = arrays(1)
    x[:10] = 0.0
    with np.errstate(all="ignore"):
        jit(f)(x)
    assert seen == [False]


def test_a_loss_that_is_not_finite():
    fast = jit(lambda x: np.sum(np.log(x)))
    with np.errstate(all="ignore"), pytest.raises(tracker.NonFiniteError, match="infinite"):
        gradient(fast, np.zeros(N))
