"""Another shape of a compiled function needs no compiling, and gives its own results."""

import struct

import numpy as np
import pytest

import tracker
from tracker.jit import cache, engine
from tracker.jit.lifting import lift

RNG = np.random.default_rng(0)


def smooth(x, w):
    return np.sum(np.tanh(x * w + 0.3) * np.exp(-(x**2)))


def slices(x, w):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - w[:-1]) ** 2)


def average(x, w):
    return np.mean(x * w) + np.sum(x) / len(x) + np.var(w)


def padded(x, w):
    y = np.zeros_like(x)
    y[3:] = x[:-3] * w[3:]
    return np.sum(y * np.roll(x, 5))


def reversed_(x, w):
    return np.sum(np.cos(x[::-1] * w) * np.concatenate([w[200:], w[:200]]))


def far(x, w):
    return np.sum(np.sin(x * 1e6) * w)


@pytest.fixture
def compiled(monkeypatch):
    """The texts that LLVM is asked to compile."""
    texts = []
    original = engine.compile_module

    def noted(text, **options):
        texts.append(text)
        return original(text, **options)

    monkeypatch.setattr(engine, "compile_module", noted)
    monkeypatch.setattr(cache, "_recent", {})
    monkeypatch.setenv("TRACKER_CACHE", "0")
    return texts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "f", [smooth, slices, average, padded, reversed_, far], ids=lambda f: f.__name__
)
def test_vectors_of_another_length(f, dtype, compiled):
    def derived(*a):
        return tracker.withgradient(f, *a)

    fast = tracker.jit(derived)
    tolerance = 1e-10 if dtype is np.float64 else 5e-4
    for n in (3000, 3003, 2500, 6001):
        arguments = RNG.standard_normal((2, n)).astype(dtype)
        done = len(compiled)
        fast(*arguments)
        assert n == 3000 or len(compiled) == done
        for a in (arguments, arguments * dtype(0.5)):
            got, want = fast(*a), derived(*a)
            np.testing.assert_allclose(got.val, want.val, rtol=tolerance, atol=tolerance)
            for x, y in zip(got.grad, want.grad, strict=True):
                assert x.shape == (n,) and x.dtype == dtype
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    assert fast.cache_info().slow == 4


def test_more_rows(compiled):
    def f(w, b, x, y):
        z = np.maximum(x @ w + b, 0.0)
        return np.mean((np.sum(z, axis=1) - y) ** 2)

    fast = tracker.jit(lambda *a: tracker.gradient(f, *a))
    w, b = RNG.standard_normal((20, 30)), RNG.standard_normal(30)
    for n in (300, 340, 290):
        x, y = RNG.standard_normal((n, 20)), RNG.standard_normal(n)
        done = len(compiled)
        fast(w, b, x, y)
        assert n == 300 or len(compiled) == done
        for got, want in zip(fast(w, b, x, y), tracker.gradient(f, w, b, x, y), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def columns(x, w):
    return np.sum(np.tanh(x * w) * np.exp(-(x**2)))


def rows(x, w):
    return np.sum((x[1:] - x[:-1]) ** 2 * w)


@pytest.mark.parametrize("f", [columns, rows], ids=lambda f: f.__name__)
def test_matrices_of_another_width(f, compiled):
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    for shape in ((200, 300), (210, 301), (150, 640)):  # the parts of threads are small numbers
        x, w = RNG.standard_normal(shape), RNG.standard_normal(shape[1])
        done = len(compiled)
        fast(x, w)
        assert shape == (200, 300) or len(compiled) == done
        got, want = fast(x, w), tracker.withgradient(f, x, w)
        np.testing.assert_allclose(got.val, want.val, rtol=1e-10)
        for a, b in zip(got.grad, want.grad, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(threads, compiled):
    fast = tracker.jit(lambda x, w: tracker.withgradient(smooth, x, w))
    with tracker.config(threads=threads):
        for n in (300_000, 310_001, 400_007):
            x, w = RNG.standard_normal((2, n))
            done = len(compiled)
            fast(x, w)
            assert n == 300_000 or len(compiled) == done
            got, want = fast(x, w), tracker.withgradient(smooth, x, w)
            np.testing.assert_allclose(got.val, want.val, rtol=1e-11)
            for a, b in zip(got.grad, want.grad, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_the_first_shape_still_works_after_the_second():
    fast = tracker.jit(lambda x: x * 2.0 + np.mean(x))
    arrays = [RNG.standard_normal(n) for n in (1000, 1001, 1002)]
    for x in arrays + arrays:
        np.testing.assert_allclose(fast(x), x * 2.0 + np.mean(x), rtol=1e-13)
    assert fast.cache_info().slow == 3


KERNEL = """\
define internal void @k0(ptr noalias %p0) {
  %acc0 = alloca [500 x i64]
  br label %loop
loop:
  %i = phi i64 [ 200, %pre ], [ %n, %latch ]
  %a = mul nsw i64 %i, 1000
  %b = add nsw i64 %a, 1000
  %c = getelementptr inbounds double, ptr %p0, i64 1000
  %d = fmul contract double %x, 0x3FB999999999999A
  %e = fadd contract float 0x3FB99999A0000000, 0x4000000000000000
  %n = add nuw nsw i64 %i, 1
  %t = icmp ult i64 %n, 300
  br i1 %t, label %loop, label %done
}"""


def test_what_is_taken_out_and_what_stays():
    text, table = lift(KERNEL)
    entries = {n: f"%size.i64.{i}" for i, n in enumerate((200, 1000))}
    for line in (
        "%acc0 = alloca [500 x i64]",
        f"phi i64 [ {entries[200]}, %pre ]",
        "%a = mul nsw i64 %i, 1000",
        f"%b = add nsw i64 %a, {entries[1000]}",
        f"ptr %p0, i64 {entries[1000]}",
        "%d = fmul contract double %x, %size.double.2",
        "%e = fadd contract float %size.float.3, 0x4000000000000000",
        "%n = add nuw nsw i64 %i, 1\n",
        "icmp ult i64 %n, %size.i64.4",
    ):
        assert line in text
    want = struct.pack("<qqdfxxxxq", 200, 1000, 0.1, np.float32(0.1), 300)
    assert table == want
    other, _ = lift(KERNEL.replace("300", "301").replace("999A", "999B"))
    assert other == text


def test_functions_of_others_and_long_ones_stay():
    assert lift(KERNEL.replace("@k0", "@vm.exp")) == (KERNEL.replace("@k0", "@vm.exp"), b"")
    many = KERNEL.replace("  br label %loop\n", "  store i64 1000, ptr %p0\n" * 1000, 1)
    assert lift(many) == (many, b"")
