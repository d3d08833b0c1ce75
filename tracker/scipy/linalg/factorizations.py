"""LU factors, QR with pivots, banded systems, Sylvester's equation.

The ops are `lu` (LAPACK's packed factors and pivots, flat), `permutation`, `column_order`,
`solve_banded` and `solve_sylvester`. The rules of LU are those of S. Walter, L. Lehmann,
"Algorithmic differentiation of linear algebra functions with application in optimum experimental
design" (2010); the others follow from differentiating their equation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.ir.lowering import Host, Routine
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import conjugated, project
from tracker.ops.linalg.solve import right_divide, solve_triangle
from tracker.ops.linalg.triangles import as_array, diagonal_matrix, diagonal_of, linalg_dtype
from tracker.ops.shape.shape import adjoint
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy.linalg.batching import over_batches
from tracker.tape.record import apply

# LU -----------------------------------------------------------------------------------------------


def _packed_lu(a: Any) -> Any:
    packed, pivots = scipy.linalg.lu_factor(a, check_finite=False)
    return np.concatenate([packed.ravel(), pivots.astype(packed.dtype)])


def _unpack_lu(flat: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
    m, n = shape
    return np.reshape(flat[: m * n], shape), np.astype(np.real(flat[m * n :]), np.int32)


permutation = declare(  # row i of the permuted matrix is row permutation[i] of the matrix
    "permutation",
    infer=lambda pivots, *, rows: Type((rows,), np.dtype(np.float64)),
    evaluate=lambda pivots, *, rows: _row_exchanges(pivots, rows),
    jvp=[None],
    vjp=[None],
    lower=Routine("permutation", lambda pivots, *, rows: (pivots.size, rows)),
)


def _row_exchanges(pivots: Any, rows: int) -> Any:
    order = np.arange(float(rows))
    for i, j in enumerate(np.asarray(pivots, np.int64).tolist()):
        order[[i, j]] = order[[j, i]]
    return order


def _row_order(pivots: Any, rows: int) -> Any:
    return np.astype(apply(permutation, (pivots,), {"rows": rows}), np.int64)


def _lu_factors(packed: Any) -> tuple[Any, Any]:
    """L, with ones on its diagonal, and U."""
    m, n = np.shape(packed)
    k = min(m, n)
    strict = np.tril(packed, -1)[:, :k]
    unit = diagonal_matrix(np.ones_like(diagonal_of(packed)), strict)
    return strict + unit, np.triu(packed)[:k]


def _pad_tangent(flat: Any, like: Any) -> Any:
    """The tangent of the op's flat result: pivots are constant."""
    return np.concatenate([flat, np.zeros_like(like[np.size(flat) :])])


def _lu_jvp(t: Any, y: Any, a: Any) -> Any:
    m, n = np.shape(a)
    k = min(m, n)
    packed, pivots = _unpack_lu(y, (m, n))
    low, up = _lu_factors(packed)
    permuted = t[_row_order(pivots, m)]
    x = right_divide(permuted[:, :k], up[:, :k])
    f = solve_triangle(low[:k], x[:k], unit=True)
    upper = np.triu(f)
    dl, du = x - low @ upper, upper @ up[:, :k]
    if n > k:
        rest = solve_triangle(low, permuted[:, k:], unit=True) - np.tril(f, -1) @ up[:, k:]
        du = np.concatenate([du, rest], axis=1)
    if m > k:
        du = np.concatenate([du, np.zeros_like(dl[k:])], axis=0)
    if n > k:
        dl = np.concatenate([dl, np.zeros_like(du[:, k:])], axis=1)
    return _pad_tangent(np.ravel(dl + du), y)


def _lu_vjp(g: Any, y: Any, a: Any) -> Any:
    m, n = np.shape(a)
    k = min(m, n)
    packed, pivots = _unpack_lu(y, (m, n))
    low, up = _lu_factors(packed)
    given, _ = _unpack_lu(g, (m, n))
    gl, gu = np.tril(given, -1)[:, :k], np.triu(given)[:k]
    inner = np.triu(gu[:, :k] @ adjoint(up[:, :k]) - adjoint(low) @ gl)
    if n > k:
        inner = inner - np.tril(gu[:, k:] @ adjoint(up[:, k:]), -1)
    first = solve_triangle(low[:k], inner, trans="C", unit=True)
    gx = gl + np.concatenate([first, np.zeros_like(gl[k:])], axis=0)
    found = adjoint(solve_triangle(up[:, :k], adjoint(gx), lower=False))
    if n > k:
        found = np.concatenate(
            [found, solve_triangle(low, gu[:, k:], trans="C", unit=True)], axis=1
        )
    order = _row_order(pivots, m)
    return project(found[np.argsort(order)], a)


