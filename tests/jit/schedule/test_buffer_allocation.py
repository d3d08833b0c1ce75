"""Scratch allocation: buffers that are live at the same time do not overlap, and holes are
reused."""

import random
import re

import numpy as np
import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

import tracker
from tracker.jit.schedule.buffer_allocation import ALIGNMENT, allocate_scratch

LIVES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 500)), max_size=60
)


def spans(lives, rooms=None):
    total, spots = allocate_scratch(lives, rooms)
    for key, (_, last, size) in lives.items():
        spot = spots[key]
        written, most = (last + 1, total) if spot.output is None else rooms[spot.output]
        assert spot.offset % ALIGNMENT == 0
        assert spot.offset + size <= most
        assert last < written
    return total, spots


@given(LIVES, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 1000)), max_size=12))
def test_live_buffers_do_not_overlap(rows, results):
    lives = {k: (first, first + length, size << 10) for k, (first, length, size) in enumerate(rows)}
    _, spots = spans(lives, {k: (first, size << 10) for k, (first, size) in enumerate(results)})
    for a, (first, last, size) in lives.items():
        for b, (start, end, bytes_) in lives.items():
            at_once = first <= end and start <= last
            if a < b and at_once and spots[a].output == spots[b].output:
                low, high = sorted([(spots[a].offset, size), (spots[b].offset, bytes_)])
                assert low[0] + max(low[1], 1) <= high[0]


def test_an_output_holds_scratch_until_it_is_written():
    size = 1 << 20
    rooms = {3: (2, size), 5: (7, size)}
    total, spots = spans({k: (k, k + 1, size) for k in range(6)}, rooms)
    assert [spots[k].output for k in range(6)] == [3, 5, None, 5, None, 5]
    assert total == size
    assert spans({0: (0, 1, size + 1)}, rooms)[0] > size  # too large for it
    assert spans({0: (0, 7, size)}, rooms)[0] == size  # it is written while that lives
    assert spans({0: (0, 0, 64)}, rooms)[0] == 64  # not worth it
    odd = size + 8  # not a whole number of lines
    assert spans({0: (0, 1, odd), 1: (2, 3, size)}, {2: (4, odd)})[0] == 0


def test_memory_is_reused():
    assert spans({k: (k, k, 1000) for k in range(100)})[0] == 1024
    assert spans({k: (k, k + 1, 1000) for k in range(100)})[0] == 2048
    assert spans({0: (0, 1, 100), 1: (0, 1, 100), 2: (2, 2, 200)})[0] == 256  # holes join


@pytest.mark.parametrize("length", [0, 3, 10**9])
def test_allocation_is_linear(length):
    """Twice the buffers take about twice the interpreter steps."""

    def steps(count):
        rng = random.Random(0)
        lives = {k: (k, k + rng.randint(0, length), rng.randint(1, 9) * 64) for k in range(count)}
        return lines_run(lambda: allocate_scratch(lives))

    assert steps(2000) < 2.5 * steps(1000)


