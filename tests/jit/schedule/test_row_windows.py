"""Loops that read rows, columns, and windows of arrays: scans over drawn views of few arrays."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker as tr

N = 30
STEPS = 9
RNG = np.random.default_rng(0)

# Views with STEPS rows of N - 4 elements; `at` moves the window.
VIEWS = {
    "rows": lambda x, at: x[at : at + STEPS, at : at + N - 4],
    "columns": lambda x, at: x[at : at + N - 4, at : at + STEPS].T,
    "all columns": lambda x, at: x.T[at : at + STEPS, : N - 4],
    "from the last": lambda x, at: x[: N - 4, at : at + STEPS].T[::-1],
    "upside down": lambda x, at: x[::-1][at : at + N - 4, :STEPS].T,
    "every other": lambda x, at: np.concatenate([x, x])[at : at + 2 * STEPS : 2, : N - 4],
    "one row": lambda x, at: np.broadcast_to(x[at, : N - 4], (STEPS, N - 4)),
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "part of a larger array": lambda x: np.pad(x, 2)[2:-2, 2:-2],
    "upside down": lambda x: x[::-1].copy()[::-1],
    "one row": lambda x: np.broadcast_to(x[0], x.shape),
}


def _computed(x):
    return np.sin(x) + x


def _written(x):
    """An array that is written into before and after it is read."""
    y = x * 2.0
    y[2:5] = x[1:4]
    y[:, 3] *= 0.5
    return y


SOURCES = {"argument": lambda x: x, "computed": _computed, "written": _written}


def program(source, views):
    """Scan over the views of two arrays, then write into one of them, and scan again."""

    def run(x, y):
        x, y = SOURCES[source](x), SOURCES[source](y) * 1.0
        total = np.zeros(N - 4)
        for _ in range(2):
            rows = tuple([VIEWS[name](y if odd else x, at) for name, odd, at in views])

            def step(total, row):
                for k, part in enumerate(row):
                    total = np.tanh(total + part * (k + 1.0))
                return total, total * row[0]

            total, stacked = tr.scan(step, total, rows)
            y[:STEPS, : N - 4] += stacked
            y[1 : N - 3, 2 : STEPS + 2] -= 0.5 * stacked.T
        return np.sum(total) + np.sum(y * y)

    return run


names = st.one_of(st.just("columns"), st.sampled_from(sorted(VIEWS)))
windows = st.tuples(names, st.booleans(), st.integers(0, 4))


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(SOURCES)),
    st.lists(windows, min_size=2, max_size=4),
    st.sampled_from(sorted(LAYOUTS)),
)
def test_any_windows(source, views, layout):
    run = program(source, views)
    args = [LAYOUTS[layout](RNG.normal(size=(N, N))) for _ in range(2)]
    want = tr.withgradient(run, *args)
    fast = tr.jit(lambda *a: tr.withgradient(run, *a))
    for _ in range(2):
        for got, expected in zip(tr.tree.leaves(fast(*args)), tr.tree.leaves(want), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


def swept(x):
    """The neighbours of each column, as alternating-direction and tridiagonal solvers read them."""
    rows = x[:, :-2].T, x[:, 1:-1].T, x[:, 2:].T
    step = lambda total, row: (np.tanh(total + row[0] - 2.0 * row[1] + row[2]), total)  # noqa: E731
    return tr.scan(step, np.zeros(len(x)), rows)[1]


def test_windows_that_overlap_share_one_copy():
    x = RNG.normal(size=(60, 70))
    fast = tr.jit(swept)
    text = str(fast.explain(x))
    assert len(re.findall(r"kernel over 70x60, level \d+: copies", text)) == 1
    assert "kernel over 68x60" not in text.split("loop of")[0]
    np.testing.assert_allclose(fast(x), swept(x), rtol=1e-12)


# Triangular updates -------------------------------------------------------------------------------


def multiplied(a, b):
    """b[i] += a[i+1:, i] @ b[i+1:], element by element."""
    b = b * 1.0
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    return b


def symmetric_product(a, b):
    c, row = b * 0.5, np.empty(b.shape[1])
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[:i, j] += 1.5 * b[i, j] * a[i, :i]
            row[j] = b[:i, j] @ a[i, :i]
        c[i, :] += 1.5 * b[i, :] * a[i, i] + 1.5 * row
    return c


@pytest.mark.parametrize(("f", "in_place"), [(multiplied, "2 of 2"), (symmetric_product, "2 of 3")])
def test_triangular_updates_stay_in_place(f, in_place):
    """Neither the array nor its cotangent is copied at each step."""
    args = RNG.normal(size=(34, 34)), RNG.normal(size=(34, 41))
    run = tr.jit(lambda *a: tr.withgradient(lambda *b: np.sum(np.sin(f(*b))), *a))
    text = str(run.explain(*args))
    assert re.findall(r"(\d+ of \d+) arrays stay", text) == ["1 of 1", in_place]
    assert "kernel over 34x41, level 0: copies" not in text
    want = tr.withgradient(lambda *b: np.sum(np.sin(f(*b))), *args)
    for got, expected in zip(tr.tree.leaves(run(*args)), tr.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)