lu_op = declare(
    "lu",
    infer=lambda a: Type((a.size + min(a.shape),), linalg_dtype(a.dtype)),
    evaluate=_packed_lu,
    jvp=[_lu_jvp],
    vjp=[_lu_vjp],
    lower=Routine("lu_factor", lambda a: a.shape),
)


@drop_in(scipy.linalg)
@over_batches(a=2)
def lu_factor(a: Any) -> tuple[Any, Any]:
    """Both factors in one matrix, and the row that each row was exchanged with."""
    a = as_array(a)
    return _unpack_lu(apply(lu_op, (a,)), np.shape(a))


@drop_in(scipy.linalg)
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0) -> Any:
    return _lu_solve(*lu_and_piv, b, trans)


@over_batches(packed=2, pivots=1, b=None)
def _lu_solve(packed: Any, pivots: Any, b: Any, trans: int) -> Any:
    b = as_array(b)
    if np.ndim(b) == 1:
        return _lu_solve(packed, pivots, np.reshape(b, (-1, 1)), trans)[:, 0]
    order = _row_order(pivots, np.shape(packed)[0])
    if trans == 0:
        half = solve_triangle(packed, b[order], unit=True)
        return solve_triangle(packed, half, lower=False)
    letter = "T" if trans == 1 else "C"
    half = solve_triangle(packed, b, lower=False, trans=letter)
    return solve_triangle(packed, half, trans=letter, unit=True)[np.argsort(order)]


@drop_in(scipy.linalg)
def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> Any:
    """P, L, U with a = P L U; `permute_l`: P L and U; `p_indices`: a = L[P] U."""
    return tuple(_lu_of_batch(a, permute_l, p_indices))


@over_batches(a=2)
def _lu_of_batch(a: Any, permute_l: bool, p_indices: bool) -> Any:
    packed, pivots = lu_factor(a)
    order = np.argsort(_row_order(pivots, np.shape(packed)[0]))
    low, up = _lu_factors(packed)
    if permute_l:
        return low[order], up
    small = np.shape(packed) == (1, 1)  # SciPy's P then has the dtype of L, or int64
    if p_indices:
        return (order if small else order.astype(np.int32)), low, up
    rows = np.eye(np.shape(packed)[0], dtype=(packed if small else np.real(packed)).dtype)
    return rows[order], low, up


# QR -----------------------------------------------------------------------------------------------


column_order = declare(  # the pivots of QR
    "column_order",
    infer=lambda a: Type((a.shape[-1],), np.dtype(np.float64)),
    evaluate=lambda a: scipy.linalg.qr(a, mode="r", pivoting=True)[1].astype(np.float64),
    jvp=[None],
    vjp=[None],
    lower=Routine("column_order", lambda a: a.shape),
)


