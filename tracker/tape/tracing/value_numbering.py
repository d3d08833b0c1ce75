"""Value numbering: numbers of a trace that are computed in the same way are made one before a
derivative follows them back, so that code which computes something again (a recursion, a helper
function called twice) is differentiated once.

Invariant: what an equation holds besides numbers and values (arrays, functions, generators) may
change, so that such an equation is not merged with another one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

import numpy as np

from tracker.ir.op import Op
from tracker.ir.structural_keys import Opaque, params_key, value_key
from tracker.tape.record import may_call_user_code
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.value import Value

_MIN_VALUES = 256  # that a derivative follows back; with fewer, there is little to save


def merge_equal_numbers(tracer: Tracer, values: Collection[Value], kept: Collection[Value]) -> bool:
    """Make the users of equal numbers among `values` use the first of them; the others are its
    aliases from here on, but for those that are `kept`. Returns whether there were any.

    A loop that is followed compares what its iterations record: nothing is merged while one runs.
    Arrays are not: they have few equations for their time, and reads of one array fuse as they are.
    """
    if len(values) < _MIN_VALUES or tracer.iterations or tracer.tested_loops:
        return False
    merged: dict[Value, Value] = {}
    first: dict[Hashable, Value] = {}
    for value in _in_order(tracer, values):
        operands = value.operands
        if merged and any(type(o) is Value and o in merged for o in operands):
            operands = tuple([merged.get(o, o) if type(o) is Value else o for o in operands])
            value.operands = operands
        if type(value.aval) is np.ndarray or value in kept:
            continue
        key = _key(value)
        if key is not None and (found := first.setdefault(key, value)) is not value:
            merged[value] = found
    tracer.recording.aliases.update(merged)
    return bool(merged)


def _in_order(tracer: Tracer, values: Collection[Value]) -> list[Value]:
    """Those of the values that the tracer has recorded, operands before their users."""
    left = sum([bool(value.operands) for value in values])
    found: list[Value] = []
    for value, _, _ in reversed(tracer.recording.equations):
        if value in values:
            found.append(value)
            if len(found) == left:
                break
    found.reverse()
    return found


def _key(value: Value) -> Hashable | None:
    """Equal for numbers that are computed in the same way; None if that cannot be known."""
    op = value.op
    params: Hashable = ()
    if not isinstance(op, Op) or may_call_user_code(op):
        return None
    if value.params and (params := params_key(value.params)) is None:
        return None
    try:
        operands = [o if type(o) is Value else (type(o), value_key(o)) for o in value.operands]
    except Opaque:
        return None
    return op, value.epoch, params, *operands
