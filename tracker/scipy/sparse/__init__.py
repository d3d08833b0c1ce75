"""`scipy.sparse` on tracked values. Names that are not defined here are SciPy's own.

A sparse array made of tracked entries is a `TrackedSparse` (`tracked_array.py`, `construct.py`):
fixed places, and a vector of entries in which everything is differentiated. `operators.py` has the
products of plain sparse arrays with tracked dense ones; `linalg.py` and `systems.py` solve systems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.sparse

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.sparse import linalg as linalg
from tracker.scipy.sparse.construct import CONSTRUCTORS
from tracker.support.library_hooks import run_hooks

globals().update(CONSTRUCTORS)
if TYPE_CHECKING:
    from scipy.sparse import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.sparse, accept_tracked=[name for name in dir(scipy.sparse) if name.startswith("iss")]
    )
run_hooks()
