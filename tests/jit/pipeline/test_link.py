"""Kernels compiled for another shape are linked again, with this shape's sizes."""

import numpy as np
import pytest
from compiled import agree

import tracker
from tracker.jit.codegen import lower
from tracker.jit.llvm import engine, object_cache

RNG = np.random.default_rng(0)


@pytest.fixture
def compiled(monkeypatch):
    """The texts with kernels that LLVM compiles."""
    seen = []
    original = engine.compile_module

    def noted(text, *, level=3, **options):
        if "define void @k" in text:
            seen.append(text)
        return original(text, level=level, **options)

    monkeypatch.setattr(engine, "compile_module", noted)
    monkeypatch.setattr(object_cache, "_recent", {})
    monkeypatch.setattr(lower, "_LONG_DRIVER", 0)
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


def test_another_shape_has_the_same_kernels(compiled):
    fast = tracker.jit(derivative)
    for sizes in ((128, 300, 128), (128, 300, 100), (90, 280, 60)):
        args = arguments(*sizes)
        for _ in range(2):
            assert_same(fast(*args), derivative(*args))
    assert len(compiled) == 1


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
    args = arguments(128, 300, 128)
    fast = agree(derivative, *args)
    object_cache._recent.clear()
    args = arguments(128, 300, 100)
    for _ in range(2):
        assert_same(fast(*args), derivative(*args))
    assert len(compiled) == 2
