"""The pullback of a loop reads what it has restored, and does not make it again."""

import numpy as np
import pytest

import tracker
from tracker.control.python_loops import rolling

A = np.random.default_rng(0).normal(size=(36, 36)) / 36 + 2 * np.eye(36)


@pytest.fixture(autouse=True)
def every_loop_pays(monkeypatch):
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)


def _two_inner_loops(a):
    a = a.copy()
    for i in range(36):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, 36):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


def _writes_between(a):
    a = a.copy()
    for i in range(1, 36):
        a[i, i] *= 0.5
        for j in range(i):
            a[i, j] = np.sin(a[i, j]) * a[j, j] - a[i, :j] @ a[j, :j]
        a[i, i] -= a[i, :i] @ a[i, :i]
    return a


@pytest.mark.parametrize("f", [_two_inner_loops, _writes_between])
def test_pullbacks_of_nested_loops(f):
    def slope(a):
        return tracker.gradient(lambda a: np.sum(f(a) ** 2), a)

    (want,), compiled = slope(A), tracker.jit(slope)
    for _ in range(2):
        (have,) = compiled(A)
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)
    backward = str(compiled.ir(A)).split("function back", 1)[1]
    nested = [line for line in backward.splitlines() if " = loop " in line and "@iteration" in line]
    assert not any("f64[36,36]" in line.split("=")[0] for line in nested if "    " in line[:6])


def test_second_derivatives():
    a, v = A[:12, :12], A[12:24, :12]

    def g(a):
        a = a.copy()
        for i in range(1, 12):
            for j in range(i):
                a[i, j] -= a[i, :j] @ a[j, :j]
        return np.sum(a**3)

    def product(a):
        return tracker.hvp(g, a, v)

    def difference(h):
        return tracker.gradient(g, a + h * v)[0] - tracker.gradient(g, a - h * v)[0]

    have = np.asarray(tracker.jit(product)(a)).reshape(-1)[-144:].reshape(12, 12)
    np.testing.assert_allclose(have, difference(1e-5) / 2e-5, rtol=1e-5, atol=1e-6)
