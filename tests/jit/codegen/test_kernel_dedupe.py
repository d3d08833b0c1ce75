"""Kernels that differ in constants only are one function, with the same results."""

import numpy as np
import pytest

from tracker import gradient, jit
from tracker.jit.codegen.kernel_modules import KernelText, deduplicate, redirect_calls

HALF, TWO, PI = "0x3FE0000000000000", "0x4000000000000000", "0x400921FB54442D18"
LOOP = """void {name}(ptr %p) {{
  %i = phi i64 [ {start}, %pre ], [ %n, %latch ]
  %a = getelementptr double, ptr %p, i64 {at}
  %n = add nuw nsw i64 %i, 1
  %q = udiv i64 %i, {by}
  %x = fmul double %y, {times}
  %z = fsub float {less}, %x
  %c = icmp ult i64 %n, {end}
}}"""


def kernel(k, **numbers):
    name = f"@k{k}"
    usual = {"start": 0, "at": 0, "by": 3, "end": 9, "times": TWO, "less": HALF}
    text = LOOP.format(name=name, **(usual | numbers))
    return KernelText(name, text, f"declare void {name}(ptr)")


def test_few_kernels_are_not_merged():
    few = [kernel(k, end=k) for k in range(3)]
    assert deduplicate(few) == (few, {})


def test_varying_integers_become_parameters():
    left, moved = deduplicate([kernel(k, start=k % 2, end=10 + k) for k in range(6)])
    (one,) = left
    assert one.text.startswith("void @k0(ptr %p, i64 %number0, i64 %number1) {\n")
    assert "phi i64 [ %number0, %pre ]" in one.text and "ult i64 %n, %number1" in one.text
    assert "add nuw nsw i64 %i, 1" in one.text and "i64 0\n" in one.text
    assert one.declaration == "declare void @k0(ptr, i64, i64)"
    assert moved["@k3"] == ("@k0", ("i64 1", "i64 13"))
    calls = "  call void @k3(ptr %x)\n  call void @k33(ptr %y)\n"
    assert redirect_calls(calls, moved) == (
        "  call void @k0(ptr %x, i64 1, i64 13)\n  call void @k33(ptr %y)\n"
    )


def test_varying_floats_become_parameters_of_their_types():
    floats = [TWO, PI, HALF]
    left, moved = deduplicate(
        [kernel(k, times=floats[k % 3], less=floats[k // 2]) for k in range(6)]
    )
    (one,) = left
    assert one.text.startswith("void @k0(ptr %p, double %number0, float %number1) {\n")
    assert "double %y, %number0\n" in one.text and "float %number1, %x\n" in one.text
    assert one.declaration == "declare void @k0(ptr, double, float)"
    assert moved["@k4"] == ("@k0", (f"double {PI}", f"float {HALF}"))


def test_divisors_stay_literal():
    left, moved = deduplicate([kernel(k, by=3 + k) for k in range(6)])
    assert len(left) == 6 and not moved


def triangular(a, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - a[i, :i] @ x[:i] - np.sum(np.tanh(x[:i]))) / a[i, i]
    return np.sum(x * b)


@pytest.mark.parametrize("n", [5, 40])
def test_rows_of_different_lengths(n):
    rng = np.random.default_rng(n)
    a, b = np.tril(rng.normal(size=(n, n))) + n * np.eye(n), rng.normal(size=n)
    fast = jit(triangular)
    np.testing.assert_allclose(fast(a, b), triangular(a, b), rtol=1e-12)
    for ours, plain in zip(gradient(fast, a, b), gradient(triangular, a, b), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_rows_and_columns_with_different_constants(dtype):
    def f(x):
        a, b = np.zeros_like(x, shape=(30, 9)), np.zeros_like(x, shape=(9, 30))
        for i in range(30):
            a[i] = x[i : i + 9] * i - 0.3 * i
            b[:, i] = (i / 7) / (x[i : i + 9] + 20) + (x[:9] > i / 30)
        return a @ b

    def loss(x):
        return np.sum(np.abs(f(x)))

    x = np.random.default_rng(0).normal(size=40).astype(dtype)
    tolerance = 1e-5 if dtype == "f4" else 1e-12
    fast, slope = jit(f), jit(lambda x: gradient(loss, x)[0])
    for _ in range(2):
        np.testing.assert_allclose(fast(x), f(x), rtol=tolerance, atol=tolerance)
        (want,) = gradient(loss, x)
        got = slope(x)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())
