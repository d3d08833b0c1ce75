"""Running folds (`Scan`): loops in which each element is made from the one before it.

Owns: `plan_scan`, which plans one, and `reversed_scans`; how an element is written is in
`jit/codegen/scatter_stores.py`. Start at `plan_scan`.

No loop of vectors does that, so what is dear about the operands is made before, by one that is.
`np.flip(np.cumsum(np.flip(x)))`, which the gradient of a running sum is, goes from the end to the
start: what nothing reads but views that turn the axis around lies in memory as these have it. Then
they are no views of unusual strides, and each element can lie where that lay of which it is made.

Invariant: linear in the operands of the function.
"""

from __future__ import annotations

from typing import Any

from tracker.ir.graph import Eqn, Function, Var, operands_of
from tracker.ir.lowering import Scan, View
from tracker.jit.schedule.affine import loop_index, view_formulas
from tracker.jit.schedule.plan_data import Kernel, Store
from tracker.ops.shape.memory_order import reversed_along


def plan_scan(planner: Any, eqn: Eqn) -> None:
    """Have what is dear stored, and place the result."""
    for o in eqn.operands:
        planner.store_if_dear(o)
    level = max((planner.reach(o) for o in eqn.operands if isinstance(o, Var)), default=0)
    place = planner.made(eqn.out, level, strides=planner.order(eqn.out))
    if planner.turned is None:
        planner.turned = reversed_scans(planner.plan.function)
    if place.kind == "memory" and eqn.out in planner.turned:
        axis = eqn.params["axis"]
        place.start, place.strides = reversed_along(place.strides, eqn.out.type.shape, axis)
    kernel = Kernel(eqn.out.type.shape, level, stores=[Store(eqn.operands[0], place, by=eqn)])
    planner.plan.writes.setdefault(level, []).append(kernel)


def reversed_scans(function: Function) -> set[Var]:
    """The results that nothing reads but views which turn their axis around."""
    scans = {eqn.out: eqn for eqn in function.eqns if isinstance(eqn.op.lower, Scan)}
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
    """Whether an equation gives its operand with one axis turned around, and no other change."""
    shape = eqn.out.type.shape
    if not isinstance(eqn.op.lower, View) or [o.type.shape for o in eqn.operands] != [shape]:
        return False
    found = view_formulas(eqn, loop_index(shape), shape)
    if found is None or isinstance(found, list) or found[2] not in (None, True):
        return False
    wanted = list(loop_index(shape))
    wanted[axis] = wanted[axis] * -1 + (shape[axis] - 1)
    return list(found[1]) == wanted
