"""Rows of the sorting ops."""

import numpy as np
from op_rows import row, sample, x, z

from tracker.ops.along_axis import sort

MIXED = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.5, 1e-310, 0.0, -np.nan, 2.0])
KINDS = [
    *(MIXED, MIXED.astype(np.float32), np.array([3, -3, 0, 127, -128], np.int8)),
    *(np.array([3, 0, 2**64 - 1, 2**63], np.uint64), np.array([-(2**63), 2**63 - 1, 0, -1])),
    *(np.array([True, False, True]),),
]
LINES = [
    sample(x(4), axis=0), sample(x(2, 3), axis=1), sample(x(3, 2), axis=0),
    sample(x(2, 3, 2), axis=1), sample(x(0, 2), axis=1), sample(z(4), axis=0),
    *(sample(values, axis=0) for values in KINDS[2:]),
]  # fmt: skip

ROWS = [
    row("sort", *LINES),
    row("argsort", *LINES, *(sample(values, axis=0) for values in KINDS)),
    row("sort_key", *(sample(values) for values in KINDS)),
    row("value_key", *(sample(values) for values in KINDS)),
    row("key_value", *(sample(sort.value_key.evaluate(v), dtype=v.dtype) for v in KINDS)),
    row("ordered", sample(np.array([[3, 1, 3], [0, 0, 1]], np.uint8))),
    row("order", sample(np.array([[3, 1, 3], [0, 0, 1]], np.uint64))),
]
