"""`scipy.sparse` on tracked values: products of plain sparse arrays with tracked dense ones, and
(in `linalg.py`) solutions of sparse systems. What is not defined here is SciPy's own.

Importing this module makes `A @ x`, `x @ A`, `A.dot(x)` and, of sparse matrices, `A * x` work, for
SciPy's own arrays: their product of matrices then steps aside for tracked operands.
"""

from __future__ import annotations

import scipy.sparse

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.sparse import _products  # noqa: F401  (for its effect)
from tracker.scipy.sparse import linalg as linalg

__getattr__ = scipy_fallback(scipy.sparse)