def test_intermediates_share_the_memory_of_the_result():
    x, w = np.random.default_rng(0).normal(size=(2, 300, 300))

    @tracker.jit
    def sums(x):
        return tracker.gradient(lambda x: np.sum(np.cumsum(x) ** 2), x)

    @tracker.jit
    def products(x, w):
        return tracker.gradient(lambda x: np.sum((x @ w @ w) ** 2), x)

    @tracker.jit
    def system(x, w):
        return tracker.gradient(lambda x: np.sum(np.linalg.solve(x, w[0]) ** 2), x)

    assert scratch_of(system, x[:299, :299].copy(), w[:1, :299].copy()) < 0.2 * x.nbytes
    assert scratch_of(sums, x) < 1.1 * x.nbytes
    assert scratch_of(products, x, w) < 1.1 * x.nbytes
    for _ in range(3):
        by_hand = np.cumsum(2 * np.cumsum(x)[::-1])[::-1].reshape(x.shape)
        np.testing.assert_allclose(sums(x)[0], by_hand, rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(products(x, w)[0], 2 * (x @ w @ w) @ w.T @ w.T, rtol=1e-9)
        x = x[::-1].copy()


def test_a_value_sliced_by_products_is_stored_once():
    x = np.random.default_rng(0).normal(size=(300, 90))

    def correlations(x):
        x = (x - np.mean(x, axis=0)) / np.std(x, axis=0)
        return [x[:, i] @ x.T[i:, :].T for i in range(90)], x[:, 40] @ x[:, :9]

    fast = tracker.jit(correlations)
    for _ in range(3):
        (have, few), (want, less) = fast(x), correlations(x)
        for one, other in zip([*have, few], [*want, less], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        x = x[::-1] * 2.0 + 1.0
    assert scratch_of(fast, x) < 2.5 * x.nbytes


def test_a_value_that_loops_read_in_slices_is_stored_once():
    x, w = np.random.default_rng(0).normal(size=(2, 600, 40))

    def filtered(x, w):
        signal, y = x * w + w, np.zeros_like(x)
        for i in range(2, 600):
            y[i] = 0.5 * signal[i] + 0.2 * signal[i - 1] - 0.1 * signal[i - 2] + 0.3 * y[i - 1]
        return y

    fast = tracker.jit(filtered)
    for _ in range(3):
        np.testing.assert_allclose(fast(x, w), filtered(x, w), rtol=1e-12)
        x = x[::-1].copy()
    assert scratch_of(fast, x, w) < 2.5 * x.nbytes


def test_what_only_an_update_reads_is_computed_where_it_is_written():
    a, b = np.random.default_rng(0).normal(size=(2, 60, 60)) / 8

    def loss(a, b):
        b = b.copy()
        for i in range(60):
            b[i] += a[i + 1 :, i] @ b[i + 1 :]
        return np.sum(b**2)

    fast = tracker.jit(lambda a, b: tracker.gradient(loss, a, b))
    for _ in range(3):
        for have, want in zip(fast(a, b), tracker.gradient(loss, a, b), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)
        a = a[::-1].copy()
    assert scratch_of(fast, a, b) < 7.5 * a.nbytes  # the outer product of each step: one more


@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_a_cumulative_sum_is_in_place(axis):
    x = 0.1 * np.random.default_rng(0).normal(size=(500, 300))

    def loss(x):
        return np.sum(np.exp(-(np.cumsum(x, axis) ** 2)))

    fast = tracker.jit(lambda x: tracker.gradient(loss, x)[0])
    assert scratch_of(fast, x) < 0.1 * x.nbytes
    s = np.cumsum(x, axis)
    by_hand = np.flip(np.cumsum(np.flip(-2 * s * np.exp(-(s**2)), axis), axis), axis)
    for _ in range(3):
        np.testing.assert_allclose(fast(x), by_hand, rtol=1e-9, atol=1e-12)


def test_a_gradient_through_a_sort_stores_positions_and_two_copies_of_keys():
    x = np.random.default_rng(0).normal(size=1 << 16)
    fast = tracker.jit(lambda x: tracker.gradient(lambda x: np.sum(np.sort(x) ** 2), x))
    assert scratch_of(fast, x) < 3.1 * x.nbytes
    np.testing.assert_allclose(fast(x)[0], 2 * x)


def test_a_shared_operand_is_stored_instead_of_its_users():
    x, w = np.random.default_rng(0).normal(size=(300, 300)), np.arange(1.0, 5.0)

    def loss(x, w):
        a, b, c, d = x[:-1, :-1], x[:-1, 1:], x[1:, :-1], x[1:, 1:]
        return np.sum(np.maximum(w[0] * a + w[1] * b + w[2] * c + w[3] * d, 0) ** 2)

    fast = tracker.jit(lambda x, w: tracker.gradient(lambda x: loss(x, w), x)[0])
    assert scratch_of(fast, x, w) < 1.1 * x.nbytes
    np.testing.assert_allclose(fast(x, w), tracker.gradient(loss, x, w)[0], rtol=1e-12, atol=1e-12)


def test_a_loop_has_one_buffer_for_each_stack():
    """Only carries have a spare buffer, to which a step writes while it reads the other."""
    steps, n = 120, 1000

    @tracker.jit
    def f(x):
        def loss(x):
            for _ in range(steps):
                x = np.sin(x) * x
            return np.sum(x)

        return tracker.gradient(loss, x)[0]

    x = np.linspace(0.1, 1.0, n)
    assert "loop of" in f.explain(x)
    stacks = 2 * 8 * n * steps  # x and its sine
    assert scratch_of(f, x) < 1.2 * stacks


def softmax(q, k):
    e = np.exp(q @ k.T)
    return e / np.sum(e, axis=1, keepdims=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_overwrites_its_dead_operand(threads):
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 512, 16))
    labels, x = rng.integers(0, 16, 1 << 14), rng.normal(size=(1 << 14, 16))

    def attention(q):
        return np.sum((softmax(q, k) @ v) ** 2)

    def chosen(x):
        return np.sum(np.exp(x) / np.sum(np.exp(x)) + x[np.arange(len(x)), labels][:, None])

    def entropy(x):  # rows of a function of many steps
        z = x - np.max(x, axis=1, keepdims=True)
        logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(logp[np.arange(len(x)), labels])

    sizes = (3.2 * (8 << 18), 0.1 * x.nbytes, 0.5 * x.nbytes)
    for f, a, most in zip((attention, chosen, entropy), (q, x, x), sizes, strict=True):
        with tracker.config(threads=threads):
            fast = tracker.jit(lambda a, f=f: tracker.gradient(f, a)[0])
            found = scratch_of(fast, a)
            assert found < most
            for _ in range(2):
                got = fast(a)
        np.testing.assert_allclose(got, tracker.gradient(f, a)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda y: y[::-1] + 1,  # another row
        lambda y: y + y[:, ::-1],  # the element, and another
        lambda y: (y + 1, y * 2),  # which is written once
        lambda y: (y + 1, np.cumsum(y, axis=0)),  # and read later
        lambda y: (y.T + 1).T,
        lambda y: np.sin(1e6 * np.round(y)),  # a loop that runs again
        lambda y: np.where(y > 0, y, y[0]),  # a row, by all others
    ],
)
def test_an_operand_read_at_other_indices_is_not_overwritten(f):
    a, b = np.random.default_rng(0).normal(size=(2, 400, 400))
    fast, want = tracker.jit(lambda a, b: f(a @ b)), f(a @ b)
    _, got = fast(a, b), fast(a, b)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_only_carries_that_the_pullback_reads_are_saved():
    """Of an oscillator, the positions but not the velocities."""

    def loss(x):
        def step(state, t):
            x, v = state
            v = v - 0.1 * np.sin(x)
            return (x + 0.1 * v, v), None

        (x, v), _ = tracker.scan(step, (x, np.zeros_like(x)), np.arange(50.0))
        return np.sum(x * v)

    x = np.linspace(0.1, 1.0, 1000)
    fast = tracker.jit(lambda x: tracker.gradient(loss, x)[0])
    assert scratch_of(fast, x) < 1.2 * 50 * x.nbytes
    for _ in range(2):
        np.testing.assert_allclose(fast(x), tracker.gradient(loss, x)[0], rtol=1e-12)


