"""Fused reductions: one loop instead of two, with the results of two."""

import numpy as np
import pytest
from compiled import agree

import tracker
from tracker import value_and_grad
from tracker.jit.codegen import loop_nest

RNG = np.random.default_rng(0)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def second_differences(x):
    return np.mean((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) + np.sum((x[1:] - x[:-1]) ** 2)


def smooth(u):
    return np.sum((u[1:] - u[:-1]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2)


def farther(u):
    """Split at so many points that conditions are computed in the loop."""
    shifts = (1, 2, 3, 4)
    return sum(np.sum((u[k:, k:] - u[:-k, :-k]) ** 2) for k in shifts)


CASES = [
    (rosenbrock, (999,), "sum over 998"),
    (second_differences, (200,), "mean over 198, folds sum over 199"),
    (second_differences, (20_000,), "mean over 19998, folds sum over 19999"),
    (smooth, (40, 50), "sum over 39x50, folds sum over 40x49"),
    (farther, (150, 120), "sum over 149x119, folds sum over 148x118"),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("f", "shape", "folds"), CASES)
def test_fused_loops_give_the_same_results(f, shape, folds, dtype):
    x = RNG.normal(size=shape).astype(dtype)
    plain, fast = value_and_grad(f), tracker.jit(value_and_grad(f), strict=True)
    for _ in range(2):
        for got, want in zip(fast(x), plain(x), strict=True):
            assert got.dtype == want.dtype
            near = (1e-13 if dtype == np.float64 else 1e-6) * np.max(np.abs(want))
            np.testing.assert_allclose(got, want, rtol=0, atol=near)
    text = fast.explain(x)
    assert "1 kernel(s)" in text and folds in text, text


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_the_loop(threads, monkeypatch):
    monkeypatch.setattr(loop_nest, "_MIN_THREADED_WORK", 100)
    x = RNG.normal(size=2000)
    with tracker.config(threads=threads):
        agree(value_and_grad(rosenbrock), x, strict=True)


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: np.repeat(x, 3)[::3]])
def test_arguments_of_any_layout(view):
    x = view(RNG.normal(size=500))
    agree(value_and_grad(rosenbrock), x, strict=True)


def test_a_maximum_over_part_of_the_loop():
    """The elements beyond the end of the smaller space would be the greatest."""

    def f(x):
        y = (x[1:] - x[:-1]) ** 2
        return np.max(y), np.sin(np.concatenate([y, np.full(1, 1e9)]))

    x = RNG.normal(size=300)
    fast = agree(f, x, strict=True)
    assert "folds max over 299" in fast.explain(x)


def test_kernels_that_share_nothing_are_not_fused():
    def f(x):
        return np.sum(x[1:] ** 2), np.exp(x)

    x = RNG.normal(size=300)
    fast = agree(f, x, strict=True)
    assert "2 kernel(s)" in fast.explain(x)
