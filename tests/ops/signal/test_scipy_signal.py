"""Rows of the ops of `tracker.scipy.signal`, `tracker.scipy.special` and
`tracker.scipy.ndimage`."""

import numpy as np
import scipy.sparse
from op_rows import row, sample, x

from tracker.scipy.sparse.operators import sparse_map
from tracker.scipy.sparse.systems import DirectMethod, SparseSolver

SPARSE = sparse_map(scipy.sparse.csr_array(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -0.5]])))
SOLVER = SparseSolver(
    scipy.sparse.csc_array(np.array([[1, 0, 4], [2, 3, 0], [0, 0, 5]])), DirectMethod()
)
ENTRIES = np.array([3.0, 0.5, 2.0, -1.0, 4.0])
ROWS = [
    row("linear_map", sample(x(3), map=SPARSE), sample(x(3, 2), map=SPARSE)),
    row(
        "sparse_solve",
        sample(ENTRIES, x(3), solver=SOLVER, trans="N"),
        sample(ENTRIES, x(3, 2), solver=SOLVER, trans="T"),
        sample(ENTRIES * (1 + 1j), x(3), solver=SOLVER, trans="T"),
        sample(ENTRIES * (1 - 1j), x(3) * 1j, solver=SOLVER, trans="H")),
    row(
        "all_pole", sample(x(6), np.array([1.0, 0.4, -0.2])), sample(x(2, 5), np.array([1.0, 0.3])),
        sample(x(4) + 1j * x(4, seed=1), np.array([1.0, 0.2 + 0.3j])),
        sample(x(4), np.array([1.0]))),
    row(
        "sph_legendre", sample(3, 1, np.abs(x(4))),
        sample(np.array([[2], [4]]), np.array([[-2], [4]]), np.abs(x(3))), sample(2, 0, 0.7)),
    row(
        "spline_coefficients",
        *(
            sample(x(*shape), order=order, mode=mode)
            for shape, order, mode in (
                ((6,), 3, "mirror"), ((2, 5), 5, "reflect"), ((4,), 2, "grid-wrap"),
                ((1,), 3, "mirror")))),
]  # fmt: skip
