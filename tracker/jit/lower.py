"""From a plan to LLVM IR: the driver `@plan(ptr %slots)` and one function per kernel.

Owns: `lower`. The driver is straight-line code: unrolled values, guards, products, and calls of
kernels, level by level. Start at `_Driver.run`; loops are written in `loops.py`.

Invariants: a driver value, once computed, dominates everything after it (guards only branch away);
scratch is laid out after the code is written, when it is known from when to when each buffer lives.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Guard, Var
from tracker.ir.op import Contract, Iota, Map, Reduce, Scan, View
from tracker.ir.types import Type
from tracker.jit import memory, rare
from tracker.jit.borrowed import Loop
from tracker.jit.complexes import Emitter
from tracker.jit.elements import chosen, position
from tracker.jit.emit import (
    Complex,
    Names,
    Needs,
    Scalar,
    literal,
    memory_type,
    module_text,
    part_of,
)
from tracker.jit.engine import ONCE, OPTIMISED
from tracker.jit.index import Tools
from tracker.jit.layout import Buffer, Fits, Kernel, Place, Plan, Slots, Store
from tracker.jit.loops import Shared, work_of, write_kernel
from tracker.jit.modules import Loops, Work, apart, busy, merge
from tracker.jit.scratch import lay_out
from tracker.jit.sharing import KernelText, redirected, share
from tracker.jit.strides import c_strides
from tracker.records import record

_LONG = 400  # lines of driver; beyond, it is compiled apart from the loops, without loop passes
_ON_STACK = 4096  # bytes of scratch that go on the stack
_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_OFFSET = re.compile(r"<(\d+)>")  # stands for a scratch buffer's offset until it is known


@record(frozen=True)
class Lowered:
    """The text of the driver, and the level at which to compile it; kernels where these are modules
    of their own.

    `symbols` are the external names (of BLAS) that are needed; `borrowed` the inner loops of
    ufuncs; `scratch` is in bytes.
    """

    text: str
    level: int
    loops: tuple[Loops, ...]
    symbols: frozenset[str]
    borrowed: frozenset[Loop]
    scratch: int


def lower(plan: Plan, slots: Slots) -> Lowered:
    """The module that computes a plan."""
    return _Driver(plan, slots).run()


class _Driver:
    """Writes one function; `parent` writes the function that calls it, in the same module."""

    def __init__(self, plan: Plan, slots: Slots, parent: _Driver | None = None) -> None:
        self.plan = plan
        self.slots = slots
        self.lines: list[str] = []
        self.needs: Needs = parent.needs if parent else Needs()
        self.symbols: set[str] = parent.symbols if parent else set()
        self.kernels: dict[str, KernelText] = parent.kernels if parent else {}
        self.bodies: list[str] = parent.bodies if parent else []
        self.work: dict[str, Work] = defaultdict(Work)  # of each kernel
        self.elsewhere = 0  # operations of what is not a kernel
        self.e = Emitter(self.lines, Names(), self.needs, straight=True)
        self.tools = Tools(write=self.e.write)
        self.known: dict[Var, list[Scalar | None]] = {}
        self.pointers: dict[Buffer, str] = {}
        self.spilled: dict[Var, str] = {}
        self.spills: list[str] = []
        self.life: dict[Buffer, tuple[int, int]] = {}
        self.level = 0
        self.has_guards = False
        self.pending: Scalar | None = None  # what must hold, and is still to be checked

    def run(self) -> Lowered:
        self._write_levels()
        driver, scratch = self._function("@plan(ptr noalias %slots)")
        return self._modules(driver, scratch)

    def nested(self, plan: Plan, slots: Slots) -> tuple[str, int, bool]:
        """Write a body as a function of its own: its symbol, its scratch in bytes, and whether it
        can fail. The caller hands it the scratch."""
        child = _Driver(plan, slots, self)
        child._write_levels()
        symbol = f"@body{len(self.bodies)}"
        text, scratch = child._function(f"{symbol}(ptr noalias %slots, ptr %scratch)", owns=False)
        self.bodies.append(text)
        return symbol, scratch, child.has_guards

    def _write_levels(self) -> None:
        kernels: dict[int, list[Any]] = {}
        for kernel in self.plan.kernels:
            kernels.setdefault(kernel.level, []).append(kernel)
        for level in range(self.plan.levels):
            self.level = level
            for step in self.plan.scalars.get(self.level, ()):
                if isinstance(step, Guard):
                    self.guard(step)
                elif isinstance(step, Fits):
                    self.fits(step)
                else:
                    self.unrolled(step)
            self.settle()
            for eqn in self.plan.products.get(self.level, ()):
                rare.write_product(self, eqn)
            for call in self.plan.calls.get(self.level, ()):
                rare.write_call(self, call)
            for control in self.plan.controls.get(self.level, ()):
                rare.write_control(self, control)
            for kernel in kernels.get(self.level, ()):
                self.kernel(kernel)
            for write in self.plan.writes.get(self.level, ()):
                if isinstance(write, Store):
                    self.assign(write)
                elif isinstance(write, Kernel):
                    self.kernel(write)
                else:
                    write.write(self)
        self.outputs()

    def _function(self, header: str, owns: bool = True) -> tuple[str, int]:
        """The text of the function, and how many bytes of scratch it needs."""
        scratch, places = self._layout()
        head = [f"define internal i64 {header} {{", *self.spills]
        body = [*(self._scratch_lines(scratch) if owns else ()), *self.lines]
        free = self._freeing(scratch) if owns else []
        tail = [*free, "  ret i64 0"]
        if self.has_guards:
            tail += ["fail:", *free, "  ret i64 1"]
        driver = "\n".join([*head, *body, *tail, "}"])
        offsets = {str(buffer.number): str(offset) for buffer, offset in places.items()}
        return _OFFSET.sub(lambda m: offsets[m[1]], driver), scratch

    def _modules(self, driver: str, scratch: int) -> Lowered:
        """One module; several, where the driver is long, or not all is worth optimising."""
        symbols, borrowed = frozenset(self.symbols), frozenset(self.needs.borrowed)
        written, moved = share(list(self.kernels.values()))
        merge(self.work, {name: to for name, (to, _) in moved.items()})
        chosen = None if self.bodies else busy(self.work, self.elsewhere)
        loops: tuple[Loops, ...] = ()
        if chosen is not None or len(self.lines) > _LONG:
            loops = apart(written, chosen, self.needs)
            written = []
        texts = [f"define internal {kernel.text}" for kernel in written]
        texts += [redirected(text, moved) for text in (*self.bodies, driver)]
        level = OPTIMISED if chosen is None else ONCE
        return Lowered(module_text(texts, self.needs), level, loops, symbols, borrowed, scratch)

    # Values in registers

    def element(self, var: Var, position: int) -> Scalar:
        """One element of a tiny value, by its position in C order."""
        cells = self.known.get(var)
        if cells is None:
            cells = self.known[var] = [None] * max(var.type.size, 1)
        cell = cells[position]
        if cell is None:
            cell = cells[position] = self._fetch(var, position)
        return cell

    def _fetch(self, var: Var, position: int) -> Scalar:
        """Load an element of a tiny input, or of a small result of a kernel."""
        place = self.plan.places[var]
        buffer = place.buffer
        assert buffer is not None, var
        if buffer.role in ("input", "capture") and not self._is_array(buffer):
            return self._slot_number(buffer)
        index = place.start
        rest = position
        for extent, stride in zip(reversed(var.type.shape), reversed(place.strides), strict=True):
            rest, i = divmod(rest, extent)
            index += i * stride
        pointer = self.pointer(buffer)
        return self.e.load(self.e.address(pointer, var.type.dtype, str(index)), var.type.dtype)

    def _fetch_at(self, var: Var, index: Sequence[Any]) -> Scalar:
        """Load an element whose index is known when the code runs."""
        place, dtype = self.plan.places[var], var.type.dtype
        if place.kind == "tiny":
            if var.type.size == 1:
                return self.element(var, 0)
            pointer, flat = self.spill(var), self.tools.flatten(index, var.type.shape)
        else:
            assert place.buffer is not None, var
            pointer, flat = self.pointer(place.buffer), place.start
            for i, stride in zip(index, place.strides, strict=True):
                flat = i * stride + flat
        return self.e.load(self.e.address(pointer, dtype, self.tools.name(flat)), dtype)

    def _is_array(self, buffer: Buffer) -> bool:
        if buffer.role == "input":
            return self.slots.input_is_array[buffer.slot]
        return self.slots.capture_is_array[buffer.slot]

    def _slot_number(self, buffer: Buffer) -> Scalar:
        """A number that is in the frame itself."""
        group = self.slots.inputs if buffer.role == "input" else self.slots.captures
        dtype = buffer.type.dtype
        pointer = self._slot_pointer(group[buffer.slot])
        if dtype.kind == "c":  # each part has a slot
            second = self.e.write(f"getelementptr i64, ptr {pointer}, i64 1")
            part = part_of(dtype)
            return Complex(self.e.load(pointer, part), self.e.load(second, part))
        if dtype.kind == "f":
            return self.e.load(pointer, dtype)
        wide = self.e.load(pointer, _INT64)
        return self.e.cast(wide, dtype)

    def _slot_pointer(self, slot: int) -> str:
        return self.e.write(f"getelementptr i64, ptr %slots, i64 {slot}") if slot else "%slots"

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer."""
        first, _ = self.life.get(buffer, (self.level, self.level))
        self.life[buffer] = (first, self.level)
        if buffer.role == "scratch":  # taken afresh at each use: a register held long is dear
            return self.e.write(f"getelementptr i8, ptr %scratch, i64 <{buffer.number}>")
        if buffer.role == "table":
            return self.needs.table(buffer.values, buffer.type.dtype)
        known = self.pointers.get(buffer)
        if known is None:
            group = {
                "input": self.slots.inputs,
                "capture": self.slots.captures,
                "output": self.slots.outputs,
            }[buffer.role]
            cell = self._slot_pointer(group[buffer.slot])
            known = self.pointers[buffer] = self.e.write(f"load ptr, ptr {cell}")
        return known

    def address(self, buffer: Buffer, at: int) -> str:
        """The address of an element, which may be outside (where a formula's zero would be)."""
        pointer = self.pointer(buffer)
        if not at:
            return pointer
        kind = memory_type(buffer.type.dtype)
        return self.e.write(f"getelementptr {kind}, ptr {pointer}, i64 {at}")

    def spill(self, var: Var) -> str:
        """A tiny value in memory, for loops that index it."""
        place = self.plan.places[var]
        if (
            place.buffer is not None
            and (place.buffer.role in ("scratch", "output") or self._is_array(place.buffer))
            and place.start == 0
            and place.strides == c_strides(var.type.shape)
        ):
            return self.pointer(place.buffer)
        known = self.spilled.get(var)
        if known is None:
            text = memory_type(var.type.dtype)
            known = self.spilled[var] = f"%spill{len(self.spilled)}"
            self.spills.append(f"  {known} = alloca [{var.type.size} x {text}], align 16")
            for i in range(var.type.size):
                pointer = self.e.address(known, var.type.dtype, str(i))
                self.e.store(self.element(var, i), pointer)
        return known

    def readable(self, atom: Atom) -> str:
        """The address of all of a value, in C order (`in_order` of the plan): what is in registers,
        or a literal, is put into memory first."""
        if isinstance(atom, Const):
            cell = f"%literal{len(self.spills)}"
            self.spills.append(f"  {cell} = alloca {memory_type(atom.type.dtype)}")
            self.e.store(self.atom(atom, 0), cell)
            return cell
        if self.plan.places[atom].kind == "tiny":
            return self.spill(atom)
        buffer = self.place(atom).buffer
        assert buffer is not None
        return self.pointer(buffer)

    # Steps

    def atom(self, atom: Atom, position: int) -> Scalar:
        if isinstance(atom, Const):
            return literal(atom.value, atom.type.dtype)
        return self.element(atom, position)

    def guard(self, guard: Guard) -> None:
        self.require(holding(self.e, self.atom(guard.operand, 0), guard))

    def fits(self, check: Fits) -> None:
        x, limits = self.element(check.number, 0), np.iinfo(check.dtype)
        for relation, limit in ((">=", limits.min), ("<=", min(limits.max, 2**63 - 1))):
            self.require(self.e.compare(relation, x, literal(limit, x.dtype)))

    def unrolled(self, eqn: Eqn) -> None:
        lower_ = eqn.op.lower
        if isinstance(lower_, Map):
            self.known[eqn.out] = self._map(eqn, lower_)
        elif isinstance(lower_, View):
            self.known[eqn.out] = [
                self.view(eqn, lower_, index) for index in np.ndindex(*eqn.out.type.shape)
            ]
        elif isinstance(lower_, Reduce):
            self.known[eqn.out] = self._reduce(eqn, lower_)
        elif isinstance(lower_, Scan):
            self.known[eqn.out] = self._scan(eqn, lower_)
        elif isinstance(lower_, Iota):
            axis, dtype = eqn.params["axis"], eqn.out.type.dtype
            self.known[eqn.out] = [
                literal(index[axis], dtype) for index in np.ndindex(*eqn.out.type.shape)
            ]
        else:
            assert isinstance(lower_, Contract)
            self.known[eqn.out] = self._contract(eqn)

    def _map(self, eqn: Eqn, lower_: Map) -> list[Scalar | None]:
        shape = eqn.out.type.shape
        dtypes = lower_.dtypes(*(o.type for o in eqn.operands))
        maps = [_positions(o.type.shape, shape) for o in eqn.operands]
        out: list[Scalar | None] = []
        for i in range(eqn.out.type.size):
            xs = [
                self.e.cast(self.atom(o, m[i]), dtype)
                for o, m, dtype in zip(eqn.operands, maps, dtypes, strict=True)
            ]
            y = lower_.body(self.e, *xs, **eqn.params)
            if eqn.out.type.weak:
                self._python(eqn, lower_, xs, y)
            out.append(self.e.cast(y, eqn.out.type.dtype))
        return out

    def _python(self, eqn: Eqn, lower_: Map, xs: list[Scalar], y: Scalar) -> None:
        """Python's numbers: fall back where Python raises, or an int outgrows 64 bits."""
        if lower_.defined is not None:
            self.require_later(lower_.defined(self.e, y, *xs))
        if eqn.out.type.dtype.kind == "i" and "f" in lower_.kinds:
            wide = [self.e.cast(x, _FLOAT64) for x in xs]
            size = self.e.abs(lower_.body(self.e, *wide, **eqn.params))
            self.require_later(self.e.compare("<", size, literal(2.0**62, _FLOAT64)))

    def require(self, holds: Scalar) -> None:
        """Abandon the call unless the condition holds."""
        self.require_later(holds)
        self.settle()

    def require_later(self, holds: Scalar) -> None:
        """The same, but not at once: long arithmetic stays one block. (A select, for what a
        condition looks at may be undefined where one before it does not hold.)"""
        if self.pending is not None:
            both = f"select i1 {self.pending.name}, i1 {holds.name}, i1 false"
            holds = Scalar(self.e.write(both), holds.dtype)
        self.pending = holds

    def settle(self) -> None:
        """Check what is to hold by now: before anything that takes long, or writes."""
        holds, self.pending = self.pending, None
        if holds is None:
            return
        self.has_guards = True
        label = f"ok{self.e.names.fresh()[1:]}"
        self.lines.append(f"  br i1 {holds.name}, label %{label}, label %fail")
        self.lines.append(f"{label}:")

    def view(self, eqn: Eqn, lower_: View, index: tuple[Any, ...]) -> Scalar:
        """One element of a view."""

        def read(which: int, at: Sequence[Any]) -> str:
            return self.e.cast(self.at(eqn.operands[which], at), _INT64).name

        types = [o.type for o in eqn.operands]
        found = self.tools.reading(
            read, lambda: lower_.source(self.tools, index, *types, **eqn.params)
        )
        return chosen(self.e, found, eqn, self.at, self.e.cast)

    def at(self, atom: Atom, index: Sequence[Any]) -> Scalar:
        """One element of any value."""
        if isinstance(atom, Const):
            return literal(atom.value, atom.type.dtype)
        place = self.plan.places[atom]
        if place.kind == "tiny" or (place.stored and place.ready <= self.level):
            if not all(isinstance(i, int) for i in index):
                return self._fetch_at(atom, index)
            flat = _flat(index, atom.type.shape)
            return self.element(atom, flat) if place.kind == "tiny" else self._fetch(atom, flat)
        return self.expression(atom, tuple(index))

    def expression(self, var: Var, index: tuple[Any, ...]) -> Scalar:
        """One element of a cheap expression over big arrays."""
        eqn = self.plan.definitions[var]
        if isinstance(eqn.op.lower, View):
            return self.view(eqn, eqn.op.lower, index)
        lower_ = eqn.op.lower
        if isinstance(lower_, Iota):
            return position(self.tools, index[eqn.params["axis"]], eqn.out.type.dtype)
        assert isinstance(lower_, Map)
        dtypes = lower_.dtypes(*(o.type for o in eqn.operands))
        xs = [
            self.e.cast(self.at(o, broadcast_index(index, o.type)), dtype)
            for o, dtype in zip(eqn.operands, dtypes, strict=True)
        ]
        return self.e.cast(lower_.body(self.e, *xs, **eqn.params), eqn.out.type.dtype)

    def _reduce(self, eqn: Eqn, lower_: Reduce) -> list[Scalar | None]:
        x = eqn.operands[0]
        dtype = eqn.out.type.dtype
        axis = eqn.params["axis"]
        groups = _groups(x.type.shape, axis)
        out: list[Scalar | None] = []
        for group in groups:
            acc: Scalar | None = None
            for at in group:
                item = self.e.cast(self.atom(x, at), dtype)
                acc = item if acc is None else lower_.combine(self.e, acc, item)
            if acc is None:
                acc = literal(lower_.identity(dtype), dtype)
            out.append(acc if lower_.finish is None else lower_.finish(self.e, acc, len(group)))
        return out

    def _scan(self, eqn: Eqn, lower_: Scan) -> list[Scalar | None]:
        (x,), dtype, axis = eqn.operands, eqn.out.type.dtype, eqn.params["axis"]
        step = c_strides(eqn.out.type.shape)[axis]
        out: list[Any] = []
        for at, index in enumerate(np.ndindex(*eqn.out.type.shape)):
            item = self.e.cast(self.atom(x, at), dtype)
            out.append(lower_.combine(self.e, out[at - step], item) if index[axis] else item)
        return out

    def _contract(self, eqn: Eqn) -> list[Scalar | None]:
        a, b = eqn.operands
        dtype = eqn.out.type.dtype
        out: list[Scalar | None] = []
        for pairs in _product_positions(a.type, b.type):
            acc: Scalar | None = None
            for i, j in pairs:
                term = self.e.mul(
                    self.e.cast(self.atom(a, i), dtype), self.e.cast(self.atom(b, j), dtype)
                )
                acc = term if acc is None else self.e.add(acc, term)
            out.append(acc or literal(0, dtype))
        return out

    def kernel(self, kernel: Any) -> None:
        """Call a loop nest."""
        text, arguments, shared = write_kernel(self, kernel)
        name = self._function_of(text, arguments, shared is not None)
        self.work[name].add(math.prod(kernel.space), work_of(self.plan, kernel))
        if shared is None:
            self.lines.append(f"  call void {name}({', '.join(arguments)})")
        else:
            self._share(name, arguments, shared)

    def run_rows(self, loops: Any) -> None:
        """Call the loops of a product."""
        name = self._function_of(loops.text, loops.arguments, loops.threads > 1)
        self.work[name].add(0, loops.work)  # vectors as they are: there is nothing to optimise
        if loops.threads == 1:
            self.lines.append(f"  call void {name}({', '.join(loops.arguments)})")
            return
        self._share(name, loops.arguments, Shared(loops.threads, []))
        if loops.join is not None:
            text, arguments = loops.join
            name = self._function_of(text, arguments, shared=False)
            self.work[name].add(len(arguments), 0)
            self.lines.append(f"  call void {name}({', '.join(arguments)})")

    def _function_of(self, text: str, arguments: list[str], shared: bool) -> str:
        """The name by which a function is called: equal texts are one."""
        known = self.kernels.get(text)
        if known is None:
            name = f"@k{len(self.kernels)}"
            types = ", ".join(argument.split()[0] for argument in arguments)
            called, types = (f"{name}.task", "ptr, i64") if shared else (name, types)
            known = self.kernels[text] = KernelText(
                called, text.replace("@KERNEL", name), f"declare void {called}({types})"
            )
        return known.name

    def _share(self, task: str, arguments: list[str], shared: Shared) -> None:
        """Let threads run the parts of a loop, and join what they folded."""
        frame, partials = f"%frame{len(self.spills)}", f"%partials{len(self.spills)}"
        self.spills.append(f"  {frame} = alloca [{len(arguments) + 1} x i64], align 16")
        count = max([(fold.at + 1) * shared.threads for fold in shared.folds], default=1)
        self.spills.append(f"  {partials} = alloca [{count} x i64], align 16")
        for at, argument in enumerate([*arguments, f"ptr {partials}"]):
            cell = self.e.write(f"getelementptr i64, ptr {frame}, i64 {at}")
            self.lines.append(f"  store {argument}, ptr {cell}")
        self.symbols.add("tk.parallel")
        self.needs.intrinsics.add("declare void @tk.parallel(ptr, ptr, i64)")
        self.lines.append(
            f"  call void @tk.parallel(ptr {task}, ptr {frame}, i64 {shared.threads})"
        )
        for fold in shared.folds:
            parts = [
                self.e.load(
                    self.e.write(
                        f"getelementptr i64, ptr {partials}, i64 {fold.at * shared.threads + tid}"
                    ),
                    fold.summed,
                )
                for tid in range(shared.threads)
            ]
            place = self.plan.places[fold.eqn.out]
            assert place.buffer is not None
            self.e.store(fold.join(self.e, parts), self.address(place.buffer, place.start))

    def assign(self, store: Store) -> None:
        """Write one element."""
        assert store.value is not None and store.place.buffer is not None
        buffer = store.place.buffer
        dtype, where = buffer.type.dtype, self.address(buffer, store.place.start)
        x = self.e.cast(self.atom(store.value, 0), dtype)
        self.e.store(self.e.add(self.e.load(where, dtype), x) if store.adds else x, where)

    def outputs(self) -> None:
        """Write the tiny results; the others were computed in place."""
        for number, (atom, strides) in enumerate(
            zip(self.plan.function.outputs, self.plan.outputs, strict=True)
        ):
            if isinstance(strides, Buffer):
                continue
            cell = self._slot_pointer(self.slots.outputs[number])
            dtype = atom.type.dtype
            if not self.slots.output_is_array[number]:
                self.store_number(self.atom(atom, 0), cell)
                continue
            pointer = self.e.write(f"load ptr, ptr {cell}")
            for i, index in enumerate(np.ndindex(*atom.type.shape)):
                to = sum(map(operator.mul, index, strides))
                self.e.store(self.atom(atom, i), self.e.address(pointer, dtype, str(to)))

    def store_number(self, x: Scalar, cell: str) -> None:
        if isinstance(x, Complex):
            self.e.store(x.re, cell)
            self.e.store(x.im, self.e.write(f"getelementptr i64, ptr {cell}, i64 1"))
            return
        if x.dtype.kind == "f":
            self.e.store(x, cell)
            return
        self.e.store(self.e.cast(x, _INT64), cell)

    # Scratch

    def _layout(self) -> tuple[int, dict[Buffer, int]]:
        return lay_out(
            {
                buffer: (first, last, buffer.type.nbytes)
                for buffer, (first, last) in self.life.items()
                if buffer.role == "scratch"
            }
        )

    def _scratch_lines(self, size: int) -> list[str]:
        if not size:
            return []
        if size <= _ON_STACK:  # as much for every size: another shape gives the same text
            return [f"  %scratch = alloca i8, i64 {_ON_STACK}, align 64"]
        if size < memory.LEAST:
            self.needs.intrinsics.add("declare noalias ptr @malloc(i64)")
            return [f"  %scratch = call ptr @malloc(i64 {size})"]
        self.symbols |= set(memory.NAMES)
        self.needs.intrinsics.add("declare noalias ptr @tk.take(i64)")
        return [f"  %scratch = call ptr @tk.take(i64 {size})"]

    def _freeing(self, size: int) -> list[str]:
        if size <= _ON_STACK:
            return []
        if size < memory.LEAST:
            self.needs.intrinsics.add("declare void @free(ptr)")
            return ["  call void @free(ptr %scratch)"]
        self.needs.intrinsics.add("declare void @tk.give(ptr, i64)")
        return [f"  call void @tk.give(ptr %scratch, i64 {size})"]

    def place(self, var: Var) -> Place:
        """Where a value can be read at this level: in its copy, once that is made."""
        copy = self.plan.copies.get(var)
        return copy if copy is not None and copy.ready <= self.level else self.plan.places[var]


