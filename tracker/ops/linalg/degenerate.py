"""Eigenvalues and singular values that coincide or vanish: which derivatives are taken as 0, and
the warnings about them.

`reciprocal_gaps` has the factors of derivatives of vectors; `vanishes_with` decides where a
quotient with vanishing values is correct. `mark_*` return their argument, and warn if it is
differentiated again. A warning is an op without a useful result, so that compiled code that took
this branch warns on each call, like the plain function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import DegenerateWarning, message, warn
from tracker.ir.lowering import Expand, Host
from tracker.ir.op import Op
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare, nondiff_op
from tracker.ops.linalg.triangles import epsilon, expand_last
from tracker.ops.shape.create import identity
from tracker.tape.record import apply, aval_of
from tracker.tape.tracing.tracer import UnsupportedInBody, current_tracer


def reciprocal_gaps(values: Any, a: Any, followed: Any = None) -> tuple[Any, Any]:
    """[i, j]: 1 / (value j - value i), zero where they coincide; and the mask of these (i != j).

    `followed`: pairs that are divided by their gap unless it is exactly 0.
    """
    gaps, coincide = _differences(values, a)
    if followed is not None:
        coincide = coincide & ~(followed & (gaps != 0))
    safe = np.where(coincide, np.ones_like(gaps), gaps)
    return np.where(coincide, np.zeros_like(safe), 1 / safe), _off_diagonal(coincide)


def _differences(values: Any, a: Any) -> tuple[Any, Any]:
    """[i, j]: value j - value i, and whether they coincide (each does with itself)."""
    n = np.shape(values)[-1]
    gaps = np.expand_dims(values, -2) - expand_last(values)
    return gaps, np.abs(gaps) <= expand_last(_largest(values) * (n * epsilon(a)))


def _largest(values: Any) -> Any:
    return np.max(np.abs(values), axis=-1, keepdims=True, initial=0)


def _off_diagonal(near: Any) -> Any:
    return near & ~np.eye(np.shape(near)[-1], dtype=bool)


def null_mask(values: Any, a: Any) -> Any:
    """Which values are zero up to rounding."""
    return np.abs(values) <= _largest(values) * (max(a.shape[-2:]) * epsilon(a))


def without_accidental_zeros(s: Any, a: Any) -> Any:
    """Singular values with distinct tiny numbers in place of zeros that are due to rounding (some
    BLAS kernels return 0 where others return 1e-32), so that `(u * s) @ vh` depends on their
    vectors. Zeros that zero rows and columns explain stay, as code may compare with them."""
    if bool(np.all(s != 0)):
        return s
    used = a != 0
    rows, columns = (np.count_nonzero(np.any(used, axis=axis), axis=-1) for axis in (-1, -2))
    k = np.shape(s)[-1]
    is_accidental = (s == 0) & (np.arange(k) < np.expand_dims(np.minimum(rows, columns), -1))
    limits = np.finfo(aval_of(s).dtype)
    tiny = np.arange(k, 0, -1, dtype=limits.dtype) * (limits.tiny / limits.eps**2)
    return s + np.where(is_accidental, tiny, np.zeros_like(tiny))


def pairwise_and(null: Any) -> Any:
    """[i, j]: whether both values are null."""
    return np.expand_dims(null, -2) & expand_last(null)


def pairwise_sums(values: Any) -> Any:
    """[i, j]: value i + value j"""
    return np.expand_dims(values, -2) + expand_last(values)


def cotangent_scale(slopes: Any, values: Any, *vectors: Any) -> Any:
    """The magnitude of the cotangents of values and vectors, in the units of those of the
    vectors."""
    size = expand_last(_largest(slopes) * _largest(values))
    for m in vectors:
        size = np.maximum(size, np.max(np.abs(m), axis=(-2, -1), keepdims=True, initial=0))
    return size


_SHARE = 10.0  # tolerance factor of `vanishes_with`


def vanishes_with(m: Any, parts: Any, values: Any, size: Any) -> Any:
    """Whether the cotangent `m` of vectors vanishes in proportion to `parts`, values that are zero
    up to rounding.

    For a smooth function of the matrix, such as `(u * s) @ vh`, it does, to full relative
    precision, and its quotient with the values, however small, is the derivative. For a result that
    depends on the vectors themselves it is as large as any other cotangent.
    """
    return np.abs(m) * expand_last(_largest(values)) <= _SHARE * parts * size


def warn_coinciding(where: Any, m: Any, what: str) -> None:
    """Warn if one of these entries of a cotangent (or tangent), in the basis of the vectors,
    exceeds rounding."""
    if not bool(np.any(where)):
        return
    _warn_large(where, m, np.max(np.abs(m), axis=(-2, -1), keepdims=True, initial=0), what)


def warn_unequal(where: Any, slopes: Any, what: str) -> None:
    """Warn if cotangents of coinciding values differ: another basis of their space would give
    another derivative."""
    if not bool(np.any(where)):
        return
    differences = np.expand_dims(slopes, -2) - expand_last(slopes)
    _warn_large(where, differences, expand_last(_largest(slopes)), what)


def _warn_large(where: Any, m: Any, size: Any, what: str) -> None:
    bad = where & (np.abs(m) > size * 1e-6)
    if bool(np.any(bad)):
        _emit_warning(_warn_coinciding_op, bad, what=what)


def mark_coinciding(x: Any, values: Any, a: Any, what: str) -> Any:
    """`x`, a derivative of values. It is correct where values coincide, but its own derivative is
    not defined there."""
    return mark_near(x, _differences(values, a)[1], what)


def mark_near(x: Any, near: Any, what: str) -> Any:
    """`x`, a correct derivative whose own derivative is wrong where two values are `near`."""
    near = _off_diagonal(near)
    return apply(coinciding_marker, (x, near), {"what": what}) if bool(np.any(near)) else x


def mark_null(x: Any, null: Any) -> Any:
    """`x`, a correct derivative whose own derivative is wrong where singular values are `null`."""
    return apply(null_marker, (x, null)) if bool(np.any(null)) else x


def _marker_op(name: str, warning: Callable[[], Op]) -> Op:
    """The identity; emits a warning when it is differentiated."""

    def rule(derivative: Any, y: Any, x: Any, where: Any, **params: Any) -> Any:
        if bool(np.any(where)):
            _emit_warning(warning(), where, **params)
        return derivative

    return declare(
        name,
        infer=lambda x, where, **params: x,
        evaluate=lambda x, where, **params: x,
        jvp=[rule, None],
        vjp=[rule, None],
        lower=Expand(lambda b, x, where, **params: b(identity, x)),
    )


coinciding_marker = _marker_op("slope_at_coinciding", lambda: _warn_coinciding_op)
null_marker = _marker_op("slope_at_zero", lambda: _warn_vanishing_op)


def _emit_warning(op: Op, where: Any, **params: Any) -> None:
    """Warn, also on each call of the function that is being compiled."""
    stage = current_tracer()
    if stage is not None and stage.is_body_trace:
        raise UnsupportedInBody("the body warns of values that coincide")
    apply(op, (where,), params)


def _warning_op(name: str, text: Callable[..., tuple[str, str]]) -> Op:
    """An op that warns with a text made of its operand and params; its result is not used."""

    def evaluate(where: Any, **params: Any) -> Any:
        warn(message(*text(where, **params)), DegenerateWarning)
        return True

    return nondiff_op(
        name,
        infer=lambda where, **_: Type((), np.dtype(bool)),
        evaluate=evaluate,
        lower=Host("Python warns", effect=True),
    )


def _coinciding_text(bad: Any, *, what: str) -> tuple[str, str]:
    i, j = sorted(np.argwhere(bad)[0][-2:].tolist())
    return (
        f"{what} {i} and {j} coincide, and the result depends on which vectors were chosen in "
        "their common space: their part of the derivative is not determined, and is taken as 0",
        "Use functions of the values, or of the whole space, or separate the values",
    )


_warn_coinciding_op: Op = _warning_op("warn_coinciding", _coinciding_text)
_warn_vanishing_op: Op = _warning_op(
    "warn_vanishing",
    lambda null: (
        "a singular value is zero, and the result depends on its vectors: their part of the "
        "derivative is not determined, and is taken as 0",
        "Use functions of the singular values, or a matrix of full rank",
    ),
)


def warn_vanishing(null: Any, m: Any, size: Any) -> None:
    """Warn where the cotangent depends on how the vectors of a zero singular value move."""
    if not bool(np.any(null)):
        return
    if bool(np.any(null & (np.abs(m) > size * 1e-6))):
        _emit_warning(_warn_vanishing_op, null)
