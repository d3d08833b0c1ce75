"""Dtypes of ufunc loops and result types.

NumPy itself is the reference: types come from `ufunc.resolve_dtypes`, or from running a function on
an example. Start at `infer_ufunc`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.ir.types import Type, type_of
from tracker.ops.declare.arguments import as_array, dtype_of
from tracker.ops.declare.casting import cast_for_store
from tracker.tape.record import aval_of

_WEAK_PYTHON = {"f": float, "i": int, "c": complex}


def loop_dtypes(ufunc: np.ufunc, types: Sequence[Type]) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the ufunc's inner loop for these operand types: operands, then results."""
    return _loop_dtypes(ufunc, *[(t.dtype, t.weak) for t in types])


@functools.lru_cache(maxsize=512)
def _loop_dtypes(ufunc: np.ufunc, *kinds: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], ...]:
    mixed = not all(weak for _, weak in kinds)  # NumPy lets weak operands alone be of any size
    given = [_WEAK_PYTHON[dtype.kind] if weak and mixed else dtype for dtype, weak in kinds]
    return ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))


def broadcast_shape(types: Sequence[Type]) -> tuple[int, ...]:
    """The shape of an elementwise result."""
    if len(types) == 1:
        return types[0].shape
    shapes = {t.shape for t in types}
    shapes.discard(())
    if len(shapes) < 2:
        return shapes.pop() if shapes else ()
    return cached_broadcast_shapes(*shapes)


cached_broadcast_shapes = functools.lru_cache(maxsize=1024)(np.broadcast_shapes)


def infer_ufunc(ufunc: np.ufunc, python: Callable[..., Any] | None) -> Callable[..., Type]:
    """`infer` of a ufunc; `python` is the operator that Python numbers use instead."""

    def infer(*types: Type) -> Type:
        if python is not None and (all(t.weak for t in types) or _is_complex_with_float64(types)):
            return type_of(python(*(_WEAK_PYTHON[t.dtype.kind](1) for t in types)))
        return Type(broadcast_shape(types), loop_dtypes(ufunc, types)[ufunc.nin])

    return infer


def _is_complex_with_float64(types: Sequence[Type]) -> bool:
    """Whether the operands are Python's complex and NumPy's float64, which is a Python float."""
    return len(types) == 2 and types[0] == _COMPLEX and types[1] == _FLOAT64


_COMPLEX, _FLOAT64 = type_of(0j), type_of(np.float64(0.0))


def result_dtype_by_example(
    function: Callable[..., Any],
) -> Callable[[np.dtype[Any]], np.dtype[Any]]:
    """The result dtype of a NumPy function per operand dtype, found by calling it once."""
    return functools.cache(lambda dtype: function(np.ones(1, dtype)).dtype)


def infer_by_example(evaluate: Callable[..., Any]) -> Callable[..., Type]:
    """`infer` of an op whose result type depends on operand types and params only: run it
    on zeros."""

    def infer(*types: Type, **params: Any) -> Type:
        with np.errstate(all="ignore"):
            samples = [np.broadcast_to(np.zeros((), t.dtype), t.shape) for t in types]
            return type_of(evaluate(*samples, **params))

    return infer


def cast_to_loop(
    ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any, signature: Any, casting: Any
) -> tuple[Any, ...]:
    """Operands in the dtypes of the loop that `dtype=` and `signature=` of a ufunc call select;
    errors are NumPy's."""
    if signature is None and dtype is not None:
        signature = (None,) * ufunc.nin + (dtype_of(dtype),) * ufunc.nout
    weak = (int, float, complex)
    inputs = [x if type(aval_of(x)) in weak else as_array(x) for x in inputs]
    avals = map(aval_of, inputs)
    kinds: list[Any] = [type(f) if type(f) in weak else np.result_type(f) for f in avals]
    selection = {} if signature is None else {"signature": signature}
    unknown = (None,) * ufunc.nout
    if any(type(kind) is type for kind in kinds):  # Python's numbers fit any casting
        loop = ufunc.resolve_dtypes((*kinds, *unknown), casting="unsafe", **selection)
        kinds = [d if type(k) is type else k for k, d in zip(kinds, loop, strict=False)]
    found = ufunc.resolve_dtypes((*kinds, *unknown), casting=casting, **selection)
    pairs = list(zip(inputs, found, strict=False))
    return tuple(
        cast_for_store(x, d) if type(aval_of(x)) is int else np.astype(as_array(x), d)
        for x, d in pairs
    )
