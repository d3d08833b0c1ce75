"""Sorting, compiled: NumPy's order of every dtype, stable, along any axis."""

import numpy as np
import pytest
from compiled import agree, assert_native
from pairwise_parameters import crossed

from tracker import gradient, jit
from tracker.jit.pipeline import partition

SHAPES = [(5,), (72,), (73,), (1000,), (7, 60), (60, 7), (3, 50, 4)]


def numbers(shape, kind):
    """Many ties, both zeros, infinities, NaNs, the outermost integers."""
    rng, dtype = np.random.default_rng(0), np.dtype(kind)
    if dtype.kind == "f":
        x = np.round(rng.normal(size=shape) * 3, 1).astype(dtype)
        odd = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0])
        return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), x).astype(dtype)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.integers(max(limits[0], -9), min(limits[1], 9), shape, endpoint=True).astype(dtype)
    x.reshape(-1)[:2] = limits
    return x


@crossed(
    shape=SHAPES,
    last=[True, False],
    kind=["f8", "f4", "i8", "u8", "i4", "u1", "?"],
)
def test_every_dtype(shape, last, kind):
    x, axis = numbers(shape, kind), len(shape) - 1 if last else 0
    for f in (
        lambda x: np.argsort(x, axis=axis, kind="stable"),
        lambda x: np.sort(x, axis=axis, kind="stable"),
    ):
        agree(f, x, tolerance=0, native=True)


@pytest.mark.parametrize("kind", ["f8", "f4", "i2", "u1", "c16"])
def test_unique_values_and_sets(kind):
    x = numbers((400,), kind) if kind != "c16" else numbers((400,), "f8") + 1j
    with np.errstate(invalid="ignore"):
        few, many = x[:9], np.roll(x, 5)[:90]
    for f in (
        lambda x: np.unique(x),
        lambda x: np.unique(x, equal_nan=False),
        lambda x: np.unique(x[:0]),
        lambda x: np.intersect1d(x, many),
        lambda x: np.isin(x, few),
        lambda x: np.isin(x, few, invert=True),
        lambda x: np.isin(x, many),
    ):
        agree(f, x, tolerance=0, native=True)


@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble, "U8", "S4", "M8[D]"])
@pytest.mark.parametrize(
    "f",
    [
        np.sort,
        np.argsort,
        np.unique,
        np.count_nonzero,
        lambda x: np.lexsort((x, x[::-1])),
        lambda x: np.isin(x, np.tile(x, 20)),
        lambda x: np.unique(x.reshape(2, 2), axis=0),
        lambda x: np.searchsorted(np.sort(x), x[1:2]),
    ],
)
def test_numpy_sorts_other_dtypes(f, kind):
    x = np.array([30, 10, 30, 5])
    agree(lambda x: f(x.astype(kind)), x, tolerance=0)


def test_numbers_of_many_magnitudes():
    rng = np.random.default_rng(1)
    x = rng.normal(size=5000) * 10.0 ** rng.integers(-300, 300, 5000)
    n = rng.integers(-(2**63), 2**63 - 1, 5000)
    for values in (x, n):
        agree(lambda v: np.sort(v[::-1]), values, tolerance=0)


@pytest.mark.parametrize("shape", [(9,), (200,), (30, 7)])
def test_functions_of_sorted_arrays(shape):
    x = np.random.default_rng(0).normal(size=shape)

    def f(x):
        y = np.sort(np.sin(x), axis=0)
        top = x[np.argsort(x, axis=None)[-3:] % len(x)]
        return np.sum(y * np.arange(y.size).reshape(y.shape)) + np.sum(top**2) + np.median(x)

    for g in (f, lambda x: gradient(f, x)[0]):
        agree(g, x, others=[(-x,), (x**3,)], native=True)


def test_sorting_in_place():
    def f(x):
        y = x * 2.0
        y.sort()
        y[::2].sort()
        return y

    x = np.random.default_rng(0).normal(size=100)
    agree(f, x)


@pytest.mark.parametrize("shape, axis", [((300,), 0), ((9, 40), 1), ((40, 9), 0)])
def test_the_gradient_of_sorting_sorts_once(shape, axis):
    """Cotangents go where the elements came from; of equal ones, in their order."""
    x = numbers(shape, "f8")
    x[~np.isfinite(x)] = 7.0
    w = np.arange(1.0, x.size + 1).reshape(shape)
    slope = jit(lambda x: gradient(lambda x: np.sum(np.sort(x, axis) * w), x)[0])
    want = np.zeros(shape)
    np.put_along_axis(want, np.argsort(x, axis, kind="stable"), w, axis)
    for _ in range(2):
        np.testing.assert_array_equal(slope(x), want)
    assert_native(slope, x)


@pytest.mark.parametrize("n", [73, 100, 1001])
@pytest.mark.parametrize("kind", ["i1", "u2", "f2", "f4", "f8", "i8"])
def test_positions_of_long_rows_use_the_result_as_scratch(n, kind):
    """As many passes as keys have digits, but those that all share: odd numbers of them, too."""
    rng = np.random.default_rng(n)
    for values in (rng.normal(size=(2, n)) * 100, rng.integers(0, 5, (2, n)), np.zeros((2, n))):
        x = values.astype(kind)
        places = jit(lambda x: np.argsort(x))
        for _ in range(2):
            np.testing.assert_array_equal(places(x), np.argsort(x, kind="stable"))


def test_numpy_sorts_rows_too_long_for_our_positions(monkeypatch):
    monkeypatch.setattr(partition, "_MAX_SORT_ROW", 100)
    x = np.random.default_rng(0).normal(size=101)
    fast = jit(lambda x: np.argsort(x) + 1)
    np.testing.assert_array_equal(fast(x[1:]), np.argsort(x[1:]) + 1)
    assert "32 bits" not in fast.explain(x[1:])
    np.testing.assert_array_equal(fast(x), np.argsort(x) + 1)
    assert "32 bits" in fast.explain(x)
