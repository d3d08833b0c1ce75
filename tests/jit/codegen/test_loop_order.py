"""Loop order: which one is chosen, that results do not depend on it, and short rows."""

import numpy as np
import pytest
from compiled import agree
from pairwise_parameters import crossed

import tracker
from tracker.jit.codegen.loop_order import best_order

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("space", "accesses", "kept", "order"),
    [
        ((200, 300), [{0: 300, 1: 1}], [], (0, 1)),
        ((200, 300), [{0: 1, 1: 200}], [], (1, 0)),
        ((200, 300), [{0: 1, 1: 200}, {0: 300, 1: 1}], [], (0, 1)),  # as good: C order
        ((10, 20), [{0: 1, 1: 10}], [], (0, 1)),  # too small
        ((32, 32), [{0: 1, 1: 32}, {0: 1}], [], (1, 0)),
        ((6000,), [{0: 7}], [], (0,)),
        ((200, 300), [{0: 300, 1: 1}], [[1]], (0, 1)),  # sums of rows into a row
        ((200, 300), [{0: 300, 1: 1}, *[{1: 1}] * 4], [[1]] * 4, (0, 1)),  # four rows of sums
        ((200, 300), [{0: 1, 1: 200}], [[1]], (1, 0)),  # each in a register
        ((4, 50, 60), [{0: 1, 1: 4, 2: 200}] * 3, [], (2, 1, 0)),  # all the way round
        ((900, 2, 8), [{2: 900}, *[{0: 16, 1: 8, 2: 1}] * 2, *[{0: 8, 2: 1}] * 2], [], (0, 1, 2)),
        ((60, 4, 50), [{0: 1, 1: 60, 2: 240}] * 3, [[2]], (2, 1, 0)),  # kept axes go outside
    ],
)
def test_the_innermost_loop_walks_along_memory(space, accesses, kept, order):
    assert best_order(space, accesses, kept, shared=False) == order


def test_threads_do_not_share_a_short_loop():
    accesses = [{0: 1, 1: 9000}]
    assert best_order((9000, 5), accesses, [], shared=False) == (1, 0)
    assert best_order((9000, 5), accesses, [], shared=True) == (0, 1)


def statistics(x):
    y = np.tanh(x) - 0.5
    return (
        np.sum(y * y),
        np.sum(y, axis=0),
        np.max(np.real(y), axis=-1),
        np.mean(np.abs(y), axis=-2),
    )


def padded(x):
    y = np.zeros_like(x)
    y[1:-1] = x[2:] - x[:-2]
    y[:, 3:] += x[:, :-3].copy()
    return np.sum(y * x, axis=0), np.sum(y, axis=1), y


@pytest.mark.optimised  # sums of vectors keep more digits
@crossed(
    shape=[(90, 70), (9000, 20), (20, 9000), (40, 9, 30), (3, 50, 40)],
    dtype=[np.float64, np.float32, np.complex128, np.int64],
    f=[statistics, padded],
    threads=[1, 2],
)
def test_results_do_not_depend_on_the_order(f, shape, dtype, threads):
    x = RNG.normal(size=shape[::-1]).astype(dtype)
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    with tracker.config(threads=threads):
        fast = tracker.jit(f)
        for given in (x.T, np.ascontiguousarray(x.T), np.swapaxes(x.T, 0, 1).copy().swapaxes(0, 1)):
            for _ in range(2):
                for got, want in zip(fast(given), f(given), strict=True):
                    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_of_eight_is_a_vector(dtype):
    """It is not unrolled and put together again by gathers."""

    def f(x, y, b):
        return np.where(x > y, x * b, -y)

    x, y, b = (RNG.normal(size=shape).astype(dtype) for shape in [(5000, 8), (5000, 8), (8,)])
    fast = agree(f, x, y, b, tolerance=0)
    text = fast.llvm(x, y, b)
    assert text.count("= fmul") <= 2 and "gather" not in text


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.complex64])
@pytest.mark.parametrize("n", [7, 8, 9])
def test_short_rows_reduced_over_every_axis(n, dtype):
    def f(x, b):
        y = np.maximum(np.real(x * b), 1).reshape(-1, 3, 2, n)
        return np.max(y, axis=(1, 2)), np.sum(y, axis=(0, 1, 2)), np.sum(y, axis=3), y + np.real(b)

    x, b = ((9 * RNG.normal(size=shape)).astype(dtype) for shape in [(6000, n), (n,)])
    agree(f, x, b, tolerance=1e-4)


