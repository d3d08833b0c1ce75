"""In which order a kernel's loops nest: so that the innermost walks along memory.

Owns: `best_order` and `are_outer`. A kernel is first written in C order; what it
read and wrote on the way says how far apart neighbours are along each axis. Where another axis than
the last is far better to walk along (an array of Fortran order, the transposed factor of a product,
the fold of a leading axis), the kernel is written again with that axis innermost; where rows are
long, so it is with the axes that all folds keep outermost, for then these add up in registers (and
threads share them).

Invariants: only a kernel whose points may come in any order is asked about; sums within it come in
another order then, the same one on every call.

Whether one loop will do for a kernel of several axes. Start at `is_flat`.

Loops over strips of columns: for kernels in which one array lies along the rows, another across.

Owns: `is_crossed` and `may_be_cut`, which are asked before a kernel's loops are written so, and
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
from tracker.jit.schedule.affine import Affine, formulas, index_of
from tracker.jit.schedule.plan_data import Kernel
from tracker.ops.shape.memory_order import is_packed, wide_strides


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


Strides = dict[int, int]  # elements between neighbours along an axis; none: it stays where it is

_NEAR, _FAR = 3, 8  # what an access costs that is not to the neighbour of the last one
WINDOW = 16  # elements; accesses so far apart are near: they share cache lines
_IN_MEMORY = 1  # what a sum costs that is not in a register, besides its access
_START = 16  # what starting a loop costs
_UNROLLED = 16  # steps; a loop of so few is none, and its sums are in registers
_GAIN = 0.6  # of its cost in C order; a kernel that costs more stays as it is
_ROW = 64  # steps; rows that are as long may be gone through in any order
_LANES = 4  # steps; a loop of fewer takes no vectors, however well memory lies along it
_SMALL = 256  # points; below, there is nothing to gain


def strides_of(position: object) -> Strides | None:
    """How an access moves; None if that is only known in the loop."""
    if isinstance(position, int):
        return {}
    return dict(position.terms) if isinstance(position, Affine) else None


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
    if len(space) < 2 or size < _SMALL:
        return natural
    known = list(accesses)
    costs = {axis: _cost(axis, space[axis], known, kept) for axis in natural}
    wide = [axis for axis in natural if space[axis] >= _LANES or axis == natural[-1]]
    inner = min(reversed(wide), key=costs.__getitem__)
    if costs[inner] > _GAIN * costs[natural[-1]]:
        inner = natural[-1]
        if space[inner] < _ROW or all(are_outer(k, natural) for k in kept):
            return natural

    def place(axis: int) -> tuple[bool, int]:
        """What all folds keep goes outside, so that they are in registers; then long strides."""
        strides = sum(abs(each.get(axis, 0)) for each in known)
        return not all(axis in k for k in kept), -strides

    order = (*sorted((axis for axis in natural if axis != inner), key=place), inner)
    if inner == natural[-1] and not all(are_outer(k, order) for k in kept):
        return natural
    return natural if shared and space[order[0]] < _START else order


def are_outer(kept: Sequence[int], order: Sequence[int]) -> bool:
    """Whether the loops along the axes that a fold keeps are around the others."""
    return set(order[: len(kept)]) == set(kept)


def _cost(
    axis: int, extent: int, accesses: Sequence[Strides], kept: Sequence[Sequence[int]]
) -> float:
    """About what a step of a loop along this axis costs."""
    total = 1.0
    for strides in accesses:
        step = abs(strides.get(axis, 0))
        total += step if step < 2 else _NEAR if step <= WINDOW else _FAR
    if extent <= _UNROLLED:
        return total
    total += sum(_IN_MEMORY for k in kept if k and axis in k)
    return total * (1 + _START / extent)


TILE = 64  # columns of a strip: so many rows of what lies across stay in the cache
_TILES = 4  # strips; fewer columns are all in the cache
_PAGE = 512  # elements; rows so many (or twice, ...) apart share few places in a cache


def is_crossed(
    space: Sequence[int],
    accesses: Iterable[Strides],
    writes: Iterable[Strides],
    order: Sequence[int],
) -> bool:
    """Whether the innermost two loops shall go over strips of columns: what a row touches across
    is out of the cache when the next row comes. What is only read comes in time even so, except
    where the rows of it push each other out.
    """
    if len(space) < 2 or space[order[-1]] < _TILES * TILE or space[order[-2]] < TILE:
        return False
    outer, inner = order[-2:]

    def lies_across(strides: Strides) -> bool:
        return abs(strides.get(inner, 0)) > WINDOW and 0 < abs(strides.get(outer, 0)) < WINDOW

    return any(map(lies_across, writes)) or any(
        lies_across(strides) and strides[inner] % _PAGE == 0 for strides in accesses
    )


def may_be_cut(order: Sequence[int], parts: Sequence[Sequence[Any]], folds: Iterable[Any]) -> bool:
    """Whether no sum begins or ends with a row, and rows and columns are whole."""
    inner = {*order[-2:]}
    return all(len(parts[v]) == 1 for v in inner) and not any(
        fold.by_rows or (fold.in_register and inner & {*fold.kept}) for fold in folds
    )
