"""Long compiled sums are as exact as NumPy's, in whatever loops they are added up."""

import numpy as np
import pytest
from pairwise_parameters import crossed

import tracker

# Two thousand of these add up exactly in any order, and any processor's vectors; in one register, a
# hundred thousand lose the small part of most.
TERM = {"f4": 1 + 2.0**-12, "f8": 1 + 2.0**-40}
TERM |= {"c8": TERM["f4"] * (1 - 0.5j), "c16": TERM["f8"] * (1 - 0.5j)}


def is_sum_of(count, f, a):
    """Whether each number that f gives is the sum of so many equal terms."""
    fast = tracker.jit(f)
    for _ in range(2):
        got = fast(a)
        assert got.dtype == a.dtype
        term = a[(0,) * a.ndim].astype("c16" if a.dtype.kind == "c" else "f8")
        np.testing.assert_allclose(got, count * term, rtol=4 * np.finfo(a.dtype).eps)
    return True


def halves(a):
    return a * np.full(a.shape[-1], a.dtype.type(0.5))


WHOLE = {
    "sum": np.sum,
    "mean": lambda a: np.mean(a) * a.size,
    "product": lambda a: np.sum(halves(a)) * 2,
    "several": lambda a: np.sum(halves(a)) + np.sum(a * 4 - halves(a) * 7),
    "selected": lambda a: np.sum(np.where(np.real(a) > 0, halves(a), 0)) * 2,
    "gradient": lambda a: tracker.gradient(lambda c: np.sum(halves(a) * c), a.dtype.type(2))[0] * 2,
}
SHAPES = [(300_000,), (100_000, 3), (20_000, 8), (10_000, 30), (300, 1000), (3, 100_000)]
SHAPES += [(90, 40, 50), (60_000, 2, 3), (3, 2, 50_000)]


def is_real_if_differentiated(f, shape, dtype, order):
    return f != "gradient" or dtype[0] == "f"


@crossed(where=is_real_if_differentiated, f=WHOLE, shape=SHAPES, dtype=TERM, order="CF")
def test_sums_of_all_elements(f, shape, dtype, order):
    a = np.full(shape, TERM[dtype], dtype, order)
    assert is_sum_of(a.size, WHOLE[f], a)


@pytest.mark.parametrize("dtype", TERM)
@pytest.mark.parametrize(
    ("f", "shape", "order"),
    [
        (lambda a: np.sum(halves(a), axis=1) * 2, (3, 100_000), "C"),
        (lambda a: np.sum(a * 2, axis=0) / 2, (100_000, 3), "F"),
        (lambda a: np.sum(a.T * 2, axis=1) / 2, (100_000, 3), "F"),
        (lambda a: np.sum(halves(a), axis=(1, 2)) * 2, (2, 30_000, 5), "C"),
        (lambda a: np.sum(halves(a), axis=(1, 2), keepdims=True) * 2, (3, 400, 300), "C"),
        (lambda a: np.sum(halves(a), axis=(0, 2)) * 2, (60, 20, 1200), "C"),
        (lambda a: np.sum(halves(a), axis=(0, 2)) + np.sum(a, (1, 2)) / 2, (2, 2, 90_000), "C"),
    ],
)
def test_sums_over_axes(f, shape, order, dtype):
    a = np.full(shape, TERM[dtype], dtype, order)
    result = f(a)
    assert is_sum_of(a.size // result.size, f, a)
