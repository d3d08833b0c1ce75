"""Linear maps that SciPy computes (products with sparse matrices, solutions of sparse systems), as
the op `linear_map`, whose parameter identifies the map.

A map is differentiated in its operand only. The tangent is the map of the operand's tangent, the
cotangent the adjoint map of the cotangent, so derivatives of any order exist. Compiled code calls
the map back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.tape.record import apply

_MAP_NUMBERS = itertools.count(1)


class LinearMap:
    """A linear map of vectors, or of the columns of a matrix.

    call     the map of a plain array
    rows     the number of rows of the result
    dtype    the least dtype of results
    adjoint  makes the adjoint map
    places   gives a sparse array, of any numbers, with the places where the matrix may be nonzero
    """

    def __init__(
        self,
        call: Callable[[Any], Any],
        rows: int,
        dtype: Any,
        adjoint: Callable[[], LinearMap],
        name: str = "matrix",
        places: Callable[[], Any] | None = None,
    ) -> None:
        self.call, self.rows, self.dtype = call, rows, np.dtype(dtype)
        self.adjoint, self.name = adjoint, f"{name} {next(_MAP_NUMBERS)}"
        self.places = places

    def __call__(self, x: Any) -> Any:
        """The map of a tracked array."""
        return apply(linear_map, (x,), {"map": self})

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def result_dtype(self, x: Any) -> np.dtype[Any]:
        return np.result_type(self.dtype, x.dtype)


def _evaluate(x: Any, *, map: LinearMap) -> Any:
    return np.asarray(map.call(np.asarray(x))).astype(map.result_dtype(x), copy=False)


linear_map = declare(
    "linear_map",
    infer=lambda x, *, map: Type((map.rows, *x.shape[1:]), map.result_dtype(x)),
    evaluate=_evaluate,
    jvp=[lambda t, y, x, *, map: map(t)],
    vjp=[lambda g, y, x, *, map: project(map.adjoint()(g), x)],
    lower=Host("a linear map of SciPy's"),
)
