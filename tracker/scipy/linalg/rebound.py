"""SciPy's own functions of matrices that call others of this package, and structured matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.linalg

from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.linalg import matrix_functions  # noqa: F401 (whose functions are used)
from tracker.scipy.linalg.batching import over_batches

# The axes of one element of each argument; the functions that are not here take stacks themselves.
_CORES: dict[str, dict[str, int | None]] = {
    "polar": {"a": 2},
    "orth": {"A": 2},
    "orthogonal_procrustes": {"A": 2, "B": 2},
    "subspace_angles": {"A": 2, "B": 2},
    "khatri_rao": {"a": 2, "b": 2},
    "companion": {"a": 1},
    "leslie": {"f": 1, "s": 1},
    "fiedler": {"a": 1},
    "convolution_matrix": {"a": 1},
}


def _over_stacks(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    return (
        over_batches(name, like=getattr(scipy.linalg, name), **_CORES[name])(run)
        if name in _CORES
        else run
    )


Rebinding().drop_in(
    scipy.linalg,
    """
    polar orth orthogonal_procrustes subspace_angles khatri_rao companion leslie fiedler
    convolution_matrix cosm sinm tanm coshm sinhm tanhm diagsvd solve_circulant block_diag
    eigvals eigvalsh eigvals_banded eigvalsh_tridiagonal
    """,
    _over_stacks,
)
