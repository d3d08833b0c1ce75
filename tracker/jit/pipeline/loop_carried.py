"""Loop-carried arrays: which of them the body of a loop updates in place.

If a body writes a carried array where it read it, all steps work in memory that stays in the cache.
Whether that is possible is known once a body's text is written, so each body is written once for
this analysis alone. Start at `_choose_bodies`.

One loop that computes two carried arrays may read neighbours of one of them where it computes the
other: `v = v + f(neighbours of u); u = u + v`. Two loops, the second of which reads what the first
has written, can each work in place (`_separate_loops`). That costs one more pass over memory, which
is faster than alternating buffers while everything fits the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from tracker.ir.graph import Function
from tracker.jit.codegen.control_flow import body_slots
from tracker.jit.codegen.lower import coalesced_in_body
from tracker.jit.pipeline.step_planners import STEP_PLANNERS
from tracker.jit.schedule.buffer_coalescing import Coalescing
from tracker.jit.schedule.plan import make_plan
from tracker.jit.schedule.plan_data import Buffer, ControlFlow, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import field, record

_CarryMoves = tuple[tuple[int, int], ...]  # (input of a body, the result that becomes it)

_MAX_CACHED_BYTES = 1 << 23  # bytes; larger arrays leave the cache, and another pass is expensive


def planned(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    output_orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
) -> Plan:
    """The plan of a program; see `make_plan`."""
    plan = make_plan(function, strides, output_orders, lengths_vary, step_planners=STEP_PLANNERS)
    _choose_bodies(plan, _KnownBodies())
    return plan


@record(frozen=True)
class _BodyPlan:
    """A body's plan, its carried arrays (from the buffer that it reads to the one that it writes),
    and which of its buffers are coalesced."""

    plan: Plan
    carried: Coalescing
    coalesced: Coalescing

    @property
    def in_place(self) -> list[Buffer]:
        """The results that are written where their previous values were read."""
        return [new for old, new in self.carried.items() if self.coalesced.get(old) is new]

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays updated in place."""
        return _nbytes(self.in_place)


@record()
class _KnownBodies:
    """Bodies that loops may share: their first plans, and the chosen ones."""

    plans: dict[Function, Plan] = field(default_factory=dict)
    chosen: dict[Any, _BodyPlan] = field(default_factory=dict)


def _choose_bodies(plan: Plan, known: _KnownBodies) -> None:
    """Choose the body plans of the loops of a plan, and of those in their bodies."""
    for control in (control for controls in plan.controls.values() for control in controls):
        for name, body in control.bodies.items():
            function = control.eqn.params[name]
            if function not in known.plans:
                known.plans[function] = body
                _choose_bodies(body, known)
        moves = tuple(
            (control.first_carry + at, at)
            for at, spare in enumerate(control.spares)
            if spare is not None
        )
        if moves:
            _choose_body(control, moves, known)


def _choose_body(control: ControlFlow, moves: _CarryMoves, known: _KnownBodies) -> None:
    function = control.eqn.params["body"]
    body = known.chosen.get((function, moves))
    if body is None:
        body = _body_plan(known.plans[function], moves)
        if _may_gain(body):
            body = max(
                body, _body_plan(_separate_loops(body, known), moves), key=attrgetter("nbytes")
            )
        known.chosen[function, moves] = body
    control.bodies["body"], control.coalesced = body.plan, body.coalesced
    control.in_place = frozenset(buffer.slot for buffer in body.in_place)


def _body_plan(plan: Plan, moves: _CarryMoves) -> _BodyPlan:
    carried = {}
    for at, to in moves:
        old, new = plan.locations[plan.function.inputs[at]].buffer, plan.outputs[to]
        if old is not None and isinstance(new, Buffer):
            carried[old] = new
    coalesced = coalesced_in_body(plan, body_slots(plan.function), carried) if carried else {}
    return _BodyPlan(plan, carried, coalesced)


def _may_gain(body: _BodyPlan) -> bool:
    """Whether a plan with separate loops may update more arrays in place, and would pay."""
    count, in_place = len(body.carried), body.in_place
    if len(in_place) == count or (count == 1 and not body.plan.writes):
        return False
    return not in_place or _nbytes(body.carried) <= _MAX_CACHED_BYTES


def _separate_loops(body: _BodyPlan, known: _KnownBodies) -> Plan:
    """A plan that computes each carried array in a loop of its own, where one depends on another,
    and reads carried arrays before they are overwritten."""
    function = body.plan.function
    inputs, outputs = function.inputs, function.outputs
    carried = {inputs[old.slot]: outputs[new.slot] for old, new in body.carried.items()}
    plan = make_plan(
        function, step_planners=STEP_PLANNERS, body=True, carried=carried, bodies=known.plans
    )
    _choose_bodies(plan, known)
    return plan


def _nbytes(buffers: Iterable[Buffer]) -> int:
    return sum(buffer.type.nbytes for buffer in buffers)
