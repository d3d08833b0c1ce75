"""Handles that stand where other threads look, and what they are to those.

Owns: `add_placeholder`, `release_placeholder`, `resolve_placeholder`, and `may_need_resolving`,
which spares most of the asking. While a function is traced, handles stand where it finds its
captured arrays (`jit/tracing/placeholder_swap.py`). Another thread that reads such a place gets the
handle, too. To it, and to everybody once the trace is over, the handle is what it stands for: ops,
writes and conversions ask `resolve_placeholder` first.

Invariants
1. `PLACEHOLDERS` is empty unless such a handle is alive, so that asking costs next to nothing.
2. Where `_tracing_thread` is this thread, every such handle is itself here: a trace asks of each
operand of
   each equation, and one look answers for all of them.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any

from tracker.support.structs import record
from tracker.support.weakrefs import removing_ref


@record()
class _Placeholder:
    """What a handle stands for, and the thread that traces (0 when that is over)."""

    plain: Any
    thread: int
    reference: weakref.ref[Any]


PLACEHOLDERS: dict[int, _Placeholder] = {}
_tracing_thread = 0  # the thread that traces, if it has made all of these handles; else 0


def add_placeholder(handle: Any, plain: Any) -> None:
    """From now on a handle stands for plain data; this thread is the one that traces."""
    global _tracing_thread
    if not PLACEHOLDERS:
        _tracing_thread = get_ident()
    elif _tracing_thread != get_ident():
        _tracing_thread = 0
    PLACEHOLDERS[id(handle)] = _Placeholder(plain, get_ident(), removing_ref(handle, PLACEHOLDERS))


def release_placeholder(handle: Any) -> None:
    """The trace is over; somebody may still have the handle."""
    global _tracing_thread
    _tracing_thread = 0
    found = PLACEHOLDERS.get(id(handle))
    if found is not None:
        found.thread = 0


def may_need_resolving() -> bool:
    """Whether any of `PLACEHOLDERS` may be something else in this thread."""
    return _tracing_thread != get_ident()


def resolve_placeholder(x: Any) -> Any:
    """What a value is in this thread: itself, or what it stands for."""
    found = PLACEHOLDERS.get(id(x))
    return x if found is None or found.thread == get_ident() else found.plain


def resolve_within(x: Any) -> Any:
    """As `resolve_placeholder`, for the arguments of a function of NumPy."""
    if type(x) in (tuple, list):
        return type(x)(map(resolve_within, x))
    if type(x) is dict:
        return {name: resolve_within(each) for name, each in x.items()}
    return resolve_placeholder(x)


def are_resolved(*xs: Any) -> bool:
    """Whether nothing among the arguments stands for something else here."""
    return all(
        are_resolved(*(x.values() if type(x) is dict else x))
        if type(x) in (tuple, list, dict)
        else resolve_placeholder(x) is x
        for x in xs
    )
