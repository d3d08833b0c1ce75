"""Plans of bodies that several programs have.

A long loop runs as a program of its own while it is traced, and again in the program of the trace,
with the same body: what is planned and written for the first one serves the second.

Invariant: a shared plan is not changed once it is made, so its body has no loops of its own, whose
steps take what their caller chooses (`jit/pipeline/loop_carried.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Function
from tracker.jit.runtime.thread_pool import thread_count
from tracker.jit.schedule.plan_data import Plan
from tracker.support.recently_used import RecentlyUsed

_MIN_STEPS = 100  # of a body; to call a short one takes longer than what it inlines to

_recent: RecentlyUsed[Hashable, Plan] = RecentlyUsed(8)


def shared_plan(function: Function, make: Callable[[], Plan]) -> Plan:
    """The plan of a body: the one of an equal body if that is recent and long, else what is made.
    (Bodies of other source lines are not equal: `explain` shows them.)"""
    is_leaf = not function.functions and not function.calls_python
    mark = fingerprint(function) if is_leaf and len(function.body) >= _MIN_STEPS else None
    if mark is None:
        return make()
    key = mark, thread_count(), tuple([step.where for step in function.body])
    plan = _recent.get(key)
    if plan is None:
        plan = make()
        plan.is_shared = True
        _recent.put(key, plan)
    return plan
