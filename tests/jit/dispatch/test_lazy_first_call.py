"""First calls of ops that are not elementwise: lazy, computed on the arguments' memory."""

import numpy as np
import pytest
from compiled import agree
from counting import peak_bytes
from lazy_arrays import ARRAY, LATER, N, arrays, everything, rosenbrock, rosenbrock_by_hand

import tracker
from tracker import jit
from tracker.jit.dispatch import first_call
from tracker.jit.runtime.c_symbols import use_block_allocator

RNG = np.random.default_rng(0)
PLACES = RNG.integers(-12, 12, 12)


def put(x):
    y = x.copy()
    y[2:5] *= 2.0
    y[::3] = y[1::3] + x[0]
    return y


def loss_of(f):
    return lambda x: np.sum(f(x) * np.cos(np.arange(np.size(f(x)))).reshape(np.shape(f(x))))


FUNCTIONS = {
    "sums": lambda x: np.cumsum(x[::-1]),
    "products": lambda x: np.cumprod(x) * np.prod(x.reshape(3, 4), axis=0).sum(),
    "sort": lambda x: np.sort(x.reshape(3, 4), axis=0) * 2.0,
    "order": lambda x: x[np.argsort(x)[::-1]] + np.cumsum(x),
    "matrix": lambda x: x.reshape(3, 4).T @ x.reshape(3, 4) + 1.0,
    "stack": lambda x: x.reshape(2, 2, 3) @ x.reshape(2, 3, 2)[::-1],
    "gather": lambda x: x[PLACES] * x,
    "columns": lambda x: x.reshape(3, 4)[:, [0, 3, 3]] * 2.0,
    "rows": lambda x: np.take_along_axis(x.reshape(3, 4), np.argsort(x.reshape(3, 4), 1), 1),
    "mask": lambda x: x[x > 0] ** 2,
    "masked": lambda x: np.where(x > 0, x, put(x))[np.arange(12) % 2 == 0],
    "written": put,
    "waves": lambda x: np.abs(np.fft.rfft(x)) + np.fft.ifft(np.fft.fft(x)).real[:7],
    "waves across": lambda x: np.fft.fft(x.reshape(3, 4), axis=0).imag * 2.0,
}


