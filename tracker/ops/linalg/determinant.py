"""`det`, with a gradient that exists for singular matrices.

The gradient of a determinant is the matrix of cofactors: det(a) a^-H for a regular matrix, and a
polynomial of the entries in general. So that derivatives of any order are right, the cofactors of a
singular matrix are computed from `a` itself, in its singular bases (constants to derivatives):
there the block of large singular values is invertible, and the rest, its Schur complement of the
size of the null space, is small, with cofactors by the division-free algorithm of Faddeev and
LeVerrier (Householder, "The Theory of Matrices in Numerical Analysis" (1964), 6.7). Start at `det`,
then `_adjugate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Host, Routine
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, implements, nondiff_op
from tracker.ops.declare.rule_helpers import project
from tracker.ops.linalg.triangles import as_square, epsilon, expand_last, linalg_dtype
from tracker.ops.shape.shape import adjoint
from tracker.tape.record import apply


def _bases(a: Any) -> Any:
    u, _, vh = np.linalg.svd(a)
    return np.stack([u, vh], axis=-3)


def _nullity(a: Any) -> Any:
    s = np.linalg.svdvals(a)
    small = np.max(s, axis=-1, keepdims=True, initial=0.0) * epsilon(a) * a.shape[-1]
    return np.maximum(np.count_nonzero(s <= small, axis=-1), 1)


bases = nondiff_op(
    "bases",
    infer=lambda a: Type((*a.shape[:-2], 2, *a.shape[-2:]), linalg_dtype(a.dtype)),
    evaluate=_bases,
    lower=Host("the bases of a singular matrix"),
)
nullity = nondiff_op(
    "nullity",
    infer=lambda a: Type(a.shape[:-2], np.dtype(np.intp)),
    evaluate=_nullity,
    lower=Host("the rank of a singular matrix"),
)


def _adjugate(y: Any, a: Any) -> Any:
    """det(a) a^-1; `y` is the determinant."""
    regular = y != 0
    if bool(np.all(regular)):
        return np.linalg.inv(a) * expand_last(y, 2)
    found: Any = 0.0
    null = np.where(regular, 0, apply(nullity, (a,)))
    for k in sorted({int(number) for number in np.ravel(null)}):
        mask = expand_last(null == k, 2)
        chosen = np.where(mask, a, _matrix_of_nullity(k, a))
        each = _adjugate_of_nullity(chosen, k) if k else np.linalg.inv(chosen) * expand_last(y, 2)
        found = found + np.where(mask, each, np.zeros_like(each))
    return found


def _matrix_of_nullity(k: int, a: Any) -> Any:
    n = np.shape(a)[-1]
    return np.diag(np.arange(n) < n - k).astype(a.dtype)


def _adjugate_of_nullity(a: Any, k: int) -> Any:
    """The adjugate of matrices whose `k` smallest singular values are zero, by blocks."""
    m = np.shape(a)[-1] - k
    if not m:
        return _faddeev_leverrier(a)[0]
    u_and_vh = apply(bases, (a,))
    u, vh = u_and_vh[..., 0, :, :], u_and_vh[..., 1, :, :]
    b = adjoint(u) @ a @ adjoint(vh)
    inverse = np.linalg.inv(b[..., :m, :m])
    left, right = inverse @ b[..., :m, m:], b[..., m:, :m] @ inverse
    small, small_det = _faddeev_leverrier(b[..., m:, m:] - b[..., m:, :m] @ left)
    top = np.concatenate([inverse * small_det + left @ small @ right, -left @ small], axis=-1)
    bottom = np.concatenate([-small @ right, small], axis=-1)
    scale = np.linalg.det(u) * np.linalg.det(vh) * np.linalg.det(b[..., :m, :m])
    return adjoint(vh) @ np.concatenate([top, bottom], axis=-2) @ adjoint(u) * expand_last(scale, 2)


def _faddeev_leverrier(a: Any) -> tuple[Any, Any]:
    """The adjugate, and the determinant as a 1 x 1 matrix, as polynomials: for a matrix that is
    small, or near zero."""
    n = np.shape(a)[-1]
    eye = np.eye(n, dtype=a.dtype)
    power, coefficient = np.zeros_like(a), np.ones((), a.dtype)
    for j in range(1, n + 1):
        power = a @ power + coefficient * eye
        trace = np.trace(a @ power, axis1=-2, axis2=-1)
        coefficient = expand_last(trace, 2) * (-1.0 / j)
    sign = (-1.0) ** n
    return -sign * power, sign * coefficient


det = declare(
    "det",
    infer=lambda a: Type(a.shape[:-2], linalg_dtype(a.dtype)),
    evaluate=np.linalg.det,
    jvp=[lambda t, y, a: np.sum(np.swapaxes(_adjugate(y, a), -1, -2) * t, axis=(-2, -1))],
    vjp=[lambda g, y, a: project(expand_last(g, 2) * adjoint(_adjugate(y, a)), a)],
    lower=Routine("det", lambda a: a.shape[-1:], takes_factored=True, takes_transposed=True),
)


@implements(np.linalg.det)
def det_(a: Any) -> Any:
    """The determinant; its gradient is the matrix of cofactors, also where `a` is singular."""
    a = as_square(a)
    return apply(det, (a,))
