"""Traces that differ in how many elements masks select, as one trace for any number.

`x[x > 0]` guards the number of elements. The second trace of such code shows what depends on it
(`ir/passes/mask_counts.py`): if nothing but types and means does, one trace replaces both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tracker.ir.passes.mask_counts import without_mask_counts
from tracker.jit.dispatch.specialization import Specialization, same_capture
from tracker.jit.tracing.trace import Trace
from tracker.support.structs import replace


def without_counts(
    trace: Trace, known: Iterable[Specialization]
) -> tuple[Trace, Specialization] | None:
    """What a trace and a known one are for any number of selected elements, and the known one; None
    if there is no such pair."""
    if trace.reads_extents or not trace.function.has_op("mask_count"):
        return None
    for each in known:
        if _is_alike(trace, each.trace):
            function = without_mask_counts(trace.function, each.trace.function)
            if function is not None:
                return replace(trace, function=function), each
    return None


def _is_alike(one: Trace, other: Trace) -> bool:
    """Whether two traces can differ in their functions alone."""
    return (
        not other.reads_extents
        and one.signature == other.signature
        and len(one.captures) == len(other.captures)
        and all(map(same_capture, one.captures, other.captures))
        and _surroundings(one) == _surroundings(other)
    )


def _surroundings(trace: Trace) -> Any:
    outputs = [(repr(out.leaf), out.atom is None, out.order) for out in trace.outputs]
    return (
        (trace.inputs, list(map(id, trace.owners)), outputs, trace.structure, trace.writes),
        (trace.no_alias, trace.conditions, trace.promoted, repr(trace.state_writes)),
    )
