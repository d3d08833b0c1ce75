"""Planning of scans (`Scan`): loops in which each element is computed from the one before it.

A scan loop cannot be vectorised, so expensive operands are computed and stored before, by a loop
that can. `np.flip(np.cumsum(np.flip(x)))`, the gradient of a cumulative sum, runs from the end to
the start: a result that is only read by views that reverse its axis is stored reversed. Then these
views have unit strides, and each element can overwrite the element that it was computed from.

Invariant: linear in the operands of the function.
"""

from __future__ import annotations

from tracker.ir.graph import Eqn, Function, Var, operands_of
from tracker.ir.lowering import Scan, View
from tracker.jit.schedule.affine import loop_index, view_index
from tracker.jit.schedule.placement import Placement
from tracker.jit.schedule.plan_data import InMemory, Kernel, Store
from tracker.ops.shape.memory_order import reversed_along


def plan_scan(planner: Placement, eqn: Eqn, reversed: set[Var]) -> None:
    """Have expensive operands stored, and allocate the result; those in `reversed` in reverse."""
    for o in eqn.operands:
        planner.store_if_expensive(o)
    level = planner.operand_level(eqn.operands)
    location = planner.allocate(eqn.out, level + 1, planner.strides_of(eqn.out))
    if isinstance(location, InMemory) and eqn.out in reversed:
        shape, axis = eqn.out.type.shape, eqn.params["axis"]
        location.start, location.strides = reversed_along(location.strides, shape, axis)
    store = Store(eqn.operands[0], location, eqn=eqn)
    planner.add_write(Kernel(eqn.out.type.shape, level, stores=[store]))


def reversed_scans(function: Function) -> set[Var]:
    """The results that only views which reverse their axis read."""
    scans = {eqn.out: eqn for eqn in function.eqns if isinstance(eqn.op.lower, Scan)}
    if not scans:
        return set()
    read: set[Var] = set()
    others = set(function.outputs)
    for step in function.body:
        for atom in operands_of(step):
            scan = scans.get(atom) if isinstance(atom, Var) else None
            if scan is None:
                continue
            read.add(scan.out)
            if not isinstance(step, Eqn) or not _reverses_axis(step, scan.params["axis"]):
                others.add(scan.out)
    return read - others


def _reverses_axis(eqn: Eqn, axis: int) -> bool:
    """Whether an equation is its operand with one axis reversed, and otherwise unchanged."""
    shape = eqn.out.type.shape
    if not isinstance(eqn.op.lower, View) or [o.type.shape for o in eqn.operands] != [shape]:
        return False
    reversed = list(loop_index(shape))
    reversed[axis] = reversed[axis] * -1 + (shape[axis] - 1)
    return view_index(eqn, loop_index(shape), shape) == tuple(reversed)
