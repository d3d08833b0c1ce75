"""The pseudo-inverse and least squares.

The ops are `pinv` and `lstsq` (the solution and the rank); both take their cutoff as a last
operand. Formulas: G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
squares problems whose variables separate" (1973). They hold where the rank does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import Routine
from tracker.ir.types import Type
from tracker.ops.cotangents import project
from tracker.ops.declare import NO_VALUE, declare, implements
from tracker.ops.linalg.parts import (
    adjoint,
    as_array,
    epsilon,
    hermitian_of,
    is_square,
    kind,
    real,
)
from tracker.tape import apply
from tracker.tracked import pinned


def _pinv_jvp(t: Any, y: Any, a: Any, cutoff: Any) -> Any:
    p, q = y, adjoint(y)
    ta = adjoint(t)
    return -(p @ t @ p) + (p @ q) @ (ta - ta @ a @ p) + (ta - p @ a @ ta) @ (q @ p)


def _pinv_vjp(g: Any, y: Any, a: Any, cutoff: Any) -> Any:
    p, q = y, adjoint(y)
    ga = adjoint(g)
    found = -(q @ g @ q) + (ga - a @ p @ ga) @ (p @ q) + (q @ p) @ (ga - ga @ p @ a)
    return project(found, a)


pinv = declare(
    "pinv",
    method=None,
    entry=None,
    infer=lambda a, cutoff: Type((*a.shape[:-2], a.shape[-1], a.shape[-2]), kind(a.dtype)),
    evaluate=np.linalg.pinv,
    jvp=[_pinv_jvp, None],
    vjp=[_pinv_vjp, None],
    lower=Routine("pinv", lambda a, cutoff: a.shape[-2:], numbers=(1,), raises=True),
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
        is_square(a)
        a = hermitian_of(a)
    return apply(pinv, (a, pinned(cutoff)))


def _lstsq(a: Any, b: Any, cutoff: Any) -> Any:
    x, _, rank, _ = np.linalg.lstsq(a, b, cutoff)
    return np.append(x, x.dtype.type(rank))


def _solution(flat: Any, a: Any, b: Any) -> Any:
    """The solution out of the op's flat result; its rank is a constant to the derivatives."""
    return np.reshape(flat[:-1], (np.shape(a)[-1], np.shape(b)[-1]))


def _moved(x: Any) -> Any:
    """A tangent of the op's flat result."""
    return np.concatenate([np.ravel(x), np.zeros_like(x, shape=(1,))])


def _lstsq_jvp_a(t: Any, y: Any, a: Any, b: Any, cutoff: Any) -> Any:
    x = _solution(y, a, b)
    p = np.linalg.pinv(a, cutoff)
    left = adjoint(t)
    rest = left @ (adjoint(p) @ x)
    moved = -p @ (t @ x) + p @ (adjoint(p) @ (left @ (b - a @ x)))
    return _moved(moved + rest - p @ (a @ rest))


def _lstsq_vjp_a(g: Any, y: Any, a: Any, b: Any, cutoff: Any) -> Any:
    x, g = _solution(y, a, b), _solution(g, a, b)
    p = np.linalg.pinv(a, cutoff)
    q = adjoint(p)
    back = q @ g
    found = -back @ adjoint(x) + (b - a @ x) @ adjoint(p @ back)
    return project(found + (q @ x) @ adjoint(g - p @ (a @ g)), a)


lstsq = declare(  # the solution and the rank, flat
    "lstsq",
    method=None,
    entry=None,
    infer=lambda a, b, cutoff: Type((a.shape[-1] * b.shape[-1] + 1,), kind(a.dtype, b.dtype)),
    evaluate=_lstsq,
    jvp=[_lstsq_jvp_a, lambda t, y, a, b, cutoff: _moved(np.linalg.pinv(a, cutoff) @ t), None],
    vjp=[
        _lstsq_vjp_a,
        lambda g, y, a, b, cutoff: project(
            adjoint(np.linalg.pinv(a, cutoff)) @ _solution(g, a, b), b
        ),
        None,
    ],
    lower=Routine("lstsq", lambda a, b, cutoff: (*a.shape, b.shape[-1]), numbers=(2,), raises=True),
)


@implements(np.linalg.lstsq)
def lstsq_(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """x, residuals, rank, singular values of `a`. All but the rank carry derivatives."""
    a, b = as_array(a), as_array(b)
    if np.ndim(a) != 2 or np.ndim(b) not in (1, 2):
        raise np.linalg.LinAlgError("lstsq takes a matrix and a vector or a matrix")
    m, n = np.shape(a)
    if np.shape(b)[0] != m:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    right = np.reshape(b, (-1, 1)) if np.ndim(b) == 1 else b
    eps = float(np.finfo(np.float64).eps)  # in which NumPy computes, whatever the operands
    cutoff = max(m, n) * eps if rcond is None else pinned(rcond)
    flat = apply(lstsq, (a, right, cutoff))
    x, rank = _solution(flat, a, right), np.astype(real(flat[-1]), np.intc)
    s = np.linalg.svdvals(a)
    apart = right - a @ x
    if m > n and int(rank) == n:
        residuals = np.sum(real(apart * np.conjugate(apart)), axis=0)
    else:
        residuals = np.zeros_like(real(x), shape=(0,))
    return x[:, 0] if np.ndim(b) == 1 else x, residuals, rank, s
