"""`scipy.sparse.linalg` on tracked values: solutions of systems, differentiable in the right side
and in the entries of a sparse matrix. Names that are not defined here are SciPy's own.

The cotangent of the right side is the solution of the adjoint system, by the same solver. Systems
with tracked entries are in `systems.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse.linalg

from tracker.autodiff.custom_rules import custom_gradient
from tracker.errors import UnsupportedError
from tracker.implicit.solution import DENSE_SIZE, implicit_solution
from tracker.ops.declare.rule_helpers import project
from tracker.scipy._bridge.callback import as_plain_function, host_callback
from tracker.scipy._bridge.classes import ScipyClass
from tracker.scipy._bridge.fallback import (
    as_array,
    is_tracked,
    is_tracked_sparse,
    made_by_scipy,
    no_derivative_rule,
    scipy_fallback,
)
from tracker.scipy._bridge.linear_map import LinearMap
from tracker.scipy.sparse.construct import CONSTRUCTORS
from tracker.scipy.sparse.systems import DirectMethod, TrackedFactors, WarnsIfSingular, apply_trans

if TYPE_CHECKING:
    from scipy.sparse.linalg import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.sparse.linalg,
        hints={
            "eigs": "Use np.linalg.eig(a.toarray())",
            "eigsh": "Use scipy.linalg.eigh(a.toarray())",
            "svds": "Use np.linalg.svd(a.toarray())",
            **dict.fromkeys(("gcrotmk", "qmr", "tfqmr"), "Use gmres"),
            **dict.fromkeys(("lsmr", "lsqr"), "Use np.linalg.lstsq(a.toarray(), b)"),
        },
    )


def _require_plain(name: str, a: Any) -> Any:
    """The matrix or operator; a tracked one is refused."""
    if is_tracked(a):
        raise no_derivative_rule(
            f"scipy.sparse.linalg.{name} of a tracked matrix",
            "Use spsolve, or a plain sparse matrix",
        )
    return a


def _tracked_factors(a: Any, method: Callable[[Any, Any, str], Any]) -> TrackedFactors:
    """The factors of a tracked matrix, which may be dense."""
    return TrackedFactors(a if is_tracked_sparse(a) else CONSTRUCTORS["csc_array"](a), method)


def _result_dtype(a: Any) -> np.dtype[Any]:
    return np.result_type(getattr(a, "dtype", float) or float, np.float32)


def _adjoint(a: Any) -> Any:
    if isinstance(a, scipy.sparse.linalg.LinearOperator):
        return a.H
    return a.conj().T


def _solution_map(name: str, a: Any, solve: Callable[[Any, Any], Any]) -> LinearMap:
    """The linear map from a right side to the solution, solve(a, b)."""
    return LinearMap(
        lambda b: solve(a, b),
        a.shape[1],
        _result_dtype(a),
        lambda: _solution_map(name, _adjoint(a), solve),
        name,
    )


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """The solution x of A x = b, for a vector b or a dense matrix of right sides."""
    if not is_tracked(A, b):
        return scipy.sparse.linalg.spsolve(A, b, permc_spec, use_umfpack)

    def solve(a: Any, b: Any) -> Any:
        x = scipy.sparse.linalg.spsolve(a.tocsc(), b, permc_spec, use_umfpack)
        return np.reshape(x, np.shape(b))

    if scipy.sparse.issparse(b):
        text = "spsolve with a sparse right side, on tracked values"
        raise UnsupportedError(text, "Give b.toarray()")
    b = as_array(b)
    if is_tracked(A):
        x = _tracked_factors(A, WarnsIfSingular(permc_spec=permc_spec)).solve(b)
    else:
        x = _solution_map("spsolve", A, solve)(b)
    return x[:, 0] if np.ndim(b) == 2 and np.shape(b)[1] == 1 else x


def spsolve_triangular(
    A: Any,
    b: Any,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The solution x of A x = b, for a triangular A."""
    if not is_tracked(A, b):
        return scipy.sparse.linalg.spsolve_triangular(
            A, b, lower, overwrite_A, overwrite_b, unit_diagonal
        )

    b = as_array(b)
    if is_tracked(A):
        return _solve_tracked_triangle(A, b, lower, unit_diagonal)

    def solving(a: Any, lower: bool) -> LinearMap:
        return LinearMap(
            lambda b: scipy.sparse.linalg.spsolve_triangular(
                a.tocsr(), b, lower, unit_diagonal=unit_diagonal
            ),
            a.shape[1],
            _result_dtype(a),
            lambda: solving(_adjoint(a), not lower),
            "spsolve_triangular",
        )

    return solving(A, lower)(b)


