"""Numbers that are computed in the same way are differentiated once in a trace."""

import numpy as np
import pytest

import tracker as tr

RNG = np.random.default_rng(5)


def minor(a, row, columns):
    """A determinant, expanded along its rows: it has few different minors."""
    if not columns:
        return 1.0
    total = 0.0
    for i, column in enumerate(columns):
        total += (-1.0) ** i * a[row, column] * minor(a, row + 1, columns[:i] + columns[i + 1 :])
    return total


def determinant(x):
    return minor(x, 0, (0, 1, 2, 3, 4))


def fibonacci(x):
    def at(n):
        return x[n] if n < 2 else np.tanh(at(n - 1)) + x[0] * at(n - 2)

    return at(11)


def equal_results(x):
    """The result itself is computed before it is returned."""
    total = 0.0
    for _ in range(3):
        for row in range(len(x)):
            total = total + helper(x, row)
    return (total - total) + helper(x, 0) * helper(x, 0)


def helper(x, row):
    y = np.sin(x[row, 0])
    for k in range(1, len(x)):
        y = y * x[row, k] + np.exp(x[row, k] * 0.1) + y / (1.0 + y * y)
    return y


def different_literals(x):
    """0.0 and -0.0, 1 and True are equal in Python."""
    total = 0.0
    for i in range(len(x)):
        for k in range(len(x)):
            up, down = np.arctan2(0.0, x[i, k]), np.arctan2(-0.0, x[i, k])
            total = total + up * x[k, i] - 3.0 * down * x[k, i] + x[i, k] * 1 + x[i, k] * True
            total = total * 1.0 + np.where(x[i, k] > 0, up, down) * x[i, i]
    return total


def draws(x):
    """A random number is another one each time."""
    rng = np.random.default_rng(3)
    total = 0.0
    for i in range(len(x)):
        for k in range(len(x)):
            for _ in range(5):
                total = total + x[i, k] * rng.normal() + np.sin(x[i, k])
    return total


def writes(x):
    """An element is read again after something was written there."""
    x = x.copy()
    total = 0.0
    for i in range(len(x)):
        for k in range(len(x)):
            before = np.sin(x[i, k]) * x[i, 0]
            x[i, k] = before * 2.0
            after = np.sin(x[i, k]) * x[i, 0]
            x[i, k] = before
            total = total + before - 3.0 * after + np.sin(x[i, k]) * x[i, 0]
    return total


PROGRAMS = [determinant, fibonacci, equal_results, different_literals, draws, writes]


def argument(program):
    return RNG.normal(size=2 if program is fibonacci else (5, 5))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_plain_function(program):
    x = argument(program)
    fast = tr.jit(lambda x: tr.gradient(program, x)[0])
    for at in (x, x, 0.5 * x):
        np.testing.assert_allclose(fast(at), tr.gradient(program, at)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("program", [fibonacci, determinant], ids=lambda f: f.__name__)
def test_second_derivatives_are_those_of_the_plain_function(program):
    x = argument(program)
    v = RNG.normal(size=x.shape)

    def along(x):
        return tr.gradient(lambda x: np.sum(tr.gradient(program, x)[0] * v), x)[0]

    np.testing.assert_allclose(tr.jit(along)(x), along(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("program", [fibonacci, determinant], ids=lambda f: f.__name__)
def test_what_is_computed_again_is_differentiated_once(program):
    x = argument(program)
    value = [*tr.trace(program, x).eqns]
    derivative = [*tr.trace(lambda x: tr.gradient(program, x)[0], x).eqns]
    assert len(value) > 300
    assert len(derivative) < len(value) / 2


def test_a_number_that_is_computed_again_may_be_returned_and_tested():
    def f(x):
        total = 0.0
        for i in range(4):
            for k in range(len(x)):
                y = np.sin(x[k]) * x[0]
                total = total + (y if np.sin(x[k]) * x[0] > 0 else -y) * i
        return total, np.sin(x[1]) * x[0], np.sin(x[1]) * x[0]

    def value_and_all(x):
        return tr.gradient(lambda x: f(x)[0], x)[0], f(x)

    x = RNG.normal(size=30)
    for at in (x, x, -x):
        got, want = tr.jit(value_and_all)(at), value_and_all(at)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-12)
