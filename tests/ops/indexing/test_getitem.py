"""Rows of the ops that read and write by index."""

import numpy as np
from op_rows import row, sample, x, z

from tracker.ops.indexing.gather_scatter import HOLE

ROW = (1, slice(0, 3, 1))
STEPS = (slice(0, 3, 2), None, slice(2, None, -1))
ALL = (slice(0, 3, 1), slice(0, 3, 1))
NONE = (slice(0, 0, 1), slice(0, 3, 1))
ONE = (2, 0)
LIST = (HOLE,)
TWO = (HOLE, HOLE)
MIXED = (slice(0, 3, 1), HOLE)

DOTS = (HOLE, ..., slice(0, 1, 1), HOLE)
APART = (HOLE, None, 1, HOLE)

TWICE = np.array([2, 0, 2])
MASK = np.array([True, False, True])
MASKS = np.eye(3, dtype=bool)
FIRST, SECOND = np.array([[0], [2]]), np.array([1, 1])

ROWS = [
    row(
        "getitem", *(sample(x(3, 3), index=i) for i in (ROW, STEPS, ALL, NONE, ONE)),
        sample(z(3, 3), index=STEPS), sample(x(), index=(None,))),
    row(
        "embed", sample(x(3), index=ROW, shape=(3, 3)),
        sample(x(2, 1, 3), index=STEPS, shape=(3, 3)), sample(x(), index=ONE, shape=(3, 3)),
        sample(x(0, 3), index=NONE, shape=(3, 3)), sample(z(3), index=ROW, shape=(3, 3))),
    row(
        "put", sample(x(3, 3), x(3), index=ROW), sample(x(3, 3), x(2, 1, 3), index=STEPS),
        sample(x(3, 3), x(3), index=STEPS), sample(x(3, 3), x(), index=ALL),
        sample(x(3, 3), 1.5, index=ONE), sample(x(3, 3), x(), index=ONE),
        sample(x(3, 3), x(1), index=NONE), sample(z(3, 3), x(3), index=ROW),
        sample(z(3, 3), z(3), index=ROW),
        sample(np.arange(9).reshape(3, 3), np.arange(3), index=ROW)),
    row(
        "gather", sample(x(3, 3), TWICE, index=LIST),
        sample(x(3, 3), MASK, index=LIST, counts=(2,)),
        sample(x(3, 3), MASKS, index=LIST, counts=(3,)), sample(x(3, 3), FIRST, SECOND, index=TWO),
        sample(x(3, 3), TWICE, index=MIXED), sample(x(3, 3), np.zeros(0, int), index=LIST),
        sample(z(3, 3), TWICE, index=LIST), sample(x(3), np.array(-1), index=LIST)),
    row(
        "scatter_add", sample(x(3, 3), TWICE, index=LIST, shape=(3, 3)),
        sample(x(2, 3), MASK, index=LIST, shape=(3, 3), counts=(2,)),
        sample(x(3), MASKS, index=LIST, shape=(3, 3), counts=(3,)),
        sample(x(2, 2), FIRST, SECOND, index=TWO, shape=(3, 3)),
        sample(z(3, 3), TWICE, index=MIXED, shape=(3, 3))),
    row(
        "scatter", sample(x(3, 3), x(3, 3, seed=1), TWICE, index=LIST),
        sample(x(3, 3), x(3, seed=1), TWICE, index=LIST),
        sample(x(3, 3), x(2, 3, seed=1), MASK, index=LIST, counts=(2,)),
        sample(x(3, 3), x(seed=1), MASKS, index=LIST, counts=(3,)),
        sample(x(3, 3), x(2, 2, seed=1), FIRST, SECOND, index=TWO),
        sample(x(3, 3), x(2, 1, seed=1), FIRST, SECOND, index=TWO),
        sample(x(3, 3), x(3, seed=1), TWICE, index=MIXED),
        sample(z(3, 3), x(3, 3, seed=1), TWICE, index=LIST),
        sample(x(3, 3), 2.0, TWICE, index=LIST)),
    row("as_view", sample(x()), sample(z()), sample(np.float32(1.5)), sample(np.int64(3))),
    row(
        "winners", sample(TWICE, index=LIST, shape=(3, 3)),
        sample(FIRST, SECOND, index=TWO, shape=(3, 3))),
    row(
        "taken", sample(x(3, 3), TWICE, index=MIXED), sample(x(3, 1, 3), FIRST, SECOND, index=DOTS),
        sample(x(3, 2, 3), FIRST, SECOND, index=APART), sample(x(3), np.array(-1), index=LIST),
        sample(z(3), np.zeros((0, 2), int), index=LIST)),
    row(
        "scattered_sum", sample(x(3, 3), TWICE, index=MIXED, shape=(3, 3)),
        sample(x(2, 2, 1), FIRST, SECOND, index=DOTS, shape=(3, 1, 3)),
        sample(x(2, 2, 1), FIRST, SECOND, index=APART, shape=(3, 2, 3))),
    row(
        "scattered_added", sample(x(3, 3), x(3, 3, seed=1), TWICE, index=MIXED),
        sample(x(3, 1, 3), x(2, 2, 1, seed=1), FIRST, SECOND, index=DOTS),
        sample(x(3, 2, 3), x(2, 2, 1, seed=1), FIRST, SECOND, index=APART)),
    row(
        "scattered", sample(x(3, 3), x(3, 3, seed=1), TWICE, index=MIXED),
        sample(x(3, 1, 3), x(1, seed=1), FIRST, SECOND, index=DOTS),
        sample(x(3, 2, 3), x(seed=1), FIRST, SECOND, index=APART)),
    row("mask_count", sample(MASK), sample(np.zeros((2, 3), bool))),
    row("compacted", sample(MASK, count=2), sample(np.zeros(3, bool), count=0)),
    row("positions", sample(MASKS, count=3), sample(np.zeros((2, 0), bool), count=0)),
    row("inside", sample(TWICE, extent=2), sample(np.array([-3, -4], np.int8), extent=3)),
    row("iota", sample(shape=(2, 3), axis=1), sample(shape=(0,), axis=0)),
    row("before", sample(2, shape=(2, 3), axis=1), sample(np.int64(9), shape=(40,), axis=0)),
    row(
        "table", sample(values=(1.5, -0.0, 2.0), dtype=np.dtype(np.float64)),
        sample(values=(1, 2), dtype=np.dtype(np.int16)),
        sample(values=(True, False), dtype=np.dtype(bool))),
]  # fmt: skip
