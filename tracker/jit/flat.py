"""Whether one loop will do for a kernel of several axes. Start at `is_flat`."""

from __future__ import annotations

from typing import Any

from tracker.ir.graph import Const, Eqn
from tracker.ir.op import Map, View
from tracker.jit.index import formulas, index_of
from tracker.jit.layout import Kernel
from tracker.jit.strides import is_packed, wide_strides


def is_flat(driver: Any, kernel: Kernel) -> bool:
    """Whether all arrays in the kernel are of one shape and lie in one order, without gaps, so that
    one loop will do."""
    space = kernel.space
    if len(space) < 2 or kernel.guests or any(store.by is not None for store in kernel.stores):
        return False
    orders = {wide_strides(store.place.strides, space) for store in kernel.stores}

    def flat(atom: Any) -> bool:
        if isinstance(atom, Const) or atom.type.size == 1:
            return True
        place = driver.plan.places[atom]
        if atom.type.shape != space or place.kind == "tiny":
            return False
        if place.stored and place.ready <= kernel.level:
            orders.add(wide_strides(place.strides, space))
            return len(orders) == 1
        if place.home is kernel:
            return True
        return same(driver.plan.definitions[atom])

    def same(eqn: Eqn) -> bool:
        if isinstance(eqn.op.lower, View):
            return _is_spread(eqn)
        return isinstance(eqn.op.lower, Map) and all(map(flat, eqn.operands))

    if any(set(e.params["axis"]) != set(range(len(space))) for e in kernel.folds):
        return False
    if not all(map(same, kernel.members)):
        return False
    stored = [store.value for store in kernel.stores if store.value is not None]
    if not all(map(flat, [*stored, *(e.operands[0] for e in kernel.folds)])):
        return False
    return len(orders) <= 1 and all(is_packed(strides, space) for strides in orders)


def _is_spread(eqn: Eqn) -> bool:
    """Whether a view has one element everywhere."""
    if len(eqn.operands) != 1 or eqn.operands[0].type.size != 1:
        return False
    shape = eqn.out.type.shape
    found = formulas(eqn, index_of(shape), shape)
    return found is not None and not isinstance(found, list) and found[2] in (None, True)
