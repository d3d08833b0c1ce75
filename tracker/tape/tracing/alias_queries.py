"""The caller's arrays that tracked arguments are copies of.

A derivative or trace gives its function tracked copies. Code that asks whether two arrays share
memory, what an array's base is, or for its flags, gets the answer for the caller's arrays, as in a
plain call.

Invariant: a trace in which code asked holds only where the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.tape.observers import thread_state
from tracker.tape.record import aval_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import Tracer, active_tracers, current_tracer
from tracker.tape.tracked import Tracked

WRITEABLE, OWNDATA, WRITEBACKIFCOPY = 0x400, 0x4, 0x2000  # in `x.flags.num`


def original_of(tracked: Any) -> Any:
    """The caller's array that a tracked array is a copy of, while the function runs; or None."""
    for arguments in reversed(thread_state.derivative_arguments):
        for each, _, array in arguments:
            if each is tracked:
                return array
    for tracer in active_tracers():
        if id(tracked) in tracer.original_arrays:
            return tracer.original_arrays[id(tracked)]
    return None


def _owner_chain(x: Any) -> Iterator[Any]:
    """A tracked array, the array it is a view or copy of, and so on."""
    while x is not None:
        yield x
        if type(x) is not Tracked:
            return
        view = getattr(x, "_view", None)
        x = original_of(x) if view is None else view.base


def caller_array(x: Any) -> Any:
    """A plain array that lies in memory as a tracked one does in a plain call."""
    if type(x) is not Tracked:
        return x
    view = getattr(x, "_view", None)
    if view is not None:
        return view.cut(caller_array(view.base))
    original = original_of(x)
    return aval_of(x) if original is None else caller_array(original)


def _traced_originals(x: Any) -> Iterator[tuple[Tracer, Any]]:
    """The active traces of which an array is an argument or capture, or a part of one."""
    for array in _owner_chain(x):
        for tracer in active_tracers():
            if id(array) in tracer.original_arrays:
                yield tracer, array


def share_memory(query: Callable[..., bool], a: Any, b: Any, *rest: Any) -> bool:
    """`np.shares_memory` or `np.may_share_memory` (`query`) of the caller's arrays."""
    a, b = resolve_placeholder(a), resolve_placeholder(b)
    (*_, one), (*_, other) = _owner_chain(a), _owner_chain(b)
    if one is not other:
        if type(one) is Tracked or type(other) is Tracked:
            return False
        for x in (a, b):
            _record_alias_query(x)
    return query(caller_array(a), caller_array(b), *rest)


def _record_alias_query(x: Any) -> None:
    """Each trace holds only where this array overlaps no other that it reads."""
    tracer, found = current_tracer(), False
    for array, tracked in _traced_originals(x):
        array.guards.alias_queries.add(id(tracked))
        found = True
    if tracer is not None and not found:
        tracer.abort(
            message(
                "it asks whether arrays share memory, one of which is not an argument",
                "Pass both as arguments, or call np.shares_memory before",
            )
        )


def base_of(x: Any) -> Any:
    """The tracked array of which `x` is a view; None where it owns its memory."""
    x = resolve_placeholder(x)
    if type(x) is not Tracked:
        return x.base
    base = None
    while (view := getattr(x, "_view", None)) is not None:
        base = x = view.base
    original = original_of(x)
    if original is not None and original.base is not None:
        raise UnsupportedError(
            f"an argument of shape {original.shape} is a view of an array that is not tracked",
            "Ask x.flags.owndata, or pass np.array(x)",
        )
    _record_flag_query(x, OWNDATA | WRITEBACKIFCOPY)
    return base


def flags_of(x: Any, mask: int) -> Any:
    """The flags of the array; a trace depends on those in `mask`."""
    _record_flag_query(x, mask)
    found = caller_array(x)
    return np.asarray(found).flags


def _record_flag_query(x: Any, mask: int) -> None:
    for tracer, tracked in _traced_originals(x):
        tracer.guards.flag_queries[id(tracked)] = (
            tracer.guards.flag_queries.get(id(tracked), 0) | mask
        )
