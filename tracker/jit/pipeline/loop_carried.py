"""Loop-carried arrays: which of them the body of a loop updates in place.

If a body writes a carried array where it read it, all steps work in memory that stays in the cache.
Whether that is possible is known once a body's text is written, so each body is written once for
this analysis alone. Start at `_choose_bodies`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.ir.graph import Function
from tracker.jit.codegen.control_flow import body_slots
from tracker.jit.codegen.lower import coalesced_in_body
from tracker.jit.pipeline.step_planners import STEP_PLANNERS
from tracker.jit.schedule.buffer_coalescing import Coalescing
from tracker.jit.schedule.plan import make_plan
from tracker.jit.schedule.plan_data import Buffer, ControlFlow, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import record

_CarryMoves = tuple[tuple[int, int], ...]  # (input of a body, the result that becomes it)


def planned(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    output_orders: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
) -> Plan:
    """The plan of a program; see `make_plan`."""
    plan = make_plan(function, strides, output_orders, lengths_vary, step_planners=STEP_PLANNERS)
    _choose_bodies(plan, {})
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


def _choose_bodies(plan: Plan, known: dict[Function, Plan]) -> None:
    """Choose the body plans of the loops of a plan, and of those in their bodies. `known`: the
    plans of bodies that loops may share."""
    for control in (control for controls in plan.controls.values() for control in controls):
        for name, body in control.bodies.items():
            function = control.eqn.params[name]
            if function not in known:
                known[function] = body
                _choose_bodies(body, known)
        moves = tuple(
            (control.first_carry + at, at)
            for at, spare in enumerate(control.spares)
            if spare is not None
        )
        if moves:
            _choose_body(control, moves, known[control.eqn.params["body"]])


def _choose_body(control: ControlFlow, moves: _CarryMoves, plan: Plan) -> None:
    body: _BodyPlan | None = plan.derived.get(moves)
    if body is None:
        body = plan.derived[moves] = _body_plan(plan, moves)
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
