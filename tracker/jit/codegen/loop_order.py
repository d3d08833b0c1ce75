"""Loop order: interchange, collapsing and tiling of a kernel's loops.

- Interchange (`best_order`). A kernel is first emitted in C order, which records the stride of each
  access along each axis. Where another axis is much better to walk along (Fortran order, a
  transposed factor), it becomes the innermost; where rows are long, axes that all reductions keep
  become the outermost, so that sums stay in registers and threads can share them.
- Collapsing (`can_collapse`). Arrays of one shape and order without gaps need a single loop.
- Tiling (`choose_tile`). `a + a.T` touches a cache line of one array at each step in any order. Its
  innermost two loops run over strips of columns, of all rows (half the time for matrices that are
  written across, and where several are read across), or of so many rows as a cache line has
  elements (a third of the time for rows that are whole pages apart, which evict each other).

Invariants: only kernels whose points may come in any order are reordered, and each point comes
once; the order of a sum changes with the loop order, and is the same on every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tracker.ir.graph import Atom, Eqn, Var
from tracker.ir.lowering import Map, View
from tracker.jit.schedule.affine import AffineIndex, loop_index, view_index
from tracker.jit.schedule.plan_data import Expression, Kernel, Plan, Unrolled, is_in_memory
from tracker.ops.shape.memory_order import is_dense, nontrivial_strides
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.codegen.reductions import Accumulator

Strides = dict[int, int]  # axis -> elements between neighbours; absent: 0
_NEAR_COST, _FAR_COST = 3, 8  # cost of an access that is not adjacent to the one before
NEAR_ELEMENTS = 16  # elements; accesses within this distance share cache lines
_MEMORY_SUM_COST = 1  # cost of a sum that is not in a register, besides its access
_LOOP_START_COST = 16  # cost of starting a loop
_UNROLLED_STEPS = 16  # steps; a shorter loop is unrolled, with its sums in registers
_MAX_COST_RATIO = 0.6  # of the cost in C order; otherwise the order stays
_LONG_ROW = 64  # steps; rows of at least this length may come in any order
_MIN_VECTOR_STEPS = 4  # steps; a shorter loop is not vectorised
_MIN_POINTS = 256  # points; a smaller kernel is not reordered
_CACHED_LINES = 256  # cache lines of different rows; fewer stay in the cache
_PAGE_ELEMENTS = 512  # elements; rows a multiple of this apart map to few cache sets


def can_collapse(plan: Plan, kernel: Kernel) -> bool:
    """Whether all arrays of a kernel have one shape and order without gaps: one loop suffices."""
    space = kernel.space
    if len(space) < 2 or kernel.fused or any(store.eqn is not None for store in kernel.stores):
        return False
    orders = {nontrivial_strides(store.location.strides, space) for store in kernel.stores}

    def is_aligned(atom: Atom) -> bool:
        """Whether a value has one element, or an order that all others have."""
        if not isinstance(atom, Var) or atom.type.size == 1:
            return True
        location = plan.locations[atom]
        if atom.type.shape != space or isinstance(location, Unrolled):
            return False
        if is_in_memory(location, kernel.level):
            orders.add(nontrivial_strides(location.strides, space))
            return len(orders) == 1
        if isinstance(location, Expression) and location.kernel is kernel:
            return True
        return is_elementwise(plan.definitions[atom])

    def is_elementwise(eqn: Eqn) -> bool:
        if isinstance(eqn.op.lower, View):
            return _is_broadcast_scalar(eqn)
        return isinstance(eqn.op.lower, Map) and all(map(is_aligned, eqn.operands))

    if any(set(e.params["axis"]) != set(range(len(space))) for e in kernel.reductions):
        return False
    if not all(map(is_elementwise, kernel.members)):
        return False
    stored = [store.value for store in kernel.stores if store.value is not None]
    if not all(map(is_aligned, [*stored, *(e.operands[0] for e in kernel.reductions)])):
        return False
    return len(orders) <= 1 and all(is_dense(strides, space) for strides in orders)


def _is_broadcast_scalar(eqn: Eqn) -> bool:
    """Whether a view has the same element everywhere."""
    if len(eqn.operands) != 1 or eqn.operands[0].type.size != 1:
        return False
    shape = eqn.out.type.shape
    return view_index(eqn, loop_index(shape), shape) is not None


def access_strides(position: object) -> Strides | None:
    """The strides of an access along the loops; None if computed in the loop."""
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

    kept: the axes that each reduction keeps; shared: whether threads share the outermost loop.
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
        if kept and (space[inner] < _LONG_ROW or all(are_outermost(k, natural) for k in kept)):
            return natural

    def nesting(axis: int) -> tuple[bool, bool, int]:
        """Axes that all reductions keep go outside (sums in registers); then those along which no
        array is walked within cache lines; then long strides."""
        strides = [abs(each.get(axis, 0)) for each in known]
        is_near = any(0 < stride < NEAR_ELEMENTS for stride in strides)
        return not all(axis in k for k in kept), is_near, -sum(strides)

    order = (*sorted((axis for axis in natural if axis != inner), key=nesting), inner)
    if inner == natural[-1] and not all(are_outermost(k, order) for k in kept):
        return natural
    is_shared_by_few = shared and space[order[0]] < _LOOP_START_COST
    if is_shared_by_few and (inner == natural[-1] or all(are_outermost(k, natural) for k in kept)):
        return natural
    return order


def are_outermost(kept: Sequence[int], order: Sequence[int]) -> bool:
    """Whether the loops along the axes that a reduction keeps are around the others."""
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


@record(frozen=True)
class Tile:
    """How many columns of how many rows (None: of all) the innermost two loops run over at once."""

    rows: int | None
    columns: int


STRIP, BLOCK = Tile(None, 64), Tile(8, 16)


def choose_tile(
    space: Sequence[int],
    accesses: Iterable[Strides],
    writes: Iterable[Strides],
    order: Sequence[int],
) -> Tile | None:
    """The tile of the innermost two loops; None where whole rows are as good. A cache line that a
    row touches across is evicted when the next row comes. The lines of one array that is only read
    are prefetched in time, except where rows evict each other."""
    if len(space) < 2:
        return None
    outer, inner = order[-2:]
    columns = space[inner]
    if columns < 2 * STRIP.columns or space[outer] < STRIP.columns:
        return None

    def lies_across(strides: Strides) -> bool:
        return (
            abs(strides.get(inner, 0)) > NEAR_ELEMENTS
            and 0 < abs(strides.get(outer, 0)) < NEAR_ELEMENTS
        )

    across = [strides for strides in accesses if lies_across(strides)]
    if columns >= _CACHED_LINES:
        if any(map(lies_across, writes)):
            return STRIP
        if any(strides[inner] % _PAGE_ELEMENTS == 0 for strides in across):
            return BLOCK
    return STRIP if len(across) > 1 and len(across) * columns > 2 * _CACHED_LINES else None


def can_tile(order: Sequence[int], accumulators: Iterable[Accumulator]) -> bool:
    """Whether no reduction begins or ends with a row."""
    inner = {*order[-2:]}
    return not any(
        accumulator.by_rows or (accumulator.in_register and inner & {*accumulator.kept})
        for accumulator in accumulators
    )
