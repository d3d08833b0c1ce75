"""In which order a kernel's loops nest: so that the innermost walks along memory.

Owns: `best_order` and `are_outer`. A kernel is first written in C order; what it
read and wrote on the way says how far apart neighbours are along each axis. Where another axis than
the last is far better to walk along (an array of Fortran order, the transposed factor of a product,
the fold of a leading axis), the kernel is written again with that axis innermost; where rows are
long, so it is with the axes that all folds keep outermost, for then these add up in registers (and
threads share them).

Invariants: only a kernel whose points may come in any order is asked about; sums within it come in
another order then, the same one on every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracker.jit.index import Affine

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
