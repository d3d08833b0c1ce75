"""Sorting networks: each length and width, ties, and the last block."""

import itertools

import numpy as np
import pytest
from compiled import agree
from test_compiled_sort import numbers

from tracker import jit
from tracker.jit.kernels import sorting_networks
from tracker.jit.kernels.sorting_networks import KeyRows


def test_eight_lines_are_sorted():
    """A network that sorts all zeros and ones sorts everything."""
    for bits in itertools.product((0, 1), repeat=8):
        v = list(bits)
        for i, j in sorting_networks._SORT_EIGHT:
            v[i], v[j] = min(v[i], v[j]), max(v[i], v[j])
        assert v == sorted(bits)


LENGTHS = [(19, n) for n in (2, 7, 8, 9, 16, 33, 100, 129)]
ROWS = [(rows, n) for rows in (3, 4, 7, 8, 15, 16, 17) for n in (77, 80)]


@pytest.mark.parametrize("rows, n", [*LENGTHS, *ROWS])
@pytest.mark.parametrize("kind", ["f8", "f4", "i2", "u1"])
def test_rows(rows, n, kind):
    """Four, eight or sixteen rows at a time; eight keys of each at a time, and the rest."""
    assert KeyRows(8 * np.dtype(kind).itemsize, rows, n, True).is_quick == (rows > 3)
    x = numbers((rows, n), kind)
    others = [(x[::-1, ::-1].copy(),), (np.sort(x, axis=1),)]
    for f in (lambda x: np.sort(x, axis=1), lambda x: np.argsort(x, axis=1, kind="stable")):
        agree(f, x, others=others, tolerance=0)


@pytest.mark.parametrize(
    "bits, values, most", [(64, True, 2048), (32, False, 2048), (64, False, 512)]
)
def test_longer_rows_and_few_rows_take_radix_sort(bits, values, most):
    assert KeyRows(bits, 16, most, values).is_quick
    assert not KeyRows(bits, 16, most + 1, values).is_quick
    assert not KeyRows(bits, 7, most, values).is_quick
    assert not KeyRows(bits, 3, 8, values).is_quick


def test_zeros_keep_their_signs():
    x = np.tile([0.0, -0.0, 1.0, -0.0, np.nan, -1.0, 0.0], (20, 1))
    f = jit(lambda x: np.sort(x, axis=1))
    for _ in range(2):
        got = f(x)
        np.testing.assert_array_equal(got, np.sort(x, axis=1))
        assert np.all(np.sum(np.signbit(got[:, :6]), axis=1) == 3)
