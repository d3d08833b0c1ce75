"""What a loop's body carries from step to step, and how much of it stays where it is.

Owns: `planned`, which makes the plan of a program, and settles for each of its loops which of the
arrays that it carries the body leaves where it finds them: all steps then work in memory that the
cache holds. That is known when a body's text is written, so each is written once for this alone.
Start at `_choose_bodies`.

One loop that makes two of these arrays may read the neighbours of the one where it makes the other:
`v = v + f(neighbours of u); u = u + v`. Two loops, the second of which reads what the first has
left, write each where it was (`_separate_loops`). That takes one more reading, which is quicker
than memory of its own for each, as long as the cache holds all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from tracker.ir.graph import Function
from tracker.jit.codegen.control_flow import body_slots
from tracker.jit.codegen.lower import coalesced_in_body
from tracker.jit.schedule.buffer_reuse import Coalescing
from tracker.jit.schedule.plan import make_plan
from tracker.jit.schedule.plan_data import Buffer, ControlFlow, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import field, record

_CarryMoves = tuple[tuple[int, int], ...]  # inputs of a body, and the results that they become

_MAX_CACHED_BYTES = 1 << 23  # bytes; above, memory is slow, and each reading counts


def planned(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    wanted: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
) -> Plan:
    """The plan of a program; see `make_plan`."""
    plan = make_plan(function, strides, wanted, lengths_vary)
    _choose_bodies(plan, _KnownBodies())
    return plan


@record(frozen=True)
class _BodyPlan:
    """A body's plan, the arrays that it carries (from where it finds each to where it is to leave
    it), and which of its buffers lie in which."""

    plan: Plan
    carried: Coalescing
    coalesced: Coalescing

    @property
    def in_place(self) -> list[Buffer]:
        """The results that lie where the body finds what they were before."""
        return [new for old, new in self.carried.items() if self.coalesced.get(old) is new]

    @property
    def nbytes(self) -> int:
        """Of what stays."""
        return _nbytes(self.in_place)


@record()
class _KnownBodies:
    """Bodies that loops may share: as they were planned first, and as they are now."""

    plans: dict[Function, Plan] = field(default_factory=dict)
    chosen: dict[Any, _BodyPlan] = field(default_factory=dict)


def _choose_bodies(plan: Plan, known: _KnownBodies) -> None:
    """Say of the loops of a plan, and of those in their bodies, what stays."""
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
    found = known.chosen.get((function, moves))
    if found is None:
        found = _body_plan(known.plans[function], moves)
        if _may_gain(found):
            found = max(
                found, _body_plan(_separate_loops(found, known), moves), key=attrgetter("nbytes")
            )
        known.chosen[function, moves] = found
    control.bodies["body"], control.coalesced = found.plan, found.coalesced
    control.in_place = frozenset(buffer.slot for buffer in found.in_place)


def _body_plan(plan: Plan, moves: _CarryMoves) -> _BodyPlan:
    carried = {}
    for at, to in moves:
        old, new = plan.places[plan.function.inputs[at]].buffer, plan.outputs[to]
        if old is not None and isinstance(new, Buffer):
            carried[old] = new
    homes = coalesced_in_body(plan, body_slots(plan.function), carried) if carried else {}
    return _BodyPlan(plan, carried, homes)


def _may_gain(found: _BodyPlan) -> bool:
    """Whether more may stay by a plan that keeps arrays apart, and it would pay."""
    count, stay = len(found.carried), found.in_place
    if len(stay) == count or (count == 1 and not found.plan.writes):
        return False
    return not stay or _nbytes(found.carried) <= _MAX_CACHED_BYTES


def _separate_loops(found: _BodyPlan, known: _KnownBodies) -> Plan:
    """A plan that makes each array that is carried in a loop of its own, as far as one is made of
    another, and reads what is there before anything is written into it."""
    function = found.plan.function
    inputs, outputs = function.inputs, function.outputs
    carried = {inputs[old.slot]: outputs[new.slot] for old, new in found.carried.items()}
    other = make_plan(function, body=True, carried=carried, bodies=known.plans)
    _choose_bodies(other, known)
    return other


def _nbytes(buffers: Iterable[Buffer]) -> int:
    return sum(buffer.type.nbytes for buffer in buffers)
