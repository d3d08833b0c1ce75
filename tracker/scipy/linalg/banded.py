"""Banded matrices, null spaces, RQ decompositions, Lyapunov and Riccati equations. Composed of the
ops in `factorizations.py` and NumPy's decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.ops.linalg.solve import solve_triangle
from tracker.ops.linalg.triangles import as_array
from tracker.ops.shape.shape import adjoint
from tracker.scipy._bridge.callback import host_callback
from tracker.scipy._bridge.checks import are_finite, scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import no_derivative_rule
from tracker.scipy.linalg.batching import over_batches
from tracker.scipy.linalg.factorizations import solve_sylvester

# Bands --------------------------------------------------------------------------------------------


def _diagonals(ab: Any, lower: bool) -> list[Any]:
    """The matrices whose sum is the triangle that a band is given of, in LAPACK's storage; the main
    diagonal first."""
    depth, n = np.shape(ab)
    rows = [ab[k if lower else depth - 1 - k] for k in range(depth)]
    return [np.diag(r[: n - k], -k) if lower else np.diag(r[k:], k) for k, r in enumerate(rows)]


def _matrix_from_band(ab: Any, lower: bool) -> Any:
    """The Hermitian matrix with this band."""
    main, *others = _diagonals(as_array(ab), lower)
    return sum((part + adjoint(part) for part in others), start=main)


def _band_of_matrix(matrix: Any, ab: Any, lower: bool) -> Any:
    """The band of a matrix in LAPACK's storage; entries of `ab` outside of the matrix are kept."""
    depth, n = np.shape(ab)
    rows = []
    for at in range(depth):
        k = at if lower else depth - 1 - at
        line = np.diagonal(matrix, -k if lower else k)
        rest = ab[at, n - k :] if lower else ab[at, :k]
        rows.append(np.concatenate([line, rest] if lower else [rest, line]))
    return np.stack(rows)


@drop_in(scipy.linalg)
@over_batches(ab=2)
def cholesky_banded(ab: Any, lower: bool = False) -> Any:
    factor = np.linalg.cholesky(_matrix_from_band(ab, lower), upper=not lower)
    return _band_of_matrix(factor, as_array(ab), lower)


@drop_in(scipy.linalg)
def cho_solve_banded(cb_and_lower: Any, b: Any) -> Any:
    cb, lower = cb_and_lower
    b = as_array(b)
    main, *others = _diagonals(as_array(cb), lower)
    factor = sum(others, start=main)
    right = b if np.ndim(b) > 1 else np.expand_dims(b, 1)
    first = solve_triangle(factor, right, lower=lower, trans="N" if lower else "C")
    y = solve_triangle(factor, first, lower=lower, trans="C" if lower else "N")
    return np.reshape(y, np.shape(b))


@drop_in(scipy.linalg)
def eig_banded(
    a_band: Any,
    lower: bool = False,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    **_: Any,
) -> Any:
    """Signs of eigenvectors are np.linalg.eigh's."""
    return _selected_eigh(_matrix_from_band(a_band, lower), eigvals_only, select, select_range)


@drop_in(scipy.linalg)
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    **_: Any,
) -> Any:
    """Signs of eigenvectors are np.linalg.eigh's."""
    d, e = as_array(d), as_array(e)
    return _selected_eigh(
        np.diag(d) + np.diag(e, 1) + np.diag(e, -1), eigvals_only, select, select_range
    )


def _selected_eigh(matrix: Any, values_only: bool, select: str, chosen: Any) -> Any:
    w, v = np.linalg.eigh(matrix)
    by_value = select in ("v", "value")
    part = (None, chosen) if by_value else (None if select in ("a", "all") else chosen, None)
    return select_eigenpairs(w, None if values_only else v, *part)


def _subset_check(w: Any, by_index: Any, by_value: Any) -> tuple[Any, ...]:
    """A call of SciPy's that checks the subset for a matrix with these eigenvalues."""

    def ask(w: Any, by_index: Any, by_value: Any) -> None:
        scipy.linalg.eigh(np.diag(w), subset_by_index=by_index, subset_by_value=by_value)

    return ask, w, by_index, by_value


def select_eigenpairs(w: Any, v: Any, by_index: Any, by_value: Any) -> Any:
    """Eigenvalues, and eigenvectors unless None, in a range of positions or between bounds."""
    chosen: Any = slice(None)
    if by_index is not None:
        first, last = by_index
        scipy_raises_unless(
            first >= 0 and first <= last and last < np.shape(w)[-1],
            *_subset_check(w, by_index, None),
        )
        chosen = slice(int(by_index[0]), int(by_index[1]) + 1)
    elif by_value is not None:
        low, high = by_value
        scipy_raises_unless(low < high, *_subset_check(w, None, by_value))
        chosen = np.nonzero(np.logical_and(w > by_value[0], w <= by_value[1]))[0]
    return w[chosen] if v is None else (w[chosen], v[..., chosen])