@pytest.mark.parametrize("soon", [0, LATER], ids=["machine code", "NumPy"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, soon):
    x, f = RNG.normal(size=12), FUNCTIONS[name]
    with everything(soon):
        agree(f, x)
        agree(lambda x: tracker.withgradient(loss_of(f), x), x)
        agree(lambda x: tracker.hvp(loss_of(f), x, np.cos(x)), x)


def test_an_index_out_of_bounds_raises_at_its_line():
    went_on = []

    def f(x, i):
        y = x[i]
        went_on.append(i)
        return np.sum(y * 2.0)

    (x,) = arrays(1)
    for outside in (N, -N - 1):
        with pytest.raises(IndexError):
            jit(f)(x, np.array([1, outside]))
    with pytest.raises(IndexError):
        jit(lambda x: f(x, np.argsort(x) + 2))(x)
    assert not went_on
    assert jit(f)(x, np.array([1, -N])) == f(x, np.array([1, -N]))


def test_an_unshared_result_is_not_copied(monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    seen = []

    def f(x):
        y = np.exp(x)
        seen[:] = [tracker.data(y)]
        return y, y * 2.0, y[::2]

    (x,) = arrays(1, 4 * N)
    exp, double, part = jit(f)(x)
    exp[:] = double[:] = 0.0
    np.testing.assert_array_equal(part, np.exp(x)[::2])
    np.testing.assert_array_equal(seen[0], np.exp(x))
    fast = jit(lambda x: (x * 2.0, [np.exp(x)]))
    assert peak_bytes(lambda: fast(x)) < 2.2 * x.nbytes


def test_numpy_finds_room_after_it_has_sorted():
    """It frees blocks that it has never had."""
    x = RNG.normal(size=N)
    with use_block_allocator():
        for _ in range(3):
            order = np.argsort(x, kind="stable")
            assert not np.any(np.zeros(N))
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


def cumsum_by_hand(x):
    sums = np.cumsum(x)
    return np.sum(sums * sums), np.cumsum(2 * sums[::-1])[::-1]


def sort_by_hand(x):
    order = np.argsort(x)
    y = x[order]
    g = np.empty_like(x)
    g[order] = 2 * y
    return np.sum(y * y), g


def take_by_hand(x):
    i = np.arange(len(x))[::-1].copy()
    y = x[i]
    return np.sum(y * y), np.bincount(i, 2 * y, len(x))


def masked(x):
    y = x * 2.0
    y[x < 0] = 0.1
    return y


def masked_by_hand(x):
    y, negative = x * 2.0, x < 0
    y[negative] = 0.1
    total = np.sum(y * y)
    y *= 4
    y[negative] = 0
    return total, y


@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        (lambda x: np.sum(np.cumsum(x) ** 2), cumsum_by_hand),
        (lambda x: np.sum(np.sort(x) ** 2), sort_by_hand),
        (lambda x: np.sum(x[np.arange(len(x))[::-1].copy()] ** 2), take_by_hand),
        (lambda x: np.sum(masked(x) ** 2), masked_by_hand),
        (rosenbrock, lambda x: (rosenbrock_by_hand(x)[0], rosenbrock_by_hand(x)[1][0])),
    ],
    ids=["cumsum", "sort", "take", "masked", "rosenbrock"],
)
def test_numpy_needs_no_more_memory_than_by_hand(loss, by_hand, monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    (x,) = arrays(1, 4 * N)

    def gradient_of():
        return jit(lambda x: tracker.withgradient(loss, x))

    gradient_of()(x[:100])  # loads what is needed
    fast = gradient_of()
    most = peak_bytes(lambda: fast(x)) / (4 * ARRAY)
    assert most <= peak_bytes(lambda: by_hand(x)) / (4 * ARRAY) + 0.2  # what the trace notes
    have, want = fast(x), by_hand(x)
    np.testing.assert_allclose(have[0], want[0], rtol=1e-9)
    np.testing.assert_allclose(have[1][0], want[1], rtol=1e-9, atol=1e-9)


def process(x):
    """Some of which is computed at once, for it may raise, and some later, and again."""
    d = x[:, None] - x
    low = np.linalg.cholesky(np.exp(-(d**2)) + np.eye(len(x)))
    return np.sum(np.log(np.diag(low)))


def middle(x):
    return np.sum(np.median(x.reshape(300, -1), axis=1) ** 2)


@pytest.mark.parametrize(("f", "size", "most"), [(process, 600, 8.5), (middle, 240_000, 3.5)])
def test_what_has_served_for_the_last_time_makes_room(f, size, most, monkeypatch):
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    x = RNG.normal(size=size)

    def gradient_of():
        return jit(lambda x: tracker.gradient(f, x)[0])

    gradient_of()(x[:300])  # loads what is needed
    fast = gradient_of()
    unit = x.nbytes if f is middle else 8 * size**2
    scratch = 0  # of NumPy's own routines: counted since 2.5
    if f is process:
        scratch = peak_bytes(lambda: np.linalg.cholesky(np.eye(size))) - 2 * unit
    assert peak_bytes(lambda: fast(x)) < most * unit + scratch
    np.testing.assert_allclose(fast(x), tracker.gradient(f, x)[0], rtol=1e-9, atol=1e-9)


def test_held_values_are_computed(monkeypatch):
    """Though it was computed for a branch, again for the result, and served for the last time."""
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", LATER)
    held = []

    def f(x):
        d = x[:, None] - x
        k = np.exp(-(d**2))
        if np.sum(k) > 0:
            k = k + np.eye(len(x))
        low = np.linalg.cholesky(k)
        waves = [np.sin(low + i) for i in range(9)]
        held[:] = [d, k[::2], low, *waves]
        return np.sum(np.log(np.diag(low))) + sum(map(np.sum, waves))

    def numbers_of(run, x):
        return [*run(x), *map(tracker.data, held)]

    x = RNG.normal(size=520)
    plain = numbers_of(lambda x: tracker.gradient(f, x), x)
    for got, want in zip(numbers_of(jit(lambda x: tracker.gradient(f, x)), x), plain, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
