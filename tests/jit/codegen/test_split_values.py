"""Loops over masked elements run up to the number where the mask ends, and are right on each side.

`A[i, :i]` in a Python loop gives such masks (`control/python_loops/body/growing_values.py`).
"""

import numpy as np
import pytest
from compiled import agree

import tracker
from tracker.control.python_loops import rolling

N = 40  # more than is unrolled


@pytest.fixture(autouse=True)
def every_loop_pays(monkeypatch):
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)


def _matrix():
    return np.random.default_rng(0).normal(size=(N, N)) / N + np.eye(N)


def _dots(a, x):
    out = np.zeros(N, a.dtype)
    for i in range(N):
        out[i] = a[i, :i] @ x[:i] + np.sum(x[i:] * a[i, i:])
    return out


def _kept(a, x):
    for i in range(N):
        a[i, :i] = a[i, :i] * x[i] + 2.0
    return a


def _added(a, x):
    for i in range(1, N):
        x[:i] += x[i] * a[i, :i]
    return x


def _two_axes(a, x):
    out = np.zeros(N, a.dtype)
    for i in range(2, N):
        out[i] = np.sum(a[:i, i - 1 :] * x[i])
    return out


def _later(a, x):
    """Elements outside of a slice are not finite: they have no effect."""
    out = np.zeros(N, a.dtype)
    x[N // 2 :] = np.inf
    for i in range(N // 2):
        out[i] = a[i, :i] @ x[:i] + 1.0
    return out


@pytest.mark.parametrize("f", [_dots, _kept, _added, _two_axes, _later])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_loops_up_to_a_number(f, dtype):
    a, x = _matrix().astype(dtype), np.linspace(0.5, 1.5, N).astype(dtype)
    agree(f, a.copy(), x.copy(), tolerance=1e-4 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("f", [_dots, _kept, _added, _two_axes, _later])
def test_gradients_up_to_a_number(f):
    a, x = _matrix(), np.linspace(0.5, 1.5, N)

    def slopes(a, x):
        return tracker.gradient(lambda a, x: np.sum(f(a + 0.0, x + 0.0) ** 2), a, x)

    agree(slopes, a, x)


def _eliminated(a, x):
    for k in range(N - 1):
        a[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :], a[k, k + 1 :])
        a[:k, k + 1 :] += x[k]
    return a


@pytest.mark.parametrize("special", [-0.0, np.nan, np.inf])
def test_what_a_mask_leaves_alone_stays(special):
    """It is not stored again, and would not be another number if it were."""
    a, x = _matrix(), np.linspace(0.5, 1.5, N) / N
    a[:, 0] = a[-1] = special
    want, fast = _eliminated(a.copy(), x), tracker.jit(_eliminated)
    for _ in range(2):
        got = fast(a.copy(), x)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
