"""Lowering: from a plan to LLVM IR, the driver `@plan(ptr %slots)` and a function for each kernel.

The driver is straight-line code: unrolled values and guards, and calls of kernels and other steps,
level by level. Start at `DriverWriter.emit`.

Invariants: a driver value, once computed, dominates everything after it (guards only branch away);
scratch is allocated after the code is written, when the lifetime of each buffer is known.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracker.config import current
from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Eqn, Guard
from tracker.jit.codegen.artifact import CALL_PATTERN, Bodies, KernelModule, LoweredProgram
from tracker.jit.codegen.kernel_modules import (
    KernelText,
    deduplicate,
    kernel_modules,
    redirect_calls,
    routine_modules,
)
from tracker.jit.codegen.loop_nest import ThreadedKernel, kernel_text
from tracker.jit.codegen.prologue import JournalCode, ScratchCode
from tracker.jit.codegen.stopwatch import CLOCK, OUTSIDE, Stopwatch, has_steps
from tracker.jit.codegen.stopwatch import DECLARATIONS as STOPWATCH_DECLARATIONS
from tracker.jit.codegen.unrolled import UnrolledCode
from tracker.jit.runtime import allocator, thread_pool
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ComplexValue, ModuleNeeds, ScalarValue
from tracker.jit.schedule.buffer_allocation import ScratchAddress, allocate_scratch
from tracker.jit.schedule.buffer_coalescing import Coalescing, coalesce_buffers
from tracker.jit.schedule.plan_data import (
    Buffer,
    ControlFlow,
    FrameSlots,
    Kernel,
    Plan,
    Store,
    memory_of,
)
from tracker.jit.schedule.shared_plans import is_known, is_shareable, keep_plan
from tracker.jit.schedule.steps import LoopFunction, Step
from tracker.support.structs import record, replace

_LONG_DRIVER = 400  # lines; a longer driver is a module of its own, without loop passes
_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_SCRATCH_REFERENCE = re.compile(r"<(\d+)>")  # a scratch buffer, until its address is known

_emit_control = lazy_import("tracker.jit.codegen.control_flow", "emit_control")


def lower(
    plan: Plan,
    slots: FrameSlots,
    bodies: Bodies = Bodies.INSIDE,
    stopwatch: Stopwatch | None = None,
) -> LoweredProgram:
    """The module that computes a plan; with a stopwatch, one that times its steps."""
    if stopwatch or current().perf or current().gdb:  # names of functions are of one program
        bodies = Bodies.INSIDE
    driver = DriverWriter(plan, slots, stopwatch=stopwatch, bodies=bodies)
    driver.emit()
    coalesced = coalesce_buffers(driver.candidates, driver.lifetimes, driver.carried)
    if coalesced:
        driver = DriverWriter(plan, slots, stopwatch=stopwatch, bodies=bodies)
        driver.coalesced = coalesced
        driver.emit()
    return driver.lowered()


def coalesced_in_body(plan: Plan, slots: FrameSlots, carried: Coalescing) -> Coalescing:
    """The buffers of a body that can share memory, if it may update carried arrays in place."""
    driver = DriverWriter(plan, slots)
    driver.carried = carried
    driver.emit()
    return coalesce_buffers(driver.candidates, driver.lifetimes, driver.carried)


@record(frozen=True)
class BodyFunction:
    """The function of a body: symbol, bytes of scratch, whether a guard in it can fail or it can
    raise."""

    symbol: str
    scratch: int
    can_fail: bool
    can_raise: bool


class DriverWriter(UnrolledCode):
    """Emits one function; `parent` emits the function that calls it, in the same module."""

    def __init__(
        self,
        plan: Plan,
        slots: FrameSlots,
        parent: DriverWriter | None = None,
        stopwatch: Stopwatch | None = None,
        bodies: Bodies = Bodies.INSIDE,
    ) -> None:
        super().__init__(plan, slots, parent.needs if parent else ModuleNeeds())
        self.where_bodies_are: Bodies = parent.where_bodies_are if parent else bodies
        self.stopwatch, self.owns_stopwatch = stopwatch, parent is None
        self.lapped_at = 0  # the number of lines at the last lap
        self.symbols: set[str] = parent.symbols if parent else set()
        self.kernels: dict[str, KernelText] = parent.kernels if parent else {}
        self.bodies: list[str] = parent.bodies if parent else []
        self.body_functions: dict[Any, BodyFunction] = parent.body_functions if parent else {}
        self.descriptions: dict[str, str] = parent.descriptions if parent else {}
        self.programs_of_bodies: dict[str, LoweredProgram] = (
            parent.programs_of_bodies if parent else {}
        )

    def lowered(self) -> LoweredProgram:
        """The module, once it is emitted."""
        if self.stopwatch is not None:
            self.needs.intrinsics |= STOPWATCH_DECLARATIONS
            self.bodies.append(self.stopwatch.text)
        driver, scratch = self._function_text("@plan(ptr noalias %slots)")
        return self._split_modules(driver, scratch)

    def body_function(self, control: ControlFlow, name: str, slots: FrameSlots) -> BodyFunction:
        """Emit a body as a function of its own, once for all loops and branches that share its plan
        and its in-place arrays. The caller passes the scratch."""
        plan = control.bodies[name]
        in_place = control.in_place if name == "body" else frozenset()
        body = self.body_functions.get((id(plan), in_place))
        if body is not None:
            return body
        coalesced = control.coalesced if in_place else {}
        if self._is_apart(plan, in_place):
            body = self._body_apart(plan, slots, in_place, coalesced)
        else:
            stopwatch = self.stopwatch if has_steps(plan) else None
            child = DriverWriter(plan, slots, self, stopwatch)
            child.coalesced = coalesced
            child.emit()
            body, text = child.as_body(len(self.body_functions))
            self.bodies.append(text)
            self._describe(body.symbol, control.eqn.op.name, [control.eqn])
        self.body_functions[id(plan), in_place] = body
        return body

    def _is_apart(self, plan: Plan, in_place: frozenset[int]) -> bool:
        if self.where_bodies_are is Bodies.KNOWN_APART:
            return in_place in plan.derived or is_known(plan.function)
        return self.where_bodies_are is Bodies.APART and is_shareable(plan.function)

    def _body_apart(
        self, plan: Plan, slots: FrameSlots, in_place: frozenset[int], coalesced: Coalescing
    ) -> BodyFunction:
        """A body in modules of its own, written once for all programs."""
        if in_place not in plan.derived:
            child = DriverWriter(plan, slots)
            child.coalesced = coalesced
            child.emit()
            body, text = child.as_body(0)
            text = text.replace("define internal", "define", 1)
            program = child._split_modules(text, body.scratch)
            plan.derived[in_place] = body, replace(program, mark=fingerprint(plan.function))
            keep_plan(plan)
        known: tuple[BodyFunction, LoweredProgram] = plan.derived[in_place]
        body, program = known
        symbol = f"@body{len(self.body_functions)}"
        self.programs_of_bodies[symbol[1:]] = program
        self.needs.intrinsics.add(f"declare i64 {symbol}(ptr, ptr)")
        self.symbols |= program.symbols
        return replace(body, symbol=symbol)

    def as_body(self, number: int) -> tuple[BodyFunction, str]:
        """The function of a body, once it is emitted, and its text."""
        symbol = f"@body{number}"
        head = f"{symbol}(ptr noalias %slots, ptr %scratch)"
        text, scratch = self._function_text(head, owns=False)
        return BodyFunction(symbol, scratch, self.has_guards, self.can_raise), text

    def emit(self) -> None:
        """Emit the code, level by level."""
        plan = self.plan
        if self.stopwatch is not None and self.owns_stopwatch:
            self.lines += map(self.stopwatch.lap, (OUTSIDE, CLOCK))
            self.lapped_at = len(self.lines)
        kernels = defaultdict[int, list[Kernel]](list)
        for kernel in plan.kernels:
            kernels[kernel.level].append(kernel)
        for level in range(plan.level_count):
            self.level = level
            for step in plan.unrolled.get(level, ()):
                if isinstance(step, Guard):
                    self.emit_guard(step)
                else:
                    self.emit_unrolled(step)
            self.settle()
            self._emit_steps(plan.products.get(level, ()))
            self._emit_steps(plan.calls.get(level, ()))
            self._emit_steps(plan.controls.get(level, ()))
            in_order: list[Kernel] = sorted(kernels[level], key=self._bytes_written)
            self._emit_steps(in_order)
            self._emit_steps(plan.writes.get(level, ()))
            self.step += 1
        self.emit_outputs()
        self.lap(self.plan)

    def lap(self, step: Kernel | ControlFlow | Step | Plan) -> None:
        """Count the time since the last lap as that of a step; of the plan: of unrolled code, if
        there is some."""
        if self.stopwatch is not None and (
            step is not self.plan or len(self.lines) > self.lapped_at
        ):
            self.lines.append(self.stopwatch.lap(step))
            self.lapped_at = len(self.lines)

    def _emit_steps(self, steps: Iterable[Kernel | Store | ControlFlow | Step]) -> None:
        """Emit steps one after another: a buffer read last by one of them is free for the next."""
        for step in steps:
            self.step += 1
            if isinstance(step, Store):
                self.emit_store(step)
                continue
            self.lap(self.plan)
            match step:
                case Kernel():
                    self.emit_kernel(step)
                case ControlFlow():
                    _emit_control(self, step)
                case _:
                    step.emit(self)
            self.lap(step)

    def _bytes_written(self, kernel: Kernel) -> int:
        """The bytes that a kernel writes. Kernels of one level are independent; those that only
        reduce come first, because operands that they read last are free then."""
        locations = [store.location for store in kernel.stores]
        locations += [self.plan.locations[eqn.out] for eqn in kernel.reductions]
        return sum(
            memory_of(location).type.nbytes for location in locations if location.buffer is not None
        )

    def _function_text(self, header: str, owns: bool = True) -> tuple[str, int]:
        """The text of the function, and its bytes of scratch."""
        size, addresses = self._allocate_scratch(owns)
        varies = any(map(CALL_PATTERN.search, self.lines))
        scratch = ScratchCode(size, varies, self.needs, self.symbols)
        free = scratch.epilogue if owns else lambda _: []  # a body has its caller's scratch
        outputs = {at.output for at in addresses.values() if at.output is not None}
        first_effect = self.first_effect if owns else None
        journal = JournalCode(self.lines, first_effect, self.first_undone)
        self.spills += journal.allocation
        output_pointers = map(self._output_pointer, sorted(outputs))
        head = [f"define internal i64 {header} {{", *self.spills, *output_pointers]
        body = [*(scratch.prologue() if owns else ()), *self.lines]
        tail = [*journal.close(False), *free("done"), "  ret i64 0"]
        if self.has_guards:
            tail += ["fail:", *journal.close(True), *free("failed"), "  ret i64 1"]
        if self.can_raise:
            tail += ["raised:", *journal.close(False), *free("raised"), "  ret i64 -1"]
        driver = "\n".join([*head, *body, *tail, "}"])
        where = {
            str(buffer.number): f"ptr %scratch, i64 {address.offset + scratch.margin}"
            if address.output is None
            else f"ptr %room{address.output}, i64 {address.offset}"
            for buffer, address in addresses.items()
        }
        return _SCRATCH_REFERENCE.sub(lambda m: where[m[1]], driver), scratch.size

    def _split_modules(self, driver: str, scratch: int) -> LoweredProgram:
        """One module; several, where the driver is long."""
        symbols = frozenset(self.symbols)
        of_bodies = (program.ufunc_loops for program in self.programs_of_bodies.values())
        borrowed = frozenset(self.needs.ufunc_loops).union(*of_bodies)
        kernels, merged = deduplicate(list(self.kernels.values()))
        loops: tuple[KernelModule, ...] = ()
        if len(self.lines) > _LONG_DRIVER:
            loops = kernel_modules(kernels, self.needs)
            kernels = []
        texts = [f"define internal {kernel.text}" for kernel in kernels]
        texts += [redirect_calls(text, merged) for text in (*self.bodies, driver)]
        loops += routine_modules(self.needs)
        text, called = module_text(texts, self.needs), tuple(self.needs.callbacks)
        return LoweredProgram(
            text=text,
            kernel_modules=loops,
            symbols=symbols,
            ufunc_loops=borrowed,
            scratch=scratch,
            callbacks=called,
            descriptions=self.descriptions,
            bodies=self.programs_of_bodies,
        )

    def emit_kernel(self, kernel: Kernel) -> None:
        """Call a loop nest."""
        found = kernel_text(self, kernel)
        if found is not None:
            name = self._call(*found)
            pieces = [(*piece.members, *piece.reductions) for piece in kernel.with_fused]
            self._describe(name, "kernel", itertools.chain.from_iterable(pieces))

    def _describe(self, symbol: str, what: str, eqns: Iterable[Eqn]) -> None:
        """Note the user's lines of a function of the module, if other tools want to
        know."""
        if current().perf or current().gdb:
            lines = ", ".join(dict.fromkeys(eqn.where for eqn in eqns if eqn.where))
            self.descriptions.setdefault(symbol[1:].removesuffix(".task"), f"{what} at {lines}")

    def call_loops(self, loops: LoopFunction) -> None:
        """Call the loops of a product by rows."""
        shared = ThreadedKernel(loops.threads, []) if loops.threads > 1 else None
        self._call(loops.text, loops.arguments, shared)
        if loops.join is not None:
            self._call(*loops.join, None)

    def _call(self, text: str, arguments: list[str], shared: ThreadedKernel | None) -> str:
        """Call a function made of loops; equal texts are one function. Returns its name."""
        known = self.kernels.get(text)
        if known is None:
            name = f"@k{len(self.kernels)}"
            types = ", ".join(argument.split()[0] for argument in arguments)
            called, types = (name, types) if shared is None else (f"{name}.task", "ptr, i64")
            known = self.kernels[text] = KernelText(
                called, text.replace("@KERNEL", name), f"declare void {called}({types})"
            )
        if shared is None:
            self.lines.append(f"  call void {known.name}({', '.join(arguments)})")
        else:
            self._call_threaded(known.name, arguments, shared)
        return known.name

    def _call_threaded(self, task: str, arguments: list[str], shared: ThreadedKernel) -> None:
        """Let threads run the parts of a loop, and combine their partial results."""
        frame, partials = f"%frame{len(self.spills)}", f"%partials{len(self.spills)}"
        self.spills.append(f"  {frame} = alloca [{len(arguments) + 1} x i64], align 16")
        count = max(
            [(accumulator.at + 1) * shared.threads for accumulator in shared.accumulators],
            default=1,
        )
        self.spills.append(f"  {partials} = alloca [{count} x i64], align 16")
        self.lines += thread_pool.store_frame([*arguments, f"ptr {partials}"], frame)
        self.symbols.add(thread_pool.NAME)
        self.needs.intrinsics.add(thread_pool.DECLARATION)
        self.lines.append(
            f"  call void @tk.parallel(ptr {task}, ptr {frame}, i64 {shared.threads})"
        )
        for accumulator in shared.accumulators:
            first = accumulator.at * shared.threads
            parts = [
                self.e.load(
                    self.e.write(f"getelementptr i64, ptr {partials}, i64 {first + tid}"),
                    accumulator.summed,
                )
                for tid in range(shared.threads)
            ]
            location = self.plan.locations[accumulator.eqn.out]
            assert location.buffer is not None
            self.e.store(
                accumulator.join(self.e, parts), self.address(memory_of(location), location.start)
            )

    def emit_store(self, store: Store) -> None:
        """Store one element."""
        assert store.value is not None and store.location.buffer is not None
        buffer = store.location.buffer
        dtype, where = buffer.type.dtype, self.address(buffer, store.location.start)
        x = self.e.cast(self.atom(store.value, 0), dtype)
        self.e.store(self.e.add(self.e.load(where, dtype), x) if store.adds else x, where)

    def emit_outputs(self) -> None:
        """Store the unrolled results; the others were computed in their own memory."""
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

    def store_number(self, x: ScalarValue, cell: str) -> None:
        if isinstance(x, ComplexValue):
            self.e.store(x.re, cell)
            self.e.store(x.im, self.e.write(f"getelementptr i64, ptr {cell}, i64 1"))
            return
        if x.dtype.kind == "f":
            self.e.store(x, cell)
            return
        self.e.store(self.e.cast(x, _INT64), cell)

    # Scratch

    def _allocate_scratch(self, owns: bool) -> tuple[int, dict[Buffer, ScratchAddress]]:
        """The bytes of scratch, and the address of each buffer. The results of a body may share
        memory with its operands, so they hold no scratch."""
        lives = {
            buffer: (first, last, buffer.type.nbytes)
            for buffer, (first, last) in self.lifetimes.items()
            if buffer.role == "scratch"
        }
        outputs = {
            self.slots.outputs[buffer.slot]: (first, buffer.type.nbytes)
            for buffer, (first, _) in self.lifetimes.items()
            if owns and buffer.role == "output" and buffer.type.nbytes >= allocator.MIN_BLOCK
        }
        return allocate_scratch(lives, outputs)

    def _output_pointer(self, slot: int) -> str:
        """The memory of a result, for scratch that is dead before the result is written."""
        cell = f"getelementptr i64, ptr %slots, i64 {slot}"
        return f"  %room{slot}.cell = {cell}\n  %room{slot} = load ptr, ptr %room{slot}.cell"
