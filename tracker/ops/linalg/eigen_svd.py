"""Eigenvalues, singular values, and their vectors.

Ops: `eigh`, `eigvalsh`, `eig`, `eigvals`, `svd`, `svdvals`. Ops with vectors return one packed
array, values first (`unpack`). Formulas: M. Giles (2008); J. Townsend, "Differentiating the
singular value decomposition" (2016); M. Seeger et al., "Auto-differentiating linear algebra"
(2017).

Where values coincide, their vectors are an arbitrary basis of a space, and a derivative must not
depend on the choice. Derivatives of values are right all the same, and so are those of results that
depend on the vectors only through sums over the space: the undetermined terms are zero, and are
taken as 0. Where the cotangent shows that a result may depend on more, a DegenerateWarning names
the pair. Phases of complex vectors are LAPACK's; results that depend on them have no meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Expand, Routine
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.rule_helpers import project
from tracker.ops.indexing.getitem import getitem
from tracker.ops.linalg.degenerate import (
    cotangent_scale,
    mark_coinciding,
    mark_near,
    mark_null,
    null_mask,
    pairwise_and,
    pairwise_sums,
    reciprocal_gaps,
    vanishes_with,
    warn_coinciding,
    warn_unequal,
    warn_vanishing,
    without_accidental_zeros,
)
from tracker.ops.linalg.triangles import (
    Shapes,
    as_array,
    as_square,
    check_matrices,
    diagonal_matrix,
    diagonal_of,
    expand_last,
    hermitian_from_triangle,
    linalg_dtype,
    pack,
    packed_type,
    project_to_triangle,
    real_dtype,
    real_part,
    unpack,
)
from tracker.ops.shape.shape import adjoint
from tracker.support.numpy_version import version_of
from tracker.tape.record import apply

# Hermitian matrices -------------------------------------------------------------------------------


def _eigh_shapes(a: Any) -> Shapes:
    n = a.shape[-1]
    return (n,), (n, n)


def _eigh(a: Any, *, lower: bool) -> Any:
    return pack(np.linalg.eigh(a, "L" if lower else "U"), _eigh_shapes(a))


def _eigh_jvp(t: Any, y: Any, a: Any, *, lower: bool) -> Any:
    w, v = unpack(y, _eigh_shapes(a))
    inner = adjoint(v) @ hermitian_from_triangle(t, lower) @ v
    gaps, near = reciprocal_gaps(real_part(w), a)
    warn_coinciding(near, inner, "eigenvalues")
    return pack([real_part(diagonal_of(inner)), v @ (gaps * inner)], _eigh_shapes(a))


def _eigh_vjp(g: Any, y: Any, a: Any, *, lower: bool) -> Any:
    w, v = unpack(y, _eigh_shapes(a))
    w = real_part(w)
    gw, gv = unpack(g, _eigh_shapes(a))
    inner = adjoint(v) @ gv
    followed = _pairs_followed(inner, w, gw, a)
    gaps, near = reciprocal_gaps(w, a, followed)
    warn_coinciding(near, inner, "eigenvalues")
    warn_unequal(near, real_part(gw), "eigenvalues")
    middle = gaps * inner + diagonal_matrix(real_part(gw), inner)
    back = v @ middle @ adjoint(v)
    if followed is not None:
        back = mark_near(back, followed & (inner != 0), "eigenvalues")
    return project(project_to_triangle(back, lower), a)


def _pairs_followed(inner: Any, w: Any, gw: Any, a: Any) -> Any:
    """[i, j]: whether both values are null and the cotangent of their vectors vanishes with them;
    None if fewer than two values are null."""
    null = pairwise_and(null_mask(w, a))
    if not bool(np.any(null & ~np.eye(np.shape(w)[-1], dtype=bool))):
        return None
    m = np.maximum(np.abs(inner), np.abs(adjoint(inner)))
    return null & vanishes_with(m, pairwise_sums(np.abs(w)), w, cotangent_scale(gw, w, inner))


eigh = declare(
    "eigh",
    infer=lambda a, *, lower: packed_type(a, _eigh_shapes(a)),
    evaluate=_eigh,
    jvp=[_eigh_jvp],
    vjp=[_eigh_vjp],
    lower=Routine("eigh", lambda a, *, lower: (a.shape[-1], int(lower)), may_raise=True),
)


def _eigvalsh_jvp(t: Any, y: Any, a: Any, *, lower: bool) -> Any:
    v = np.linalg.eigh(a, "L" if lower else "U")[1]
    return real_part(np.sum(np.conjugate(v) * (hermitian_from_triangle(t, lower) @ v), axis=-2))


def _eigvalsh_vjp(g: Any, y: Any, a: Any, *, lower: bool) -> Any:
    v = np.linalg.eigh(a, "L" if lower else "U")[1]
    return project(project_to_triangle((v * np.expand_dims(g, -2)) @ adjoint(v), lower), a)


eigvalsh = declare(
    "eigvalsh",
    infer=lambda a, *, lower: Type(a.shape[:-1], real_dtype(linalg_dtype(a.dtype))),
    evaluate=lambda a, *, lower: np.linalg.eigvalsh(a, "L" if lower else "U"),
    jvp=[_eigvalsh_jvp],
    vjp=[_eigvalsh_vjp],
    lower=Routine("eigvalsh", lambda a, *, lower: (a.shape[-1], int(lower)), may_raise=True),
)


def _is_lower(uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo.upper() == "L"


@implements(np.linalg.eigh)
def eigh_(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues w, ascending, and vectors V of a Hermitian matrix, of which one triangle is read.

    The cotangent, before it is projected to that triangle, is V (diag(gw) + F * (V^H gV)) V^H with
    F[i, j] = 1 / (w[j] - w[i]).
    """
    a = as_square(a)
    w, v = unpack(apply(eigh, (a,), {"lower": _is_lower(UPLO)}), _eigh_shapes(a))
    return _EIGH(real_part(w), v)


