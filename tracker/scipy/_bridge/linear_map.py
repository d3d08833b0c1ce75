"""Linear maps that SciPy computes, as ops: a sparse matrix times an array, the solution of a sparse
system. The op is one, `linear_map`; its param says which map, by identity.

A map is differentiated in what it is applied to only. Its cotangent is the adjoint map of the
cotangent, its tangent the map of the tangent, so derivatives hold to any order. Compiled code calls
it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.lowering import Host
from tracker.ir.op import define
from tracker.ir.types import Type
from tracker.ops.declare.rule_helpers import project
from tracker.tape.record import apply

_MAP_NUMBERS = itertools.count(1)


class LinearMap:
    """A linear map of vectors, or of the columns of a matrix.

    call     of a plain array
    rows     how many rows the result has
    dtype    what results have at least
    adjoint  gives the adjoint map
    """

    def __init__(
        self,
        call: Callable[[Any], Any],
        rows: int,
        dtype: Any,
        adjoint: Callable[[], LinearMap],
        name: str = "matrix",
    ) -> None:
        self.call, self.rows, self.dtype = call, rows, np.dtype(dtype)
        self.adjoint, self.name = adjoint, f"{name} {next(_MAP_NUMBERS)}"

    def __call__(self, x: Any) -> Any:
        """Of a tracked array."""
        return apply(linear_map, (x,), {"map": self})

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def result_dtype(self, x: Any) -> np.dtype[Any]:
        return np.result_type(self.dtype, x.dtype)


def _evaluate(x: Any, *, map: LinearMap) -> Any:
    return np.asarray(map.call(np.asarray(x))).astype(map.result_dtype(x), copy=False)


linear_map = define(
    "linear_map",
    numpy=[],
    method=None,
    entry=None,
    infer=lambda x, *, map: Type((map.rows, *x.shape[1:]), map.result_dtype(x)),
    evaluate=_evaluate,
    jvp=[lambda t, y, x, *, map: map(t)],
    vjp=[lambda g, y, x, *, map: project(map.adjoint()(g), x)],
    lower=Host("a linear map of SciPy's"),
)
