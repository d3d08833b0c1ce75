"""`softmax`, `logsoftmax` and `logsumexp`, accurate to the last digits.

Where one element has nearly all of the weight, derivatives are small differences of numbers near
one. The rules treat that element separately before anything is rounded, so that its derivative has
all its digits and the rows of a Jacobian add up to 0.

Operands: x, and for `softmax` and `logsumexp` optional weights b of x's shape and dtype that
multiply exp(x). Params: `axis`, a sorted tuple of non-negative ints; of `softmax` also `shared`:
whether infinite elements share the total (else the result is NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.ir.lowering import Expand
from tracker.ir.op import Joint, Op
from tracker.ir.types import Type
from tracker.ops.declare.declare import declare
from tracker.ops.declare.rule_helpers import TwoTerms, as_one_term
from tracker.ops.elementwise.binary import add, divide, multiply, subtract
from tracker.ops.elementwise.comparison import equal, less, where
from tracker.ops.elementwise.unary import absolute, exp, isfinite, log, log1p
from tracker.ops.reduce.reduce import keepdims_shape, max_, normalize_axes, sum_
from tracker.tape.observers import is_tracing
from tracker.tape.record import apply, aval_of

Axes = tuple[int, ...]
Times = Callable[[Any, Any], Any]


# Values: one definition, which NumPy evaluates or the compiler lowers -----------------------------


def _exponentials(b: Any, x: Any, axis: Axes, shared: bool) -> tuple[Any, Any, Any]:
    """The largest element, x minus it, and the exponentials of the difference."""
    top = b(max_, x, axis=axis, keepdims=True)
    if shared and not (b is _evaluate_op and np.isfinite(top).all()):
        # Elements equal to an infinite maximum get the difference 0.
        low = b(equal, top, -np.inf)
        below = b(subtract, x, b(where, low, 0.0, top))
        below = b(where, b(equal, x, top), b(where, low, top, 0.0), below)
    else:
        below = b(subtract, x, b(where, b(isfinite, top), top, 0.0))
    return top, below, b(exp, below)


def _softmax(b: Any, x: Any, *weights: Any, axis: Axes, shared: bool) -> Any:
    e = _exponentials(b, x, axis, shared)[-1]
    parts = b(multiply, *weights, e) if weights else e
    total = b(sum_, parts, axis=axis, keepdims=True)
    if shared:  # 0 where all elements are -inf
        total = b(where, b(equal, total, 0.0), 1.0, total)
    return b(divide, parts, total)


def _logsoftmax(b: Any, x: Any, *, axis: Axes) -> Any:
    _, below, e = _exponentials(b, x, axis, False)
    return b(subtract, below, b(log, b(sum_, e, axis=axis, keepdims=True)))


def _logsumexp(b: Any, x: Any, *weights: Any, axis: Axes) -> Any:
    """The largest elements are summed separately: the rest may be smaller than their last digit."""
    top, _, e = _exponentials(b, x, axis, True)
    parts = b(multiply, *weights, e) if weights else e
    if (
        b is _evaluate_op
        and not weights
        and np.min(total := np.add.reduce(e, axis, keepdims=True)) > 2
    ):
        return np.log(total) + top
    largest = b(equal, x, top)
    head = b(sum_, b(where, largest, parts, 0.0), axis=axis, keepdims=True)
    tail = b(sum_, b(where, largest, 0.0, parts), axis=axis, keepdims=True)
    small = b(less, b(absolute, tail), b(multiply, b(absolute, head), 0.5))
    base = b(absolute, b(where, small, head, b(add, head, tail)))
    more = b(log1p, b(divide, b(where, small, tail, 0.0), b(where, small, head, 1.0)))
    return b(add, b(add, b(log, base), more), top)


def _evaluate_op(op: Op, *xs: Any, **params: Any) -> Any:
    return op.evaluate(*xs, **params)


# Derivatives --------------------------------------------------------------------------------------


def _sum(x: Any, axis: Axes) -> Any:
    return np.sum(x, axis=axis, keepdims=True)


def _dominant(y: Any, has_weights: bool, axis: Axes) -> Any:
    """Where an element has more than half of the weight; at most one per row."""
    return y > (0.5 * _sum(np.abs(y), axis) if has_weights else 0.5)


def _softmax_derivative(times: Times, t: Any, y: Any, xs: Sequence[Any], axis: Axes) -> Any:
    """y (t - sum(y t)), computed from differences to the dominant element of t. It is
    self-adjoint."""
    t = t - _sum(np.where(_dominant(y, len(xs) > 1, axis), t, 0.0), axis)
    return times(t - _sum(times(t, y), axis), y)


def _logsoftmax_vjp(times: Times, g: Any, y: Any, axis: Axes) -> Any:
    """g - p sum(g) for p = exp(y); for the dominant element, minus the sum of the others."""
    p = np.exp(y)
    dominant = _dominant(p, False, axis)
    rest = _sum(np.where(dominant, 0.0, p), axis)
    others = _sum(np.where(dominant, 0.0, g), axis)
    return np.where(dominant, times(g, rest) - times(others, p), g - times(_sum(g, axis), p))


def _logsoftmax_jvp(times: Times, t: Any, y: Any, axis: Axes) -> Any:
    p = np.exp(y)
    t = t - _sum(np.where(_dominant(p, False, axis), t, 0.0), axis)
    return t - _sum(times(t, p), axis)


def _has_dominant(dominant: Any) -> bool:
    """Whether a row has a dominant element; assumed under a trace, to avoid a branch."""
    return is_tracing() or bool(np.any(dominant))


def _logsumexp_vjp(times: Times, g: Any, y: Any, xs: Sequence[Any], axis: Axes) -> Any:
    """g p, where p of the dominant element is 1 minus the sum of the others."""
    p = _weights(xs, axis)
    dominant = _dominant(p, len(xs) > 1, axis)
    if not _has_dominant(dominant):
        return times(g, p)
    rest = _sum(np.where(dominant, 0.0, p), axis)
    return TwoTerms(np.where(dominant, g, 0.0), np.where(dominant, -times(g, rest), times(g, p)))


def _logsumexp_jvp(times: Times, t: Any, y: Any, xs: Sequence[Any], axis: Axes) -> Any:
    """sum(p t): the dominant element's tangent, and the weighted differences of the others
    from it."""
    p = _weights(xs, axis)
    dominant = _dominant(p, len(xs) > 1, axis)
    if not _has_dominant(dominant):
        return _sum(times(t, p), axis)
    head = _sum(np.where(dominant, t, 0.0), axis)
    return TwoTerms(head, _sum(times(t - head, p), axis))


def _per_weight(c: Any, xs: Sequence[Any]) -> Any:
    """c / b, which turns a derivative in log(b) into one in b; 0 where b is 0."""
    zero = xs[1] == 0
    return np.where(zero, 0.0, as_one_term(c) / np.where(zero, 1.0, xs[1]))


def _joint_tangent(ts: Sequence[Any], xs: Sequence[Any]) -> Any:
    """The tangent of x + log(b)."""
    found = [ts[0]] if ts[0] is not None else []
    if len(ts) > 1 and ts[1] is not None:
        found.append(_per_weight(ts[1], xs))
    return found[0] + found[1] if len(found) > 1 else found[0]


def _weights(xs: Sequence[Any], axis: Axes) -> Any:
    return apply(softmax, tuple(xs), {"axis": axis, "shared": True})


def _vjp_rule(rule: Callable[..., Any]) -> Joint:
    """The vjp from rule(times, cotangent, result, operands, axis) for x."""

    def both(g: Any, y: Any, xs: Any, wanted: Any, times: Times, axis: Axes, **_: Any) -> Any:
        c = rule(times, g, y, xs, axis)
        of_weight = _per_weight(c, xs) if len(xs) > 1 and wanted[1] else None
        return [c, of_weight][: len(xs)]

    return Joint(both)


def _jvp_rule(rule: Callable[..., Any]) -> Joint:
    """The jvp from rule(times, tangent, result, operands, axis) for x."""

    def both(ts: Any, y: Any, xs: Any, times: Times, axis: Axes, **_: Any) -> Any:
        return rule(times, _joint_tangent(ts, xs), y, xs, axis)

    return Joint(both)


def _declare_op(
    name: str, build: Callable[..., Any], infer: Callable[..., Type], *, vjp: Joint, jvp: Joint
) -> Op:
    def evaluate(*xs: Any, **params: Any) -> Any:
        with np.errstate(all="ignore"):
            return build(_evaluate_op, *xs, **params)

    return declare(name, infer=infer, evaluate=evaluate, jvp=jvp, vjp=vjp, lower=Expand(build))


def apply_to_real(op: Op, x: Any, axis: Any, *weights: Any, **params: Any) -> Any:
    """Apply one of these ops to numbers of any real dtype, along one axis, several, or all
    (None)."""
    kind = aval_of(x).dtype
    if kind.kind in "biu":
        x = np.astype(x, np.exp(np.zeros(0, kind)).dtype)
    return apply(op, (x, *weights), {"axis": normalize_axes(x, axis), **params})


softmax = _declare_op(
    "softmax",
    _softmax,
    lambda x, *weights, axis, shared: x,
    vjp=_vjp_rule(_softmax_derivative),
    jvp=_jvp_rule(_softmax_derivative),
)
logsoftmax = _declare_op(
    "logsoftmax",
    _logsoftmax,
    lambda x, *, axis: x,
    vjp=_vjp_rule(lambda times, g, y, xs, axis: _logsoftmax_vjp(times, g, y, axis)),
    jvp=_jvp_rule(lambda times, t, y, xs, axis: _logsoftmax_jvp(times, t, y, axis)),
)
logsumexp = _declare_op(  # log|sum|: weights b may make the sum negative
    "logsumexp",
    _logsumexp,
    lambda x, *weights, axis: x.with_shape(keepdims_shape(x.shape, axis)),
    vjp=_vjp_rule(_logsumexp_vjp),
    jvp=_jvp_rule(_logsumexp_jvp),
)
