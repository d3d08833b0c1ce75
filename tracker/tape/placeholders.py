"""Handles that stand where other threads look, and what they are to those.

Owns: `stand`, `withdraw`, `settled`, and `may_differ`, which spares most of the asking. While a
function is traced, handles stand where it finds its captured arrays
(`jit/tracing/placeholder_swap.py`). Another thread that reads such a place gets the handle, too. To
it, and to everybody once the trace is over, the handle is what it stands for: ops, writes and
conversions ask `settled` first.

Invariants
1. `HANDLES` is empty unless such a handle is alive, so that asking costs next to nothing.
2. Where `_tracer` is this thread, every such handle is itself here: a trace asks of each operand of
   each equation, and one look answers for all of them.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any

from tracker.support.structs import record
from tracker.support.weakrefs import weak


@record()
class _Standing:
    """What a handle stands for, and the thread that traces (0 when that is over)."""

    plain: Any
    thread: int
    alive: weakref.ref[Any]


HANDLES: dict[int, _Standing] = {}
_tracer = 0  # the thread that traces, if it has made all of these handles; else 0


def stand(handle: Any, plain: Any) -> None:
    """From now on a handle stands for plain data; this thread is the one that traces."""
    global _tracer
    if not HANDLES:
        _tracer = get_ident()
    elif _tracer != get_ident():
        _tracer = 0
    HANDLES[id(handle)] = _Standing(plain, get_ident(), weak(handle, HANDLES))


def withdraw(handle: Any) -> None:
    """The trace is over; somebody may still have the handle."""
    global _tracer
    _tracer = 0
    found = HANDLES.get(id(handle))
    if found is not None:
        found.thread = 0


def may_differ() -> bool:
    """Whether any of `HANDLES` may be something else in this thread."""
    return _tracer != get_ident()


def settled(x: Any) -> Any:
    """What a value is in this thread: itself, or what it stands for."""
    found = HANDLES.get(id(x))
    return x if found is None or found.thread == get_ident() else found.plain


def settled_within(x: Any) -> Any:
    """As `settled`, for the arguments of a function of NumPy."""
    if type(x) in (tuple, list):
        return type(x)(map(settled_within, x))
    if type(x) is dict:
        return {name: settled_within(each) for name, each in x.items()}
    return settled(x)


def is_settled(*xs: Any) -> bool:
    """Whether nothing among the arguments stands for something else here."""
    return all(
        is_settled(*(x.values() if type(x) is dict else x))
        if type(x) in (tuple, list, dict)
        else settled(x) is x
        for x in xs
    )
