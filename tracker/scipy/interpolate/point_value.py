"""Values at points: the axes of points among those of values, and the op `point_value` for a plain
function of points, one value for each, whose derivatives are known. A trace has formulas instead,
which it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.scipy._bridge.fallback import as_array, is_tracked
from tracker.tape.observers import is_tracing
from tracker.tape.record import apply

Curve = Callable[[Any, int], Any]  # the derivative of an order at plain points


def as_column(v: Any, y: Any) -> Any:
    """The vector v along the first axis of an array like y."""
    if np.ndim(y) == 1:
        return v
    return np.reshape(v, (-1,) + (1,) * (np.ndim(y) - 1))


def interval_index(x: Any, points: Any) -> Any:
    """The index of the interval that contains each point; the first or last one for points
    outside."""
    return np.clip(np.searchsorted(x, points, side="right") - 1, 0, np.shape(x)[0] - 2)


def restore_axes(value: Any, points: Any, axis: int) -> Any:
    """Values whose first axis runs over the points, with that axis moved to `axis` and reshaped to
    the points' shape."""
    if np.ndim(points) != 1:
        value = np.reshape(value, np.shape(points) + np.shape(value)[1:])
    count = np.ndim(points)
    order = list(range(count, count + axis)) + list(range(count))
    order += list(range(count + axis, np.ndim(value)))
    return np.transpose(value, order) if order != list(range(np.ndim(value))) else value


def definite_integral(
    whole: Callable[[Any], Any], a: Any, b: Any, period: tuple[Any, Any] | None
) -> Any:
    """The integral from a to b, by an antiderivative; `period` has the ends of one, if the function
    repeats itself."""
    if period is None:
        return whole(b) - whole(a)
    low, high = period
    of_period = whole(high) - whole(low)

    def repeated(t: Any) -> Any:
        turns = np.floor((t - low) / (high - low))
        return turns * of_period + whole(t - turns * (high - low))

    return repeated(b) - repeated(a)


def is_one_op(values: Any, *others: Any) -> bool:
    """Whether to record the op for a curve through these values."""
    if is_tracked(values, *others) or is_tracing():
        return False
    return bool(values.ndim == 1 and values.dtype.kind == "f")


def value_at(points: Any, curve: Curve, order: int = 0) -> Any:
    """The derivative of an order, at points that may be tracked."""
    return apply(point_value, (as_array(points) * 1.0,), {"curve": curve, "order": order})


def _slope(x: Any, curve: Curve, order: int) -> Any:
    return apply(point_value, (x,), {"curve": curve, "order": order + 1})


point_value = declare(
    "point_value",
    infer=lambda x, *, curve, order: Type(x.shape, np.dtype(float)),
    evaluate=lambda x, *, curve, order: np.asarray(curve(np.asarray(x), order), float),
    jvp=[lambda t, y, x, *, curve, order: t * _slope(x, curve, order)],
    vjp=[lambda g, y, x, *, curve, order: project(g * _slope(x, curve, order), x)],
    lower=Host("a spline of SciPy's"),
)