@implements(np.linalg.eigvalsh)
def eigvalsh_(a: Any, UPLO: str = "L") -> Any:
    a = as_square(a)
    return apply(eigvalsh, (a,), {"lower": _is_lower(UPLO)})


# General matrices ---------------------------------------------------------------------------------


def _complex_kind(a: Type) -> np.dtype[Any]:
    return np.result_type(linalg_dtype(a.dtype), np.complex64)


def _eig(a: Any) -> Any:
    """Always complex: NumPy before 2.5 returns reals for some matrices, depending on the
    numbers."""
    w, v = np.linalg.eig(a)
    return pack([w, v], _eigh_shapes(a)).astype(np.result_type(w, np.complex64))


def _largest_mask(v: Any) -> Any:
    """The mask of each column's largest element, which LAPACK makes real."""
    if np.size(v) == 0:
        return np.zeros(np.shape(v), bool)
    rows = np.expand_dims(np.argmax(np.abs(v), axis=-2), -2)
    return np.arange(np.shape(v)[-1]).reshape(-1, 1) == rows


def _eig_jvp(t: Any, y: Any, a: Any) -> Any:
    """dV keeps the length of the columns, and their largest elements real."""
    w, v = unpack(y, _eigh_shapes(a))
    inner = np.linalg.solve(v, t @ v)
    gaps, near = reciprocal_gaps(w, a)
    warn_coinciding(near, inner, "eigenvalues")
    dv = v @ (gaps * inner)
    along = np.real(np.sum(np.conjugate(v) * dv, axis=-2, keepdims=True))
    phase = np.sum(np.where(_largest_mask(v), np.imag(dv / v), 0.0), axis=-2, keepdims=True)
    return pack([diagonal_of(inner), dv - v * (along + 1j * phase)], _eigh_shapes(a))


def _eig_vjp(g: Any, y: Any, a: Any) -> Any:
    w, v = unpack(y, _eigh_shapes(a))
    gw, gv = unpack(g, _eigh_shapes(a))
    along = np.sum(np.conjugate(v) * gv, axis=-2, keepdims=True)
    phase = np.where(_largest_mask(v), 1j * np.imag(along) / np.conjugate(v), 0.0)
    inner = adjoint(v) @ (gv - v * np.real(along) - phase)
    gaps, near = reciprocal_gaps(w, a)
    warn_coinciding(near, inner, "eigenvalues")
    warn_unequal(near, gw, "eigenvalues")
    middle = np.conjugate(gaps) * inner + diagonal_matrix(gw, inner)
    return project(np.linalg.solve(adjoint(v), middle @ adjoint(v)), a)


eig = declare(
    "eig",
    infer=lambda a: packed_type(a, _eigh_shapes(a), _complex_kind(a)),
    evaluate=_eig,
    jvp=[_eig_jvp],
    vjp=[_eig_vjp],
    lower=Routine("eig", lambda a: a.shape[-1:], may_raise=True),
)


