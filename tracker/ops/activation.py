"""Ops under `tracker.nn`: the logistic function, and numbers held fixed.

Owns: `sigmoid` and `held`, and `hold`, which applies it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import View
from tracker.ops.cotangents import match, project
from tracker.ops.declare import declare, map_lowering
from tracker.ops.dtypes import infer_ufunc
from tracker.tape import apply


def _sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):  # 1 / inf is the answer
        if type(x) is np.ndarray and x.ndim and x.dtype.kind in "fc":
            e = np.negative(x)
            np.exp(e, out=e)
            e += 1
            return np.divide(1, e, out=e)
        if np.result_type(x).kind in "biu":  # the dtype that np.exp takes it in
            x = np.multiply(x, 1, dtype=np.exp(np.zeros((), np.result_type(x))).dtype)
        return 1 / (1 + np.exp(-x))


def _slope(y: Any, x: Any) -> Any:
    return y * apply(sigmoid, (x * -1.0,))  # 1 - y has no digits left where y is nearly 1


sigmoid = declare(
    "sigmoid",
    method=None,
    entry=None,
    infer=infer_ufunc(np.exp, None),
    evaluate=_sigmoid,
    jvp=[lambda t, y, x: match(t * _slope(y, x), y)],
    vjp=[
        lambda g, y, x: project(
            g * (np.conjugate(_slope(y, x)) if np.iscomplexobj(x) else _slope(y, x)), x
        )
    ],
    partials=[_slope],
    lower=map_lowering(np.exp, lambda e, x: e.math("sigmoid", x), "fc"),
)
held = declare(
    "held",
    method=None,
    entry=None,
    infer=lambda x: x,
    evaluate=lambda x: x,
    jvp=[None],
    vjp=[None],
    lower=View(lambda e, index, x: (0, index, None), order="V"),
)


def hold(x: Any) -> Any:
    """The numbers of `x`, as a constant for derivatives."""
    return apply(held, (x,))
