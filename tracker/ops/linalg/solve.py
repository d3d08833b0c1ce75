"""Linear systems, inverses, and logarithms of determinants.

Ops: `solve`, `solve_triangular`, `inv`, `slogdet`; `tensorsolve`, `tensorinv` and `matrix_power`
are composed of them. Formulas: M. Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008). Singular matrices raise NumPy's LinAlgError in
`solve` and `inv`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.lowering import Routine
from tracker.ir.op import Joint
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, implements
from tracker.ops.declare.dtypes import cached_broadcast_shapes
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.declare.rule_helpers import project
from tracker.ops.linalg.triangles import (
    as_array,
    as_square,
    diagonal_matrix,
    diagonal_of,
    expand_last,
    linalg_dtype,
    real_part,
)
from tracker.ops.shape.shape import adjoint, swap_last_axes
from tracker.tape.record import apply

# Solving ------------------------------------------------------------------------------------------


def _solve_infer(a: Type, b: Type, **_: Any) -> Type:
    batch = cached_broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return Type((*batch, *b.shape[-2:]), linalg_dtype(a.dtype, b.dtype))


def _solve_cotangents(back: Any, y: Any, a: Any, b: Any, wanted: Any) -> tuple[Any, Any]:
    """The cotangents of a matrix and of a right-hand side, given that of the latter."""
    return (
        project(-back @ adjoint(y), a) if wanted[0] else None,
        project(back, b) if wanted[1] else None,
    )


def _solve_vjp(g: Any, y: Any, operands: Any, wanted: Any, times: Any) -> tuple[Any, Any]:
    a, b = operands
    return _solve_cotangents(_solve_adjoint(a, g), y, a, b, wanted)


def _solve_adjoint(a: Any, g: Any) -> Any:
    """a^-H g. A transposed system shares the factors of `a`, an adjoint one does not."""
    transposed = swap_last_axes(a)
    if not np.iscomplexobj(a):
        return np.linalg.solve(transposed, g)
    return np.conjugate(np.linalg.solve(transposed, np.conjugate(g)))


solve = declare(  # matrices only: `solve_` takes vectors
    "solve",
    infer=_solve_infer,
    evaluate=np.linalg.solve,
    jvp=[lambda t, y, a, b: -np.linalg.solve(a, t @ y), lambda t, y, a, b: np.linalg.solve(a, t)],
    vjp=Joint(_solve_vjp),
    lower=Routine(
        "solve",
        lambda a, b: b.shape[-2:],
        takes_factored=True,
        takes_transposed=True,
        may_raise=True,
    ),
)


@implements(np.linalg.solve)
def solve_(a: Any, b: Any) -> Any:
    """a x = b, for a vector (one axis) or a stack of matrices.

    The cotangent of b is solve(a^H, g); that of a is minus that times x^H. Raises LinAlgError where
    `a` is singular or not square.
    """
    a, b = as_square(a), as_array(b)
    if np.ndim(b) == 1:
        return apply(solve, (a, np.reshape(b, (-1, 1))))[..., 0]
    return apply(solve, (a, b))


def _selected_triangle(a: Any, lower: bool, unit: bool) -> Any:
    """One triangle of `a`, with a diagonal of ones if `unit`."""
    if unit:
        strict = np.tril(a, -1) if lower else np.triu(a, 1)
        return strict + diagonal_matrix(np.ones_like(diagonal_of(a)), a)
    return np.tril(a) if lower else np.triu(a)


def _transposed(a: Any, trans: str) -> Any:
    return a if trans == "N" else adjoint(a) if trans == "C" else swap_last_axes(a)


def _triangular_adjoint(g: Any, a: Any, *, lower: bool, trans: str, unit: bool) -> Any:
    """op(a)^-H g."""
    if trans == "T" and np.iscomplexobj(a):
        return np.conjugate(solve_triangle(a, np.conjugate(g), lower=lower, unit=unit))
    return solve_triangle(a, g, lower=lower, trans="C" if trans == "N" else "N", unit=unit)


def _triangular_vjp(g: Any, y: Any, a: Any, b: Any, *, lower: bool, trans: str, unit: bool) -> Any:
    product = -_triangular_adjoint(g, a, lower=lower, trans=trans, unit=unit) @ adjoint(y)
    below = -1 if unit else 0
    cotangent = _transposed(product, trans)
    return project(np.tril(cotangent, below) if lower else np.triu(cotangent, -below), a)


def _triangular_jvp(t: Any, y: Any, a: Any, b: Any, *, lower: bool, trans: str, unit: bool) -> Any:
    below = -1 if unit else 0
    moved = _transposed(np.tril(t, below) if lower else np.triu(t, -below), trans)
    return -solve_triangle(a, moved @ y, lower=lower, trans=trans, unit=unit)


solve_triangular = declare(
    "solve_triangular",
    infer=_solve_infer,
    evaluate=lambda a, b, *, lower, trans, unit: np.linalg.solve(
        _transposed(_selected_triangle(a, lower, unit), trans), b
    ),
    jvp=[_triangular_jvp, lambda t, y, a, b, **how: solve_triangle(a, t, **how)],
    vjp=[_triangular_vjp, lambda g, y, a, b, **how: project(_triangular_adjoint(g, a, **how), b)],
    lower=Routine(
        "solve_triangular",
        lambda a, b, *, lower, trans, unit: (
            *b.shape[-2:],
            int(lower),
            int(trans != "N"),
            int(trans == "C"),
            int(unit),
        ),
        takes_transposed=True,
        may_raise=True,
    ),
)


def solve_triangle(
    a: Any, b: Any, *, lower: bool = True, trans: str = "N", unit: bool = False
) -> Any:
    """Solve op(a) x = b with a triangle of `a`; op is none, transpose or adjoint for `trans` "N",
    "T", "C"."""
    return apply(solve_triangular, (a, b), {"lower": lower, "trans": trans, "unit": unit})


def right_divide(a: Any, u: Any) -> Any:
    """a u^-1 for an upper triangular u."""
    return adjoint(solve_triangle(u, adjoint(a), lower=False, trans="C"))


# Inverses -----------------------------------------------------------------------------------------

inv = declare(
    "inv",
    infer=lambda a: Type(a.shape, linalg_dtype(a.dtype)),
    evaluate=np.linalg.inv,
    jvp=[lambda t, y, a: -(y @ t @ y)],
    vjp=[lambda g, y, a: -(adjoint(y) @ g @ adjoint(y))],
    lower=Routine(
        "inv", lambda a: a.shape[-1:], takes_factored=True, takes_transposed=True, may_raise=True
    ),
)


@implements(np.linalg.inv)
def inv_(a: Any) -> Any:
    """The inverse Y; the cotangent of `a` is -Y^H g Y^H."""
    a = as_square(a)
    return apply(inv, (a,))


run_as_written(np.linalg.matrix_power, np.linalg.tensorinv)


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = as_array(a), as_array(b)
    if axes is not None:
        kept = [i for i in range(np.ndim(a)) if i not in {k % np.ndim(a) for k in axes}]
        a = np.transpose(a, (*kept, *axes))
    # as in NumPy, also where both have as many axes
    shape = np.shape(a)[-(np.ndim(a) - np.ndim(b)) :]
    size = math.prod(shape)
    if np.size(a) != size**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement "
            "prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.ravel(b)), shape)


# Logarithms of determinants -----------------------------------------------------------------------


def _regular_inverse(a: Any, sign: Any, weight: Any) -> Any:
    """weight * a^-1; at a singular matrix NaN, or zero where the weight is zero."""
    singular, weight = sign == 0, expand_last(weight, 2)
    if not bool(np.any(singular)):
        return weight * np.linalg.inv(a)
    mask = expand_last(singular, 2)
    inverse = np.linalg.inv(np.where(mask, np.eye(np.shape(a)[-1], dtype=a.dtype), a))
    unit = np.where(mask, np.nan, inverse)
    return np.where(weight == 0, np.zeros_like(unit), weight * unit)


def _slogdet(a: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(a)
    return np.stack([sign, np.asarray(logarithm).astype(sign.dtype)], axis=-1)


def _slogdet_jvp(t: Any, y: Any, a: Any) -> Any:
    inverse = _regular_inverse(a, y[..., 0], np.ones_like(y[..., 0]))
    slope = np.sum(np.swapaxes(inverse, -1, -2) * t, axis=(-2, -1))
    if not np.iscomplexobj(y):
        return np.stack([np.zeros_like(slope), slope], axis=-1)
    return np.stack([1j * np.imag(slope) * y[..., 0], np.real(slope) + 0j], axis=-1)


def _slogdet_vjp(g: Any, y: Any, a: Any) -> Any:
    weight = g[..., 1]
    if np.iscomplexobj(y):  # d sign is the imaginary part of tr(a^-1 da)
        weight = np.real(weight) + 1j * np.imag(np.conjugate(y[..., 0]) * g[..., 0])
    return project(adjoint(_regular_inverse(a, y[..., 0], np.conjugate(weight))), a)


slogdet = declare(  # sign and logarithm, along a last axis
    "slogdet",
    infer=lambda a: Type((*a.shape[:-2], 2), linalg_dtype(a.dtype)),
    evaluate=_slogdet,
    jvp=[_slogdet_jvp],
    vjp=[_slogdet_vjp],
    lower=Routine("slogdet", lambda a: a.shape[-1:], takes_factored=True, takes_transposed=True),
)


@implements(np.linalg.slogdet)
def slogdet_(a: Any) -> Any:
    """Sign and log|det|. The gradient of the logarithm is a^-H; at a singular matrix, where the
    logarithm is -inf, it is NaN (exactly zero where the cotangent is)."""
    a = as_square(a)
    both = apply(slogdet, (a,))
    sign, logarithm = (both[(*[slice(None)] * (both.ndim - 1), part)] for part in (0, 1))
    return _RESULT(sign, real_part(logarithm))


_RESULT: Any = type(np.linalg.slogdet(np.eye(1)))  # NumPy's named tuple
