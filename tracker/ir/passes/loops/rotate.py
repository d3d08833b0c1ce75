"""Loop rotation: at which step of its period a run is cut into iterations.

Values that are live at the cut are carried, in memory, and an elementwise chain that is cut becomes
two loops. The cut goes where the fewest bytes are live, and, among such places, where an iteration
has the fewest loops in sequence. The steps before the first cut stay outside.

Invariant: linear in the period, and in the operands of two repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracker.ir.graph import Eqn, Guard, Var, operands_of
from tracker.ir.lowering import Map, View
from tracker.ir.passes.loop_limits import MIN_REPETITIONS
from tracker.ir.passes.loops.repeat_detection import Run
from tracker.ir.types import Bundle

_MAX_LIFETIME = MIN_REPETITIONS // 2  # a value that is read later counts as always live
_BUNDLE_PENALTY = 1 << 20  # factor on their bytes
_MAX_CANDIDATES = 12  # cuts whose loops are counted


def rotate_run(run: Run, body: Sequence[Eqn | Guard], place: Mapping[Var, int]) -> Run:
    """The run from the best step of its first period on."""
    if run.count <= MIN_REPETITIONS:
        return run
    alive = _live_bytes(run, body, place)
    least = min(alive)
    best = [at for at, size in enumerate(alive) if size == least]
    candidates = [at for at in best if at - 1 not in best][:_MAX_CANDIDATES]
    candidates += [at for at in best if at + 1 not in best][:_MAX_CANDIDATES]
    if 0 in best:
        candidates.insert(0, 0)
    at = min(candidates, key=lambda at: _fused_loop_depth(run, at, body, place))
    return Run(run.start + at, run.period, run.count - 1) if at else run


def _live_bytes(run: Run, body: Sequence[Eqn | Guard], place: Mapping[Var, int]) -> list[int]:
    """For each step of the period, the bytes that are live before it."""
    begin = run.start + _MAX_LIFETIME * run.period  # a repetition with some before it
    last: dict[int, int] = {}  # step of the period -> how many steps later its value is last read
    for at in range(begin, begin + run.period):
        for operand in operands_of(body[at]):
            made = place[operand] if isinstance(operand, Var) else -1
            if made >= run.start:
                slot = (made - run.start) % run.period
                last[slot] = max(last.get(slot, 0), at - made)
    changes = [0] * (run.period + 1)
    for slot, far in last.items():
        step = body[begin + slot]
        assert isinstance(step, Eqn)
        whole, rest = divmod(far, run.period)  # repetitions that it lasts: there are as many of it
        size, low, high = _carry_cost(step.out.type), slot + 1, slot + 1 + rest
        changes[0] += size * (whole + max(high // run.period - low // run.period, 0))
        changes[low % run.period] += size
        changes[high % run.period] -= size
    alive, total = [], 0
    for change in changes[: run.period]:
        total += change
        alive.append(total)
    return alive


def _carry_cost(type: Any) -> int:
    """The cost of carrying a value; a bundle cannot be carried as one."""
    return (
        sum(part.nbytes for part in type.parts) * _BUNDLE_PENALTY
        if isinstance(type, Bundle)
        else type.nbytes
    )


def _fused_loop_depth(
    run: Run, first: int, body: Sequence[Eqn | Guard], place: Mapping[Var, int]
) -> int:
    """How many loops in sequence an iteration has that begins at step `first`."""
    begin = run.start + first
    level: dict[int, int] = {}
    for at in range(begin, begin + run.period):
        step = body[at]
        if not isinstance(step, Eqn):
            continue
        highest = 0
        for operand in step.operands:
            made = place[operand] if isinstance(operand, Var) else -1
            if made < begin:
                continue
            highest = max(highest, level[made] + _fusion_break(body[made], step))
        level[at] = highest
    return max(level.values(), default=0)


def _fusion_break(made: Eqn | Guard, used: Eqn) -> int:
    """1 where producer and consumer cannot be fused into one loop, otherwise 0."""
    assert isinstance(made, Eqn)
    fused = isinstance(made.op.lower, (Map, View)) and isinstance(used.op.lower, (Map, View))
    same = made.out.type.shape == used.out.type.shape
    return 0 if not made.out.type.shape or (fused and same) else 1
