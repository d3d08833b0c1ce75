"""`scipy.spatial` on tracked values: distances (`distance.py`) and rotations (`transform.py`).
Names that are not defined here are SciPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.spatial

from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy.spatial import distance as distance
from tracker.scipy.spatial import transform as transform

__getattr__ = scipy_fallback(scipy.spatial)


@drop_in(scipy.spatial)
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    """The p-th power of the distance (the distance itself for p = 1 and infinity)."""
    difference = np.abs(as_array(y) - as_array(x)) * 1.0
    if p == np.inf:
        return np.max(difference, axis=-1)
    return np.sum(difference if p == 1 else difference**p, axis=-1)


@drop_in(scipy.spatial)
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    return np.linalg.norm((as_array(y) - as_array(x)) * 1.0, p, axis=-1)


@drop_in(scipy.spatial)
def distance_matrix(x: Any, y: Any, p: Any = 2.0, threshold: int = 1000000) -> Any:
    """The distances of all rows of x from all rows of y."""
    x, y = as_array(x), as_array(y)
    if np.shape(x)[-1] != np.shape(y)[-1]:
        raise ValueError(
            f"x contains {np.shape(x)[-1]}-dimensional vectors but y contains "
            f"{np.shape(y)[-1]}-dimensional vectors"
        )
    return minkowski_distance(np.expand_dims(x, 1), np.expand_dims(y, 0), p)


@drop_in(scipy.spatial)
def procrustes(data1: Any, data2: Any) -> tuple[Any, Any, Any]:
    """Both sets of points centred and scaled to unit norm, the second one rotated and scaled to fit
    the first; and the remaining squared difference."""
    one, two = as_array(data1) * 1.0, as_array(data2) * 1.0
    if np.ndim(one) != 2 or np.shape(one) != np.shape(two):
        raise ValueError("Input matrices must be two-dimensional, and of the same shape")
    one, two = (m - np.mean(m, axis=0) for m in (one, two))
    fine = (np.linalg.norm(one) != 0) & (np.linalg.norm(two) != 0)
    scipy_raises_unless(fine, scipy.spatial.procrustes, data1, data2)
    one, two = one / np.linalg.norm(one), two / np.linalg.norm(two)
    u, s, vh = np.linalg.svd(np.transpose(np.transpose(two) @ one))
    two = (two @ np.transpose(u @ vh)) * np.sum(s)
    return one, two, np.sum(np.square(one - two))
