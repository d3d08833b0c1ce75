"""Placeholders: tracked arrays that a trace puts into the user's own objects.

While a function is traced, tracked arrays stand wherever it reads captured arrays
(`jit/tracing/placeholder_swap.py`). Another thread that reads such an attribute gets the tracked
array, too. For other threads, and for all once the trace is over, it must count as the plain array:
ops, writes and conversions call `resolve_placeholder` first.

Invariants
1. `PLACEHOLDERS` is empty unless a placeholder is alive, so that the check costs next to nothing.
2. Where `_tracing_thread` is this thread, every placeholder resolves to itself here: a trace checks
   each operand of each equation, and one comparison answers for all of them.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any

from tracker.support.structs import record
from tracker.support.weakrefs import removing_ref


@record()
class _Placeholder:
    """The plain data that a placeholder stands for; the tracing thread, 0 once that is over."""

    plain: Any
    thread: int
    reference: weakref.ref[Any]


PLACEHOLDERS: dict[int, _Placeholder] = {}
_tracing_thread = 0  # the thread that traces, if it made all placeholders; else 0


def add_placeholder(tracked: Any, plain: Any) -> None:
    """From now on a tracked array stands for plain data; this thread traces."""
    global _tracing_thread
    if not PLACEHOLDERS:
        _tracing_thread = get_ident()
    elif _tracing_thread != get_ident():
        _tracing_thread = 0
    PLACEHOLDERS[id(tracked)] = _Placeholder(
        plain, get_ident(), removing_ref(tracked, PLACEHOLDERS)
    )


def release_placeholder(tracked: Any) -> None:
    """The trace is over; something may still hold the placeholder."""
    global _tracing_thread
    _tracing_thread = 0
    found = PLACEHOLDERS.get(id(tracked))
    if found is not None:
        found.thread = 0


def may_need_resolving() -> bool:
    """Whether a placeholder may be something else than itself in this thread."""
    return _tracing_thread != get_ident()


def resolve_placeholder(x: Any) -> Any:
    """What `x` is in this thread: itself, or the plain data that it stands for."""
    found = PLACEHOLDERS.get(id(x))
    return x if found is None or found.thread == get_ident() else found.plain


def resolve_within(x: Any) -> Any:
    """As `resolve_placeholder`, for the arguments of a NumPy function."""
    if type(x) in (tuple, list):
        return type(x)(map(resolve_within, x))
    if type(x) is dict:
        return {name: resolve_within(each) for name, each in x.items()}
    return resolve_placeholder(x)


def are_resolved(*xs: Any) -> bool:
    """Whether none of the arguments stands for something else here."""
    return all(
        are_resolved(*(x.values() if type(x) is dict else x))
        if type(x) in (tuple, list, dict)
        else resolve_placeholder(x) is x
        for x in xs
    )
