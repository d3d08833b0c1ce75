"""In which order a kernel's loops nest: so that the innermost walks along memory.

Owns: `best_order` and `are_outermost`. A kernel is first written in C order; what it
read and wrote on the way says how far apart neighbours are along each axis. Where another axis than
the last is far better to walk along (an array of Fortran order, the transposed factor of a product,
the fold of a leading axis), the kernel is written again with that axis innermost; where rows are
long, so it is with the axes that all folds keep outermost, for then these add up in registers (and
threads share them).

Invariants: only a kernel whose points may come in any order is asked about; sums within it come in
another order then, the same one on every call.

Whether one loop will do for a kernel of several axes. Start at `can_collapse`.

Loops over strips of columns: for kernels in which one array lies along the rows, another across.

Owns: `should_tile` and `can_tile`, which are asked before a kernel's loops are written so, and
`TILE`. No order of the loops is good for both arrays of `a + a.T`: the inner loop touches a cache
line of one of them at each step, and the line is gone when the next row wants its other numbers.
So the innermost two loops go over `TILE` columns of all rows, then over the next: `loop_nest.py`
writes it. Half the time where a matrix is written across, and where rows are whole pages apart.

Invariants: points come in another order than by rows, which only kernels are asked for whose
points may; each point comes once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracker.ir.graph import Const, Eqn
from tracker.ir.lowering import Map, View
from tracker.jit.schedule.affine import AffineIndex, loop_index, view_formulas
from tracker.jit.schedule.plan_data import Kernel
from tracker.ops.shape.memory_order import is_dense, nontrivial_strides


def can_collapse(driver: Any, kernel: Kernel) -> bool:
    """Whether all arrays in the kernel are of one shape and lie in one order, without gaps, so that
    one loop will do."""
    space = kernel.space
    if len(space) < 2 or kernel.guests or any(store.by is not None for store in kernel.stores):
        return False
    orders = {nontrivial_strides(store.place.strides, space) for store in kernel.stores}

    def flat(atom: Any) -> bool:
        if isinstance(atom, Const) or atom.type.size == 1:
            return True
        place = driver.plan.places[atom]
        if atom.type.shape != space or place.kind == "tiny":
            return False
        if place.stored and place.ready <= kernel.level:
            orders.add(nontrivial_strides(place.strides, space))
            return len(orders) == 1
        if place.home is kernel:
            return True
        return same(driver.plan.definitions[atom])

    def same(eqn: Eqn) -> bool:
        if isinstance(eqn.op.lower, View):
            return _is_broadcast_scalar(eqn)
        return isinstance(eqn.op.lower, Map) and all(map(flat, eqn.operands))

    if any(set(e.params["axis"]) != set(range(len(space))) for e in kernel.folds):
        return False
    if not all(map(same, kernel.members)):
        return False
    stored = [store.value for store in kernel.stores if store.value is not None]
    if not all(map(flat, [*stored, *(e.operands[0] for e in kernel.folds)])):
        return False
    return len(orders) <= 1 and all(is_dense(strides, space) for strides in orders)


def _is_broadcast_scalar(eqn: Eqn) -> bool:
    """Whether a view has one element everywhere."""
    if len(eqn.operands) != 1 or eqn.operands[0].type.size != 1:
        return False
    shape = eqn.out.type.shape
    found = view_formulas(eqn, loop_index(shape), shape)
    return found is not None and not isinstance(found, list) and found[2] in (None, True)


Strides = dict[int, int]  # elements between neighbours along an axis; none: it stays where it is

_NEAR_COST, _FAR_COST = 3, 8  # what an access costs that is not to the neighbour of the last one
NEAR_ELEMENTS = 16  # elements; accesses so far apart are near: they share cache lines
_MEMORY_SUM_COST = 1  # what a sum costs that is not in a register, besides its access
_LOOP_START_COST = 16  # what starting a loop costs
_UNROLLED_STEPS = 16  # steps; a loop of so few is none, and its sums are in registers
_MAX_COST_RATIO = 0.6  # of its cost in C order; a kernel that costs more stays as it is
_LONG_ROW = 64  # steps; rows that are as long may be gone through in any order
_MIN_VECTOR_STEPS = 4  # steps; a loop of fewer takes no vectors, however well memory lies along it
_MIN_POINTS = 256  # points; below, there is nothing to gain


def access_strides(position: object) -> Strides | None:
    """How an access moves; None if that is only known in the loop."""
    if isinstance(position, int):
        return {}
    return dict(position.terms) if isinstance(position, AffineIndex) else None


def best_order(
    space: Sequence[int],
    accesses: Iterable[Strides],
    kept: Sequence[Sequence[int]],
    shared: bool,
) -> tuple[int, ...]:
    """The axes from the outermost loop to the innermost.

    kept: the axes that each fold keeps; shared: threads share the outermost loop.
    """
    natural = tuple(range(len(space)))
    size = 1
    for extent in space:
        size *= extent
    if len(space) < 2 or size < _MIN_POINTS:
        return natural
    known = list(accesses)
    costs = {axis: _cost(axis, space[axis], known, kept) for axis in natural}
    wide = [axis for axis in natural if space[axis] >= _MIN_VECTOR_STEPS or axis == natural[-1]]
    inner = min(reversed(wide), key=costs.__getitem__)
    if costs[inner] > _MAX_COST_RATIO * costs[natural[-1]]:
        inner = natural[-1]
        if space[inner] < _LONG_ROW or all(are_outermost(k, natural) for k in kept):
            return natural

    def place(axis: int) -> tuple[bool, int]:
        """What all folds keep goes outside, so that they are in registers; then long strides."""
        strides = sum(abs(each.get(axis, 0)) for each in known)
        return not all(axis in k for k in kept), -strides

    order = (*sorted((axis for axis in natural if axis != inner), key=place), inner)
    if inner == natural[-1] and not all(are_outermost(k, order) for k in kept):
        return natural
    return natural if shared and space[order[0]] < _LOOP_START_COST else order


def are_outermost(kept: Sequence[int], order: Sequence[int]) -> bool:
    """Whether the loops along the axes that a fold keeps are around the others."""
    return set(order[: len(kept)]) == set(kept)


def _cost(
    axis: int, extent: int, accesses: Sequence[Strides], kept: Sequence[Sequence[int]]
) -> float:
    """About what a step of a loop along this axis costs."""
    total = 1.0
    for strides in accesses:
        step = abs(strides.get(axis, 0))
        total += step if step < 2 else _NEAR_COST if step <= NEAR_ELEMENTS else _FAR_COST
    if extent <= _UNROLLED_STEPS:
        return total
    total += sum(_MEMORY_SUM_COST for k in kept if k and axis in k)
    return total * (1 + _LOOP_START_COST / extent)


TILE = 64  # columns of a strip: so many rows of what lies across stay in the cache
_MIN_TILES = 4  # strips; fewer columns are all in the cache
_PAGE_ELEMENTS = 512  # elements; rows so many (or twice, ...) apart share few places in a cache


def should_tile(
    space: Sequence[int],
    accesses: Iterable[Strides],
    writes: Iterable[Strides],
    order: Sequence[int],
) -> bool:
    """Whether the innermost two loops shall go over strips of columns: what a row touches across
    is out of the cache when the next row comes. What is only read comes in time even so, except
    where the rows of it push each other out.
    """
    if len(space) < 2 or space[order[-1]] < _MIN_TILES * TILE or space[order[-2]] < TILE:
        return False
    outer, inner = order[-2:]

    def lies_across(strides: Strides) -> bool:
        return (
            abs(strides.get(inner, 0)) > NEAR_ELEMENTS
            and 0 < abs(strides.get(outer, 0)) < NEAR_ELEMENTS
        )

    return any(map(lies_across, writes)) or any(
        lies_across(strides) and strides[inner] % _PAGE_ELEMENTS == 0 for strides in accesses
    )


def can_tile(order: Sequence[int], parts: Sequence[Sequence[Any]], folds: Iterable[Any]) -> bool:
    """Whether no sum begins or ends with a row, and rows and columns are whole."""
    inner = {*order[-2:]}
    return all(len(parts[v]) == 1 for v in inner) and not any(
        fold.by_rows or (fold.in_register and inner & {*fold.kept}) for fold in folds
    )