def holding(e: Emitter, x: Scalar, guard: Guard) -> Scalar:
    """Whether a guard holds, as an i1."""
    if guard.kind == "bool":
        truth = e.truth(x)
        return truth if guard.expected else e.invert(truth)
    if x.dtype.kind == "f" and guard.kind != "hash":
        rounding = {"int": "trunc", "floor": "floor", "ceil": "ceil", "round": "roundeven"}
        x = e.intrinsic(rounding[guard.kind], x)
    return e.compare("==", x, literal(guard.expected, x.dtype))


def broadcast_index(index: Sequence[Any], type: Type) -> tuple[Any, ...]:
    """The index into an operand that is broadcast to where `index` points."""
    lead = len(index) - type.ndim
    return tuple(0 if n == 1 else index[lead + i] for i, n in enumerate(type.shape))


def _flat(index: Sequence[int], shape: tuple[int, ...]) -> int:
    flat = 0
    for i, extent in zip(index, shape, strict=True):
        flat = flat * extent + i
    return flat


@functools.lru_cache(maxsize=4096)
def _positions(shape: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
    """For each element of the target shape, the position of its element in an operand."""
    if not shape:
        return [0] * int(np.prod(target))
    found: list[int] = (
        np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), target).ravel().tolist()
    )
    return found


