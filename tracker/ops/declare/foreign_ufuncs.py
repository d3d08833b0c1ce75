"""Calls of a ufunc's own inner loop from compiled code, for SciPy's ufuncs and NumPy's FFT.

The op `ufunc_call` computes one result of a ufunc over whole arrays; other ops expand to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import UfuncCall
from tracker.ir.types import Type
from tracker.ops.declare.declare import nondiff_op
from tracker.ops.declare.dtypes import broadcast_shape

LOOP_DTYPE_CHARS = frozenset("dfDFlqi")
"""Dtype characters of the inner loops that compiled code can call."""


def loop_result_chars(ufunc: np.ufunc, letters: str) -> str:
    """The dtype characters of the results of the loop for operands of these dtypes."""
    (found,) = (t.partition("->")[2] for t in ufunc.types if t.partition("->")[0] == letters)
    return found


def _infer(*types: Type, ufunc: np.ufunc, at: int, core: tuple[int, int] | None) -> Type:
    dtype = np.dtype(loop_result_chars(ufunc, "".join(t.dtype.char for t in types))[at])
    return Type(broadcast_shape(types) if core is None else (*types[0].shape[:-1], core[1]), dtype)


def _evaluate(*xs: Any, ufunc: np.ufunc, at: int, core: tuple[int, int] | None) -> Any:
    if core is None:
        found = ufunc(*xs)
        return found[at] if ufunc.nout > 1 else found
    letters = "".join(np.asarray(x).dtype.char for x in xs)
    out = np.empty((*np.shape(xs[0])[:-1], core[1]), loop_result_chars(ufunc, letters)[at])
    return ufunc(*xs, out=out)


ufunc_call = nondiff_op("lent", infer=_infer, evaluate=_evaluate, lower=UfuncCall())
