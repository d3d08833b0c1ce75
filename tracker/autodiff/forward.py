"""Forward mode: one walk over a recorded tape, from leaves to results.

The function has run; tangents are computed for its values in the order of recording. Strong zeros
and nested derivatives work as in `reverse.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.autodiff.reverse import Times, count_uses, rule_operands, with_strong_zeros
from tracker.errors import UnsupportedError, message
from tracker.ir.op import LINEAR, Joint, Op
from tracker.ops.declare.bundle import BundleParts
from tracker.ops.declare.rule_helpers import (
    TwoTerms,
    as_numpy_scalar,
    as_one_term,
    is_additive,
    match_tangent,
    tangent_product,
)
from tracker.tape.record import apply
from tracker.tape.tracing.tracer import at_origins, dismiss_error
from tracker.tape.value import CLOSED, Value


def forward_sweep(
    leaves: Sequence[tuple[Value, Any]],
    roots: Sequence[Value],
    epoch: int = 0,
    times: Times | None = None,
) -> list[Any]:
    """Tangents of `roots`, given those of the leaves; None where none arrived.

    times: the product to use, if the caller handles NaNs; by default zeros are strong.
    """
    values = [value for value, _ in leaves]
    uses, record_rules = count_uses([(root, None) for root in roots], values, epoch)
    order = recording_order(roots, uses, set(values))
    run = functools.partial(_pass, leaves, roots, order, record_rules)
    return with_strong_zeros(run, roots, times)


def recording_order(
    roots: Sequence[Value], uses: dict[Value, int], leaves: set[Value]
) -> list[Value]:
    """The values between leaves and roots, operands before their users."""
    waiting = dict(uses)
    ready: list[Value] = []
    order: list[Value] = []

    def report(value: Value) -> None:
        waiting[value] -= 1
        if not waiting[value] and value not in leaves:
            ready.append(value)

    for root in roots:
        report(root)
    while ready:
        value = ready.pop()
        order.append(value)
        for operand in value.operands:
            if type(operand) is Value and operand in waiting:
                report(operand)
    order.reverse()
    return order


def _pass(
    leaves: Sequence[tuple[Value, Any]],
    roots: Sequence[Value],
    order: list[Value],
    record_rules: bool,
    times: Times,
) -> list[Any]:
    tangents: dict[Value, Any] = {value: t for value, t in leaves if t is not None}
    with np.errstate(all="ignore"), at_origins() as tracer:
        for value in order:
            if value.op is None or value.op is CLOSED:
                continue
            if tracer is not None:
                tracer.origin = value
            ts = [tangents.get(o) if type(o) is Value else None for o in value.operands]
            if all(t is None for t in ts):
                continue
            t = _tangent_by_term(value, ts, record_rules, times)
            if type(t) is TwoTerms:
                tangents[value] = TwoTerms(*(match_tangent(term, value.aval) for term in t))
            elif t is not None:
                tangents[value] = t if type(t) is BundleParts else match_tangent(t, value.aval)
    return [as_one_term(tangents.get(root)) for root in roots]


def _tangent_by_term(value: Value, ts: list[Any], record_rules: bool, times: Times) -> Any:
    """The tangent of a value; term by term if tangents are `TwoTerms` and the op is linear."""
    if not any(type(t) is TwoTerms for t in ts):
        return _tangent(value, ts, record_rules, times)
    if not is_additive(value.op):
        return _tangent(value, [as_one_term(t) for t in ts], record_rules, times)
    heads = [t.head if type(t) is TwoTerms else t for t in ts]
    tails = [t.tail if type(t) is TwoTerms else None for t in ts]
    return TwoTerms(*(_tangent(value, terms, record_rules, times) for terms in (heads, tails)))


def _tangent(value: Value, ts: list[Any], record_rules: bool, times: Times) -> Any:
    op: Op = value.op
    y, xs = rule_operands(value, record_rules)
    try:
        return _apply_rules(value, op, ts, y, xs, times)
    except ZeroDivisionError as error:  # a derivative at a pole, in Python's arithmetic
        dismiss_error(error)
        y, xs = as_numpy_scalar(y), [as_numpy_scalar(x) for x in xs]
        return _apply_rules(value, op, ts, y, xs, times)


def _apply_rules(value: Value, op: Op, ts: list[Any], y: Any, xs: list[Any], times: Times) -> Any:
    """The tangent of a value by the rules of its op."""
    if op.partials is not None:
        parts = [
            tangent_product(times, t, partial, y, xs)
            for t, partial in zip(ts, op.partials, strict=True)
            if t is not None and not (isinstance(partial, (int, float)) and partial == 0)
        ]
        return _sum_terms(parts)
    if isinstance(op.jvp, Joint):
        return op.jvp.rule(ts, y, xs, times, **value.params)
    if op.jvp == LINEAR:
        filled = [np.zeros_like(x) if t is None else t for t, x in zip(ts, xs, strict=True)]
        return apply(op, tuple(filled), _tangent_params(value.params))
    return _sum_terms(
        [
            part
            for at, t in enumerate(ts)
            if t is not None and (part := _apply_jvp(op, at, t, y, xs, value.params)) is not None
        ]
    )


def _tangent_params(params: dict[str, Any]) -> dict[str, Any]:
    """The params of a linear op for tangents: those of an integer result are floats."""
    dtype = params.get("dtype")
    if dtype is None or np.dtype(dtype).kind in "fc":
        return params
    return {**params, "dtype": np.dtype(float)}


def _apply_jvp(op: Op, at: int, t: Any, y: Any, xs: list[Any], params: dict[str, Any]) -> Any:
    assert isinstance(op.jvp, tuple)
    rule = op.jvp[min(at, len(op.jvp) - 1)]
    if rule is None:
        return None
    if isinstance(rule, str):
        raise UnsupportedError(message(f"{op.name} has no forward rule for operand {at}"))
    return rule(t, y, *xs, **params)


def _sum_terms(parts: list[Any]) -> Any:
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total
