"""Values that loops save for their pullback: only those it reads, and on first calls only when it
runs.
"""

import numpy as np
import pytest
from compiled import agree
from counting import peak_bytes
from lazy_arrays import LATER, everything

import tracker
from tracker.control import loop
from tracker.control.body import trace_body

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
    kept, evaluate = [], loop.loop.evaluate

    def count(*operands, **params):
        kept.append(len(params["keep"]))
        return evaluate(*operands, **params)

    with everything(LATER):
        monkeypatch.setattr(loop.loop, "evaluate", count)
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
def test_nothing_is_saved_without_a_pullback(f, kept, runs):
    agree(f, X)
    assert runs == kept


def stepped(step):
    """A loss of two states, of which `step` makes the next ones."""

    def loss(x):
        (y, v), ys = tracker.scan(lambda state, t: step(*state, x, t), (x, x / 3), np.arange(5.0))
        return np.sum(y * np.cos(v)) + np.sum(ys**2)

    return loss


WEIGHTS = np.linspace(0.5, 1.0, 12)
STEPS = {  # and how many of the states have to be known at each step
    "summed": (lambda y, v, x, t: ((y + 0.1 * v, v - x * np.sin(y)), v + t), 1),
    "moved": (lambda y, v, x, t: ((np.sin(y) + v[::-1], 0.9 * v[::-1] - x), v.sum() - y), 1),
    "both": (
        lambda y, v, x, t: ((y + 2.0 * v, np.concatenate([v[6:], -y[:6]]) / 3.0), np.mean(v)),
        0,
    ),
    "by an array": (lambda y, v, x, t: ((y + WEIGHTS * v, v - np.sin(y)), v), 2),
    "by another": (lambda y, v, x, t: ((np.sin(y) + x * v, v - y), v), 2),
    "by their sum": (lambda y, v, x, t: ((np.sin(y), v - 1), np.exp(y + 0.5 * v)), 2),
    "as a place": (lambda y, v, x, t: ((np.sin(y), v + 1), y[v.astype(int) % 12]), 2),
    "as a mask": (lambda y, v, x, t: ((np.sin(y), v + 1), np.where(v > 1, y, 0.0)), 2),
    "by steps": (lambda y, v, x, t: ((np.sin(y), v + 7.0), 2.0 // v + y), 2),
    "in a loop": (
        lambda y, v, x, t: ((np.sin(y), tracker.fori_loop(0, 4, lambda _, z: z * x, v)), y),
        2,
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_no_pullback_looks_at_is_not_kept(name, runs):
    step, kept = STEPS[name]
    loss = stepped(step)
    agree(lambda x: tracker.withgradient(loss, x), X, tolerance=1e-11)
    assert kept in runs and max(runs) == kept
    agree(lambda x: tracker.hvp(loss, x, np.cos(x)), X, tolerance=1e-11)
    agree(lambda x: tracker.jvp(loss, (x,), (np.cos(x),)), X, tolerance=1e-11)


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
        agree(f, X, tolerance=1e-11)


def test_a_loop_runs_again_for_its_saved_values(runs):
    powers = 0.5 ** np.arange(5)[:, None] * X

    def f(x):
        body = trace_body("step", lambda y: [y * 0.5], [x])
        last, kept = loop.record_loop(body, 5, [x], [], 5, False, (0,))
        return last, np.cos(kept)

    fast = tracker.jit(f)
    for _ in range(2):
        last, kept = fast(X)
        np.testing.assert_array_equal(last, X / 32)
        np.testing.assert_allclose(kept, np.cos(powers), rtol=1e-15)
    assert runs == [0, 1]


def test_the_first_call_has_the_memory_of_the_gradient_by_hand():
    """One carry is kept by the loop forwards, and nothing by the loop back."""
    x = np.linspace(-1.0, 2.0, 1 << 14)

    def long(x):
        def step(state, t):
            y, v = state
            return (y + 0.1 * v, v - np.sin(y)), None

        (y, v), _ = tracker.scan(step, (x, x), np.arange(40.0))
        return np.sum(y * v)

    fast = tracker.jit(lambda x: tracker.withgradient(long, x))
    assert peak_bytes(lambda: fast(x)) < 2.2 * 40 * x.nbytes
