"""The pseudo-inverse and least squares.

Ops: `pinv`, `lstsq` (solution and rank), and `stein`. The first two have their cutoff as last
operand. Formulas: G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
squares problems whose variables separate" (1973). They hold where the rank is locally constant and
the dropped singular values are zero. A cutoff that drops more than noise (`NOISE_CUTOFF`) leaves D
= a - a P a, and the kept singular vectors rotate with those of D. The additional term solves the
Stein equation Z = C + P P^H Z D D^H: the coefficients of Z between vectors with singular values s
and d are those of C divided by 1 - d^2 / s^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.lowering import Host, Routine
from tracker.ir.types import Type
from tracker.ops.declare.arguments import NO_VALUE
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.rule_helpers import project
from tracker.ops.linalg.triangles import (
    as_array,
    as_square,
    epsilon,
    expand_last,
    hermitian_from_triangle,
    linalg_dtype,
    real_part,
)
from tracker.ops.shape.shape import adjoint
from tracker.tape.conversions import guarded_data
from tracker.tape.record import apply

NOISE_CUTOFF = 1e-7  # smaller cutoffs are assumed to drop noise only


def _evaluate_stein(c: Any, left: Any, right: Any) -> Any:
    """Squared Smith iteration: every step doubles the number of terms of the series."""
    sizes = [np.linalg.norm(x, 2, axis=(-2, -1), keepdims=True) for x in (left, right)]
    with np.errstate(all="ignore"):
        balance = np.sqrt(sizes[1] / sizes[0])
    balance = np.where(np.isfinite(balance) & (balance > 0), balance, 1).astype(balance.dtype)
    left, right = left * balance, right / balance
    z, eps = c, np.finfo(c.dtype).eps
    for _ in range(60):
        step = left @ z @ right
        z = z + step
        if not np.max(np.abs(step), initial=0) > eps * np.max(np.abs(z), initial=0):
            break
        left, right = left @ left, right @ right
    return z


def _solve_stein(c: Any, left: Any, right: Any) -> Any:
    return apply(stein, (c, left, right))


stein = declare(  # z = c + left z right
    "coupled",
    infer=lambda c, left, right: Type(c.shape, c.dtype),
    evaluate=_evaluate_stein,
    jvp=[
        lambda t, z, c, left, right: _solve_stein(t, left, right),
        lambda t, z, c, left, right: _solve_stein(t @ z @ right, left, right),
        lambda t, z, c, left, right: _solve_stein(left @ z @ t, left, right),
    ],
    vjp=[
        lambda g, z, c, left, right: _solve_stein(g, adjoint(left), adjoint(right)),
        lambda g, z, c, left, right: (
            _solve_stein(g, adjoint(left), adjoint(right)) @ adjoint(z @ right)
        ),
        lambda g, z, c, left, right: (
            adjoint(left @ z) @ _solve_stein(g, adjoint(left), adjoint(right))
        ),
    ],
    lower=Host("a series that stops when its terms are small"),
)


def _drops_signal(a: Any, cutoff: Any) -> bool:
    """Whether nonzero singular values are dropped."""
    if not bool(np.any(np.asarray(cutoff) > NOISE_CUTOFF)):
        return False
    s = np.linalg.svdvals(a)
    return bool(
        np.any((s > 0) & (s <= expand_last(cutoff) * np.max(s, axis=-1, keepdims=True, initial=0)))
    )


def _truncation_products(p: Any, a: Any) -> tuple[Any, ...]:
    """P P^H, P^H P, and D with D D^H, D^H D."""
    q, d = adjoint(p), a - a @ p @ a
    return p @ q, q @ p, d, d @ adjoint(d), adjoint(d) @ d


def _pinv_jvp(t: Any, y: Any, a: Any, cutoff: Any) -> Any:
    p, q = y, adjoint(y)
    ta = adjoint(t)
    if _drops_signal(a, cutoff):
        pq, qp, d, dd, below = _truncation_products(p, a)
        da = adjoint(d)
        right = _solve_stein(pq @ (ta - ta @ a @ p + p @ t @ da), pq, dd)
        return right + _solve_stein((ta - p @ a @ ta + da @ t @ p) @ qp, below, qp) - p @ t @ p
    return -(p @ t @ p) + (p @ q) @ (ta - ta @ a @ p) + (ta - p @ a @ ta) @ (q @ p)


def _pinv_vjp(g: Any, y: Any, a: Any, cutoff: Any) -> Any:
    p, q = y, adjoint(y)
    ga = adjoint(g)
    if _drops_signal(a, cutoff):
        pq, qp, d, dd, below = _truncation_products(p, a)
        w, v = pq @ _solve_stein(g, pq, dd), _solve_stein(g, below, qp) @ qp
        wa, va = adjoint(w), adjoint(v)
        found = wa - a @ p @ wa + q @ w @ d + va - va @ p @ a + d @ v @ q - q @ g @ q
        return project(found, a)
    found = -(q @ g @ q) + (ga - a @ p @ ga) @ (p @ q) + (q @ p) @ (ga - ga @ p @ a)
    return project(found, a)


pinv = declare(
    "pinv",
    infer=lambda a, cutoff: Type((*a.shape[:-2], a.shape[-1], a.shape[-2]), linalg_dtype(a.dtype)),
    evaluate=np.linalg.pinv,
    jvp=[_pinv_jvp, None],
    vjp=[_pinv_vjp, None],
    lower=Routine("pinv", lambda a, cutoff: a.shape[-2:], scalar_operands=(1,), may_raise=True),
)


@implements(np.linalg.pinv)
def pinv_(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Any:
    """The pseudo-inverse P. Singular values below the cutoff count as zero, also to the derivative:
    -P da P + P P^H da^H (1 - a P) + (1 - P a) da^H P^H P."""
    a = as_array(a)
    if rcond is not None and rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    cutoff = rcond if rcond is not None else 1e-15 if rtol is NO_VALUE else rtol
    if cutoff is None:
        cutoff = max(np.shape(a)[-2:]) * epsilon(a)
    if hermitian:
        a = hermitian_from_triangle(as_square(a))
    return apply(pinv, (a, guarded_data(cutoff)))


def _lstsq(a: Any, b: Any, cutoff: Any) -> Any:
    x, _, rank, _ = np.linalg.lstsq(a, b, cutoff)
    return np.append(x, x.dtype.type(rank))


def _solution(flat: Any, a: Any, b: Any) -> Any:
    """The solution in the op's packed result; the rank is a constant to derivatives."""
    return np.reshape(flat[:-1], (np.shape(a)[-1], np.shape(b)[-1]))


