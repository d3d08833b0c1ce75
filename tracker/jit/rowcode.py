"""The loops of products over long rows (see `rows.py`) as text.

Owns: `write_rows`, which gives a function, the arguments of its call, and whether threads share it,
as `loops.py` does for kernels.

A row of the short matrix is a vector; a number of the long one is spread over another. The distance
of a number from its row's start stays in the text (an i32, which is never lifted out as a size), so
that it is a part of the load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tracker.jit import parallel
from tracker.jit.dense.code import Code
from tracker.jit.emit import OUTER_LOOP
from tracker.jit.multiply import operations
from tracker.jit.rows import RowProduct, row_strides
from tracker.jit.scalars import memory_type
from tracker.jit.strides import c_strides
from tracker.records import record

_CHAINS = 4  # sums of one row that go on side by side
_KEPT = 14  # vectors of 32 bytes of sums that are kept in registers
_BLOCK = 4096  # rows that are summed before the sum is added to the total
_NOTE = f", !llvm.loop {OUTER_LOOP}"

Moving = Mapping[str, tuple[int, ...]]


@record(frozen=True)
class RowLoops:
    """A function named @KERNEL, the arguments of its call, how many threads share it, how long it
    takes; `join`: the function that adds up what they have summed, and its arguments."""

    text: str
    arguments: list[str]
    threads: int
    work: int
    join: tuple[str, list[str]] | None


def write_rows(driver: Any, product: RowProduct) -> RowLoops:
    """The loops of a product, and what they are called with."""
    out = driver.pointer(driver.plan.places[product.eqn.out].buffer)
    target = out if product.parts is None else driver.pointer(product.parts)
    pointer, strides = _short(driver, product)
    gather = product.gather
    arguments = [f"ptr {driver.address(gather.buffer, gather.start)}", f"ptr {pointer}"]
    writer = _Writer(product, strides)
    text = writer.text()
    arguments.append(f"ptr {target}")
    join = None
    if product.parts is not None:
        join = _joined(product), [f"ptr {target}", f"ptr {out}"]
    return RowLoops(text, arguments, product.threads, operations(product.eqn), join)


def _joined(product: RowProduct) -> str:
    """A function that adds up what threads have summed."""
    kind, size = memory_type(product.eqn.out.type.dtype), product.eqn.out.type.size
    c = Code("KERNEL", [])
    with c.plain_loop(0, size) as i:
        total = ""
        for thread in range(product.threads):
            at = c.let(f"getelementptr {kind}, ptr %x, i64 {c.add(i, thread * size)}")
            part = c.let(f"load {kind}, ptr {at}")
            total = c.let(f"fadd contract {kind} {total}, {part}") if total else part
        to = c.let(f"getelementptr {kind}, ptr %z, i64 {i}")
        c.lines.append(f"  store {kind} {total}, ptr {to}")
    head = "void @KERNEL(ptr noalias %x, ptr noalias %z) {"
    return "\n".join([head, "  br label %start", "start:", *c.lines, "  ret void", "}"])


def _short(driver: Any, product: RowProduct) -> tuple[str, tuple[int, ...]]:
    """Where the operand is of which rows are vectors, and its strides: (row, number)."""
    place, shape = driver.place(product.other), product.other.type.shape
    if place.kind == "tiny":
        pointer, strides = driver.spill(product.other), c_strides(shape)
    else:
        pointer, strides = driver.address(place.buffer, place.start), place.strides
    return pointer, strides[::-1] if product.form.turned else strides


class _Writer:
    """Writes the function of one product: x is the long operand, y the other, z the result."""

    def __init__(self, product: RowProduct, strides: tuple[int, ...]) -> None:
        self.rows, self.gather, self.form = product.rows, product.gather, product.form
        self.threads = product.threads
        self.down, self.across = strides
        dtype = product.eqn.out.type.dtype
        self.kind, self.align = memory_type(dtype), f"align {dtype.itemsize}"
        self.count = len(product.gather.offsets)
        self.width = product.eqn.out.type.size // (
            self.count if self.form.sums else math.prod(product.rows)
        )
        self.vector = f"<{self.width} x {self.kind}>"
        self.lanes = -(-self.width * dtype.itemsize // 32)
        self.c = Code("KERNEL", [])

    def text(self) -> str:
        if self.form.sums:
            self._sums()
        else:
            self._products()
        parameters = ["ptr noalias %x", "ptr noalias %y", "ptr noalias %z"]
        task = ""
        if self.threads > 1:
            n = self.rows[0]
            task = parallel.task_text(parameters, n, -(-n // self.threads)) + "\ndefine internal "
            parameters += ["ptr %partials", "i64 %lo", "i64 %hi", "i64 %tid"]
        head = f"{task}void @KERNEL({', '.join(parameters)}) {{"
        body = [*self.c.cells, "  br label %start", "start:", *self.c.lines, "  ret void", "}"]
        return "\n".join([head, *body])

    # The two kinds

    def _products(self) -> None:
        """z[r] = sum over p of x[r, p] y[p]."""
        factors = self._packed()
        strides = row_strides(self.rows, self.width)
        first, last = ("%lo", "%hi") if self.threads > 1 else ("0", str(self.rows[0]))
        with self._nest(first, last, {"%x": self.gather.strides, "%z": strides}) as (x, z):
            sums: list[str] = []
            for p, factor in enumerate(factors):
                term = self.c.let(f"fmul contract {self.vector} {self._spread(x, p)}, {factor}")
                if len(sums) < _CHAINS:
                    sums.append(term)
                else:
                    sums[p % _CHAINS] = self._add(sums[p % _CHAINS], term)
            while len(sums) > 1:
                sums = [*sums[2:], self._add(sums[0], sums[1])]
            self._store(sums[0], z)

    def _sums(self) -> None:
        """z[p] = sum over r of x[r, p] y[r], by blocks of rows."""
        c, n = self.c, self.width
        c.cells.append(f"  %total = alloca [{self.count * n} x {self.kind}], align 64")
        with c.plain_loop(0, self.count * n, _NOTE) as i:
            c.lines.append(f"  store {self.kind} 0.0, ptr {self._at('%total', i)}")
        first, last = ("%lo", "%hi") if self.threads > 1 else ("0", str(self.rows[0]))
        step = max(1, _BLOCK * self.rows[0] // math.prod(self.rows))
        with self._blocks(first, last, step) as (low, high):
            kept = max(2, _KEPT // self.lanes)
            parts = -(-self.count // kept)
            for part in range(parts):
                chosen = range(part * self.count // parts, (part + 1) * self.count // parts)
                self._summed(chosen, low, high)
        start = "%z"
        if self.threads > 1:
            start = self._at("%z", c.mul("%tid", str(self.count * n)))
        down, across = (1, self.count) if self.form.turned else (n, 1)
        with c.plain_loop(0, self.count, _NOTE) as p, c.plain_loop(0, n, _NOTE) as j:
            number = self._load(self._at("%total", c.add(c.mul(p, str(n)), j)))
            to = c.add(c.mul(p, str(down)), c.mul(j, str(across)))
            c.lines.append(f"  store {self.kind} {number}, ptr {self._at(start, to)}")

    def _summed(self, chosen: range, low: str, high: str) -> None:
        """Add the sums over a block of rows, for some of the numbers of each, to the totals."""
        c = self.c
        cells = [c.cell("zeroinitializer", self.vector) for _ in chosen]
        strides = row_strides(self.rows, self.down)
        with self._nest(low, high, {"%x": self.gather.strides, "%y": strides}) as (x, y):
            row = self._row(y)
            for p, cell in zip(chosen, cells, strict=True):
                term = c.let(f"fmul contract {self.vector} {self._spread(x, p)}, {row}")
                c.set(cell, self._add(c.get(cell, self.vector), term), self.vector)
        for p, cell in zip(chosen, cells, strict=True):
            total = self._fixed("%total", p * self.width)
            before = c.let(f"load {self.vector}, ptr {total}, {self.align}")
            self._store(self._add(before, c.get(cell, self.vector)), total)

    # Rows

    def _packed(self) -> list[str]:
        """The rows of the short matrix, as vectors."""
        c, n = self.c, self.width
        c.cells.append(f"  %pack = alloca [{self.count * n} x {self.kind}], align 64")
        with c.plain_loop(0, self.count, _NOTE) as p, c.plain_loop(0, n, _NOTE) as j:
            at = c.add(c.mul(p, str(self.down)), c.mul(j, str(self.across)))
            to = self._at("%pack", c.add(c.mul(p, str(n)), j))
            c.lines.append(f"  store {self.kind} {self._load(self._at('%y', at))}, ptr {to}")
        return [
            c.let(f"load {self.vector}, ptr {self._fixed('%pack', p * n)}, {self.align}")
            for p in range(self.count)
        ]

    def _row(self, y: str) -> str:
        """A row as a vector, from memory in which it may not lie side by side."""
        if self.across == 1:
            return self.c.let(f"load {self.vector}, ptr {y}, {self.align}")
        made = "poison"
        for j in range(self.width):
            number = self._load(self._fixed(y, j * self.across))
            made = self.c.let(f"insertelement {self.vector} {made}, {self.kind} {number}, i32 {j}")
        return made

    def _spread(self, x: str, p: int) -> str:
        """Number p of a row of the long matrix, in every lane."""
        number = self._load(self._fixed(x, self.gather.offsets[p]))
        one = self.c.let(f"insertelement {self.vector} poison, {self.kind} {number}, i32 0")
        mask = f"<{self.width} x i32> zeroinitializer"
        return self.c.let(f"shufflevector {self.vector} {one}, {self.vector} poison, {mask}")

    # Loops

    @contextmanager
    def _nest(self, first: str, last: str, moving: Moving) -> Iterator[tuple[str, ...]]:
        """The loops over all rows, the outermost from first to last; gives the addresses of a row.
        `moving`: pointers, and how far they go at each step of each loop."""
        c = self.c
        names = list(moving)
        with ExitStack() as loops:
            for depth, extent in enumerate(self.rows):
                ends = (first, last) if depth == 0 else ("0", str(extent))
                i = loops.enter_context(c.plain_loop(*ends, _NOTE))
                for at, strides in enumerate(moving.values()):
                    names[at] = self._at(names[at], c.mul(i, str(strides[depth])))
            yield tuple(names)

    @contextmanager
    def _blocks(self, first: str, last: str, step: int) -> Iterator[tuple[str, str]]:
        """A loop over blocks of so many steps of the outermost; gives their first and last."""
        c = self.c
        count = c.sub(last, first)
        blocks = c.let(f"sdiv i64 {c.add(count, str(step - 1))}, {step}")
        with c.plain_loop(0, blocks, _NOTE) as block:
            low = c.add(first, c.mul(block, str(step)))
            high = c.add(low, str(step))
            yield low, c.either(c.test("slt", high, last), high, last)

    # Numbers

    def _add(self, a: str, b: str) -> str:
        return self.c.let(f"fadd contract {self.vector} {a}, {b}")

    def _at(self, pointer: str, index: str) -> str:
        return self.c.let(f"getelementptr {self.kind}, ptr {pointer}, i64 {index}")

    def _fixed(self, pointer: str, offset: int) -> str:
        """An element at a distance that is part of the text."""
        size = "i32" if abs(offset) < 1 << 31 else "i64"
        return self.c.let(f"getelementptr {self.kind}, ptr {pointer}, {size} {offset}")

    def _load(self, pointer: str) -> str:
        return self.c.let(f"load {self.kind}, ptr {pointer}")

    def _store(self, value: str, pointer: str) -> None:
        self.c.lines.append(f"  store {self.vector} {value}, ptr {pointer}, {self.align}")
