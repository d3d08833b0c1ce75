"""`KDTree` and `Delaunay` on tracked points: which points are near, and the triangle that contains
one, has no derivative; distances have one in the points of the query and of the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.spatial

from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.existing_objects import drop_in_of_result, made_by_scipy
from tracker.scipy._bridge.fallback import as_array, is_tracked


class _Tree:
    """Points, and the arguments of the tree that SciPy makes of them; that tree, if they are
    plain."""

    def __init__(self, data: Any, tree: Any = None, options: Any = None) -> None:
        self.data, self._tree, self._options = as_array(data) * 1.0, tree, options or {}
        self.n, self.m = np.shape(self.data)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """The result of a method of SciPy's, without a derivative."""

        def run(data: Any, *args: Any, **options: Any) -> Any:
            tree = self._tree or scipy.spatial.KDTree(data, **self._options)
            return getattr(tree, name)(*args, **options)

        run.__name__ = name
        return call_scipy(run, None if self._tree else self.data, *args, **options)

    def query(
        self,
        x: Any,
        k: Any = 1,
        eps: float = 0.0,
        p: float = 2.0,
        distance_upper_bound: float = np.inf,
        workers: int = 1,
    ) -> Any:
        """Distances and indices of the nearest points."""
        limits = {"eps": eps, "p": p, "distance_upper_bound": distance_upper_bound}
        _, near = self._call("query", x, k, workers=workers, **limits)
        at = as_array(x) * 1.0
        single = np.ndim(near) < np.ndim(at)
        found = np.expand_dims(near, -1) if single else near
        missing = found >= self.n  # SciPy's mark
        points = self.data[np.where(missing, 0, found)]
        between = np.linalg.norm(points - np.expand_dims(at, -2), p, axis=-1)
        distance = np.where(missing, np.inf, between)
        return (distance[..., 0] if single else distance), near

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not callable(getattr(scipy.spatial.KDTree, name)):
            raise AttributeError(name)
        return lambda *args, **options: self._call(name, *args, **options)


@made_by_scipy(scipy.spatial.cKDTree)
def _tree(theirs: Any) -> Any:
    return _Tree(theirs.data, theirs)


@made_by_scipy(scipy.spatial.Delaunay)
class _Triangulation:
    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def find_simplex(self, xi: Any, bruteforce: bool = False, tol: Any = None) -> Any:
        """The simplices that contain points."""
        return call_scipy(self._theirs.find_simplex, xi, bruteforce, tol)


class KDTree:
    """As `scipy.spatial.KDTree`; the points may be tracked."""

    def __new__(cls, data: Any, *args: Any, **options: Any) -> Any:
        if not is_tracked(data):
            return drop_in_of_result(scipy.spatial.KDTree(data, *args, **options))
        names = ("leafsize", "compact_nodes", "copy_data", "balanced_tree", "boxsize")
        return _Tree(data, options=dict(zip(names, args, strict=False)) | options)


class cKDTree(KDTree):
    """The same under its older name."""
