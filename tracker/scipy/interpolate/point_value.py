"""Values of a plain function of points, one for each, whose derivatives are known: the op
`point_value`. A trace has formulas instead, which it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.scipy._bridge.fallback import as_array
from tracker.tape.observers import is_tracing
from tracker.tape.record import apply

Curve = Callable[[Any, int], Any]  # the derivative of an order at plain points


def is_one_op(values: Any) -> bool:
    """Whether to record the op for a curve through these values."""
    return values.ndim == 1 and values.dtype.kind == "f" and not is_tracing()


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
