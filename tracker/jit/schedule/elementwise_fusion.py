"""Fusion of elementwise loops: which kernel computes an equation, and what it stores.

Kernels are found by (space, level). An elementwise value is an expression, computed inside of each
loop that reads it, unless `cost.py` finds that storing it is cheaper; a reduction is computed in
the loop of its operand. A view is strides over memory, where it can be. (`reduction_fusion.py`
moves reductions into loops over larger spaces afterwards.)

Invariant: each equation is looked at once, with its operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracker.ir.graph import Eqn, Var
from tracker.ir.lowering import View
from tracker.jit.schedule.affine import loop_index, view_index
from tracker.jit.schedule.cost import SLOW_OPS_LIMIT, is_math, is_slow, view_cost
from tracker.jit.schedule.placement import MATH_COST
from tracker.jit.schedule.plan_data import Expression, InMemory, Kernel, Location, affine_location
from tracker.ops.shape.memory_order import c_strides

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner

_MATH_WEIGHT = 30  # weight of a transcendental function: its code is long
_LINES_PER_OPERATION = 6  # lines of code per operation, address computations included


def fuse_map(planner: Planner, eqn: Eqn, operands: list[Var]) -> None:
    """Put an elementwise equation into a kernel over its space; what it reads is computed there
    again, or stored."""
    space = eqn.out.type.shape
    level = 0
    same: list[tuple[Var, Expression]] = []  # operands of the same shape
    for o in operands:
        _alias_if_stored(planner, o)
        location = planner.locations[o]
        if planner.cost.exceeds_math_depth(o, eqn):
            level = max(level, planner.store(o))
        elif isinstance(location, Expression) and o.type.shape == space:
            same.append((o, location))
            level = max(level, location.kernel.level)
        elif planner.cost.repeats_slow_op(o, eqn):
            level = max(level, planner.store(o))
        else:
            level = max(level, planner.available_level(o))
    kernel = planner.kernel_with_room(space, level)
    crowded, level = kernel.level > level, kernel.level
    math = is_math(eqn)
    cost = MATH_COST if math else 1
    kernel.weight += _MATH_WEIGHT if math else 1
    for o, expression in same:
        if expression.kernel.level < level and expression.buffer is None:
            limit = planner.recompute_limit_of(o)
            limit = min(limit, MATH_COST - 1) if crowded else limit
            if planner.cost.recompute_cost(o, level, limit) > limit:
                planner.store(o)
    shared = 0  # cost of members that the kernel computes anyway
    for o in operands:
        location = planner.locations[o]
        if isinstance(location, Expression):
            if location.kernel is kernel:
                shared += location.cost
            elif location.buffer is None:
                cost += planner.cost.recompute_cost(o, level, location.cost)
    planner.cost.slow_ops[eqn.out] += is_slow(eqn)
    lines = _LINES_PER_OPERATION
    kernel.lines += _MATH_WEIGHT + lines * (cost - MATH_COST) if math else lines * cost
    kernel.work += cost
    _add_expression(planner, eqn, kernel, cost + shared, operands)


def _add_expression(
    planner: Planner, eqn: Eqn, kernel: Kernel, cost: int, operands: list[Var]
) -> None:
    kernel.members.append(eqn)
    counts = [planner.cost.slow_ops[o] for o in operands if planner.locations[o].buffer is None]
    planner.cost.slow_ops[eqn.out] += min(sum(counts), SLOW_OPS_LIMIT)
    depth = max(map(planner.cost.math_depth, operands), default=0) + is_math(eqn)
    planner.locations[eqn.out] = Expression(kernel, kernel.level, cost, depth)


def fuse_view(planner: Planner, eqn: Eqn, operands: list[Var]) -> None:
    for o in operands:
        if planner.cost.repeats_slow_op(o, eqn):
            planner.store(o)
    if _may_be_alias(planner, eqn):
        alias = _view_alias(planner, eqn, operands[0])
        if alias is not None:
            planner.locations[eqn.out] = alias
            return
    level = 0
    cost = view_cost(eqn)
    for o in operands:
        level = max(level, planner.available_level(o))
        location = planner.locations[o]
        if isinstance(location, Expression) and location.buffer is None:
            cost += location.cost
    kernel = planner.kernel_at(eqn.out.type.shape, level)
    kernel.lines += _LINES_PER_OPERATION * cost
    kernel.work += cost
    _add_expression(planner, eqn, kernel, cost, operands)


def _alias_if_stored(planner: Planner, var: Var) -> None:
    """Have an expression that is a view of a value be strides over memory, if the value has been
    stored since for another reader."""
    location, eqn = planner.locations[var], planner.plan.definitions.get(var)
    if not isinstance(location, Expression) or location.buffer is not None or eqn is None:
        return
    if isinstance(eqn.op.lower, View) and _may_be_alias(planner, eqn):
        (source,) = eqn.operands
        assert isinstance(source, Var)
        planner.locations[var] = strided_alias(planner, eqn, source) or location


def _may_be_alias(planner: Planner, eqn: Eqn) -> bool:
    """Whether a view may be strides over the memory of its operand."""
    is_of_one = len(eqn.operands) == 1 and isinstance(eqn.operands[0], Var)
    return is_of_one and eqn.out not in planner.row_operands


def _view_alias(planner: Planner, eqn: Eqn, o: Var) -> Location | None:
    """The view as strides over the memory of its operand, or of a copy of it. A reshape that
    merges or splits axes needs contiguous memory: else each index needs a division."""
    needs_division = _is_reshape(eqn) and not _changes_unit_axes_only(eqn)
    if isinstance(planner.locations[o], Expression) and needs_division:
        planner.store(o)
    alias = strided_alias(planner, eqn, o)
    if alias is None and isinstance(planner.locations[o], InMemory) and needs_division:
        copy = planner.copied(o)
        assert copy.buffer is not None
        return InMemory(copy.ready, copy.buffer, c_strides(eqn.out.type.shape), copy.start)
    return alias


def strided_alias(planner: Planner, eqn: Eqn, o: Var) -> Location | None:
    """The view as strides over the same memory, where strides can express it."""
    location = planner.locations[o]
    if location.buffer is None or not o.type.shape:  # a scalar has no memory
        return None
    shape = eqn.out.type.shape
    if _is_reshape(eqn) and location.strides == c_strides(o.type.shape):
        return InMemory(location.ready, location.buffer, c_strides(shape), location.start)
    index = view_index(eqn, loop_index(shape), shape)
    return None if index is None else affine_location(location, index, len(shape))


def fuse_reduction_input(planner: Planner, eqn: Eqn, o: Var) -> None:
    location = planner.locations[o]
    if isinstance(location, Expression):
        kernel = location.kernel
    else:
        kernel = planner.kernel_at(o.type.shape, location.ready)
    kernel.reductions.append(eqn)
    planner.allocate(eqn.out, kernel.level + 1, planner.strides_of(eqn.out))


def _is_reshape(eqn: Eqn) -> bool:
    """Whether a view keeps the C order of all elements."""
    return set(eqn.params) == {"shape"} and eqn.out.type.size == eqn.operands[0].type.size


def _changes_unit_axes_only(eqn: Eqn) -> bool:
    """Whether only axes of extent 1 come or go, so that indices map without division."""
    extents = [n for n in eqn.operands[0].type.shape if n != 1]
    return extents == [n for n in eqn.out.type.shape if n != 1]
