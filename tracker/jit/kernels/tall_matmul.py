"""Products of a tall matrix with a small one, as loops over the rows of the tall one.

BLAS packs its operands into blocks before it multiplies: for thousands of rows of a few numbers
each the packing takes longer than the product. Here a row stays in registers and is read in place:
a matrix that is put together of views (the windows of a convolution, `np.stack` of shifted slices)
is never stored.

    a (m, k) @ b (k, n)      each row of the result is a vector: the sum of the rows of b, scaled by
                             the numbers of a row of a
    a (k, m) @ b (m, n)      a sum over long columns: each row of b, scaled by each number of a's
                             column, is added to one of k vectors

A row of the small matrix is a vector; a number of the tall one is broadcast to another. The offset
of a number within its row is an i32 literal, which is never made a relocatable size, so that it
folds into the address of the load. Start at `plan_rows`.

Invariants: which products are done this way follows from types alone, so a view that only they read
need not be stored; sums of many rows are added up by blocks, as in BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.lowering import Contract, View
from tracker.ir.types import Type
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.runtime import thread_pool
from tracker.jit.scalar.values import memory_type
from tracker.jit.schedule.affine import AffineIndex, IndexEmitter, view_formulas
from tracker.jit.schedule.plan_data import Buffer, InMemory, Unrolled, affine_location
from tracker.jit.schedule.steps import LoopFunction, result_buffer
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_MIN_LONG = 2048  # rows; from here on a matrix is tall
_MAX_WIDTH = 16  # numbers of a vector; more than one register holds must be a power of two
_REGISTER = 64  # bytes
_MAX_TERMS = 64  # products of 32-byte vectors per row; more would leave the registers
_MAX_ASPECT = 8  # numbers of a row per number of a vector; beyond, BLAS vectorises along rows
_MIN_WORK = 1 << 17  # multiplications; fewer are not worth a loop of their own
_MIN_THREADED_WORK = 1 << 21  # multiplications; from here on threads share the rows
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_PARALLEL_SUMS = 4  # independent partial sums of one row
_MAX_ACCUMULATORS = 14  # 32-byte vectors of sums in registers
_ROWS_PER_BLOCK = 4096  # rows added up before they go to the total
PointerStrides = Mapping[str, tuple[int, ...]]


@record(frozen=True)
class RowProductForm:
    """How a product is computed by rows.

    long_operand: which operand is the tall one; long_axis: along which of its axes; sums_rows:
    whether rows are summed; transposed: whether the rows of the result are the numbers of a vector.
    """

    long_operand: int
    long_axis: int
    sums_rows: bool
    transposed: bool = False


@record(frozen=True)
class GatheredRows:
    """Where the rows of a tall matrix are: the first row in a buffer, the distance to the next row
    along each loop, and the offset of each number within its row."""

    buffer: Buffer
    start: int
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    ready: int


@record(eq=False)
class RowProduct:
    """A product as loops over `rows`; `partial_sums`: memory for the sums of each thread."""

    eqn: Eqn
    form: RowProductForm
    rows: tuple[int, ...]
    gather: GatheredRows
    small: Var
    threads: int
    partial_sums: Buffer | None

    @property
    def name(self) -> str:
        return "in loops over rows"

    def emit(self, driver: Driver) -> None:
        driver.call_loops(emit_row_product(driver, self))


def row_product_form(eqn: Eqn) -> RowProductForm | None:
    """How a product is computed by rows; None if it is not."""
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype not in _FLOATS:
        return None
    if not all(isinstance(o, Var) and o.type.ndim == 2 for o in eqn.operands):
        return None
    a, b = (o.type for o in eqn.operands)
    m, k, n = *a.shape, b.shape[1]
    if m * k * n < _MIN_WORK:
        return None
    if m >= _MIN_LONG and _is_short(k, n, a):
        return RowProductForm(0, 0, sums_rows=False)
    if k >= _MIN_LONG and _is_short(m, n, a):
        return RowProductForm(0, 1, sums_rows=True)
    if k >= _MIN_LONG and _is_short(n, m, a):
        return RowProductForm(1, 0, sums_rows=True, transposed=True)
    return None


def _is_short(count: int, width: int, type: Type) -> bool:
    """Whether the small matrix fits registers, as `count` vectors of `width` numbers."""
    size = width * type.dtype.itemsize
    fits_vector = size <= _REGISTER or width & (width - 1) == 0
    few = 1 < count <= min(_MAX_ASPECT * width, _MAX_TERMS // -(-size // 32))
    return 1 < width <= _MAX_WIDTH and fits_vector and few


def row_operands(function: Function) -> set[Var]:
    """Values that only products by rows read, directly or through views of one operand."""
    eqns = list(function.eqns)
    if not any(row_product_form(eqn) for eqn in eqns):
        return set()
    uses: dict[Var, list[Eqn | None]] = {}
    for step in function.body:
        user = step if isinstance(step, Eqn) else None
        for atom in (step.operand,) if isinstance(step, Guard) else step.operands:
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append(user)
    operands: set[Var] = set()
    outputs = set(function.outputs)
    for eqn in reversed(eqns):
        readers = uses.get(eqn.out, ())
        if eqn.out not in outputs and all(
            _is_row_operand(user, eqn.out, operands) for user in readers
        ):
            operands.add(eqn.out)
    return operands


def _is_row_operand(use: Eqn | None, var: Var, operands: set[Var]) -> bool:
    if use is None:
        return False
    if isinstance(use.op.lower, View):
        return len(use.operands) == 1 and use.out in operands
    form = row_product_form(use)
    return (
        form is not None
        and use.operands[form.long_operand] is var is not use.operands[1 - form.long_operand]
    )


def plan_rows(planner: Planner, eqn: Eqn) -> bool:
    """Plan a product by rows; False if it is not computed that way."""
    form = row_product_form(eqn)
    if form is None:
        return False
    long, small = eqn.operands[form.long_operand], eqn.operands[1 - form.long_operand]
    assert isinstance(long, Var) and isinstance(small, Var)
    rows = _rows(planner, long, form.long_axis)
    gather = _gather(planner, long, form.long_axis, rows)
    location = planner.stored(small)
    a, b = (o.type for o in eqn.operands)
    work = a.size * b.shape[1]
    threads = thread_pool.thread_count() if work >= _MIN_THREADED_WORK else 1
    if rows[0] < 2 * threads:
        threads = 1
    parts = None
    if form.sums_rows and threads > 1:
        parts = planner.buffer(Type((threads, eqn.out.type.size), eqn.out.type.dtype), "scratch")
    level = max(gather.ready, location.ready)
    planner.allocate(eqn.out, level + 1)
    product = RowProduct(
        eqn=eqn,
        form=form,
        rows=rows,
        gather=gather,
        small=small,
        threads=threads,
        partial_sums=parts,
    )
    planner.plan.products.setdefault(level, []).append(product)
    return True


def _rows(planner: Planner, var: Var, axis: int) -> tuple[int, ...]:
    """The loops over the rows of a matrix: one per axis of the array that it is a view of."""
    rows = (var.type.shape[axis],)
    while planner.locations[var].buffer is None:
        eqn = planner.plan.definitions[var]
        if not isinstance(eqn.op.lower, View) or len(eqn.operands) != 1:
            break
        (source,) = eqn.operands
        if not isinstance(source, Var) or source.type.size != var.type.size:
            break
        if source.type.ndim != 2:
            return _row_axes(source.type.shape, rows[0], axis) or rows
        source_axis = _source_axis(eqn, source, axis)
        if source_axis is None:
            break
        var, axis = source, source_axis
    return rows


def _source_axis(eqn: Eqn, source: Var, axis: int) -> int | None:
    """The long axis of the operand of a view whose own long axis is `axis`."""
    shape = eqn.out.type.shape
    found = _source(eqn, (AffineIndex(((0, 1),)), AffineIndex(((1, 1),))), shape)
    for at, i in enumerate(() if found is None else found[1]):
        if i == AffineIndex(((axis, 1),)) and source.type.shape[at] == shape[axis]:
            return at
    return None


def _row_axes(shape: tuple[int, ...], count: int, axis: int) -> tuple[int, ...] | None:
    """The leading (or trailing) axes that together have `count` elements."""
    for cut in range(1, len(shape)):
        part = shape[:cut] if axis == 0 else shape[cut:]
        if math.prod(part) == count:
            return part
    return None


def _gather(planner: Planner, var: Var, axis: int, rows: tuple[int, ...]) -> GatheredRows:
    """Where each number of a row is. Values whose elements have no affine address are stored."""
    flat = IndexEmitter().flatten([AffineIndex(((i, 1),)) for i in range(len(rows))], rows)
    while True:
        found = [
            _place(planner, var, (flat, p) if axis == 0 else (p, flat), rows)
            for p in range(var.type.shape[1 - axis])
        ]
        stored = next((f for f in found if isinstance(f, Var)), None)
        locations = [f for f in found if not isinstance(f, Var)]
        if stored is None and len({(f.buffer, f.strides) for f in locations}) > 1:
            stored = var
        if stored is None:
            first = locations[0]
            offsets = tuple(f.start - first.start for f in locations)
            ready = max(f.ready for f in locations)
            return GatheredRows(first.buffer, first.start, first.strides, offsets, ready)
        planner.store(stored)


def _place(
    planner: Planner, var: Var, index: tuple[Any, ...], rows: tuple[int, ...]
) -> InMemory | Var:
    """The location of an element in each row; or the value that must be stored first."""
    while True:
        location = planner.locations[var]
        if location.buffer is not None:
            return affine_location(location, index, len(rows)) or var
        eqn = planner.plan.definitions[var]
        found = _source(eqn, index, rows) if isinstance(eqn.op.lower, View) else None
        if found is None:
            return var
        operand, index = found
        if not isinstance(operand, Var):
            return var
        var = operand


def _source(
    eqn: Eqn, index: tuple[Any, ...], extents: Iterable[int]
) -> tuple[Atom, tuple[Any, ...]] | None:
    """(operand, index) that an element of a view reads; None where that needs code."""
    alternatives = view_formulas(eqn, index, extents)
    if alternatives is None:
        return None
    for which, source, inside in alternatives if isinstance(alternatives, list) else [alternatives]:
        if inside is None or inside is True:
            return eqn.operands[which], tuple(source)
        if inside is not False:
            return None
    return None


def row_strides(rows: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """The distance to the next row along each loop, for consecutive rows."""
    return tuple(stride * step for step in c_strides(rows))


def emit_row_product(driver: Driver, product: RowProduct) -> LoopFunction:
    """The loops of a product, and the arguments of the call."""
    out = driver.pointer(result_buffer(driver, product.eqn))
    target = out if product.partial_sums is None else driver.pointer(product.partial_sums)
    pointer, strides = _short_operand(driver, product)
    gather = product.gather
    arguments = [f"ptr {driver.address(gather.buffer, gather.start)}", f"ptr {pointer}"]
    writer = _RowProductWriter(product, strides)
    text = writer.text()
    driver.needs.intrinsics |= writer.c.declared
    arguments.append(f"ptr {target}")
    join = None
    if product.partial_sums is not None:
        dtype, size = product.eqn.out.type.dtype, product.eqn.out.type.size
        sums = sums_of_threads(memory_type(dtype), size, product.threads)
        join = sums, [f"ptr {target}", f"ptr {out}"]
    return LoopFunction(text, arguments, product.threads, join)


def sums_of_threads(kind: str, size: int, threads: int) -> str:
    """A function that adds up as many sums of each thread."""
    c = FunctionWriter("KERNEL", ["ptr noalias %x", "ptr noalias %z"], attributes="")
    with c.loop(0, size) as i:
        total = ""
        for thread in range(threads):
            part = c.load("%x", c.add(i, thread * size), kind)
            total = c.let(f"fadd {kind} {total}, {part}") if total else part
        c.store(total, "%z", i, kind)
    c.ret()
    return c.text().removeprefix("define internal ")


def _short_operand(driver: Driver, product: RowProduct) -> tuple[str, tuple[int, ...]]:
    """The address and the strides (row, number) of the small matrix."""
    location, shape = driver.location(product.small), product.small.type.shape
    if isinstance(location, Unrolled):
        pointer, strides = driver.spill(product.small), c_strides(shape)
    else:
        assert location.buffer is not None
        pointer, strides = driver.address(location.buffer, location.start), location.strides
    return pointer, strides[::-1] if product.form.transposed else strides


class _RowProductWriter:
    """Emits a product's function: %x is the tall operand, %y the small one, %z the result."""

    def __init__(self, product: RowProduct, strides: tuple[int, ...]) -> None:
        self.rows, self.gather, self.form = product.rows, product.gather, product.form
        self.threads = product.threads
        self.down, self.across = strides
        dtype = product.eqn.out.type.dtype
        self.kind, self.align = memory_type(dtype), f"align {dtype.itemsize}"
        self.count = len(product.gather.offsets)
        self.width = product.eqn.out.type.size // (
            self.count if self.form.sums_rows else math.prod(product.rows)
        )
        self.vector = f"<{self.width} x {self.kind}>"
        self.lanes = -(-self.width * dtype.itemsize // 32)
        self.c = FunctionWriter("KERNEL", [], attributes="")
        self.c.element_type = self.kind

    def text(self) -> str:
        if self.form.sums_rows:
            self._sums()
        else:
            self._products()
        parameters = ["ptr noalias %x", "ptr noalias %y", "ptr noalias %z"]
        self.c.parameters, n = parameters, self.rows[0]
        self.c.ret()
        if self.threads == 1:
            return self.c.text().removeprefix("define internal ")
        self.c.parameters = [*parameters, *thread_pool.PART_PARAMETERS]
        task = thread_pool.task_text(parameters, n, -(-n // self.threads))
        return f"{task}\n{self.c.text()}"

    # The two forms

    def _products(self) -> None:
        """z[r] = sum over p of x[r, p] y[p]."""
        factors = self._packed()
        strides = row_strides(self.rows, self.width)
        first, last = ("%lo", "%hi") if self.threads > 1 else ("0", str(self.rows[0]))
        with self._nest(first, last, {"%x": self.gather.strides, "%z": strides}) as (x, z):
            sums: list[str] = []
            for p, factor in enumerate(factors):
                number, at = self._spread(x, p), p % _PARALLEL_SUMS
                if len(sums) < _PARALLEL_SUMS:
                    sums.append(self.c.let(f"fmul {self.vector} {number}, {factor}"))
                else:
                    sums[at] = self.c.multiply_add(number, factor, sums[at], self.vector)
            while len(sums) > 1:
                sums = [*sums[2:], self._add(sums[0], sums[1])]
            self._store(sums[0], z)

    def _sums(self) -> None:
        """z[p] = sum over r of x[r, p] y[r], added up by blocks of rows."""
        c, n = self.c, self.width
        c.cells.append(f"  %total = alloca [{self.count * n} x {self.kind}], align 64")
        with c.loop(0, self.count * n) as i:
            c.store("0.0", "%total", i)
        first, last = ("%lo", "%hi") if self.threads > 1 else ("0", str(self.rows[0]))
        step = max(1, _ROWS_PER_BLOCK * self.rows[0] // math.prod(self.rows))
        with self._blocks(first, last, step) as (low, high):
            per_pass = max(2, _MAX_ACCUMULATORS // self.lanes)
            parts = -(-self.count // per_pass)
            for part in range(parts):
                chosen = range(part * self.count // parts, (part + 1) * self.count // parts)
                self._summed(chosen, low, high)
        start = "%z"
        if self.threads > 1:
            start = c.address("%z", c.mul("%tid", self.count * n))
        down, across = (1, self.count) if self.form.transposed else (n, 1)
        with (
            c.loop(0, self.count) as p,
            c.loop(0, n) as j,
        ):
            number = c.load("%total", c.add(c.mul(p, n), j))
            c.store(number, start, c.add(c.mul(p, down), c.mul(j, across)))

    def _summed(self, chosen: range, low: str, high: str) -> None:
        """Add the sums over a block of rows to the totals, for some of the numbers of each row."""
        c = self.c
        cells = [c.variable("zeroinitializer", self.vector) for _ in chosen]
        strides = row_strides(self.rows, self.down)
        with self._nest(low, high, {"%x": self.gather.strides, "%y": strides}) as (x, y):
            row = self._row(y)
            for p, cell in zip(chosen, cells, strict=True):
                before = c.get(cell, self.vector)
                term = c.multiply_add(self._spread(x, p), row, before, self.vector)
                c.set(cell, term, self.vector)
        for p, cell in zip(chosen, cells, strict=True):
            total = self._fixed("%total", p * self.width)
            before = c.let(f"load {self.vector}, ptr {total}, {self.align}")
            self._store(self._add(before, c.get(cell, self.vector)), total)

    # Rows

    def _packed(self) -> list[str]:
        """The rows of the small matrix, as vectors."""
        c, n = self.c, self.width
        c.cells.append(f"  %pack = alloca [{self.count * n} x {self.kind}], align 64")
        with (
            c.loop(0, self.count) as p,
            c.loop(0, n) as j,
        ):
            number = c.load("%y", c.add(c.mul(p, self.down), c.mul(j, self.across)))
            c.store(number, "%pack", c.add(c.mul(p, n), j))
        return [
            c.let(f"load {self.vector}, ptr {self._fixed('%pack', p * n)}, {self.align}")
            for p in range(self.count)
        ]

    def _row(self, y: str) -> str:
        """A row as a vector; its numbers may not be adjacent in memory."""
        if self.across == 1:
            return self.c.let(f"load {self.vector}, ptr {y}, {self.align}")
        places = [self._fixed(y, j * self.across) for j in range(self.width)]
        return self.c.vector_of(self.kind, list(map(self.c.load, places)))

    def _spread(self, x: str, p: int) -> str:
        """Number p of a row of the tall matrix, in every lane."""
        number = self.c.load(self._fixed(x, self.gather.offsets[p]))
        return self.c.splat(self.width, self.kind, number)

    # Loops

    @contextmanager
    def _nest(self, first: str, last: str, moving: PointerStrides) -> Iterator[tuple[str, ...]]:
        """The loops over all rows, the outermost from first to last; yields the addresses of a row.
        `moving`: pointers, and their step along each loop."""
        c = self.c
        names = list(moving)
        with ExitStack() as loops:
            for depth, extent in enumerate(self.rows):
                ends = (first, last) if depth == 0 else ("0", str(extent))
                i = loops.enter_context(c.loop(*ends))
                for at, strides in enumerate(moving.values()):
                    names[at] = c.address(names[at], c.mul(i, strides[depth]))
            yield tuple(names)

    @contextmanager
    def _blocks(self, first: str, last: str, step: int) -> Iterator[tuple[str, str]]:
        """A loop over blocks of `step` iterations of the outermost loop; yields their bounds."""
        c = self.c
        count = c.sub(last, first)
        blocks = c.let(f"sdiv i64 {c.add(count, step - 1)}, {step}")
        with c.loop(0, blocks) as block:
            low = c.add(first, c.mul(block, step))
            high = c.add(low, step)
            yield low, c.select(c.compare("slt", high, last), high, last)

    # Numbers

    def _add(self, a: str, b: str) -> str:
        return self.c.let(f"fadd {self.vector} {a}, {b}")

    def _fixed(self, pointer: str, offset: int) -> str:
        """The address of an element at a literal offset."""
        size = "i32" if abs(offset) < 1 << 31 else "i64"
        return self.c.let(f"getelementptr {self.kind}, ptr {pointer}, {size} {offset}")

    def _store(self, value: str, pointer: str) -> None:
        self.c.lines.append(f"  store {self.vector} {value}, ptr {pointer}, {self.align}")