def quadratic(lower, x):
    return np.sum(np.einsum("ijk,mik->mij", lower, x[:, None] - lower[:, :, 0]) ** 2)


def test_gradients_through_kernels_of_another_order():
    lower, x = RNG.normal(size=(5, 8, 8)), RNG.normal(size=(900, 8))
    fast = agree(lambda *a: tracker.gradient(quadratic, *a), lower, x, tolerance=1e-9)
    fast(lower, x)


FOLDS = {
    "sum": lambda x, axis: np.sum(x * 2, axis),
    "mean": lambda x, axis: np.mean(x, axis, keepdims=True),
    "max": lambda x, axis: np.max(x, axis),
    "min": lambda x, axis: np.min(np.abs(x), axis),
    "any": lambda x, axis: np.any(x > 0.9, axis),
    "prod": lambda x, axis: np.prod(1 + x / 9, axis),
    "two": lambda x, axis: np.stack([np.sum(x, axis), np.sum(x * x, axis)]),
    "far": lambda x, axis: np.sum(np.sin(x), axis),
    "store": lambda x, axis: np.sum(y := np.tanh(x), axis, keepdims=True) * y,
}


def is_ordered(name, shape, dtype):
    return dtype != "c16" or name not in ("max", "any")


@crossed(
    name=FOLDS,
    shape=[(6, 7, 40), (6, 7, 80), (3, 4, 5, 70), (40, 5, 2), (4, 1, 90)],
    dtype=["f8", "f4", "c16", "i8"],
    where=is_ordered,
)
def test_reductions_that_keep_a_middle_axis(name, shape, dtype):
    """By rows, or with that axis outermost: NumPy's sums, for all dtypes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "c16" else 0)
    x = np.round(9 * x).astype(dtype) if dtype == "i8" else x.astype(dtype)
    axis = (0, *range(2, len(shape)))
    fold = FOLDS[name]
    fast = tracker.jit(lambda x: fold(x, axis))
    want = FOLDS[name](x, axis)
    for _ in range(2):
        got = fast(x)
        assert got.dtype == want.dtype and got.shape == want.shape
        tolerance = 1e-4 if dtype == "f4" else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("last", [40, 80])
def test_extremes_of_rows_with_nans(last):
    x = np.random.default_rng(0).normal(size=(5, 6, last))
    x[2, 3, last // 2], x[1, 1, 0] = np.nan, np.inf
    agree(lambda x: np.max(x, axis=(0, 2)), x, tolerance=0)


def test_kept_axes_are_outermost_for_long_rows():
    walks = [{0: 50 * 100, 1: 100, 2: 1}]
    assert best_order((40, 50, 100), walks, [[1]], False) == (1, 0, 2)
    assert best_order((40, 50, 20), [{0: 1000, 1: 20, 2: 1}], [[1]], False) == (0, 1, 2)
    assert best_order((40, 50, 100), walks, [[1], [0]], False) == (0, 1, 2)  # not both
    assert best_order((40, 3, 100), [{0: 300, 1: 100, 2: 1}], [[1]], True) == (0, 1, 2)


@pytest.mark.parametrize("shared", [False, True])
def test_few_sums_of_columns_walk_along_columns(shared):
    columns = [{0: 1, 1: 1000}]
    assert best_order((1000, 3), columns, [[1]], shared) == (1, 0)
    assert best_order((1000, 3), columns, [[]], shared) == ((0, 1) if shared else (1, 0))
