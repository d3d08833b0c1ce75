"""Guards on values: a branch, an index or a loop's length that depends on the numbers of a trace.

`bool(x)`, `int(x)`, `hash(x)` and the like let Python depend on a number. The trace notes a guard,
and compiled code runs only where the number is the same; another branch is another trace.

Invariant: what Python has seen of a traced value is guarded, or the trace is aborted (`escape.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import NUMPY
from tracker.tape.record import has_lazy_data, value_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import Tracer, current_tracer
from tracker.tape.value import Value


def guard_value(tracked: Any, kind: str) -> None:
    """Python is about to depend on `kind` of a value: the trace guards it."""
    tracer = current_tracer()
    if tracer is not None and resolve_placeholder(tracked) is tracked:
        value = value_of(tracked)
        tracer.add_guard(value, kind)
        if kind == "hash" and tracked.dtype.kind == "f" and value.data == 0:
            bool(np.signbit(tracked))  # 0.0 and -0.0 are equal, but behave differently


def guard_array(tracked: Any, value: Value, tracer: Tracer) -> None:
    """Guard that an array is what it is now."""
    if value in tracer.guards.by_value or tracer.abort_reason:
        return
    tracer.guards.by_value.add(value)
    known = np.array(value.data)
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
    """`bool(x)`; in a trace, if `x` is lazy, `expected`, under a guard that is checked before
    anything reads lazy numbers."""
    tracer = current_tracer()
    if tracer is None or tracer.scheduler is None or not has_lazy_data(x):
        return bool(x)
    value = value_of(x)
    tracer.add_guard(value, "bool", expected)
    tracer.scheduler.speculate(value, expected)
    return expected