@functools.lru_cache(maxsize=4096)
def _groups(shape: tuple[int, ...], axis: tuple[int, ...]) -> list[list[int]]:
    """The positions that each result of a reduction folds."""
    kept = [i for i in range(len(shape)) if i not in axis]
    count = int(np.prod([shape[i] for i in kept]))
    positions = np.arange(int(np.prod(shape))).reshape(shape).transpose([*kept, *axis])
    found: list[list[int]] = positions.reshape(count, -1 if positions.size else 0).tolist()
    return found


def _product_positions(a: Type, b: Type) -> list[list[tuple[int, int]]]:
    """For each element of a @ b, the positions whose products it sums."""
    left = np.arange(a.size).reshape(a.shape if a.ndim > 1 else (1, *a.shape))
    right = np.arange(b.size).reshape(b.shape if b.ndim > 1 else (*b.shape, 1))
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    whole = (*batch, left.shape[-2], right.shape[-1], left.shape[-1])
    rows = np.broadcast_to(left[..., :, None, :], whole)
    columns = np.broadcast_to(np.swapaxes(right, -1, -2)[..., None, :, :], whole)
    flat = (math.prod(whole[:-1]), whole[-1])
    return [
        list(zip(r, c, strict=True))
        for r, c in zip(rows.reshape(flat).tolist(), columns.reshape(flat).tolist(), strict=True)
    ]
