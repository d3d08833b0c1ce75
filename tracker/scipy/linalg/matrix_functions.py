"""Functions of matrices: expm, logm, sqrtm, and functions built from expm.

The derivative along e is the upper right block of the function of [[a, e], [0, a]] (N. Higham,
"Functions of Matrices", 2008, section 3.2); the cotangent is the derivative along g at a^H. So the
rules apply the ops themselves to matrices of twice the size, and exist to any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from tracker.errors import UnsupportedError
from tracker.ir.lowering import Host, Lowering, Routine
from tracker.ir.op import Op
from tracker.ir.types import Type
from tracker.ops.declare.arguments import refuse_keywords
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import project
from tracker.ops.linalg.triangles import as_array, as_square, linalg_dtype
from tracker.ops.shape.shape import adjoint
from tracker.random.draw_ops import draws_privately
from tracker.scipy._bridge.checks import are_finite, scipy_raises_unless
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy.linalg.batching import over_batches
from tracker.tape.record import apply

_HOST = Host("a function of a matrix")


def _matrix_function(name: str, evaluate: Callable[[Any], Any], lower: Lowering = _HOST) -> Op:
    def along(a: Any, e: Any) -> Any:
        n = np.shape(a)[-1]
        top = np.concatenate([a, e], axis=-1)
        below = np.concatenate([np.zeros_like(a), a], axis=-1)
        return apply(op, (np.concatenate([top, below], axis=-2),))[..., :n, n:]

    op = declare(
        name,
        infer=lambda a: Type(a.shape, linalg_dtype(a.dtype)),
        evaluate=lambda a: evaluate(_in_double(a)).astype(linalg_dtype(a.dtype), copy=False),
        jvp=[lambda t, y, a: along(a, t)],
        vjp=[lambda g, y, a: project(along(adjoint(a), g), a)],
        lower=lower,
    )
    return op


def _in_double(a: Any) -> Any:
    """In double precision at least: SciPy's functions lose half of the digits, too many of
    float32."""
    return a.astype(np.result_type(a, np.float64), copy=False)


def _over_stack(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one matrix, applied to each of a stack."""

    def call(a: Any) -> Any:
        if np.ndim(a) == 2:
            return function(a)
        flat = np.reshape(a, (-1, *np.shape(a)[-2:]))
        return np.reshape(np.stack([function(matrix) for matrix in flat]), np.shape(a))

    return call


_expm = _matrix_function("expm", scipy.linalg.expm, Routine("expm", lambda a: a.shape[-1:]))
# SciPy estimates norms with random vectors.
_logm = _matrix_function("logm", _over_stack(draws_privately(scipy.linalg.logm)))
_sqrtm = _matrix_function("sqrtm", _over_stack(scipy.linalg.sqrtm))


@drop_in(scipy.linalg)
def expm(A: Any) -> Any:
    """The matrix exponential."""
    A = as_square(A)
    return apply(_expm, (A,))


def _apply_principal(op: Op, a: Any) -> Any:
    """A function with a branch cut along the negative axis, where it has no derivative."""
    a = as_square(a)
    w = np.linalg.eigvals(a)
    if bool(np.any(np.logical_and(np.real(w) < 0, np.imag(w) == 0))):
        text = (
            f"scipy.linalg.{op.name} of a matrix with eigenvalues on the negative real axis "
            "has no derivative: its principal value jumps there"
        )
        raise UnsupportedError(
            text,
            "Move the eigenvalues off the axis, or use tracker.data(A) where no gradient is wanted",
        )
    return apply(op, (a,))


@drop_in(scipy.linalg)
def logm(A: Any, disp: bool = True) -> Any:
    """The principal logarithm."""
    scipy_raises_unless(are_finite(as_array(A)), scipy.linalg.logm, A)
    refuse_keywords("scipy.linalg.logm", disp=None if disp else disp)
    return _apply_principal(_logm, A)


@drop_in(scipy.linalg)
def sqrtm(A: Any, disp: bool = True, blocksize: int = 64) -> Any:
    """The principal square root; no derivative at singular matrices."""
    refuse_keywords("scipy.linalg.sqrtm", disp=None if disp else disp)
    return _apply_principal(_sqrtm, A)


@drop_in(scipy.linalg)
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """The principal power; differentiable in t, too."""
    A = as_square(A)
    if isinstance(t, (int, np.integer)):
        return np.linalg.matrix_power(A * 1.0, int(t))
    return expm(t * logm(A))


@drop_in(scipy.linalg)
@over_batches(A=2)
def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function applied to the eigenvalues; the matrix must be diagonalizable."""
    refuse_keywords("scipy.linalg.funm", disp=None if disp else disp)
    A = as_square(A)
    w, v = np.linalg.eig(A)
    found = (v * func(w)) @ np.linalg.inv(v)
    if np.iscomplexobj(A) or not np.iscomplexobj(found):
        return found
    rest = np.max(np.abs(np.imag(found)))
    small = bool(rest <= 1e3 * np.finfo(A.dtype).eps * np.max(np.abs(found)))
    return np.real(found) if small else found


@drop_in(scipy.linalg)
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True) -> Any:
    """The exponential, and its derivative along E."""
    A, E = as_square(A), as_array(E)
    n = np.shape(A)[-1]
    if method != "blockEnlarge":  # SciPy's default method uses double precision
        A, E = A * np.float64(1), E * np.float64(1)
    top, below = np.concatenate([A, E], axis=-1), np.concatenate([0 * A, A], axis=-1)
    both = expm(np.concatenate([top, below], axis=-2))
    slope = both[..., :n, n:]
    return (both[..., :n, :n], slope) if compute_expm else slope
