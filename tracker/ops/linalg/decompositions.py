"""Cholesky and QR factorizations.

The ops are `cholesky` (the lower factor) and `qr` (both factors, packed one after the other).
Formulas: I. Murray, "Differentiation of the Cholesky decomposition" (2016); M. Seeger et al.,
"Auto-differentiating linear algebra" (2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Routine
from tracker.ir.op import Op
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.rule_helpers import project
from tracker.ops.linalg.solve import right_divide, solve_triangle
from tracker.ops.linalg.triangles import (
    Shapes,
    as_array,
    as_square,
    check_matrices,
    diagonal_matrix,
    diagonal_of,
    hermitian_from_triangle,
    linalg_dtype,
    pack,
    packed_type,
    project_to_triangle,
    unpack,
)
from tracker.ops.shape.shape import adjoint
from tracker.tape.record import apply

_ROWS = 128  # per block of a triangular solve

# Cholesky -----------------------------------------------------------------------------------------


def _half_lower(a: Any) -> Any:
    """The lower triangle, with half of the diagonal."""
    return np.tril(a, -1) + diagonal_matrix(diagonal_of(a) * 0.5, a)


def _whitened(y: Any, t: Any) -> Any:
    """L^-1 t L^-H, for the Hermitian matrix with the lower triangle `t`."""
    return solve_triangle(y, adjoint(solve_triangle(y, hermitian_from_triangle(t))))


def _cholesky_jvp(t: Any, y: Any) -> Any:
    """dL = L half(L^-1 da L^-H)."""
    return y @ _half_lower(_whitened(y, t))


def _adjoint_whitened(y: Any, m: Any) -> Any:
    """L^-H m L^-1."""
    left = solve_triangle(y, m, trans="C")
    return adjoint(solve_triangle(y, adjoint(left), trans="C"))


def _substitute(y: Any, m: Any) -> None:
    """Replace m by L^-H m, in blocks of rows."""
    for first in reversed(range(0, y.shape[-1], _ROWS)):
        rows, after = slice(first, first + _ROWS), slice(first + _ROWS, None)
        part = m[..., rows, :]
        part -= adjoint(y[..., after, rows]) @ m[..., after, :]
        part[...] = np.linalg.solve(adjoint(np.tril(y[..., rows, rows])), part)


def _cholesky_pull(y: Any, g: Any) -> Any:
    """L^-H half(L^H g) L^-1, projected to the triangle that is read; of plain arrays, in few
    temporaries."""
    above = ~np.tri(y.shape[-1], dtype=bool)
    m = adjoint(np.tril(y)) @ g
    np.copyto(m, 0, where=above)
    np.einsum("...ii->...i", m)[...] *= 0.5
    _substitute(y, m)
    np.conjugate(m, out=m)
    _substitute(y, np.swapaxes(m, -1, -2))
    np.conjugate(m, out=m)
    diagonal = np.real(np.einsum("...ii->...i", m)).copy()
    m = m + adjoint(m)
    np.copyto(m, 0, where=above)
    np.einsum("...ii->...i", m)[...] = diagonal
    return m


def _cholesky_pull_jvp(t: Any, x: Any, y: Any, g: Any) -> Any:
    """With s = L^-H half(L^H g) L^-1: along dL, L^-H (half(dL^H g) - dL^H s L) L^-1 - s dL L^-1."""
    s, t = _adjoint_whitened(y, _half_lower(adjoint(y) @ g)), np.tril(t)
    moved = _adjoint_whitened(y, _half_lower(adjoint(t) @ g))
    rotated = solve_triangle(y, adjoint(t) @ s, trans="C")
    right = adjoint(solve_triangle(y, adjoint(s @ t), trans="C"))
    return project_to_triangle(moved - rotated - right)


def _cholesky_pull_vjp(c: Any, x: Any, y: Any, g: Any) -> Any:
    s = _adjoint_whitened(y, _half_lower(adjoint(y) @ g))
    left = solve_triangle(y, hermitian_from_triangle(c))  # L^-1 c
    found = (
        g @ adjoint(_half_lower(_whitened(y, c))) - s @ adjoint(left) - adjoint(s) @ adjoint(left)
    )
    return project(np.tril(found), y)


cholesky_pull: Op = declare(  # the pullback of `cholesky` at the factor y, of a cotangent g
    "cholesky_pull",
    infer=lambda y, g: Type(y.shape, linalg_dtype(y.dtype, g.dtype)),
    evaluate=_cholesky_pull,
    jvp=[_cholesky_pull_jvp, lambda t, x, y, g: apply(cholesky_pull, (y, t))],
    vjp=[_cholesky_pull_vjp, lambda c, x, y, g: project(np.tril(_cholesky_jvp(c, y)), g)],
    lower=Routine("cholesky_pull", lambda y, g: y.shape[-1:]),
)


cholesky = declare(
    "cholesky",
    infer=lambda a: Type(a.shape, linalg_dtype(a.dtype)),
    evaluate=np.linalg.cholesky,
    jvp=[lambda t, y, a: _cholesky_jvp(t, y)],
    vjp=[lambda g, y, a: project(apply(cholesky_pull, (y, g)), a)],
    lower=Routine("cholesky", lambda a: a.shape[-1:], may_raise=True),
)


@implements(np.linalg.cholesky)
def cholesky_(a: Any, /, *, upper: bool = False) -> Any:
    """L with L L^H = a (or U with U^H U = a). Only the lower (upper) triangle of `a` is read, and
    the gradient is zero in the other one. Raises LinAlgError unless `a` is positive definite."""
    a = as_square(a)
    if not upper:
        return apply(cholesky, (a,))
    return np.copy(adjoint(apply(cholesky, (adjoint(a),))), "C")  # NumPy's memory layout


# QR -----------------------------------------------------------------------------------------------


def _qr_shapes(a: Any, complete: bool) -> Shapes:
    m, n = a.shape[-2:]
    k = m if complete else min(m, n)
    return (m, k), (k, n)


def _qr_jvp(t: Any, y: Any, a: Any, *, complete: bool) -> Any:
    shapes = _qr_shapes(a, complete)
    m, n = shapes[0][0], shapes[1][1]
    k = min(m, n)
    q_full, r_full = unpack(y, shapes)
    q, r = q_full[..., :k], r_full[..., :k, :k]
    z = right_divide(t[..., :k], r)
    x = adjoint(q) @ z
    strict = np.tril(x, -1)
    rotation = strict - adjoint(strict)
    if np.iscomplexobj(x):
        rotation = rotation + diagonal_matrix(1j * np.imag(diagonal_of(x)), x)
    dq = z + q @ (rotation - x)
    dr = (x - rotation) @ r
    if n > k:  # columns right of the square part
        rest = adjoint(q) @ t[..., k:] - rotation @ r_full[..., :k, k:]
        dr = np.concatenate([dr, rest], axis=-1)
    if complete and m > k:
        complement = q_full[..., k:]
        dq = np.concatenate([dq, -q @ (adjoint(dq) @ complement)], axis=-1)
        dr = np.concatenate([dr, np.zeros_like(r_full[..., k:, :])], axis=-2)
    return pack([dq, dr], shapes)


def _qr_vjp(g: Any, y: Any, a: Any, *, complete: bool) -> Any:
    """(gQ - Q B) R^-H, where B is Hermitian with the upper triangle of Q^H gQ - gR R^H."""
    shapes = _qr_shapes(a, complete)
    m, n = shapes[0][0], shapes[1][1]
    k = min(m, n)
    q_full, r_full = unpack(y, shapes)
    gq, gr = unpack(g, shapes)
    q, r = q_full[..., :k], r_full[..., :k, :k]
    if complete and m > k:
        complement = q_full[..., k:]
        gq = gq[..., :k] - complement @ (adjoint(gq[..., k:]) @ q)
    gr = gr[..., :k, :]
    gr_right = gr[..., k:]
    if n > k:
        gq = gq + a[..., k:] @ adjoint(gr_right)
    inner = adjoint(q) @ gq - gr[..., :k] @ adjoint(r)
    b = hermitian_from_triangle(inner, lower=False)
    square = solve_triangle(r, adjoint(gq - q @ b), lower=False)
    found = adjoint(square)
    if n > k:
        found = np.concatenate([found, q @ gr_right], axis=-1)
    return project(found, a)


def _qr(a: Any, *, complete: bool) -> Any:
    return pack(np.linalg.qr(a, "complete" if complete else "reduced"), _qr_shapes(a, complete))


qr = declare(
    "qr",
    infer=lambda a, *, complete: packed_type(a, _qr_shapes(a, complete)),
    evaluate=_qr,
    jvp=[_qr_jvp],
    vjp=[_qr_vjp],
    lower=Routine("qr", lambda a, *, complete: (*a.shape[-2:], _qr_shapes(a, complete)[1][0])),
)


@implements(np.linalg.qr)
def qr_(a: Any, mode: str = "reduced") -> Any:
    """Q and R (`mode` "reduced" or "complete"), R alone ("r"), or LAPACK's reflectors ("raw").

    The first min(m, n) columns of `a` must be independent; else the derivative raises LinAlgError.

    In "complete" mode, the columns of Q beyond the rank are an arbitrary basis of the complement:
    only functions that do not depend on the choice have a derivative.
    """
    a = as_array(a)
    check_matrices(a)
    if mode in ("f", "full"):
        np.linalg.qr(np.ones((1, 1)), mode)  # type: ignore[call-overload]  # warns of the name
        mode = "reduced"
    if mode == "raw":
        return _raw(a)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    complete = mode == "complete"
    q, r = unpack(apply(qr, (a,), {"complete": complete}), _qr_shapes(a, complete))
    return r if mode == "r" else _RESULT(q, r)


_RESULT: Any = type(np.linalg.qr(np.eye(1)))  # NumPy's named tuple


def _raw(a: Any) -> Any:
    """LAPACK's reflectors I - tau v v^H: R with the v below its diagonal, transposed; and
    the tau."""
    kind = np.linalg.qr(np.ones((1, 1), a.dtype), "raw")[0].dtype
    rest = np.astype(a, np.result_type(kind, np.float64))
    rows, columns, scales = [], [], []
    for _ in range(min(np.shape(a)[-2:])):  # column by column, as unblocked `geqrf`
        row, v, tau, rest = _reflected(rest)
        rows.append(row[..., None, :])
        columns.append(v[..., None])
        scales.append(tau)
    for row, column in zip(reversed(rows), reversed(columns), strict=True):
        rest = np.concatenate([row, np.concatenate([column, rest], axis=-1)], axis=-2)
    tau = np.stack(scales, axis=-1) if scales else np.zeros((*np.shape(a)[:-2], 0))
    return np.astype(np.swapaxes(rest, -1, -2), kind), np.astype(tau, kind)


def _reflected(a: Any) -> tuple[Any, Any, Any, Any]:
    """One Householder step: the first row of R, v, tau, and the remaining matrix."""
    first, below = a[..., 0, 0], a[..., 1:, 0]
    rest = np.sum(np.real(below * np.conjugate(below)), axis=-1)
    is_identity = (rest == 0) & (np.imag(first) == 0)  # the reflector is the identity
    square = np.where(is_identity, 1.0, rest + np.real(first * np.conjugate(first)))
    top = np.where(is_identity, first, -np.copysign(np.sqrt(square), np.real(first)))
    safe = np.where(is_identity, 1.0, top)
    tau = np.where(is_identity, 0.0, (safe - first) / safe)
    v = np.where(
        is_identity[..., None], 0.0, below / np.where(is_identity, 1.0, first - safe)[..., None]
    )
    row, remaining = a[..., 0, 1:], a[..., 1:, 1:]
    projection = row + np.sum(np.conjugate(v)[..., None] * remaining, axis=-2)
    projection = np.conjugate(tau)[..., None] * projection
    row = np.concatenate([top[..., None], row - projection], axis=-1)
    return row, v, tau, remaining - v[..., None] * projection[..., None, :]
