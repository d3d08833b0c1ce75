"""Writes in branches of loops: made after the branches, in place, and undone by the pullback."""

import numpy as np
import pytest

import tracker
from tracker import cond, fori_loop

N = 40
FLAGS = np.random.default_rng(3).integers(0, 4, N)
PLACES = np.random.default_rng(4).integers(1, N, N)
X = np.random.default_rng(5).uniform(0.5, 1.5, N)


def _in_both_branches(x):
    y = x.copy()
    for i in range(1, N):
        if FLAGS[i] % 2:
            y[PLACES[i]] = y[i - 1] * 0.9 + x[i]
        else:
            y[PLACES[i - 1]] = np.sin(y[PLACES[i]])
    return y


def _in_one_branch(x):
    y = x.copy()
    for i in range(N):
        if x[i] > 1.0:
            y[PLACES[i]] *= x[i]
    return y


def _as_sums(x):
    y = np.zeros(N)
    for i in range(N):
        if x[PLACES[i]] > 1.0:
            y[PLACES[i]] += x[i] ** 2
        else:
            y[FLAGS[i]] -= x[i]
    return y


def _more_in_one_branch(x):
    y = x.copy()
    for i in range(1, N):
        if FLAGS[i] > 1:
            y[PLACES[i]] = y[i - 1] * x[i]
            y[PLACES[i - 1]] = y[i] * 0.5 + y[PLACES[i]]
        elif FLAGS[i]:
            y[PLACES[i]] = x[i] ** 2
    return y


def _into_two_arrays(x):
    y, z = x.copy(), np.ones(N)
    for i in range(N):
        if FLAGS[i] % 2:
            y[PLACES[i]] = z[i] * x[i]
        else:
            z[PLACES[i]] = y[i] + 0.1
    return y * z


def _rows_of_one_number(x):
    y = np.outer(x, np.ones(6))
    for i in range(N):
        if FLAGS[i] % 2:
            y[PLACES[i]] = 0.0
        else:
            y[PLACES[i]] = y[i] * x[i]
    return y


def _at_fixed_places(x):
    y = x.copy()
    for i in range(N):
        if x[PLACES[i]] > 1.0:
            first = y[0] * 0.9
            y[3] = y[3] * 0.5
            y[0] = first + x[i]
        else:
            y[0] = y[0] + 0.1
    return y


def _cond_in_a_loop(x):
    def write(y, i):
        y = y.copy()
        y[PLACES[i]] = y[i] * 2.0
        return y

    def leave(y, i):
        return y

    return fori_loop(0, N, lambda i, y: cond(x[i] > 1.0, write, leave, y, i), x.copy())


IN_PLACE = [
    _in_both_branches,
    _in_one_branch,
    _as_sums,
    _into_two_arrays,
    _rows_of_one_number,
    _at_fixed_places,
    _cond_in_a_loop,
]


def _reads_between(x):
    y, total = x.copy(), 0.0
    for i in range(N):
        if FLAGS[i] % 2:
            y[PLACES[i]] = x[i] * 2.0
            total = total + np.sum(y)
            y[i] = total * 0.01
        else:
            y[PLACES[i]] = 0.0
    return y


def _different_parts(x):
    y = x.copy()
    for i in range(N):
        if FLAGS[i] % 2:
            y[1:4] = x[PLACES[i]]
        else:
            y[PLACES[i]] = y[2] * 0.5
    return y


def _another_array(x):
    y = x.copy()
    for i in range(N):
        if FLAGS[i] % 2:
            y = y * 1.01
        else:
            y[PLACES[i]] = x[i]
    return y


def _large_parts(x):
    y = x.copy()
    for i in range(N):
        if FLAGS[i] % 2:
            y[1:] = y[:-1] * 0.5 + x[i]
        else:
            y[1:] = y[1:] * 0.9
    return y


OTHERS = [_more_in_one_branch, _reads_between, _different_parts, _another_array, _large_parts]


@pytest.fixture(autouse=True)
def every_loop_is_rolled(monkeypatch):
    for name in ("_MIN_EQUATIONS", "_MIN_EQUATIONS_OF_LARGE"):
        monkeypatch.setattr(f"tracker.control.python_loops.rolling.{name}", 1)


def _loss(f):
    return lambda x: np.sum(f(x) ** 2)


@pytest.mark.parametrize("f", IN_PLACE + OTHERS)
def test_results_and_derivatives(f):
    compiled, slopes = tracker.jit(f), tracker.jit(lambda x: tracker.gradient(_loss(f), x)[0])
    for x in (X, X[::-1].copy(), X):
        np.testing.assert_allclose(compiled(x), f(x.copy()), rtol=1e-12)
        np.testing.assert_allclose(slopes(x), tracker.gradient(_loss(f), x)[0], rtol=1e-10)


@pytest.mark.parametrize("f", IN_PLACE)
def test_other_derivatives(f):
    direction = np.cos(np.arange(N))
    pushed = tracker.jit(lambda x, v: tracker.jvp(_loss(f), (x,), (v,))[1])
    (slopes,) = tracker.gradient(_loss(f), X)
    np.testing.assert_allclose(pushed(X, direction), slopes @ direction, rtol=1e-10)
    twice = tracker.jit(
        lambda x: tracker.gradient(lambda x: tracker.gradient(_loss(f), x)[0] @ direction, x)[0]
    )
    (want,) = tracker.gradient(lambda x: tracker.gradient(_loss(f), x)[0] @ direction, X)
    np.testing.assert_allclose(twice(X), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", IN_PLACE)
def test_no_step_copies_the_array(f):
    slopes = tracker.jit(lambda x: tracker.gradient(_loss(f), x)[0])
    slopes(X)
    text = str(slopes.ir(X))
    assert " branch " in text
    shape = "40,6" if f is _rows_of_one_number else "40"
    for kept in (f"f64[40,{shape}]", f"f64[39,{shape}]"):
        assert kept not in text
    assert not [
        line for line in text.splitlines() if " branch " in line and f"(f64[{shape}]" in line
    ]


HELD = np.ones(N)


@pytest.mark.parametrize("copied", [lambda x: x * 2.0, lambda x: HELD])
def test_what_no_branch_writes_into_is_a_result_of_its_own(copied):
    def f(x):
        y = copied(x)
        z, scale = cond(x[0] > 1.0, lambda y: (y.copy(), 1.0), lambda y: (y.copy(), 2.0), y)
        z[0] = 100.0
        return np.sum(y) * scale + np.sum(z)

    compiled = tracker.jit(f)
    for x in (X, X[::-1].copy(), X):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
    np.testing.assert_array_equal(HELD, np.ones(N))
