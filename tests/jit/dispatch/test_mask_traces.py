"""Selections by masks: one trace for any number of selected elements, where nothing reads it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracker as tr

N = 60
RNG = np.random.default_rng(0)


def samples(count=7):
    """Arrays of which more or less is positive; in each there is something of both signs."""
    for at in range(count):
        x = np.random.default_rng(at).normal(loc=0.3 * (at % 5 - 2), size=N)
        x[:4] = 0.5, -0.5, 1.5, -1.5
        yield x


def replaced(x):
    y = x.copy()
    y[y > 0] = np.log1p(y[y > 0])
    return np.sum(y * y)


def filled(x):
    y = np.zeros_like(x)
    positive = x > 0
    y[positive] = np.sqrt(x[positive])
    y[~positive] = 0.1 * x[~positive]
    return np.sum(np.cumsum(y))


def summed(x):
    part = x[x > 0.3]
    return np.sum(part**2) + np.max(part) - np.min(part) + np.sum(part > 0.5)


def moments(x):
    part = x[x > 0]
    return np.mean(part) + np.var(part) + np.std(x[x < 0], ddof=1) + np.linalg.norm(part)


def rows(x):
    table, weights = x.reshape(-1, 3), np.arange(3.0)
    chosen = table[:, 0] > 0
    means = np.mean(table[chosen], axis=0)
    return np.sum(means**2) + np.sum((table[~chosen] @ weights) ** 2) + table[chosen].sum()


def of_two_axes(x):
    table = x.reshape(6, 10) * 1.0
    table[table < 0] *= 0.25
    return np.sum(np.sin(table[table > 1.0])) + np.sum(table)


def products(x):
    part = x[x > 0]
    return np.dot(part, np.sin(part)) + part @ part


def by_position(x):
    at = np.where(x > 0)[0]
    y = x * 1.0
    y[at] = y[at] ** 2
    return np.sum(y) + np.sum(x[np.flatnonzero(x < 0)] * 2.0) + np.sum(x[at] * at)


def constants(x):
    y = np.zeros(x.shape)
    y[x > 0] = 1.5
    y[x <= 0] -= np.exp(x[x <= 0])
    return np.sum(y * x) + np.sum(np.ones_like(x[x > 0]) * x[x > 0])


def conditions(x):
    part = x[x > 0]
    return np.sum(np.where(part > 1.0, part**2, np.sin(part)).clip(0.1, 5.0)) + np.any(part > 9.0)


def small_floats(x):
    part = x.astype(np.float32)[x > 0]
    return np.sum(part * part, dtype=np.float64) + np.mean(part)


def complex_numbers(x):
    z = np.exp(1j * x)
    return np.sum(np.abs(z[x > 0] ** 2 + 1.0)) + np.abs(np.mean(z[x < 0]))


FREE = [
    *(replaced, filled, summed, moments, rows, of_two_axes, products, by_position, constants),
    *(conditions, small_floats, complex_numbers),
]


def checked(f):
    """The jitted derivative, whose results are those of the plain one."""
    fast = tr.jit(tr.value_and_grad(f))
    for x in samples():
        same_as_plain(fast, f, x)
    return fast


def same_as_plain(fast, f, x):
    value, slope = fast(x)
    want, steep = tr.value_and_grad(f)(x)
    np.testing.assert_allclose(value, want, rtol=2e-6 if f is small_floats else 1e-12)
    np.testing.assert_allclose(slope, steep, rtol=1e-5 if f is small_floats else 1e-11, atol=1e-12)


@pytest.mark.parametrize("f", FREE)
def test_one_trace_serves_all_counts(f):
    fast = checked(f)
    assert f"{f.__name__}: 1 trace(s)" in str(fast.explain(next(samples())))


@pytest.mark.parametrize("f", [replaced, filled, by_position, constants, of_two_axes])
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_nothing_or_everything_selected(f):
    fast = checked(f)
    for x in (np.full(N, -0.5), np.full(N, 0.5), -np.eye(1, N)[0], np.eye(1, N)[0]):
        same_as_plain(fast, f, x)


def test_an_empty_selection_raises_what_numpy_raises():
    fast = checked(summed)
    with pytest.raises(ValueError, match="zero-size array to reduction operation"):
        fast(np.full(N, -1.0))


# Code that may do anything with the number ------------------------------------------------------


def by_len(x):
    return np.sum(x[x > 0]) * (1.0 if len(x[x > 0]) > 30 else 2.0)


def by_size(x):
    return np.sum(x[x > 0]) * min(x[x > 0].size, 28)


def by_shape(x):
    return np.sum(x[x > 0]) * min((x[x > 0] * 2.0).shape[0], 28)


def by_numpys_size(x):
    return np.sum(x[x > 0]) * min(np.size(x[x > 0]), 28) + min(np.shape(x[x < 0])[0], 20)


def by_a_longer_array(x):
    return np.sum(x[x > 0]) * min(np.concatenate([x[x > 0], x[:1]]).size, 28)


def by_bytes(x):
    return np.sum(x[x > 0]) * min(x[x > 0].nbytes, 220)


def by_count(x):
    return np.sum(x[x > 0]) * min(int(np.count_nonzero(x > 0)), 28)


def sorted_(x):
    part = np.sort(x[x > 0])
    return part[len(part) // 2] + np.median(x[x < 0])


def joined(x):
    return np.sum(np.concatenate([x[x > 0], [1.0]]) ** 2)


def of_selected_positions(x):
    """Reads and adds by an array of positions of which a mask selects some."""
    at = np.argsort(-x)[x > 0]
    total = np.zeros(N + 1)
    np.add.at(total, at, x[at] * x[x > 0])
    return np.sum(total**2)


def fitting(x):
    """Shapes that do not fit in the first calls may fit in another."""
    try:
        return np.sum(x[x > 0] * x[x < 0])
    except ValueError:
        return np.sum(x[x > 0]) * 2.0


def returned(x):
    return np.sum(x[x > 0]), x[x > 0]


def paired(x):
    """Broadcasts only while both have as many elements."""
    part = x[x > 0]
    return np.sum(part * np.linspace(0.0, 1.0, part.size))


BOUND = [by_len, by_size, by_shape, by_numpys_size, by_a_longer_array, by_bytes, by_count]
BOUND += [sorted_, joined, paired, of_selected_positions, fitting]


@pytest.mark.parametrize("f", BOUND)
def test_code_that_knows_the_count_is_traced_for_each(f):
    fast = checked(f)
    assert f"{f.__name__}: 1 trace(s)" not in str(fast.explain(next(samples())))


def test_shapes_that_fit_in_a_later_call():
    fast = checked(fitting)
    x = np.random.default_rng(3).normal(size=N)
    order = np.argsort(x)
    x[order[: N // 2]], x[order[N // 2 :]] = -np.abs(x[: N // 2]), np.abs(x[N // 2 :])
    same_as_plain(fast, fitting, x)


def test_selections_that_are_results_have_their_shapes():
    fast = tr.jit(returned)
    for x in samples():
        for got, want in zip(fast(x), returned(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_numbers_that_equal_the_count_by_chance():
    """A literal of the code is one, unless it changes with the count."""
    count = int(np.sum(next(samples()) > 0))

    def f(x):
        return np.sum(x[x > 0] / count) + np.sum(x[x > 0] * (count - 1))

    checked(f)


def test_branches_and_loops_beside_selections():
    def f(x, n):
        total = np.sum(x[x > 0])
        for k in range(n):
            total = total + np.sum(np.sin(x[x < 0] * k))
        return total if total > 0 else -total

    fast = tr.jit(tr.value_and_grad(f), static=1)
    for x in samples():
        for n in (2, 3):
            want = tr.value_and_grad(f)(x, n)
            for got, expected in zip(fast(x, n), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


# Random programs ----------------------------------------------------------------------------------

ELEMENTWISE = (np.tanh, np.sin, lambda v: v * 1.5 - 0.2, lambda v: np.where(v > 0.4, v, 0.3 * v))
FOLDS = (np.sum, np.mean, np.max, np.min, np.var, lambda v: np.sum(v * v), np.linalg.norm)
MASKS = (lambda x: x > 0, lambda x: x < 0.1, lambda x: (x > -0.4) & (x < 1.6))


@st.composite
def programs(draw):
    """Statements that select, compute, write back and reduce, on two arrays."""
    number = lambda n: draw(st.integers(0, n - 1))  # noqa: E731
    lines = [
        (draw(st.sampled_from(["write", "add", "fill", "fold"])), number(3), number(4), number(7))
        for _ in range(draw(st.integers(1, 4)))
    ]

    def run(x):
        y, total = x * 1.0, 0.0
        for kind, mask, op, fold in lines:
            m = MASKS[mask](x)
            if kind == "write":
                y[m] = ELEMENTWISE[op](x[m])
            elif kind == "add":
                y[m] += ELEMENTWISE[op](y[m] - np.mean(y[m]))
            elif kind == "fill":
                y[m] = 0.1 * (op + 1)
            else:
                total = total + FOLDS[fold](ELEMENTWISE[op](y[m]))
        return np.sum(y * y) + total

    return run


@given(programs())
def test_random_programs(run):
    fast = tr.jit(tr.value_and_grad(run))
    for x in samples(4):
        value, slope = fast(x)
        want, steep = tr.value_and_grad(run)(x)
        np.testing.assert_allclose(value, want, rtol=1e-11)
        np.testing.assert_allclose(slope, steep, rtol=1e-10, atol=1e-11)
    assert "1 trace(s)" in str(fast.explain(next(samples())))
