"""`interp1d` of any kind."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.interpolate

from tracker.scipy._bridge.checks import are_finite, is_increasing, scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn, with_state
from tracker.scipy._bridge.fallback import as_array, made_by_scipy
from tracker.scipy.interpolate.bspline import interpolating_bspline, spline_of_scipy
from tracker.scipy.interpolate.cubic_spline import CubicSpline
from tracker.scipy.interpolate.point_value import (
    as_column,
    interval_index,
    is_one_op,
    restore_axes,
    value_at,
)

_make_interp_spline = scipy.interpolate.make_interp_spline
_ORDERS = {"zero": 0, "slinear": 1, "linear": 1, "quadratic": 2, "cubic": 3}
_JUMPS = ("nearest", "nearest-up", "previous", "next")


def _evaluate_by_scipy(
    options: tuple[Any, ...], assume_sorted: bool, at: Any, x: Any, y: Any, fill: Any
) -> Any:
    return scipy.interpolate.interp1d(x, y, *options, fill, assume_sorted)(at)


class interp1d(DropIn):
    """Interpolation of any kind: by a spline, or constant between jumps."""

    _theirs = scipy.interpolate.interp1d

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
        self._values = np.moveaxis(y, self.axis, 0)
        scipy_raises_unless(
            np.shape(self.x) == np.shape(self._values)[:1],
            self._evaluate_by_scipy,
            x,
            *self._scipy_args,
        )
        if not assume_sorted:
            at = np.argsort(self.x, kind="mergesort")
            self.x, self._values = self.x[at], self._values[at]
        self.fill_value, self.kind = fill_value, kind
        self.extrapolate = isinstance(fill_value, str) and fill_value == "extrapolate"
        self.bounds_error = not self.extrapolate if bounds_error is None else bounds_error
        if self.extrapolate and kind in ("previous", "next"):  # beyond one end only
            self.extrapolate = False
            self.fill_value = (
                (np.nan, self._values[-1]) if kind == "previous" else (self._values[0], np.nan)
            )
        self.spline: Any = None
        if order not in (*_JUMPS, 1):
            scipy_raises_unless(
                is_increasing(self.x) & are_finite(self._values),
                self._evaluate_by_scipy,
                x,
                *self._scipy_args,
            )
            self.spline = (
                CubicSpline(self.x, self._values)
                if order == 3
                else interpolating_bspline(
                    self.x, self._values, order, None, 0, _make_interp_spline
                )
            )

    @property
    def y(self) -> Any:
        return np.moveaxis(self._values, 0, self.axis)

    @property
    def dtype(self) -> type[Any]:
        return np.result_type(self._values.dtype, np.float64).type

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
            low, high = (
                self.fill_value
                if isinstance(self.fill_value, tuple)
                else (self.fill_value, self.fill_value)
            )
            value = np.where(as_column(below, self._values), low, value)
            value = np.where(as_column(above, self._values), high, value)
        return restore_axes(value, points, self.axis)

    def _value(self, flat: Any) -> Any:
        if self.spline is not None:
            return self.spline(flat)
        if self.kind in _JUMPS:
            return self._values[self._node(flat)]
        i = interval_index(self.x, flat)
        part = as_column((flat - self.x[i]) / (self.x[i + 1] - self.x[i]), self._values)
        return self._values[i] + part * (self._values[i + 1] - self._values[i])

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


@made_by_scipy(scipy.interpolate.interp1d)
class _Interpolant:
    """`interp1d` of any kind."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __call__(self, x: Any) -> Any:
        if is_one_op(self._theirs.y):
            return value_at(x, self._derivative)
        return self._formula()(x)

    def _derivative(self, at: Any, order: int) -> Any:
        theirs = self._theirs
        if order == 0:
            return theirs(at)
        if hasattr(theirs, "_spline"):
            slope = np.reshape(theirs._spline(at, order), at.shape)
        elif theirs._kind == "linear" and order == 1:
            slope = (np.diff(theirs.y) / np.diff(theirs.x))[interval_index(theirs.x, at)]
        else:
            slope = np.zeros(at.shape)
        inside = theirs._extrapolate | ((at >= theirs.x[0]) & (at <= theirs.x[-1]))
        return np.where(inside, slope, 0.0)

    def _formula(self) -> Any:
        """An object of ours in the same state."""
        theirs = self._theirs
        axis = theirs.axis % np.ndim(theirs.y)
        y = np.moveaxis(theirs.y, axis, 0)
        spline = getattr(theirs, "_spline", None)
        evaluate: Any = spline and spline_of_scipy(spline)
        return with_state(
            interp1d,
            **{name: getattr(theirs, name) for name in ("x", "bounds_error")},
            _values=y,
            axis=axis,
            kind=theirs._kind,
            extrapolate=theirs._extrapolate,
            spline=spline and (lambda x: np.reshape(evaluate(x), (-1, *np.shape(y)[1:]))),
            fill_value=tuple(
                getattr(theirs, f"_fill_value_{end}", None) for end in ("below", "above")
            ),
            _evaluate_by_scipy=theirs.__call__,
            _scipy_args=(),
        )
