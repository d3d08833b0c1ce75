"""`scipy.spatial` on tracked values: distances (`distance.py`), rotations (`transform.py`) and
nearest points (`neighbours.py`). Names that are not defined here are SciPy's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.spatial

from tracker.scipy._bridge.classes import constructors
from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.spatial import distance as distance
from tracker.scipy.spatial import transform as transform
from tracker.scipy.spatial.neighbours import KDTree as KDTree
from tracker.scipy.spatial.neighbours import cKDTree as cKDTree

if TYPE_CHECKING:
    from scipy.spatial import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.spatial)
Rebinding().drop_in(
    scipy.spatial, "distance_matrix minkowski_distance minkowski_distance_p procrustes"
)
globals().update(DROP_INS[scipy.spatial])
globals().update(constructors(scipy.spatial, globals()))
