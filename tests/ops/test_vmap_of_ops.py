"""Every op under vmap: an op on rows is the op on each row, whichever operands are mapped."""

import numpy as np
import pytest
from test_rows import ROWS

from tracker import vmap
from tracker.ops.declare.bundle import unbundle
from tracker.tape.record import apply, data_of


@pytest.mark.parametrize("row", [r for r in ROWS if r.samples], ids=lambda r: r.op.name)
def test_every_op_maps(row):
    for sample in row.samples[:6]:
        operands = sample.operands
        if not operands or any(not hasattr(x, "dtype") for x in operands):
            continue
        for which in {
            (True,) * len(operands),
            *((i == j for j in range(len(operands))) for i in range(len(operands))),
        }:
            marks = tuple(which)
            rows = [np.stack([x, x]) if m else x for x, m in zip(operands, marks, strict=True)]
            axes = tuple(0 if m else None for m in marks)

            def one(*xs, sample=sample):
                y = apply(row.op, xs, sample.params)
                return unbundle(y) if type(data_of(y)) is tuple else [y]

            with np.errstate(all="ignore"):
                want = one(*operands)
                found = vmap(one, axes)(*rows)
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a, np.stack([b, b]), rtol=1e-6, atol=1e-7)
