"""Products of tall matrices with small ones, as loops over rows: in every layout, of any view."""

import numpy as np
import pytest
from compiled import agree
from hypothesis import given
from hypothesis import strategies as st
from pairwise_parameters import crossed

import tracker
from tracker import gradient, jit
from tracker.jit.kernels import tall_matmul

RNG = np.random.default_rng(0)


@pytest.fixture(params=[1, 3])
def short_ones(request, monkeypatch):
    """Matrices of few rows count as tall, so that tests are quick; threads share them."""
    for name, least in (("_MIN_LONG", 20), ("_MIN_WORK", 1), ("_MIN_THREADED_WORK", 1)):
        monkeypatch.setattr(tall_matmul, name, least)
    with tracker.config(threads=request.param):
        yield


def array(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def assert_in_rows(fast, *arguments, count=1, kept=None):
    """`count` products are loops over rows; only values of these shapes are stored."""
    text = fast.explain(*arguments)
    assert text.count("in loops over rows") == count, text
    for line in text.splitlines():
        if kept is not None and "kept: " in line:
            assert any(f"[{','.join(map(str, shape))}]" in line for shape in kept), line


def check(f, *arguments, count=1, kept=None, tolerance=1e-12):
    fast = agree(f, *arguments, tolerance=tolerance, strict=True)
    assert_in_rows(fast, *arguments, count=count, kept=kept)


def products(a, b, g):
    return a @ b, a.T @ g, g.T @ a


LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "wide": lambda x: np.concatenate([x, x], axis=1)[:, : x.shape[1]],
    "every other": lambda x: np.repeat(x, 2, axis=0)[::2],
    "spread": lambda x: np.repeat(x, 3, axis=1)[:, ::3],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
}


@crossed(left=LAYOUTS, right=LAYOUTS, dtype=[np.float64, np.float32])
def test_layouts(short_ones, left, right, dtype):
    a = LAYOUTS[left](array(45, 7, dtype=dtype))
    b = LAYOUTS[right](array(7, 3, dtype=dtype))
    g = LAYOUTS[right](array(45, 3, dtype=dtype))
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    check(products, a, b, g, count=3, tolerance=tolerance)


@given(st.integers(20, 60), st.integers(2, 40), st.integers(2, 16), st.booleans())
def test_extents(m, k, n, wide):
    dtype = np.float64 if wide else np.float32
    a, b, g = (array(*shape, dtype=dtype) for shape in [(m, k), (k, n), (m, n)])
    with pytest.MonkeyPatch.context() as patch:
        for name, least in (("_MIN_LONG", 20), ("_MIN_WORK", 1), ("_MIN_THREADED_WORK", 1000)):
            patch.setattr(tall_matmul, name, least)
        with tracker.config(threads=2):
            agree(products, a, b, g, tolerance=1e-4)


def patches(x):
    """Windows of 3 x 2 of images (4, 9, 8), as rows."""
    shifted = [x[:, i : i + 7, j : j + 7] for i in range(3) for j in range(2)]
    return np.reshape(np.stack(shifted, axis=-1), (-1, 6))


def concatenated(x):
    y = np.reshape(x, (-1, 8))
    return np.concatenate([y[:-1, :3], y[1:, 2:6]], axis=1)


def turned(x):
    return np.reshape(np.transpose(np.reshape(x, (4, 9, 2, 4)), (2, 0, 1, 3)), (-1, 4))


def sliding(x):
    return np.reshape(np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2)), (-1, 4))


@pytest.mark.parametrize("view", [patches, concatenated, turned])
def test_views_are_not_stored(short_ones, view):
    x = array(4, 9, 8)
    k = view(x).shape[1]

    def loss(w, x):
        return np.sum(np.tanh(view(x) @ w))

    def f(w, x):
        return gradient(lambda w: loss(w, x), w)

    check(f, array(k, 3), x, count=2, kept=[(len(view(x)), 3)])


