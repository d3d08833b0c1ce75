"""Guards on values: a branch, an index or a loop's length that depends on the numbers of a trace.

`bool(x)`, `int(x)`, `hash(x)` and the like let Python depend on a number. The trace notes a guard,
and compiled code runs only where the number is the same; another branch is another trace.

Invariant: what Python has seen of a traced value is guarded, or the trace is aborted (`escape.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracker.ir.lowering import View
from tracker.ir.op import NUMPY
from tracker.tape.record import has_lazy_data, value_of, wrap
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import Tracer, current_tracer
from tracker.tape.value import Value, history_of


def guard_value(tracked: Any, kind: str) -> None:
    """Python is about to depend on `kind` of a value: the trace guards it."""
    tracer = current_tracer()
    if tracer is not None and resolve_placeholder(tracked) is tracked:
        value = value_of(tracked)
        tracer.add_guard(value, kind)
        if kind == "hash" and tracked.dtype.kind == "f" and value.data == 0:
            bool(np.signbit(tracked))  # 0.0 and -0.0 are equal, but behave differently


def guard_array(value: Value, tracer: Tracer) -> None:
    """Guard that a value is what it is now: an array of integers, or computed from captures."""
    if value in tracer.guards.by_value or tracer.abort_reason:
        return
    tracer.guards.by_value.add(value)
    is_exact = np.asarray(value.aval).dtype.kind in "biu"
    for part in [value] if is_exact else _copies_of_captures(value, tracer):
        _guard_equality(part, tracer)


def _copies_of_captures(root: Value, tracer: Tracer) -> Iterator[Value]:
    """The numbers of captured arrays that a value was computed from. The value itself is not
    compared: machine code may round a sum otherwise than NumPy, which has computed it here."""
    seen, stack = set(), [root]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        operands = [o for o in value.operands if type(o) is Value]
        if not operands or all(map(_is_view, history_of(value, tracer.captures))):
            yield value
        else:
            stack += operands


def _is_view(value: Value) -> bool:
    return isinstance(getattr(value.op, "lower", None), View)


def _guard_equality(value: Value, tracer: Tracer) -> None:
    tracked, known = wrap(value), np.array(value.data)
    same = tracked == known[()]
    if known.dtype.kind in "fc":
        if np.isnan(known).any():
            same = same | ((tracked != tracked) & np.isnan(known)[()])
        for part in (np.real, np.imag) if known.dtype.kind == "c" else (np.real,):
            zero = part(known) == 0
            if zero.any():  # 0.0 and -0.0 are equal, but differ
                signs = np.signbit(part(tracked)) == np.signbit(part(known))[()]
                same = same & (signs | ~zero[()])
    tracer.add_guard(value_of(NUMPY[np.all](same)), "bool")


def speculate_bool(x: Any, expected: bool) -> bool:
    """`bool(x)`; in the trace of a function, if `x` is lazy, `expected`, under a guard that is
    checked before anything reads lazy numbers."""
    tracer = current_tracer()
    scheduler = None if tracer is None or tracer.is_body_trace else tracer.scheduler
    if tracer is None or scheduler is None or not has_lazy_data(x):
        return bool(x)
    value = value_of(x)
    tracer.add_guard(value, "bool", expected)
    scheduler.speculate(value, expected)
    return expected