def _solve_tracked_triangle(A: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    """The solution of a system with one triangle of a tracked matrix."""
    part = CONSTRUCTORS["tril" if lower else "triu"]
    if unit_diagonal:
        A = part(A, -1 if lower else 1) + scipy.sparse.eye_array(A.shape[0], dtype=A.dtype)
    return _tracked_factors(part(A), DirectMethod(permc_spec="NATURAL")).solve(b)


class _Factors:
    """SciPy's factors of a plain matrix, which solve for tracked right sides, too."""

    def __init__(self, theirs: Any, dtype: Any) -> None:
        self._theirs, self._dtype = theirs, dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def _map(self, trans: str) -> LinearMap:
        adjoint = {"N": "H", "H": "N", "T": "conjugate"}
        return LinearMap(
            lambda b: self._solve_plain(b, trans),
            self._theirs.shape[1],
            self._dtype,
            lambda: self._map(adjoint.get(trans, "T")),
            "factors",
        )

    def _solve_plain(self, b: Any, trans: str) -> Any:
        """`trans` may be "conjugate": conj(A) x = b."""
        b = b.astype(np.result_type(self._dtype, b.dtype))
        if trans == "conjugate":
            return self._solve_plain(b.conj(), "N").conj()
        if b.dtype.kind == "c" and self._dtype.kind != "c":
            return self._solve_plain(b.real, trans) + 1j * self._solve_plain(b.imag, trans)
        return self._theirs.solve(b, trans)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """The solution x of op(A) x = rhs."""
        return self._map(trans)(rhs) if is_tracked(rhs) else self._theirs.solve(rhs, trans)


@made_by_scipy(scipy.sparse.linalg.SuperLU, replaces=True)
def _factors(theirs: Any) -> _Factors:
    return _Factors(theirs, theirs.L.dtype)


def splu(A: Any, *args: Any, **options: Any) -> Any:
    """Factors of a matrix, whose `solve(b)` is differentiable in b and in the matrix's entries."""
    if not is_tracked(A):
        return _Factors(scipy.sparse.linalg.splu(A, *args, **options), _result_dtype(A))
    names = ("permc_spec", "diag_pivot_thresh", "relax", "panel_size", "options")
    return _tracked_factors(A, DirectMethod(**dict(zip(names, args, strict=False)), **options))


def factorized(A: Any) -> Callable[[Any], Any]:
    """A function that solves A x = b for given b."""
    solve: Callable[[Any], Any] = splu(A if is_tracked(A) else A.tocsc()).solve
    return solve


def aslinearoperator(A: Any) -> Any:
    """An operator that accepts tracked values."""
    theirs = scipy.sparse.linalg.aslinearoperator(_require_plain("aslinearoperator", A))
    return theirs if LinearOperator in type(theirs).__mro__ else LinearOperator.of(theirs)


class LinearOperator(scipy.sparse.linalg.LinearOperator, metaclass=ScipyClass):  # type: ignore[misc]
    """SciPy's class; products with tracked values are differentiable if the operator has an
    adjoint, or if its functions use tracked values (`_uses_tracked`)."""

    _theirs, _holds_tracked = scipy.sparse.linalg.LinearOperator, False
    _uses_tracked = False
    dtype: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(_FunctionOperator if cls is LinearOperator else cls)

    @classmethod
    def of(cls, other: Any) -> Any:
        return cls(
            other.shape,
            matvec=other.matvec,
            rmatvec=other.rmatvec,
            matmat=other.matmat,
            rmatmat=other.rmatmat,
            dtype=other.dtype,
        )

    def _as_map(self, forward: bool = True) -> LinearMap:
        def call(x: Any) -> Any:
            if x.ndim == 1:
                return self.matvec(x) if forward else self.rmatvec(x)
            return self.matmat(x) if forward else self.rmatmat(x)

        return LinearMap(
            call,
            self.shape[0 if forward else 1],
            np.float32 if self.dtype is None else self.dtype,
            lambda: self._as_map(not forward),
            "LinearOperator",
        )

    def _init_dtype(self) -> None:
        self._uses_tracked = _calls_tracked(self)
        if self.dtype is None and self._uses_tracked:
            self.dtype = self._matvec(_zeros(self)).dtype
        super()._init_dtype()

    def _is_followed(self, x: Any) -> bool:
        return self._uses_tracked or is_tracked(x)

    def _apply(self, x: Any, forward: bool = True) -> Any:
        if np.shape(x)[:1] != (self.shape[1 if forward else 0],) or np.ndim(x) > 2:
            raise ValueError(f"dimension mismatch: {self.shape} and {np.shape(x)}")
        if not self._uses_tracked:
            return self._as_map(forward)(x)
        if np.ndim(x) == 1:
            return np.reshape(self._matvec(x) if forward else self._rmatvec(x), (-1,))
        columns = [self._apply(x[:, at], forward) for at in range(np.shape(x)[1])]
        return np.stack(columns, axis=1)

    def matvec(self, x: Any) -> Any:
        return self._apply(x) if self._is_followed(x) else super().matvec(x)

    def rmatvec(self, x: Any) -> Any:
        return self._apply(x, False) if self._is_followed(x) else super().rmatvec(x)

    def matmat(self, X: Any) -> Any:
        return self._apply(X) if self._is_followed(X) else super().matmat(X)

    def rmatmat(self, X: Any) -> Any:
        return self._apply(X, False) if self._is_followed(X) else super().rmatmat(X)

    def dot(self, x: Any) -> Any:
        return self._apply(x) if is_tracked(x) else super().dot(x)

    def __mul__(self, x: Any) -> Any:
        return self.dot(x)

    def __matmul__(self, other: Any) -> Any:
        return self.dot(other) if is_tracked(other) else super().__matmul__(other)


@made_by_scipy(scipy.sparse.linalg.LinearOperator)
def _operator(theirs: Any) -> Any:
    return LinearOperator.of(theirs)


_ScipyFunctionOperator: Any = type(
    scipy.sparse.linalg.LinearOperator((1, 1), matvec=abs, dtype=float)
)


class _FunctionOperator(LinearOperator, _ScipyFunctionOperator):  # type: ignore[misc]
    """An operator made of the functions that it is given, which compiled code reads without it."""

    def __init__(self, shape: Any, matvec: Any, rmatvec: Any = None, *rest: Any, **named: Any):
        self.functions = matvec, rmatvec
        super().__init__(shape, matvec, rmatvec, *rest, **named)


def _calls_tracked(a: Any) -> bool:
    """Whether a is an operator whose functions use tracked values, which they may find anywhere."""
    if not isinstance(a, scipy.sparse.linalg.LinearOperator):
        return False
    with np.errstate(all="ignore"):
        return is_tracked(a._matvec(_zeros(a)))


def _zeros(a: Any) -> Any:
    """The vector by which SciPy finds the dtype of an operator."""
    return np.zeros(a.shape[1], np.int8 if a.dtype is None else a.dtype)


def _plain_products(a: Any) -> Any:
    """Products of an operator and of its adjoint as functions that give arrays of plain numbers,
    into which a solver may write."""
    functions = getattr(a, "functions", None) or (a._matvec, a._rmatvec)
    return tuple([f and _giving_copies(as_plain_function(f)) for f in functions])


def _giving_copies(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: np.array(f(x))


def _iterative_solver(name: str) -> Callable[..., Any]:
    theirs = getattr(scipy.sparse.linalg, name)

    def solver(A: Any, b: Any, x0: Any = None, **options: Any) -> Any:
        if _calls_tracked(A):
            return _solve_operator(A, as_array(b), x0, **options)
        if is_tracked(options.get("M")) or _calls_tracked(options.get("M")):
            text = f"scipy.sparse.linalg.{name} with a tracked M="
            raise UnsupportedError(text, "Give a plain one")
        if not is_tracked(A, b, x0):
            return theirs(A, b, x0, **options)
        if is_tracked(A):
            return _solve_tracked(A, b, x0, options)
        adjoint = _adjoint(_require_plain(name, A))
        adjoint_map = _solution_map(name, adjoint, lambda a, b: theirs(a, b, **options)[0])

        @custom_gradient
        def solution(b: Any, x: Any) -> Any:
            return x, lambda dy: (project(adjoint_map(dy), b), None)

        def solve(A: Any, b: Any, x0: Any, options: Any) -> dict[str, Any]:
            return dict(zip(("x", "info"), theirs(A, b, x0, **options), strict=True))

        b, x0 = as_array(b), as_array(x0) if is_tracked(x0) else x0
        found = host_callback(name, solve, A, b, x0, options)
        return solution(b, found["x"]), found["info"]

    def _solve_operator(A: Any, b: Any, x0: Any, M: Any = None, **options: Any) -> Any:
        """The solution of A x - b = 0 as an implicit function, and how it was found."""

        def solve(products: Any, of_preconditioner: Any, b: Any, x0: Any, options: Any) -> Any:
            a, m = (
                f and scipy.sparse.linalg.LinearOperator(A.shape, f[0], f[1], dtype=A.dtype)
                for f in (products, of_preconditioner)
            )
            return dict(zip(("x", "info"), theirs(a, b, x0, M=m, **options), strict=True))

        M = None if M is None else aslinearoperator(M)
        found = host_callback(
            name, solve, _plain_products(A), M and _plain_products(M), b, x0, options
        )
        size = np.size(b)
        method = "dense" if size <= DENSE_SIZE else "cg" if name == "cg" else "gmres"

        def residual(x: Any) -> Any:
            return np.reshape(A._matvec(x), (size,)) - np.reshape(b, (size,))

        x = implicit_solution(residual, np.reshape(found["x"], (size,)), name, method)
        return np.reshape(x, np.shape(found["x"])), found["info"]

    def _solve_tracked(A: Any, b: Any, x0: Any, options: Any) -> Any:
        """The solution, and how it was found: SciPy's solver runs for each."""

        def solve(matrix: Any, b: Any, trans: str) -> Any:
            if np.ndim(b) == 2:  # several tangents
                return np.stack([solve(matrix, each, trans) for each in b.T], axis=1)
            start = x0 if trans == "N" else None
            return theirs(apply_trans(matrix, trans), b, start, **options)[0]

        if is_tracked(x0):
            text = f"scipy.sparse.linalg.{name} with a tracked x0= and a tracked matrix"
            raise UnsupportedError(text, "Give a plain one")
        b, A = as_array(b), A if is_tracked_sparse(A) else CONSTRUCTORS["csc_array"](A)
        kept = A.tocsc().without_duplicates()
        pattern = kept.pattern

        def flag(data: Any, b: Any) -> Any:
            matrix = scipy.sparse.csc_matrix((data, pattern.indices, pattern.indptr), kept.shape)
            return theirs(matrix, b, x0, **options)[1]

        return TrackedFactors(kept, solve).solve(b), host_callback(name, flag, kept.data, b)

    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"As scipy.sparse.linalg.{name}; as exact as its rtol= and atol= ask for."
    return solver


bicg = _iterative_solver("bicg")
bicgstab = _iterative_solver("bicgstab")
cg = _iterative_solver("cg")
cgs = _iterative_solver("cgs")
gmres = _iterative_solver("gmres")
lgmres = _iterative_solver("lgmres")
minres = _iterative_solver("minres")
