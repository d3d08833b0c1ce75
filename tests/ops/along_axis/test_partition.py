"""Rows of the ops for order statistics."""

import numpy as np
import pytest
from op_rows import row, sample, x, z
from test_sort import KINDS

from tracker import jit, pullback
from tracker.ops.along_axis import partition

PLACES = np.array([[1, 0], [2, 2], [1, 1]])
ALL = np.array([[0], [1], [2]])
MANY = np.arange(20)[:, None] % 4


def _ranked(rows, places):
    return sample(rows, partition.ranked.evaluate(rows, places), places)


KEYS = np.array([[3, 1, 3, 3], [0, 0, 1, 0]], np.uint8)
CHOSEN = np.array([[3, 1], [0, 1]], np.uint8)
LINES = [(x(2, 3), PLACES), (x(2, 4), ALL), (x(3, 4), MANY), (z(2, 3), PLACES)]
LINES += [(values[None], ALL) for values in KINDS]

ROWS = [
    row("ranked", *(sample(*line) for line in [*LINES[:4], *LINES[6:]])),
    row("rank_sources", *(_ranked(*line) for line in LINES)),
    row("keys_at", sample(KEYS, np.array([[0, 3]])), sample(KEYS, np.array([[2], [3]]))),
    row(
        "sources_of",
        sample(KEYS, np.array([[2, 0], [1, 3]]), CHOSEN),
        sample(KEYS, np.array([[3]]), np.array([[3], [1]], np.uint8)),
    ),
]


@pytest.mark.parametrize("f", [np.median, np.nanmedian, lambda z: np.median(z, axis=1)])
def test_medians_of_complex_numbers_with_nan(f):
    z = np.array([[np.nan, 1 + 1j, 2], [3, 4, 5]])
    compiled = jit(f)
    for call in (lambda z: pullback(f, z)[0], compiled, compiled):
        np.testing.assert_array_equal(call(z), f(z))
