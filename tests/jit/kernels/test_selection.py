"""Medians and quantiles, compiled: NumPy's values, the positions of a stable sort, whatever is in
the rows; rows that mislead the sample.
"""

import warnings

import numpy as np
import pytest
from compiled import assert_native
from hypothesis import given
from hypothesis import strategies as st
from test_compiled_sort import numbers

from tracker import gradient, jit, param
from tracker.jit.kernels import selection, sorting_networks
from tracker.ops.along_axis import partition
from tracker.tape.record import apply


def picked(places):
    """The numbers of a row at these places in order, and the gradient of each."""

    def f(x):
        def at(x):
            found = apply(partition.ranked, (x, places), {})
            return np.sum(found * np.arange(1.0, found.size + 1).reshape(found.shape))

        return apply(partition.ranked, (x, places), {}), gradient(at, x)[0]

    return f


def expected(rows, places):
    """By a stable order of everything. Zeros of both signs are alike."""
    order = np.argsort(rows, axis=1, kind="stable")
    slope = np.zeros(rows.shape)
    places = np.broadcast_to(places, (len(places), len(rows)))
    for number, (q, r) in enumerate(np.ndindex(places.shape), 1):
        slope[r, order[r, places[q, r]]] += number
    return np.take_along_axis(np.sort(rows, axis=1).T, places, axis=0), slope


def misleading(n):
    """A row in which every key that a first sample looks at is far from the middle."""
    x = np.random.default_rng(0).normal(size=n)
    x[:: max(n // selection._SAMPLE, 1)] = 100.0
    return x


ROWS = {
    "numbers": lambda n: np.random.default_rng(n).normal(size=n),
    "ties": lambda n: np.round(np.random.default_rng(n).normal(size=n)),
    "zeros": lambda n: np.where(np.arange(n) % 3, 0.0, np.random.default_rng(n).normal(size=n)),
    "equal": np.ones,
    "in order": lambda n: np.arange(n) * 1.0,
    "backwards": lambda n: -np.arange(n) * 1.0,
    "few": lambda n: np.arange(n) % 2 * 1.0,
    "apart": lambda n: 2.0 ** np.random.default_rng(n).integers(-1000, 1000, n),
    "misleading": misleading,
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("n", [1, 2, 72, 73, 600, 5000])
def test_any_row(kind, n):
    x = ROWS[kind](n)[None]
    places = np.array([[0], [n // 2], [min(n // 2 + 1, n - 1)], [n - 1], [n // 3]])
    f = jit(picked(places))
    for _ in range(2):
        for got, wanted in zip(f(x), expected(x, places), strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert_native(f, x)


@pytest.mark.parametrize("shape", [(40, 9), (19, 100), (19, 300), (5, 100), (3, 50), (3, 500)])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_many_rows(shape, dtype):
    """With networks and without; equal ranks in all rows, and different ones."""
    rows, n = shape
    fits = [
        sorting_networks.KeyRows(b, rows, n, True).is_quick and n <= selection._MAX_NETWORK_ROW
        for b in (32, 64)
    ]
    assert fits == [rows > 3 and n < 300] * 2
    x = np.round(np.random.default_rng(0).normal(size=shape), 1).astype(dtype)
    for places in (np.array([[n // 2], [1]]), np.arange(2 * rows).reshape(2, rows) * 7 % n):
        f = jit(picked(places))
        for _ in range(2):
            for got, wanted in zip(f(x), expected(x, places), strict=True):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u8", "i4", "i2", "u1", "?"])
@pytest.mark.parametrize("n", [50, 700])
def test_every_dtype(kind, n):
    x = numbers((2, n), kind)
    places = np.array([[0], [n // 2], [n // 5], [n - 1]])

    def f(x):
        y = apply(partition.ranked, (x, places), {})
        return y, apply(partition.rank_sources, (x, y, places), {})

    compiled = jit(f)
    order = np.argsort(x, axis=1, kind="stable")
    for _ in range(2):
        values, sources = compiled(x)
        np.testing.assert_array_equal(sources, order.T[places[:, 0]])
        np.testing.assert_array_equal(values, np.sort(x, axis=1).T[places[:, 0]])
    assert_native(compiled, x)


FUNCTIONS = (np.median, np.nanmedian, lambda x: np.percentile(x, [0, 30, 100]))
COMPILED = {f: jit(lambda x, f=f: f(x)) for f in FUNCTIONS}


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]), min_size=1))
def test_quantiles_of_special_values(given_numbers):
    x = np.resize(given_numbers, 90)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all are NaN
        for f, compiled in COMPILED.items():
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)


def test_the_number_of_nans_may_change():
    """The rank of a quantile without NaNs is data: one trace."""
    x = np.random.default_rng(0).normal(size=(6, 90))
    f = jit(lambda x: np.nanquantile(x, [0.2, 0.7], axis=1))
    for holes in (0.0, 0.1, 0.5, 0.9, 0.2):
        x = np.where(np.random.default_rng(1).random(x.shape) < holes, np.nan, x)
        np.testing.assert_allclose(f(x), np.nanquantile(x, [0.2, 0.7], axis=1), rtol=1e-14)
    assert f.cache_info().traces == 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 90, 91])
def test_a_median_is_a_mean(n, dtype):
    """Of integers too: of an odd number of them it is the middle one, as a float."""
    x = np.random.default_rng(n).integers(0, 230, size=(4, n)).astype(dtype)
    x = x if dtype is not bool else np.random.default_rng(n).random((4, n)) < 0.5
    for f in (np.median, lambda x: np.median(x, axis=0), lambda x: np.median(x, axis=1)):
        want, compiled = f(x), jit(f)
        for _ in range(2):
            got = compiled(x)
            assert type(got) is type(want) and got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_medians_of_complex_numbers(n):
    z = np.arange(n) - 1j * np.arange(n) ** 2
    compiled = jit(np.median)
    for found in (np.median(param(z)).data, compiled(z), compiled(z)):
        np.testing.assert_array_equal(found, np.median(z))
    slope = gradient(lambda z: np.imag(np.median(z)), z)[0]
    want = np.zeros(n, complex)
    want[[(n - 1) // 2, n // 2]] = 1j if n % 2 else 0.5j
    np.testing.assert_array_equal(slope, want)
