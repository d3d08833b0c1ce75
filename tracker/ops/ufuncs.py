"""Ufunc calls beyond the plain one: `out=`, `where=`, `dtype=`, and the methods `reduce`, ...

Owns: the handler behind `Tracked.__array_ufunc__`. Start at `protocol`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError, message
from tracker.ir.op import NUMPY, UFUNCS, Op
from tracker.ops.declare import refuse
from tracker.tape import apply, data_of
from tracker.tracked import Tracked, set_ufunc_protocol

_PYTHON_NUMBERS = (float, int, complex)


def call(op: Op, operands: tuple[Any, ...]) -> Any:
    """A ufunc applied by name: Python numbers become NumPy's first, as NumPy itself does."""
    if len(operands) > 1 and all(type(data_of(x)) in _PYTHON_NUMBERS for x in operands):
        operands = tuple(np.astype(x, np.result_type(data_of(x))) for x in map(_as_array, operands))
    return apply(op, operands)


def _as_array(x: Any) -> Any:
    return x if isinstance(x, Tracked) else np.asarray(x)


def protocol(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `Tracked.__array_ufunc__` does with everything but the plain call of a common ufunc."""
    if method == "__call__":
        return _call(ufunc, inputs, dict(kwargs))
    reducer = _REDUCTIONS.get(ufunc)
    if method == "reduce" and reducer is not None:
        kwargs = {"axis": 0, **kwargs}
        return NUMPY[reducer](
            *inputs, **{k: v for k, v in kwargs.items() if v is not None or k == "axis"}
        )
    raise UnsupportedError(
        message(
            f"np.{ufunc.__name__}.{method} has no derivative rule here",
            "Write it with the plain functions, or use tracker.data(x) where no gradient is wanted",
        )
    )


_REDUCTIONS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}


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
                "Use tracker.data(x) where no gradient is wanted, or write a rule with tracker.rrule",
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
    return _store(ufunc, target, result, where)


def _store(ufunc: np.ufunc, target: Any, result: Any, where: Any) -> Any:
    if not isinstance(target, Tracked):
        raise ConversionError(
            message(
                f"np.{ufunc.__name__}(..., out=) would store a tracked value of shape "
                f"{np.shape(result)} into a plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    if where is not True:
        result = np.where(where, result, target)
    if np.can_cast(np.result_type(data_of(result)), target.dtype, "same_kind"):
        target[...] = result  # type: ignore[index]
        return target
    raise TypeError(
        f"Cannot cast np.{ufunc.__name__} output from dtype {np.result_type(data_of(result))!r} "
        f"to dtype {target.dtype!r} with casting rule 'same_kind'"
    )


set_ufunc_protocol(protocol)
