"""Loop-carried arrays: which of them the body of a loop updates in place.

If a body writes a carried array where it read it, all steps work in memory that stays in the cache.
Whether that is possible is known once a body's text is written, so each body is written once for
this analysis alone. Start at `_choose_bodies`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.ir.graph import Function
from tracker.jit.codegen.lower import coalesced_in_body
from tracker.jit.pipeline.step_planners import STEP_PLANNERS
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.schedule.buffer_coalescing import Coalescing
from tracker.jit.schedule.plan import make_plan
from tracker.jit.schedule.plan_data import Buffer, CarryMoves, ControlFlow, Plan, carry_moves
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import record

_body_slots = lazy_import("tracker.jit.codegen.control_flow", "body_slots")


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
    """A body's plan, the results that are written where their previous values were read, and which
    of its buffers are coalesced."""

    plan: Plan
    in_place: frozenset[int]
    coalesced: Coalescing


def _choose_bodies(plan: Plan, known: dict[tuple[Function, CarryMoves], Plan]) -> None:
    """Choose the body plans of the loops of a plan, and of those in their bodies. `known`: the
    plans of bodies that loops may share."""
    for control in (control for controls in plan.controls.values() for control in controls):
        for name, body in control.bodies.items():
            key = control.eqn.params[name], body.carried
            if key not in known:
                known[key] = body
                _choose_bodies(body, known)
        moves = carry_moves(control.first_carry, control.spares)
        if moves:
            function, carried = control.eqn.params["body"], control.bodies["body"].carried
            _choose_body(control, moves, known[function, carried])


def _choose_body(control: ControlFlow, moves: CarryMoves, plan: Plan) -> None:
    body: _BodyPlan | None = plan.derived.get(moves)
    if body is None:
        body = plan.derived[moves] = _body_plan(plan, moves)
    control.bodies["body"], control.coalesced = body.plan, body.coalesced
    control.in_place = body.in_place


def _body_plan(plan: Plan, moves: CarryMoves) -> _BodyPlan:
    kept: dict[Buffer, Buffer] = {}
    others: dict[Buffer, Buffer] = {}
    for at, to in moves:
        old, new = plan.locations[plan.function.inputs[at]].buffer, plan.outputs[to]
        if old is not None and isinstance(new, Buffer):
            (kept if old is new else others)[old] = new
    coalesced = coalesced_in_body(plan, _body_slots(plan.function), others) if others else {}
    coalesced = {**kept, **coalesced}
    in_place = [new.slot for old, new in (kept | others).items() if coalesced.get(old) is new]
    return _BodyPlan(plan, frozenset(in_place), coalesced)
