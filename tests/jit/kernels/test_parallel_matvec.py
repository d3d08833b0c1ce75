"""A matrix times a vector whose rows threads share: each with BLAS, on parts for one thread."""

import re

import numpy as np
import pytest
from pairwise_parameters import crossed

import tracker
from tracker import gradient, jit

LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "part": lambda x: np.pad(x, ((2, 1), (3, 4)))[2:-1, 3:-4],
}


def products(x, v, w):
    return x @ v, x.T @ w, w @ x


def arguments(m, k, layout="C", dtype=np.float64, step=1):
    rng = np.random.default_rng(m + k)
    x = LAYOUTS[layout](rng.normal(size=(m, k)).astype(dtype))
    return x, *(np.repeat(rng.normal(size=n).astype(dtype), step)[::step] for n in (k, m))


@crossed(
    size=[(5300, 50), (530, 500), (500, 1025), (70, 4000)],
    layout=sorted(LAYOUTS),
    threads=[1, 2, 3, 5],
)
def test_results(size, layout, threads):
    """Row counts that divide evenly and others; with fewer rows than threads, some parts
    are empty."""
    with tracker.config(threads=threads):
        fast = jit(products, strict=True)
        for step in (1, 2):
            given = arguments(*size, layout, step=step)
            for _ in range(2):
                for got, want in zip(fast(*given), products(*given), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    with tracker.config(threads=2):
        fast = jit(products, strict=True)
        given = arguments(6000, 60, dtype=dtype)
        wide = [x.astype(np.float64) for x in given]
        for got, want in zip(fast(*given), products(*wide), strict=True):
            assert got.dtype == dtype
            bound = 1e-3 if dtype == np.float32 else 1e-10
            np.testing.assert_allclose(got, want, rtol=bound, atol=bound)


def test_a_regression_shares_both_products():
    def loss(w, x, y):
        return np.mean(np.logaddexp(0.0, x @ w) - y * (x @ w))

    x, w, _ = arguments(8000, 40)
    y = (x[:, 0] > 0) * 1.0
    with tracker.config(threads=2):
        fast = jit(lambda w, x, y: gradient(lambda w: loss(w, x, y), w))
        for _ in range(2):
            got = fast(w, x, y)
        np.testing.assert_allclose(got, gradient(lambda w: loss(w, x, y), w), rtol=1e-10)
        text = fast.llvm(w, x, y)
    assert len(re.findall(r"call void @tk\.parallel\(", text)) == 2


@pytest.mark.parametrize(
    "m, k, shared",
    [(2600, 100, False), (2622, 100, True), (10_480, 100, True), (10_490, 100, False)],
)
def test_small_products_take_one_thread_and_large_ones_blas_threads(m, k, shared):
    with tracker.config(threads=2):
        x, v, _ = arguments(m, k)
        fast = jit(lambda x, v: x @ v, strict=True)
        fast(x, v)
        fast(x, v)
        assert ("@tk.parallel(" in fast.llvm(x, v)) is shared
