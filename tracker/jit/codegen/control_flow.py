"""Loops and branches in the driver: nested functions called from counted loops, whiles, switches.

Owns: `write_control`. A body is a driver of its own, `@bodyN(ptr %slots, ptr %scratch)`; its slots
are an array on the caller's stack (`_Frame`): a number lies in its cell, an array's cell holds the
address. Start at `_loop`.

How carries move: an array that is kept is computed right in the row of the stack where the next
step finds it. Another stays in the result's memory, if the body can leave it where it found it; if
not, it goes back and forth between there and a spare. Nothing is copied but what came from outside.

Invariants: every address that is used inside of a loop is taken before it; a body that fails fails
the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Function, Var, acts
from tracker.ir.lowering import Branch, Loop
from tracker.ir.types import Type
from tracker.jit.runtime import interrupt_checks
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.scalar.values import Scalar, literal, memory_type
from tracker.jit.schedule.buffer_reuse import Pair, may_take_place
from tracker.jit.schedule.plan_data import Buffer, Control, Place, Slots
from tracker.support.structs import record

_INT = np.dtype(np.int64)
_BYTES = np.dtype(np.int8)
_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def write_control(driver: Any, control: Control) -> None:
    """Write a loop, a while or a branch."""
    if acts(control.eqn):
        driver.act()
    kind = control.eqn.op.lower
    if isinstance(kind, Loop):
        _loop(_Writer(driver, control))
    elif isinstance(kind, Branch):
        _branch(_Writer(driver, control))
    else:
        _while(_Writer(driver, control))


@record(frozen=True)
class Nested:
    """A body that is written: its symbol, its scratch in bytes, whether it can fail, and whether it
    can leave an exception."""

    symbol: str
    scratch: int
    fails: bool
    raises: bool


def slots_of(function: Function) -> Slots:
    """The slots of a body: a cell per input, then per result."""
    n, m = len(function.inputs), len(function.outputs)
    return Slots(
        tuple(range(n)),
        tuple(bool(v.type.shape) for v in function.inputs),
        (),
        (),
        tuple(range(n, n + m)),
        tuple(bool(atom.type.shape) for atom in function.outputs),
    )


class _Frame:
    """The slots of the calls of one body."""

    def __init__(self, writer: _Writer, name: str) -> None:
        self.w = writer
        driver = writer.driver
        function: Function = writer.control.eqn.params[name]
        self.inputs = [v.type for v in function.inputs]
        self.results = [atom.type for atom in function.outputs]
        n, m = len(self.inputs), len(self.results)
        self.body: Nested = driver.nested(writer.control, name, slots_of(function))
        self.name = writer.stack(f"[{max(n + m, 1)} x i64]")
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
        return self.w.e.write(f"call i64 {self.body.symbol}(ptr {self.name}, ptr {self.scratch})")

    def run(self) -> None:
        """Call the body, and fail if it does."""
        self.w.returned(self.call(), [self.body])


class _Writer:
    """What the three kinds share: places of operands and results, cells, labels."""

    def __init__(self, driver: Any, control: Control) -> None:
        self.driver = driver
        self.e: Emitter = driver.e
        self.control = control
        self.params = control.eqn.params
        self.operands = control.eqn.operands
        self.results = [self._address(place) for place in control.results]

    def _address(self, place: Place) -> str:
        pointer: str = self.driver.address(place.buffer, place.start)
        return pointer

    def stack(self, kind: str) -> str:
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

    def compare(self, relation: str, name: str, value: int) -> Scalar:
        answer: Scalar = self.e.compare(relation, Scalar(name, _INT), literal(value, _INT))
        return answer

    def array(self, atom: Atom) -> str:
        """The address of an operand that is an array."""
        assert not isinstance(atom, Const)
        place = self.control.operands[atom]
        if place.kind == "tiny":
            pointer: str = self.driver.spill(atom)
            return pointer
        return self._address(place)

    def is_there(self, atom: Atom, result: Place) -> bool:
        """Whether an operand lies where a result goes, as it may if nothing else reads it."""
        assert isinstance(atom, Var)
        driver, place = self.driver, self.control.operands[atom]
        old, new = place.buffer, result.buffer
        if old is None or new is None or place.kind == "tiny" or old.type != new.type:
            return False
        readers = [o for o in self.control.operands.values() if o.buffer is old]
        alone = len(readers) == self.operands.count(atom) == 1
        if alone and may_take_place(new, old, driver.carried):
            driver.pairs.append(Pair(driver.step, old, new))
        return driver.homes.get(old) is new

    def pause(self, since: str, step: str, every: int | None) -> None:
        """Now and then, have Python look at its signals; fail if it raises."""
        if every is None:
            return
        driver = self.driver
        driver.symbols.add(interrupt_checks.NAME)
        driver.needs.intrinsics.add(interrupt_checks.DECLARED)
        ask, on = self.labels("ask", "on")
        phase = self.e.write(f"and i64 {step}, {every - 1}")
        due = self.e.write(f"icmp eq i64 {phase}, {every - 1}")
        status = self.stack("i64")
        self.line(f"store i64 0, ptr {status}")
        self.line(f"br i1 {due}, label %{ask}, label %{on}")
        self.label(ask)
        answer = self.e.write(f"call i64 @{interrupt_checks.NAME}(ptr {since})")
        self.line(f"store i64 {answer}, ptr {status}")
        self.line(f"br label %{on}")
        self.label(on)
        driver.require(self.compare("==", self.e.write(f"load i64, ptr {status}"), 0))

    def returned(self, status: str, bodies: Sequence[Nested]) -> None:
        """What one of these bodies says of itself is what the caller says of itself, too."""
        if any(body.raises for body in bodies):
            self.driver.unless_raised(status, any(body.fails for body in bodies))
        elif any(body.fails for body in bodies):
            self.driver.require(self.compare("==", status, 0))

    def clock(self) -> str:
        """The cell that `pause` needs, before the loop."""
        since = self.stack("i64")
        self.line(f"store i64 0, ptr {since}")
        return since

    def give(self, cell: str, atom: Atom) -> None:
        """Put an operand into a cell."""
        if atom.type.shape:
            self.line(f"store ptr {self.array(atom)}, ptr {cell}")
        else:
            self.driver.store_number(self.driver.atom(atom, 0), cell)

    def number(self, cell: str, dtype: np.dtype[Any]) -> Scalar:
        """The number in a cell."""
        if dtype.kind == "f":
            found: Scalar = self.e.load(cell, dtype)
            return found
        return self.e.cast(self.e.load(cell, _INT), dtype)

    def copy(self, to: str, source: str, size: int) -> None:
        self.driver.needs.intrinsics.add(_MEMCPY)
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    def row(self, base: str, type: Type, index: str) -> str:
        """The address of row `index` of a stack of values of this type."""
        if type.shape:
            offset = self.e.write(f"mul i64 {index}, {type.nbytes}")
            address: str = self.e.write(f"getelementptr i8, ptr {base}, i64 {offset}")
            return address
        kind = memory_type(type.dtype)
        element: str = self.e.write(f"getelementptr {kind}, ptr {base}, i64 {index}")
        return element

    def move(self, source: str, to: str) -> None:
        """Copy a cell, whatever it holds."""
        self.line(f"store i64 {self.e.write(f'load i64, ptr {source}')}, ptr {to}")

    def end(self, types: Sequence[Type], cells: Sequence[str]) -> None:
        """Numbers in cells become the first results."""
        for type, cell, result in zip(types, cells, self.results, strict=False):
            if not type.shape:
                self.e.store(self.number(cell, type.dtype), result)


class _Carries:
    """The carries of a loop: cells of a frame, and where each step leaves them."""

    def __init__(self, writer: _Writer, frame: _Frame, start: Sequence[Atom]) -> None:
        w = self.w = writer
        self.frame = frame
        self.types = frame.results[: len(start)]
        self.stay = w.control.stay
        self.spares = {
            at: w.driver.pointer(spare)
            for at, spare in enumerate(w.control.spares)
            if spare is not None and at not in self.stay
        }
        keep = w.params["keep"]
        after = len(w.results) - len(keep)
        self.stacks = {at: w.results[after + i] for i, at in enumerate(keep)}
        self.begin: list[Any] = [w.array(a) if a.type.shape else w.driver.atom(a, 0) for a in start]
        self.there = {at for at in self.stay if w.is_there(start[at], w.control.results[at])}

    def cell(self, at: int) -> str:
        return self.frame.cell(self.w.control.first + at)

    def cells(self) -> list[str]:
        return [self.cell(at) for at in range(len(self.types))]

    def enter(self, index: str) -> None:
        """Before the first step, whose index this is."""
        for at, (type, begin) in enumerate(zip(self.types, self.begin, strict=True)):
            if not type.shape:
                self.w.driver.store_number(begin, self.cell(at))
                continue
            if at in self.stacks:
                row = self.w.row(self.stacks[at], type, index)
                self.w.copy(row, begin, type.nbytes)
                begin = row
            elif at in self.stay:
                if at not in self.there:
                    self.w.copy(self.w.results[at], begin, type.nbytes)
                begin = self.w.results[at]
            self.w.line(f"store ptr {begin}, ptr {self.cell(at)}")

    def prepare(self, index: str, following: str, last: str | None, even: str) -> None:
        """Before a step: where it leaves what it makes.

        following: the next step's index; last: whether there is none (unknown: None); even: whether
        what is not kept goes to the result's memory now, rather than to the spare.
        """
        w = self.w
        for at, type in enumerate(self.types):
            stack = self.stacks.get(at)
            if not type.shape:
                if stack is not None:
                    w.e.store(w.number(self.cell(at), type.dtype), w.row(stack, type, index))
                continue
            target = home = w.results[at]
            if at in self.spares:
                target = w.e.write(f"select i1 {even}, ptr {home}, ptr {self.spares[at]}")
            elif stack is not None:
                target = w.row(stack, type, following)
                if last is not None:
                    target = w.e.write(f"select i1 {last}, ptr {home}, ptr {target}")
            w.line(f"store ptr {target}, ptr {self.frame.result(at)}")

    def advance(self) -> None:
        """After a step: what it made is what the next one finds."""
        for at in range(len(self.types)):
            self.w.move(self.frame.result(at), self.cell(at))

    def unchanged(self) -> None:
        """There was no step: results are what came in."""
        for type, begin, result in zip(self.types, self.begin, self.w.results, strict=False):
            if type.shape:
                self.w.copy(result, begin, type.nbytes)
            else:
                self.w.e.store(begin, result)


def _loop(w: _Writer) -> None:
    consts, carries = w.params["consts"], w.params["carries"]
    count, *operands = w.operands
    frame = _Frame(w, "body")
    for at, atom in enumerate(operands[:consts]):
        w.give(frame.cell(at), atom)
    state = _Carries(w, frame, operands[consts : consts + carries])
    rows = [
        (w.array(a), type)
        for a, type in zip(
            operands[consts + carries :], frame.inputs[consts + carries :], strict=True
        )
    ]
    n = w.e.cast(w.driver.atom(count, 0), _INT).name
    counter = w.stack("i64")
    start, again, none, done = w.labels("start", "loop", "none", "done")
    w.line(f"br i1 {w.e.write(f'icmp sgt i64 {n}, 0')}, label %{start}, label %{none}")
    w.label(start)
    top = w.e.write(f"sub i64 {n}, 1")
    state.enter(top if w.params["reverse"] else "0")
    w.line(f"store i64 0, ptr {counter}")
    since = w.clock()
    w.line(f"br label %{again}")
    w.label(again)
    k = w.e.write(f"load i64, ptr {counter}")
    w.pause(since, k, interrupt_checks.every(w.control.bodies["body"], count))
    left = w.e.write(f"sub i64 {top}, {k}")
    index, step = (left, -1) if w.params["reverse"] else (k, 1)
    following = w.e.write(f"add i64 {index}, {step}")
    last = w.e.write(f"icmp eq i64 {left}, 0")
    odd = w.e.write(f"trunc i64 {left} to i1")
    state.prepare(index, following, last, w.e.write(f"xor i1 {odd}, true"))
    for at, (base, type) in enumerate(rows, consts + carries):
        element = w.row(base, type, index)
        if type.shape:
            w.line(f"store ptr {element}, ptr {frame.cell(at)}")
        else:
            w.driver.store_number(w.e.load(element, type.dtype), frame.cell(at))
    ys = list(enumerate(frame.results[carries:], carries))
    for at, type in ys:
        if type.shape:
            w.line(f"store ptr {w.row(w.results[at], type, index)}, ptr {frame.result(at)}")
    frame.run()
    for at, type in ys:
        if not type.shape:
            w.e.store(w.number(frame.result(at), type.dtype), w.row(w.results[at], type, index))
    state.advance()
    w.line(f"store i64 {w.e.write(f'add i64 {k}, 1')}, ptr {counter}")
    (ended,) = w.labels("ended")
    w.line(f"br i1 {last}, label %{ended}, label %{again}")
    w.label(ended)
    w.end(state.types, state.cells())
    w.line(f"br label %{done}")
    w.label(none)
    state.unchanged()
    w.line(f"br label %{done}")
    w.label(done)


def _while(w: _Writer) -> None:
    of_cond, of_body = w.params["cond_consts"], w.params["body_consts"]
    capacity = w.params["capacity"]
    start = w.operands[of_cond + of_body :]
    asked, frame = _Frame(w, "cond"), _Frame(w, "body")
    for at, atom in enumerate(w.operands[:of_cond]):
        w.give(asked.cell(at), atom)
    for at, atom in enumerate(w.operands[of_cond : of_cond + of_body]):
        w.give(frame.cell(at), atom)
    state = _Carries(w, frame, start)
    counter = w.stack("i64")
    w.line(f"store i64 0, ptr {counter}")
    since = w.clock()
    state.enter("0")
    again, body, done = w.labels("while", "body", "done")
    w.line(f"br label %{again}")
    w.label(again)
    for at in range(len(start)):
        w.move(state.cell(at), asked.cell(of_cond + at))
    asked.run()
    holds = w.number(asked.result(0), asked.results[0].dtype)
    w.line(f"br i1 {w.e.truth(holds).name}, label %{body}, label %{done}")
    w.label(body)
    k = w.e.write(f"load i64, ptr {counter}")
    w.pause(since, k, interrupt_checks.every(w.control.bodies["body"], None))
    following = w.e.write(f"add i64 {k}, 1")
    if w.params["keep"]:
        w.driver.require(w.compare("<", following, capacity))
    odd = w.e.write(f"trunc i64 {k} to i1")
    state.prepare(k, following, None, w.e.write(f"xor i1 {odd}, true"))
    frame.run()
    state.advance()
    w.line(f"store i64 {following}, ptr {counter}")
    w.line(f"br label %{again}")
    w.label(done)
    w.end(state.types, state.cells())
    for at, type in enumerate(state.types):
        if type.shape and at not in state.stay:  # memcpy allows for source and target being one
            found = w.e.write(f"load ptr, ptr {state.cell(at)}")
            w.copy(w.results[at], found, type.nbytes)
    w.move(counter, w.results[len(start)])


def _branch(w: _Writer) -> None:
    index, *operands = w.operands
    n = w.e.cast(w.driver.atom(index, 0), _INT).name
    names = list(w.params)
    frames = [_Frame(w, name) for name in names]
    for frame in frames:
        for at, atom in enumerate(operands):
            w.give(frame.cell(at), atom)
    status = w.stack("i64")
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
        w.end(frame.results, [frame.result(at) for at in range(len(frame.results))])
        w.line(f"br label %{done}")
    w.label(done)
    w.returned(w.e.write(f"load i64, ptr {status}"), [frame.body for frame in frames])
