"""The data of a plan: buffers, locations of values, kernels, and the steps of each level.

- A location is `Unrolled` (a register for each element), `InMemory` (a strided part of a buffer),
  or an `Expression` (computed inside of kernels, and stored only where that is cheaper).
- A `Kernel` is one loop nest: an iteration space, the values stored at each of its points
  (`stores`) and the reductions over it.
- Levels order the plan: what a kernel of one level produces can be read at the next level.

Strides and offsets are in elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.types import Type
from tracker.jit.schedule.affine import AffineIndex, ComputedIndex, linear_position
from tracker.ops.shape.memory_order import MemoryOrder, c_strides
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.schedule.steps import NamedStep, Step

Role = Literal["input", "capture", "output", "scratch", "table"]

UNROLL_LIMIT = 32  # elements; values of at most this size are unrolled


@record(frozen=True)
class UnrollLimits:
    """The largest numbers of elements to unroll, for vectors and for arrays of more axes."""

    vector: int
    array: int

    def admits(self, type: Type) -> bool:
        return type.size <= (self.vector if type.ndim == 1 else self.array)


@record(eq=False)
class Buffer:
    """Memory: an input, a capture, an output, scratch, or a constant table.

    slot: its number among the buffers of its role (inputs, captures, outputs); values: of a table.
    """

    number: int
    type: Type
    role: Role
    slot: int = -1
    values: tuple[Any, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether only our own code (or NumPy for it) has written the contents."""
        return self.role not in ("input", "capture")


# Where a value can be read, from level `ready` on. A value without a buffer is not in memory.


@record(eq=False)
class Unrolled:
    """A register for each element; in memory, too, if there is a buffer."""

    ready: int
    buffer: Buffer | None = None
    strides: tuple[int, ...] = ()
    start: int = 0


@record(eq=False)
class InMemory:
    """A strided part of a buffer."""

    ready: int
    buffer: Buffer
    strides: tuple[int, ...]
    start: int = 0


@record(eq=False)
class Expression:
    """Computed where it is read, first by `kernel`; stored only where that is cheaper.

    cost: operations per element; math_depth: the longest chain of transcendental functions.
    """

    kernel: Kernel
    ready: int
    cost: int
    math_depth: int = 0
    buffer: Buffer | None = None
    strides: tuple[int, ...] = ()
    start: int = 0


Location = Unrolled | InMemory | Expression
CarryMoves = tuple[tuple[int, int], ...]  # (input of a body, the result that becomes it)


def memory_of(location: Location) -> Buffer:
    """The buffer of a stored value."""
    assert location.buffer is not None
    return location.buffer


def is_in_memory(location: Location, level: int) -> bool:
    """Whether a value can be loaded from memory at a level."""
    return location.buffer is not None and location.ready <= level


@record(eq=False)
class Store:
    """An element of `value` (None: zero) is stored at, or added to, each point of a strided
    location.

    `eqn`: the equation whose lowering says where instead (`Scatter`, `Compact`), or how (`Scan`).
    """

    value: Atom | None
    location: Location
    adds: bool = False
    eqn: Eqn | None = None


@record(eq=False)
class Kernel:
    """One loop nest over `space` at `level`.

    weight: its number of operations, transcendental functions counted as many; lines: the length of
    its code, recomputed values included; work: operations of its members per point; fused:
    reductions over a smaller space.
    """

    space: tuple[int, ...]
    level: int
    members: list[Eqn] = field(default_factory=list)
    weight: int = 0
    stores: list[Store] = field(default_factory=list)
    reductions: list[Eqn] = field(default_factory=list)
    fused: list[Kernel] = field(default_factory=list)
    lines: int = 0
    work: int = 0

    @property
    def with_fused(self) -> tuple[Kernel, ...]:
        """The kernel, then the reductions fused into it."""
        return (self, *self.fused)


@record(frozen=True)
class FrameSlots:
    """The first slot in the frame of each input, capture and output of the function, and whether it
    holds an array's address (else a number)."""

    inputs: tuple[int, ...]
    input_is_array: tuple[bool, ...]
    captures: tuple[int, ...]
    capture_is_array: tuple[bool, ...]
    outputs: tuple[int, ...]
    output_is_array: tuple[bool, ...]


