"""Searching, membership, unique values, bins and cumulative extremes, compiled: NumPy's answers."""

import warnings

import numpy as np
import pytest
from compiled import agree, assert_native
from pairwise_parameters import crossed
from test_integers import exactly, numbers

from tracker import gradient, jit

KINDS = ["?", "i1", "u1", "i4", "i8", "u8", "f4", "f8"]
HOLES = np.array([[0.5, np.nan, -np.inf], [np.nan, 1.0, 2.0], [-0.0, 0.0, -np.inf]])


@crossed(kind=KINDS, other=KINDS, side=["left", "right"])
def test_searchsorted(kind, other, side):
    row, keys = np.sort(numbers(kind, 50)), numbers(other, 64, 1)
    exactly(lambda a, v: np.searchsorted(a, v, side), row, keys)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 33, 1000, 1025])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (40, 2)])
def test_searchsorted_of_any_size(n, shape):
    rng = np.random.default_rng(n)
    row, keys = np.sort(rng.normal(size=n)), np.asarray(rng.normal(size=shape))[()]
    exactly(lambda a, v: np.searchsorted(a, v), row, keys)
    exactly(lambda a, v: a.searchsorted(np.sin(v) * 2, "right"), row, keys)


def test_searched_arrays_of_any_layout():
    a, v = np.sort(np.random.default_rng(0).normal(size=(90, 2)), axis=0), np.linspace(-1, 1, 80)
    exactly(lambda a, v: np.searchsorted(a[::-2, 1][::-1], v[::-1].reshape(8, 10).T), a, v)
    exactly(lambda v: np.searchsorted(v, 0.25) + np.searchsorted(v, v[3], "right"), v)
    exactly(lambda a, v: np.searchsorted(a, v, sorter=np.argsort(a)), a[::-1, 0].copy(), v)


@pytest.mark.parametrize("right", [False, True])
def test_digitize(right):
    x, bins = numbers("f8", 90), np.array([-3.0, -0.5, 0.0, 0.0, 2.5, np.inf])
    f = jit(lambda x, bins: np.digitize(x, bins, right))
    for given in (bins, bins[::-1].copy(), bins[:1], bins):
        np.testing.assert_array_equal(f(x, given), np.digitize(x, given, right))
    with pytest.raises(ValueError, match="monotonically"):
        f(x, bins[[0, 3, 1, 2, 4, 5]])


