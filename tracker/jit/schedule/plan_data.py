"""The data of a plan: buffers, places, kernels, and what else runs at each level.

Owns: the classes that `plan.py` fills and the writers of code read, and the arithmetic of strided
places (`whole_place`, `region`, `address`, `is_matrix`).

- `Place` says where a value lives: 'tiny' (unrolled into registers), 'memory' (a strided piece of a
  buffer), or 'expression' (computed inside of a kernel, and stored only where that is needed).
- A `Kernel` is one loop nest: an iteration space, the values stored at each of its points
  (`stores`) and the reductions over it (`folds`).
- Levels order the plan. A value that a kernel produces can be used one level later.

Strides and starts are in elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.types import Type
from tracker.jit.schedule.affine import Affine, Opaque
from tracker.ops.shape.memory_order import MemoryOrder, c_strides
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.kernels.binary_search import Lookup
    from tracker.jit.kernels.python_callbacks import Callback
    from tracker.jit.kernels.sort import Order
    from tracker.jit.lapack.plan import Call

TINY = 32  # elements; up to here a value is unrolled


@record(frozen=True)
class Tiny:
    """Up to how many elements values are unrolled: vectors, and arrays of more axes."""

    vector: int
    array: int

    def takes(self, type: Type) -> bool:
        return type.size <= (self.vector if type.ndim == 1 else self.array)


@record(eq=False)
class Buffer:
    """Memory: an input, a capture, an output, scratch, or a table of numbers in the code.

    role: 'input', 'capture', 'output', 'scratch', 'table'; `slot` is its number within the first
    three; `values` are those of a table.
    """

    number: int
    type: Type
    role: str
    slot: int = -1
    values: tuple[Any, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether our own code, or NumPy for it, wrote all that is there."""
        return self.role not in ("input", "capture")


@record(eq=False)
class Place:
    """Where a value lives (see the file's header). `ready`: the level from which it can be used;
    `cost` and `chain`: of an expression, the operations that it takes, and how many functions that
    take long it has within one another."""

    kind: str
    ready: int = 0
    cost: int = 0
    home: Kernel | None = None
    buffer: Buffer | None = None
    strides: tuple[int, ...] = ()
    start: int = 0
    chain: int = 0

    @property
    def stored(self) -> bool:
        return self.buffer is not None


@record(eq=False)
class Store:
    """An element of `value` (None: zero) goes to, or is added to, each point of a strided place.

    `by`: the equation whose lowering says where instead (`Scatter`, `Compact`), or how (`Scan`).
    """

    value: Atom | None
    place: Place
    adds: bool = False
    by: Eqn | None = None


@record(eq=False)
class Kernel:
    """One loop nest over `space` at `level`. `weight`: how much it has to do; `lines`: how long its
    code is, with what it computes again; `work`: about how many operations its members take at each
    point; `chain`: how many functions that take long are made of one another. `guests`: folds over
    a smaller space that run within (see `loop_fusion.py`)."""

    space: tuple[int, ...]
    level: int
    members: list[Eqn] = field(default_factory=list)
    weight: int = 0
    stores: list[Store] = field(default_factory=list)
    folds: list[Eqn] = field(default_factory=list)
    guests: list[Kernel] = field(default_factory=list)
    lines: int = 0
    work: int = 0
    chain: int = 0

    @property
    def pieces(self) -> tuple[Kernel, ...]:
        """The kernel, then what runs within it."""
        return (self, *self.guests)


@record(frozen=True)
class Slots:
    """Where the frame holds things: first slot of each input, capture, output of the function.

    array[i]: output i is an array (its slot holds an address), not a number.
    """

    inputs: tuple[int, ...]
    input_is_array: tuple[bool, ...]
    captures: tuple[int, ...]
    capture_is_array: tuple[bool, ...]
    outputs: tuple[int, ...]
    output_is_array: tuple[bool, ...]


@record(eq=False)
class Control:
    """A loop, while or branch: where its operands that are arrays lie, its results, a second home
    for each carried array that is not kept, and the plans of its bodies by name.

    `first`: which input of the body is the first carry; `stay`: the arrays that the body leaves
    where it finds them, which need no second home; `homes`: which of the body's buffers lie in
    which others then (see `jit/pipeline/loop_carried.py`).
    """

    eqn: Eqn
    operands: dict[Var, Place]
    results: list[Place]
    spares: list[Buffer | None]
    bodies: dict[str, Plan]
    first: int
    stay: frozenset[int] = frozenset()
    homes: Mapping[Buffer, Buffer] = field(default_factory=dict)


@record(eq=False)
class Plan:
    """By level, in the order in which they run: unrolled equations and guards, products, calls of
    routines, kernels, writes piece by piece (a kernel per piece; a Store of a tiny one). `rows`: of
    the products that are loops over rows, how (a `RowProduct`). `outputs`: the memory of each
    result; the strides of one whose numbers are in registers."""

    function: Function
    places: dict[Var, Place]
    definitions: dict[Var, Eqn]
    scalars: dict[int, list[Eqn | Guard]]
    products: dict[int, list[Eqn]]
    rows: dict[Var, Any]
    calls: dict[int, list[Call]]
    controls: dict[int, list[Control]]
    kernels: list[Kernel]
    writes: dict[int, list[Kernel | Store | Order | Lookup | Callback]]
    buffers: list[Buffer]
    copies: dict[Var, Place]
    outputs: list[Buffer | tuple[int, ...]]
    levels: int


def whole_place(buffer: Buffer, ready: int = 0, strides: MemoryOrder = None) -> Place:
    """All of a buffer, in C order or with these strides."""
    return Place("memory", ready, 0, None, buffer, strides or c_strides(buffer.type.shape))


def region(
    place: Place, index: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], Place]:
    """Shape and place of a canonical basic index (`ops/indexing/canonical.py`) into an array."""
    extents: list[int] = []
    strides: list[int] = []
    start, axis = place.start, 0
    for part in index:
        if part is None:
            extents.append(1)
            strides.append(0)
            continue
        first = part.start if isinstance(part, slice) else part
        start += first * place.strides[axis]
        if isinstance(part, slice):
            extents.append(len(range(*part.indices(shape[axis]))))
            strides.append(part.step * place.strides[axis])
        axis += 1
    return tuple(extents), Place("memory", 0, 0, None, place.buffer, tuple(strides), start)


def span(place: Place, shape: tuple[int, ...]) -> tuple[int, int]:
    """The first element of a strided place, and the end of the last."""
    if 0 in shape:
        return place.start, place.start
    reach = [(n - 1) * stride for n, stride in zip(shape, place.strides, strict=True)]
    low = place.start + sum(r for r in reach if r < 0)
    return low, place.start + sum(r for r in reach if r > 0) + 1


def address(place: Place, index: Iterable[Any], ndim: int, ready: int) -> Place | None:
    """A strided place for index formulas in the loop variables 0 .. ndim-1."""
    flat: Any = place.start
    for i, stride in zip(index, place.strides, strict=True):
        if isinstance(i, Opaque):
            return None
        flat = i * stride + flat
    terms = dict(flat.terms) if isinstance(flat, Affine) else {}
    start = flat.constant if isinstance(flat, Affine) else flat
    strides = tuple(terms.get(v, 0) for v in range(ndim))
    return Place("memory", ready, 0, None, place.buffer, strides, start)


def is_matrix(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether BLAS can read the last two axes (or the one) as they lie."""
    if len(shape) == 1:
        return strides[0] > 0
    rows, columns = strides[-2:]
    m, n = shape[-2:]
    return (columns == 1 and (rows >= n or m == 1)) or (rows == 1 and (columns >= m or n == 1))
