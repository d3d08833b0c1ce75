"""`scipy.sparse` on tracked values: products of plain sparse arrays with tracked dense ones, and
(in `linalg.py`) solutions of sparse systems. Names that are not defined here are SciPy's own.

Importing this module installs the operators `A @ x`, `x @ A`, `A.dot(x)` and, for sparse matrices,
`A * x` on SciPy's own classes: their product returns NotImplemented for tracked operands.
"""

from __future__ import annotations

import scipy.sparse

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.sparse import _products  # noqa: F401  (for its effect)
from tracker.scipy.sparse import linalg as linalg

__getattr__ = scipy_fallback(scipy.sparse)
