"""Eigenvalues and singular values that coincide, or vanish: what is taken as 0, and its warning.

Owns: `gaps_of`, the factors that derivatives of vectors have, `warn_coinciding`, `warn_vanishing`,
and `slope_at`, which warns when it is differentiated. A warning is an op that makes nothing:
compiled code that took this branch warns on each call, as the plain function does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import DegenerateWarning, message, warn
from tracker.ir.op import Expand, Host, Op, define
from tracker.ir.types import Type
from tracker.listening import current_stage
from tracker.ops.create import identity
from tracker.ops.linalg.parts import column, epsilon
from tracker.stage import Unstructured
from tracker.tape import apply


def gaps_of(values: Any, a: Any) -> tuple[Any, Any]:
    """[i, j]: 1 / (value j - value i), zero where they coincide; and where these are (i != j)."""
    apart, near = _apart(values, a)
    safe = np.where(near, np.ones_like(apart), apart)
    return np.where(near, np.zeros_like(safe), 1 / safe), _others(near)


def _apart(values: Any, a: Any) -> tuple[Any, Any]:
    """[i, j]: value j - value i, and whether they coincide, each with itself too."""
    n = np.shape(values)[-1]
    apart = np.expand_dims(values, -2) - column(values)
    size = np.max(np.abs(values), axis=-1, keepdims=True, initial=0)
    return apart, np.abs(apart) <= column(size * (n * epsilon(a)))


def _others(near: Any) -> Any:
    return near & ~np.eye(np.shape(near)[-1], dtype=bool)


def warn_coinciding(where: Any, m: Any, what: str) -> None:
    """Warn if any of these entries of a cotangent (or tangent), in the basis of the vectors, is
    more than rounding."""
    if not bool(np.any(where)):
        return
    size = np.max(np.abs(m), axis=(-2, -1), keepdims=True, initial=0)
    bad = where & (np.abs(m) > size * 1e-6)
    if not bool(np.any(bad)):
        return
    _tell(_coincide, bad, what=what)


def slope_at(x: Any, values: Any, a: Any, what: str) -> Any:
    """`x`, a derivative of values. Where some of these coincide it is right, but how it changes
    depends on how they part from each other."""
    near = _others(_apart(values, a)[1])
    return apply(slope, (x, near), {"what": what}) if bool(np.any(near)) else x


def _told(derivative: Any, near: Any, what: str) -> Any:
    if bool(np.any(near)):
        _tell(_coincide, near, what=what)
    return derivative


slope = define(
    "slope_at_coinciding",
    numpy=[],
    method=None,
    entry=None,
    infer=lambda x, near, *, what: x,
    evaluate=lambda x, near, *, what: x,
    jvp=[lambda t, y, x, near, *, what: _told(t, near, what), None],
    vjp=[lambda g, y, x, near, *, what: _told(g, near, what), None],
    lower=Expand(lambda b, x, near, *, what: b(identity, x)),
)


def _tell(op: Op, where: Any, **params: Any) -> None:
    """Warn, also on each call of what is being compiled."""
    stage = current_stage()
    if stage is not None and stage.structured:
        raise Unstructured("the body warns of values that coincide")
    apply(op, (where,), params)


def _warning(name: str, text: Callable[..., tuple[str, str]]) -> Op:
    """An op that warns, of what its operand and params say; it gives nothing of use."""

    def evaluate(where: Any, **params: Any) -> Any:
        warn(message(*text(where, **params)), DegenerateWarning)
        return True

    return define(
        name,
        numpy=[],
        method=None,
        entry=None,
        infer=lambda where, **_: Type((), np.dtype(bool)),
        evaluate=evaluate,
        jvp=[None],
        vjp=[None],
        lower=Host("Python warns", effect=True),
    )


def _coincidence(bad: Any, *, what: str) -> tuple[str, str]:
    i, j = sorted(np.argwhere(bad)[0][-2:].tolist())
    return (
        f"{what} {i} and {j} coincide, and the result depends on which vectors were chosen in "
        "their common space: their part of the derivative is not determined, and is taken as 0",
        "Use functions of the values, or of the whole space, or separate the values",
    )


_coincide = _warning("warn_coinciding", _coincidence)
_vanish = _warning(
    "warn_vanishing",
    lambda null: (
        "a singular value is zero, and the result depends on its vectors: their part of the "
        "derivative is not determined, and is taken as 0",
        "Use functions of the singular values, or a matrix of full rank",
    ),
)


def warn_vanishing(null: Any, outside_u: Any, outside_v: Any) -> None:
    """Warn where the cotangent asks how the vectors of a zero singular value move."""
    if not bool(np.any(null)):
        return
    for outside in (outside_u, outside_v):
        m = np.abs(outside)
        if bool(np.any(np.where(np.expand_dims(null, -2), m, 0) > 1e-6)):
            _tell(_vanish, null)
            return