def _eigvals_jvp(t: Any, y: Any, a: Any) -> Any:
    w, v = _complex_eig(a)
    return mark_coinciding(diagonal_of(np.linalg.solve(v, t @ v)), w, a, "eigenvalues")


def _eigvals_vjp(g: Any, y: Any, a: Any) -> Any:
    """V^-H diag(g) V^H, with the vectors in the order of the values `y`."""
    w, v = _complex_eig(a)
    back = np.linalg.solve(adjoint(v), expand_last(g) * adjoint(v))
    return project(mark_coinciding(back, w, a, "eigenvalues"), a)


def _complex_eig(a: Any) -> list[Any]:
    return unpack(apply(eig, (a,)), _eigh_shapes(a))


def _eigvals(a: Any) -> Any:
    w = np.linalg.eig(a)[0]  # in the order of `eig`, which the rules use
    return w.astype(np.result_type(w, np.complex64))


def _eigvals_build(b: Any, a: Any) -> Any:
    batch = tuple(slice(0, n, 1) for n in a.type.shape[:-2])
    return b(getitem, b(eig, a), index=(*batch, slice(0, a.type.shape[-1], 1)))


eigvals = declare(
    "eigvals",
    infer=lambda a: Type(a.shape[:-1], _complex_kind(a)),
    evaluate=_eigvals,
    jvp=[_eigvals_jvp],
    vjp=[_eigvals_vjp],
    lower=Expand(_eigvals_build),
)


@implements(np.linalg.eig)
def eig_(a: Any) -> Any:
    """Eigenvalues and vectors (columns of length one) of a general matrix.

    As NumPy's, which before 2.5 are real if all eigenvalues of a real matrix are. The cotangent is
    V^-H (diag(gw) + conj(F) * (V^H gV)) V^H, where gV is first made orthogonal to V's columns.
    """
    a = as_square(a)
    w, v = _complex_eig(a)
    if _MAY_BE_REAL and _are_real(a, w):
        w, v = np.real(w), np.real(v)
    return _EIG(w, v)


@implements(np.linalg.eigvals)
def eigvals_(a: Any) -> Any:
    a = as_square(a)
    return real_if_all_real(apply(eigvals, (a,)), a) if _MAY_BE_REAL else apply(eigvals, (a,))


def real_if_all_real(w: Any, a: Any) -> Any:
    """The eigenvalues of `a`, real if all of them are."""
    return np.real(w) if _are_real(a, w) else w


def _are_real(a: Any, w: Any) -> bool:
    return not np.iscomplexobj(a) and bool(np.all(np.imag(w) == 0))


# Singular values ----------------------------------------------------------------------------------


def _svd_shapes(a: Any, full: bool) -> Shapes:
    m, n = a.shape[-2:]
    k = min(m, n)
    return (k,), (m, m if full else k), (n if full else k, n)


def _svd(a: Any, *, full: bool) -> Any:
    u, s, vh = np.linalg.svd(a, full)
    return pack([s, u, vh], _svd_shapes(a, full))


def _quotients(x: Any, skipped: Any) -> Any:
    """1 / x, and 0 where it is skipped."""
    return np.where(skipped, np.zeros_like(x), 1 / np.where(skipped, np.ones_like(x), x))


def _basis_rotations(d: Any, s: Any, a: Any) -> tuple[Any, Any]:
    """U^H dU and V^H dV for d = U^H da V, within the space of the singular values.

    Their difference is determined unless both singular values are zero, their sum unless they are
    equal.
    """
    gaps, coincide = reciprocal_gaps(s, a)
    null = pairwise_and(null_mask(s, a))
    symmetric, antisymmetric = (d + adjoint(d)) * 0.5, (d - adjoint(d)) * 0.5
    warn_coinciding(coincide, np.where(null, d, symmetric), "singular values")
    sum_part, difference = gaps * symmetric, _quotients(pairwise_sums(s), null) * antisymmetric
    return sum_part + difference, sum_part - difference


