"""Ufunc calls beyond the plain one: `out=`, `where=`, `dtype=`, and the methods.

Of the methods, `reduce` leads to the reductions, `accumulate` to the cumulative functions, `outer`
to broadcasting, `at` (of add and subtract) to writing; `reduceat` is refused.
Owns: the handler behind `Tracked.__array_ufunc__`. Start at `protocol`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError, message
from tracker.ir.op import NUMPY, UFUNCS, Op
from tracker.ops import index
from tracker.ops.declare import into, refuse
from tracker.tape import apply, data_of
from tracker.tracked import Tracked, set_ufunc_protocol

_PYTHON_NUMBERS = (float, int, complex)


def call(op: Op, operands: tuple[Any, ...]) -> Any:
    """A ufunc applied by name: Python numbers become NumPy's first, as NumPy itself does."""
    if all(type(data_of(x)) in _PYTHON_NUMBERS for x in operands):
        operands = tuple(np.astype(x, np.result_type(data_of(x))) for x in map(_as_array, operands))
    return apply(op, operands)


def _as_array(x: Any) -> Any:
    return x if isinstance(x, Tracked) else np.asarray(x)


def protocol(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `Tracked.__array_ufunc__` does with everything but the plain call of a common ufunc."""
    if method == "__call__":
        return _call(ufunc, inputs, dict(kwargs))
    folded = _FOLDS.get((ufunc, method))
    if folded in NUMPY:
        names = ("axis", "dtype", "out", "keepdims", "initial", "where")
        given = {"axis": 0, **dict(zip(names, inputs[1:], strict=False)), **kwargs}
        kept = {k: v for k, v in given.items() if v is not None or k == "axis"}
        return NUMPY[folded](inputs[0], **kept)
    if method == "outer" and ufunc.nin == 2:
        a, b = map(_as_array, inputs)
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)
    if method == "at" and ufunc in (np.add, np.subtract):
        target, key, values = inputs
        return _at(target, key, values, -1 if ufunc is np.subtract else 1)
    raise UnsupportedError(
        message(
            f"np.{ufunc.__name__}.{method} has no derivative rule here",
            "Write it with the plain functions, or use tracker.data(x) where no gradient is wanted",
        )
    )


_FOLDS: dict[tuple[Any, str], Any] = {
    (np.add, "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
}


def _at(target: Any, key: Any, values: Any, sign: int) -> None:
    """target[key] += sign * values, where every repetition of a place counts."""
    if not isinstance(target, Tracked):
        raise ConversionError(
            message(
                "ufunc.at would store a tracked value into a plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    added = index.added(np.shape(target), key, values)
    target += np.astype(sign * added, target.dtype)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    refuse(f"np.{ufunc.__name__}", **kwargs)
    op = UFUNCS.get(ufunc)
    if op is None and ufunc not in NUMPY:
        raise UnsupportedError(
            message(
                f"np.{ufunc.__name__} has no derivative rule here",
                "Use tracker.data(x) where no gradient is wanted, or write a rule with "
                "tracker.rrule",
            )
        )
    if dtype is not None:
        inputs = tuple(np.astype(_as_array(x), dtype) for x in inputs)
    result = NUMPY[ufunc](*inputs) if op is None else call(op, inputs)
    target = out[0] if isinstance(out, tuple) else out
    if target is None:
        if where is not True:
            raise UnsupportedError(
                message(
                    f"np.{ufunc.__name__} with where= and without out= leaves elements undefined",
                    "Give out=, or use np.where(mask, ..., other)",
                )
            )
        return result
    return into(target, result if where is True else np.where(where, result, target))


set_ufunc_protocol(protocol)
