"""Loops, whiles and branches: bodies as functions, called from the driver.

A body is a driver of its own, `@bodyN(ptr %slots, ptr %scratch)`. Its slots are an array on the
caller's stack (`_BodyFrame`): a number is in its cell, an array's cell holds the address. Start at
`_emit_loop`.

How carried arrays move: an array that is saved at each step is computed right in the row of the
stack where the next step reads it. Another one stays in the result's memory if the body can update
it in place; if not, it alternates between the result and a spare buffer. Only initial values are
copied.

Invariants: every address used inside of a loop is computed before the loop; if a body fails, its
caller fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Atom, Const, Function, Var, has_side_effects
from tracker.ir.lowering import Branch, Loop
from tracker.ir.types import Type
from tracker.jit.codegen.stopwatch import is_open
from tracker.jit.runtime import interrupt_checks
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import ScalarValue, literal, memory_type
from tracker.jit.schedule.buffer_coalescing import CoalescingCandidate, may_coalesce
from tracker.jit.schedule.plan_data import (
    Buffer,
    ControlFlow,
    FrameSlots,
    Location,
    Plan,
    Unrolled,
    memory_of,
)

if TYPE_CHECKING:
    from tracker.jit.codegen.lower import BodyFunction, DriverWriter

_INT64 = np.dtype(np.int64)
_BYTES = np.dtype(np.int8)
_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_MEMSET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"


def emit_control(driver: DriverWriter, control: ControlFlow) -> None:
    """Emit a loop, a while or a branch."""
    if has_side_effects(control.eqn):
        driver.begin_effects()
    kind = control.eqn.op.lower
    if isinstance(kind, Loop):
        _emit_loop(_ControlWriter(driver, control))
    elif isinstance(kind, Branch):
        _emit_branch(_ControlWriter(driver, control))
    else:
        _emit_while(_ControlWriter(driver, control))


def body_slots(function: Function) -> FrameSlots:
    """The slots of a body: a cell per input, then per result."""
    n, m = len(function.inputs), len(function.outputs)
    return FrameSlots(
        inputs=tuple(range(n)),
        input_is_array=tuple(bool(v.type.shape) for v in function.inputs),
        captures=(),
        capture_is_array=(),
        outputs=tuple(range(n, n + m)),
        output_is_array=tuple(bool(atom.type.shape) for atom in function.outputs),
    )


class _BodyFrame:
    """The slots for calls of one body."""

    def __init__(self, writer: _ControlWriter, name: str) -> None:
        self.w = writer
        driver = writer.driver
        function: Function = writer.control.eqn.params[name]
        self.inputs = [v.type for v in function.inputs]
        self.results = [atom.type for atom in function.outputs]
        n, m = len(self.inputs), len(self.results)
        self.body: BodyFunction = driver.body_function(writer.control, name, body_slots(function))
        self.name = writer.alloca(f"[{max(n + m, 1)} x i64]")
        self.scratch = "null"
        if self.body.scratch:
            buffer = Buffer(len(driver.plan.buffers), Type((self.body.scratch,), _BYTES), "scratch")
            driver.plan.buffers.append(buffer)
            self.scratch = driver.pointer(buffer)

    def cell(self, at: int) -> str:
        return self.w.e.write(f"getelementptr i64, ptr {self.name}, i64 {at}") if at else self.name

    def result(self, at: int) -> str:
        return self.cell(len(self.inputs) + at)

    def call(self) -> str:
        driver, control = self.w.driver, self.w.control
        if driver.stopwatch is not None and is_open(control):
            driver.lap(control)
        return self.w.e.write(f"call i64 {self.body.symbol}(ptr {self.name}, ptr {self.scratch})")

    def run(self) -> None:
        """Call the body, and fail if it does."""
        self.w.propagate_status(self.call(), [self.body])


class _ControlWriter:
    """Shared by the three kinds: addresses of operands and results, cells, labels."""

    def __init__(self, driver: DriverWriter, control: ControlFlow) -> None:
        self.driver = driver
        self.e: Emitter = driver.e
        self.control = control
        self.params = control.eqn.params
        self.operands = control.eqn.operands
        self.results = [self._address(location) for location in control.results]

    def _address(self, location: Location) -> str:
        return self.driver.address(memory_of(location), location.start)

    def alloca(self, kind: str) -> str:
        name = f"%control{len(self.driver.spills)}"
        self.driver.spills.append(f"  {name} = alloca {kind}, align 16")
        return name

    def line(self, text: str) -> None:
        self.driver.lines.append(f"  {text}")

    def labels(self, *names: str) -> list[str]:
        number = self.e.names.fresh()[1:]
        return [f"{name}.{number}" for name in names]

    def label(self, name: str) -> None:
        self.driver.lines.append(f"{name}:")

    def compare(self, relation: str, name: str, value: int) -> ScalarValue:
        answer: ScalarValue = self.e.compare(
            relation, ScalarValue(name, _INT64), literal(value, _INT64)
        )
        return answer

    def array_address(self, atom: Atom) -> str:
        """The address of an array operand."""
        assert not isinstance(atom, Const)
        location = self.control.operands[atom]
        if isinstance(location, Unrolled):
            return self.driver.spill(atom)
        return self._address(location)

    def is_in_place(self, atom: Atom, result: Location) -> bool:
        """Whether an operand shares the memory of a result, as it may if nothing else reads it."""
        assert isinstance(atom, Var)
        driver, location = self.driver, self.control.operands[atom]
        old, new = location.buffer, result.buffer
        if isinstance(location, Unrolled) or old is None or new is None or old.type != new.type:
            return False
        readers = [o for o in self.control.operands.values() if o.buffer is old]
        alone = len(readers) == self.operands.count(atom) == 1
        if alone and may_coalesce(new, old, driver.carried):
            driver.candidates.append(CoalescingCandidate(driver.step, old, new))
        return driver.coalesced.get(old) is new

    def check_interrupts(self, since: str, step: str, every: int | None) -> None:
        """Every `every` steps, let Python handle signals; fail if a handler raises."""
        if every is None:
            return
        driver = self.driver
        driver.symbols.add(interrupt_checks.NAME)
        driver.needs.intrinsics.add(interrupt_checks.DECLARATION)
        ask, on = self.labels("ask", "on")
        phase = self.e.write(f"and i64 {step}, {every - 1}")
        due = self.e.write(f"icmp eq i64 {phase}, {every - 1}")
        status = self.alloca("i64")
        self.line(f"store i64 0, ptr {status}")
        self.line(f"br i1 {due}, label %{ask}, label %{on}")
        self.label(ask)
        answer = self.e.write(f"call i64 @{interrupt_checks.NAME}(ptr {since})")
        self.line(f"store i64 {answer}, ptr {status}")
        self.line(f"br label %{on}")
        self.label(on)
        driver.require(self.compare("==", self.e.write(f"load i64, ptr {status}"), 0))

    def propagate_status(self, status: str, bodies: Sequence[BodyFunction]) -> None:
        """Fail or raise if a body did."""
        if any(body.can_raise for body in bodies):
            self.driver.check_status(status, any(body.can_fail for body in bodies))
        elif any(body.can_fail for body in bodies):
            self.driver.require(self.compare("==", status, 0))

    def interrupt_cell(self) -> str:
        """The cell that `check_interrupts` needs, before the loop."""
        since = self.alloca("i64")
        self.line(f"store i64 0, ptr {since}")
        return since

    def pass_operand(self, cell: str, atom: Atom) -> None:
        """Store an operand in a cell."""
        if atom.type.shape:
            self.line(f"store ptr {self.array_address(atom)}, ptr {cell}")
        else:
            self.driver.store_number(self.driver.atom(atom, 0), cell)

    def copy(self, to: str, source: str, size: int) -> None:
        self.driver.needs.intrinsics.add(_MEMCPY)
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    def clear_rows(self, base: str, type: Type, first: str, length: int) -> None:
        """Zero the rows of a stack from one on: no step has written them."""
        self.driver.needs.intrinsics.add(_MEMSET)
        row = self.stack_row(base, type, first)
        size = self.e.write(f"mul i64 {self.e.write(f'sub i64 {length}, {first}')}, {type.nbytes}")
        self.line(f"call void @llvm.memset.p0.i64(ptr {row}, i8 0, i64 {size}, i1 false)")

    def row_stride(self, atom: Atom, type: Type) -> int:
        """The elements from one row of an operand to the next."""
        location = self.control.operands[atom]  # type: ignore[index]
        return type.size if isinstance(location, Unrolled) else location.strides[0]

    def stack_row(self, base: str, type: Type, index: str, stride: int | None = None) -> str:
        """The address of row `index` of a stack of values of this type; `stride`: the elements
        from one row to the next, if they do not follow each other."""
        if type.shape or stride not in (None, 1):
            distance = (type.size if stride is None else stride) * type.dtype.itemsize
            offset = self.e.write(f"mul i64 {index}, {distance}")
            return self.e.write(f"getelementptr i8, ptr {base}, i64 {offset}")
        kind = memory_type(type.dtype)
        return self.e.write(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def move_cell(self, source: str, to: str, type: Type) -> None:
        """Copy a cell that holds a value of this type."""
        kind = "ptr" if type.shape else memory_type(type.dtype) if type.dtype.kind == "f" else "i64"
        self.line(f"store {kind} {self.e.write(f'load {kind}, ptr {source}')}, ptr {to}")

    def store_numbers(self, types: Sequence[Type], cells: Sequence[str]) -> None:
        """Store the numbers in cells as the first results."""
        for type, cell, result in zip(types, cells, self.results, strict=False):
            if not type.shape:
                self.e.store(self.driver.load_number(cell, type.dtype), result)


class _Carries:
    """The carried values of a loop: their cells in a frame, and where each step writes them."""

    def __init__(self, writer: _ControlWriter, frame: _BodyFrame, start: Sequence[Atom]) -> None:
        w = self.w = writer
        self.frame = frame
        self.types = frame.results[: len(start)]
        self.in_place = w.control.in_place
        self.spares = {
            at: w.driver.pointer(spare)
            for at, spare in enumerate(w.control.spares)
            if spare is not None and at not in self.in_place
        }
        keep = w.params["keep"]
        after = len(w.results) - len(keep)
        self.stacks = {at: w.results[after + i] for i, at in enumerate(keep)}
        self.start_values: list[Any] = [
            w.array_address(a) if a.type.shape else w.driver.atom(a, 0) for a in start
        ]
        self.already_in_place = {
            at for at in self.in_place if w.is_in_place(start[at], w.control.results[at])
        }

    def cell(self, at: int) -> str:
        return self.frame.cell(self.w.control.first_carry + at)

    def cells(self) -> list[str]:
        return [self.cell(at) for at in range(len(self.types))]

    def initialise(self, index: str) -> None:
        """Before the first step, whose index is given."""
        for at, (type, begin) in enumerate(zip(self.types, self.start_values, strict=True)):
            if not type.shape:
                self.w.driver.store_number(begin, self.cell(at))
                continue
            if at in self.stacks:
                row = self.w.stack_row(self.stacks[at], type, index)
                self.w.copy(row, begin, type.nbytes)
                begin = row
            elif at in self.in_place:
                if at not in self.already_in_place:
                    self.w.copy(self.w.results[at], begin, type.nbytes)
                begin = self.w.results[at]
            self.w.line(f"store ptr {begin}, ptr {self.cell(at)}")

    def prepare(self, index: str, following: str, last: str | None, even: str) -> None:
        """Before a step: the address for each array that it writes.

        following: the next step's index; last: whether this step is the last (None: unknown); even:
        whether arrays that are not saved go to the result's memory now, rather than to the spare.
        """
        w = self.w
        for at, type in enumerate(self.types):
            stack = self.stacks.get(at)
            if not type.shape:
                if stack is not None:
                    number = w.driver.load_number(self.cell(at), type.dtype)
                    w.e.store(number, w.stack_row(stack, type, index))
                continue
            target = result = w.results[at]
            if at in self.spares:
                target = w.e.write(f"select i1 {even}, ptr {result}, ptr {self.spares[at]}")
            elif stack is not None:
                target = w.stack_row(stack, type, following)
                if last is not None:
                    target = w.e.write(f"select i1 {last}, ptr {result}, ptr {target}")
            w.line(f"store ptr {target}, ptr {self.frame.result(at)}")

    def advance(self) -> None:
        """After a step: its results are the next step's carries."""
        for at, type in enumerate(self.types):
            self.w.move_cell(self.frame.result(at), self.cell(at), type)

    def copy_start_values(self) -> None:
        """Without a step, the results are the initial values."""
        for type, begin, result in zip(self.types, self.start_values, self.w.results, strict=False):
            if type.shape:
                self.w.copy(result, begin, type.nbytes)
            else:
                self.w.e.store(begin, result)


