"""`scipy.linalg` on tracked values. Names that are not defined here are SciPy's own.

Solving, least squares, eigenvalues and singular values are here, built from `numpy.linalg` (see
`tracker/ops/linalg/`). The other files: `factorizations.py` (ops for LU, pivoted QR, banded and
Sylvester systems), `banded.py` (bands, subspaces, matrix equations), `matrix_functions.py`,
`special_matrices.py`, `norm.py`, `rebound.py` (SciPy's own code); `batching.py` maps functions of
one matrix over stacks.

Functions take SciPy's keywords: `drop_in` does what `check_finite` asks for, and drops those that
do not change results (`overwrite_*`, `lwork`, `lapack_driver`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import scipy.linalg

from tracker.errors import UnsupportedError
from tracker.ops.declare.arguments import refuse_keywords
from tracker.ops.linalg.solve import solve_triangle
from tracker.ops.linalg.triangles import as_array, hermitian_from_triangle
from tracker.ops.shape.shape import adjoint
from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.linalg import factorizations, matrix_functions, rebound, special_matrices  # noqa: F401
from tracker.scipy.linalg import norm as _norm  # noqa: F401
from tracker.scipy.linalg.banded import select_eigenpairs
from tracker.scipy.linalg.batching import over_batches
from tracker.support.numpy_version import version_of

if TYPE_CHECKING:
    from scipy.linalg import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.linalg,
        constant=("bandwidth", "ishermitian", "issymmetric"),
        hints={
            "schur": "Use eig or eigh: rows of a Schur form may be turned; which are is a choice",
            "hessenberg": "Use qr or eig: signs of a Hessenberg form are a choice",
            "ldl": "Use cholesky, or lu",
        },
    )


# Solving ------------------------------------------------------------------------------------------


def _with_columns(solver: Any, b: Any) -> Any:
    """Solve for a vector as for a matrix of one column."""
    if np.ndim(b) == 1:
        return solver(np.reshape(b, (-1, 1)))[..., 0]
    return solver(b)


@drop_in(scipy.linalg)
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """The solution of op(a) x = b, from one triangle of `a`."""
    a, b = as_array(a), as_array(b)
    letter, unit = str({0: "N", 1: "T", 2: "C"}.get(trans, trans)), bool(unit_diagonal)
    return _with_columns(
        lambda right: solve_triangle(a, right, lower=bool(lower), trans=letter, unit=unit), b
    )


@drop_in(scipy.linalg)
def solve(
    a: Any, b: Any, lower: bool = False, assume_a: str | None = None, transposed: bool = False
) -> Any:
    """The solution of a x = b. `assume_a` says which part of `a` is read."""
    a, b = as_array(a), as_array(b)
    b = np.astype(b, np.result_type(a.dtype, b.dtype))
    kind = "general" if assume_a is None else assume_a
    if kind in ("upper triangular", "lower triangular"):
        trans = "T" if transposed else "N"
        return solve_triangular(a, b, trans=trans, lower=kind.startswith("lower"))
    if kind in _POSITIVE_DEFINITE:
        factor = np.linalg.cholesky(a, upper=not lower)
        if not transposed or a.dtype.kind != "c":
            return cho_solve((factor, lower), b)
        return np.conjugate(cho_solve((factor, lower), np.conjugate(b)))
    if kind not in _READ_PART:
        raise ValueError(f"{kind} is not a recognized matrix structure")
    a = _READ_PART[kind](a, bool(lower))
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b)


def _symmetric_of(a: Any, lower: bool) -> Any:
    half = np.tril(a) if lower else np.triu(a)
    rest = np.tril(a, -1) if lower else np.triu(a, 1)
    return half + np.swapaxes(rest, -1, -2)


# The part of a matrix that each `assume_a` reads; the rest has no derivative.
_POSITIVE_DEFINITE = ("pos", "positive definite")
_READ_PART: dict[str, Any] = {
    **dict.fromkeys(("gen", "general", "banded"), lambda a, lower: a),
    **dict.fromkeys(("sym", "symmetric"), _symmetric_of),
    **dict.fromkeys(("her", "hermitian"), hermitian_from_triangle),
    "diagonal": lambda a, lower: np.triu(np.tril(a)),
    "tridiagonal": lambda a, lower: np.triu(np.tril(a, 1), -1),
}


@drop_in(scipy.linalg)
def inv(a: Any, *, assume_a: str | None = None, lower: bool = False) -> Any:
    """`assume_a` says which part of `a` is read."""
    a = as_array(a)
    if assume_a in (None, "gen", "general"):
        return np.linalg.inv(a)
    unit = np.broadcast_to(np.eye(np.shape(a)[-1], dtype=a.dtype), np.shape(a))
    return solve(a, unit, lower, assume_a=assume_a)


@drop_in(scipy.linalg)
def det(a: Any) -> Any:
    """In double precision, whatever the dtype of `a`."""
    a = as_array(a)
    return np.linalg.det(np.astype(a, np.result_type(a.dtype, np.float64)))


@drop_in(scipy.linalg)
def cholesky(a: Any, lower: bool = False) -> Any:
    """The upper factor, from the upper triangle of `a`; with `lower`, the lower. In the order of
    SciPy's."""
    if _FACTORS_LIE_BY_ROWS:
        return np.linalg.cholesky(as_array(a), upper=not lower)
    return adjoint(np.linalg.cholesky(adjoint(as_array(a)), upper=lower))


