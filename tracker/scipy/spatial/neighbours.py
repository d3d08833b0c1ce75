"""`KDTree` and `Delaunay` on tracked points: which points are near, and the triangle that contains
one, has no derivative; distances have one in the points of the query and of the tree."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.spatial

from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.classes import DropIn, with_state
from tracker.scipy._bridge.fallback import as_array, made_by_scipy

_OF_TWO_TREES = ("query_ball_tree", "count_neighbors")


class KDTree(DropIn):
    """Points, and the arguments of the tree that SciPy makes of them."""

    _theirs = scipy.spatial.KDTree
    _instead: ClassVar = {"sparse_distance_matrix": "Use distance_matrix, which is dense"}
    _tree: Any = None  # SciPy's, of plain points

    def __init__(
        self,
        data: Any,
        leafsize: int = 10,
        compact_nodes: bool = True,
        copy_data: bool = False,
        balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:
        self.data, self.leafsize, self.boxsize = as_array(data) * 1.0, leafsize, boxsize
        self._options = {"leafsize": leafsize, "compact_nodes": compact_nodes, "boxsize": boxsize}
        self._options["balanced_tree"] = balanced_tree
        self.n, self.m = np.shape(self.data)

    @property
    def maxes(self) -> Any:
        return np.max(self.data, axis=0)

    @property
    def mins(self) -> Any:
        return np.min(self.data, axis=0)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """The result of a method of SciPy's, without a derivative."""

        def run(data: Any, *args: Any, **options: Any) -> Any:
            tree = self._tree or scipy.spatial.KDTree(data, **self._options)
            if name in _OF_TWO_TREES:
                args = scipy.spatial.KDTree(args[0]), *args[1:]
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
        step = points - np.expand_dims(at, -2)
        if self.boxsize is not None:  # to the nearest image; 0 is no box
            box = np.where(np.asarray(self.boxsize) > 0, self.boxsize, np.inf)
            step = step - np.where(np.isfinite(box), self.boxsize * np.round(step / box), 0.0)
        distance = np.where(missing, np.inf, np.linalg.norm(step, p, axis=-1))
        return (distance[..., 0] if single else distance), near

    def query_ball_point(self, x: Any, r: Any, *args: Any, **options: Any) -> Any:
        """The indices of the points in balls."""
        return self._call("query_ball_point", x, r, *args, **options)

    def query_pairs(self, r: Any, *args: Any, **options: Any) -> Any:
        """The pairs of indices of points that are near each other."""
        return self._call("query_pairs", r, *args, **options)

    def query_ball_tree(self, other: Any, r: Any, *args: Any, **options: Any) -> Any:
        """For each point, the indices of those of another tree in its ball."""
        return self._call("query_ball_tree", other.data, r, *args, **options)

    def count_neighbors(self, other: Any, r: Any, *args: Any, **options: Any) -> Any:
        """How many pairs of points of two trees are near each other."""
        return self._call("count_neighbors", other.data, r, *args, **options)


class cKDTree(KDTree):
    """The same under its older name."""

    _theirs = scipy.spatial.cKDTree


@made_by_scipy(scipy.spatial.cKDTree)
def _tree(theirs: Any) -> Any:
    known = {name: getattr(theirs, name) for name in ("data", "n", "m", "boxsize")}
    return with_state(KDTree, _tree=theirs, **known)


@made_by_scipy(scipy.spatial.Delaunay)
class _Triangulation:
    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def find_simplex(self, xi: Any, bruteforce: bool = False, tol: Any = None) -> Any:
        """The simplices that contain points."""
        return call_scipy(self._theirs.find_simplex, xi, bruteforce, tol)