def _check_interval(body: Plan, count: Atom | None) -> int | None:
    """After how many steps (of `count`, if known) a loop checks for interrupts; None: never."""
    elements = sum(math.prod(kernel.space) for kernel in body.kernels)
    is_slow = any((body.products, body.calls, body.controls))
    return interrupt_checks.check_interval(elements, is_slow, count)


def _emit_loop(w: _ControlWriter) -> None:
    const_count, carry_count = w.params["consts"], w.params["carries"]
    count, *operands = w.operands
    frame = _BodyFrame(w, "body")
    for at, atom in enumerate(operands[:const_count]):
        w.pass_operand(frame.cell(at), atom)
    state = _Carries(w, frame, operands[const_count : const_count + carry_count])
    rows = [
        (w.array_address(a), type, w.row_stride(a, type))
        for a, type in zip(
            operands[const_count + carry_count :],
            frame.inputs[const_count + carry_count :],
            strict=True,
        )
    ]
    n = w.e.cast(w.driver.atom(count, 0), _INT64).name
    counter = w.alloca("i64")
    start, loop, none, done = w.labels("start", "loop", "none", "done")
    w.line(f"br i1 {w.e.write(f'icmp sgt i64 {n}, 0')}, label %{start}, label %{none}")
    w.label(start)
    top = w.e.write(f"sub i64 {n}, 1")
    state.initialise(top if w.params["reverse"] else "0")
    w.line(f"store i64 0, ptr {counter}")
    since = w.interrupt_cell()
    w.line(f"br label %{loop}")
    w.label(loop)
    step_count = w.e.write(f"load i64, ptr {counter}")
    w.check_interrupts(since, step_count, _check_interval(w.control.bodies["body"], count))
    remaining = w.e.write(f"sub i64 {top}, {step_count}")
    index, step = (remaining, -1) if w.params["reverse"] else (step_count, 1)
    following = w.e.write(f"add i64 {index}, {step}")
    last = w.e.write(f"icmp eq i64 {remaining}, 0")
    odd = w.e.write(f"trunc i64 {remaining} to i1")
    state.prepare(index, following, last, w.e.write(f"xor i1 {odd}, true"))
    for at, (base, type, stride) in enumerate(rows, const_count + carry_count):
        element = w.stack_row(base, type, index, stride)
        if type.shape:
            w.line(f"store ptr {element}, ptr {frame.cell(at)}")
        else:
            w.driver.store_number(w.e.load(element, type.dtype), frame.cell(at))
    ys = list(enumerate(frame.results[carry_count:], carry_count))
    for at, type in ys:
        if type.shape:
            w.line(f"store ptr {w.stack_row(w.results[at], type, index)}, ptr {frame.result(at)}")
    frame.run()
    for at, type in ys:
        if not type.shape:
            number = w.driver.load_number(frame.result(at), type.dtype)
            w.e.store(number, w.stack_row(w.results[at], type, index))
    state.advance()
    w.line(f"store i64 {w.e.write(f'add i64 {step_count}, 1')}, ptr {counter}")
    (ended,) = w.labels("ended")
    w.line(f"br i1 {last}, label %{ended}, label %{loop}")
    w.label(ended)
    w.store_numbers(state.types, state.cells())
    w.line(f"br label %{done}")
    w.label(none)
    state.copy_start_values()
    w.line(f"br label %{done}")
    w.label(done)
    if not isinstance(count, Const):
        done_steps = w.e.write(f"select i1 {w.e.write(f'icmp sgt i64 {n}, 0')}, i64 {n}, i64 0")
        for at, type in ys:
            w.clear_rows(w.results[at], type, done_steps, w.params["length"])


