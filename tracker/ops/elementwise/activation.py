"""The logistic function, and `held`, the identity without a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import View
from tracker.ops.declare.declare import map_lowering, nondiff_op, smooth_op
from tracker.ops.declare.dtypes import infer_ufunc
from tracker.tape.record import apply, aval_of


def _sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):  # 1 / inf is the answer
        if type(x) is np.ndarray and x.ndim and x.dtype.kind in "fc":
            y = np.negative(x)
            np.exp(y, out=y)
            y += 1
            return np.divide(1, y, out=y)
        if np.result_type(x).kind in "biu":  # the dtype in which np.exp computes
            x = np.multiply(x, 1, dtype=np.exp(np.zeros((), np.result_type(x))).dtype)
        return 1 / (1 + np.exp(-x))


def _density(x: Any) -> Any:
    decay = np.exp(-np.abs(x))
    if type(decay) is not np.ndarray:
        return decay / np.square(1 + decay)
    square = 1 + decay
    square *= square
    return np.divide(decay, square, out=decay)


def _density_body(e: Any, x: Any) -> Any:
    decay = e.math("exp", e.neg(e.abs(x)))
    total = e.add(e.constant(1, x), decay)
    return e.div(decay, e.mul(total, total))


# The derivative of the logistic function of real numbers. y * (1 - y) would lose all digits where y
# is nearly 1, and so would its derivative where y is nearly 1/2.
logistic_density = smooth_op(
    "logistic_density",
    infer=infer_ufunc(np.exp, None),
    evaluate=_density,
    partials=[lambda y, x: -y * np.tanh(0.5 * x)],
    lower=map_lowering(np.exp, _density_body, "f"),
)


def _slope(y: Any, x: Any) -> Any:
    if np.iscomplexobj(x):
        return y * apply(sigmoid, (x * -1.0,))
    return apply(logistic_density, (x * 1.0 if np.result_type(aval_of(x)).kind in "biu" else x,))


sigmoid = smooth_op(
    "sigmoid",
    infer=infer_ufunc(np.exp, None),
    evaluate=_sigmoid,
    partials=[_slope],
    lower=map_lowering(np.exp, lambda e, x: e.math("sigmoid", x), "fc"),
)
held = nondiff_op(
    "held",
    infer=lambda x: x,
    evaluate=lambda x: x,
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)


def stop_gradient(x: Any) -> Any:
    """The values of `x`, constant for derivatives."""
    return apply(held, (x,))
