"""Linear algebra. Results that NumPy returns as several arrays are packed one after another.

Where NumPy raises LinAlgError, JAX gives NaN or infinity, which the replay checks.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from tracker.interop.jax_ops.table import functions, rule

_ROUNDS = 60  # as in `ops/linalg/pinv_lstsq.py`: the terms of the series double each time


def _packed(*parts: Any, ranks: tuple[int, ...]) -> Any:
    """Stacks of vectors (rank 1) and matrices (rank 2), flat, one after another."""
    dtype = jnp.result_type(*parts)
    rows = [
        jnp.reshape(x, (*x.shape[: x.ndim - k], math.prod(x.shape[x.ndim - k :]))).astype(dtype)
        for x, k in zip(parts, ranks, strict=True)
    ]
    return jnp.concatenate(rows, axis=-1)


def _adjoint(a: Any) -> Any:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _solve(a: Any, b: Any) -> Any:
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return jnp.linalg.solve(a, b)


def _solve_triangular(a: Any, b: Any, lower: bool, trans: str, unit: bool) -> Any:
    dtype = jnp.result_type(a, b)
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x.astype(dtype), (*batch, *x.shape[-2:])) for x in (a, b))
    return jax.lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=trans != "N",
        conjugate_a=trans == "C",
        unit_diagonal=unit,
    )


def _cholesky(a: Any) -> Any:
    """Only the lower triangle is read, as in NumPy."""
    return jnp.tril(jax.lax.linalg.cholesky(jnp.tril(a), symmetrize_input=False))


def _cholesky_pull(y: Any, g: Any) -> Any:
    """L^-H half(L^H g) L^-1, projected to the triangle that is read."""
    dtype = jnp.result_type(y, g)
    y, g = y.astype(dtype), g.astype(dtype)
    m = jnp.tril(_adjoint(jnp.tril(y)) @ g)
    eye = jnp.eye(y.shape[-1], dtype=bool)
    m = jnp.where(eye, m * 0.5, m)
    for _ in range(2):  # L^-H m, then the adjoint of L^-H (L^-H m)^H
        m = _adjoint(_solve_triangular(y, m, True, "C", False))
    return jnp.where(eye, jnp.real(m), jnp.tril(m + _adjoint(m), -1))


def _slogdet(a: Any) -> Any:
    sign, logarithm = jnp.linalg.slogdet(a)
    return jnp.stack([sign, logarithm.astype(sign.dtype)], axis=-1)


def _nullity(a: Any) -> Any:
    s = jnp.linalg.svdvals(a)
    small = jnp.max(s, axis=-1, keepdims=True, initial=0.0) * jnp.finfo(a.dtype).eps * a.shape[-1]
    return jnp.maximum(jnp.count_nonzero(s <= small, axis=-1), 1)


def _bases(a: Any) -> Any:
    u, _, vh = jnp.linalg.svd(a)
    return jnp.stack([u, vh], axis=-3)


def _eigh(a: Any, lower: bool) -> Any:
    w, v = jnp.linalg.eigh(a, "L" if lower else "U", symmetrize_input=False)
    return _packed(w, v, ranks=(1, 2))


def _svd(a: Any, full: bool) -> Any:
    u, s, vh = jnp.linalg.svd(a, full)
    return _packed(s, u, vh, ranks=(1, 2, 2))


def _qr(a: Any, complete: bool) -> Any:
    q, r = jnp.linalg.qr(a, "complete" if complete else "reduced")
    return _packed(q, r, ranks=(2, 2))


def _lstsq(a: Any, b: Any, cutoff: Any) -> Any:
    x, _, rank, _ = jnp.linalg.lstsq(a, b, cutoff)
    return jnp.append(x, rank.astype(x.dtype))


def _stein(c: Any, left: Any, right: Any) -> Any:
    """z = c + left z right, by squared Smith iteration."""
    dtype = jnp.result_type(c, left, right)

    def term(state: Any) -> Any:
        z, left, right, _, count = state
        step = left @ z @ right
        z = z + step
        small = jnp.max(jnp.abs(step), initial=0) <= jnp.finfo(dtype).eps * jnp.max(
            jnp.abs(z), initial=0
        )
        return z, left @ left, right @ right, small, count + 1

    start = (c.astype(dtype), left.astype(dtype), right.astype(dtype), False, 0)
    return jax.lax.while_loop(lambda state: ~state[3] & (state[4] < _ROUNDS), term, start)[0]


def _lu(a: Any) -> Any:
    packed, pivots = jax.scipy.linalg.lu_factor(a)
    return jnp.concatenate([packed.ravel(), pivots.astype(packed.dtype)])


@rule("permutation")
def _permutation(step: Any, pivots: Any, rows: int) -> Any:
    return jax.lax.linalg.lu_pivots_to_permutation(jnp.asarray(pivots, "int32"), rows)


functions(
    {
        "solve": _solve,
        "solve_triangular": _solve_triangular,
        "inv": jnp.linalg.inv,
        "det": jnp.linalg.det,
        "slogdet": _slogdet,
        "bases": _bases,
        "nullity": _nullity,
        "cholesky": _cholesky,
        "cholesky_pull": _cholesky_pull,
        "qr": _qr,
        "eigh": _eigh,
        "eigvalsh": lambda a, lower: jnp.linalg.eigvalsh(
            a, "L" if lower else "U", symmetrize_input=False
        ),
        "eig": lambda a: _packed(*jnp.linalg.eig(a), ranks=(1, 2)),
        "eigvals": jnp.linalg.eigvals,
        "svd": _svd,
        "svdvals": jnp.linalg.svdvals,
        "pinv": lambda a, cutoff: jnp.linalg.pinv(a, rtol=cutoff),
        "lstsq": _lstsq,
        "coupled": _stein,
        "lu": _lu,
        "expm": jax.scipy.linalg.expm,
    }
)