@pytest.mark.parametrize("view", [patches, concatenated, turned, sliding])
def test_gradients_of_both_operands(short_ones, view):
    x = array(4, 9, 8)
    w = array(view(x).shape[1], 3)

    def f(w, x):
        return gradient(lambda w, x: np.sum(np.tanh(view(np.sin(x)) @ w)), w, x)

    agree(f, w, x)


def test_a_computed_operand_is_stored_once(short_ones):
    """Not its patches, which hold each number six times."""

    def f(w, x):
        y = patches(np.tanh(x))
        return y @ w, y.T @ (y @ w)

    check(f, array(6, 3), array(4, 9, 8), count=2, kept=[(4, 9, 8)])


def test_padding_is_stored(short_ones):
    def f(w, x):
        return patches(np.pad(x, ((0, 0), (1, 1), (2, 0)))[:, :9, :8]) @ w

    check(f, array(6, 3), array(4, 9, 8))


def test_a_view_with_other_readers_is_stored(short_ones):
    def f(w, x):
        y = patches(x)
        return y @ w, y, np.sum(y, axis=0)

    check(f, array(6, 3), array(4, 9, 8))


def test_arrays_that_change_later(short_ones):
    def f(w, x):
        x = x * 1.0
        y = patches(x)
        x[:, 2] = 7.0
        z = patches(x) @ w
        x[1] += 1.0
        return y @ w, z, x

    check(f, array(6, 3), array(4, 9, 8), count=2)


def test_within_loops(short_ones):
    def step(w, x):
        y = patches(x)
        return w - 0.01 * (y.T @ np.tanh(y @ w)), np.sum(w)

    def f(w, xs):
        return tracker.scan(step, w, xs)

    w, xs = array(6, 3), array(5, 4, 9, 8)
    fast = agree(f, w, xs, tolerance=1e-10)
    assert_in_rows(fast, w, xs, count=2)


def test_a_matrix_times_its_own_transpose(short_ones):
    check(lambda a: a.T @ a, array(50, 6))


def test_sums_of_many_rows_are_as_accurate_as_blas():
    a, g = (np.abs(array(300_000, n, dtype=np.float32)) for n in (5, 8))
    exact = a.T.astype(np.float64) @ g.astype(np.float64)
    fast = jit(lambda a, g: a.T @ g)
    for _ in range(2):
        np.testing.assert_allclose(fast(a, g), exact, rtol=1e-5)
    assert_in_rows(fast, a, g)


@pytest.mark.parametrize(
    "m, k, n",
    [
        (2000, 25, 8),  # not long
        (9000, 25, 17),  # more than vectors have
        (9000, 50, 2),  # BLAS's vectors go along the rows
        (9000, 60, 16),  # too many for the registers
        (9000, 5, 1),  # a vector
    ],
)
def test_other_products_go_to_blas(m, k, n):
    a, b = array(m, k), array(k, n)
    fast = agree(lambda a, b: a @ b, a, b, tolerance=1e-10)
    assert "by BLAS" in fast.explain(a, b)


def test_another_number_of_rows_needs_no_compiling(short_ones, monkeypatch):
    from tracker.jit.llvm import engine, object_cache

    texts = []
    original = engine.compile_module

    def noted(text, *, level=3, **options):
        if level:  # without the texts that all calls share
            texts.append(text)
        return original(text, level=level, **options)

    monkeypatch.setattr(engine, "compile_module", noted)
    monkeypatch.setattr(object_cache, "_recent", {})
    monkeypatch.setenv("TRACKER_CACHE", "0")
    fast = jit(lambda w, x: gradient(lambda w: np.sum(np.tanh(patches(x) @ w)), w))
    w = array(6, 3)
    for count in (40, 50):
        x = array(count, 9, 8)
        for _ in range(2):
            np.testing.assert_allclose(
                fast(w, x)[0], patches(x).T @ (1 - np.tanh(patches(x) @ w) ** 2), rtol=1e-10
            )
    assert len(set(texts)) == len(texts) == 1
