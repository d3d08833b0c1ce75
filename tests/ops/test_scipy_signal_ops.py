"""Rows of the ops of `tracker.scipy.signal` and `tracker.scipy.special`."""

import numpy as np
from op_rows import row, sample, x

from tracker.scipy import _harmonics, signal

ROWS = [
    row(
        signal.all_pole,
        sample(x(6), np.array([1.0, 0.4, -0.2])),
        sample(x(2, 5), np.array([1.0, 0.3])),
        sample(x(4) + 1j * x(4, seed=1), np.array([1.0, 0.2 + 0.3j])),
        sample(x(4), np.array([1.0])),
    ),
    row(
        _harmonics.sph_legendre,
        sample(3, 1, np.abs(x(4))),
        sample(np.array([[2], [4]]), np.array([[-2], [4]]), np.abs(x(3))),
        sample(2, 0, 0.7),
    ),
]