def _solution_tangent(x: Any) -> Any:
    """A tangent of the op's packed result."""
    return np.concatenate([np.ravel(x), np.zeros_like(x, shape=(1,))])


def _lstsq_jvp_a(t: Any, y: Any, a: Any, b: Any, cutoff: Any) -> Any:
    x = _solution(y, a, b)
    p = np.linalg.pinv(a, cutoff)
    left = adjoint(t)
    rest = left @ (adjoint(p) @ x)
    moved = -p @ (t @ x) + p @ (adjoint(p) @ (left @ (b - a @ x)))
    return _solution_tangent(moved + rest - p @ (a @ rest))


def _lstsq_vjp_a(g: Any, y: Any, a: Any, b: Any, cutoff: Any) -> Any:
    x, g = _solution(y, a, b), _solution(g, a, b)
    p = np.linalg.pinv(a, cutoff)
    q = adjoint(p)
    back = q @ g
    found = -back @ adjoint(x) + (b - a @ x) @ adjoint(p @ back)
    return project(found + (q @ x) @ adjoint(g - p @ (a @ g)), a)


lstsq = declare(  # the solution and the rank, flat
    "lstsq",
    infer=lambda a, b, cutoff: Type(
        (a.shape[-1] * b.shape[-1] + 1,), linalg_dtype(a.dtype, b.dtype)
    ),
    evaluate=_lstsq,
    jvp=[
        _lstsq_jvp_a,
        lambda t, y, a, b, cutoff: _solution_tangent(np.linalg.pinv(a, cutoff) @ t),
        None,
    ],
    vjp=[
        _lstsq_vjp_a,
        lambda g, y, a, b, cutoff: project(
            adjoint(np.linalg.pinv(a, cutoff)) @ _solution(g, a, b), b
        ),
        None,
    ],
    lower=Routine(
        "lstsq", lambda a, b, cutoff: (*a.shape, b.shape[-1]), scalar_operands=(2,), may_raise=True
    ),
)


@implements(np.linalg.lstsq)
def lstsq_(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """x, residuals, rank, singular values of `a`. All but the rank have derivatives."""
    a, b = as_array(a), as_array(b)
    if np.ndim(a) != 2 or np.ndim(b) not in (1, 2):
        raise np.linalg.LinAlgError("lstsq takes a matrix and a vector or a matrix")
    m, n = np.shape(a)
    if np.shape(b)[0] != m:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    right = np.reshape(b, (-1, 1)) if np.ndim(b) == 1 else b
    eps = float(np.finfo(np.float64).eps)  # NumPy computes in float64
    cutoff = max(m, n) * eps if rcond is None else guarded_data(rcond)
    a64 = np.astype(a, np.result_type(a.dtype, np.float64))
    s = np.astype(np.linalg.svdvals(a64), np.finfo(linalg_dtype(a.dtype, b.dtype)).dtype)
    x: Any
    rank: Any
    if np.size(s) and cutoff > NOISE_CUTOFF:
        x, rank = np.linalg.pinv(a64, cutoff) @ right, np.intc(np.count_nonzero(s > cutoff * s[0]))
        x = np.astype(x, linalg_dtype(a.dtype, b.dtype))
    else:
        flat = apply(lstsq, (a, right, cutoff))
        x, rank = _solution(flat, a, right), np.astype(real_part(flat[-1]), np.intc)
    deviation = right - a @ x
    if m > n and int(rank) == n:
        residuals = np.sum(real_part(deviation * np.conjugate(deviation)), axis=0)
    else:
        residuals = np.zeros_like(real_part(x), shape=(0,))
    return x[:, 0] if np.ndim(b) == 1 else x, residuals, rank, s
