"""First calls of loops: what a loop keeps for a pullback of it is computed when that is there."""

import numpy as np
import pytest
from counting import peak_bytes
from test_deferral import LATER, everything, same

import tracker
from tracker.control import loops
from tracker.control.nested import nest

X = np.linspace(-1.0, 2.0, 12)


def run(x, reverse=False):
    """The last state, and what the steps gave."""

    def step(state, t):
        y, v = state
        v = v - 0.1 * x * np.sin(y + t)
        return (y + 0.1 * v, v), y * v

    return tracker.scan(step, (x, np.zeros_like(x)), np.arange(5.0), reverse=reverse)


def loss(x):
    (y, v), ys = run(x)
    return np.sum(y * y + v) + np.sum(ys**2)


@pytest.fixture
def runs(monkeypatch):
    """The carries that each loop kept while it was evaluated."""
    kept, evaluate = [], loops.loop.evaluate

    def count(*operands, **params):
        kept.append(len(params["keep"]))
        return evaluate(*operands, **params)

    with everything(LATER):
        monkeypatch.setattr(loops.loop, "evaluate", count)
        yield kept


@pytest.mark.parametrize(
    ("f", "kept"),
    [
        (loss, [0]),
        (lambda x: run(x, reverse=True), [0]),
        (lambda x: tracker.withgradient(loss, x), [2, 0]),
        (lambda x: tracker.pullback(loss, x)[1](2.0), [2, 0]),
    ],
    ids=["values", "from the end", "gradient", "pullback"],
)
def test_what_nobody_pulls_through_is_not_kept(f, kept, runs):
    same(f, X)
    assert runs == kept


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tracker.hvp(loss, x, np.cos(x)),
        lambda x: tracker.gradient(lambda x: np.sum(tracker.gradient(loss, x)[0] ** 2), x),
        lambda x: tracker.gradient(lambda s: np.sum(tracker.pullback(loss, x)[1](s)[0]), 2.0),
        lambda x: tracker.jvp(loss, (x,), (np.cos(x),)),
        lambda x: tracker.hessian(loss, x),
        lambda x: [run(run(x)[0][0])[1], loss(x)],
    ],
    ids=["hvp", "twice", "of the seed", "forward", "hessian", "one after the other"],
)
@pytest.mark.parametrize("soon", [0, LATER], ids=["machine code", "NumPy"])
def test_derivatives(f, soon):
    with everything(soon):
        same(f, X, tolerance=1e-11)


def test_a_loop_runs_again_for_who_asks_for_what_it_keeps(runs):
    powers = 0.5 ** np.arange(5)[:, None] * X

    def f(x):
        body = nest("step", lambda y: [y * 0.5], [x])
        last, kept = loops.record_loop(body.function, 5, body.hoisted, [x], [], 5, False, (0,))
        return last, np.cos(kept)

    fast = tracker.jit(f)
    for _ in range(2):
        last, kept = fast(X)
        np.testing.assert_array_equal(last, X / 32)
        np.testing.assert_allclose(kept, np.cos(powers), rtol=1e-15)
    assert runs == [0, 1]


def test_the_first_call_has_the_memory_of_the_gradient_by_hand():
    """Two carries are kept by the loop forwards, and nothing by the loop back."""
    x = np.linspace(-1.0, 2.0, 1 << 14)

    def long(x):
        def step(state, t):
            y, v = state
            return (y + 0.1 * v, v - np.sin(y)), None

        (y, v), _ = tracker.scan(step, (x, x), np.arange(40.0))
        return np.sum(y * v)

    fast = tracker.jit(lambda x: tracker.withgradient(long, x))
    assert peak_bytes(lambda: fast(x)) < 3.2 * 40 * x.nbytes