def test_parts_that_the_pullback_reads_are_saved():
    """Of an elimination, a row and a column of each step, not the matrix."""

    def loss(a):
        def step(a, k):
            return a - np.outer(a[:, k], a[k]) / a[k, k], None

        last, _ = tracker.scan(step, a, np.arange(60))
        return np.sum(last)

    a = np.eye(150) + np.linspace(0.0, 0.1, 150 * 150).reshape(150, 150) ** 2
    fast = tracker.jit(lambda a: tracker.gradient(loss, a)[0])
    assert scratch_of(fast, a) < 6 * a.nbytes
    for _ in range(2):
        np.testing.assert_allclose(fast(a), tracker.gradient(loss, a)[0], rtol=1e-9)


def test_a_mask_of_a_gather_is_stored():
    """The mask of last writes to each position is computed in the memory of the gradient."""
    rng = np.random.default_rng(0)
    x, places, y = rng.normal(size=1 << 18), rng.integers(0, 1 << 18, 1 << 17), np.ones(1 << 17)

    def added(x, y):
        z = x.copy()
        z[places] += y
        return np.sum(z**3)

    fast = tracker.jit(lambda *args: tracker.gradient(added, *args))
    got, again = fast(x, y), fast(x, y)
    assert scratch_of(fast, x, y) < 1.2 * x.nbytes  # z, and the mask
    for a, b, want in zip(got, again, tracker.gradient(added, x, y), strict=True):
        np.testing.assert_allclose(a, want, rtol=1e-12)
        np.testing.assert_allclose(b, want, rtol=1e-12)


def test_reductions_run_before_kernels_that_write():
    """In a weighted softmax regression: the logits, and five numbers of each row."""
    rng = np.random.default_rng(0)
    x, t, s = rng.normal(size=(1 << 17, 8)), rng.integers(0, 16, 1 << 17), np.ones(1 << 17)

    def loss(w, x, t, s):
        z = x @ w
        z = z - np.max(z, axis=1, keepdims=True)
        logs = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.sum(s * logs[np.arange(len(t)), t]) / np.sum(s)

    w = rng.normal(size=(8, 16))
    fast = tracker.jit(lambda w, *rest: tracker.withgradient(lambda w: loss(w, *rest), w))
    for _ in range(2):
        value, (gradient,) = tracker.withgradient(lambda w: loss(w, x, t, s), w)
        got, (found,) = fast(w, x, t, s)
        np.testing.assert_allclose(got, value, rtol=1e-9)
        np.testing.assert_allclose(found, gradient, rtol=1e-9)
    assert scratch_of(fast, w, x, t, s) < (16 + 5.5) * s.nbytes


def scratch_of(f, *args):
    (found,) = re.findall(r"at most ([\d,]+) of scratch", f.explain(*args))
    return int(found.replace(",", ""))