def _svd_jvp(t: Any, y: Any, a: Any, *, full: bool) -> Any:
    s, u, vh = unpack(y, _svd_shapes(a, full))
    s = without_accidental_zeros(real_part(s), a)
    k = min(a.shape[-2:])
    u1, v1 = u[..., :k], adjoint(vh[..., :k, :])
    d = adjoint(u1) @ t @ v1
    rotation_u, rotation_v = _basis_rotations(d, s, a)
    null = np.expand_dims(null_mask(s, a), -2)
    inverse_s = _quotients(np.expand_dims(s, -2), null)
    outside_u = _orthogonal_part(t @ v1, u1, d)
    outside_v = _orthogonal_part(adjoint(t) @ u1, v1, adjoint(d))
    size = np.max(np.abs(t), axis=(-2, -1), keepdims=True, initial=0)
    for part in (outside_u, outside_v, np.expand_dims(np.imag(diagonal_of(d)), -2)):
        warn_vanishing(null, part, size)
    du, dv = u1 @ rotation_u + outside_u * inverse_s, v1 @ rotation_v + outside_v * inverse_s
    if full:
        du = _complete_basis_tangent(du, u[..., :k], u[..., k:])
        dv = _complete_basis_tangent(dv, v1, adjoint(vh[..., k:, :]))
    return pack([real_part(diagonal_of(d)), du, adjoint(dv)], _svd_shapes(a, full))


def _complete_basis_tangent(d: Any, first: Any, rest: Any) -> Any:
    """The tangent of a full basis: its other columns stay orthogonal to the first ones."""
    if not np.shape(rest)[-1]:
        return d
    return np.concatenate([d, -first @ (adjoint(d) @ rest)], axis=-1)


def _reduce_basis_cotangent(g: Any, u: Any, k: int) -> Any:
    """The cotangent of a basis's first columns, including what arrives through the others."""
    if np.shape(u)[-1] == k:
        return g
    first, rest = u[..., :k], u[..., k:]
    return g[..., :k] - rest @ (adjoint(g[..., k:]) @ first)


def _svd_vjp(g: Any, y: Any, a: Any, *, full: bool) -> Any:
    """With u = U^H gU and v = V^H gV, the entry [i, j] of U^H (.) V comes from (u - u^H + v - v^H)
    / (s[j] - s[i]) and (u - u^H - v + v^H) / (s[j] + s[i])."""
    s, u, vh = unpack(y, _svd_shapes(a, full))
    gs, gu, gvh = unpack(g, _svd_shapes(a, full))
    s, gs = without_accidental_zeros(real_part(s), a), real_part(gs)
    k = min(a.shape[-2:])
    v = adjoint(vh)
    gu, gv = _reduce_basis_cotangent(gu, u, k), _reduce_basis_cotangent(adjoint(gvh), v, k)
    u1, v1 = u[..., :k], v[..., :k]
    inner_u, inner_v = adjoint(u1) @ gu, adjoint(v1) @ gv
    outside_u, outside_v = _orthogonal_part(gu, u1, inner_u), _orthogonal_part(gv, v1, inner_v)
    null = null_mask(s, a)
    skipped, skipped_pairs, followed, vanishing = null, pairwise_and(null), None, null
    m = np.maximum(np.abs(inner_u), np.abs(inner_v))
    if bool(np.any(null)):
        size, outside_max = (
            cotangent_scale(gs, s, gu, gv),
            np.maximum(_column_max(outside_u), _column_max(outside_v)),
        )
        skipped = null & ((s == 0) | ~vanishes_with(outside_max, s, s, size[..., 0]))
        m_symmetric = np.maximum(m, np.swapaxes(m, -1, -2))
        followed = skipped_pairs & vanishes_with(m_symmetric, pairwise_sums(s), s, size)
        skipped_pairs = skipped_pairs & ~(followed & (pairwise_sums(s) != 0))
        warn_vanishing(skipped, outside_max, size[..., 0])
        warn_vanishing(_undetermined(s, a), gs, np.max(np.abs(gs), axis=-1, keepdims=True))
        used = followed & (m_symmetric != 0) & _may_rotate(a)
        vanishing = (null & ~skipped & (outside_max != 0)) | np.any(used, axis=-1)
    gaps, coincide = reciprocal_gaps(s, a, followed)
    symmetric, antisymmetric = (inner_u + inner_v) * 0.5, (inner_u - inner_v) * 0.5
    # For null values, the cotangents of a smooth function of the matrix are Hermitian.
    asymmetry = np.maximum(*(np.abs(inner - adjoint(inner)) for inner in (inner_u, inner_v)))
    warn_coinciding(
        coincide, np.where(skipped_pairs, asymmetry, np.abs(symmetric)), "singular values"
    )
    warn_unequal(coincide & ~pairwise_and(null), gs, "singular values")
    sum_part, difference = (
        gaps * symmetric,
        _quotients(pairwise_sums(s), skipped_pairs) * antisymmetric,
    )
    middle = (
        sum_part
        + adjoint(sum_part)
        + difference
        - adjoint(difference)
        + diagonal_matrix(gs, sum_part)
    )
    inverse_s = np.expand_dims(_quotients(s, skipped), -2)
    left = u1 @ middle + outside_u * inverse_s
    back = left @ adjoint(v1) + (u1 * inverse_s) @ adjoint(outside_v)
    return project(mark_null(back, vanishing), a)


