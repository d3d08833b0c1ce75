"""Products of sliding windows with a vector are sums of slices, in every form."""

import numpy as np
import pytest

import tracker
from tracker.jit.pipeline import pass_order

N = 2100


def windows(x, *shape):
    return np.lib.stride_tricks.sliding_window_view(x, shape)


CASES = {
    "matrix @ vector": (lambda x, w: windows(x, 5) @ w, (N,), (5,)),
    "vector @ matrix": (lambda x, w: w @ windows(x, 5).T, (N,), (5,)),
    "matrix @ column": (lambda x, w: windows(x, 5) @ w[:, None], (N,), (5,)),
    "row @ matrix": (lambda x, w: w[None] @ windows(x, 5).T, (N,), (5,)),
    "every other": (lambda x, w: windows(x, 5)[1::2] @ w, (2 * N + 8,), (5,)),
    "sums over rows": (lambda x, w: w @ windows(x, 3), (N,), (N - 2,)),
    "a picture": (lambda x, w: np.einsum("ijkl,kl->ij", windows(x, 2, 3), w), (40, 70), (2, 3)),
    "rows of a picture": (
        lambda x, w: windows(x, 2, 3).reshape(-1, 6) @ w.ravel(),
        (40, 70),
        (2, 3),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_products_of_windows(name, dtype):
    f, *shapes = CASES[name]
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    if dtype == "c16":
        x = x * (1 + 0.5j)
        w = w * (0.3 - 1j)
    tolerance = {"f4": 2e-5, "f8": 1e-12, "c16": 1e-12}[dtype]

    def loss(x, w):
        return np.sum(np.abs(f(np.tanh(x), w)) ** 2)

    assert " matmul " not in str(pass_order.optimise(tracker.trace(f, x, w)))
    compiled, slopes = tracker.jit(f), tracker.jit(lambda x, w: tracker.gradient(loss, x, w))
    pushed = tracker.jit(lambda x, w: tracker.jvp(f, (x, w), (w.sum() * x, w))[1])
    pairs = [
        (compiled(x, w), f(x, w)),
        *zip(slopes(x, w), tracker.gradient(loss, x, w), strict=True),
        (pushed(x, w), tracker.jvp(f, (x, w), (w.sum() * x, w))[1]),
    ]
    for got, want in pairs:
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        scale = np.max(np.abs(want))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


def test_other_products_are_left_to_blas():
    x, w = np.ones(N), np.ones(40)
    for f in (
        lambda x, w: windows(x, 40) @ w,
        lambda x, w: windows(x[:100], 5) @ w[:5],
        lambda x, w: x.reshape(-1, 5) @ w[:5],
    ):
        assert " matmul " in str(pass_order.optimise(tracker.trace(f, x, w)))