# Subspaces and decompositions ---------------------------------------------------------------------


@drop_in(scipy.linalg)
@over_batches(a=2)
def rq(a: Any, mode: str = "full") -> Any:
    """R Q, from the QR decomposition of the adjoint with rows and columns reversed, in LAPACK's
    order, so that signs agree with SciPy's."""
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    a = as_array(a)
    m, n = np.shape(a)
    reversed_adjoint = adjoint(a[::-1, ::-1])
    q, r = np.linalg.qr(reversed_adjoint, "reduced" if mode == "economic" or m >= n else "complete")
    r, q = adjoint(r)[::-1, ::-1], adjoint(q)[::-1, ::-1]
    return r if mode == "r" else (r, q)


def _numerical_rank(s: Any, shape: tuple[int, ...], rcond: Any) -> int:
    if rcond is None:
        rcond = np.finfo(s.dtype).eps * max(shape)
    return int(np.sum(s > np.max(s, initial=0.0) * rcond))


@drop_in(scipy.linalg)
@over_batches(A=2)
def null_space(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the null space. Of the many bases, its derivative is that of the one
    that rotates least within the space."""
    A = as_array(A)
    _, s, vh = np.linalg.svd(A)
    rank = _numerical_rank(s, np.shape(A), rcond)
    basis = ignore_derivatives(adjoint(vh[rank:]))
    if not np.shape(basis)[1]:
        return basis
    bound = np.finfo(s.dtype).eps * max(np.shape(A)) if rcond is None else rcond
    inside = basis - np.linalg.pinv(A, bound) @ (A @ basis)
    factor = np.linalg.cholesky(adjoint(inside) @ inside)
    return adjoint(solve_triangle(factor, adjoint(inside)))


# Equations ----------------------------------------------------------------------------------------


@drop_in(scipy.linalg)
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The solution x of a x + x a^H = q."""
    a = as_array(a)
    return solve_sylvester(a, adjoint(a), as_array(q))


@drop_in(scipy.linalg)
def solve_lyapunov(a: Any, q: Any) -> Any:
    return solve_continuous_lyapunov(a, q)


@drop_in(scipy.linalg)
@over_batches(a=2, q=2)
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """The solution x of a x a^H - x + q = 0."""
    a, q = as_array(a), as_array(q)
    scipy_raises_unless(are_finite(a, q), scipy.linalg.solve_discrete_lyapunov, a, q, method)
    n = np.shape(a)[0]
    left = np.eye(n * n) - np.kron(a, np.conjugate(a))
    return np.reshape(np.linalg.solve(left, np.reshape(q, (-1,))), (n, n))


def _riccati_solver(name: str, newton_step: Any) -> Any:
    """A solver of a Riccati equation: SciPy's solution and two Newton steps from it, each of which
    is a Lyapunov equation. The steps change the last digits only, and carry the derivatives."""
    theirs = getattr(scipy.linalg, name)

    def solve(
        a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
    ) -> Any:
        if e is not None or s is not None:
            raise no_derivative_rule(
                f"scipy.linalg.{name} with e= or s=",
                "Multiply by the inverse of e; complete the square to take s into a and q",
            )
        a, b, q, r = map(as_array, (a, b, q, r))
        x = host_callback(name, lambda *given: theirs(*given, balanced=balanced), a, b, q, r)
        for _ in range(2):
            x = newton_step(a, b, q, r, x)
        return x

    solve.__name__ = name
    solve.__doc__ = f"As scipy.linalg.{name}, without e and s."
    return drop_in(scipy.linalg)(solve)


def _continuous_step(a: Any, b: Any, q: Any, r: Any, x: Any) -> Any:
    gain = np.linalg.solve(r, adjoint(b) @ x)
    closed = a - b @ gain
    return solve_continuous_lyapunov(adjoint(closed), -(q + adjoint(gain) @ r @ gain))


def _discrete_step(a: Any, b: Any, q: Any, r: Any, x: Any) -> Any:
    gain = np.linalg.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)
    closed = a - b @ gain
    return solve_discrete_lyapunov(adjoint(closed), q + adjoint(gain) @ r @ gain)


solve_continuous_are = _riccati_solver("solve_continuous_are", _continuous_step)
solve_discrete_are = _riccati_solver("solve_discrete_are", _discrete_step)
