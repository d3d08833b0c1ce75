"""`interp1d` of any kind."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.interpolate.bspline import interpolating_bspline
from tracker.scipy.interpolate.cubic_hermite import as_column, interval_index, restore_axes
from tracker.scipy.interpolate.cubic_spline import CubicSpline

_make_interp_spline = scipy.interpolate.make_interp_spline
_ORDERS = {"zero": 0, "slinear": 1, "linear": 1, "quadratic": 2, "cubic": 3}
_JUMPS = ("nearest", "nearest-up", "previous", "next")


def _evaluate_by_scipy(
    options: tuple[Any, ...], assume_sorted: bool, at: Any, x: Any, y: Any, fill: Any
) -> Any:
    return scipy.interpolate.interp1d(x, y, *options, fill, assume_sorted)(at)


class interp1d:
    """Interpolation of any kind: by a spline, or constant between jumps."""

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        self._evaluate_by_scipy = functools.partial(
            _evaluate_by_scipy, (kind, axis, copy, bounds_error), assume_sorted
        )
        self._scipy_args = x, y, fill_value
        order = _ORDERS.get(kind, kind)
        if order not in _JUMPS and not isinstance(order, int):
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        self.x, y = as_array(x), as_array(y)
        self.axis = axis % np.ndim(y)
        self.y = np.moveaxis(y, self.axis, 0)
        scipy_raises_unless(
            np.shape(self.x) == np.shape(self.y)[:1], self._evaluate_by_scipy, x, *self._scipy_args
        )
        if not assume_sorted:
            at = np.argsort(self.x, kind="mergesort")
            self.x, self.y = self.x[at], self.y[at]
        self.fill, self.kind = fill_value, kind
        self.extrapolate = isinstance(fill_value, str) and fill_value == "extrapolate"
        self.bounds_error = not self.extrapolate if bounds_error is None else bounds_error
        if self.extrapolate and kind in ("previous", "next"):  # beyond one end only
            self.extrapolate = False
            self.fill = (np.nan, self.y[-1]) if kind == "previous" else (self.y[0], np.nan)
        self.spline: Any = None
        if order not in (*_JUMPS, 1):
            scipy_raises_unless(
                is_increasing(self.x) & are_finite(self.y),
                self._evaluate_by_scipy,
                x,
                *self._scipy_args,
            )
            self.spline = (
                CubicSpline(self.x, self.y)
                if order == 3
                else interpolating_bspline(self.x, self.y, order, None, 0, _make_interp_spline)
            )

    def __call__(self, x: Any) -> Any:
        points = as_array(x)
        flat = np.reshape(points, (-1,))
        below, above = flat < self.x[0], flat > self.x[-1]
        if self.bounds_error and not self.extrapolate:
            scipy_raises_unless(
                ~np.any(below | above), self._evaluate_by_scipy, x, *self._scipy_args
            )
        value = self._value(flat)
        if not self.extrapolate:
            low, high = self.fill if isinstance(self.fill, tuple) else (self.fill, self.fill)
            value = np.where(as_column(below, self.y), low, value)
            value = np.where(as_column(above, self.y), high, value)
        return restore_axes(value, points, self.axis)

    def _value(self, flat: Any) -> Any:
        if self.spline is not None:
            return self.spline(flat)
        if self.kind in _JUMPS:
            return self.y[self._node(flat)]
        i = interval_index(self.x, flat)
        part = as_column((flat - self.x[i]) / (self.x[i + 1] - self.x[i]), self.y)
        return self.y[i] + part * (self.y[i + 1] - self.y[i])

    def _node(self, flat: Any) -> Any:
        """The node whose value counts at each point."""
        if self.kind == "previous":
            found = np.searchsorted(self.x, flat, side="right") - 1
        elif self.kind == "next":
            found = np.searchsorted(self.x, flat, side="left")
        else:
            middle = self.x[1:] / 2.0 + self.x[:-1] / 2.0
            side: Any = "left" if self.kind == "nearest" else "right"
            found = np.searchsorted(middle, flat, side=side)
        return np.clip(found, 0, np.shape(self.x)[0] - 1)
