"""Compiling takes steps in proportion to the program, counted by the interpreter; long arithmetic
with checks stays one block of straight-line code."""

import numpy as np
import pytest
from counting import lines_run

import tracker
from tracker.jit import engine, pipeline

RNG = np.random.default_rng(0)
X = RNG.standard_normal(40)
W = RNG.standard_normal((33, 33)) * 0.1
ROWS = RNG.standard_normal((4000, 33))


def scalars(n, x):
    y = x
    for _ in range(n):
        y = (y * x + 0.3) * y / (1.0 + y * y)
    return y


def vectors(n, x):
    y = x
    for k in range(n):
        y = np.sin(y) * x + y[::-1] / (k + 1.0)
    return np.sum(y)


def writes(n, x):
    y = np.zeros_like(x)
    for k in range(n):
        y[k % 40] = x[k % 7] * k + y[(k + 1) % 40]
    return np.sum(y * x)


def sweeps(n, x):
    """Reads and writes of single elements, the writes far apart from the reads."""
    y = x.copy()
    for _ in range(n):
        for k in range(1, 39):
            y[k] = (y[k - 1] + y[k + 1]) / 2
    return np.sum(y)


def steps(n, w, rows):
    h = np.zeros(33)
    total = 0.0
    for t in range(n):
        h = np.tanh(rows[t] @ w + h @ w)
        total = total + np.sum(h * h)
    return total


@tracker.custom_gradient
def _ruled(x):
    return np.sin(x), lambda g: (g * np.cos(x),)


def ruled(n, x):
    """Calls of a function with a rule of its own, two derivatives of them."""

    def chain(y):
        for k in range(n):
            y = _ruled(y * (k % 3 + 1.0))
        return y

    return tracker.gradient(chain, x)[0]


def kept(n, x):
    """Everything lives until the end."""
    parts = [np.exp(x * k) for k in range(1, n)]
    return np.sum(sum(p * q for p, q in zip(parts, reversed(parts), strict=True)))


def joined(n, *xs):
    """Many arrays side by side, each with a gradient of its own."""
    return np.sum(np.concatenate([np.sin(x) * (k + 1.0) for k, x in enumerate(xs[:n])]) ** 2)


def apart(n, x):
    """What does not depend on one another: all of it could be one kernel, which is to end."""
    return sum(np.sum(each(x * k)) for k in range(n) for each in (np.sin, np.tanh, np.cos))


def counted(f, *args):
    """Lines of Python that run while a gradient is traced and compiled."""
    fast = tracker.jit(lambda *a: tracker.gradient(f, *a))
    return lines_run(lambda: fast(*args))


@pytest.mark.parametrize(
    ("f", "n", "args"),
    [
        (scalars, 80, (0.3,)),
        (vectors, 30, (X,)),
        (writes, 80, (X,)),
        (sweeps, 3, (X,)),
        (steps, 40, (W, ROWS)),
        (ruled, 40, (0.3,)),
        (joined, 12, [X[:5] + k for k in range(48)]),
        (apart, 8, (X * 0.01,)),
        (kept, 110, (X * 0.001,)),  # all three long enough to be rolled
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_twice_the_program_takes_about_twice_the_steps(f, n, args):
    counted(lambda *a: f(3, *a), *args)  # what is made once per process
    once, twice, four = (counted(lambda *a, k=k: f(k * n, *a), *args) for k in (1, 2, 4))
    assert four - twice < 2.4 * (twice - once)


def test_checks_do_not_cut_arithmetic_into_blocks(monkeypatch):
    straight = tuple(each for each in pipeline.PASSES if each.name != "roll")
    monkeypatch.setattr(pipeline, "PASSES", straight)
    fast = tracker.jit(lambda x: tracker.value_and_grad(lambda y: scalars(100, y))(x))
    fast(0.3)
    (family,) = fast._jitted.families.values()
    text = family.specials[0].compiled.pieces[0].modules[0].text
    assert engine.longest_block(text) > 1000
    assert fast(0.3) == pytest.approx(tracker.value_and_grad(lambda y: scalars(100, y))(0.3))


@pytest.mark.parametrize("at", [0, 3, 7])
def test_checks_that_come_later_still_hold(at):
    def f(x, ys):
        for y in ys:
            x = x / y + (1 << int(y)) / (y + 3.0)
        return x

    fast = tracker.jit(f)
    ys = [float(k + 1) for k in range(8)]
    fast(1.5, ys)
    assert fast(2.5, ys) == pytest.approx(f(2.5, ys))
    ys[at] = 0.0
    with pytest.raises(ZeroDivisionError):
        fast(2.5, ys)
    ys[at] = -3.0
    with pytest.raises((ZeroDivisionError, ValueError)):
        fast(2.5, ys)


def test_integers_that_outgrow_machine_words_or_shift_backwards():
    def f(n, k):
        for _ in range(12):
            n = n * n + 1
            n = n - (n >> k)
        return n

    fast = tracker.jit(f)
    for n, k in ((0, 60), (3, 1), (2, 2), (1, 50)):
        assert fast(n, k) == f(n, k)
    with pytest.raises(ValueError, match="negative shift"):
        fast(1, -1)
