"""What a loop's body carries from step to step, and how much of it stays where it is.

Owns: `planned`, which makes the plan of a program, and settles for each of its loops which of the
arrays that it carries the body leaves where it finds them: all steps then work in memory that the
cache holds. That is known when a body's text is written, so each is written once for this alone.
Start at `_settle`.

One loop that makes two of these arrays may read the neighbours of the one where it makes the other:
`v = v + f(neighbours of u); u = u + v`. Two loops, the second of which reads what the first has
left, write each where it was (`_apart`). That takes one more reading, which is quicker than memory
of its own for each, as long as the cache holds all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from tracker.ir.graph import Function
from tracker.jit.codegen.control_flow import slots_of
from tracker.jit.codegen.lower import homes_in
from tracker.jit.schedule.buffer_reuse import Homes
from tracker.jit.schedule.plan import make_plan
from tracker.jit.schedule.plan_data import Buffer, Control, Plan
from tracker.ops.shape.memory_order import MemoryOrder
from tracker.support.structs import field, record

_Moves = tuple[tuple[int, int], ...]  # inputs of a body, and the results that they become

_CACHED = 1 << 23  # bytes; above, memory is slow, and each reading counts


def planned(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    wanted: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
) -> Plan:
    """The plan of a program; see `make_plan`."""
    plan = make_plan(function, strides, wanted, lengths_vary)
    _settle(plan, _Known())
    return plan


@record(frozen=True)
class _Settled:
    """A body's plan, the arrays that it carries (from where it finds each to where it is to leave
    it), and which of its buffers lie in which."""

    plan: Plan
    carried: Homes
    homes: Homes

    @property
    def stay(self) -> list[Buffer]:
        """The results that lie where the body finds what they were before."""
        return [new for old, new in self.carried.items() if self.homes.get(old) is new]

    @property
    def nbytes(self) -> int:
        """Of what stays."""
        return _nbytes(self.stay)


@record()
class _Known:
    """Bodies that loops may share: as they were planned first, and as they are now."""

    plans: dict[Function, Plan] = field(default_factory=dict)
    settled: dict[Any, _Settled] = field(default_factory=dict)


def _settle(plan: Plan, known: _Known) -> None:
    """Say of the loops of a plan, and of those in their bodies, what stays."""
    for control in (control for controls in plan.controls.values() for control in controls):
        for name, body in control.bodies.items():
            function = control.eqn.params[name]
            if function not in known.plans:
                known.plans[function] = body
                _settle(body, known)
        moves = tuple(
            (control.first + at, at) for at, spare in enumerate(control.spares) if spare is not None
        )
        if moves:
            _choose(control, moves, known)


def _choose(control: Control, moves: _Moves, known: _Known) -> None:
    function = control.eqn.params["body"]
    found = known.settled.get((function, moves))
    if found is None:
        found = _settled(known.plans[function], moves)
        if _may_gain(found):
            found = max(found, _settled(_apart(found, known), moves), key=attrgetter("nbytes"))
        known.settled[function, moves] = found
    control.bodies["body"], control.homes = found.plan, found.homes
    control.stay = frozenset(buffer.slot for buffer in found.stay)


def _settled(plan: Plan, moves: _Moves) -> _Settled:
    carried = {}
    for at, to in moves:
        old, new = plan.places[plan.function.inputs[at]].buffer, plan.outputs[to]
        if old is not None and isinstance(new, Buffer):
            carried[old] = new
    homes = homes_in(plan, slots_of(plan.function), carried) if carried else {}
    return _Settled(plan, carried, homes)


def _may_gain(found: _Settled) -> bool:
    """Whether more may stay by a plan that keeps arrays apart, and it would pay."""
    count, stay = len(found.carried), found.stay
    if len(stay) == count or (count == 1 and not found.plan.writes):
        return False
    return not stay or _nbytes(found.carried) <= _CACHED


def _apart(found: _Settled, known: _Known) -> Plan:
    """A plan that makes each array that is carried in a loop of its own, as far as one is made of
    another, and reads what is there before anything is written into it."""
    function = found.plan.function
    inputs, outputs = function.inputs, function.outputs
    carried = {inputs[old.slot]: outputs[new.slot] for old, new in found.carried.items()}
    other = make_plan(function, body=True, carried=carried, bodies=known.plans)
    _settle(other, known)
    return other


def _nbytes(buffers: Iterable[Buffer]) -> int:
    return sum(buffer.type.nbytes for buffer in buffers)
