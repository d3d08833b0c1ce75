"""Rows of the ops that move elements, cast, copy and fill."""

import numpy as np
from op_rows import row, sample, x, z

F64 = np.dtype(np.float64)
F32 = np.dtype(np.float32)
C128 = np.dtype(np.complex128)

ROWS = [
    row(
        "reshape", sample(x(2, 3), shape=(3, 2)), sample(x(1, 1), shape=()),
        sample(x(), shape=(1,)), sample(x(0, 2), shape=(3, 0)), sample(z(4), shape=(2, 2))),
    row(
        "transpose", sample(x(2, 3), axes=(1, 0)), sample(x(2, 3, 4), axes=(2, 0, 1)),
        sample(x(), axes=()), sample(x(2, 0), axes=(1, 0)), sample(z(2, 3), axes=(1, 0))),
    row(
        "broadcast_to", sample(x(3), shape=(2, 3)), sample(x(2, 1), shape=(4, 2, 3)),
        sample(x(), shape=(2, 2)), sample(1.5, shape=(3,)), sample(x(1), shape=(0,)),
        sample(z(1), shape=(3,))),
    row(
        "concatenate", sample(x(2), x(3), axis=0), sample(x(2, 1), x(2, 3), x(2, 0), axis=1),
        sample(x(2), axis=0), sample(z(2), x(2), axis=0),
        sample(x(2).astype(np.float32), x(2), axis=0), sample(np.arange(2), x(2), axis=0)),
    row(
        "stack", sample(1.5, x(), x(), axis=0), sample(x(2), x(2, seed=1), axis=1),
        sample(x(2, 3), axis=1), sample(z(2), x(2), np.arange(2), axis=0),
        sample(x(2).astype(np.float32), x(2), axis=0), sample(x(0), x(0), axis=1)),
    row(
        "astype", sample(x(3), dtype=F32), sample(x(3).astype(np.float32), dtype=F64),
        sample(x(3), dtype=C128), sample(1.5, dtype=F64), sample(np.arange(3), dtype=F64),
        sample(x(), dtype=F32), sample(x(0, 2), dtype=F32)),
    row("to_discrete", sample(x(3), dtype=np.dtype(np.int64)), sample(x(), dtype=np.dtype(bool))),
    row("after", sample(x(3), 2.5), sample(2.5, x(2)), sample(z(2), x(2))),
    row("identity", sample(x(3)), sample(2.5), sample(z(2)), sample(np.arange(3))),
    row("item", sample(x()), sample(x().astype(np.float32)), sample(2.5), sample(z())),
    row("copy", sample(x(3)), sample(x()), sample(z(2, 2)), sample(x(0)), sample(np.arange(3))),
    row(
        "zeros_like", sample(x(3), shape=(3,), dtype=F64), sample(x(), shape=(2, 2), dtype=F32),
        sample(2.0, shape=(), dtype=F64)),
    row(
        "ones_like", sample(x(3), shape=(3,), dtype=F64), sample(x(), shape=(2, 2), dtype=F32),
        sample(2.0, shape=(), dtype=F64)),
]  # fmt: skip
