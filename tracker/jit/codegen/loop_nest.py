"""Kernels as text: a loop nest over an iteration space, with stores and reductions.

A kernel's function takes pointers into the buffers that it accesses and the scalars that it uses
(`kernel_text`). Reductions are in `reductions.py`, the code inside of all loops in `loop_body.py`,
loop order in `loop_order.py`.

A view such as a padded slice may depend on the part of a loop's range: then the loop is split there
(`SplitLoop`), and each part is emitted with the answer known, so loops contain no branches.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ir.graph import Var
from tracker.jit.codegen import scatter_stores
from tracker.jit.codegen.loop_body import LoopBody, LoopIndex
from tracker.jit.codegen.loop_order import (
    Strides,
    Tile,
    access_strides,
    best_order,
    can_collapse,
    can_tile,
    choose_tile,
)
from tracker.jit.codegen.reductions import Accumulator, block_of_sums
from tracker.jit.codegen.registers import Registers
from tracker.jit.llvm.text_writer import loop_lines
from tracker.jit.runtime import thread_pool
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import (
    ComplexValue,
    ScalarValue,
    SsaNames,
    literal,
    llvm_type,
    memory_type,
)
from tracker.jit.schedule.affine import AffineIndex, IndexEmitter, SplitAtNumber, SplitLoop
from tracker.jit.schedule.buffer_coalescing import (
    BufferAccess,
    can_write_in_place,
    coalescing_candidates,
)
from tracker.jit.schedule.plan_data import Buffer, Expression, Kernel, Location, Plan, memory_of
from tracker.support.structs import field, record

_POINTER_REACH = 32  # elements; beyond this distance, another pointer is used
_MIN_THREADED_WORK = 2_000_000  # operations; from here on threads share a loop
_RARELY_FAR = 2.0**30  # an argument that hardly ever occurs
_MAX_INLINED_FAR = 2  # general functions that the loop for large arguments inlines
_INT64 = np.dtype(np.int64)
_MAX_PARTS = 24  # parts of split loops; beyond, conditions are computed in the loop
_MIN_PARTS, _MAX_COPIED_LINES = 3, 12_000  # parts that any loop may have; lines of all parts


@record(frozen=True)
class ThreadedKernel:
    """A kernel that threads share: their number, and the reductions that the caller combines."""

    threads: int
    accumulators: list[Accumulator]


@record()
class LoopLayout:
    """How the loops of a kernel are nested: their order from the outermost to the innermost, the
    tile that the innermost two run over at a time, where ranges are split (`numbers`: at a number
    that is known when the code runs, plus an offset), the number of threads; `may_reorder`: whether
    order and tile are still to be decided."""

    order: tuple[int, ...]
    cuts: dict[int, set[int]]
    threads: int
    may_reorder: bool
    tile: Tile | None = None
    numbers: dict[int, tuple[Var, int]] = field(default_factory=dict)

    def split(self, split: SplitLoop) -> None:
        if isinstance(split, SplitAtNumber):
            self.numbers[split.variable] = split.number, split.by
            return
        self.cuts.setdefault(split.variable, set()).update(split.points)


def kernel_text(
    driver: Registers, kernel: Kernel
) -> tuple[str, list[str], ThreadedKernel | None] | None:
    """The function of a kernel (named @KERNEL; the text after `define`), and the arguments of its
    call; None if it leaves everything as it is.

    Functions that have a fast version for small arguments are first emitted with it; if an argument
    turns out to be large, the kernel runs again, as @KERNEL.far, with the general version. A long
    loop is shared by threads: then the function is @KERNEL.task, which runs one thread's part.
    """
    is_long = kernel_work(driver.plan, kernel) >= _MIN_THREADED_WORK
    layout = LoopLayout(
        order=tuple(range(len(kernel.space))),
        cuts=scatter_stores.initial_cuts(kernel),
        threads=thread_pool.thread_count() if is_long else 1,
        may_reorder=len(kernel.space) > 1 and all(store.eqn is None for store in kernel.stores),
    )
    text, writer = _write_versions(driver, kernel, layout)
    if not writer.effects and not writer.accumulators:
        return None
    if writer.threads == 1:
        return text, writer.arguments, None
    accumulators = [each for each in writer.accumulators if each.joined]
    shared = ThreadedKernel(writer.threads, accumulators)
    return f"{writer.task_text()}\ndefine internal {text}", writer.arguments, shared


def _write_versions(
    driver: Registers, kernel: Kernel, layout: LoopLayout
) -> tuple[str, KernelWriter]:
    """The text of a kernel, with a general version where it has a fast one."""
    while True:
        try:
            text, writer = _write_in_order(driver, kernel, layout)
            if not writer.e.near_limits:
                driver.candidates += coalescing_candidates(
                    kernel, driver.step, writer.bodies, driver.carried
                )
                return text, writer
            is_repeatable = writer.is_repeatable()
            is_rare = is_repeatable and writer.is_far_rare()
            general = KernelWriter(driver, kernel, layout, near=False, is_rare=is_rare)
            general_text = general.text()
        except SplitLoop as split:
            layout.split(split)
            continue
        if not is_repeatable:  # the kernel overwrites its operands
            return general_text, general
        return f"{text}\ndefine internal {general_text.replace('@KERNEL', '@KERNEL.far')}", writer


def _write_in_order(
    driver: Registers, kernel: Kernel, layout: LoopLayout
) -> tuple[str, KernelWriter]:
    """The fast version of a kernel. The first attempt records accesses, which decide the layout."""
    writer = KernelWriter(driver, kernel, layout)
    text = writer.text()
    if layout.may_reorder:
        layout.may_reorder = False
        order, tile = writer.preferred_order(layout.threads > 1)
        if (order, tile) != (layout.order, layout.tile):
            layout.order, layout.tile = order, tile
            return _write_in_order(driver, kernel, layout)
    if writer.threads > 1 and not writer.is_parallel():
        layout.threads = 1  # a part would read what another writes
        return _write_in_order(driver, kernel, layout)
    return text, writer


class KernelWriter:
    """One attempt to emit a kernel with a layout of its loops. `near`: with functions that are fast
    for small arguments; `is_rare`: whether this version hardly ever runs."""

    def __init__(
        self,
        driver: Registers,
        kernel: Kernel,
        layout: LoopLayout,
        near: bool = True,
        is_rare: bool = False,
    ) -> None:
        self.driver = driver
        self.plan = driver.plan
        self.kernel = kernel
        self.members = {eqn.out for eqn in kernel.members}
        self.lines: list[str] = []
        self.head: list[str] = []
        self.e = Emitter(
            self.lines, SsaNames(), driver.needs, far_flag="%far" if near else "", is_rare=is_rare
        )
        self.bodies: list[BufferAccess] = []
        self.written = {self.shared_buffer(memory_of(store.location)) for store in kernel.stores}
        self.overwritten = self.written.intersection(driver.coalesced.values())
        self.parameters: list[str] = []
        self.arguments: list[str] = []
        self.spill_names: dict[Any, str] = {}
        self.numbers: dict[tuple[Var, int], ScalarValue] = {}
        self.pointers: dict[Any, list[tuple[int, str]]] = {}
        self.flat = can_collapse(driver.plan, kernel)
        self.space = (math.prod(kernel.space),) if self.flat else kernel.space
        self.order = (0,) if self.flat else layout.order
        self.accesses: list[Strides] = []
        self.writes: list[Strides] = []
        self.parts = [_split_range(n, layout.cuts.get(v, set())) for v, n in enumerate(self.space)]
        max_parts = min(_MAX_PARTS, max(_MIN_PARTS, _MAX_COPIED_LINES // max(kernel.lines, 1)))
        self.may_split = math.prod(map(len, self.parts)) <= max_parts
        self.numbers_split_at = layout.numbers
        self.are_before: dict[int, bool] = {}  # the part of a split loop that is emitted
        self.effects = 0  # stores, and what is added up
        self.counters: dict[int, str] = {}
        self.fused: list[tuple[Kernel, list[Accumulator]]] = []
        self.accumulators = [Accumulator(self, eqn, at) for at, eqn in enumerate(kernel.reductions)]
        self.own_accumulators = tuple(self.accumulators)
        may_tile = not kernel.fused and can_tile(layout.order, self.accumulators)
        self.tile = layout.tile if may_tile else None
        self.columns: tuple[int, int] | None = None  # the part of the columns that is tiled
        self.strip: tuple[str, str] | None = None  # the columns of the current strip
        extents = [self.space[v] for v in self.order]
        if self.tile is not None:
            extents[-2:] = self.tile.rows or extents[-2], self.tile.columns
        self.block = block_of_sums(extents)
        for each in kernel.fused:
            accumulators = [
                Accumulator(self, eqn, at)
                for at, eqn in enumerate(each.reductions, len(self.accumulators))
            ]
            self.fused.append((each, accumulators))
            self.accumulators += accumulators
        whole = all(
            f.in_register and not (f.joined and f.dtype.kind == "c") for f in self.accumulators
        )
        alone = any(store.eqn is not None for store in kernel.stores)  # in order, on one thread
        self.threads = layout.threads if self.space and whole and not alone else 1

    def is_repeatable(self) -> bool:
        """Whether the kernel writes only what it does not read."""
        read = {buffer for access in self.bodies for buffer in access.read}
        return not self._accumulates() and read.isdisjoint(self.written)

    def is_parallel(self) -> bool:
        """Whether no part of the loop reads what another writes."""
        return not self._accumulates() and all(
            can_write_in_place(self.bodies, buffer, buffer) for buffer in self.written
        )

    def _accumulates(self) -> bool:
        return any(map(scatter_stores.accumulates, self.kernel.stores))

    def is_far_rare(self) -> bool:
        """Whether the general functions hardly ever run, or are many: then they are called, not
        inlined, or they would take most of the compile time."""
        return min(self.e.near_limits) > _RARELY_FAR or len(self.e.near_limits) > _MAX_INLINED_FAR

    def task_text(self) -> str:
        """What a thread runs: it loads the arguments and the range of its part from a frame."""
        n = self.space[self.order[0]]
        part = -(-n // self.threads)
        if len(self.space) == 1:
            part = (part + 63) // 64 * 64  # threads rarely share a cache line then
        return thread_pool.task_text(self.parameters, n, part)

    def text(self) -> str:
        for accumulator in self.accumulators:
            accumulator.declare()
        self.lines.append("  br label %start")
        self.lines.append("start:")
        for accumulator in self.accumulators:
            accumulator.start_memory()
        self.emit_loops(0, {}, (None,) * len(self.space))
        for accumulator in self.accumulators:
            accumulator.end_memory()
        parameters = list(self.parameters)
        if self.threads > 1:
            parameters += thread_pool.PART_PARAMETERS
        signature = ", ".join(parameters)
        if self.e.near_limits:
            arguments = ", ".join(map(thread_pool.without_attributes, parameters))
            self.head += ["  %far = alloca i8", "  store i8 0, ptr %far"]
            self.lines += [
                "  %was.far = load i8, ptr %far",
                "  %again = trunc i8 %was.far to i1",
                "  br i1 %again, label %repeat, label %done",
                "repeat:",
                f"  call void @KERNEL.far({arguments})",
                "  br label %done",
                "done:",
            ]
        self.lines.append("  ret void")
        return "\n".join([f"void @KERNEL({signature}) {{", *self.head, *self.lines, "}"])

    # Parameters

    def shared_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer whose memory a buffer shares."""
        return self.driver.coalesced.get(buffer, buffer)

    def pointer(self, buffer: Buffer, at: int) -> tuple[str, int]:
        """A parameter that points near element `at` of a buffer, and the distance from there. (Not
        to the first element: so loops over equal slices of an array have equal text.) A buffer that
        is read where it is written has one pointer: parameters are `noalias`."""
        shared = self.shared_buffer(buffer)
        known = self.pointers.setdefault(shared, [])
        for start, name in known:
            if abs(at - start) < _POINTER_REACH or shared in self.overwritten:
                return name, at - start
        name = self._parameter("ptr noalias", f"ptr {self.driver.address(buffer, at)}")
        known.append((at, name))
        return name, 0

    def spilled(self, var: Var) -> str:
        name = self.spill_names.get((var, "spilled"))
        if name is None:
            name = self._parameter("ptr", f"ptr {self.driver.spill(var)}")
            self.spill_names[var, "spilled"] = name
        return name

    def number(self, var: Var, position: int) -> ScalarValue:
        """An element of an unrolled value, as a parameter."""
        dtype = var.type.dtype
        known = self.numbers.get((var, position))
        if known is None:
            x = self.driver.element(var, position)
            if x.value is not None:
                return literal(x.value, dtype)
            if isinstance(x, ComplexValue):
                known = ComplexValue(self._passed(x.re), self._passed(x.im))
            else:
                known = self._passed(x)
            self.numbers[var, position] = known
        return known

    def _passed(self, x: ScalarValue) -> ScalarValue:
        return ScalarValue(self._parameter(llvm_type(x.dtype), str(x)), x.dtype)

    def _parameter(self, text: str, argument: str) -> str:
        name = f"%p{len(self.parameters)}"
        self.parameters.append(f"{text} {name}")
        self.arguments.append(argument)
        return name

    # Loops

    def emit_loops(self, depth: int, ranges: dict[int, tuple[int, int]], index: LoopIndex) -> None:
        """Emit the loops from this depth on; `index` has the variables of the outer ones."""
        if depth == len(self.space):
            LoopBody(self, ranges, index).emit()
            return
        v = self.order[depth]
        for accumulator in self.accumulators:
            accumulator.start(depth)
        is_inner = depth == len(self.space) - 1
        for first, last in [self.columns] if is_inner and self.columns else self.parts[v]:
            if self.threads > 1 and depth == 0:
                self._thread_part(first, last)
            elif last - first == 1:
                self.emit_loops(depth + 1, ranges, _replace_axis(index, v, first))
            elif last > first:
                self._counted_loop(depth, first, last, ranges, index, (str(first), str(last)))
        for accumulator in self.accumulators:
            accumulator.end(depth, index)

    def _thread_part(self, first: int, last: int) -> None:
        """The part of a loop's range that this thread runs."""
        e, tag = self.e, self.e.names.fresh()[1:]
        begins = e.write(f"icmp ugt i64 %lo, {first}")
        low = e.write(f"select i1 {begins}, i64 %lo, i64 {first}")
        ends = e.write(f"icmp ult i64 %hi, {last}")
        high = e.write(f"select i1 {ends}, i64 %hi, i64 {last}")
        some = e.write(f"icmp ult i64 {low}, {high}")
        self.lines.append(f"  br i1 {some}, label %mine{tag}, label %past{tag}")
        self.lines.append(f"mine{tag}:")
        index: LoopIndex = (None,) * len(self.space)
        if last - first == 1:
            self.emit_loops(1, {}, _replace_axis(index, self.order[0], first))
        else:
            self._counted_loop(0, first, last, {}, index, (low, high))
        self.lines.append(f"  br label %past{tag}")
        self.lines.append(f"past{tag}:")

    def _counted_loop(
        self,
        depth: int,
        first: int,
        last: int,
        ranges: dict[int, tuple[int, int]],
        index: LoopIndex,
        bounds: tuple[str, str],
    ) -> None:
        """A loop over first .. last, with these SSA names (or literals) as bounds."""
        v, is_inner = self.order[depth], depth == len(self.space) - 1
        bounds = self.strip if is_inner and self.strip else bounds

        def body(counter: str) -> None:
            self.counters[v] = counter
            inner = _replace_axis(index, v, AffineIndex(((v, 1),)))
            self.emit_loops(depth + 1, {**ranges, v: (first, last)}, inner)

        def emit(bounds: tuple[str, str]) -> None:
            """A loop that is not empty, all in one."""
            loop: Callable[[str, str], None] = functools.partial(self.loop_over, step=1, body=body)
            at, steps = self.block
            if depth == at and steps and any(each.blocked for each in self.accumulators):
                loop = functools.partial(self._blocked_loop, loop, steps)
            if self.tile is not None and depth == len(self.space) - 2:
                self._tiled_loop(loop, self.tile, *bounds)
            else:
                loop(*bounds)

        if v in self.numbers_split_at:
            self._split_loop(v, *bounds, emit)
        else:
            emit(bounds)

    def is_before(self, i: Any, number: Var) -> bool | None:
        """Whether an index is before a number in the part of a split loop that is emitted; None if
        the loop cannot be split there."""
        if not isinstance(i, AffineIndex) or len(i.terms) > 1 or i.terms[0][1] != 1:
            return None
        v = i.terms[0][0]
        if v not in self.numbers_split_at:
            raise SplitAtNumber(v, number, -i.constant)
        is_there = self.numbers_split_at[v] == (number, -i.constant)
        return self.are_before[v] if is_there else None

    def _split_loop(
        self, v: int, first: str, last: str, emit: Callable[[tuple[str, str]], None]
    ) -> None:
        """A loop up to the number where it is split, and one from there. A part that stores nothing
        and adds nothing is left out."""
        e, (number, by) = self.e, self.numbers_split_at[v]
        at = e.write(f"add i64 {e.cast(self.number(number, 0), _INT64).name}, {by}")
        is_low = e.write(f"icmp slt i64 {at}, {first}")
        at = e.write(f"select i1 {is_low}, i64 {first}, i64 {at}")
        is_high = e.write(f"icmp sgt i64 {at}, {last}")
        at = e.write(f"select i1 {is_high}, i64 {last}, i64 {at}")
        for is_before, low, high in ((True, first, at), (False, at, last)):
            lines, bodies, effects = len(self.lines), len(self.bodies), self.effects
            self.are_before[v] = is_before
            some, tag = e.write(f"icmp slt i64 {low}, {high}"), e.names.fresh()[1:]
            self.lines.append(f"  br i1 {some}, label %some{tag}, label %none{tag}")
            self.lines.append(f"some{tag}:")
            emit((low, high))
            self.lines.append(f"  br label %none{tag}")
            self.lines.append(f"none{tag}:")
            if self.effects == effects:
                del self.lines[lines:], self.bodies[bodies:]
        del self.are_before[v]

    def _blocked_loop(
        self, loop: Callable[[str, str], None], steps: int, first: str, last: str
    ) -> None:
        """The loop, for one block of sums after the other."""

        def block(start: str) -> None:
            loop(start, self._end(start, steps, last))
            for accumulator in self.accumulators:
                accumulator.end_block()

        self.loop_over(first, last, steps, block)

    def _tiled_loop(
        self, loop: Callable[[str, str], None], tile: Tile, first: str, last: str
    ) -> None:
        """The loop over rows, for one tile after the other."""

        def strips(first: str, last: str) -> None:
            for low, high in self.parts[self.order[-1]]:
                self.columns = low, high

                def strip(start: str, end: int = high) -> None:
                    self.strip = start, self._end(start, tile.columns, str(end))
                    loop(first, last)
                    self.strip = None

                if high - low == 1:
                    loop(first, last)
                elif high > low:
                    self.loop_over(str(low), str(high), tile.columns, strip)
            self.columns = None

        def rows(start: str) -> None:
            assert tile.rows is not None
            strips(start, self._end(start, tile.rows, last))

        if tile.rows is None:
            strips(first, last)
        else:
            self.loop_over(first, last, tile.rows, rows)

    def _end(self, start: str, steps: int, last: str) -> str:
        """The end of a part of a range that ends at `last`."""
        end = self.e.write(f"add nuw nsw i64 {start}, {steps}")
        over = self.e.write(f"icmp ugt i64 {end}, {last}")
        return self.e.write(f"select i1 {over}, i64 {last}, i64 {end}")

    def loop_over(self, first: str, last: str, step: int, body: Callable[[str], None]) -> None:
        """A counted loop over a range that is not empty."""
        tag = self.e.names.fresh()[1:]
        head, end = loop_lines(tag, first, last, step, ("add nuw nsw", "ult"))
        self.lines += [f"  br label %pre{tag}", *head]
        body(f"%i{tag}")
        self.lines += end

    def source(self, location: Location, flat: Any, tools: IndexEmitter) -> str:
        """The address of an element to be read, given its position (a formula) in the location."""
        if self.shared_buffer(memory_of(location)) in self.overwritten:
            return self.target(location, flat, tools)
        self._accessed(self.accesses, flat)
        fixed = flat if isinstance(flat, int) else getattr(flat, "constant", 0)
        base, rest = self.pointer(memory_of(location), location.start + fixed)
        index, dtype = tools.name(flat + (rest - fixed)), memory_of(location).type.dtype
        if index != "0" and not 0 <= location.start + fixed - rest <= memory_of(location).type.size:
            return self.e.write(f"getelementptr {memory_type(dtype)}, ptr {base}, i64 {index}")
        return self.e.address(base, dtype, index)

    def target(self, location: Location, flat: Any, tools: IndexEmitter) -> str:
        """The address of an element to be written: always by one pointer, and the same name for the
        same element, or LLVM checks whether rows overlap, and does not vectorise if they do."""
        self._accessed(self.accesses, flat)
        self._accessed(self.writes, flat)
        base, rest = self.pointer(memory_of(location), location.start)
        dtype, index = memory_of(location).type.dtype, flat + rest
        return tools.once(
            (base, dtype, index), lambda: self.e.address(base, dtype, tools.name(index))
        )

    def _accessed(self, accesses: list[Strides], flat: Any) -> None:
        strides = access_strides(flat)
        if strides:
            accesses.append(strides)

    def preferred_order(self, shared: bool) -> tuple[tuple[int, ...], Tile | None]:
        """The best loop order for the recorded accesses, and the best tile."""
        if self.flat:
            return tuple(range(len(self.kernel.space))), None
        kept = [accumulator.kept for accumulator in self.accumulators]
        order = best_order(self.space, self.accesses, kept, shared)
        return order, choose_tile(self.space, self.accesses, self.writes, order)

    def tools(self, ranges: dict[int, tuple[int, int]]) -> IndexEmitter:
        return IndexEmitter(ranges, self.e.write, self.counters.__getitem__, self.may_split)


def _replace_axis(index: LoopIndex, v: int, i: Any) -> LoopIndex:
    return (*index[:v], i, *index[v + 1 :])


def kernel_work(plan: Plan, kernel: Kernel) -> int:
    """About how many operations a kernel takes, those of recomputed values included."""
    reductions = [eqn for operations in kernel.with_fused for eqn in operations.reductions]
    values = [s.value for s in kernel.stores] + [eqn.operands[0] for eqn in reductions]
    locations = [plan.locations[atom] for atom in values if isinstance(atom, Var)]
    others = [at for at in locations if isinstance(at, Expression) and at.kernel is not kernel]
    operations = max([kernel.work, *(at.cost for at in others)]) + len(reductions)
    return math.prod(kernel.space) * max(operations, 1)


def _split_range(extent: int, cuts: set[int]) -> list[tuple[int, int]]:
    """The range 0 .. extent, split at the points."""
    edges = sorted({0, extent, *(c for c in cuts if 0 < c < extent)})
    return list(itertools.pairwise(edges))
