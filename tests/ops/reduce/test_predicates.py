"""Rows of `any`, `all`, `count_nonzero`, `argmax` and `argmin`."""

import numpy as np
from op_rows import row, sample, x, z
from test_reduce import AXES, COMPLEX, EMPTY, INTEGERS

NAN = np.array([[0.5, np.nan, 2.0], [2.0, 1.0, 2.0]])
POSITIONS = [
    *(sample(x(2, 3), axis=None), sample(x(2, 3), axis=1)),
    *(sample(x(2, 3), axis=0, keepdims=True), sample(x(2, 3), axis=None, keepdims=True)),
    *(sample(NAN, axis=None), sample(NAN, axis=0), sample(NAN, axis=-1)),
    *(sample(NAN.astype(np.float32), axis=1),),
    *(sample(np.array([3, 1, 3, 1], dtype=np.int8), axis=0),),
    *(sample(np.array([[False, True], [False, False]]), axis=1), sample(z(2, 3), axis=1)),
]
HOLES = [
    sample(NAN, axis=(0, 1), keepdims=False),
    sample(np.array([[0.0, 1.0], [0.0, np.nan]]), axis=(0,), keepdims=False),
]

ROWS = [
    row("any", *AXES, *EMPTY, *COMPLEX, *INTEGERS, *HOLES),
    row("all", *AXES, *EMPTY, *COMPLEX, *INTEGERS, *HOLES),
    row("argmax", *POSITIONS),
    row("argmin", *POSITIONS),
    row("count_nonzero", *POSITIONS, sample(NAN, axis=(0, 1))),
]