@drop_in(scipy.linalg)
@over_batches(a=2)
def qr(a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    """`mode` is "full", "economic", "r", or "raw" (LAPACK's representation of Q, and R)."""
    a = as_array(a)
    if mode not in ("full", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    order = np.astype(apply(column_order, (a,)), np.int32) if pivoting else None
    ours: Any = {"economic": "reduced", "raw": "raw"}.get(mode, "complete")
    q, r = np.linalg.qr(a if order is None else a[:, order], ours)
    parts: tuple[Any, ...] = (r,) if mode == "r" else (q, r)
    if mode == "raw":
        packed = np.transpose(q)
        parts = (packed, r), np.triu(packed[: np.shape(a)[-1]])
    return parts if order is None else (*parts, order)


# Banded systems -----------------------------------------------------------------------------------


def _shift(row: Any, by: int) -> Any:
    """out[j] = row[j + by], zero outside."""
    n = np.shape(row)[0]
    gap = np.zeros_like(row[: min(abs(by), n)])
    if by >= 0:
        return np.concatenate([row[by:], gap])
    return np.concatenate([gap, row[: max(n + by, 0)]])


def _adjoint_band(ab: Any, lower: int, upper: int) -> Any:
    """The diagonals of the adjoint matrix."""
    return conjugated(np.stack([_shift(ab[upper - d], d) for d in range(-lower, upper + 1)]))


def _banded_product(ab: Any, x: Any, lower: int, upper: int) -> Any:
    total = np.zeros_like(x)
    for d in range(-lower, upper + 1):
        scaled = np.reshape(ab[upper - d], (-1, 1)) * x
        total = total + _shift(scaled, d)
    return total


def _outer_band(z: Any, x: Any, lower: int, upper: int) -> Any:
    """The entries of z x^H along each diagonal."""
    right = conjugated(x)
    rows = [np.sum(_shift(z, -d) * right, axis=-1) for d in range(-lower, upper + 1)]
    return np.stack(rows[::-1])


def _solve_adjoint(ab: Any, g: Any, lower: int, upper: int) -> Any:
    adjoint_rows = _adjoint_band(ab, lower, upper)
    return apply(banded, (adjoint_rows, g), {"lower": upper, "upper": lower})


banded: Any = declare(
    "solve_banded",
    infer=lambda ab, b, *, lower, upper: Type(b.shape, linalg_dtype(ab.dtype, b.dtype)),
    evaluate=lambda ab, b, *, lower, upper: scipy.linalg.solve_banded((lower, upper), ab, b),
    jvp=[
        lambda t, y, ab, b, **band: -apply(banded, (ab, _banded_product(t, y, **band)), band),
        lambda t, y, ab, b, **band: apply(banded, (ab, t), band),
    ],
    vjp=[
        lambda g, y, ab, b, **band: project(
            -_outer_band(_solve_adjoint(ab, g, **band), y, **band), ab
        ),
        lambda g, y, ab, b, **band: project(_solve_adjoint(ab, g, **band), b),
    ],
    lower=Routine("solve_banded", lambda ab, b, *, lower, upper: (*b.shape, lower, upper)),
)


@drop_in(scipy.linalg)
def solve_banded(l_and_u: Any, ab: Any, b: Any) -> Any:
    """The solution for a matrix whose diagonals are the rows of `ab`."""
    lower, upper = (int(n) for n in l_and_u)
    ab, b = as_array(ab), as_array(b)
    right = np.reshape(b, (-1, 1)) if np.ndim(b) == 1 else b
    x = apply(banded, (ab, right), {"lower": lower, "upper": upper})
    return x[:, 0] if np.ndim(b) == 1 else x


@drop_in(scipy.linalg)
@over_batches(ab=2, b=None)
def solveh_banded(ab: Any, b: Any, lower: bool = False) -> Any:
    """The solution for a Hermitian matrix, given the diagonals of one triangle. It is not checked
    to be positive definite."""
    ab, b = as_array(ab), as_array(b)
    count = np.shape(ab)[0] - 1
    if np.shape(ab)[-1] != np.shape(b)[0]:
        raise ValueError("shapes of ab and b are not compatible.")
    middle = np.real(ab[0 if lower else count])
    given = [ab[k if lower else count - k] for k in range(1, count + 1)]
    adjoint_rows = [_shift(np.conjugate(row), -k if lower else k) for k, row in enumerate(given, 1)]
    below, above = (given, adjoint_rows) if lower else (adjoint_rows, given)
    return solve_banded((count, count), np.stack([*above[::-1], middle, *below]), b)


# Sylvester's equation -----------------------------------------------------------------------------


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    return apply(sylvester, (a, b, q))


def _sylvester_adjoint(g: Any, a: Any, b: Any) -> Any:
    return _sylvester(adjoint(a), adjoint(b), g)


sylvester: Any = declare(
    "solve_sylvester",
    infer=lambda a, b, q: Type(q.shape, linalg_dtype(a.dtype, b.dtype, q.dtype)),
    evaluate=scipy.linalg.solve_sylvester,
    jvp=[
        lambda t, y, a, b, q: -_sylvester(a, b, t @ y),
        lambda t, y, a, b, q: -_sylvester(a, b, y @ t),
        lambda t, y, a, b, q: _sylvester(a, b, t),
    ],
    vjp=[
        lambda g, y, a, b, q: project(-_sylvester_adjoint(g, a, b) @ adjoint(y), a),
        lambda g, y, a, b, q: project(-adjoint(y) @ _sylvester_adjoint(g, a, b), b),
        lambda g, y, a, b, q: project(_sylvester_adjoint(g, a, b), q),
    ],
    lower=Host("Sylvester's equation"),
)


@drop_in(scipy.linalg)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution x of a x + x b = q."""
    return _sylvester(as_array(a), as_array(b), as_array(q))
