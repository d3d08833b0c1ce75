"""Which kernels share a module, and that results do not depend on it."""

import numpy as np
import pytest
from pairwise_parameters import crossed

import tracker
from tracker.jit.codegen import lower
from tracker.jit.codegen.kernel_modules import KernelText, kernel_modules
from tracker.jit.llvm import engine
from tracker.jit.scalar.values import ModuleNeeds

pytestmark = pytest.mark.optimised

RNG = np.random.default_rng(0)


def softmax_regression(w, b, x, y):
    z = np.tanh(x @ w + b)
    z = z - np.max(z, axis=1, keepdims=True)
    loss = np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1)
    return np.mean(loss) + np.sum(np.sin(w) ** 2) + np.sum(np.abs(b) ** 1.5)


def scattered(w, b, x, y):
    total = np.zeros_like(w)
    total[np.arange(len(w)) % 5] = np.exp(w)
    return np.sum(np.sort(np.cumsum(x @ (total + w), axis=0), axis=1) * y) + np.linalg.norm(b)


def looped(w, b, x, y):
    for _ in range(20):
        b = np.cos(b) + np.sum(x @ (w * 0.1), axis=0) / len(x)
    return np.sum(b * b) + np.mean(np.where(y > 0, np.log1p(np.abs(y)), np.arctan(y)))


def arguments(dtype, rows=900):
    shapes = [(20, 12), (12,), (rows, 20), (rows, 12)]
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


@crossed(
    f=[softmax_regression, scattered, looped],
    long_driver=[0, 10**6],
    dtype=[np.float64, np.float32],
)
def test_results(f, dtype, long_driver, monkeypatch):
    monkeypatch.setattr(lower, "_LONG_DRIVER", long_driver)
    args = arguments(dtype)
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    want = tracker.withgradient(f, *args)
    for _ in range(2):
        got = fast(*args)
        np.testing.assert_allclose(got.val, want.val, rtol=rtol)
        for a, b in zip(got.grad, want.grad, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b)))


def test_long_kernels_do_not_choose_the_pipeline_of_short_ones():
    line = "  store double 0.0, ptr %p\n"
    kernels = [
        KernelText(f"@{name}", f"void @{name}(ptr %p) {{\n{line * count}  ret void\n}}\n", "")
        for name, count in [("a", 3), ("b", engine.MAX_SHORT_BLOCK + 1), ("c", 4)]
    ]
    modules = kernel_modules(kernels, ModuleNeeds())
    assert sorted(module.exports for module in modules) == [("a", "c"), ("b",)]


def test_modules_can_be_dumped(monkeypatch):
    monkeypatch.setattr(lower, "_LONG_DRIVER", 0)
    args = arguments(np.float64, rows=2000)
    fast = tracker.jit(lambda *a: tracker.withgradient(softmax_regression, *a))
    fast(*args)
    assert "define" in fast.llvm(*args) and fast.asm(*args)


def test_loops_within_loops_share_text():
    """Bodies have kernels of their own, which differ in constants only."""

    def autocorrelation(x):
        y = np.zeros_like(x)
        for k in range(len(x)):
            for n in range(len(x) - k):
                y[k] += x[n + k] * x[n]
        return y

    x = np.random.default_rng(0).normal(size=64)
    compiled = tracker.jit(autocorrelation)
    compiled(x)
    np.testing.assert_allclose(compiled(x), autocorrelation(x), rtol=1e-12)
