"""Differences, gradients, integrals and interpolation along one axis, composed of slices
and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tracker.ops.along_axis.cumulative import axis_slicer
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.casting import cast_error
from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.elementwise.unary import from_parts
from tracker.ops.indexing.subscripts import read_subscript
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.record import aval_of

# Differences --------------------------------------------------------------------------------------


run_as_written(np.diff, np.trapezoid)


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    flat = np.ravel(as_array(ary))
    steps = flat[1:] - flat[:-1]
    ends = [None if e is None else np.ravel(as_array(e)) for e in (to_begin, to_end)]
    for end in ends:
        if end is not None and not np.can_cast(end, flat.dtype, "same_kind"):
            raise TypeError("dtype of `to_end` must be compatible with input `ary`")
    parts = [np.astype(p, flat.dtype) for p in (ends[0], steps, ends[1]) if p is not None]
    return np.concatenate(parts) if len(parts) > 1 else steps


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = as_array(f)
    axes = normalize_axis_tuple(range(np.ndim(f)) if axis is None else axis, np.ndim(f))
    if len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        spacings = varargs * len(axes)
    elif len(varargs) in (0, len(axes)):
        spacings = varargs or (1.0,) * len(axes)
    else:
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if f.dtype.kind in "iu":  # booleans have no differences
        f = np.astype(f, float)
    slopes = [
        in_memory_order(_slope(f, h, i, edge_order), "K", f)
        for i, h in zip(axes, spacings, strict=True)
    ]
    return slopes[0] if len(axes) == 1 else tuple(slopes)


def _slope(f: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    """Central differences inside, one-sided ones of the given order at the ends."""
    n = np.shape(f)[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    steps = _steps(spacing, n, np.ndim(f), axis)
    index = axis_slicer(axis)

    def at(start: int, stop: int | None) -> Any:
        return f[index(slice(start, stop))]

    def step(i: int) -> Any:
        return steps if np.ndim(spacing) == 0 else steps[index(slice(i, i + 1 or None))]

    if np.ndim(spacing) == 0:
        inner = (at(2, None) - at(0, -2)) / (2.0 * steps)
    else:
        h, k = steps[index(slice(0, -1))], steps[index(slice(1, None))]
        inner = (
            -k / (h * (h + k)) * at(0, -2)
            + (k - h) / (h * k) * at(1, -1)
            + h / (k * (h + k)) * at(2, None)
        )
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / step(0)
        last = (at(-1, None) - at(-2, -1)) / step(-1)
    else:
        first = _end_slope(at(0, 1), at(1, 2), at(2, 3), step(0), step(1))
        last = -_end_slope(at(-1, None), at(-2, -1), at(-3, -2), step(-1), step(-2))
    return np.astype(np.concatenate([first, inner, last], axis), f.dtype)


def _steps(spacing: Any, n: int, ndim: int, axis: int) -> Any:
    if np.ndim(spacing) == 0:
        return spacing
    spacing = as_array(spacing)
    if np.ndim(spacing) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if np.size(spacing) != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if spacing.dtype.kind in "iu":
        spacing = np.astype(spacing, float)
    shape = [1] * ndim
    shape[axis] = -1
    return np.reshape(np.diff(spacing), shape)


def _end_slope(a: Any, b: Any, c: Any, h: Any, k: Any) -> Any:
    """The slope at `a` of the parabola through a, b, c, at distances h and then k."""
    return -(2.0 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c


# Sums of slices -----------------------------------------------------------------------------------


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    p = as_array(p)
    axis = normalize_axis_index(axis, np.ndim(p))
    steps = np.diff(p, axis=axis)
    kind = np.result_type(aval_of(steps), aval_of(period))
    is_integer = kind.kind in "iu"
    high, rest = divmod(period, 2) if is_integer else (period / 2, 0)
    low = -high
    jump = np.mod(steps - low, period) + low
    if rest == 0:  # half a period: keep the sign of the step
        jump = np.where((jump == low) & (steps > 0), high, jump)
    is_near = np.abs(steps) < (period / 2 if discont is None else discont)
    turns = np.cumsum(np.where(is_near, 0, jump - steps), axis)
    at = axis_slicer(axis)
    unwrapped = np.concatenate([p[at(slice(1))] + 0 * period, p[at(slice(1, None))] + turns], axis)
    return np.astype(unwrapped, kind)


# Interpolation ------------------------------------------------------------------------------------


@implements(np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """At a knot, the derivative in `x` is the slope to its right (at the last one, to its left)."""
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    for a in (x, xp):
        if (kind := np.result_type(aval_of(a))).kind == "c":
            raise cast_error(kind, np.dtype(float), "safe", is_array=np.ndim(a))
    x, xp = np.astype(x, float), np.astype(xp, float)  # NumPy computes in double precision
    fp = np.astype(fp, complex if np.iscomplexobj(fp) else float)
    if np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp):
        raise ValueError("fp and xp are not of the same length.")
    if np.size(xp) == 0:
        raise ValueError("array of sample points is empty")
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, abs(period))
        left = right = None
    n = np.size(xp)
    low = fp[0] if left is None else left
    high = fp[-1] if right is None else right
    if n == 1:
        inside = fp[0]
    else:
        at = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, n - 2)
        (x0, f0), (x1, f1) = ([read_subscript(p, i)[0] for p in (xp, fp)] for i in (at, at + 1))
        with np.errstate(all="ignore"):  # NumPy's own loop does not warn, either
            inside = (f1 - f0) / (x1 - x0) * (x - x0) + f0
            is_lost = np.isnan(inside) & ~np.isnan(x)
            if np.any(is_lost):
                inside = np.where(is_lost, _near_infinite(x, x0, x1, f0, f1), inside)
    return np.where(x < xp[0], low, np.where(x > xp[-1], high, inside))[()]


def _near_infinite(x: Any, x0: Any, x1: Any, f0: Any, f1: Any) -> Any:
    """NumPy's value beside infinite knots: extrapolated from the left, or else from the right."""
    if np.iscomplexobj(f0):  # each part separately: a complex product would mix them
        parts = (_near_infinite(x, x0, x1, get(f0), get(f1)) for get in (np.real, np.imag))
        return from_parts(*parts)
    slope = (f1 - f0) / (x1 - x0)
    y = slope * (x - x0) + f0
    y = np.where(np.isnan(y), slope * (x - x1) + f1, y)
    y = np.where(np.isnan(y) & (f0 == f1), f0, y)
    return np.where(x == x0, f0, np.where(x == x1, f1, y))


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    """The knots of one period in order, with one more on either side."""
    if period == 0:
        raise ValueError("period must be a non-zero value")
    x, xp = np.mod(x, period), np.mod(xp, period)
    order = np.argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, np.concatenate([fp[-1:], fp, fp[:1]])
