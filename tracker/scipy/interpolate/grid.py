"""Interpolation on rectangular grids of any dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import is_increasing, scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn, with_state
from tracker.scipy._bridge.fallback import as_array, made_by_scipy, no_derivative_rule
from tracker.scipy.interpolate.point_value import interval_index
from tracker.tape.tracing.value_guards import speculate_bool


class RegularGridInterpolator(DropIn):
    """Linear or nearest-value interpolation; other methods of SciPy's for plain values only."""

    _theirs = scipy.interpolate.RegularGridInterpolator

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        **options: Any,
    ) -> None:
        self._check_method(method)
        self.grid = tuple(as_array(axis) * 1.0 for axis in points)
        self.values = as_array(values) * 1.0
        decreasing = [i for i, axis in enumerate(self.grid) if _is_decreasing(axis)]
        self.grid = tuple(np.flip(x) if i in decreasing else x for i, x in enumerate(self.grid))
        for axis in self.grid:
            scipy_raises_unless(
                is_increasing(axis), scipy.interpolate.RegularGridInterpolator, points, values
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        sizes = tuple(np.shape(axis)[0] for axis in self.grid)
        if sizes != np.shape(self.values)[: len(sizes)]:
            raise ValueError(
                f"There are {sizes} points, and values of shape {np.shape(self.values)}"
            )
        self.values = np.flip(self.values, tuple(decreasing))

    @staticmethod
    def _check_method(method: str) -> None:
        if method not in ("linear", "nearest"):
            raise no_derivative_rule(
                f"interpolation on a grid with method={method!r}",
                "Use method='linear', or CubicSpline along one axis after the other",
            )

    def __call__(self, xi: Any, method: Any = None) -> Any:
        method = self.method if method is None else method
        self._check_method(method)
        count = len(self.grid)
        points = self._points(xi)
        flat = [np.reshape(points[..., i], (-1,)) for i in range(count)]
        outside: Any = False
        for i, (axis, x) in enumerate(zip(self.grid, flat, strict=True)):
            inside = np.all((x >= axis[0]) & (x <= axis[-1]))
            if self.bounds_error and not speculate_bool(inside, True):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {i}")
            outside = outside | (x < axis[0]) | (x > axis[-1])
        intervals = [interval_index(axis, x) for axis, x in zip(self.grid, flat, strict=True)]
        parts = [
            (x - axis[i]) / (axis[i + 1] - axis[i])
            for axis, x, i in zip(self.grid, flat, intervals, strict=True)
        ]
        interpolate = self._nearest if method == "nearest" else self._linear
        total = interpolate(intervals, parts)
        if not self.bounds_error and self.fill_value is not None:
            total = np.where(self._as_column(outside), self.fill_value, total)
        return np.reshape(total, (*np.shape(points)[:-1], *np.shape(self.values)[count:]))

    def _points(self, xi: Any) -> Any:
        """The points, with their coordinates along the last axis."""
        if isinstance(xi, tuple):
            arrays = [as_array(x) for x in xi]
            shape = np.broadcast_shapes(*map(np.shape, arrays))
            return np.stack([np.broadcast_to(x, shape) for x in arrays], axis=-1) * 1.0
        points = as_array(xi) * 1.0
        points = np.reshape(points, (-1, len(self.grid))) if np.ndim(points) == 1 else points
        if np.shape(points)[-1] != len(self.grid):
            raise ValueError(
                f"The requested sample points xi have dimension {np.shape(points)[-1]} but this "
                f"RegularGridInterpolator has dimension {len(self.grid)}"
            )
        return points

    def _as_column(self, v: Any) -> Any:
        """A vector over the points, shaped to broadcast with values."""
        return np.reshape(v, (-1,) + (1,) * (np.ndim(self.values) - len(self.grid)))

    def _linear(self, intervals: list[Any], parts: list[Any]) -> Any:
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(intervals)):
            weight: Any = 1.0
            for side, part in zip(corner, parts, strict=True):
                weight = weight * (part if side else 1 - part)
            found = self.values[tuple(i + side for i, side in zip(intervals, corner, strict=True))]
            total = total + found * self._as_column(weight)
        return total

    def _nearest(self, intervals: list[Any], parts: list[Any]) -> Any:
        return self.values[tuple(i + (p > 0.5) for i, p in zip(intervals, parts, strict=True))]


def _is_decreasing(axis: Any) -> bool:
    """Whether the points along an axis decrease."""
    return np.size(axis) > 1 and speculate_bool(np.all(np.diff(axis) < 0), False)


def interpn(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """A call of `RegularGridInterpolator`."""
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


@made_by_scipy(scipy.interpolate.RegularGridInterpolator)
def _grid(theirs: Any) -> Any:
    RegularGridInterpolator._check_method(theirs.method)
    names = ("grid", "values", "method", "bounds_error", "fill_value")
    return with_state(RegularGridInterpolator, **{name: getattr(theirs, name) for name in names})
