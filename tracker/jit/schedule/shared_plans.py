"""Plans of bodies that two programs have.

A long loop runs as a program of its own while it is traced, and again in the program of the trace,
with the same body: what is planned and written for the first one serves the second. Where the text
of the first one was found on disk, the second one writes the same text again (`is_known`).

Invariant: a shared plan is not changed once it is made, so its body has no loops of its own, whose
steps take what their caller chooses (`jit/pipeline/loop_carried.py`).
"""

from __future__ import annotations

from collections.abc import Hashable

from tracker.ir.fingerprint import fingerprint, located_fingerprint
from tracker.ir.graph import Function
from tracker.jit.runtime.thread_pool import thread_count
from tracker.jit.schedule.plan_data import CarryMoves, Plan
from tracker.support.recently_used import RecentlyUsed

_MIN_STEPS = 300  # of a body; to plan and write a shorter one takes no longer than to find it

_kept: RecentlyUsed[Hashable, Plan] = RecentlyUsed(16)
_known: RecentlyUsed[str, bool] = RecentlyUsed(64)


def note_known(mark: str | None) -> None:
    """A text was found that has a body of this fingerprint apart from it."""
    if mark is not None:
        _known.put(mark, True)


def is_known(function: Function) -> bool:
    """Whether there is the text of an equal body."""
    mark = fingerprint(function) if _known and is_shareable(function) else None
    return mark is not None and _known.get(mark) is not None


def is_shareable(function: Function) -> bool:
    """Whether the plan of a body may be kept."""
    is_leaf = not function.functions and not function.calls_python
    return is_leaf and len(function.body) >= _MIN_STEPS


def keep_plan(plan: Plan) -> None:
    """Keep the plan of a body for other programs."""
    key = _key(plan.function, plan.carried)
    if key is not None:
        _kept.put(key, plan)


def kept_plan(function: Function, carried: CarryMoves) -> Plan | None:
    """The plan of an equal body, if one is kept."""
    key = _key(function, carried) if _kept and is_shareable(function) else None
    return None if key is None else _kept.get(key)


def _key(function: Function, carried: CarryMoves) -> Hashable | None:
    """Equal for equal bodies of the same source lines."""
    mark = located_fingerprint(function)
    return mark and (mark, carried, thread_count())