@pytest.mark.parametrize("right", [False, True])
def test_digitize_between_edges_that_are_nan(right):
    x, nan = np.array([0.5, 1.5, np.nan, 9.0, -1.0]), np.nan
    f = jit(lambda x, bins: np.digitize(x, bins, right))
    for edges in [0, 1, 2, nan, nan], [nan, nan, 2, 1, 0], [1, 1, 1, 1, nan], [nan] * 5:
        bins = np.array(edges, float)
        for _ in range(3):
            np.testing.assert_array_equal(f(x, bins), np.digitize(x, bins, right))
    with pytest.raises(ValueError, match="monotonically"):
        f(x, np.array([0, 2, 1, nan, nan]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_isin(kind, other):
    a, b = numbers(kind, 60).reshape(6, 10), numbers(other, 9, 2)
    exactly(np.isin, a, b)
    exactly(lambda a, b: np.isin(a, b, invert=True), a, b)
    exactly(np.isin, a, b[:0])


@pytest.mark.parametrize("kind", KINDS)
def test_unique(kind):
    x = numbers(kind, 80)
    exactly(lambda x: np.unique(x, True, True, True), x)
    exactly(lambda x: np.unique(x.reshape(10, 8) > 0, axis=0), x)
    exactly(lambda x: np.unique(np.round(x[:40].reshape(20, 2) / 4), axis=0), x)
    exactly(lambda x: np.unique(x, equal_nan=False), x)


def test_unique_values_are_differentiated():
    def f(x):
        values, counts = np.unique(np.round(x), return_counts=True)
        return np.sum(x**2) * np.sum(values**2 * counts)

    x = np.random.default_rng(0).normal(size=60) * 2
    agree(lambda x: gradient(f, x)[0], x, others=[(x + 1.0,)])


def test_lexsort():
    a = numbers("f8", 40)
    exactly(lambda a: np.lexsort((a, np.round(a / 3), np.round(a / 50))), a)
    exactly(np.lexsort, np.stack([a, a > 0]))


def test_histograms():
    x, w = np.random.default_rng(0).normal(size=500), np.linspace(0, 1, 500)
    exactly(lambda x: np.histogram(x, 7), x)
    exactly(lambda x, w: np.histogram(x, [-2.0, 0.0, 0.1, 3.0], weights=w), x, w)
    exactly(lambda x, w: np.histogram2d(x, w, 4)[0], x, w)


def test_interpolation_between_plain_knots():
    knots, heights = np.linspace(-3, 3, 100), np.linspace(0, 1, 100) ** 2
    exactly(lambda x: np.interp(x, knots, heights), np.random.default_rng(0).normal(size=5000))


@pytest.mark.parametrize("kind", ["i1", "u8", "f4", "f8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes(kind, axis):
    x = numbers(kind, 96).reshape(12, 8)
    exactly(lambda x: np.maximum.accumulate(x, axis), x)
    exactly(lambda x: np.minimum.accumulate(x, axis), x)


def test_nanargmin_and_nanargmax():
    for f in (np.nanargmax, np.nanargmin):
        exactly(lambda x, f=f: (f(x), f(x, axis=0), f(x, axis=1, keepdims=True)), HOLES)
        g = agree(lambda x, f=f: f(x, axis=1), HOLES, tolerance=0)
        with pytest.raises(ValueError, match="All-NaN"):
            g(np.where(np.arange(3)[:, None] < 1, np.nan, HOLES))


@pytest.mark.parametrize("kth", [0, 3, -2, [1, 4]])
def test_partitions(kth):
    """Compiled, both sides of short rows are sorted: NumPy leaves the order open."""
    x = np.random.default_rng(0).normal(size=(6, 9))
    for axis in (0, 1, None):
        compiled = jit(lambda x, axis=axis: np.partition(x, kth, axis) * 1.0)
        places = jit(lambda x, axis=axis: np.argpartition(x, kth, axis))
        plain, at = np.partition(x, kth, axis), axis or 0
        flat = x.ravel() if axis is None else x
        for first in (True, False):
            found, picked = compiled(x), np.take_along_axis(flat, places(x), at)
            for each in (found, picked):
                np.testing.assert_array_equal(np.take(each, kth, at), np.take(plain, kth, at))
                assert first or (each == np.sort(x, axis)).all()
        assert_native(compiled, x)
        assert_native(places, x)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1"])
@pytest.mark.parametrize("kth", [0, 40, -3, [7, 70, 7]])
def test_partitions_of_long_rows(kind, kth):
    """Both sides are in any order: less, equal, greater; NaN is the greatest."""
    x = numbers(kind, 7 * 90).reshape(7, 90)
    for axis, given in ((1, x), (0, x.T), (None, x), (-1, x[:, ::-1])):
        places = jit(lambda x, axis=axis: np.argpartition(x, kth, axis))
        at = 1 if axis is None else axis
        flat = given.reshape(1, -1) if axis is None else given
        bounds = sorted({k % flat.shape[at] for k in np.ravel(kth)})
        order = np.sort(flat, at)
        for _ in range(2):
            found = places(given).reshape(flat.shape)
            values = np.take_along_axis(flat, found, at)
            for low, high in zip([0, *bounds], [*bounds, flat.shape[at]], strict=True):
                some = np.arange(low, high)
                np.testing.assert_array_equal(
                    np.sort(np.take(values, some, at), at), np.take(order, some, at)
                )
        same = np.moveaxis(values, at, 0)
        apart = np.diff(np.moveaxis(found, at, 0), axis=0) > 0
        assert np.all(apart[same[1:] == same[:-1]])
        assert_native(places, given)


def test_reductions_of_empty_arrays():
    for f in (np.sum, np.mean, np.prod, np.any, np.all, lambda x: np.max(x, axis=0)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exactly(lambda x, f=f: f(x * 2.0), np.zeros((3, 0)))
    exactly(lambda x: np.sum(x, axis=1) + np.unique(x).size, np.zeros((3, 0)))


@pytest.mark.parametrize("n", [4096, 5000, 9 * 512])
@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "?"])
def test_argextremes_of_long_rows(n, kind):
    """By blocks: the first of equal elements in any block or in the rest, or the first NaN."""
    rng = np.random.default_rng(n)
    x = np.round(rng.normal(size=n)).astype(kind)
    find = jit(lambda x: (np.argmax(x), np.argmin(x), np.argmax(x.reshape(2, -1))))
    find(x)
    for at in (0, 1, 511, 512, 4095, n - 1):
        for value in [5, -5, np.nan] if x.dtype.kind == "f" else [5, -5]:
            given = x.copy()
            given[at] = given[min(at + 700, n - 1)] = value
            assert find(given) == (np.argmax(given), np.argmin(given), np.argmax(given))
    assert_native(find, x)


def test_extremes_of_selected_elements():
    """Excluded elements count as infinities, in vectors too."""
    x = np.where(np.arange(5000) % 7 == 3, np.nan, np.random.default_rng(0).normal(size=5000))
    for kind in ("f8", "f4"):
        for f in (np.nanmax, np.nanmin, lambda x: np.max(np.where(x > 0, -np.inf, x))):
            exactly(lambda x, f=f: f(x), np.where(np.isnan(x), 1.5, x).astype(kind))
            exactly(lambda x, f=f: f(x), x.astype(kind))