@record(eq=False)
class ControlFlow:
    """A loop, while or branch: locations of its array operands and of its results, a spare buffer
    for each carried array that is not saved, and the plans of its bodies by name.

    `first_carry`: the input of the body that is the first carry; `in_place`: the carried arrays
    that the body updates in place, which need no spare; `coalesced`: the buffers of the body that
    share memory then (`jit/pipeline/loop_carried.py`).
    """

    eqn: Eqn
    operands: dict[Var, Location]
    results: list[Location]
    spares: list[Buffer | None]
    bodies: dict[str, Plan]
    first_carry: int
    in_place: frozenset[int] = frozenset()
    coalesced: Mapping[Buffer, Buffer] = field(default_factory=dict)


@record(eq=False)
class Plan:
    """What runs at each level, in this order: unrolled equations and guards, products, calls of
    routines, control flow, kernels, and writes (in an order of their own: in-place updates,
    scatters, scans, and kernels written by hand).

    `copies`: copies in C order of stored values. `outputs`: the buffer of each output; for an
    unrolled one, its strides. `carried`: the arrays of a loop that are updated where they are.
    `derived`: what was found out about the plan of a body, and written of it, for all loops and
    programs that have it.
    """

    function: Function
    locations: dict[Var, Location] = field(default_factory=dict)
    definitions: dict[Var, Eqn] = field(default_factory=dict)
    unrolled: dict[int, list[Eqn | Guard]] = field(default_factory=dict)
    products: dict[int, list[NamedStep]] = field(default_factory=dict)
    calls: dict[int, list[NamedStep]] = field(default_factory=dict)
    controls: dict[int, list[ControlFlow]] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    writes: dict[int, list[Kernel | Store | Step]] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    copies: dict[Var, Location] = field(default_factory=dict)
    outputs: list[Buffer | tuple[int, ...]] = field(default_factory=list)
    level_count: int = 0
    carried: CarryMoves = ()
    derived: dict[Any, Any] = field(default_factory=dict)


def carry_moves(first_carry: int, spares: Sequence[Buffer | None]) -> CarryMoves:
    """The carried arrays of a loop that are not saved at each step."""
    return tuple([(first_carry + at, at) for at, each in enumerate(spares) if each is not None])


def buffer_location(buffer: Buffer, ready: int = 0, strides: MemoryOrder = None) -> InMemory:
    """All of a buffer, in C order or with these strides."""
    return InMemory(ready, buffer, strides or c_strides(buffer.type.shape))


def slice_location(
    location: InMemory, index: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], InMemory]:
    """Shape and location of a canonical basic index (`ops/indexing/canonical.py`) into an array."""
    extents: list[int] = []
    strides: list[int] = []
    start, axis = location.start, 0
    for part in index:
        if part is None:
            extents.append(1)
            strides.append(0)
            continue
        first = part.start if isinstance(part, slice) else part
        start += first * location.strides[axis]
        if isinstance(part, slice):
            extents.append(len(range(*part.indices(shape[axis]))))
            strides.append(part.step * location.strides[axis])
        axis += 1
    return tuple(extents), InMemory(0, location.buffer, tuple(strides), start)


def element_span(location: Location, shape: tuple[int, ...]) -> tuple[int, int]:
    """The lowest element of a strided location, and the end of the highest."""
    if 0 in shape:
        return location.start, location.start
    reach = [(n - 1) * stride for n, stride in zip(shape, location.strides, strict=True)]
    low = location.start + sum(r for r in reach if r < 0)
    return low, location.start + sum(r for r in reach if r > 0) + 1


def affine_location(location: Location, index: Iterable[Any], ndim: int) -> InMemory | None:
    """The strided location of index formulas in the loop variables; None if computed."""
    index = tuple(index)
    if any(isinstance(i, ComputedIndex) for i in index):
        return None
    flat = linear_position(index, location.strides, location.start)
    terms = dict(flat.terms) if isinstance(flat, AffineIndex) else {}
    start = flat.constant if isinstance(flat, AffineIndex) else flat
    strides = tuple(terms.get(v, 0) for v in range(ndim))
    return InMemory(location.ready, memory_of(location), strides, start)


def is_blas_matrix(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether BLAS can read the last two axes (or the only one) in place."""
    if len(shape) == 1:
        return strides[0] > 0
    rows, columns = strides[-2:]
    m, n = shape[-2:]
    return (columns == 1 and (rows >= n or m == 1)) or (rows == 1 and (columns >= m or n == 1))
