"""Ranges between tracked ends: `linspace`, `logspace`, `geomspace`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.tape.record import aval_of


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = (x if np.isscalar(aval_of(x)) else as_array(x) for x in (start, stop))
    kind = np.result_type(aval_of(start), aval_of(stop), 1.0)  # a Python number takes the other's
    start, stop = (np.astype(as_array(x), kind) for x in (start, stop))
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else np.nan
    ndim = max(np.ndim(start), np.ndim(stop))
    ramp = np.reshape(np.arange(num, dtype=kind), (-1,) + (1,) * ndim)
    y = ramp * (step if steps > 0 else stop - start) + start
    if endpoint and num > 1:
        last = np.broadcast_to(stop, np.shape(y)[1:])
        y = np.concatenate([y[:-1], np.reshape(last, (1, *np.shape(y)[1:]))])
    y = np.moveaxis(y, 0, axis)
    if dtype is not None and np.dtype(dtype).kind in "iu":
        y = np.floor(y)
    y = np.astype(y, kind if dtype is None else dtype)
    return (y, step) if retstep else y


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Powers of the ratio of the ends; the ends are exact."""
    num = operator.index(num)
    start, stop = as_array(start) * 1.0, as_array(stop) * 1.0
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    kind = np.result_type(aval_of(start), aval_of(stop), np.zeros((), dtype))
    start, stop = np.broadcast_arrays(np.astype(start, kind), np.astype(stop, kind))
    ratio = stop / start
    fraction = linspace(0.0, 1.0, num, endpoint)
    fraction = np.reshape(fraction, (-1,) + (1,) * np.ndim(ratio))
    y = start * np.exp(fraction * np.log(ratio))  # NaN between ends of opposite signs
    if num > 0:
        y = np.concatenate([start[None], y[1:]])
    if num > 1 and endpoint:
        y = np.concatenate([y[:-1], stop[None]])
    y = np.moveaxis(y, 0, axis)
    return y if dtype is None else np.astype(y, dtype)


run_as_written(np.logspace)