@drop_in(scipy.linalg)
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The factor for `cho_solve`; here its other triangle is zero."""
    return cholesky(a, lower=lower), lower


@drop_in(scipy.linalg)
def cho_solve(c_and_lower: Any, b: Any) -> Any:
    c, lower = c_and_lower
    first, then = ("N", "C") if lower else ("C", "N")

    def solver(right: Any) -> Any:
        half = solve_triangle(c, right, lower=bool(lower), trans=first)
        return solve_triangle(c, half, lower=bool(lower), trans=then)

    return _with_columns(solver, as_array(b))


_LSTSQ_GIVES_ARRAYS = version_of(scipy) >= (1, 18)  # for rank and residuals
_FACTORS_LIE_BY_ROWS = version_of(scipy) >= (1, 18)  # of Cholesky

# Least squares ----------------------------------------------------------------------------------


@drop_in(scipy.linalg)
@over_batches(a=2, b=None)
def lstsq(
    a: Any, b: Any, cond: Any = None, lapack_driver: str | None = None
) -> tuple[Any, Any, Any, Any]:
    """x, residuals, rank, singular values. As in SciPy, the residual of a vector is a number, and
    the driver "gelsy" gives neither residuals nor singular values."""
    a, b = as_array(a), as_array(b)
    kind = np.result_type(a.dtype, b.dtype)
    cond = np.finfo(kind if kind.kind in "fc" else float).eps if cond is None else cond
    x, residuals, rank, s = np.linalg.lstsq(a, b, rcond=cond)
    rank = np.int64(rank) if _LSTSQ_GIVES_ARRAYS else int(rank)
    if lapack_driver == "gelsy":
        return x, np.empty(0, x.dtype), rank, None
    if np.size(residuals) == 0:
        residuals = np.empty(0, x.dtype)
    elif _LSTSQ_GIVES_ARRAYS:
        residuals = np.astype(np.reshape(residuals, b.shape[1:]), x.dtype)
    elif np.ndim(b) == 1:
        residuals = residuals[0]
    return x, residuals, rank, s


@drop_in(scipy.linalg)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    return _pinv(a, atol, rtol, return_rank)


@drop_in(scipy.linalg)
def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False
) -> Any:
    return _pinv(hermitian_from_triangle(as_array(a), bool(lower)), atol, rtol, return_rank)


def _pinv(a: Any, atol: Any, rtol: Any, return_rank: bool) -> Any:
    a = as_array(a)
    if rtol is None:
        rtol = max(np.shape(a)[-2:]) * float(np.finfo(np.result_type(a.dtype, 1.0)).eps)
    if atol:  # NumPy's bound is relative to the largest singular value
        rtol = rtol + atol / np.linalg.norm(a, 2, axis=(-2, -1))
    found = np.linalg.pinv(a, rtol)
    return (found, np.linalg.matrix_rank(a, rtol=rtol)) if return_rank else found


# Eigenvalues and singular values ------------------------------------------------------------------


@drop_in(scipy.linalg)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return np.linalg.svdvals(a)
    return tuple(np.linalg.svd(a, full_matrices=full_matrices))


@drop_in(scipy.linalg)
def svdvals(a: Any) -> Any:
    return np.linalg.svdvals(a)


@drop_in(scipy.linalg)
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    type: int = 1,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix, or with `b` of a pair: a v = w b v
    (`type` 1), a b v = w v (2), b a v = w v (3). The signs of eigenvectors are np.linalg.eigh's,
    whatever the driver."""
    if (subset_by_index is not None or subset_by_value is not None) and np.ndim(a) > 2:
        part = (lower, eigvals_only, type, subset_by_index, subset_by_value)
        return _batched_eigh_subset(a, b, *part)
    a = as_array(a)
    triangle: Any = "L" if lower else "U"
    if b is None:
        if eigvals_only:
            return select_eigenpairs(
                np.linalg.eigvalsh(a, triangle), None, subset_by_index, subset_by_value
            )
        w, v = np.linalg.eigh(a, triangle)
    else:
        a = hermitian_from_triangle(a, bool(lower))
        factor = np.linalg.cholesky(b if lower else adjoint(b))
        if type == 1:
            half = solve_triangle(factor, a)
            inner = adjoint(solve_triangle(factor, adjoint(half)))
        else:
            inner = adjoint(factor) @ a @ factor
        w, v = np.linalg.eigh(inner)
        v = factor @ v if type == 3 else solve_triangle(factor, v, trans="C")
    return select_eigenpairs(w, None if eigvals_only else v, subset_by_index, subset_by_value)


@over_batches("eigh", a=2, b=2)
def _batched_eigh_subset(
    a: Any, b: Any, lower: bool, eigvals_only: bool, type: int, by_index: Any, by_value: Any
) -> Any:
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=eigvals_only,
        type=type,
        subset_by_index=by_index,
        subset_by_value=by_value,
    )


@drop_in(scipy.linalg)
def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    """Always complex, as SciPy's."""
    refuse_keywords("scipy.linalg.eig", homogeneous_eigvals=homogeneous_eigvals or None)
    if left:
        text = "scipy.linalg.eig with left=True is not supported on tracked values"
        raise UnsupportedError(
            text, "Use eig(a.conj().T): its right vectors are the left ones of a"
        )
    if b is not None:
        a = np.linalg.solve(b, a)
    if not right:
        return np.linalg.eigvals(a) * (1 + 0j)
    w, v = np.linalg.eig(a)
    return w * (1 + 0j), v


globals().update(DROP_INS[scipy.linalg])
