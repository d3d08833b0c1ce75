"""Kernels compiled for another shape are linked again, with this shape's sizes."""

import numpy as np
import pytest

import tracker
from tracker.jit.codegen import lower, module_split
from tracker.jit.llvm import engine, object_cache
from tracker.jit.pipeline import link

RNG = np.random.default_rng(0)


@pytest.fixture
def compiled(monkeypatch):
    """The texts with kernels that LLVM compiles, and their levels."""
    seen = []
    original = engine.compile_module

    def noted(text, *, level=3, **options):
        if "define void @k" in text:
            seen.append((text, level))
        return original(text, level=level, **options)

    monkeypatch.setattr(engine, "compile_module", noted)
    monkeypatch.setattr(object_cache, "_recent", {})
    monkeypatch.setattr(link, "_compiled_in", {})
    monkeypatch.setattr(module_split, "_choices", {})
    monkeypatch.setattr(module_split, "_LONG_PLAN", 1)
    monkeypatch.setenv("TRACKER_CACHE", "0")
    return seen


def network(w, b, v, x, y):
    z = np.maximum(x @ w + b, 0.0) @ v
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))


def arguments(rows, inputs, hidden, outputs=10):
    shapes = [(inputs, hidden), (hidden,), (hidden, outputs), (rows, inputs), (rows, outputs)]
    return [RNG.normal(size=shape) for shape in shapes]


def derivative(*args):
    return tracker.withgradient(lambda *p: network(*p, *args[3:]), *args[:3])


def assert_same(got, want):
    np.testing.assert_allclose(got.val, want.val, rtol=1e-11)
    for a, b in zip(got.grad, want.grad, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_a_kernel_moves_from_one_module_to_another(compiled, monkeypatch):
    """Which kernels are worth optimising differs, and with it the module of each."""
    fast = tracker.jit(derivative)
    args = arguments(128, 300, 128)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    count = len(compiled)
    assert count == 2
    for name in ("kernels_to_optimise", "hot_kernels"):
        choose = getattr(module_split, name)
        first = lambda *args, choose=choose: set(sorted(choose(*args))[:1])  # noqa: E731
        monkeypatch.setattr(lower, name, first)
    for sizes in ((128, 300, 100), (90, 280, 60)):
        args = arguments(*sizes)
        for _ in range(2):
            assert_same(fast(*args), derivative(*args))
    assert len(compiled) == count


def test_a_kernel_that_became_hot_is_compiled_again(compiled, monkeypatch):
    monkeypatch.setattr(module_split, "_NEGLIGIBLE_SHARE", 1)
    fast = tracker.jit(derivative)
    args = arguments(60, 30, 20)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    assert {level for _, level in compiled} == {engine.QUICK}
    monkeypatch.setattr(module_split, "_NEGLIGIBLE_SHARE", 10**9)
    monkeypatch.setattr(module_split, "_TOLERABLE_SHARE", 10**9)
    args = arguments(70, 40, 25)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    assert {level for _, level in compiled} == {engine.QUICK, engine.OPTIMISED}


def test_equal_kernels_have_their_own_sizes(compiled):
    """The sums over rows of three matrices are the same kernel; one module has two of them."""

    def sums(a, b, c):
        return a.sum(axis=0), b.sum(axis=0), c.sum(axis=0)

    fast = tracker.jit(sums)
    with tracker.config(threads=1):
        for shapes in (((400, 90), (500, 90), (300, 60)), ((41, 77), (5000, 31), (700, 65))):
            arrays = [RNG.normal(size=shape) for shape in shapes]
            for _ in range(2):
                for got, want in zip(fast(*arrays), sums(*arrays), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_evicted_code_is_compiled_again(compiled):
    fast = tracker.jit(derivative)
    args = arguments(128, 300, 128)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    object_cache._recent.clear()
    args = arguments(128, 300, 100)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    assert len(compiled) == 4