def _emit_while(w: _ControlWriter) -> None:
    cond_count, body_count = w.params["cond_consts"], w.params["body_consts"]
    capacity = w.params["capacity"]
    start = w.operands[cond_count + body_count :]
    condition, frame = _BodyFrame(w, "cond"), _BodyFrame(w, "body")
    for at, atom in enumerate(w.operands[:cond_count]):
        w.pass_operand(condition.cell(at), atom)
    for at, atom in enumerate(w.operands[cond_count : cond_count + body_count]):
        w.pass_operand(frame.cell(at), atom)
    state = _Carries(w, frame, start)
    counter = w.alloca("i64")
    w.line(f"store i64 0, ptr {counter}")
    since = w.interrupt_cell()
    state.initialise("0")
    loop, body, done = w.labels("while", "body", "done")
    w.line(f"br label %{loop}")
    w.label(loop)
    for at, type in enumerate(state.types):
        w.move_cell(state.cell(at), condition.cell(cond_count + at), type)
    condition.run()
    holds = w.driver.load_number(condition.result(0), condition.results[0].dtype)
    w.line(f"br i1 {w.e.truth(holds).name}, label %{body}, label %{done}")
    w.label(body)
    step_count = w.e.write(f"load i64, ptr {counter}")
    w.check_interrupts(since, step_count, _check_interval(w.control.bodies["body"], None))
    following = w.e.write(f"add i64 {step_count}, 1")
    if w.params["keep"]:
        w.driver.require(w.compare("<", following, capacity))
    odd = w.e.write(f"trunc i64 {step_count} to i1")
    state.prepare(step_count, following, None, w.e.write(f"xor i1 {odd}, true"))
    frame.run()
    state.advance()
    w.line(f"store i64 {following}, ptr {counter}")
    w.line(f"br label %{loop}")
    w.label(done)
    w.store_numbers(state.types, state.cells())
    for at, type in enumerate(state.types):
        if type.shape and at not in state.in_place:  # memcpy allows source and target to be equal
            found = w.e.write(f"load ptr, ptr {state.cell(at)}")
            w.copy(w.results[at], found, type.nbytes)
    w.move_cell(counter, w.results[len(start)], Type((), _INT64))


def _emit_branch(w: _ControlWriter) -> None:
    index, *operands = w.operands
    n = w.e.cast(w.driver.atom(index, 0), _INT64).name
    names = list(w.params)
    frames = [_BodyFrame(w, name) for name in names]
    for frame in frames:
        for at, atom in enumerate(operands):
            w.pass_operand(frame.cell(at), atom)
    status = w.alloca("i64")
    targets = w.labels(*names)
    (done,) = w.labels("done")
    cases = " ".join(f"i64 {i}, label %{target}" for i, target in enumerate(targets))
    w.line(f"switch i64 {n}, label %{targets[-1]} [ {cases} ]")
    for frame, target in zip(frames, targets, strict=True):
        w.label(target)
        for at, type in enumerate(frame.results):
            if type.shape:
                w.line(f"store ptr {w.results[at]}, ptr {frame.result(at)}")
        w.line(f"store i64 {frame.call()}, ptr {status}")
        w.store_numbers(frame.results, [frame.result(at) for at in range(len(frame.results))])
        w.line(f"br label %{done}")
    w.label(done)
    w.propagate_status(w.e.write(f"load i64, ptr {status}"), [frame.body for frame in frames])