def _orthogonal_part(g: Any, basis: Any, inner: Any) -> Any:
    """The part of vectors orthogonal to a basis; exactly 0 if the basis is complete."""
    return np.zeros_like(g) if np.shape(g)[-2] == np.shape(g)[-1] else g - basis @ inner


def _may_rotate(a: Any) -> Any:
    """[i, j]: whether vectors i and j may rotate, by a phase or towards each other."""
    return np.iscomplexobj(a) | ~np.eye(min(a.shape[-2:]), dtype=bool)


def _column_max(columns: Any) -> Any:
    return np.max(np.abs(columns), axis=-2, initial=0)


def _undetermined(s: Any, a: Any) -> Any:
    """Singular values that are exactly 0 and whose vectors may rotate, by a phase or into each
    other: even `(u * s) @ vh` does not depend on their vectors."""
    zero = s == 0
    if np.iscomplexobj(a) or np.shape(a)[-2] != np.shape(a)[-1]:
        return zero
    return zero & (np.count_nonzero(zero, axis=-1, keepdims=True) > 1)


svd = declare(
    "svd",
    infer=lambda a, *, full: packed_type(a, _svd_shapes(a, full)),
    evaluate=_svd,
    jvp=[_svd_jvp],
    vjp=[_svd_vjp],
    lower=Routine("svd", lambda a, *, full: (*a.shape[-2:], int(full)), may_raise=True),
)


def _svdvals_jvp(t: Any, y: Any, a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    slope = real_part(np.sum(np.conjugate(u) * (t @ adjoint(vh)), axis=-2))
    return np.where(s == 0, np.zeros_like(slope), slope)


def _svdvals_vjp(g: Any, y: Any, a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    weight = np.where(s == 0, np.zeros_like(g), g)
    return project((u * np.expand_dims(weight, -2)) @ vh, a)


svdvals = declare(
    "svdvals",
    infer=lambda a: Type((*a.shape[:-2], min(a.shape[-2:])), real_dtype(linalg_dtype(a.dtype))),
    evaluate=lambda a: np.linalg.svd(a, compute_uv=False),
    jvp=[_svdvals_jvp],
    vjp=[_svdvals_vjp],
    lower=Routine("svdvals", lambda a: a.shape[-2:], may_raise=True),
)


@implements(np.linalg.svd)
def svd_(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """U, s, V^H. With `hermitian`, by `eigh` of the lower triangle, as in NumPy.

    A zero singular value has the derivative u^H dA v, that of a signed value, which makes (U * s)
    V^H right; `svdvals` has 0 there, as abs has at 0. With `full_matrices`, the columns beyond the
    singular values are an arbitrary basis of the complement, and move with the others.
    """
    a = as_array(a)
    check_matrices(a)
    if not compute_uv:
        if not hermitian:
            return apply(svdvals, (a,))
        return np.flip(np.sort(np.abs(np.linalg.eigvalsh(a)), axis=-1), -1)
    if hermitian:
        w, u = np.linalg.eigh(a)
        order = np.flip(np.argsort(np.abs(w), axis=-1), -1)
        w = np.take_along_axis(w, order, axis=-1)
        u = np.take_along_axis(u, np.expand_dims(order, -2), axis=-1)
        sign = np.copysign(np.ones_like(w), w)
        return _SVD(u, w * sign, adjoint(u * np.expand_dims(sign, -2)))
    shapes = _svd_shapes(a, bool(full_matrices))
    s, u, vh = unpack(apply(svd, (a,), {"full": bool(full_matrices)}), shapes)
    return _SVD(u, without_accidental_zeros(real_part(s), a), vh)


@implements(np.linalg.svdvals)
def svdvals_(x: Any, /) -> Any:
    x = as_array(x)
    check_matrices(x)
    return apply(svdvals, (x,))


_ONE = np.eye(1)  # an argument for NumPy's named tuples
_EIGH: Any = type(np.linalg.eigh(_ONE))
_EIG: Any = type(np.linalg.eig(_ONE))
_MAY_BE_REAL = version_of(np) < (2, 5)  # eigenvalues
_SVD: Any = type(np.linalg.svd(_ONE))
