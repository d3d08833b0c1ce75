"""Rows of the reductions, and of what is composed of them."""

import numpy as np
from op_rows import row, sample, x, z

from tracker.ops import reduce

AXES = [
    sample(x(2, 3), axis=(0, 1), keepdims=False),
    sample(x(2, 3), axis=(1,), keepdims=True),
    sample(x(2, 3, 2), axis=(0, 2), keepdims=False),
    sample(x(3), axis=(0,), keepdims=False),
    sample(x(), axis=(), keepdims=False),
    sample(x(2, 1), axis=(), keepdims=True),
    sample(x(1, 3, 1), axis=(0, 2), keepdims=False),
]
EMPTY = [
    sample(x(0), axis=(0,), keepdims=False),
    sample(x(2, 0), axis=(1,), keepdims=True),
    sample(x(0, 3), axis=(1,), keepdims=False),
]
COMPLEX = [
    sample(z(2, 3), axis=(0, 1), keepdims=False),
    sample(z(2, 3), axis=(1,), keepdims=True),
]
INTEGERS = [
    sample(np.arange(6).reshape(2, 3), axis=(0,), keepdims=False),
    sample(np.array([True, False]), axis=(0,), keepdims=False),
    sample(np.arange(6, dtype=np.int8).reshape(2, 3), axis=(0, 1), keepdims=False),
]
ZEROS = [
    sample(np.array([0.0, 2.0, 3.0]), axis=(0,), keepdims=False),
    sample(np.array([0.0, 2.0, 0.0, 3.0]), axis=(0,), keepdims=False),
    sample(np.array([[0.0, 2.0], [0.0, 0.0]]), axis=(1,), keepdims=False),
    sample(np.zeros(3), axis=(0,), keepdims=True),
]

ROWS = [
    row(reduce.sum_, *AXES, *EMPTY, *COMPLEX, *INTEGERS),
    row(reduce.mean_, *AXES, EMPTY[2], *COMPLEX, *INTEGERS),
    row(reduce.prod_, *AXES, *EMPTY, *COMPLEX, *INTEGERS, *ZEROS),
    row(reduce.max_, *AXES, *INTEGERS),
    row(reduce.min_, *AXES, *INTEGERS),
]
