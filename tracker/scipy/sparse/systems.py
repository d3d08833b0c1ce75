"""Linear systems with a sparse matrix whose entries are tracked: the op `sparse_solve`.

The cotangent of an entry at (i, j) is -lam[i] conj(x[j]), where lam is the cotangent of the right
side: nothing dense is formed. The factors of the latest matrix are kept, so that the adjoint system
of a backward pass is solved with those of the forward pass. Compiled code calls SciPy back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg

from tracker.ir.lowering import Host
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.scipy.sparse.tracked_array import TrackedSparse, times_vector
from tracker.support.array_copies import same_bytes
from tracker.tape.record import apply

_SOLVER_NUMBERS = itertools.count(1)
_ADJOINT = {"N": "H", "T": "N", "H": "N"}  # of T: between two conjugations


class SparseSolver:
    """Solves systems with square matrices of one pattern, `method(matrix, b, trans)`.

    Entries are those of a matrix in CSC format.
    """

    def __init__(self, pattern: Any, method: Callable[[Any, Any, str], Any]) -> None:
        self._pattern, self._method = pattern, method
        self.places: tuple[Any, Any] = pattern.tocoo().coords
        self.name = f"solver {next(_SOLVER_NUMBERS)}"

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def size(self) -> int:
        return int(self._pattern.shape[0])

    def __call__(self, data: Any, b: Any, trans: str) -> Any:
        p = self._pattern
        matrix = scipy.sparse.csc_matrix((data, p.indices, p.indptr), shape=p.shape)
        return self._method(matrix, b, trans)


def solve(data: Any, b: Any, solver: SparseSolver, trans: str = "N") -> Any:
    """The solution x of op(A) x = b for a vector or matrix b; op is none, transpose or adjoint."""
    return apply(sparse_solve, (data, b), {"solver": solver, "trans": trans})


def _result_dtype(data: Any, b: Any) -> np.dtype[Any]:
    return np.result_type(data.dtype, b.dtype, np.float32)


def _evaluate(data: Any, b: Any, *, solver: SparseSolver, trans: str) -> Any:
    dtype = _result_dtype(data, b)
    data, b = (np.asarray(x).astype(dtype, copy=False) for x in (data, b))
    return np.reshape(solver(data, b, trans), b.shape).astype(dtype, copy=False)


def _tangent(t: Any, x: Any, data: Any, b: Any, *, solver: SparseSolver, trans: str) -> Any:
    rows, columns = solver.places if trans == "N" else solver.places[::-1]
    entries = np.conjugate(t) if trans == "H" else t
    return solve(data, -times_vector(entries, rows, columns, x, solver.size), solver, trans)


def _right_cotangent(g: Any, data: Any, solver: SparseSolver, trans: str) -> Any:
    """op(A)^-H g."""
    if trans == "T" and np.iscomplexobj(data):
        return np.conjugate(solve(data, np.conjugate(g), solver, "N"))
    return solve(data, g, solver, _ADJOINT[trans])


def _entry_cotangent(g: Any, x: Any, data: Any, b: Any, *, solver: SparseSolver, trans: str) -> Any:
    rows, columns = solver.places if trans == "N" else solver.places[::-1]
    dual = _right_cotangent(g, data, solver, trans)
    found = -dual[rows] * np.conjugate(x)[columns]
    found = np.sum(found, axis=1) if np.ndim(x) == 2 else found
    return project(np.conjugate(found) if trans == "H" else found, data)


sparse_solve = declare(
    "sparse_solve",
    infer=lambda data, b, **_: Type(b.shape, _result_dtype(data, b)),
    evaluate=_evaluate,
    jvp=[_tangent, lambda t, x, data, b, **how: solve(data, t, **how)],
    vjp=[
        _entry_cotangent,
        lambda g, x, data, b, **how: project(_right_cotangent(g, data, **how), b),
    ],
    lower=Host("a sparse solver of SciPy's"),
)


# Methods ------------------------------------------------------------------------------------------


class DirectMethod:
    """Solves by SuperLU's factors; keeps those of the latest matrix."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._latest: tuple[Any, Any] | None = None

    def factors(self, matrix: Any) -> Any:
        """SciPy's factors of a matrix; those of the last one, if it has the same entries."""
        latest = self._latest
        if latest is not None and same_bytes(latest[0], matrix.data):
            return latest[1]
        factors = scipy.sparse.linalg.splu(matrix, **self._options)
        self._latest = matrix.data.copy(), factors
        return factors

    def __call__(self, matrix: Any, b: Any, trans: str) -> Any:
        return self.factors(matrix).solve(b, trans)


class WarnsIfSingular(DirectMethod):
    """As `spsolve`, which gives NaN for a singular matrix, with a warning."""

    def __call__(self, matrix: Any, b: Any, trans: str) -> Any:
        try:
            return super().__call__(matrix, b, trans)
        except RuntimeError:  # exactly singular
            return scipy.sparse.linalg.spsolve(apply_trans(matrix, trans), b)


def apply_trans(matrix: Any, trans: str) -> Any:
    """The matrix, its transpose or its adjoint, in CSC format."""
    changed = {"N": matrix, "T": matrix.T, "H": matrix.conj().T}[trans]
    return changed.tocsc()


class TrackedFactors:
    """The factors of a matrix with tracked entries, as `splu` gives those of a plain one."""

    def __init__(self, a: TrackedSparse, method: Callable[[Any, Any, str], Any]) -> None:
        kept = a.tocsc().without_duplicates()
        if kept.shape[0] != kept.shape[1]:
            raise ValueError(f"can only factor square matrices, not one of shape {kept.shape}")
        self.shape, self._data = kept.shape, kept.data
        self._solver = SparseSolver(kept.pattern, method)

    def solve(self, b: Any, trans: str = "N") -> Any:
        """The solution x of op(A) x = b."""
        if np.shape(b)[:1] != self.shape[:1] or np.ndim(b) > 2:
            raise ValueError(f"dimension mismatch: {self.shape} and {np.shape(b)}")
        return solve(self._data, b, self._solver, trans)
