"""A trace frees what plain Python would have freed, and a compiled call makes results only."""

import numpy as np
import pytest
from compiled import agree
from lazy_arrays import ARRAY, N, arrays, peak, rosenbrock, rosenbrock_by_hand, tanh_exp
from tables import functions_of

import tracker
import tracker.numpy as tnp
from tracker.tape.tracing import tracer

SLACK = 6  # arrays: what a trace may hold for nobody, and the compiler's own


@pytest.fixture
def soon(monkeypatch):
    """Two dead arrays are too many."""
    monkeypatch.setattr(tracer, "_MIN_BYTE_LIMIT", 2 * ARRAY)


@pytest.fixture
def at_once(monkeypatch):
    """Arrays are let go as soon as they are dead."""
    monkeypatch.setattr(tracer, "_MIN_BYTE_LIMIT", 0)
    monkeypatch.setattr(tracer, "_BYTES_PER_EQUATION", 0)


def tanh_exp_by_hand(x, w, b):
    t, e = np.tanh(x * w + b), np.exp(-x * x)
    v = t * e
    d = (1.0 - t * t) * e
    return np.sum(v), (d * w - 2.0 * x * v, d * x, d)


@pytest.mark.parametrize(
    ("f", "by_hand", "count"),
    [(tanh_exp, tanh_exp_by_hand, 3), (rosenbrock, rosenbrock_by_hand, 1)],
)
def test_a_compiled_gradient_needs_no_more_memory_than_one_by_hand(f, by_hand, count):
    args = arrays(count)
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    fast(*args)
    for have, want in zip(fast(*args)[1], by_hand(*args)[1], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9)
    assert peak(fast, *args) <= peak(by_hand, *args)


def test_elementwise_chains_allocate_results_only():
    x, y = arrays(2)
    fast = tracker.jit(lambda x, y: (np.sin(x) * y + np.exp(-y) / (1.0 + x * x), x - y))
    fast(x, y)
    assert peak(fast, x, y) < 2.1


def test_a_trace_holds_no_more_than_the_plain_function(soon):
    def chain(x):
        for _ in range(40):
            x = np.sin(x) * 1.01 + 0.1
        return x

    (x,) = arrays(1)
    fast = tracker.jit(chain)
    assert peak(fast, x) < peak(chain, x) + 1 + SLACK
    np.testing.assert_allclose(fast(x), chain(x), rtol=1e-12)


def test_a_trace_of_a_gradient_holds_no_more_than_the_plain_gradient(soon):
    args = arrays(3)
    plain = peak(lambda *a: tracker.withgradient(tanh_exp, *a), *args)
    first = peak(tracker.jit(lambda *a: tracker.withgradient(tanh_exp, *a)), *args)
    assert first < plain + len(args) + SLACK


def test_dropped_lazy_values_hold_nothing(soon):
    def sorted_again_and_again(x):
        for k in range(30):
            x = np.sort(x)
            unused = x * 2.0 + 1.0
            x = x[::-1] if k % 2 else x
        return x + unused

    (x,) = arrays(1)
    fast = tracker.jit(sorted_again_and_again)
    assert peak(fast, x) < peak(sorted_again_and_again, x) + 1 + SLACK


def test_what_is_computed_in_the_end_is_let_go_on_the_way(soon):
    def chain(x):
        for _ in range(40):
            x = np.sin(x) * 1.01 + 0.1
        return np.sort(x)

    (x,) = arrays(1)
    fast = tracker.jit(chain)
    assert peak(fast, x) < peak(chain, x) + 2 + SLACK
    np.testing.assert_allclose(fast(x), chain(x), rtol=1e-12)


class InUse:
    def late_pull(x, w):
        y, pull = tracker.pullback(lambda x: np.sin(x * w) * w, x)
        noise = y
        for _ in range(8):
            noise = np.cos(noise) + x
        return pull(noise)[0], noise

    def two_pulls(x, w):
        y, pull = tracker.pullback(lambda x: np.exp(np.sin(x) * w), x)
        first = pull(y)[0]
        for _ in range(8):
            first = first * 0.5 + w
        return first + pull(np.cos(first))[0]

    def second_order(x, w):
        def slope(x):
            return np.sum(tracker.gradient(lambda y: np.sum(np.sin(y) * w), x)[0] ** 2)

        return tracker.gradient(slope, x), tracker.hvp(lambda y: np.sum(np.exp(y) * y), x, w)

    def forward(x, w):
        y, push = tracker.pushforward(lambda x: np.sin(x) * w, x)
        z = np.cos(y * w) + np.exp(x)
        return push(z), z

    def kept_in_a_list(x, w):
        found = []
        for _ in range(4):
            x = np.sin(x) * w
            found.append(x)
        return found[0] + found[-1] * found[1]

    def written(x, w):
        y = x * w
        view = y[10:]
        view[::2] = w[10::2] * 3.0
        other = np.cos(y)
        y[:5] = 0.0
        return y + other, view * 2.0

    def branching(x, w):
        y = np.sin(x) * w
        for _ in range(4):
            y = np.cos(y) if np.sum(y) > 0.0 else np.exp(y)
        return np.where(y > 0.5, x, y)

    def checkpointed(x, w):
        def step(y):
            return tracker.checkpoint(lambda y: np.sin(y * w) + y, y)

        return tracker.gradient(lambda y: np.sum(step(step(y))), x)

    def scanned(x, w):
        rows = x.reshape(8, -1)

        def body(carry, row):
            return np.sin(carry) + row, np.sum(carry)

        def loss(rows):
            last, sums = tracker.scan(body, w[: rows.shape[1]], rows)
            return np.sum(last) + np.sum(sums)

        return tracker.gradient(loss, rows)


@functions_of(InUse)
def test_lazy_values_in_use_stay(f, at_once):
    x, w = (a[: 1 << 10] for a in arrays(2))
    agree(f, x.copy(), w.copy())


def test_a_handle_that_outlives_its_trace_keeps_its_numbers(at_once):
    kept = []

    def f(x):
        y = np.sin(x)
        kept.append(y)
        return np.sum(np.cos(y) * y)

    x = np.linspace(0.0, 1.0, 100)
    tracker.jit(f)(x)
    np.testing.assert_array_equal(tracker.data(kept[0]), np.sin(x))


def test_an_operand_read_before_any_equation(at_once):
    x, w = np.ones((400_000, 2)), np.ones((2, 3))
    agree(lambda x, w: x @ w, x, w, tolerance=0)


def test_values_of_buffers_only_are_no_part_of_a_pullback(at_once):
    """Nor are the numbers there that its rules would read."""

    def f(x):
        weights = tnp.zeros(N)
        weights[:] = 0.5
        for _ in range(3):
            weights = 1.0 / (weights + 2.0)
            x = x * weights
        return np.sum(x)

    x = arrays(1)[0]
    have = tracker.jit(lambda x: tracker.gradient(f, x))(x)[0]
    np.testing.assert_allclose(have, tracker.gradient(f, x)[0], rtol=1e-12)


def test_rules_for_values_of_buffers_only_are_not_recorded():
    def f(x):
        weights = tnp.zeros(9)
        weights[:] = 0.5
        return np.sum(x * np.exp(np.sin(weights)))

    names = [
        eqn.op.name for eqn in tracker.trace(lambda x: tracker.gradient(f, x), np.ones(9)).eqns
    ]
    assert "cos" not in names
    assert names.count("exp") == 1
